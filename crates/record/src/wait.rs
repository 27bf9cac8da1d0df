//! Long waits: what is kept of each, and the cause it is put down to.
//!
//! A wait runs from the moment somebody begins to wake a task until the task is on a CPU. The analyser keeps the longest
//! ones whole; [`WaitCause`] sorts them by what the task waited for. Times are nanoseconds.

use schedlab_base::{CpuId, Ns};
use serde::{Deserialize, Serialize};

/// An occupant whose own wakeup is younger than this counts as just woken: it has the same sleeper's credit as the
/// waiting task, so that neither preempts the other (D000: two workers of one burst on one CPU).
pub const FRESH_NS: u64 = 1_000_000;

/// One long wait of a workload task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    /// The task that waited.
    pub task: String,
    /// When its wakeup began.
    pub woken_at: Ns,
    /// From then until it ran.
    pub length_ns: u64,
    /// The part before it was on a runqueue: choosing a CPU, locks, interrupt.
    pub enqueue_ns: u64,
    /// Who woke it; `None` from interrupt context.
    pub waker: Option<String>,
    /// The CPU the waker ran on.
    pub waker_cpu: CpuId,
    /// The CPU chosen.
    pub chosen_cpu: CpuId,
    /// Why, by `PlaceReason` name; `None` where the backend does not say.
    pub placement: Option<String>,
    /// CPUs whose idle state was read for the choice.
    pub probes: u16,
    /// Who was on the chosen CPU when the task was enqueued; `None`: it was idle.
    pub occupant: Option<Occupant>,
    /// Runnable tasks on that CPU right after the enqueue, this one and the running one included.
    pub nr_running: u16,
    /// The CPU it ran on in the end.
    pub ran_on: CpuId,
    /// Why it was moved while it waited, by `MoveReason` name (the last move).
    pub moved: Option<String>,
    /// Who left the CPU for it; `None`: the CPU was idle.
    pub ended_by: Option<String>,
    /// Why that one left, by `SwitchReason` name.
    pub ended_why: String,
    /// Time the CPU spent leaving idle before it ran the task; 0 when it was not idle.
    pub idle_exit_ns: u64,
}

/// Who ran on the chosen CPU when a task was enqueued there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occupant {
    /// Its name.
    pub task: String,
    /// How long it had been on the CPU.
    pub ran_ns: u64,
    /// Whether it had itself been woken less than [`FRESH_NS`] before.
    pub fresh: bool,
}

/// What a wait is put down to. One row each: name in JSON, sentence for people.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum WaitCause {
    /// Ended by the balancer.
    Pulled,
    /// Most of it went by before the task was queued.
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
    /// Every cause, in the order the tests are made.
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
    /// What the wait is put down to: the first cause of [`WaitCause::ALL`] that holds.
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
            // An idle CPU with somebody already queued: two wakers chose it before either task ran (no reservation).
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
