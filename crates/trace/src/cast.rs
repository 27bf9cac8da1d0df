//! The tasks of a run's events: names, ids and processes.
//!
//! Events name tasks by [`TaskId`], which counts from 0 in every run. Files for other tools need a kernel's numbers and
//! names. A recording has them; a simulated run gets numbers that no kernel thread has.

use schedlab_base::{Ns, TaskId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One task of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Actor {
    /// `comm`. Recordings know its first 15 bytes.
    pub name: String,
    /// The kernel's thread id (tid), never 0.
    pub tid: u32,
    /// The process (tgid); `tid == process` for the thread that leads it. 0 if a recording does not report it.
    pub process: u32,
    /// Belongs to the machine, not to the workload: a kernel thread or a background task.
    pub background: bool,
    /// Priority in the kernel's numbers: 0 to 99 is real-time, 120 is nice 0.
    pub prio: i32,
    /// The control group, if known.
    pub group: Option<String>,
}

const IDLE_PRIO: i32 = 120;
/// First thread id of tasks that the cast does not have. The kernel's ids are below 2^22.
const STRANGERS: u32 = 1 << 23;

/// The tasks of a run by [`TaskId`], and general facts about the run.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cast {
    pub tasks: Vec<Actor>,
    /// Number of CPUs: the highest number that occurs, plus one.
    pub cpus: usize,
    /// Release of the real or simulated kernel ("6.1.192"); empty if unknown.
    pub release: String,
    /// End of the run; it begins at 0.
    pub end: Ns,
}

#[cfg(test)]
impl Cast {
    /// Two tasks, threads 1000 and 1001 of process 1000, on two CPUs.
    pub(crate) fn of_two(names: [&str; 2], release: &str, end: u64) -> Cast {
        let actor = |(name, tid): (&str, u32)| Actor {
            name: name.to_owned(),
            tid,
            process: 1000,
            background: false,
            prio: 120,
            group: None,
        };
        let tasks = names.into_iter().zip(1000..).map(actor).collect();
        Cast { tasks, cpus: 2, release: release.to_owned(), end: Ns(end) }
    }
}

impl Cast {
    /// A task; `None` if the cast does not have it.
    pub fn of(&self, task: TaskId) -> Option<&Actor> {
        self.tasks.get(task.index())
    }
    /// A task's name; its number if the cast does not have it.
    pub fn name(&self, task: TaskId) -> String {
        self.label(task).into_owned()
    }
    /// The thread id of a task, also of one that the cast does not have.
    #[inline]
    pub fn tid(&self, task: TaskId) -> u32 {
        self.of(task).map_or(STRANGERS + task.0, |a| a.tid)
    }
    /// A task's priority, or that of the idle task.
    #[inline]
    pub fn prio(&self, task: Option<TaskId>) -> i32 {
        task.and_then(|t| self.of(t)).map_or(IDLE_PRIO, |a| a.prio)
    }
    /// As [`Cast::name`], without a copy where possible.
    #[inline]
    pub fn label(&self, task: TaskId) -> Cow<'_, str> {
        match self.of(task) {
            Some(actor) => Cow::Borrowed(&actor.name),
            None => Cow::Owned(format!("task {}", task.index())),
        }
    }
}
