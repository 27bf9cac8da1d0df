//! Tasks as the scheduler knows them: attributes, class, place. Their programs are the board's
//! ([`schedlab_board::thread`]).

use crate::fair::EntityId;
use crate::o1::state::O1Task;
use schedlab_base::{CpuId, CpuSet, GroupId};
use schedlab_kernel::{Attr, History};

/// The classes, by rank: a task of an earlier one runs before any of a later one. A kernel has one of the fair classes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Class {
    /// SCHED_FIFO and SCHED_RR.
    Rt,
    /// The O(1) scheduler, before 2.6.23.
    O1,
    /// CFS before 2.6.32.
    Early,
    /// CFS, 2.6.32 to 6.5.
    Cfs,
    /// EEVDF, since 6.6.
    Eevdf,
}

impl Class {
    pub const fn fair(history: &History) -> Class {
        match () {
            () if history.o1 => Class::O1,
            () if history.eevdf => Class::Eevdf,
            () if history.early_cfs => Class::Early,
            () => Class::Cfs,
        }
    }
    /// The class of a task with these attributes, where `fair` is the kernel's fair class.
    pub fn of(attr: Attr, fair: Class) -> Class {
        if attr.policy.is_fair() { fair } else { Class::Rt }
    }
}

/// Whether a task may run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum TaskState {
    /// Declared, not started.
    Unborn,
    /// Runnable or running.
    Runnable,
    /// Asleep.
    Sleeping,
    /// Being woken: chosen by a waker, not yet on a runqueue.
    Waking,
    /// Gone.
    Dead,
}

/// The kernel's counts of a task since it began, warm-up included.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct TaskCounts {
    /// Ticks that found it in user mode (utime as it is sampled).
    pub ticks: u32,
    /// Switches away from it because it slept or ended (`nvcsw`).
    pub voluntary: u32,
    /// Switches away from it while it could have run on (`nivcsw`).
    pub involuntary: u32,
}

/// The properties that a new task has yet to give itself.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Its attributes.
    pub attr: Attr,
    /// Its CPUs; `None` for all.
    pub allowed: Option<CpuSet>,
    pub group: GroupId,
    /// Whether it has yet to take its CPUs.
    pub pins: bool,
}

/// A task.
///
/// The order of the fields is the order in memory: the fields that every wakeup needs come first.
#[repr(C, align(64))]
pub struct Task {
    /// Whether it may run.
    pub state: TaskState,
    /// On a runqueue.
    pub on_rq: bool,
    /// Physically on a CPU, also while being switched out.
    pub on_cpu: bool,
    /// `vruntime` is relative to the queue it left and must be made absolute on arrival.
    pub relative: bool,
    /// Its load average left the old queue and must be added to the new one.
    pub detached: bool,
    /// Its group has no quota left: it is taken off its queue on its return to user mode (`sched_throttle_work`, 6.18).
    pub throttles: bool,
    pub class: Class,
    pub group: GroupId,
    /// CPU of record (`task_cpu`).
    pub cpu: CpuId,
    pub entity: EntityId,
    /// The CPU it left at the last wakeup that found neither target nor previous CPU idle (`recent_used_cpu`;
    /// read since 4.16).
    pub recent: CpuId,
    /// Its address space; `None` for the kernel's own tasks.
    pub mm: Option<u32>,
    /// Since when it waits for a CPU, ns; 0 while it does not (`sched_info.last_queued`).
    pub queued_at: u64,
    /// Its timer: CPU whose queue holds it, and the timer's number.
    pub timer: Option<(CpuId, u64)>,
    /// Its timer woke it, and it has not run since.
    pub timed_out: bool,
    /// Scheduling attributes.
    pub attr: Attr,
    pub rr_ticks: u32,
    /// Futex word it waits on.
    pub waits_on: Option<u32>,
    /// Allowed CPUs; `None` for all.
    pub allowed: Option<CpuSet>,
    /// How soon it wakes others; kept only before 2.6.32.
    pub overlap: crate::fair::early::overlap::Overlap,
    /// Its wakees, and how often they change (`wakee_flips`).
    pub flips: crate::wakeup::wide::Flips,
    /// Its own properties until it has set itself up; it has its parent's meanwhile.
    pub own: Option<Box<Declared>>,
    /// The kernel's counts of it.
    pub counted: TaskCounts,
    /// The O(1) scheduler's part.
    pub o1: O1Task,
}

impl Task {
    #[inline]
    pub fn may_run_on(&self, cpu: CpuId) -> bool {
        self.allowed.as_ref().is_none_or(|a| a.contains(cpu))
    }
}

/// How a task was on its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum QueueState {
    /// It was not.
    No,
    /// It sleeps, and works off its lag there.
    Delayed,
    Waits,
    Runs,
}
