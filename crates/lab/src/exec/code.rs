//! Runs on the kernel's own code. An image has global state, so each run is a process of its own: this executable,
//! which starts itself again with [`COMMAND`], gets the run on its input and gives it back on its output.

use super::options::RunOptions;
use super::{Made, sim};
use crate::cell::Cell;
use crate::code::settings;
use crate::packed_cell::PackedCell;
use schedlab_base::{Error, ErrorKind, Ns, Result};
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Change, History};
use schedlab_record::{ENGINE, Record};
use schedlab_transplant::{Setting, Setup, fault};
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The first argument of a process that makes one run.
pub const COMMAND: &str = "__code";
/// How often a run's process is looked at.
const LOOK: Duration = Duration::from_millis(20);

/// What the process is asked for.
#[derive(Serialize, Deserialize)]
struct Job {
    cell: PackedCell,
    seed: u64,
    keep_events_in: Option<PathBuf>,
}

/// What it made.
#[derive(Serialize, Deserialize)]
struct Answer {
    record: Record,
    events: Option<PathBuf>,
}

/// A run in a process of its own; `None` if `stop` ended it early.
///
/// # Errors
/// Those of the run, and what the kernel's code does that no kernel may.
pub(super) fn run(cell: &Cell, seed: u64, options: &RunOptions, stop: &AtomicBool) -> Result<Option<Made>> {
    let job = Job { cell: PackedCell::of(cell)?, seed, keep_events_in: options.keep_events_in.clone() };
    let failed =
        |what: &str, e: &dyn std::fmt::Display| Error::machine(format!("a run's process {what}: {e}"));
    let own = std::env::current_exe().map_err(|e| failed("can't be found", &e))?;
    let mut child = Command::new(own)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| failed("can't be started", &e))?;
    let text = serde_json::to_vec(&job).map_err(|e| Error::internal(e.to_string()))?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ended before it read has a reason, which it says.
        let _ = stdin.write_all(&text);
    }
    let Some(code) = wait(&mut child, stop).map_err(|e| failed("can't be waited for", &e))? else {
        return Ok(None);
    };
    let (said, words) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if code == 0 {
        let answer: Answer = serde_json::from_slice(&said).map_err(|e| failed("gave no record", &e))?;
        return Ok(Some(Made { record: answer.record, files: Vec::new(), events: answer.events }));
    }
    Err(error(code, String::from_utf8_lossy(&words).trim()))
}

/// Reads a stream to its end beside the process that writes it.
fn reader<R: Read + Send + 'static>(stream: Option<R>) -> std::thread::JoinHandle<Vec<u8>> {
    std::thread::spawn(move || {
        let mut bytes = Vec::new();
        if let Some(mut stream) = stream {
            let _ = stream.read_to_end(&mut bytes);
        }
        bytes
    })
}

/// Waits for a process; its exit code, -1 if a signal ended it. `None`: `stop` ended it.
fn wait(child: &mut Child, stop: &AtomicBool) -> std::io::Result<Option<i32>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status.code().unwrap_or(-1)));
        }
        if stop.load(Ordering::Relaxed) {
            child.kill()?;
            child.wait()?;
            return Ok(None);
        }
        std::thread::sleep(pause);
        pause = (2 * pause).min(LOOK);
    }
}

/// The error of a process that failed: its own words.
fn error(code: i32, words: &str) -> Error {
    let text = words.strip_prefix("image: ").unwrap_or(words);
    match code {
        fault::EXIT_CODE if text != words => Error::input(format!("the kernel's code failed: {text}")),
        2 => Error::input(text),
        3 => Error::machine(text),
        1 => Error::new(ErrorKind::CheckFailed, text),
        _ => Error::internal(format!("a run's process ended with {code}: {text}")),
    }
}

/// Makes the run that is asked for on standard input, in this process, and writes the answer to standard output.
///
/// # Errors
/// Those of the run.
pub fn child() -> Result<()> {
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|e| Error::io(Path::new("-"), "read", &e))?;
    let job: Job = serde_json::from_slice(&text).map_err(|e| Error::internal(format!("not a run: {e}")))?;
    let options = RunOptions { keep_events_in: job.keep_events_in, ..RunOptions::default() };
    let made = here(&job.cell.cell()?, job.seed, &options)?;
    let made = made.ok_or_else(|| Error::internal("a run that nobody stopped was stopped"))?;
    let answer = Answer { record: made.record, events: made.events };
    let text = serde_json::to_vec(&answer).map_err(|e| Error::internal(e.to_string()))?;
    std::io::stdout().write_all(&text).map_err(|e| Error::io(Path::new("-"), "write", &e))
}

fn here(cell: &Cell, seed: u64, options: &RunOptions) -> Result<Option<Made>> {
    let code = cell.code.as_ref().ok_or_else(|| Error::internal("a cell of code without an image"))?;
    let settings = settings(&cell.variant.features, &cell.variant.tunables)?;
    sim::made(cell, seed, options, ENGINE, |prepared, sink| {
        let warmup = prepared.workload.warmup;
        let setup = Setup {
            machine: prepared.machine,
            object: &code.object,
            history: History::of(code.version),
            preempt: Preempt::numbered(code.preempt),
            settings,
            changes: changes(&cell.variant.at, warmup)?,
            workload: prepared.workload,
            seed,
            background: !prepared.machine.background.is_empty(),
            stop: None,
            clock: None,
        };
        schedlab_transplant::simulate(setup, sink)
    })
}

/// A variant's changes of the kernel in the middle of a run.
fn changes(at: &[Change], warmup: Ns) -> Result<Vec<(Ns, Vec<Setting>)>> {
    let of = |c: &Change| Ok((warmup.plus(c.time), settings(&c.features, &c.tunables)?));
    at.iter().filter(|c| c.is_of_kernel()).map(of).collect()
}
