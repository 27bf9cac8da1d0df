//! The process of a run on the kernel's own code: what it is asked for, and its answer
//! ([`crate::make::exec::image_process`]).

use super::debugging::{DEBUG_VARIABLE, Debugging, gdb_words};
use super::{VISITS, here};
use crate::ask::cell::Cell;
use crate::make::exec::executor::Made;
use crate::make::exec::image_process;
use crate::make::exec::options::RunOptions;
use crate::make::packed_cell::PackedCell;
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_record::Record;
use schedlab_record::store_listing::{CHAINS_FILE, INSTRUCTIONS_FILE};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The first argument of a process that makes one run.
pub const COMMAND: &str = "__code";

/// What the process is asked for.
#[derive(Serialize, Deserialize)]
struct Job {
    cell: PackedCell,
    seed: u64,
    keep_events_in: Option<PathBuf>,
    keep_details: bool,
    explains: bool,
    watched: Vec<u64>,
    walk_every: Option<u64>,
    debug: Debugging,
}

/// What it made, or why it made nothing.
#[derive(Serialize, Deserialize)]
enum Answer {
    Made { record: Box<Record>, events: Option<PathBuf>, files: Vec<(String, String)> },
    Failed { code: u8, message: String, remedy: Option<String> },
}

/// A run in a process of its own; `None` if `stop` ended it early.
///
/// # Errors
/// Those of the run, and what the kernel's code does that no kernel may.
pub(crate) fn run(cell: &Cell, seed: u64, options: &RunOptions, stop: &AtomicBool) -> Result<Option<Made>> {
    let RunOptions { keep_events_in, keep_details, explains, watched, walk_every, .. } = options.clone();
    let (packed, debug) = (PackedCell::of(cell)?, Debugging::asked()?);
    if debug.guard && cell.code.as_ref().is_some_and(|code| code.setup.level.counts()) {
        let text = format!("{DEBUG_VARIABLE}=guard moves memory, on which the price of counted code depends");
        return Err(Error::input(text).help("guard is for level free: --level free"));
    }
    let job = Job { cell: packed, seed, keep_events_in, keep_details, explains, watched, walk_every, debug };
    let begun = |process| {
        if job.debug.gdb {
            eprintln!("{}", gdb_words(cell, process));
        }
    };
    let Some(answer) = image_process::answer(COMMAND, &job, stop, begun)? else { return Ok(None) };
    match answer {
        Answer::Made { record, events, files } => {
            let known =
                |name: &str| [INSTRUCTIONS_FILE, CHAINS_FILE, VISITS].into_iter().find(|file| *file == name);
            let files = files.into_iter().filter_map(|(name, text)| Some((known(&name)?, text.into_bytes())));
            let files = files.collect();
            Ok(Some(Made { record: *record, files, events }))
        }
        Answer::Failed { code, message, remedy } => {
            let error = Error::new(kind_of(code), message);
            Err(remedy.into_iter().fold(error, Error::help))
        }
    }
}

/// The kinds of errors by their exit codes, as answers have them.
const KINDS: [(u8, ErrorKind); 4] =
    [(1, ErrorKind::CheckFailed), (2, ErrorKind::Input), (3, ErrorKind::Machine), (4, ErrorKind::Internal)];

fn kind_of(code: u8) -> ErrorKind {
    KINDS.iter().find(|(of, _)| *of == code).map_or(ErrorKind::Internal, |(_, kind)| *kind)
}

/// Makes the run that is asked for on standard input, in this process, and writes the answer to standard output.
///
/// # Errors
/// Those of the run.
pub fn child() -> Result<()> {
    let job: Job = image_process::asked()?;
    let Job { keep_events_in, keep_details, explains, watched, walk_every, debug, .. } = job;
    let options =
        RunOptions { keep_events_in, keep_details, explains, watched, walk_every, ..RunOptions::default() };
    let made = job.cell.cell().and_then(|cell| here(&cell, job.seed, &options, debug));
    let stopped = || Error::internal("a run that nobody stopped was stopped");
    let answer = match made.and_then(|made| made.ok_or_else(stopped)) {
        Ok(made) => Answer::Made {
            record: Box::new(made.record),
            events: made.events,
            files: made.files.into_iter().map(as_text).collect(),
        },
        Err(e) => {
            let code = KINDS.iter().find(|(_, kind)| *kind == e.kind()).map_or(4, |(code, _)| *code);
            Answer::Failed { code, message: e.message().to_owned(), remedy: e.remedy().map(str::to_owned) }
        }
    };
    image_process::reply(&answer)
}

/// A file of a run; what is kept of a run's process is text.
fn as_text((name, bytes): (&str, Vec<u8>)) -> (String, String) {
    (name.to_owned(), String::from_utf8_lossy(&bytes).into_owned())
}
