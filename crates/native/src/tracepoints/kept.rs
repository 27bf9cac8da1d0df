//! Keeps a recording's events in a file as they are analysed.
//!
//! The tracepoints tell threads and no processes. Tasks of the workload are threads of this process, or processes of
//! their own, which is looked up while they run; of all other threads the process is not known. Priorities are not
//! recorded: all tasks have that of nice 0.

use super::translate::{Audience, Translator};
use schedlab_base::{Ns, TaskId, Warning};
use schedlab_record::{Analyser, TaskName};
use schedlab_trace::kept::Writer;
use schedlab_trace::{Actor, Cast, Event, Sink};
use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

static WANTED: Mutex<Option<PathBuf>> = Mutex::new(None);
/// Number of the first thread whose own number is not known any more: beyond those of kernels (PID_MAX_LIMIT).
const UNKNOWN_TID: u32 = 1 << 22;
/// Priority of nice 0.
const NICE_0: i32 = 120;

/// From now on, recordings that begin write their events to that file.
pub fn ask(file: Option<PathBuf>) {
    *WANTED.lock().unwrap_or_else(PoisonError::into_inner) = file;
}

/// A file that is being written.
pub struct Keeper {
    writer: Result<Writer<File>, io::Error>,
}

impl Keeper {
    /// Begins the file that was asked for.
    pub fn if_asked() -> Option<Keeper> {
        let path = WANTED.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        Some(Keeper { writer: File::create_new(path).and_then(Writer::new) })
    }
    /// Tells that the run is measured from then on.
    pub fn measured_from(&mut self, at: Ns) {
        self.writer.iter_mut().for_each(|w| w.measured_from(at));
    }
    /// Ends the file; a warning if it could not be written.
    pub fn finish(self, analyser: &Analyser, threads: &Translator, end: Ns, lost: u64) -> Option<Warning> {
        let ended = self.writer.and_then(|mut writer| {
            writer.lost(lost);
            writer.finish(cast(analyser, threads, end))?.sync_all()
        });
        let failed = ended.err()?;
        Some(Warning::new("events.not_kept", format!("the file of events could not be written: {failed}")))
    }
}

/// The tasks of a recording.
fn cast(analyser: &Analyser, threads: &Translator, end: Ns) -> Cast {
    let mut tids: BTreeMap<TaskId, u32> = threads.threads().map(|(thread, task)| (task, thread)).collect();
    tids.extend(threads.workload.iter().map(|(thread, task)| (*task, *thread)));
    let me = std::process::id();
    let mine = |tid: u32| Path::new(&format!("/proc/self/task/{tid}")).exists();
    let actor = |(at, name): (usize, &TaskName)| {
        let tid = tids.get(&TaskId::from(at)).copied();
        let process = match (name.background, tid) {
            (false, Some(tid)) if mine(tid) => me,
            _ => 0,
        };
        Actor {
            name: name.name.clone(),
            tid: tid.unwrap_or(UNKNOWN_TID + at as u32),
            process,
            background: name.background,
            prio: NICE_0,
            group: None,
        }
    };
    let tasks = analyser.names().iter().enumerate().map(actor).collect();
    let release = std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    Cast { tasks, cpus: analyser.nr_cpus(), release: release.trim().to_owned(), end }
}

/// The receivers of a recording's events.
pub struct Told<'a> {
    /// Gives ids to tasks.
    pub analyser: &'a mut Analyser,
    /// Keeps the events.
    pub keeper: Option<&'a mut Keeper>,
}

impl Sink for Told<'_> {
    fn event(&mut self, event: &Event) {
        self.analyser.event(event);
        if let Some(Keeper { writer: Ok(writer) }) = &mut self.keeper {
            writer.event(event);
        }
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.analyser.sample(at, task, series, value);
    }
}

impl Audience for Told<'_> {
    fn meet(&mut self, task: TaskName) -> TaskId {
        self.analyser.meet(task)
    }
}
