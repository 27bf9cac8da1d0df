//! Writes a recording's events to a file while they are analysed.
//!
//! Tracepoints report only threads. Process, priority and group of a thread are looked up when the recording ends
//! ([`super::live_thread`]). A thread that has ended gets priority and group of its creator; if that has ended, too,
//! priority of nice 0. Tasks of the workload have the attributes and groups that the workload gives them at the start.

use super::live_thread::{self, LiveThread};
use super::translate::{Audience, Translator};
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{Ns, TaskId, Warning};
use schedlab_trace::kept::Writer;
use schedlab_trace::{Actor, Cast, Event, EventKind, Sink};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

static WANTED: Mutex<Option<KeepRequest>> = Mutex::new(None);
/// First thread id for threads whose own id is unknown: beyond those of kernels (PID_MAX_LIMIT).
const UNKNOWN_TID: u32 = 1 << 22;
/// Priority of nice 0.
const NICE_0: i32 = 120;

#[derive(Clone, Default)]
struct KeepRequest {
    file: PathBuf,
    /// The most bytes to write; 0: no limit.
    most_bytes: u64,
    /// Priorities and groups of the workload's tasks.
    own: Vec<(i32, Option<String>)>,
}

/// Makes recordings that begin later write their events to that file, at most this many bytes (0: no limit).
pub fn ask_to_keep(file: Option<PathBuf>, most_bytes: u64) {
    let wanted = file.map(|file| KeepRequest { file, most_bytes, own: Vec::new() });
    *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = wanted;
}

/// Sets the priorities and groups of the workload's tasks for the next recording.
pub fn describe_tasks(tasks: impl Iterator<Item = (i32, Option<String>)>) {
    if let Some(wanted) = WANTED.lock().unwrap_or_else(PoisonError::into_inner).as_mut() {
        wanted.own = tasks.collect();
    }
}

pub struct Keeper {
    writer: Result<Writer<File>, io::Error>,
    wanted: KeepRequest,
    /// The creator of each new task.
    makers: BTreeMap<TaskId, TaskId>,
    /// Time when the file became full.
    full_at: Option<Ns>,
}

impl Keeper {
    /// Begins the requested file.
    pub fn if_asked() -> Option<Keeper> {
        let wanted = WANTED.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let writer = File::create_new(&wanted.file).and_then(|file| {
            // Another schedlab removes old files of the store that nobody has locked.
            let _ = file.try_lock();
            Writer::new(file)
        });
        Some(Keeper { writer, wanted, makers: BTreeMap::new(), full_at: None })
    }
    fn event(&mut self, event: &Event) {
        if let EventKind::Forked { task, parent: Some(parent) } = event.kind {
            self.makers.insert(task, parent);
        }
        let Ok(writer) = &mut self.writer else { return };
        if self.full_at.is_none() && self.wanted.most_bytes > 0 && writer.bytes() > self.wanted.most_bytes {
            self.full_at = Some(event.at);
        }
        if self.full_at.is_none() {
            writer.event(event);
        }
    }
    /// Sets the start of the measured time.
    pub fn measured_from(&mut self, at: Ns) {
        self.writer.iter_mut().for_each(|w| w.measured_from(at));
    }
    /// Ends the file; returns a warning if it could not be written.
    pub fn finish(self, analyser: &Analyser, threads: &Translator, end: Ns, lost: u64) -> Option<Warning> {
        let Keeper { writer, wanted, makers, full_at } = self;
        let kept_until = full_at.map_or(end, |full| full.min(end));
        let ended = writer.and_then(|mut writer| {
            writer.lost(lost);
            writer.finish(cast(analyser, threads, kept_until, &wanted.own, &makers))?.sync_all()
        });
        let failed = ended.err().map(|e| format!("the file of events could not be written: {e}"));
        let cut = full_at.map(|full| {
            let mb = wanted.most_bytes >> 20;
            format!("the events after {full} of {end} are not kept: {mb} MB are the most from here; a shorter run has less")
        });
        let not_kept = failed.map(|text| Warning::new("events.not_kept", text));
        not_kept.or_else(|| cut.map(|text| Warning::new("events.cut", text)))
    }
}

/// The tasks of a recording.
fn cast(
    analyser: &Analyser,
    threads: &Translator,
    end: Ns,
    own: &[(i32, Option<String>)],
    makers: &BTreeMap<TaskId, TaskId>,
) -> Cast {
    let mut tids: BTreeMap<TaskId, u32> = threads.threads().map(|(thread, task)| (task, thread)).collect();
    tids.extend(threads.workload.iter().map(|(thread, task)| (*task, *thread)));
    let names = analyser.names();
    let known: Vec<Option<LiveThread>> = (0..names.len())
        .map(|at| tids.get(&TaskId::from(at)).and_then(|tid| live_thread::find(*tid)))
        .collect();
    // The nearest creator that still exists, starting with the task itself. The id may belong to another thread by now.
    let found = |task: usize| {
        let mut at = Some(TaskId::from(task));
        for _ in 0..names.len() {
            let Some(seen) = known.get(at?.index())? else {
                at = makers.get(&at?).copied();
                continue;
            };
            return Some((seen, at == Some(TaskId::from(task))));
        }
        None
    };
    let me = live_thread::find(std::process::id());
    let actor = |(at, name): (usize, &TaskName)| {
        let found = found(at);
        let seen = found.map(|(seen, _)| seen).or(me.as_ref().filter(|_| !name.background));
        let (prio, group) = match own.get(at).filter(|_| !name.background) {
            // Tasks in the root group are in this session's group, if there is one.
            Some((prio, group)) => (*prio, group.clone().or_else(|| me.as_ref()?.group.clone())),
            None => (seen.map_or(NICE_0, |s| s.prio), seen.and_then(|s| s.group.clone())),
        };
        Actor {
            name: name.name.clone(),
            tid: tids.get(&TaskId::from(at)).copied().unwrap_or(UNKNOWN_TID + at as u32),
            process: found.filter(|(_, itself)| *itself).map_or(0, |(seen, _)| seen.process),
            background: name.background,
            prio,
            group,
        }
    };
    let tasks = names.iter().enumerate().map(actor).collect();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Cast { tasks, cpus: analyser.nr_cpus(), release: release.trim().to_owned(), end }
}

/// The receivers of a recording's events.
pub struct Receivers<'a> {
    /// Assigns ids to tasks.
    pub analyser: &'a mut Analyser,
    /// Writes the events.
    pub keeper: Option<&'a mut Keeper>,
}

impl Sink for Receivers<'_> {
    fn event(&mut self, event: &Event) {
        self.analyser.event(event);
        if let Some(keeper) = &mut self.keeper {
            keeper.event(event);
        }
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.analyser.sample(at, task, series, value);
    }
}

impl Audience for Receivers<'_> {
    fn meet(&mut self, task: TaskName) -> TaskId {
        self.analyser.meet(task)
    }
}
