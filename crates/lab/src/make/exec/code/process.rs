//! The process with a machine at rest: what it is asked for, and its answers.

use super::at_rest::{AtRest, Ground};
use super::debugging::{DEBUG_VARIABLE, Debugging, gdb_words};
use super::{VISITS, here, image, rested};
use crate::ask::cell::Cell;
use crate::make::exec::executor::Made;
use crate::make::exec::image_process::{copied, next_job, reply};
use crate::make::exec::options::RunOptions;
use crate::make::packed_cell::PackedCell;
use schedlab_base::{Error, ErrorKind, Ns, Result, SchedulerFailure};
use schedlab_record::Record;
use schedlab_record::store_listing::{CHAINS_FILE, INSTRUCTIONS_FILE};
use schedlab_transplant::Rested;
use serde::{Deserialize, Serialize};
use std::fmt::Display;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The first argument of a process that holds a machine at rest.
pub const COMMAND: &str = "__code";

/// A run that the process is asked for.
#[derive(Serialize, Deserialize)]
struct Job {
    /// `None`: the cell of its last run.
    cell: Option<PackedCell>,
    seed: u64,
    keep_events_in: Option<PathBuf>,
    keep_details: bool,
    explains: bool,
    until: Option<Ns>,
    events_alone: bool,
    watched: Vec<u64>,
    walk_every: Option<u64>,
    debug: Debugging,
}

/// What it made besides the record, or why it made nothing.
#[derive(Serialize, Deserialize)]
enum Answer {
    Made { events: Option<PathBuf>, files: Vec<(String, String)> },
    Failed { code: u8, message: String, remedy: Option<String>, scheduler: Option<SchedulerFailure> },
}

/// A run in a process of its own; `None` if `stop` ended it early.
///
/// # Errors
/// Those of the run, and what the kernel's code does that no kernel may.
pub(crate) fn run(cell: &Cell, seed: u64, options: &RunOptions, stop: &AtomicBool) -> Result<Option<Made>> {
    let RunOptions {
        keep_events_in, keep_details, explains, until, events_alone, watched, walk_every, ..
    } = options.clone();
    let debug = Debugging::asked()?;
    if debug.guard && image(cell)?.setup.level.counts() {
        let text = format!("{DEBUG_VARIABLE}=guard moves memory, on which the price of counted code depends");
        return Err(Error::input(text).help("guard is for level free: --level free"));
    }
    let mut at_rest = AtRest::on(Ground::of(cell, &watched, debug))?;
    let job = Job {
        cell: at_rest.packed(cell)?,
        seed,
        keep_events_in,
        keep_details,
        explains: explains || debug.rules,
        until,
        events_alone,
        watched,
        walk_every,
        debug,
    };
    if debug.gdb {
        eprintln!("{}", gdb_words(cell, at_rest.process.id()));
    }
    let Some(said) = at_rest.process.answer(&job, stop)? else { return Ok(None) };
    let made = made_of(&said)?;
    // A process in a debugger makes one run; a machine whose figures are drawn is that of one seed.
    if !debug.gdb && cell.uncertain.is_empty() {
        at_rest.waits();
    }
    Ok(Some(made))
}

/// The run, or the error, of an answer.
fn made_of(said: &[u8]) -> Result<Made> {
    let wrong = |e: &dyn Display| Error::machine(format!("a run's process gave no answer: {e}"));
    let parts = said
        .split_first_chunk()
        .and_then(|(length, rest)| rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?));
    let (answer, json) = parts.ok_or_else(|| wrong(&"it is too short"))?;
    match serde_json::from_slice(answer).map_err(|e| wrong(&e))? {
        Answer::Made { events, files } => {
            let known =
                |name: &str| [INSTRUCTIONS_FILE, CHAINS_FILE, VISITS].into_iter().find(|file| *file == name);
            let files = files.into_iter().filter_map(|(name, text)| Some((known(&name)?, text.into_bytes())));
            let record = Record::from_json(json).map_err(|e| wrong(&e))?;
            Ok(Made { record, json: Some(json.to_owned()), files: files.collect(), events })
        }
        Answer::Failed { code, message, remedy, scheduler } => {
            let error = remedy.into_iter().fold(Error::new(kind_of(code), message), Error::help);
            Err(scheduler.into_iter().fold(error, Error::of_scheduler))
        }
    }
}

/// The kinds of errors by their exit codes, as answers have them.
const KINDS: [(u8, ErrorKind); 4] =
    [(1, ErrorKind::CheckFailed), (2, ErrorKind::Input), (3, ErrorKind::Machine), (4, ErrorKind::Internal)];

fn kind_of(code: u8) -> ErrorKind {
    KINDS.iter().find(|(of, _)| *of == code).map_or(ErrorKind::Internal, |(_, kind)| *kind)
}

/// Answers jobs on standard input: the machine of the first one boots and comes to rest here, and a copy of this
/// process makes each run.
///
/// # Errors
/// When nobody takes an answer.
pub fn child() -> Result<()> {
    let Some(job) = next_job::<Job>()? else { return Ok(()) };
    if job.debug.gdb {
        // It may have been stopped when nobody waits for it any more.
        schedlab_native::die_with_parent();
    }
    match serve(job) {
        Err(e) => reply(&words(&Err(e))?),
        Ok(()) => Ok(()),
    }
}

fn serve(mut job: Job) -> Result<()> {
    let lost = || Error::internal("a job without a cell");
    let first = job.cell.take().ok_or_else(lost)?.cell()?;
    let machine = first.machine.with(&first.draw(job.seed))?;
    let beside = machine.beside_counted_code(image(&first)?.version);
    let at_rest = rested(&first, [&machine, &beside], &job.watched, job.debug)?;
    let mut cell = first.clone();
    loop {
        if job.debug.gdb {
            return reply(&words(&made(at_rest, &cell, &job))?);
        }
        if let Some(mut lab) = copied()? {
            let made = at_rest.copied().and_then(|()| made(at_rest, &cell, &job));
            let said = words(&made).map_err(|e| e.to_string());
            let written = said.and_then(|said| lab.write_all(&said).map_err(|e| e.to_string()));
            written.as_ref().err().inspect(|e| eprintln!("{e}"));
            std::process::exit(i32::from(written.is_err()));
        }
        let Some(next) = next_job()? else { return Ok(()) };
        job = next;
        if let Some(packed) = job.cell.take() {
            cell = packed.cell()?;
        }
    }
}

/// Makes the run of a job, in this process.
fn made(at_rest: Rested<'_>, cell: &Cell, job: &Job) -> Result<Made> {
    let options = RunOptions {
        keep_events_in: job.keep_events_in.clone(),
        keep_details: job.keep_details,
        explains: job.explains,
        until: job.until,
        events_alone: job.events_alone,
        watched: job.watched.clone(),
        walk_every: job.walk_every,
        ..RunOptions::default()
    };
    let made = here(at_rest, cell, job.seed, &options)?;
    made.ok_or_else(|| Error::internal("a run that nobody stopped was stopped"))
}

/// An answer as it is said: its length, itself, and the record's JSON.
fn words(made: &Result<Made>) -> Result<Vec<u8>> {
    let internal = |e: serde_json::Error| Error::internal(e.to_string());
    let (json, answer) = match made {
        Ok(made) => {
            let (events, files) = (made.events.clone(), made.files.iter().map(as_text).collect());
            (made.record.to_json().map_err(internal)?, Answer::Made { events, files })
        }
        Err(e) => {
            let code = KINDS.iter().find(|(_, kind)| *kind == e.kind()).map_or(4, |(code, _)| *code);
            let (message, remedy) = (e.message().to_owned(), e.remedy().map(str::to_owned));
            (Vec::new(), Answer::Failed { code, message, remedy, scheduler: e.scheduler() })
        }
    };
    let answer = serde_json::to_vec(&answer).map_err(internal)?;
    Ok([&(answer.len() as u64).to_le_bytes(), answer.as_slice(), json.as_slice()].concat())
}

/// A file of a run; what is kept of a run's process is text.
fn as_text((name, bytes): &(&str, Vec<u8>)) -> (String, String) {
    ((*name).to_owned(), String::from_utf8_lossy(bytes).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_arrives_with_its_kind_and_how_the_scheduler_failed() {
        let failed = Error::input("it is thrown out").of_scheduler(SchedulerFailure::ThrownOut(1025));
        let said = words(&Err(failed.help("mend it"))).unwrap();
        let e = made_of(&said).err().unwrap();
        assert_eq!(
            (e.kind(), e.message(), e.remedy()),
            (ErrorKind::Input, "it is thrown out", Some("mend it"))
        );
        assert_eq!(e.scheduler(), Some(SchedulerFailure::ThrownOut(1025)));
        let lack = made_of(&words(&Err(Error::machine("no memory"))).unwrap()).err().unwrap();
        assert_eq!((lack.kind(), lack.scheduler()), (ErrorKind::Machine, None));
    }
}
