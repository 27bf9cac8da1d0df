//! Runs on the kernel's own code, each in a process of its own ([`image_process`]).

use super::options::RunOptions;
use super::{Made, image_process, sim};
use crate::cell::Cell;
use crate::code::settings;
use crate::packed_cell::PackedCell;
use schedlab_base::{Error, ErrorKind, Ns, Result, Warning};
use schedlab_board::nested::Guest;
use schedlab_board::net::Peer;
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Change, History, Kernel};
use schedlab_record::store_listing::{CHAINS_FILE, INSTRUCTIONS_FILE};
use schedlab_record::{ENGINE, Record};
use schedlab_sim::{Explainer, Guests, Unlinked};
use schedlab_transplant::{Setting, Setup, fault, visits};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// The first argument of a process that makes one run.
pub const COMMAND: &str = "__code";

/// The file of a run with the visits of the addresses that were watched: a number a line, in their order.
pub(crate) const VISITS: &str = "visits";

/// What the process is asked for.
#[derive(Serialize, Deserialize)]
struct Job {
    cell: PackedCell,
    seed: u64,
    keep_events_in: Option<PathBuf>,
    keep_details: bool,
    explains: bool,
    watched: Vec<u64>,
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
    let RunOptions { keep_events_in, keep_details, explains, watched, .. } = options.clone();
    let (packed, debug) = (PackedCell::of(cell)?, Debugging::asked()?);
    if debug.guard && cell.code.as_ref().is_some_and(|code| code.setup.level.counts()) {
        let text = format!("{DEBUG_VARIABLE}=guard moves memory, on which the price of counted code depends");
        return Err(Error::input(text).help("guard is for level free: --level free"));
    }
    let job = Job { cell: packed, seed, keep_events_in, keep_details, explains, watched, debug };
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

/// The variable by which a run helps to find a fault of the kernel's code: words of [`Debugging`].
pub const DEBUG_VARIABLE: &str = "SCHEDLAB_CODE_DEBUG";

/// How a run helps.
#[derive(Clone, Copy, Default, Serialize, Deserialize)]
struct Debugging {
    /// Its process waits for gdb before the image boots.
    gdb: bool,
    /// Memory that is not allocated, or not any more, is out of reach.
    guard: bool,
    /// Our rules are asked about its decisions.
    rules: bool,
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
                "rules" => all.rules = true,
                _ => return Err(Error::unknown(DEBUG_VARIABLE, word, ["gdb", "guard", "rules"])),
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
    let Job { keep_events_in, keep_details, explains, watched, debug, .. } = job;
    let options = RunOptions { keep_events_in, keep_details, explains, watched, ..RunOptions::default() };
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

fn here(cell: &Cell, seed: u64, options: &RunOptions, debug: Debugging) -> Result<Option<Made>> {
    let code = cell.code.as_ref().ok_or_else(|| Error::internal("a cell of code without an image"))?;
    let settings = settings(&cell.variant.features, &cell.variant.tunables)?;
    let mut watched = Ok(());
    let explains = options.explains || debug.rules;
    let made = sim::made(cell, seed, options, ENGINE, |mut prepared, sink| {
        let warmup = prepared.workload.warmup;
        let workload = &mut prepared.workload;
        let mut guests = Guests::of(prepared.machine, workload)?;
        let mut links = Unlinked::of(prepared.machine, workload)?;
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
            rules: match explains {
                true => Some(Box::new(Explainer::new(prepared.machine, Kernel::of(code.version))?)),
                false => None,
            },
            debug: schedlab_transplant::Debug {
                guard: debug.guard,
                loaded: &mut || {
                    watched = visits::watch(&options.watched);
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
    watched?;
    Ok(made.map(|mut made| {
        if !options.watched.is_empty() {
            let counts: Vec<String> = visits::counts().iter().map(u64::to_string).collect();
            made.files.push((VISITS, counts.join("\n").into_bytes()));
        }
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
