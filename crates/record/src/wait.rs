//! Long waits and their causes.
//!
//! A wait begins with a task's wakeup and ends when the task is on a CPU. The analyser stores the longest waits in
//! full; [`WaitCause`] classifies them. Times are nanoseconds.

use schedlab_base::{CpuId, Ns};
use serde::{Deserialize, Serialize};

/// An occupant that was woken less than this before counts as just woken. It has the same sleeper's credit as the
/// waiting task, so neither preempts the other (D000: two workers of one burst on one CPU).
pub const FRESH_NS: u64 = 1_000_000;

/// One long wait of a workload task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Wait {
    pub task: String,
    /// Begin of its wakeup.
    pub woken_at: Ns,
    /// Time from the wakeup until it ran.
    pub length_ns: u64,
    /// The part of it before it was queued: choosing a CPU, locks, interrupt.
    pub enqueue_ns: u64,
    /// The task that woke it; `None` for an interrupt.
    pub waker: Option<String>,
    pub waker_cpu: CpuId,
    pub chosen_cpu: CpuId,
    /// Why that CPU was chosen (`PlaceReason` name); `None` if the backend does not report it.
    pub placement: Option<String>,
    /// Number of CPUs whose idle state was read for the choice.
    pub probes: u16,
    /// The task on the chosen CPU when this one was queued; `None` if the CPU was idle.
    pub occupant: Option<Occupant>,
    /// Runnable tasks on that CPU right after the enqueue, including this one and the running one.
    pub nr_running: u16,
    /// The CPU on which it finally ran.
    pub ran_on: CpuId,
    /// The reason of the last move during the wait (`MoveReason` name).
    pub moved: Option<String>,
    /// The task that left the CPU before it; `None` if the CPU was idle.
    pub ended_by: Option<String>,
    /// Why that task left (`SwitchReason` name).
    pub ended_why: String,
    /// Time the CPU spent leaving idle before it ran the task; 0 if it was not idle.
    pub idle_exit_ns: u64,
    /// What a sched_ext scheduler decided meanwhile, in order: the first decisions and the last one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub decided: Vec<Decision>,
    /// How many there were.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub decisions: u32,
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

/// A decision of a sched_ext scheduler about a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Decision {
    /// When, from the begin of the wakeup.
    pub after_ns: u64,
    /// The operation (`ExtOp` name), and the CPU that executed it.
    pub by: String,
    pub on: CpuId,
    /// The kind of the dispatch queue (`ExtQueue` name).
    pub to: String,
    /// The CPU of a local queue, or the one that was kicked; `None` if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<CpuId>,
    /// The number of another queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dsq: Option<u64>,
}

/// The task that ran on the chosen CPU when another was enqueued there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Occupant {
    pub task: String,
    /// Its time on the CPU so far.
    pub ran_ns: u64,
    /// Whether it had been woken less than [`FRESH_NS`] before.
    pub fresh: bool,
}

schedlab_trace::reasons! {
    /// The cause of a wait, in the order in which they are tested.
    WaitCause {
        Held = "held", "sched_ext: most of the wait went by while the scheduler kept it, in no dispatch queue";
        Dsq = "dsq", "sched_ext: most of the wait went by in a dispatch queue of no CPU (global or the scheduler's)";
        Pulled = "pulled", "moved to another CPU while it waited, and ran there";
        Placing = "placing", "most of the wait went by before it was queued: scan, locks, IPI";
        IdleExit = "idle_exit", "its CPU was idle and had to wake up";
        Stacked = "stacked", "queued with another task that had just been woken";
        Queued = "queued", "queued behind two tasks or more";
        Preempted = "preempted", "queued behind a running task, which it preempted";
        BehindRunning = "behind_running", "queued behind a running task that was not preempted for it";
    }
}

impl Wait {
    /// The first of [`WaitCause::ALL`] that applies.
    pub fn cause(&self) -> WaitCause {
        let fresh = self.occupant.as_ref().is_some_and(|o| o.fresh);
        let idle = self.occupant.is_none();
        if let Some(cause) = self.cause_by_queue() {
            cause
        } else if self.moved.is_some() && self.ran_on != self.chosen_cpu {
            WaitCause::Pulled
        } else if self.enqueue_ns > self.length_ns / 2 {
            WaitCause::Placing
        } else if idle && self.nr_running <= 1 {
            WaitCause::IdleExit
        } else if fresh || idle {
            // Another task is queued on the idle CPU: two wakers chose it before either task ran (no reservation).
            WaitCause::Stacked
        } else if self.nr_running > 2 {
            WaitCause::Queued
        } else if self.ended_why == "wakeup" {
            WaitCause::Preempted
        } else {
            WaitCause::BehindRunning
        }
    }
    /// The cause, if most of the wait went by under sched_ext and not in the local queue of a CPU.
    fn cause_by_queue(&self) -> Option<WaitCause> {
        let parts = self.queues();
        let of = |kinds: &[&str]| -> u64 {
            parts.iter().filter(|(d, _)| kinds.contains(&d.to.as_str())).map(|(_, ns)| ns).sum()
        };
        let (held_ns, shared_ns) = (of(&["held"]), of(&["global", "user", "builtin"]));
        let is_most = |ns: u64| ns > self.length_ns / 2;
        match () {
            () if is_most(held_ns) => Some(WaitCause::Held),
            () if is_most(shared_ns) => Some(WaitCause::Dsq),
            () => None,
        }
    }
    /// These queues in a line: "enqueue: DSQ 0x5 for 1.2ms, dispatch: local DSQ of cpu3"; empty if there were none.
    pub fn queue_words(&self) -> String {
        let one = |(d, ns): &(&Decision, u64)| {
            let queue = match (d.to.as_str(), d.dsq, d.of) {
                ("held", ..) => "kept by the scheduler".to_owned(),
                (_, Some(number), _) => format!("DSQ {number:#x}"),
                (kind, _, Some(cpu)) => format!("{kind} DSQ of {cpu}"),
                (kind, ..) => format!("{kind} DSQ"),
            };
            let spent = if *ns > 0 { format!(" for {}", Ns(*ns)) } else { String::new() };
            format!("{}: {queue}{spent}", d.by)
        };
        self.queues().iter().map(one).collect::<Vec<_>>().join(", ")
    }
    /// The queues of a sched_ext scheduler in which the task was, in order, with the time that it spent there.
    pub fn queues(&self) -> Vec<(&Decision, u64)> {
        let into: Vec<&Decision> = self.decided.iter().filter(|d| d.to != "kicked").collect();
        let ends = into.iter().skip(1).map(|d| d.after_ns).chain([self.length_ns]);
        let begins = into.iter().map(|d| d.after_ns.max(self.enqueue_ns));
        let all = into.iter().zip(begins).zip(ends);
        all.map(|((decision, begin), end)| (*decision, end.saturating_sub(begin))).collect()
    }
}
