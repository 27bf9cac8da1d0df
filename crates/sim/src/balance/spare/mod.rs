//! The rules of the balancer that looks at spare capacity (5.5 and later), as 6.5 has them; pure.
//!
//! Groups are typed by how full they are. Between groups with room the number of tasks and of idle CPUs decides; load
//! decides only between overloaded ones. The amount to move is in load, in utilisation or in tasks. The newidle
//! shortcuts of D001 (Chen Yu, 27 Jul 2023) are added in [`newidle_scan`]. Loads are PELT averages (1024: one nice-0
//! task that always runs), utilisation and capacity in 1/1024 CPU.
//!
//! On machines whose CPUs differ in capacity, misfits are moved, too ([`crate::balance::fits`]). Not modelled:
//! asymmetric packing, energy-aware placement, NUMA balancing's grading of queues.
//!
//! Kernels from 5.5 get 6.5's rules, though some came later: runnable averages in the type (5.7), active balance only
//! if tasks are counted (5.12), which ignores cache heat (5.13). [`SpareLater`] and the flags of the chronology hold
//! the changes that are modelled.

pub mod active;
pub mod busiest;
pub mod classify;
pub mod detach;
pub mod imbalance;
pub mod newidle_scan;
pub mod nohz;
pub mod queue;
pub mod rank;
pub mod stats;
pub mod turn;

use crate::balance::era::PassKind;
use crate::balance::fits::Asymmetry;
use schedlab_kernel::History;
use schedlab_machine::{self as machine, Domain};

/// The facts about a domain on which the rules depend.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainFacts {
    /// Percent by which one side must exceed the other.
    pub imbalance_pct: u32,
    /// Whether tasks are to be spread over sibling groups: SD_PREFER_SIBLING of the balancing CPU's *child* domain, or
    /// since 6.5 of the busiest group.
    pub prefer_sibling: bool,
    /// Whether the groups are cores (SD_SHARE_CPUCAPACITY of the groups).
    pub groups_are_cores: bool,
    /// Whether only some of the groups are cores; each group's statistics say which.
    pub some_are_cores: bool,
    /// Whether the domain's CPUs share a cache (SD_SHARE_PKG_RESOURCES of the domain itself).
    pub share_llc: bool,
    /// SD_NUMA of the domain itself.
    pub numa: bool,
    /// Rules that came after 6.1.
    pub later: SpareLater,
    /// Tolerance of a small imbalance between nodes; read if `numa`.
    pub tolerance: NodeTolerance,
    /// Capacities to compare, on machines whose CPUs differ in it.
    pub asym: Asymmetry,
    /// Numbers of cores of the busiest and the local group, if they differ and the kernel asks for them (6.6).
    pub cores: Option<Cores>,
    /// Whether the groups after the local one may be read by the loop for groups of one kind.
    pub alike: bool,
    /// Whether each group is one CPU: those of a domain within a node share none.
    pub are_cpus: bool,
}

/// Numbers of cores of two groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cores {
    /// Of the group to pull from.
    pub busiest: u32,
    /// Of the balancing CPU's group.
    pub local: u32,
}

impl DomainFacts {
    /// The facts about the domain at `level`; `levels` are those of its CPU, lowest first.
    pub fn of(history: &History, levels: &[Domain], level: usize) -> DomainFacts {
        let domain = &levels[level];
        let child = level.checked_sub(1).map(|below| &levels[below].params);
        DomainFacts {
            imbalance_pct: domain.params.imbalance_pct,
            prefer_sibling: child.is_some_and(|c| c.prefer_sibling),
            groups_are_cores: domain.cores == machine::Cores::All,
            some_are_cores: domain.cores == machine::Cores::Some,
            share_llc: domain.params.share_llc,
            numa: domain.params.numa,
            later: SpareLater {
                cores_last_when_full: history.cores_last_when_full,
                smt_balance: history.smt_balance,
                siblings_by_cores: history.siblings_by_cores,
                misfit_first_stays: history.misfit_first_stays,
            },
            tolerance: NodeTolerance::of(history, domain.imb_numa_nr),
            asym: Asymmetry::default(),
            cores: None,
            alike: !domain.params.asym_capacity && domain.cores != machine::Cores::Some,
            are_cpus: !domain.params.numa && domain.groups.len() == domain.cpus.len(),
        }
    }

    /// Whether cores other than the local group would give a task to an idle CPU (6.6).
    #[inline]
    pub fn gives_to_idle(&self, pass: PassKind) -> bool {
        self.later.smt_balance && pass != PassKind::Busy
    }
}

/// Rules that some kernels with this balancer lack.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpareLater {
    /// Of full groups the last one read is the busiest; of cores the first (6.5).
    pub cores_last_when_full: bool,
    /// A core with two tasks has a type of its own (6.6).
    pub smt_balance: bool,
    /// A busy CPU takes no task to even out sibling groups (6.6).
    pub siblings_by_cores: bool,
    /// Of equal misfits the first is the busiest (6.9).
    pub misfit_first_stays: bool,
}

/// How an imbalance between nodes is tolerated (`adjust_numa_imbalance`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeTolerance {
    /// It is not (5.5).
    Never,
    /// Of any size while the busiest node has at most two tasks (5.6 to 5.10).
    Pair,
    /// While the busiest node has fewer tasks than a quarter of its CPUs (5.11 to 5.17).
    Quarter,
    /// While the local node would have at most this many tasks (`imb_numa_nr`, 5.18); moving two tasks is a small
    /// imbalance.
    Moving(u32),
    /// The same, but a difference of two is a small imbalance (6.0).
    Difference(u32),
}

impl NodeTolerance {
    /// The rule of a kernel, in a domain with this `imb_numa_nr`.
    pub fn of(history: &History, imb_numa_nr: u32) -> NodeTolerance {
        match () {
            () if history.numa_pair_stays => NodeTolerance::Pair,
            () if history.node_while_idle => NodeTolerance::Never,
            () if history.node_quarter => NodeTolerance::Quarter,
            () if history.node_by_tasks => NodeTolerance::Moving(imb_numa_nr),
            () => NodeTolerance::Difference(imb_numa_nr),
        }
    }
}
