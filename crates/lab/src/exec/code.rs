//! Runs on the kernel's own code. An image has global state, so each run is a process of its own: this executable,
//! which starts itself again with [`COMMAND`], gets the run on its input and gives it back on its output.

use super::options::RunOptions;
use super::{Made, sim};
use crate::cell::Cell;
use crate::code::settings;
use crate::packed_cell::PackedCell;
use schedlab_base::{Error, ErrorKind, Ns, Result, Warning};
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Change, History};
use schedlab_native::signal_name;
use schedlab_record::store_listing::{CHAINS_FILE, INSTRUCTIONS_FILE};
use schedlab_record::{ENGINE, Record};
use schedlab_sim::{Guests, Links};
use schedlab_transplant::{Setting, Setup, fault};
use schedlab_world::nested::Guest;
use schedlab_world::net::Peer;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
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
    keep_details: bool,
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
    let RunOptions { keep_events_in, keep_details, .. } = options.clone();
    let (packed, debug) = (PackedCell::of(cell)?, Debugging::asked()?);
    let job = Job { cell: packed, seed, keep_events_in, keep_details, debug };
    let failed =
        |what: &str, e: &dyn std::fmt::Display| Error::machine(format!("a run's process {what}: {e}"));
    let own = std::env::current_exe().map_err(|e| failed("can't be found", &e))?;
    let mut child = Command::new(own)
        .arg(COMMAND)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A terminal's Ctrl-C is for this process, which ends the other one.
        .process_group(0)
        .spawn()
        .map_err(|e| failed("can't be started", &e))?;
    if job.debug.gdb {
        eprintln!("{}", gdb_words(cell, child.id()));
    }
    let text = serde_json::to_vec(&job).map_err(|e| Error::internal(e.to_string()))?;
    let (stdout, stderr) = (reader(child.stdout.take()), reader(child.stderr.take()));
    if let Some(mut stdin) = child.stdin.take() {
        // A process that ended before it read has a reason, which it says.
        let _ = stdin.write_all(&text);
    }
    let Some(status) = wait(&mut child, stop).map_err(|e| failed("can't be waited for", &e))? else {
        return Ok(None);
    };
    let (said, words) = (stdout.join().unwrap_or_default(), stderr.join().unwrap_or_default());
    if !status.success() {
        return Err(ended(status, String::from_utf8_lossy(&words).trim()));
    }
    match serde_json::from_slice(&said).map_err(|e| failed("gave no record", &e))? {
        Answer::Made { record, events, files } => {
            let known = |name: &str| [INSTRUCTIONS_FILE, CHAINS_FILE].into_iter().find(|file| *file == name);
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

/// The variable by which a run helps to find a fault of the kernel's code: words of [`Debugging`].
pub const DEBUG_VARIABLE: &str = "SCHEDLAB_CODE_DEBUG";

/// How a run helps.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Debugging {
    /// Its process waits for gdb before the image boots.
    gdb: bool,
    /// Memory that is not allocated, or not any more, is out of reach.
    guard: bool,
}

impl Debugging {
    /// What the user asks for.
    fn asked() -> Result<Debugging> {
        let words = std::env::var(DEBUG_VARIABLE).unwrap_or_default();
        let mut all = Debugging::default();
        for word in words.split(',').map(str::trim).filter(|word| !word.is_empty()) {
            match word {
                "gdb" => all.gdb = true,
                "guard" => all.guard = true,
                _ => return Err(Error::unknown(DEBUG_VARIABLE, word, ["gdb", "guard"])),
            }
        }
        Ok(all)
    }
}

/// How to attach gdb to a run's process, which stops by itself once its image is loaded.
fn gdb_words(cell: &Cell, process: u32) -> String {
    let object = cell.code.as_ref().map_or_else(String::new, |code| format!(" ({})", code.object.display()));
    format!(
        "the run's process {process} waits for gdb, with its image loaded{object}:\n    \
         gdb -p {process} -ex 'handle SIGPROF nostop noprint' -ex 'handle SIGSTOP nostop noprint nopass' \
         -ex 'break schedule'\n\
         'continue' there lets it boot and run. Names are those of the kernel's functions."
    )
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

/// Waits for a process. `None`: `stop` ended it.
fn wait(child: &mut Child, stop: &AtomicBool) -> std::io::Result<Option<ExitStatus>> {
    let mut pause = Duration::from_micros(200);
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
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

/// The kinds of errors by their exit codes, as answers have them.
const KINDS: [(u8, ErrorKind); 4] =
    [(1, ErrorKind::CheckFailed), (2, ErrorKind::Input), (3, ErrorKind::Machine), (4, ErrorKind::Internal)];

fn kind_of(code: u8) -> ErrorKind {
    KINDS.iter().find(|(of, _)| *of == code).map_or(ErrorKind::Internal, |(_, kind)| *kind)
}

/// The error of a process that ended without an answer: what the kernel's code has done is the user's patch, or a shim
/// that is missing.
pub(crate) fn ended(status: ExitStatus, words: &str) -> Error {
    if let (Some(text), Some(fault::EXIT_CODE)) = (words.strip_prefix("image: "), status.code()) {
        return Error::input(format!("the kernel's code failed: {text}"));
    }
    let said = if words.is_empty() { String::new() } else { format!("\n  it said: {words}") };
    match status.signal().map(|signal| (signal, signal_name(signal))) {
        Some((signal, name @ "SIGKILL")) => Error::machine(format!(
            "a run's process was killed by signal {signal} ({name}){said}"
        ))
        .help(
            "the kernel does so when memory runs out: see dmesg, and make fewer runs side by side (--jobs)",
        ),
        Some((signal, name)) => {
            Error::internal(format!("a run's process died of signal {signal} ({name}){said}"))
        }
        None => {
            let code = status.code().unwrap_or(-1);
            Error::internal(format!(
                "a run's process ended with exit code {code} and without an answer{said}"
            ))
        }
    }
}

/// Makes the run that is asked for on standard input, in this process, and writes the answer to standard output.
///
/// # Errors
/// Those of the run.
pub fn child() -> Result<()> {
    schedlab_native::die_with_parent();
    let mut text = Vec::new();
    std::io::stdin().read_to_end(&mut text).map_err(|e| Error::io(Path::new("-"), "read", &e))?;
    let job: Job = serde_json::from_slice(&text).map_err(|e| Error::internal(format!("not a run: {e}")))?;
    let Job { keep_events_in, keep_details, debug, .. } = job;
    let options = RunOptions { keep_events_in, keep_details, ..RunOptions::default() };
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
    let text = serde_json::to_vec(&answer).map_err(|e| Error::internal(e.to_string()))?;
    std::io::stdout().write_all(&text).map_err(|e| Error::io(Path::new("-"), "write", &e))
}

/// A file of a run; what is kept of a run's process is text.
fn as_text((name, bytes): (&str, Vec<u8>)) -> (String, String) {
    (name.to_owned(), String::from_utf8_lossy(&bytes).into_owned())
}

fn here(cell: &Cell, seed: u64, options: &RunOptions, debug: Debugging) -> Result<Option<Made>> {
    let code = cell.code.as_ref().ok_or_else(|| Error::internal("a cell of code without an image"))?;
    let settings = settings(&cell.variant.features, &cell.variant.tunables)?;
    let made = sim::made(cell, seed, options, ENGINE, |mut prepared, sink| {
        let warmup = prepared.workload.warmup;
        let workload = &mut prepared.workload;
        let mut guests = Guests::of(prepared.machine, workload)?;
        let mut links = Links::of(prepared.machine, workload)?;
        let guests = guests.boot(seed).into_iter().map(|own| Box::new(own) as Box<dyn Guest + '_>).collect();
        let peers = links.boot(seed).into_iter().map(|peer| Box::new(peer) as Box<dyn Peer + '_>).collect();
        let setup = Setup {
            machine: prepared.machine,
            object: &code.object,
            plain: code.plain.as_deref(),
            level: code.setup.level,
            history: History::of(code.version),
            preempt: Preempt::numbered(code.preempt),
            settings,
            changes: changes(&cell.variant.at, warmup)?,
            workload: prepared.workload,
            guests,
            peers,
            seed,
            background: !prepared.machine.background.is_empty(),
            debug: schedlab_transplant::Debug {
                guard: debug.guard,
                loaded: &mut || {
                    if debug.gdb {
                        fault::wait_for_debugger();
                    }
                },
            },
            stop: None,
            clock: None,
        };
        schedlab_transplant::simulate(setup, sink)
    })?;
    Ok(made.map(|mut made| {
        let warnings = code.warnings.iter().map(|text| Warning::new("code.patch", text));
        made.record.found.warnings.extend(warnings);
        made
    }))
}

/// A variant's changes of the kernel in the middle of a run.
fn changes(at: &[Change], warmup: Ns) -> Result<Vec<(Ns, Vec<Setting>)>> {
    let of = |c: &Change| Ok((warmup.plus(c.time), settings(&c.features, &c.tunables)?));
    at.iter().filter(|c| c.is_of_kernel()).map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_that_ended_a_run_is_named_with_the_last_words() {
        let of = |raw, words| ended(ExitStatus::from_raw(raw), words);
        let (killed, crashed) = (of(9, "").to_string(), of(11, "stack overflow").to_string());
        assert!(killed.contains("signal 9 (SIGKILL)") && killed.contains("memory"), "{killed}");
        assert!(
            crashed.contains("signal 11 (SIGSEGV)") && crashed.contains("it said: stack overflow"),
            "{crashed}"
        );
        assert!(of(101 << 8, "panicked").to_string().contains("exit code 101"));
        let fault = of(fault::EXIT_CODE << 8, "image: BUG at fair.c:1");
        assert_eq!(
            (fault.kind(), fault.message()),
            (ErrorKind::Input, "the kernel's code failed: BUG at fair.c:1")
        );
    }
}
