//! `schedlab validate --changes`: whether switches move the real kernel as they move the simulation.
//!
//! A case is an experiment. Its runs share boots, as in `schedlab try`: a change is small compared with the spread of
//! runs, so a case needs many runs, and a boot takes as long as ten.

use super::validate::{ValidateArgs, reason};
use crate::listener::Shown;
use crate::{cases, common, output};
use schedlab_base::{Backend, Error, ErrorKind, Result};
use schedlab_compare::agreement::NotRun;
use schedlab_compare::agreement::changes::{ChangeResult, Changes};
use schedlab_lab::ask::code;
use schedlab_lab::ask::guests::GuestSetup;
use schedlab_lab::judge::validate::changes::{self, ChangeCase};
use schedlab_lab::{Lab, Options, Plan, RunRequest};
use schedlab_record::{Record, Store};
use schedlab_report::text::wrap;

/// Runs or lists the cases, and prints the result in a form of `validate`.
///
/// # Errors
/// For an error in a case, when a run fails although this machine can make it, and when a case does not pass.
pub fn run(args: &ValidateArgs, form: &str) -> Result<()> {
    args.judged()?;
    let all = match args.files.as_slice() {
        [] => cases::changes(common::cpus())?,
        files => files.iter().map(|f| changes::load(f, common::cpus())).collect::<Result<_>>()?,
    };
    let chosen = cases::named(all, &args.case, |c| &c.experiment.name)?;
    if args.list {
        return list(&chosen, form == "json");
    }
    let found = all_of(args, &chosen)?;
    match form {
        "json" => output::json_as("schedlab/changes/1", &found)?,
        "markdown" => output::result(|out| schedlab_report::changes::markdown(&found, out))?,
        _ => output::result(|out| schedlab_report::changes::text(&found, out))?,
    }
    if found.passed {
        return Ok(());
    }
    if found.cases.is_empty() {
        return Err(
            Error::machine("no case could be run here").help("'schedlab doctor' says what is missing")
        );
    }
    let text = "not every switch moves the simulation as it moves the kernel";
    Err(Error::new(ErrorKind::CheckFailed, text).help("where nothing is known, more --runs may tell"))
}

fn list(chosen: &[ChangeCase], json: bool) -> Result<()> {
    if json {
        let row = |c: &ChangeCase| {
            let moves: Vec<&str> = c.moves.iter().map(|r| r.name).collect();
            serde_json::json!({ "name": c.experiment.name, "about": c.experiment.about, "from": c.from, "to": c.to,
                "moves": moves })
        };
        let rows: Vec<_> = chosen.iter().map(row).collect();
        return output::json_as("schedlab/change-cases/1", &serde_json::json!({ "cases": rows }));
    }
    output::result(|out| {
        chosen.iter().try_for_each(|c| {
            write!(out, "{}", wrap(&format!("{:<28}", c.experiment.name), &c.experiment.about))
        })
    })
}

/// Runs the cases one after the other. A case that can't be run does not stop the others.
fn all_of(args: &ValidateArgs, chosen: &[ChangeCase]) -> Result<Changes> {
    let (mut done, mut not_run) = (Vec::new(), Vec::new());
    for case in chosen {
        let name = &case.experiment.name;
        match judge_change(args, case) {
            Ok(result) => done.push(result),
            Err(e) if matches!(e.kind(), ErrorKind::Machine | ErrorKind::Guest | ErrorKind::Input) => {
                let why = reason(name, &e);
                not_run.push(NotRun { name: name.clone(), why });
            }
            Err(e) => return Err(e.context(format!("case {name}"))),
        }
    }
    Ok(Changes::of(done, not_run))
}

fn judge_change(args: &ValidateArgs, case: &ChangeCase) -> Result<ChangeResult> {
    let request = RunRequest {
        wanted: Options { runs: args.runs, ..Options::default() },
        jobs: args.jobs,
        guest: GuestSetup::deterministic(),
        out: args.out.clone(),
        ..RunRequest::trial(Backend::Vm)
    };
    let made = common::compared(&request, case.experiment.clone(), args.quiet)?;
    let warnings = made.comparison.warnings.into_iter().map(|w| w.warning).collect();
    let mut records = made.records;
    if args.judged()? == Backend::Code {
        records.retain(|record| record.backend == Backend::Vm);
        records.extend(by_code(args, case, &made.plan)?);
    }
    Ok(ChangeResult::of(&case.switched(), &records, warnings))
}

/// The runs of the kernel's own code that correspond to a plan's runs in guests.
fn by_code(args: &ValidateArgs, case: &ChangeCase, plan: &Plan) -> Result<Vec<Record>> {
    let shown = Shown::new(args.quiet);
    let folder = case.experiment.folder();
    let variants = case.experiment.clone().in_guests().variants.into_iter();
    let variants = variants.map(|variant| args.code.of(variant)).collect::<Result<Vec<_>>>()?;
    let images = code::images_of(&variants.iter().collect::<Vec<_>>(), folder, &shown)?;
    let variants: Vec<_> = variants.into_iter().zip(images).collect();
    let in_guests = |at: &usize| plan.cells[*at].backend == Backend::Vm;
    let guests: Vec<usize> = (0..plan.cells.len()).filter(in_guests).collect();
    let cell = |at: &usize| code::beside_guest(&plan.cells[*at], &variants);
    let cells = guests.iter().map(cell).collect::<Result<Vec<_>>>()?;
    let seeds: Vec<u64> =
        plan.runs.iter().filter(|r| guests.first() == Some(&r.cell)).map(|r| r.seed).collect();
    let Some(first) = seeds.iter().min() else { return Ok(Vec::new()) };
    let backends = common::backends(None)?;
    let lab = Lab::here(&backends, &shown);
    let made =
        lab.compared_cells(cells, &Store::create(&args.out)?, (seeds.len() as u64, *first), Vec::new())?;
    Ok(made.records)
}
