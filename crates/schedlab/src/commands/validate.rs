//! `schedlab validate`: compares the simulator with real kernels, case by case.

use crate::cli::Entry;
use crate::progress::Bar;
use crate::{cases, common, interrupt, output};
use clap::{ArgMatches, Args, Command, FromArgMatches};
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_lab::experiment::MAX_RUNS;
use schedlab_lab::validate::case::{self, Case, Real};
use schedlab_lab::validate::sides::{self, Sides};
use schedlab_lab::validate::{Again, CaseResult, NotRun, Probing, Validation, run_and_judge};
use schedlab_lab::{Finished, Plan, Session};
use schedlab_record::Store;
use schedlab_report::{text::wrap, validation};
use std::path::PathBuf;

pub const ENTRY: Entry = Entry { command, run };

const FORMS: &[&str] = &["table", "markdown", "json"];

#[derive(Args)]
struct Own {
    /// Case files, instead of those that ship with schedlab
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Only this case; may be given more than once
    #[arg(long, value_name = "NAME")]
    case: Vec<String>,
    /// Only cases with this backend for the real kernel: host (the running kernel) or vm (a kernel in a guest)
    #[arg(long, value_name = "BACKEND")]
    backend: Option<String>,
    /// List the cases
    #[arg(long)]
    list: bool,
    /// Runs of the real side; overrides the cases'. Without it, a case makes up to sixteen times as many (on the host
    /// four) where the real means are not known well enough
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=MAX_RUNS))]
    runs: Option<u64>,
    /// Simulations side by side; all CPUs by default. Live runs are made one at a time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1024))]
    jobs: Option<u64>,
    /// Where runs are stored; runs that are there already are not made again
    #[arg(long, value_name = "DIR", default_value = "runs")]
    out: PathBuf,
    /// Form of the result: table, markdown or json
    #[arg(long, value_name = "FORM", default_value = "table")]
    format: String,
    /// The result as JSON, the same as --format json
    #[arg(long)]
    json: bool,
    /// No progress and no notes on standard error
    #[arg(long, short)]
    quiet: bool,
}

impl Own {
    fn form(&self) -> Result<&str> {
        let form = if self.json { "json" } else { &self.format };
        if FORMS.contains(&form) {
            Ok(form)
        } else {
            Err(Error::unknown("format", form, FORMS.iter().copied()))
        }
    }
    fn cases(&self) -> Result<Vec<Case>> {
        let all = match self.files.as_slice() {
            [] => cases::all()?,
            files => files.iter().map(|f| case::load(f)).collect::<Result<_>>()?,
        };
        let mut chosen = cases::named(all, &self.case)?;
        if let Some(backend) = &self.backend {
            let backend = Real::backend_of(backend)?;
            chosen.retain(|c| c.real.backend() == backend);
        }
        if chosen.is_empty() { Err(Error::input("no case passes the filters")) } else { Ok(chosen) }
    }
}

fn command() -> Command {
    Own::augment_args(Command::new("validate"))
        .about("Compare the simulator with real kernels: the same workloads, metric by metric")
}

fn run(matches: &ArgMatches) -> Result<()> {
    let own = Own::from_arg_matches(matches).map_err(|e| Error::internal(e.to_string()))?;
    let form = own.form()?;
    let chosen = own.cases()?;
    if own.list {
        return list(&chosen, form == "json");
    }
    let found = all(&own, &chosen)?;
    match form {
        "json" => output::json(&found)?,
        "markdown" => output::result(|out| validation::markdown(&found, out))?,
        _ => output::result(|out| validation::text(&found, out))?,
    }
    if found.passed {
        return Ok(());
    }
    if found.cases.is_empty() {
        return Err(
            Error::machine("no case could be run here").help("'schedlab doctor' says what is missing")
        );
    }
    Err(Error::new(ErrorKind::CheckFailed, "the simulator does not agree with the kernel as well as it must"))
}

fn list(chosen: &[Case], json: bool) -> Result<()> {
    if json {
        let row = |c: &Case| {
            serde_json::json!({ "name": c.name, "about": c.about, "backend": c.real.backend(), "machine": c.machine,
                "simulated": c.simulated, "image": c.image, "control": c.control.is_some() })
        };
        let rows: Vec<_> = chosen.iter().map(row).collect();
        return output::json_as("schedlab/cases/1", &serde_json::json!({ "cases": rows }));
    }
    output::result(|out| {
        chosen.iter().try_for_each(|c| {
            write!(out, "{}", wrap(&format!("{:<28}{:<6}", c.name, c.real.backend()), &c.about))
        })
    })
}

/// Runs the cases one after the other. A case that this machine can't run does not keep the others from being run. A
/// case with an error stops the command before any case is run.
fn all(own: &Own, chosen: &[Case]) -> Result<Validation> {
    let planned: Vec<_> =
        chosen.iter().map(|case| lacking(case, sides::plan(case, own.runs))).collect::<Result<_>>()?;
    let store = Store::create(&own.out)?;
    let (mut cases, mut not_run) = (Vec::new(), Vec::new());
    for (case, sides) in chosen.iter().zip(planned) {
        let done = match sides {
            Ok(sides) => lacking(case, one(own, case, sides, &store))?,
            Err(not_run) => Err(not_run),
        };
        match done {
            Ok(result) => cases.push(result),
            Err(why) => not_run.push(why),
        }
    }
    Ok(Validation::of(cases, not_run))
}

/// Turns the error of a case that this machine can't run into a row of the table, with one line; a guest's last words
/// go to standard error. Other errors stay errors.
fn lacking<T>(case: &Case, done: Result<T>) -> Result<std::result::Result<T, NotRun>> {
    match done {
        Ok(done) => Ok(Ok(done)),
        Err(e) if e.kind() == ErrorKind::Machine => {
            if e.message().lines().nth(1).is_some() {
                output::note(&format!("case {}: {e}", case.name));
            }
            let why =
                [e.message().lines().next(), e.remedy()].into_iter().flatten().collect::<Vec<_>>().join("; ");
            Ok(Err(NotRun { name: case.name.clone(), why }))
        }
        Err(e) => Err(e.context(format!("case {}", case.name))),
    }
}

/// Runs both sides and judges them.
fn one(own: &Own, case: &Case, sides: Sides, store: &Store) -> Result<CaseResult> {
    run_and_judge(case, sides, own.runs.is_some(), |plan| work(own, case, plan, store))
}

fn work(own: &Own, case: &Case, plan: &Plan, store: &Store) -> Result<Finished> {
    let bar = Bar::runs(own.quiet);
    let session = Session {
        executor: &Again(&Probing(&common::EXECUTOR)),
        store: Some(store),
        attach: &[("case.toml", case.text.as_bytes())],
        jobs: own.jobs.unwrap_or_else(common::cpus) as usize,
        progress: &bar,
        stop: interrupt::stop_flag()?,
    };
    let finished = session.work(plan);
    drop(bar);
    let finished = finished?;
    if finished.interrupted {
        let text = format!("interrupted: the finished runs are kept in {}", store.root().display());
        return Err(Error::new(ErrorKind::CheckFailed, text).help("the same command goes on from there"));
    }
    Ok(finished)
}
