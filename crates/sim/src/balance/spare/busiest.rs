//! Chooses the group to pull from, and whether to pull at all.
//!
//! Mirrors `update_sd_lb_stats`, `update_sd_pick_busiest` and `find_busiest_group` of 6.5. The local group is first in
//! every ring. The caller hands over each further group twice after its last CPU was read: [`DomainStats::push`] picks,
//! [`DomainStats::accumulate`] adds to the domain's totals; the shortcuts of D001 leave the loop between the two. A
//! loop without shortcuts hands over sums instead, and the totals of many groups at once.

use super::DomainFacts;
use super::classify::{SpareFacts, SpareType, since_5_5};
use super::imbalance::{self, Amount, AmountRule};
use super::rank::{Claim, OVERLOADED};
use super::stats::{CpuSample, GroupStats, Tally};
use crate::balance::capacity::{GroupFacts, SCALE};
use crate::balance::era::PassKind;

/// The statistics of a domain's groups that a pass has read so far (`struct sd_lb_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainStats {
    /// The balancing CPU's group.
    pub local: GroupStats,
    /// The busiest other group, by its number for the caller.
    pub busiest: Option<(u32, GroupStats)>,
    /// The busiest group's rank; 0 without one.
    rank: u64,
    /// Number of groups considered.
    considered: u32,
    /// Sum of the groups' loads.
    pub total_load: u64,
    /// Sum of the groups' capacities.
    pub total_capacity: u64,
    /// Whether any CPU read had two runnable tasks; a pass over the top domain stores that as `rd->overload`.
    pub overload: bool,
    /// Sum of the groups' utilisation; scan depths are computed from it.
    pub sum_util: u64,
}

impl DomainStats {
    /// Starts with the local group, its load and capacity added.
    pub fn new(local: GroupStats) -> DomainStats {
        let mut stats = DomainStats {
            local,
            busiest: None,
            rank: 0,
            considered: 0,
            total_load: 0,
            total_capacity: 0,
            overload: local.overload,
            sum_util: 0,
        };
        stats.accumulate(&local);
        stats
    }

    /// Considers the next group of the ring; `index` is its number for the caller. Returns whether it became the
    /// busiest.
    #[inline]
    pub fn push(&mut self, domain: &DomainFacts, index: u32, group: &GroupStats) -> bool {
        self.overload |= group.overload;
        if domain.asym.marked && self.leaves(domain, group) {
            self.considered += 1;
            return false;
        }
        let claim = Claim::from(group);
        if domain.some_are_cores {
            self.considered += 1;
            let best = self.busiest.map(|(_, best)| Claim::from(&best));
            let busier = claim.is_busier(domain, best.as_ref());
            if busier {
                self.busiest = Some((index, *group));
            }
            return busier;
        }
        self.consider(domain, index, &claim, || *group)
    }

    /// Whether a group is passed over because of its CPUs' capacities: its misfit can't be helped, or each of its tasks
    /// has a faster CPU. Some kernels do not apply the second reason to a group of a higher type than the busiest so
    /// far.
    fn leaves(&self, domain: &DomainFacts, group: &GroupStats) -> bool {
        let (asym, local) = (&domain.asym, &self.local);
        if group.group_type == SpareType::Misfit {
            return asym.dst_core_busy
                || local.group_type != SpareType::HasSpare
                || asym.is_in_vain(&local.kinds, &group.kinds);
        }
        let best = self.busiest.map_or(SpareType::HasSpare, |(_, best)| best.group_type);
        group.group_type <= SpareType::FullyBusy
            && (asym.before_types || group.group_type <= best)
            && asym.is_slower_than(&local.kinds, &group.kinds)
    }

    #[inline]
    fn consider(
        &mut self,
        domain: &DomainFacts,
        index: u32,
        claim: &Claim,
        stats: impl FnOnce() -> GroupStats,
    ) -> bool {
        let busier = self.outranks(domain, claim);
        if busier {
            self.busiest = Some((index, stats()));
        }
        busier
    }

    /// Counts the next group of the ring, and says whether it is the busiest from now on.
    #[inline]
    fn outranks(&mut self, domain: &DomainFacts, claim: &Claim) -> bool {
        self.considered += 1;
        let rank = claim.rank(domain, self.considered);
        let busier = rank > self.rank;
        self.rank = self.rank.max(rank);
        busier
    }

    /// Considers the next group of the ring, which is one CPU of whole capacity. The caller adds it to the totals.
    #[inline]
    pub fn consider_cpu(&mut self, domain: &DomainFacts, index: u32, cpu: &CpuSample, imbalanced: bool) {
        let kind = since_5_5(&SpareFacts {
            util: cpu.util,
            runnable: cpu.runnable,
            capacity: SCALE,
            nr_running: cpu.nr_running,
            weight: 1,
            imbalanced,
            imbalance_pct: domain.imbalance_pct,
            shared_core: false,
            misfit: false,
        });
        let claim = Claim {
            group_type: kind,
            avg_load: cpu.load,
            sum_nr_running: cpu.nr_running,
            sum_h_nr_running: cpu.h_nr_running,
            idle_cpus: u32::from(cpu.nr_running == 0 && cpu.idle),
            misfit_load: 0,
            is_core: false,
        };
        if self.outranks(domain, &claim) {
            self.crown(index, cpu, kind, imbalanced);
        }
    }

    /// A group of one CPU is the busiest from now on.
    fn crown(&mut self, index: u32, cpu: &CpuSample, kind: SpareType, imbalanced: bool) {
        let mut sums = Tally::default();
        sums.add(cpu);
        let group = GroupFacts { imbalanced, ..GroupFacts::of(1, SCALE) };
        self.busiest = Some((index, sums.stats(&group, kind)));
    }

    /// What the next group of the ring must have to be busier than the busiest so far. Without a fair task it is not.
    /// Only an overloaded group with more load is busier than an overloaded one: most groups of a loaded machine need
    /// no more than this test.
    #[inline]
    pub fn bar(&self) -> Bar {
        let most = self.rank.checked_sub(OVERLOADED);
        Bar { over: u32::from(most.is_some()), load: most.map_or(0, |most| most + 1) }
    }

    /// The next groups of the ring are not the busiest.
    #[inline]
    pub fn pass_over(&mut self, groups: usize) {
        self.considered += groups as u32;
    }

    /// Considers the next group of the ring by its CPUs' sums: its statistics are made only if it becomes the busiest.
    /// The caller adds it to the totals. `to_idle`: if the group is a core, the reading CPU is an idle one outside of
    /// it (6.6).
    #[inline(never)]
    pub fn consider_sums(
        &mut self,
        domain: &DomainFacts,
        index: u32,
        sums: &Tally,
        group: &GroupFacts,
        to_idle: bool,
    ) {
        let kind = sums.group_type(group, domain.imbalance_pct, to_idle);
        self.consider(domain, index, &sums.claim(group, kind), || sums.stats(group, kind));
    }

    /// Adds the totals of other groups.
    #[inline]
    pub fn add_totals(&mut self, of: &Totals) {
        self.overload |= of.overload;
        self.total_load += of.load;
        self.total_capacity += of.capacity;
        self.sum_util += of.util;
    }

    /// Adds the group just considered to the domain's totals.
    #[inline]
    pub fn accumulate(&mut self, group: &GroupStats) {
        self.total_load += group.group_load;
        self.total_capacity += group.capacity;
        self.sum_util += group.group_util;
    }

    /// Load of the domain per whole CPU of capacity.
    pub fn avg_load(&self) -> u64 {
        SCALE * self.total_load / self.total_capacity
    }

    pub fn decide(&self, domain: &DomainFacts, pass: PassKind) -> Decision {
        let Some((group, busiest)) = self.busiest else {
            return Decision::Balanced(Balanced::NoBusiest);
        };
        let why = match self.unbalanced(domain, pass, &busiest) {
            Ok(why) => why,
            Err(why) => return Decision::Balanced(why),
        };
        let amount = imbalance::calculate(&imbalance::ImbalanceFacts {
            domain: *domain,
            pass,
            local: self.local,
            busiest,
            domain_avg_load: self.avg_load(),
        });
        if amount.amount == 0 {
            return Decision::Balanced(Balanced::NothingToMove(amount.how));
        }
        Decision::Pull { group, amount, why }
    }

    fn unbalanced(
        &self,
        domain: &DomainFacts,
        pass: PassKind,
        busiest: &GroupStats,
    ) -> std::result::Result<Pull, Balanced> {
        let local = &self.local;
        if busiest.group_type == SpareType::Misfit {
            return Ok(Pull::Misfit);
        }
        if busiest.group_type == SpareType::Imbalanced {
            return Ok(Pull::Imbalanced);
        }
        if local.group_type > busiest.group_type {
            return Err(Balanced::LocalFuller);
        }
        if local.group_type == SpareType::Overloaded {
            self.both_overloaded(domain, busiest)?;
            return Ok(Pull::Overloaded);
        }
        if domain.prefer_sibling
            && local.group_type == SpareType::HasSpare
            && imbalance::sibling_imbalance(domain, pass, local, busiest) > 1
        {
            return Ok(Pull::PreferSibling);
        }
        match () {
            () if busiest.group_type == SpareType::Overloaded => Ok(Pull::Overloaded),
            () if pass == PassKind::Busy => Err(Balanced::BusyCpu),
            () if busiest.group_type == SpareType::SharedCore && !local.kinds.is_core => Ok(Pull::SharedCore),
            () if busiest.weight > 1 && local.idle_cpus <= busiest.idle_cpus + 1 => Err(Balanced::EnoughIdle),
            () if busiest.sum_h_nr_running == 1 => Err(Balanced::SingleTask),
            () => Ok(Pull::IdleCpus),
        }
    }

    /// Two overloaded groups are compared by load.
    fn both_overloaded(
        &self,
        domain: &DomainFacts,
        busiest: &GroupStats,
    ) -> std::result::Result<(), Balanced> {
        let local = self.local.avg_load;
        match () {
            () if local >= busiest.avg_load => Err(Balanced::LocalBusier),
            () if local >= self.avg_load() => Err(Balanced::LocalAboveAverage),
            () if 100 * busiest.avg_load <= u64::from(domain.imbalance_pct) * local => {
                Err(Balanced::WithinPct)
            }
            () => Ok(()),
        }
    }
}

/// Sums over groups.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    load: u64,
    capacity: u64,
    util: u64,
    overload: bool,
}

/// What a group must have to be busier than another one.
#[derive(Clone, Copy)]
pub struct Bar {
    /// Tasks beyond its CPUs.
    over: u32,
    /// Load per whole CPU.
    load: u64,
}

impl Bar {
    /// Whether a group of `cpus` CPUs may be busier.
    #[inline]
    pub fn reached(self, cpus: u32, nr_running: u32, h_nr_running: u32, load: impl FnOnce() -> u64) -> bool {
        h_nr_running > 0 && (self.over == 0 || nr_running > cpus) && load() >= self.load
    }
}

impl Totals {
    #[inline]
    pub fn add(&mut self, sums: &Tally, capacity: u64) {
        self.load += sums.load;
        self.capacity += capacity;
        self.util += sums.util;
        self.overload |= sums.overload;
    }
    /// Adds a CPU, but for its capacity.
    #[inline]
    pub fn add_cpu(&mut self, load: u64, util: u64, nr_running: u32) {
        self.load += load;
        self.util += util;
        self.overload |= nr_running > 1;
    }
    pub fn add_capacity(&mut self, capacity: u64) {
        self.capacity += capacity;
    }
}

/// The decision of a pass. The amount, with its unit, is never 0.
pub type Decision = crate::balance::decision::Decision<Balanced, Pull, Amount>;

/// Why a domain counts as balanced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Balanced {
    /// No other group has a fair task.
    NoBusiest,
    /// The local group is fuller by type.
    LocalFuller,
    /// Both are overloaded, and the local group has as much load for its capacity.
    LocalBusier,
    /// Both are overloaded, and the local group is at the domain's average or above.
    LocalAboveAverage,
    /// Both are overloaded, and the difference is within `imbalance_pct`.
    WithinPct,
    /// The busiest group is not overloaded and this CPU is busy: an idle one may help.
    BusyCpu,
    /// The busiest group is not overloaded and has nearly as many idle CPUs.
    EnoughIdle,
    /// The busiest group is not overloaded and has only one task, so no task waits.
    SingleTask,
    /// There is an imbalance, but this rule for the amount gives nothing to move.
    NothingToMove(AmountRule),
}

/// Why a pull is attempted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pull {
    /// A task is too large for its CPU.
    Misfit,
    /// Affinity prevents balance within the busiest group.
    Imbalanced,
    /// The busiest group is overloaded, and the local one is not or has clearly less load.
    Overloaded,
    /// The local group has room, groups should be evenly filled, and the busiest has at least two tasks more.
    PreferSibling,
    /// This CPU is idle and its group is not a core; the busiest group is a core with two tasks.
    SharedCore,
    /// This CPU is idle; the busiest group has at least two fewer idle CPUs.
    IdleCpus,
}

#[cfg(test)]
#[path = "busiest_tests.rs"]
mod tests;
