//! The real-time class: SCHED_FIFO and SCHED_RR (`kernel/sched/rt.c`, `cpupri.c`; read in 6.1.192 and 6.12.117).
//!
//! On each CPU the task of the highest priority runs, first come first served among equals; SCHED_RR tasks take turns
//! of 100 ms. The class keeps the most important tasks of the whole machine running: a CPU with more than one task
//! pushes waiting ones to CPUs with less important work, and a CPU whose own work has become less important pulls. To
//! leave time for other tasks, kernels before 6.12 throttle a CPU's real-time tasks ([`throttle`]); later ones have a
//! server that runs fair tasks before them for a while ([`server`]).
//!
//! Rules are pure: `array`, [`select`], `capacity`, the `PeriodShare` of [`throttle`], the stages of [`server`]. State
//! is in this file. `drive/*` apply the rule file of the same name to the machine, and `drive/push` pushes and pulls;
//! `class` is the interface to the core. Times are ns. A *rank* is the kernel's `prio`: 0 is the most important task,
//! 98 the least important real-time one, 100 a CPU without any.
//!
//! Not modelled: groups of real-time tasks, deadline tasks, priority inheritance, tasks whose migration is disabled,
//! capacities of unequal CPUs. In the kernel, other CPUs see a CPU's capacity at its last balance pass; here they see
//! the current one.

mod array;
mod capacity;
mod class;
mod drive;
mod select;
mod server;
mod throttle;

use array::PrioArray;
use capacity::TakenTime;
use schedlab_base::{Arena, CpuId, CpuSet};
use schedlab_kernel::{Attr, Policy};
use server::Server;
use throttle::PeriodShare;

/// SCHED_FIFO and SCHED_RR.
pub(crate) struct Rt;

/// The kernel's `prio` of a real-time task: lower is more important.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Rank(u8);

impl Rank {
    /// The rank of a CPU without real-time tasks (`MAX_RT_PRIO`).
    pub const NONE: Rank = Rank(100);

    pub fn of(attr: Attr) -> Rank {
        match attr.policy {
            Policy::Fifo | Policy::Rr => Rank(99 - attr.rt_priority.clamp(1, 99)),
            Policy::Other | Policy::Batch | Policy::Idle | Policy::Deadline | Policy::Ext => Rank::NONE,
        }
    }
}

/// The real-time runqueue of a CPU (`struct rt_rq`).
#[derive(Clone, Debug, Default)]
pub struct RtRq {
    /// Its tasks, including the running one.
    array: PrioArray,
    /// Number of tasks that may also run elsewhere (`rt_nr_migratory`).
    nr_migratory: u32,
    /// The CPU's share of the period, and its use.
    share: PeriodShare,
    /// The fair server (6.12+).
    server: Server,
    /// Time that real-time tasks take of the CPU.
    taken: TakenTime,
}

impl RtRq {
    /// Whether it has more than one task, and at least one that may run elsewhere (`rt_rq->overloaded`).
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

/// The real-time class of one kernel.
pub(crate) struct RtState {
    rqs: Arena<CpuId, RtRq>,
    pub(crate) shared: RtShared,
}

impl RtState {
    /// No real-time tasks.
    pub(crate) fn new(nr_cpus: usize) -> RtState {
        RtState { rqs: Arena::filled(RtRq::default(), nr_cpus), shared: RtShared::default() }
    }
    /// The sum behind the average time that real-time tasks take of `cpu`.
    pub(crate) fn taken_util_sum(&self, cpu: CpuId) -> u64 {
        self.rqs[cpu].taken.util_sum()
    }
}

/// State that real-time tasks share across the machine (`struct root_domain`, `def_rt_bandwidth`).
#[derive(Clone, Debug, Default)]
pub struct RtShared {
    /// Whether this run has a real-time task; otherwise checks are skipped.
    pub any: bool,
    /// A buffer: the capacity left of each CPU.
    pub(crate) left: Vec<u64>,
    /// CPUs that could push a task (`rto_mask`).
    overloaded: CpuSet,
    /// CPUs that were asked by IPI to push and have not done so yet (RT_PUSH_IPI).
    asked: CpuSet,
    /// Whether another CPU has asked during that round (`rto_loop_next`).
    ask_again: bool,
    /// The CPU that has the period timer.
    period_on: Option<CpuId>,
}
