//! The event: 32 bytes, Copy, named after the kernel's tracepoints where one exists.

use crate::reason::{
    BalanceReason, BalanceTrigger, KickReason, MoveReason, PlaceReason, SkipReason, SwitchReason,
};
use schedlab_base::{CpuId, Ns, TaskId};

/// One thing that happened on one CPU at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Nanoseconds since the run began.
    pub at: Ns,
    /// The CPU it happened on; for wakeups the waker's.
    pub cpu: CpuId,
    /// The kind of event, with its details.
    pub kind: EventKind,
}

/// The kinds of events. `None` for a task means the idle task. Each variant's line says what its fields mean.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// sched_switch: `prev` left the CPU for `next`; `why` says what ended `prev`'s stay.
    Switch { prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason },
    /// sched_waking: somebody began to wake `task`; `waker` is `None` from interrupt context.
    Waking { task: TaskId, waker: Option<TaskId> },
    /// A CPU was chosen for a waking or new task. `probes` counts the CPUs whose idle state was read.
    Placed { task: TaskId, target: CpuId, reason: PlaceReason, probes: u16 },
    /// sched_wakeup (or sched_wakeup_new): `task` is now on the runqueue of the event's CPU. `nr_running` is the length
    /// of that queue, the running task included; 0 when the source does not report.
    Enqueued { task: TaskId, nr_running: u16, new: bool },
    /// sched_migrate_task: the event's CPU is the destination.
    Migrate { task: TaskId, from: CpuId, why: MoveReason },
    /// A task exists from now on (task_newtask); `parent` is `None` for tasks present at the start.
    Forked { task: TaskId, parent: Option<TaskId> },
    /// A task is gone.
    Exited { task: TaskId },
    /// Events of the event's CPU before this time were lost, `count` of them, if the source says how many; 0: the CPU's
    /// recording begins here. The task on the CPU is not known until the next switch there.
    Lost { count: u32 },
    /// cpu_idle: the CPU halts in idle state `state` (index in the machine's table).
    IdleEnter { state: u8 },
    /// The CPU leaves idle; `exit_ns` was spent waking up.
    IdleExit { exit_ns: u32 },
    /// A balance pass over one domain ended, for the reason `why`; the event's CPU is the one that tasks would come to.
    /// It pulled `moved` tasks, read `visited` CPUs and took `took_ns`. `src` is the CPU whose queue it chose, if it
    /// chose one.
    Balance {
        level: u8,
        trigger: BalanceTrigger,
        why: BalanceReason,
        moved: u16,
        visited: u16,
        took_ns: u32,
        src: Option<CpuId>,
    },
    /// Detail: no pass was begun over the event's CPU's domain `level`. Where the reason compares two times, `have_ns`
    /// was less than `need_ns`; else both are 0.
    Skip { level: u8, why: SkipReason, have_ns: u32, need_ns: u32 },
    /// Detail: a tick decided whether a tickless CPU is to balance; `to` is the CPU that was asked.
    Kick { why: KickReason, to: Option<CpuId> },
    /// Detail: `schedule()` began on a CPU whose current task may give way. `carries`: that task leaves to be moved,
    /// and arrives elsewhere with its next `Enqueued`.
    Schedule { carries: bool },
    /// Detail: `schedule()` ended, and the same task continues.
    Stay,
    /// Detail: from now on the task may run on the CPUs of the workload's mask of that number.
    Allowed { task: TaskId, mask: u32 },
}

impl EventKind {
    /// Whether only sinks that ask for details are told ([`Sink::wants_details`](crate::Sink::wants_details)).
    pub const fn is_detail(&self) -> bool {
        matches!(
            self,
            EventKind::Skip { .. }
                | EventKind::Kick { .. }
                | EventKind::Schedule { .. }
                | EventKind::Stay
                | EventKind::Allowed { .. }
        )
    }
}

const _: () = assert!(std::mem::size_of::<Event>() <= 32);
