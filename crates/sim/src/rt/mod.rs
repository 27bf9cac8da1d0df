//! The real-time class: SCHED_FIFO and SCHED_RR (`kernel/sched/rt.c`, `cpupri.c`; read in 6.1.192 and 6.12.117).
//!
//! On each CPU the task of the highest priority runs, first come first served among equals; SCHED_RR tasks take turns
//! of 100 ms. The class keeps the most important tasks of the whole machine running: a CPU with more than one pushes
//! those that wait to CPUs that run less important ones ([`push`]), and one whose own have become less important
//! pulls. So that the rest of the system lives, kernels before 6.12 throttle a CPU's real-time tasks ([`throttle`]),
//! later ones have a server that runs fair tasks before them for a while ([`server`]).
//!
//! Rules are pure functions (`array`, `select`, the `Share` of `throttle`, the states of `server`); `class`, `push` and
//! the timers apply them. Times are ns. A *rank* is the kernel's `prio`: 0 is the most important task, 98 the least
//! important real-time one, 100 stands for a CPU without any.
//!
//! Not modelled: groups of real-time tasks, deadline tasks, priority inheritance, tasks whose migration is disabled,
//! capacities of unequal CPUs, and that a CPU's capacity is known to others only since its last balance pass.

mod array;
mod capacity;
mod class;
mod drive;
mod select;
mod server;
mod throttle;

use array::PrioArray;
use capacity::Taken;
use schedlab_base::{CpuId, CpuSet};
use schedlab_kernel::{Attr, Policy};
use server::Server;
use throttle::Share;

/// SCHED_FIFO and SCHED_RR.
pub(crate) struct Rt;

/// The kernel's `prio` of a real-time task: less is more important.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rank(u8);

impl Rank {
    /// What a CPU without real-time tasks runs at (`MAX_RT_PRIO`).
    pub const NONE: Rank = Rank(100);

    /// The rank of a task.
    pub fn of(attr: Attr) -> Rank {
        match attr.policy {
            Policy::Fifo | Policy::Rr => Rank(99 - attr.rt_priority.clamp(1, 99)),
            Policy::Other | Policy::Batch | Policy::Idle => Rank::NONE,
        }
    }
}

/// The real-time runqueue of a CPU (`struct rt_rq`).
#[derive(Clone, Debug, Default)]
pub struct RtRq {
    /// Its tasks, the running one included.
    array: PrioArray,
    /// Tasks that may run elsewhere, too (`rt_nr_migratory`).
    nr_migratory: u32,
    /// Its share of the period, and what it has had.
    share: Share,
    /// The server of fair tasks (6.12+).
    server: Server,
    /// What real-time tasks take of the CPU.
    taken: Taken,
    /// The CPU chosen last among equally good ones (`distribute_cpu_mask_prev`).
    distributed: Option<CpuId>,
}

impl RtRq {
    /// More than one task, and one at least that could go elsewhere (`rt_rq->overloaded`).
    fn is_overloaded(&self) -> bool {
        self.array.len() > 1 && self.nr_migratory > 0
    }
    /// The most important task's rank (`highest_prio.curr`).
    fn highest(&self) -> Rank {
        self.array.highest()
    }
    /// Whether it has a task that may run now.
    fn is_runnable(&self) -> bool {
        !self.array.is_empty() && !self.share.throttled
    }
}

/// What real-time tasks share across the machine (`struct root_domain`, `def_rt_bandwidth`).
#[derive(Clone, Debug, Default)]
pub struct RtShared {
    /// There is a real-time task in this run: only then do others ask.
    pub any: bool,
    /// CPUs with more tasks than they can run (`rto_mask`).
    overloaded: CpuSet,
    /// CPUs that have been asked by an IPI to push, and have not done so yet (RT_PUSH_IPI).
    asked: CpuSet,
    /// One more has asked while that was going on (`rto_loop_next`).
    ask_again: bool,
    /// The CPU on which the period's timer is.
    period_on: Option<CpuId>,
}
