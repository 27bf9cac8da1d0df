//! The event: 32 bytes, Copy, named after the kernel's tracepoints where one exists.

use crate::reason::{
    BalanceReason, BalanceTrigger, ExtOp, ExtQueue, KickReason, MoveReason, PlaceReason, SkipReason,
    SwitchReason,
};
use schedlab_base::{CpuId, Ns, TaskId};

/// An event on one CPU at one time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Event {
    /// Nanoseconds since the run began.
    pub at: Ns,
    /// The event's CPU; for wakeups, the waker's.
    pub cpu: CpuId,
    pub kind: EventKind,
}

/// The number of a dispatch queue of sched_ext, in two halves so that it needs no alignment. Of a local queue, and of a
/// CPU that was kicked, it is the CPU's number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct DsqId([u32; 2]);

impl DsqId {
    /// Which CPU's it is was not said.
    pub const UNKNOWN: DsqId = DsqId([u32::MAX; 2]);
    pub const fn new(number: u64) -> DsqId {
        DsqId([number as u32, (number >> 32) as u32])
    }
    pub const fn number(self) -> u64 {
        self.0[0] as u64 | (self.0[1] as u64) << 32
    }
    /// The CPU of a local queue.
    pub fn cpu(self) -> Option<CpuId> {
        u32::try_from(self.number()).ok().map(CpuId)
    }
}

/// The kinds of events, with their fields. `None` as a task means the idle task.
#[allow(missing_docs)]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EventKind {
    /// sched_switch: `prev` left the CPU for `next`. `why`: the reason why `prev` left.
    Switch { prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason },
    /// sched_waking: a wakeup of `task` began; `waker` is `None` in interrupt context.
    Waking { task: TaskId, waker: Option<TaskId> },
    /// A CPU was chosen for a waking or new task. `probes` counts the CPUs whose idle state was read.
    Placed { task: TaskId, target: CpuId, reason: PlaceReason, probes: u16 },
    /// sched_wakeup (or sched_wakeup_new): `task` is now on the runqueue of the event's CPU. `nr_running` is the
    /// queue's length including the running task; 0 if the source does not report it.
    Enqueued { task: TaskId, nr_running: u16, new: bool },
    /// sched_migrate_task: the event's CPU is the destination.
    Migrate { task: TaskId, from: CpuId, why: MoveReason },
    /// task_newtask: a task exists from now on; `parent` is `None` for tasks present at the start.
    Forked { task: TaskId, parent: Option<TaskId> },
    /// The task ended.
    Exited { task: TaskId },
    /// Events of this CPU before this time were lost: `count`, if the source reports it. 0: the CPU's recording begins
    /// here. The running task is not known until the next switch on this CPU.
    Lost { count: u32 },
    /// cpu_idle: the CPU halts in idle state `state` (index into the machine's table).
    IdleEnter { state: u8 },
    /// The CPU leaves idle; waking up took `exit_ns`.
    IdleExit { exit_ns: u32 },
    /// A balance pass over one domain ended, for the reason `why`. The event's CPU is the one that pulls tasks. The
    /// pass pulled `moved` tasks, read `visited` CPUs and took `took_ns`. `src` is the CPU whose queue it chose, if
    /// any.
    Balance {
        level: u8,
        trigger: BalanceTrigger,
        why: BalanceReason,
        moved: u16,
        visited: u16,
        took_ns: u32,
        src: Option<CpuId>,
    },
    /// Operation `by` of a sched_ext scheduler, on the event's CPU, has put `task` into dispatch queue `dsq` of kind
    /// `to`, or has moved it there.
    Decided { task: TaskId, by: ExtOp, to: ExtQueue, dsq: DsqId },
    /// Detail: no pass was begun in this CPU's domain `level`. If the reason compares two times, `have_ns` was less
    /// than `need_ns`; else both are 0.
    Skip { level: u8, why: SkipReason, have_ns: u32, need_ns: u32 },
    /// Detail: a tick decided whether a tickless CPU should balance; `to` is the CPU that was asked.
    Kick { why: KickReason, to: Option<CpuId> },
    /// Detail: `schedule()` began on a CPU whose current task may give way. `carries`: the task leaves to be moved; its
    /// next `Enqueued` is on another CPU.
    Schedule { carries: bool },
    /// Detail: `schedule()` ended without a switch.
    Stay,
    /// Detail: from now on the task may run on the CPUs of the workload's mask with this number.
    Allowed { task: TaskId, mask: u32 },
}

impl EventKind {
    /// Whether the event goes only to sinks that ask for details ([`Sink::wants_details`](crate::Sink::wants_details)).
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
