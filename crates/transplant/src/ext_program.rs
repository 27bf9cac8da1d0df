//! A scheduler's own program, with its user-space half: it is started under the broker, and while all of its threads
//! sleep the machine runs up to the time at which the first one wakes up.
//!
//! Its work takes no simulated time. Its maps are files in memory that both sides see.

use crate::engine::Engine;
use crate::ext::{Enabled, Given, Loaded, enable};
use crate::run::start;
use schedlab_base::{CpuId, Error, Result, SchedulerFailure, TaskId, Warning};
use schedlab_scx::broker::sysfs::Group;
use schedlab_scx::broker::{self, Attach, Errno, Outcome, Refusal, Request, Wake};
use schedlab_scx::btf::Btf;
use schedlab_scx::object::whole;
use schedlab_scx::{Map, Target};
use std::ffi::c_void;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::Path;

/// At most this many refusals are put into a record.
const MOST_REFUSED: usize = 20;

/// So often rings are looked at for calls of their readers, simulated ns.
const RING_LOOK_NS: u64 = 100_000;

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
    /// What the image has of a scheduler that is not attached.
    loaded: Option<Loaded>,
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
    let mut request = Request { start_ns: engine.kernel_time(engine.now), ..program.request };
    request.tree.put_functions(program.btf.functions());
    groups(engine).iter().for_each(|group| request.tree.put_group(group));
    let mut far = Far {
        engine,
        object,
        btf: &program.btf,
        runs_up,
        waiting,
        loaded: None,
        enabled: None,
        failed: None,
        is_over: false,
    };
    let outcome = broker::run(&request, &mut far)?;
    if let Some(enabled) = far.enabled.as_ref().filter(|_| !far.is_over && far.failed.is_none()) {
        // A program often leaves because the kernel has thrown its scheduler out.
        enabled.account().has_lasted()?;
        return Err(has_left(&request, &outcome));
    }
    match (far.failed, far.enabled) {
        (Some(failed), _) => Err(failed),
        (None, Some(enabled)) => Ok((enabled, outcome)),
        (None, None) => Err(attaches_nothing(&request, &outcome)),
    }
}

/// Files of a group that are shown.
const GROUP_FILES: [&str; 5] = ["cpu.weight", "cpu.weight.nice", "cpu.idle", "cpu.max", "cpu.max.burst"];

/// The machine's groups, as the kernel has them.
fn groups(engine: &mut Engine<'_>) -> Vec<Group> {
    let numbers = engine.groups.iter().zip(&engine.quotas.paths);
    let one = |(number, path): (&i32, &String)| {
        let file = |name: &&str| Some(((*name).to_owned(), engine.kernel.group_file(*number, name)?));
        // The image counts groups from 0, the kernel's ids from 1.
        Group {
            path: path.clone(),
            id: *number as u64 + 1,
            files: GROUP_FILES.iter().filter_map(file).collect(),
        }
    };
    numbers.map(one).collect()
}

/// The tasks would run under the fair class from there on.
fn has_left(request: &Request, outcome: &Outcome) -> Error {
    let said = last_words(outcome, 6);
    if outcome.was_killed {
        let (program, seconds) = (request.program.display(), request.patience.as_secs());
        let text = format!("{program} has let no simulated time pass in {seconds} s, and was ended{said}");
        return Error::input(text)
            .of_scheduler(SchedulerFailure::StandsStill)
            .help("a scheduler's program sleeps or waits between its decisions");
    }
    let (program, status) = (request.program.display(), &outcome.status);
    Error::input(format!("{program} has left before the run was over ({status}){said}"))
        .of_scheduler(SchedulerFailure::Left)
        .help("a scheduler's program stays until it gets SIGINT")
}

fn taken_off(scheduler: &str) -> Error {
    Error::input(format!("the program of scheduler {scheduler} has taken it off before the run was over"))
        .of_scheduler(SchedulerFailure::Left)
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

/// Its last errors, or what it printed if there are none, each line on a line of its own.
fn last_words(outcome: &Outcome, most: usize) -> String {
    let bytes = if outcome.errors.is_empty() { &outcome.output } else { &outcome.errors };
    let lines: String = last_lines(bytes, most).into_iter().map(|line| format!("\n    {line}")).collect();
    if lines.is_empty() { String::new() } else { format!("; it said:{lines}") }
}

fn attaches_nothing(request: &Request, outcome: &Outcome) -> Error {
    if outcome.was_killed {
        let seconds = request.patience.as_secs();
        let text =
            format!("{} has attached no scheduler in {seconds} s, and was ended", request.program.display());
        return Error::input(text)
            .of_scheduler(SchedulerFailure::Refused)
            .help("it loads and attaches a scheduler, and stays until it gets SIGINT");
    }
    let refused: Vec<String> =
        outcome.refused_bpf.keys().chain(outcome.refused_calls.keys()).cloned().collect();
    let text = format!(
        "{} has attached no scheduler ({}){}",
        request.program.display(),
        outcome.status,
        last_words(outcome, 12)
    );
    let remedy = match refused.is_empty() {
        true => {
            "it runs with its arguments as on a machine of its own: give it those that it needs".to_owned()
        }
        false => format!("it asked in vain for {}", refused.join(", ")),
    };
    Error::input(text).of_scheduler(SchedulerFailure::Refused).help(remedy)
}

/// What the program said last, and what it was refused, for a record.
pub(crate) fn facts(outcome: &Outcome) -> [(&'static str, String); 4] {
    let last = |bytes: &[u8]| last_lines(bytes, 12).join("\n");
    // What the machine does not have was not refused.
    let refused = outcome.refused.keys().filter(|(_, why)| *why != Refusal::Absent);
    let refused = refused.map(|(path, why)| match why {
        Refusal::Execute => format!("execve {}", path.display()),
        _ => path.display().to_string(),
    });
    let others = outcome.refused_bpf.keys().chain(outcome.refused_calls.keys());
    let refused: Vec<String> = refused.chain(others.cloned()).take(MOST_REFUSED).collect();
    [
        ("scx.output", last(&outcome.output)),
        ("scx.errors", last(&outcome.errors)),
        ("scx.status", outcome.status.to_string()),
        ("scx.refused", refused.join(", ")),
    ]
}

/// What a reader of the record must know of it.
pub(crate) fn warning(outcome: &Outcome) -> Option<Warning> {
    let text =
        "this machine does not let a program be traced: the scheduler's program read the machine's own clock";
    (!outcome.clock_is_simulated).then(|| Warning::new("scx.clock", text))
}

/// Maps a map's file, for good: where its lines are charged, if they are. `None`: that fails.
fn shared(file: &BorrowedFd<'_>, at: u64, loaded: &Loaded) -> Option<*mut c_void> {
    // SAFETY: zeros are a value of this plain data, and the call fills it.
    let bytes = unsafe {
        let mut about: libc::stat = std::mem::zeroed();
        (libc::fstat(file.as_raw_fd(), &raw mut about) == 0).then_some(about.st_size as usize)?
    };
    let room = if at > 0 { std::ptr::null_mut() } else { loaded.room(bytes) };
    let place = match at {
        0 if room.is_null() => 0,
        0 => libc::MAP_FIXED,
        _ => libc::MAP_FIXED_NOREPLACE,
    };
    let at = if at > 0 { at as *mut c_void } else { room };
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: new memory of the file's size; a fixed place is taken only if it is free, or one that the image has given
    // away for it.
    let memory =
        unsafe { libc::mmap(at, bytes.max(1), access, libc::MAP_SHARED | place, file.as_raw_fd(), 0) };
    (memory != libc::MAP_FAILED).then_some(memory)
}

/// The memory that both sides see, of maps that the image does not have yet.
fn shared_of(attach: &Attach<'_>, loaded: &Loaded) -> Result<Vec<Option<*mut c_void>>> {
    let known = loaded.shapes.len();
    let one = |(at, (map, file)): (usize, (&Map, &Option<BorrowedFd<'_>>))| match file {
        _ if at < known => Ok(None),
        None => Ok(None),
        Some(file) => {
            let lacks = || {
                let name = &attach.scheduler.name;
                Error::machine(format!("scheduler {name}: the memory of map {} can't be had", map.name))
                    .help("its place among the addresses is taken, or memory is short")
            };
            shared(file, map.extra, loaded).map(Some).ok_or_else(lacks)
        }
    };
    attach.scheduler.maps.iter().zip(attach.memory).enumerate().map(one).collect()
}

impl Far<'_, '_> {
    /// What the image has of the scheduler.
    fn loaded(&mut self) -> std::result::Result<&mut Loaded, Errno> {
        let enabled = self.enabled.as_mut().map(|enabled| &mut enabled.loaded);
        enabled.or(self.loaded.as_mut()).ok_or(Errno(libc::ENOENT))
    }
    /// An error ends the run, when the program has heard of it.
    fn fails<T>(&mut self, done: Result<T>) -> std::result::Result<T, Errno> {
        done.map_err(|e| {
            self.failed = Some(e.of_scheduler(SchedulerFailure::Refused));
            Errno(libc::EINVAL)
        })
    }
    /// Checks what was handed in, and maps what is shared.
    fn given(&mut self, attach: Attach<'_>) -> Result<Given> {
        whole(attach.scheduler, self.btf, &format!("scheduler {}", attach.scheduler.name))?;
        if self.enabled.is_none() && self.loaded.is_none() {
            self.loaded = Some(Loaded::of(self.engine, self.object)?);
        }
        let loaded = self.loaded().map_err(|_| Error::internal("nothing is loaded"))?;
        let memory = shared_of(&attach, loaded)?;
        Ok(Given { memory, entries: attach.entries, cpu: CpuId(attach.cpu) })
    }
    fn add(&mut self, attach: Attach<'_>) -> Result<()> {
        let scheduler = attach.scheduler;
        let given = self.given(attach)?;
        self.engine.finish_verbs();
        let enabled = self.enabled.as_mut().map(|enabled| &mut enabled.loaded);
        let loaded = enabled.or(self.loaded.as_mut()).ok_or_else(|| Error::internal("nothing is loaded"))?;
        loaded.add((scheduler, self.btf), given, self.engine)
    }
    fn enable(&mut self, attach: Attach<'_>) -> Result<()> {
        let scheduler = attach.scheduler;
        let given = self.given(attach)?;
        self.engine.finish_verbs();
        let loaded = self.loaded.take().ok_or_else(|| Error::internal("nothing is loaded"))?;
        self.enabled = Some(enable((scheduler, self.btf), given, self.engine, loaded)?);
        start(self.engine, std::mem::take(&mut self.waiting))
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
    fn load(&mut self, given: Attach<'_>) -> std::result::Result<(), Errno> {
        let done = self.add(given);
        self.fails(done)
    }
    fn attach(&mut self, attach: Attach<'_>) -> std::result::Result<u64, Errno> {
        let done = self.enable(attach);
        self.fails(done)?;
        Ok(self.engine.kernel_time(self.engine.now))
    }
    fn trace(&mut self, program: usize, target: &Target) -> std::result::Result<(), Errno> {
        self.engine.finish_verbs();
        self.engine.enter(CpuId(0));
        let btf = self.btf;
        let done = self.loaded()?.trace(program, target, btf).map_err(Errno);
        self.engine.take_notes(CpuId(0));
        done
    }
    fn untrace(&mut self, program: usize, target: &Target) {
        self.engine.enter(CpuId(0));
        if let Ok(loaded) = self.loaded() {
            loaded.untrace(program, target);
        }
    }
    fn detach(&mut self) {
        if let Some(enabled) = &self.enabled {
            self.engine.finish_verbs();
            let account = enabled.account();
            enabled.disable(self.engine);
            if !self.is_over && self.failed.is_none() {
                self.failed = account.has_lasted().err().or_else(|| Some(taken_off(&account.name)));
            }
        }
    }
    fn lookup(&mut self, map: usize, key: &[u8]) -> std::result::Result<Vec<u8>, Errno> {
        let cpus = self.engine.nr_cpus();
        self.loaded()?.lookup(map, key, cpus).map_err(Errno)
    }
    fn update(&mut self, map: usize, key: &[u8], value: &[u8], flags: u64) -> std::result::Result<(), Errno> {
        let cpus = self.engine.nr_cpus();
        self.loaded()?.update(map, (key, value), flags, cpus).map_err(Errno)
    }
    fn delete(&mut self, map: usize, key: &[u8]) -> std::result::Result<(), Errno> {
        self.loaded()?.delete(map, key).map_err(Errno)
    }
    fn next(&mut self, map: usize, key: Option<&[u8]>) -> std::result::Result<Vec<u8>, Errno> {
        self.loaded()?.next(map, key).map_err(Errno)
    }
    fn test_run(
        &mut self,
        program: usize,
        context: &mut Vec<u8>,
        cpu: u32,
    ) -> std::result::Result<u32, Errno> {
        self.engine.finish_verbs();
        let loaded = self.enabled.as_ref().map(|enabled| &enabled.loaded).or(self.loaded.as_ref());
        Ok(loaded.ok_or(Errno(libc::ENOENT))?.run(self.engine, program, context, CpuId(cpu)) as u32)
    }
    fn busy_ns(&mut self) -> Vec<u64> {
        let now = self.engine.now;
        self.engine.cpus.iter().map(|cpu| cpu.busy_until(now)).collect()
    }
    fn sleep(&mut self, until_ns: Option<u64>) -> Wake {
        if self.is_over || self.enabled.is_none() || self.failed.is_some() {
            let now_ns = until_ns.unwrap_or_else(|| self.engine.kernel_time(self.engine.now));
            return Wake { now_ns, ended: true, rung: false };
        }
        let until = until_ns.unwrap_or(u64::MAX);
        let mut rung = false;
        loop {
            let now = self.engine.kernel_time(self.engine.now);
            let part = if self.loaded().is_ok_and(|l| l.has_rings()) {
                now.saturating_add(RING_LOOK_NS)
            } else {
                until
            };
            self.goes_on(part.min(until));
            rung |= self.loaded().is_ok_and(Loaded::takes_calls);
            let is_over = self.is_over || self.failed.is_some();
            if is_over || rung || part >= until {
                let now_ns = self.engine.kernel_time(self.engine.now);
                return Wake { now_ns, ended: is_over, rung };
            }
        }
    }
}
