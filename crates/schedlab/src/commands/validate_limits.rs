//! `schedlab validate --limits`: whether CPU limits change a real kernel's tail latency as they change the judged one.
//!
//! The real kernel is in deterministic guests, on this host, or in an earlier result (`--real`). What is judged is
//! simulated by itself, so that an earlier result does with it alone.

use super::validate::{ValidateArgs, reason};
use crate::{cases, common, output};
use schedlab_base::{Backend, Error, ErrorKind, Result, Version, input};
use schedlab_compare::agreement::NotRun;
use schedlab_compare::agreement::limits::{Limits, LimitsResult, RealLimits};
use schedlab_lab::ask::experiment::Experiment;
use schedlab_lab::ask::guests::GuestSetup;
use schedlab_lab::judge::validate::limits::{self, LimitCase};
use schedlab_lab::judge::validate::sides::simulated_runs;
use schedlab_lab::{Options, RunRequest};
use schedlab_record::Record;
use schedlab_report::text::wrap;

/// Runs or lists the cases, and prints the result in a form of `validate`.
///
/// # Errors
/// For an error in a case, when a run fails although this machine can make it, and when too few changes agree.
pub fn run(args: &ValidateArgs, form: &str) -> Result<()> {
    if args.backend == Some(Backend::Host) && !args.kernel.is_empty() {
        return Err(Error::input("--kernel is for guests: the host runs its own").help("leave it out"));
    }
    args.judged()?;
    let all = match args.files.as_slice() {
        [] => cases::limits(common::cpus())?,
        files => files.iter().map(|f| limits::load(f, common::cpus())).collect::<Result<_>>()?,
    };
    let chosen = cases::named(all, &args.case, |c| &c.experiment.name)?;
    if args.list {
        return output::result(|out| {
            chosen
                .iter()
                .map(|c| &c.experiment)
                .try_for_each(|e| write!(out, "{}", wrap(&format!("{:<28}", e.name), &e.about)))
        });
    }
    let found = all_of(args, &chosen)?;
    match form {
        "json" | "stored" => {
            let text = found.write().map_err(|e| Error::internal(e.to_string()))?;
            output::result(|out| out.write_all(text.as_bytes()))?;
        }
        "markdown" => output::result(|out| schedlab_report::limits::markdown(&found, out))?,
        _ => output::result(|out| schedlab_report::limits::text(&found, out))?,
    }
    match (found.passed(), found.cases.is_empty()) {
        (true, _) => Ok(()),
        (false, true) => {
            let help = match args.real {
                Some(_) => "without --real the cases are run",
                None => "'schedlab doctor' says what is missing",
            };
            Err(Error::machine("no case could be run here").help(help))
        }
        (false, false) => {
            let text = "a case was not run, or too few limits change its latency as they change the real one";
            Err(Error::new(ErrorKind::CheckFailed, text)
                .help("where few changes have a sign, more --runs may tell"))
        }
    }
}

/// Runs the cases one after the other, under each kernel. A case that can't be run does not stop the others.
fn all_of(args: &ValidateArgs, chosen: &[LimitCase]) -> Result<Limits> {
    let earlier = args.real.as_ref().map(|file| {
        let read =
            |text: String| Limits::read(&text).map_err(|e| Error::input(format!("{}: {e}", file.display())));
        input::text(file).and_then(read)
    });
    let earlier = earlier.transpose()?;
    let (mut done, mut not_run) = (Vec::new(), Vec::new());
    let own: Vec<LimitCase> = match args.kernel.as_slice() {
        [] => chosen.to_vec(),
        kernels => kernels.iter().flat_map(|k| chosen.iter().map(|c| c.clone().under(k))).collect(),
    };
    for case in &own {
        let name = &case.experiment.name;
        match judge(args, case, earlier.as_ref()) {
            Ok(Some(result)) => done.push(result),
            Ok(None) => not_run.push(NotRun { name: name.clone(), why: "one side has no run".to_owned() }),
            Err(e) if matches!(e.kind(), ErrorKind::Machine | ErrorKind::Guest | ErrorKind::Input) => {
                not_run.push(NotRun { name: name.clone(), why: reason(name, &e) });
            }
            Err(e) => return Err(e.context(format!("case {name}"))),
        }
    }
    Ok(Limits::of(done, not_run))
}

/// A case; `None` if a side has no run.
///
/// # Errors
/// As a run, and when the earlier result does not have the case under this kernel.
fn judge(args: &ValidateArgs, case: &LimitCase, earlier: Option<&Limits>) -> Result<Option<LimitsResult>> {
    let (backend, judged) = (args.backend.unwrap_or(Backend::Vm), args.judged()?);
    if let Some(all) = earlier {
        let kept = all.cases.iter().find(|kept| is_of(kept, case, backend));
        let kept = kept.ok_or_else(|| {
            let kernel = case.experiment.variants.first().map_or("", |v| v.kernel.as_str());
            Error::input(format!("the earlier result does not have it under {kernel}"))
        })?;
        let records = simulated(args, case, (backend, judged), kept.real.runs as u64)?;
        return Ok(case.question().judge(RealLimits::Earlier(kept), &records));
    }
    let experiment = if backend == Backend::Host { case.on_host() } else { case.experiment.clone() };
    let real = made(args, experiment, backend, args.runs)?;
    let runs = real.iter().filter(|r| r.variant.name == case.experiment.baseline).count() as u64;
    let records = simulated(args, case, (backend, judged), runs)?;
    Ok(case.question().judge(RealLimits::Runs(&real), &records))
}

/// Whether a kept result is of this case: in guests also of its kernel's series.
fn is_of(kept: &LimitsResult, case: &LimitCase, backend: Backend) -> bool {
    let series = |kernel: &str| Version::parse(kernel).map(|v| (v.major, v.minor)).ok();
    let own = case.experiment.variants.first().and_then(|v| series(&v.kernel));
    kept.name == case.experiment.name
        && kept.real.backend == backend
        && (backend == Backend::Host || own == series(&kept.real.kernel))
}

/// The judged runs beside `runs` runs of a real backend.
fn simulated(
    args: &ValidateArgs,
    case: &LimitCase,
    (beside, judged): (Backend, Backend),
    runs: u64,
) -> Result<Vec<Record>> {
    let experiment = if beside == Backend::Host { case.beside_host()? } else { case.beside_guests()? };
    made(args, experiment, judged, Some(simulated_runs(runs)))
}

/// The runs of an experiment on a backend.
fn made(
    args: &ValidateArgs,
    experiment: Experiment,
    backend: Backend,
    runs: Option<u64>,
) -> Result<Vec<Record>> {
    let request = RunRequest {
        backend,
        wanted: Options { runs, ..Options::default() },
        jobs: args.jobs,
        guest: GuestSetup::deterministic(),
        level: args.code.level()?.filter(|_| backend == Backend::Code),
        out: args.out.clone(),
        ..RunRequest::default()
    };
    let mut records = common::compared(&request, experiment, args.quiet)?.records;
    records.retain(|record| record.backend == backend);
    Ok(records)
}
