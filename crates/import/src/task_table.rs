//! The tasks of a recording: turns the kernel's thread numbers, which are reused, into unique ids.
//!
//! A thread becomes a task when it is first seen, and a new task when its number is used again: after a fork that
//! returns it, or after the switch with which the old task ended.

use crate::sched_record::{Comm, MAX_THREADS, Thread, UNKNOWN_PROCESS};
use schedlab_base::{Ns, TaskId};
use schedlab_trace::{Actor, Cast, Sink, Within};
use std::collections::BTreeMap;

/// The receiver of a recording's events.
pub trait Audience: Sink {
    /// Called first: the recording begins at this time of its own clock, ns.
    fn opens(&mut self, _at_ns: u64) {}
    /// A task is seen for the first time. Ids count up from 0.
    fn meet(&mut self, task: TaskId, actor: &Actor);
    /// From now on the task has another name, or its process is known.
    fn changed(&mut self, task: TaskId, actor: &Actor);
}

/// The kernel's priority for nice 0.
const NICE_0: i32 = 120;

/// Passes on a part of a recording, and all its tasks.
impl<A: Audience + ?Sized> Audience for Within<'_, A> {
    fn opens(&mut self, at_ns: u64) {
        let at_ns = at_ns.saturating_add(self.opened().0);
        self.inner().opens(at_ns);
    }
    fn meet(&mut self, task: TaskId, actor: &Actor) {
        self.inner().meet(task, actor);
    }
    fn changed(&mut self, task: TaskId, actor: &Actor) {
        self.inner().changed(task, actor);
    }
}

/// How a task comes to a CPU: the reason for a move, if it moves now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Arrival {
    /// For another reason.
    #[default]
    No,
    Woken,
    /// It was just made.
    New,
    /// It runs already; nothing is known of its past.
    Here,
}

/// Facts about a thread that are known from outside of records.
#[derive(Clone, Debug, Default)]
pub struct KnownThread {
    pub comm: Comm,
    /// Its process, or [`UNKNOWN_PROCESS`].
    pub process: u32,
    /// The kernel's priority, as in [`Thread`].
    pub prio: Option<i32>,
    pub group: Option<String>,
}

/// Facts about a task in addition to its actor.
#[derive(Clone, Copy, Default)]
struct TaskNote {
    comm: Comm,
    arrival: Arrival,
}

#[derive(Default)]
pub struct TaskTable {
    /// The task of each thread number, plus one; 0 if there is none.
    by_tid: Vec<u32>,
    actors: Vec<Actor>,
    notes: Vec<TaskNote>,
    /// Facts about threads that have not been seen yet.
    introduced: BTreeMap<u32, KnownThread>,
}

impl TaskTable {
    /// The thread's task; `None` for the idle task.
    #[inline]
    pub fn task(&mut self, thread: &Thread, audience: &mut dyn Audience) -> Option<TaskId> {
        if thread.tid == 0 || thread.tid >= MAX_THREADS {
            return None;
        }
        match self.by_tid.get(thread.tid as usize) {
            Some(&known) if known > 0 => {
                let task = TaskId(known - 1);
                self.refresh(task, thread, audience);
                Some(task)
            }
            _ => Some(self.meet(thread, audience)),
        }
    }

    #[inline]
    fn refresh(&mut self, task: TaskId, thread: &Thread, audience: &mut dyn Audience) {
        let note = &mut self.notes[task.index()];
        if let Some(prio) = thread.prio {
            self.actors[task.index()].prio = prio;
        }
        if thread.comm != note.comm && !thread.comm.is_unknown() {
            note.comm = thread.comm;
            let actor = &mut self.actors[task.index()];
            actor.name = thread.comm.text();
            audience.changed(task, actor);
        }
    }

    #[cold]
    fn meet(&mut self, thread: &Thread, audience: &mut dyn Audience) -> TaskId {
        let task = TaskId::from(self.actors.len());
        let tid = thread.tid as usize;
        if tid >= self.by_tid.len() {
            self.by_tid.resize((tid + 1).next_power_of_two(), 0);
        }
        self.by_tid[tid] = task.0 + 1;
        let KnownThread { comm, process, prio, group } =
            self.introduced.remove(&thread.tid).unwrap_or_default();
        let comm = if thread.comm.is_unknown() { comm } else { thread.comm };
        let known = !comm.is_unknown();
        let actor = Actor {
            name: if known { comm.text() } else { format!("thread {tid}") },
            tid: thread.tid,
            process,
            background: false,
            prio: thread.prio.or(prio).unwrap_or(NICE_0),
            group,
        };
        audience.meet(task, &actor);
        self.actors.push(actor);
        self.notes.push(TaskNote { comm: if known { comm } else { Comm::default() }, arrival: Arrival::No });
        task
    }

    /// Notes facts about a thread that may be seen later.
    pub fn introduce(&mut self, tid: u32, known: KnownThread) {
        self.introduced.insert(tid, known);
    }

    /// Sets the process of a thread, if the thread is known and its process is not.
    #[inline]
    pub fn belongs(&mut self, tid: u32, process: u32, audience: &mut dyn Audience) {
        if process == UNKNOWN_PROCESS || process >= MAX_THREADS {
            return;
        }
        let Some(&known) = self.by_tid.get(tid as usize) else { return };
        if let Some(actor) = known.checked_sub(1).and_then(|at| self.actors.get_mut(at as usize))
            && actor.process != process
        {
            actor.process = process;
            audience.changed(TaskId(known - 1), actor);
        }
    }

    /// The number does not belong to this thread any more.
    pub fn forget(&mut self, tid: u32) {
        if let Some(known) = self.by_tid.get_mut(tid as usize) {
            *known = 0;
        }
    }

    /// The task of a number, if it has been seen.
    pub fn known(&self, tid: u32) -> Option<TaskId> {
        self.by_tid.get(tid as usize).and_then(|known| known.checked_sub(1)).map(TaskId)
    }

    pub fn process(&self, task: TaskId) -> u32 {
        self.actors.get(task.index()).map_or(UNKNOWN_PROCESS, |a| a.process)
    }

    /// Why the task comes to a CPU.
    #[inline]
    pub fn arrival(&mut self, task: TaskId) -> &mut Arrival {
        &mut self.notes[task.index()].arrival
    }

    /// All tasks, at the end of the recording.
    pub fn into_cast(self, cpus: usize, release: String, end: Ns) -> Cast {
        Cast { tasks: self.actors, cpus, release, end }
    }
}
