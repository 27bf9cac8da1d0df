//! Long waits and their causes.
//!
//! A wait begins with a task's wakeup and ends when the task is on a CPU. The analyser keeps the longest waits whole;
//! [`WaitCause`] classifies them. Times are nanoseconds.

use schedlab_base::{CpuId, Ns};
use serde::{Deserialize, Serialize};

/// An occupant whose own wakeup is younger than this counts as just woken. It has the same sleeper's credit
/// as the waiting task, so neither preempts the other (D000: two workers of one burst on one CPU).
pub const FRESH_NS: u64 = 1_000_000;

/// One long wait of a workload task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The task that waited.
    pub task: String,
    /// Begin of its wakeup.
    pub woken_at: Ns,
    /// Time from then until it ran.
    pub length_ns: u64,
    /// The part before it was queued: choosing a CPU, locks, interrupt.
    pub enqueue_ns: u64,
    /// The task that woke it; `None`: an interrupt.
    pub waker: Option<String>,
    /// The CPU the waker ran on.
    pub waker_cpu: CpuId,
    pub chosen_cpu: CpuId,
    /// The reason for that CPU, a `PlaceReason` name; `None` if the backend does not report it.
    pub placement: Option<String>,
    /// CPUs whose idle state was read for the choice.
    pub probes: u16,
    /// The task on the chosen CPU when this one was queued; `None`: the CPU was idle.
    pub occupant: Option<Occupant>,
    /// Runnable tasks on that CPU right after the enqueue, this one and the running one included.
    pub nr_running: u16,
    /// The CPU on which it ran in the end.
    pub ran_on: CpuId,
    /// The reason of its last move while it waited, a `MoveReason` name.
    pub moved: Option<String>,
    /// The task that left the CPU before it; `None`: the CPU was idle.
    pub ended_by: Option<String>,
    /// Why that task left, a `SwitchReason` name.
    pub ended_why: String,
    /// Time the CPU spent leaving idle before it ran the task; 0 when it was not idle.
    pub idle_exit_ns: u64,
}

/// The task that ran on the chosen CPU when another was enqueued there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occupant {
    pub task: String,
    /// Its time on the CPU so far.
    pub ran_ns: u64,
    /// Whether it had itself been woken less than [`FRESH_NS`] before.
    pub fresh: bool,
}

/// The cause of a wait, with a name in JSON and a sentence for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitCause {
    /// The balancer moved the task, which ended the wait.
    Pulled,
    /// Most of the wait passed before the task was queued.
    Placing,
    /// The CPU was idle.
    IdleExit,
    /// Queued with another task that had just been woken.
    Stacked,
    /// Queued behind several tasks.
    Queued,
    /// The running task was preempted for it.
    Preempted,
    /// The running task was not preempted.
    BehindRunning,
}

impl WaitCause {
    /// Every cause, in the order in which they are tested.
    pub const ALL: [WaitCause; 7] = [
        WaitCause::Pulled,
        WaitCause::Placing,
        WaitCause::IdleExit,
        WaitCause::Stacked,
        WaitCause::Queued,
        WaitCause::Preempted,
        WaitCause::BehindRunning,
    ];

    const fn row(self) -> (&'static str, &'static str) {
        match self {
            WaitCause::Pulled => ("pulled", "moved to another CPU while it waited, and ran there"),
            WaitCause::Placing => {
                ("placing", "most of the wait went by before it was queued: scan, locks, IPI")
            }
            WaitCause::IdleExit => ("idle_exit", "its CPU was idle and had to wake up"),
            WaitCause::Stacked => ("stacked", "queued with another task that had just been woken"),
            WaitCause::Queued => ("queued", "queued behind two tasks or more"),
            WaitCause::Preempted => ("preempted", "queued behind a running task, which it preempted"),
            WaitCause::BehindRunning => {
                ("behind_running", "queued behind a running task that was not preempted for it")
            }
        }
    }
    /// The name in JSON.
    pub const fn name(self) -> &'static str {
        self.row().0
    }
    /// One sentence for people.
    pub const fn about(self) -> &'static str {
        self.row().1
    }
}

impl Wait {
    /// The cause: the first of [`WaitCause::ALL`] that applies.
    pub fn cause(&self) -> WaitCause {
        let fresh = self.occupant.as_ref().is_some_and(|o| o.fresh);
        let idle = self.occupant.is_none();
        if self.moved.is_some() && self.ran_on != self.chosen_cpu {
            WaitCause::Pulled
        } else if self.enqueue_ns > self.length_ns / 2 {
            WaitCause::Placing
        } else if idle && self.nr_running <= 1 {
            WaitCause::IdleExit
        } else if fresh || idle {
            // An idle CPU with a task queued: two wakers chose it before either task ran (no reservation).
            WaitCause::Stacked
        } else if self.nr_running > 2 {
            WaitCause::Queued
        } else if self.ended_why == "wakeup" {
            WaitCause::Preempted
        } else {
            WaitCause::BehindRunning
        }
    }
}
