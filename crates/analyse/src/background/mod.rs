//! Finds out which threads an idle machine runs, how often and how long: switches and wakeups become arrivals.
//!
//! An arrival begins with a wakeup and ends when the thread blocks or exits. Its run time is the sum of its stays on a
//! CPU, so preemption does not split it. A wakeup before the recording, or a stay that is open at its end, is not an
//! arrival, but its time on a CPU still counts. Times are ns since the recording began. [`groups`] makes groups of
//! threads, [`file()`] rows of a background file.

mod groups;
mod rows;
#[cfg(test)]
mod tests;

pub use groups::{Group, Shape, ThreadFacts, ThreadKind, groups};
pub use rows::file;

use crate::TaskName;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Event, EventKind, Sink, SwitchReason};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Arrival {
    pub at: Ns,
    /// CPU time until the thread blocked.
    pub ran: Ns,
    /// The CPU of its last stay.
    pub cpu: CpuId,
}

/// A thread's state, as far as known from events.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
enum ThreadState {
    /// No event has shown yet whether it sleeps.
    #[default]
    Unknown,
    Asleep,
    /// Awake since its wakeup; `None` if that was before the recording.
    Awake(Option<Ns>),
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Thread {
    /// Its name in the kernel's events.
    pub name: String,
    /// The name of the thread that created it, if the recording has the fork.
    pub parent: Option<String>,
    /// Its arrivals, in the order of their ends.
    pub arrivals: Vec<Arrival>,
    pub cpu_time: Ns,
    state: ThreadState,
    /// The begin of its stay.
    since: Option<Ns>,
    /// CPU time since its wakeup.
    ran: Ns,
}

/// Collects arrivals from the events of a recording.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Activity {
    threads: Vec<Thread>,
}

impl Activity {
    /// Numbers a new thread.
    pub fn meet(&mut self, task: TaskName) -> TaskId {
        self.threads.push(Thread { name: task.name, ..Thread::default() });
        TaskId::from(self.threads.len() - 1)
    }
    /// The threads by number, after the recording has ended at `end`.
    pub fn finish(mut self, end: Ns) -> Vec<Thread> {
        self.threads.iter_mut().for_each(|thread| thread.pause(end));
        self.threads
    }
    fn thread(&mut self, task: TaskId) -> Option<&mut Thread> {
        self.threads.get_mut(task.index())
    }
}

impl Thread {
    fn woken(&mut self, at: Ns) {
        // A thread on its way to sleep may be woken while it runs. That wakeup is reported again when the thread is
        // queued.
        if self.since.is_none() && !matches!(self.state, ThreadState::Awake(_)) {
            self.state = ThreadState::Awake(Some(at));
            self.ran = Ns::ZERO;
        }
    }
    fn comes(&mut self, at: Ns) {
        if self.state == ThreadState::Unknown {
            self.state = ThreadState::Awake(None);
        }
        // Its wakeup was not reported.
        self.woken(at);
        self.since = Some(at);
    }
    /// Ends its stay, if it is on a CPU.
    fn pause(&mut self, at: Ns) {
        if let Some(since) = self.since.take() {
            let stay = Ns(at.0.saturating_sub(since.0));
            self.ran = self.ran.plus(stay);
            self.cpu_time = self.cpu_time.plus(stay);
        }
    }
    fn leaves(&mut self, at: Ns, cpu: CpuId, why: SwitchReason) {
        self.pause(at);
        if !matches!(why, SwitchReason::Blocked | SwitchReason::Exited) {
            return;
        }
        if let ThreadState::Awake(Some(woken)) = self.state {
            self.arrivals.push(Arrival { at: woken, ran: self.ran, cpu });
        }
        self.state = ThreadState::Asleep;
    }
}

impl Sink for Activity {
    fn event(&mut self, event: &Event) {
        let at = event.at;
        match event.kind {
            EventKind::Switch { prev, next, why } => {
                if let Some(thread) = prev.and_then(|task| self.thread(task)) {
                    thread.leaves(at, event.cpu, why);
                }
                if let Some(thread) = next.and_then(|task| self.thread(task)) {
                    thread.comes(at);
                }
            }
            EventKind::Waking { task, .. } | EventKind::Enqueued { task, .. } => {
                if let Some(thread) = self.thread(task) {
                    thread.woken(at);
                }
            }
            EventKind::Forked { task, parent } => {
                let parent = parent.and_then(|task| self.thread(task)).map(|thread| thread.name.clone());
                if let Some(thread) = self.thread(task) {
                    thread.parent = parent;
                    thread.state = ThreadState::Asleep;
                }
            }
            _ => {}
        }
    }
}
