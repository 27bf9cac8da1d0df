//! State: a CPU's own record of its domains between passes, the tickless CPUs of the machine, and passes, scans and
//! descents in progress. Data only, without time or cost; the drivers in `drive/` change it.

use super::average::busiest::DomainStats;
use super::average::queue::BusiestQueue;
use super::average::stats::Tally;
use super::first_places::FirstPlaces;
use super::idlest::{LevelFacts, start_level};
use super::interval::{Election, NextBalance};
use super::newidle_dice::Dice;
use super::newidle_gate::DomainCost;
use super::settle::{Bounds, DomainState};
use super::shared::{DomainShared, Gathered};
use super::spare;
use super::spare::imbalance::Amount;
use super::spare::newidle_scan::GroupLoop;
use crate::o1::busiest::{GroupsSeen, Pull, Sums};
use crate::task::QueueState;
use schedlab_base::{Arena, CpuId, CpuSet, TaskId};
use schedlab_kernel::{Feature, FeatureSet};
use schedlab_machine::{Domain, Domains};
use schedlab_trace::BalanceTrigger;

/// One CPU's record of one of its domains.
#[derive(Clone, Copy, Debug)]
pub struct LevelState {
    /// Interval and failures.
    pub state: DomainState,
    /// Bounds of interval and failures.
    pub bounds: Bounds,
    /// Cost of newidle passes.
    pub cost: DomainCost,
    /// How often newidle passes pull a task.
    pub dice: Dice,
    /// When it last balanced, in ticks.
    pub last_balance: u64,
    /// Version of the domain's shared state that this CPU read last.
    pub hints_seen: u32,
}

impl LevelState {
    /// A domain that was just built.
    pub fn new(domain: &Domain) -> LevelState {
        let p = &domain.params;
        LevelState {
            state: DomainState { interval_ms: p.first_interval_ms, nr_balance_failed: 0 },
            bounds: Bounds {
                min_interval_ms: p.min_interval_ms,
                max_interval_ms: p.max_interval_ms,
                cache_nice_tries: p.cache_nice_tries,
            },
            cost: DomainCost::default(),
            dice: Dice::default(),
            last_balance: 0,
            hints_seen: 0,
        }
    }
}

/// A request to a CPU to serve CPUs whose tick is stopped (`rq->nohz_flags`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct NohzFlags {
    /// Balance those of their domains that are due (NOHZ_BALANCE_KICK).
    pub balance: bool,
    /// Update their averages (NOHZ_STATS_KICK, 4.17).
    pub averages: bool,
    /// Compute when the next of them is due (NOHZ_NEXT_KICK, 5.15).
    pub next_balance: bool,
    /// Update their averages before this CPU, now idle, halts (NOHZ_NEWILB_KICK, 5.13).
    pub before_idle: bool,
}

impl NohzFlags {
    /// Whether another CPU has made a request (NOHZ_KICK_MASK).
    pub fn kicked(self) -> bool {
        self.balance || self.averages || self.next_balance
    }
    /// Adds the requests of `more`.
    pub fn add(&mut self, more: NohzFlags) {
        self.balance |= more.balance;
        self.averages |= more.averages;
        self.next_balance |= more.next_balance;
    }
}

/// Balancing for CPUs whose tick is stopped (`struct nohz`).
#[derive(Clone, Debug)]
pub struct NohzState {
    /// Whether a CPU's tick is stopped, or was until its next busy tick (`idle_cpus_mask`).
    pub tickless: Arena<CpuId, bool>,
    pub nr_tickless: u32,
    /// When idle balance is due next, in ticks.
    pub next_balance: u64,
    /// When averages of tickless CPUs are to be updated next, in ticks (`next_blocked`, 4.17+).
    pub next_blocked: u64,
    /// Whether some tickless CPU may have load left to decay (`has_blocked`).
    pub has_blocked: bool,
    /// Whether a CPU has stopped its tick since `next_balance` was computed (`needs_update`, 5.15).
    pub needs_update: bool,
    /// The CPU that holds the lock of SD_SERIALIZE domains.
    pub serial: Option<CpuId>,
}

impl NohzState {
    pub fn new(nr_cpus: usize) -> NohzState {
        NohzState {
            tickless: Arena::filled(true, nr_cpus),
            nr_tickless: nr_cpus as u32,
            next_balance: 0,
            next_blocked: 0,
            has_blocked: false,
            needs_update: false,
            serial: None,
        }
    }
}

/// State of balancing other than the CPUs' own records.
pub struct BalanceState {
    /// Whether some runqueue of the root domain had two runnable tasks (`rd->overload`).
    pub overload: bool,
    /// CPUs that a pass of this CPU no longer looks at, because affinity pins all of their tasks or keeps tasks away
    /// from them (`load_balance_mask`).
    pub(super) left_out: Arena<CpuId, CpuSet>,
    /// The tasks that a walk has taken off their queue, with their state there; empty between walks.
    pub(super) detached: Vec<(TaskId, QueueState)>,
    /// The load of a CPU's running task, if that is too large for the CPU (`misfit_task_load`).
    pub(super) misfit: Arena<CpuId, u64>,
    /// `sgc->imbalance` of every group.
    pub(super) imbalanced: Vec<bool>,
    pub(super) shared: Vec<DomainShared>,
    /// Statistics of groups gathered by one CPU for others (ILB_SHARE); empty without the feature.
    pub(super) gathered: Vec<Option<Gathered>>,
    /// Balancing on behalf of tickless CPUs.
    pub(super) nohz: NohzState,
    /// While tasks that are there from the start are placed: what searches have read of CPU 0's highest domain.
    pub(crate) first_places: Option<Box<FirstPlaces>>,
}

impl BalanceState {
    /// All CPUs are idle; the domains' shared state is `shared`.
    pub fn new(domains: &Domains, shared: Vec<DomainShared>, features: FeatureSet) -> BalanceState {
        let (cpus, groups) = (domains.of_cpu.len(), domains.groups.len());
        let sharable = if features.has(Feature::IlbShare) { groups } else { 0 };
        BalanceState {
            overload: false,
            left_out: Arena::filled(CpuSet::new(), cpus),
            detached: Vec::new(),
            misfit: Arena::filled(0, cpus),
            imbalanced: vec![false; groups],
            shared,
            gathered: vec![None; sharable],
            nohz: NohzState::new(cpus),
            first_places: None,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) enum PassStage {
    #[default]
    Idle,
    /// Reading the local group, to find out whether it is this CPU's turn.
    Elect {
        at: usize,
        election: Election,
    },
    Stats {
        group: usize,
        at: usize,
        tally: Tally,
        stats: Option<DomainStats>,
    },
    /// Searching for the busiest queue of the busiest group.
    Queue {
        group: u32,
        at: usize,
        queue: BusiestQueue,
        imbalance: u64,
    },
    /// Locks are held; tasks move at the end of the step.
    Move {
        src: CpuId,
        imbalance: u64,
    },
    /// 5.5 and later: reading groups.
    Groups(Groups),
    /// 5.5 and later: searching for the busiest queue of the busiest group.
    Queues(Queues),
    /// 5.5 and later: locks are held.
    Take {
        src: CpuId,
        amount: Amount,
    },
    /// Before 2.6.23: reading groups.
    O1Groups {
        group: usize,
        at: usize,
        sums: Sums,
        seen: GroupsSeen,
    },
    /// Before 2.6.23: searching for the busiest queue of the busiest group.
    O1Queue {
        pull: Pull,
    },
    /// Before 2.6.23: locks are held.
    O1Move {
        src: CpuId,
        load: u64,
    },
}

/// A pass over one domain.
#[derive(Clone, Copy, Debug)]
pub struct Pass {
    pub(crate) stage: PassStage,
    /// The CPU for which the pass is made.
    pub dst: CpuId,
    /// The CPU to which tasks would move: another one of its group if affinity keeps them from `dst` (`env->dst_cpu`).
    pub(super) gainer: CpuId,
    pub level: usize,
    pub trigger: BalanceTrigger,
    pub(super) began_ns: u64,
    pub(crate) visited: u16,
    pub(crate) moved: u16,
    /// Number of groups read, without the local one (`lb_sg_scan`).
    pub(crate) groups_read: u16,
    /// Whether it searches again without `left_out` (`LBF_ALL_PINNED` stays set).
    pub(super) again: bool,
    /// Whether affinity held back some task of a queue that was walked (`LBF_SOME_PINNED`).
    pub(super) some_pinned: bool,
    /// Whether the source's tasks were walked.
    pub(super) walked: bool,
    /// Whether a task too large for its CPU is to move (4.20 to 5.4).
    pub(super) misfit: bool,
    /// The CPU whose queue was chosen.
    pub(crate) src: Option<CpuId>,
    /// Whether it was not this CPU's turn: then higher domains are not tried.
    pub not_our_turn: bool,
    /// Whether it holds the lock of SD_SERIALIZE domains (6.19).
    pub(super) serial: bool,
}

impl Default for Pass {
    fn default() -> Pass {
        Pass {
            stage: PassStage::Idle,
            dst: CpuId(0),
            gainer: CpuId(0),
            level: 0,
            trigger: BalanceTrigger::Busy,
            began_ns: 0,
            visited: 0,
            moved: 0,
            groups_read: 0,
            again: false,
            some_pinned: false,
            walked: false,
            misfit: false,
            src: None,
            not_our_turn: false,
            serial: false,
        }
    }
}

impl Pass {
    /// A pass that begins with the election.
    pub fn begin(dst: CpuId, level: usize, trigger: BalanceTrigger, now: u64) -> Pass {
        let stage = PassStage::Elect { at: 0, election: Election::default() };
        Pass { stage, dst, gainer: dst, level, trigger, began_ns: now, ..Pass::default() }
    }
    pub fn running(&self) -> bool {
        !matches!(self.stage, PassStage::Idle)
    }
    pub fn began_ns(&self) -> u64 {
        self.began_ns
    }
    pub fn groups_read(&self) -> u16 {
        self.groups_read
    }
    /// Number of tasks moved to the destination.
    pub fn moved(&self) -> u16 {
        self.moved
    }
}

/// The place in the loop over groups.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Groups {
    /// Index in the ring.
    pub(super) group: usize,
    /// Number of its CPUs that were read.
    pub(super) read: usize,
    /// Their sums, if `read` is not 0.
    pub(super) tally: spare::stats::Tally,
    /// `None` until the local group is complete.
    pub(super) seen: Option<(spare::busiest::DomainStats, GroupLoop)>,
}

impl Groups {
    /// The place before the local group.
    pub fn new() -> Groups {
        Groups { group: 0, read: 0, tally: spare::stats::Tally::default(), seen: None }
    }
}

/// The place in the search for the busiest queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queues {
    pub(super) group: u32,
    pub(super) read: usize,
    pub(super) queue: spare::queue::BusiestQueue,
    pub(super) amount: Amount,
}

/// Newidle balance in progress.
#[derive(Clone, Copy, Debug, Default)]
pub struct Newidle {
    pub(super) pass: Pass,
    pub(super) level: usize,
    pub(super) spent_ns: u64,
    pub(super) level_began_ns: u64,
    pub(super) began_ns: u64,
    pub(super) pulled: bool,
    /// Whether the current step is the last of the pass over the current domain.
    pub(super) ending: bool,
    /// When the visited domains are due, for an idle CPU.
    pub(super) next: NextBalance,
}

/// Periodic balance in progress on one CPU.
#[derive(Clone, Copy, Debug, Default)]
pub struct Periodic {
    pub(super) pass: Pass,
    /// The CPU for which domains are balanced.
    pub(super) on_behalf: CpuId,
    pub(super) level: usize,
    pub(super) idle: bool,
    /// Whether intervals are those of a busy CPU.
    pub(super) busy: bool,
    /// Whether higher domains are still to be balanced.
    pub(super) climbing: bool,
    pub(super) next: Option<NextBalance>,
    pub(super) began_ns: u64,
    /// Whether the CPU whose domains are balanced is a tickless one, not the balancing CPU.
    pub(super) serving: bool,
    /// Tickless CPUs from this number on are still to be served; `None` if there was no request, or all are served.
    pub(super) tickless_from: Option<usize>,
    /// While its own domains are still to come: whether the CPU itself was idle when the softirq began.
    pub(super) own: Option<bool>,
    /// The request on behalf of tickless CPUs (5.5+).
    pub(super) flags: NohzFlags,
    /// When the softirq began, in ticks.
    pub(super) began_tick: u64,
    /// The earliest time at which a served CPU is due again, in ticks.
    pub(super) earliest: u64,
}

/// A descent in progress: the CPU reached so far, and the level to search next.
#[derive(Clone, Copy, Debug, Default)]
pub struct Descent {
    pub(super) at: CpuId,
    pub(super) level: Option<usize>,
    pub(super) why: Why,
}

/// The event for which a task's CPU is chosen by the slow path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Why {
    /// A task is created: domains with SD_BALANCE_FORK.
    #[default]
    Fork,
    /// A running task begins a new program: domains with SD_BALANCE_EXEC.
    Exec,
}

impl Descent {
    /// Starts at the highest domain of `cpu` that balances at this event, searching up to the first that does not if
    /// `to_first_gap`.
    pub fn begin(domains: &Domains, cpu: CpuId, why: Why, to_first_gap: bool) -> Descent {
        Descent { at: cpu, level: start_level(&levels(domains, cpu, why), to_first_gap), why }
    }
}

pub(super) fn levels(domains: &Domains, cpu: CpuId, why: Why) -> Vec<LevelFacts> {
    let facts = |d: &schedlab_machine::Domain| LevelFacts {
        balances: match why {
            Why::Fork => d.params.balance_fork,
            Why::Exec => d.params.balance_exec,
        },
        span_weight: d.cpus.len() as u32,
    };
    domains.of_cpu[cpu].iter().map(facts).collect()
}
