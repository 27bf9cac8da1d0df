//! A scheduler's own program, with its user-space half: it is started under the broker, and while all of its threads
//! sleep the machine runs up to the time at which the first one wakes up.
//!
//! Its work takes no simulated time. Its maps are files in memory that both sides see.

use crate::engine::Engine;
use crate::ext::{Enabled, Given, enable};
use crate::run::start;
use schedlab_base::{Error, Result, TaskId};
use schedlab_record::Findings;
use schedlab_scx::Map;
use schedlab_scx::broker::{self, Attach, Errno, Outcome, Refusal, Request, Wake};
use schedlab_scx::btf::Btf;
use schedlab_scx::object::whole;
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

/// At most this many refusals are put into a record.
const MOST_REFUSED: usize = 20;

/// A program to start.
pub struct Program {
    pub request: Request,
    /// The image's BTF.
    pub btf: Btf,
}

/// Lets the machine run up to a time; gives the time then, and whether the run is over.
pub(crate) type RunsUp<'r, 'm> = &'r mut dyn FnMut(&mut Engine<'m>, u64) -> Result<(u64, bool)>;

struct Far<'r, 'm> {
    engine: &'r mut Engine<'m>,
    object: &'r Path,
    btf: &'r Btf,
    runs_up: RunsUp<'r, 'm>,
    /// Tasks that start when it has attached.
    waiting: Vec<TaskId>,
    enabled: Option<Enabled>,
    failed: Option<Error>,
    is_over: bool,
}

/// Runs the program beside the machine, to the end of both. The tasks start when it has attached.
///
/// # Errors
/// When the program can't be started, attaches nothing, or ends with an error; what the machine's run fails with.
pub(crate) fn run<'m>(
    (program, waiting): (Program, Vec<TaskId>),
    engine: &mut Engine<'m>,
    object: &Path,
    runs_up: RunsUp<'_, 'm>,
) -> Result<(Enabled, Outcome)> {
    let request = Request { start_ns: engine.kernel_time(engine.now), ..program.request };
    let btf = &program.btf;
    let mut far = Far { engine, object, btf, runs_up, waiting, enabled: None, failed: None, is_over: false };
    let outcome = broker::run(&request, &mut far)?;
    if !far.is_over && far.failed.is_none() && far.enabled.is_some() {
        return Err(has_left(&request, &outcome));
    }
    match (far.failed, far.enabled) {
        (Some(failed), _) => Err(failed),
        (None, Some(enabled)) => Ok((enabled, outcome)),
        (None, None) => Err(attaches_nothing(&request, &outcome)),
    }
}

/// The tasks would run under the fair class from there on.
fn has_left(request: &Request, outcome: &Outcome) -> Error {
    let said = last_words(&outcome.errors, 6);
    Error::input(format!(
        "{} has left before the run was over ({}){said}",
        request.program.display(),
        outcome.status
    ))
    .help("a scheduler's program stays until it gets SIGINT")
}

/// The last lines of an output that say something.
fn last_lines(bytes: &[u8], most: usize) -> Vec<String> {
    let text = String::from_utf8_lossy(bytes);
    let lines = text.lines().rev().filter(|line| !line.trim().is_empty()).take(most);
    let mut lines: Vec<String> = lines.map(str::to_owned).collect();
    lines.reverse();
    lines
}

/// The same for an error, each on a line of its own.
fn last_words(bytes: &[u8], most: usize) -> String {
    let lines: String = last_lines(bytes, most).into_iter().map(|line| format!("\n    {line}")).collect();
    if lines.is_empty() { String::new() } else { format!("; it said:{lines}") }
}

fn attaches_nothing(request: &Request, outcome: &Outcome) -> Error {
    if outcome.was_killed {
        let seconds = request.patience.as_secs();
        let text =
            format!("{} has attached no scheduler in {seconds} s, and was ended", request.program.display());
        return Error::input(text).help("it loads and attaches a scheduler, and stays until it gets SIGINT");
    }
    let refused: Vec<String> =
        outcome.refused_bpf.keys().chain(outcome.refused_calls.keys()).cloned().collect();
    let text = format!(
        "{} has attached no scheduler ({}){}",
        request.program.display(),
        outcome.status,
        last_words(&outcome.errors, 12)
    );
    let remedy = match refused.is_empty() {
        true => {
            "it runs with its arguments as on a machine of its own: give it those that it needs".to_owned()
        }
        false => format!("it asked in vain for {}", refused.join(", ")),
    };
    Error::input(text).help(remedy)
}

/// Into a record: what the program said last, and what it was refused.
pub(crate) fn tell(outcome: &Outcome, found: &mut Findings) {
    let last = |bytes: &[u8]| last_lines(bytes, 12).join("\n");
    // What the machine does not have was not refused.
    let refused = outcome.refused.keys().filter(|(_, why)| *why != Refusal::Absent);
    let refused = refused.map(|(path, why)| match why {
        Refusal::Execute => format!("execve {}", path.display()),
        _ => path.display().to_string(),
    });
    let others = outcome.refused_bpf.keys().chain(outcome.refused_calls.keys());
    let refused: Vec<String> = refused.chain(others.cloned()).take(MOST_REFUSED).collect();
    let facts = [
        ("scx.output", last(&outcome.output)),
        ("scx.errors", last(&outcome.errors)),
        ("scx.status", outcome.status.to_string()),
        ("scx.refused", refused.join(", ")),
    ];
    found.environment.extend(facts.map(|(name, value)| (name.to_owned(), value)));
}

/// Maps a map's file, for good; `None`: that fails.
fn shared(file: &BorrowedFd<'_>, at: u64) -> Option<*mut c_void> {
    // SAFETY: zeros are a value of this plain data, and the call fills it.
    let bytes = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(file.as_raw_fd(), &raw mut about) == 0).then_some(about.st_size as usize)?
    };
    let place = if at > 0 { libc::MAP_FIXED_NOREPLACE } else { 0 };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory of the file's size; a fixed place is taken only if it is free.
    let memory = unsafe {
        libc::mmap(at as *mut c_void, bytes.max(1), access, libc::MAP_SHARED | place, file.as_raw_fd(), 0)
    };
    (memory != libc::MAP_FAILED).then_some(memory)
}

/// The memory of a scheduler's maps that both sides see.
fn shared_of(attach: &Attach<'_>) -> Result<Vec<Option<*mut c_void>>> {
    let one = |(map, file): (&Map, &Option<BorrowedFd<'_>>)| match file {
        None => Ok(None),
        Some(file) => {
            let lacks = || {
                let name = &attach.scheduler.name;
                Error::machine(format!("scheduler {name}: the memory of map {} can't be had", map.name))
                    .help("its place among the addresses is taken, or memory is short")
            };
            shared(file, map.extra).map(Some).ok_or_else(lacks)
        }
    };
    attach.scheduler.maps.iter().zip(attach.memory).map(one).collect()
}

impl Far<'_, '_> {
    fn enabled(&self) -> std::result::Result<&Enabled, Errno> {
        self.enabled.as_ref().ok_or(Errno(libc::ENOENT))
    }
    /// The machine runs up to a time of the kernel's clock.
    fn goes_on(&mut self, until_ns: u64) {
        let until = until_ns.saturating_sub(self.engine.epoch);
        match (self.runs_up)(self.engine, until) {
            Ok((_, is_over)) => self.is_over = is_over,
            Err(e) => self.failed = Some(e),
        }
    }
}

impl broker::Kernel for Far<'_, '_> {
    fn attach(&mut self, attach: Attach<'_>) -> std::result::Result<u64, Errno> {
        let whole = whole(attach.scheduler, self.btf, &format!("scheduler {}", attach.scheduler.name));
        let memory = whole.and_then(|()| shared_of(&attach));
        let memory = match memory {
            Ok(memory) => memory,
            Err(e) => {
                self.failed = Some(e);
                return Err(Errno(libc::EINVAL));
            }
        };
        let given = Given { memory, entries: attach.entries, runs: attach.runs };
        self.engine.finish_verbs();
        let enabled = enable((attach.scheduler, self.btf), given, self.engine, self.object);
        let waiting = std::mem::take(&mut self.waiting);
        match enabled.and_then(|enabled| start(self.engine, waiting).map(|()| enabled)) {
            Ok(enabled) => self.enabled = Some(enabled),
            Err(e) => {
                self.failed = Some(e);
                return Err(Errno(libc::EINVAL));
            }
        }
        Ok(self.engine.kernel_time(self.engine.now))
    }
    fn detach(&mut self) {
        if let Some(enabled) = &self.enabled {
            self.engine.finish_verbs();
            enabled.disable(self.engine);
        }
    }
    fn lookup(&mut self, map: usize, key: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
        let cpus = self.engine.nr_cpus();
        self.enabled()?.lookup(map, key, cpus).map_err(Errno)
    }
    fn update(&mut self, map: usize, key: &[u8], value: &[u8], flags: u64) -> std::result::Result<(), Errno> {
        let cpus = self.engine.nr_cpus();
        self.enabled()?.update(map, (key, value), flags, cpus).map_err(Errno)
    }
    fn delete(&mut self, map: usize, key: &[u8]) -> std::result::Result<(), Errno> {
        self.enabled()?.delete(map, key).map_err(Errno)
    }
    fn next(&mut self, map: usize, key: Option<&[u8]>) -> std::result::Result<Vec<u8>, Errno> {
        self.enabled()?.next(map, key).map_err(Errno)
    }
    fn test_run(&mut self, program: usize, context: &mut Vec<u8>) -> std::result::Result<u32, Errno> {
        let enabled = self.enabled.as_ref().ok_or(Errno(libc::ENOENT))?;
        self.engine.finish_verbs();
        Ok(enabled.run(self.engine, program, context) as u32)
    }
    fn sleep(&mut self, until_ns: Option<u64>) -> Wake {
        if self.is_over || self.enabled.is_none() || self.failed.is_some() {
            let now_ns = until_ns.unwrap_or_else(|| self.engine.kernel_time(self.engine.now));
            return Wake { now_ns, ended: true };
        }
        self.goes_on(until_ns.unwrap_or(u64::MAX));
        let now_ns = self.engine.kernel_time(self.engine.now);
        Wake { now_ns, ended: self.is_over || self.failed.is_some() }
    }
}
