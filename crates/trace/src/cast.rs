//! The tasks of a run's events: names, ids and processes.
//!
//! Events name tasks by [`TaskId`], which count up from 0 in every run. A file for other tools needs the numbers and
//! names that a kernel would show. A recording has them; a simulated run is given numbers that no kernel thread has.

use schedlab_base::{Ns, TaskId};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// One task of a run.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Actor {
    /// Its name (`comm`); recordings know its first 15 bytes.
    pub name: String,
    /// Its number in the kernel (tid), never 0.
    pub tid: u32,
    /// Its process (tgid); a thread that leads its process has `tid == process`. 0 when a recording does not report.
    pub process: u32,
    /// It belongs to the machine and not to the workload: a kernel thread, or a background task.
    pub background: bool,
    /// Its priority as the kernel counts: 0 to 99 is real-time, 120 is nice 0.
    pub prio: i32,
    /// Its group (control group), if one is known.
    pub group: Option<String>,
}

/// Priority of the idle task.
const IDLE_PRIO: i32 = 120;
/// Threads that the cast does not have get numbers from here on; the kernel's go up to 2^22.
const STRANGERS: u32 = 1 << 23;

/// The tasks of a run, by [`TaskId`], and the frame of its events.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Cast {
    pub tasks: Vec<Actor>,
    /// CPUs of the machine: the highest number that occurs, plus one.
    pub cpus: usize,
    /// Release of the kernel that ran or was simulated ("6.1.192"), empty if it is not known.
    pub release: String,
    /// End of the run, since its beginning.
    pub end: Ns,
}

impl Cast {
    /// A task; `None` for an id that the cast does not have.
    pub fn of(&self, task: TaskId) -> Option<&Actor> {
        self.tasks.get(task.index())
    }
    /// A task's name, or its number where the cast does not have it.
    pub fn name(&self, task: TaskId) -> String {
        self.label(task).into_owned()
    }
    /// The number of a task's thread, which files need also where the cast does not have it.
    #[inline]
    pub fn tid(&self, task: TaskId) -> u32 {
        self.of(task).map_or(STRANGERS + task.0, |a| a.tid)
    }
    /// A task's priority, or that of the idle task.
    #[inline]
    pub fn prio(&self, task: Option<TaskId>) -> i32 {
        task.and_then(|t| self.of(t)).map_or(IDLE_PRIO, |a| a.prio)
    }
    /// The same as [`Cast::name`], without a copy where there is a name.
    #[inline]
    pub fn label(&self, task: TaskId) -> Cow<'_, str> {
        match self.of(task) {
            Some(actor) => Cow::Borrowed(&actor.name),
            None => Cow::Owned(format!("task {}", task.index())),
        }
    }
}
