//! Chooses the group to pull from, and whether to pull at all.
//!
//! Mirrors `update_sd_pick_busiest` and `find_busiest_group` of 3.4 and 4.5. The caller hands over groups in ring
//! order, the local one first, each when its last CPU has been read. Not modelled: asymmetric packing (no machine
//! modelled has it), NUMA balancing's preference of queues, and 3.4's power-saving policies (off by default, gone in
//! 3.5). On machines whose CPUs differ in capacity, misfits are moved, too, since 4.20 ([`crate::balance::fits`]; from
//! memory).

use super::classify::{GroupType, prefer_sibling};
use super::imbalance::{self, Amount};
use super::stats::GroupStats;
use crate::balance::capacity::{DomainFacts, SCALE};
use crate::balance::era::{Balancer, PassKind};

/// The statistics of a domain's groups that a pass has read so far (`struct sd_lb_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainStats {
    local: GroupStats,
    busiest: Option<(u32, GroupStats)>,
    total_load: u64,
    total_capacity: u64,
    overload: bool,
}

impl DomainStats {
    /// Starts with the local group, which is first in every ring.
    pub fn new(local: GroupStats) -> DomainStats {
        DomainStats {
            local,
            busiest: None,
            total_load: local.group_load,
            total_capacity: local.capacity,
            overload: local.overload,
        }
    }

    /// Takes another group that contains the balancing CPU: kernels before 4.13 have overlapping ones. The last one
    /// counts as the local group.
    pub fn push_local(&mut self, group: GroupStats) {
        self.total_load += group.group_load;
        self.total_capacity += group.capacity;
        self.overload |= group.overload;
        self.local = group;
    }

    /// Takes the next group of the ring; `index` is its number for the caller.
    pub fn push(&mut self, domain: &DomainFacts, index: u32, mut group: GroupStats) {
        self.total_load += group.group_load;
        self.total_capacity += group.capacity;
        self.overload |= group.overload;
        prefer_sibling(&mut group, domain, &self.local);
        if self.is_busier(domain.balancer, &group) && !self.leaves(domain, &group) {
            self.busiest = Some((index, group));
        }
    }

    /// Whether `group` replaces the busiest so far. A tie keeps the earlier one.
    fn is_busier(&self, balancer: Balancer, group: &GroupStats) -> bool {
        let (best_type, best_load) =
            self.busiest.map_or((GroupType::Other, 0), |(_, b)| (b.group_type, b.avg_load));
        match balancer {
            Balancer::V2_6 | Balancer::V3_4 => {
                group.group_type != GroupType::Other && group.avg_load > best_load
            }
            Balancer::V4_5 => (group.group_type, group.avg_load) > (best_type, best_load),
        }
    }

    /// Whether a group is passed over because of its CPUs' capacities (4.20): its misfit can't be helped, its misfit is
    /// smaller than the one found, or each of its tasks has a faster CPU. The last two only matter between groups of
    /// one type.
    fn leaves(&self, domain: &DomainFacts, group: &GroupStats) -> bool {
        let (asym, local) = (&domain.later.asym, &self.local);
        if !asym.marked {
            return false;
        }
        let is_misfit = group.group_type == GroupType::Misfit;
        let vain = is_misfit && (asym.is_in_vain(&local.kinds, &group.kinds) || !local.has_capacity);
        let best = self.busiest.map_or((GroupType::Other, 0), |(_, b)| (b.group_type, b.kinds.misfit_load));
        let smaller = is_misfit && group.kinds.misfit_load < best.1;
        let faster = group.nr_running <= group.weight && asym.is_slower_than(&local.kinds, &group.kinds);
        vain || group.group_type == best.0 && (smaller || faster)
    }

    /// Whether any CPU of the domain had two runnable tasks; a pass over the top domain stores that as `rd->overload`.
    pub fn overload(&self) -> bool {
        self.overload
    }

    /// Load of the domain per whole CPU of capacity.
    pub fn avg_load(&self) -> u64 {
        SCALE * self.total_load / self.total_capacity
    }

    /// The decision. `dst_load_per_task`: mean load of a task on the balancing CPU, 0 if it has none.
    pub fn decide(&self, domain: &DomainFacts, pass: PassKind, dst_load_per_task: u64) -> Decision {
        let Some((group, busiest)) = self.busiest.filter(|(_, b)| b.nr_running > 0) else {
            return Decision::Balanced(Balanced::NoBusiest);
        };
        let why = match self.unbalanced(domain, pass, &busiest) {
            Ok(why) => why,
            Err(why) => return Decision::Balanced(why),
        };
        let amount = imbalance::calculate(&imbalance::ImbalanceFacts {
            balancer: domain.balancer,
            scales_excess: domain.later.scales_excess,
            local: self.local,
            busiest,
            domain_avg_load: self.avg_load(),
            dst_load_per_task,
        });
        Decision::Pull { group, amount, why }
    }

    fn unbalanced(
        &self,
        domain: &DomainFacts,
        pass: PassKind,
        busiest: &GroupStats,
    ) -> std::result::Result<Pull, Balanced> {
        let local = &self.local;
        if domain.balancer == Balancer::V2_6 {
            return self.unbalanced_early(domain, busiest);
        }
        if busiest.group_type == GroupType::Imbalanced {
            return Ok(Pull::Imbalanced);
        }
        let forces = pass == PassKind::Newidle || pass == PassKind::Idle && domain.later.idle_forces;
        if forces && local.has_capacity && busiest.no_capacity {
            return Ok(Pull::NewidleRoom);
        }
        if busiest.group_type == GroupType::Misfit {
            return Ok(Pull::Misfit);
        }
        if local.avg_load >= busiest.avg_load {
            return Err(Balanced::LocalBusier);
        }
        if local.avg_load >= self.avg_load() {
            return Err(Balanced::LocalAboveAverage);
        }
        match pass {
            PassKind::Idle if local.idle_cpus <= busiest.idle_cpus + 1 && !gives(domain, busiest) => {
                Err(Balanced::EnoughIdle)
            }
            PassKind::Idle => Ok(Pull::IdleCpus),
            PassKind::Busy | PassKind::Newidle
                if 100 * busiest.avg_load <= u64::from(domain.imbalance_pct) * local.avg_load =>
            {
                Err(Balanced::WithinPct)
            }
            PassKind::Busy | PassKind::Newidle => Ok(Pull::AbovePct),
        }
    }
}

impl DomainStats {
    /// 2.6.30 makes no exceptions for kinds of passes or groups.
    fn unbalanced_early(
        &self,
        domain: &DomainFacts,
        busiest: &GroupStats,
    ) -> std::result::Result<Pull, Balanced> {
        let local = &self.local;
        match () {
            () if local.avg_load >= busiest.avg_load => Err(Balanced::LocalBusier),
            () if local.avg_load >= self.avg_load() => Err(Balanced::LocalAboveAverage),
            () if 100 * busiest.avg_load <= u64::from(domain.imbalance_pct) * local.avg_load => {
                Err(Balanced::WithinPct)
            }
            () if busiest.avg_load <= imbalance::task_load(busiest, self.avg_load()) => {
                Err(Balanced::OneTask)
            }
            () => Ok(Pull::AbovePct),
        }
    }
}

/// Whether an idle CPU may take from this group, regardless of the number of idle CPUs in its own group.
fn gives(domain: &DomainFacts, busiest: &GroupStats) -> bool {
    match domain.balancer {
        Balancer::V2_6 | Balancer::V3_4 => busiest.nr_running > busiest.weight,
        Balancer::V4_5 => busiest.group_type == GroupType::Overloaded,
    }
}

/// The decision of a pass. An amount of 0 is possible: then a queue is still searched, but nothing is detached.
pub type Decision = crate::balance::decision::Decision<Balanced, Pull, Amount>;

/// Why a domain counts as balanced.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Balanced {
    /// No other group has load (4.5), or none has more than its capacity (3.4).
    NoBusiest,
    /// The local group is as loaded as the busiest.
    LocalBusier,
    /// The local group is at the domain's average or above.
    LocalAboveAverage,
    /// This CPU is idle; the busiest group is not overloaded and has nearly as many idle CPUs.
    EnoughIdle,
    /// The difference is within `imbalance_pct`.
    WithinPct,
    /// The busiest group has no more than one task's load (before 2.6.32).
    OneTask,
}

/// Why a pull is attempted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Pull {
    /// Affinity prevents balance within the busiest group.
    Imbalanced,
    /// A task is too large for its CPU (4.20).
    Misfit,
    /// A CPU is about to go idle, the local group has room and the busiest has none.
    NewidleRoom,
    /// This CPU is idle; the busiest group is overloaded or has fewer idle CPUs.
    IdleCpus,
    /// The busiest group exceeds the local one by more than `imbalance_pct`.
    AbovePct,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::average::stats::{CpuSample, Tally};
    use crate::balance::capacity::{AverageLater, GroupFacts};

    const BOTH: [Balancer; 2] = [Balancer::V3_4, Balancer::V4_5];

    fn domain(balancer: Balancer, prefer_sibling: bool) -> DomainFacts {
        let later = AverageLater::default();
        DomainFacts { balancer, imbalance_pct: 125, share_capacity: false, prefer_sibling, later }
    }
    /// A group of undisturbed CPUs with these numbers of always-running nice-0 tasks.
    fn group(d: &DomainFacts, tasks: &[u32], local: bool) -> GroupStats {
        let mut t = Tally::default();
        for &n in tasks {
            let load = 1024 * u64::from(n);
            let util = if n > 0 { 1024 } else { 0 };
            let (nr_running, h_nr_running, idle) = (n, n, n == 0);
            t.add(&CpuSample {
                load,
                weight_sum: load,
                util,
                nr_running,
                h_nr_running,
                idle,
                ..Default::default()
            });
        }
        let n = tasks.len();
        t.close(d, &GroupFacts::of(n as u32, 1024 * n as u64), local)
    }
    fn seen(d: &DomainFacts, local: &[u32], others: &[&[u32]]) -> DomainStats {
        let mut s = DomainStats::new(group(d, local, true));
        for (i, tasks) in others.iter().enumerate() {
            s.push(d, i as u32 + 1, group(d, tasks, false));
        }
        s
    }
    fn decide(d: &DomainFacts, pass: PassKind, local: &[u32], others: &[&[u32]]) -> Decision {
        seen(d, local, others).decide(d, pass, 0)
    }
    fn why(v: Decision) -> std::result::Result<(u32, Pull), Balanced> {
        match v {
            Decision::Balanced(why) => Err(why),
            Decision::Pull { group, why, .. } => Ok((group, why)),
        }
    }

    #[test]
    fn since_4_15_idle_passes_take_from_a_group_without_capacity_as_newidle_ones_do() {
        // The busiest group has one task more than CPUs; the local one has the same average load.
        let of = |pass, idle_forces| {
            let later = AverageLater { idle_forces, ..AverageLater::default() };
            let d = DomainFacts { later, ..domain(Balancer::V4_5, false) };
            why(decide(&d, pass, &[5, 0], &[&[3, 2]]))
        };
        for pass in [PassKind::Idle, PassKind::Newidle] {
            assert_eq!(of(pass, true), Ok((1, Pull::NewidleRoom)), "{pass:?}");
        }
        assert_eq!(of(PassKind::Newidle, false), Ok((1, Pull::NewidleRoom)));
        assert_eq!(of(PassKind::Idle, false), Err(Balanced::LocalBusier));
        assert_eq!(of(PassKind::Busy, true), Err(Balanced::LocalBusier));
    }

    #[test]
    fn without_load_no_group_is_busiest() {
        for b in BOTH {
            let d = domain(b, true);
            assert_eq!(why(decide(&d, PassKind::Idle, &[0, 0], &[&[0, 0]])), Err(Balanced::NoBusiest));
        }
    }

    #[test]
    fn one_task_is_not_an_imbalance_before_2_6_32() {
        let d = domain(Balancer::V2_6, false);
        let of_two_tasks = |load: u64| {
            let mut t = Tally::default();
            t.add(&CpuSample {
                load,
                weight_sum: 2048,
                nr_running: 2,
                h_nr_running: 2,
                ..Default::default()
            });
            let mut s = DomainStats::new(group(&d, &[0], true));
            s.push(&d, 1, t.close(&d, &GroupFacts::of(1, 1024), false));
            why(s.decide(&d, PassKind::Idle, 0))
        };
        assert_eq!(
            of_two_tasks(1024),
            Err(Balanced::OneTask),
            "the averages have yet to see the second task"
        );
        assert_eq!(of_two_tasks(2048), Ok((1, Pull::AbovePct)));
    }

    #[test]
    fn load_decides_between_equal_types_and_ties_keep_the_first() {
        for b in BOTH {
            let d = domain(b, false);
            let from = |others: &[&[u32]]| why(decide(&d, PassKind::Busy, &[1, 1], others)).unwrap().0;
            assert_eq!(from(&[&[3, 2], &[3, 3]]), 2, "{b:?}");
            assert_eq!(from(&[&[3, 2], &[3, 2]]), 1, "{b:?}");
        }
    }

    #[test]
    fn type_outranks_load_in_4_5_only() {
        let pick = |b| {
            let d = domain(b, false);
            let mut s = DomainStats::new(group(&d, &[0, 0], true));
            let mut loaded = group(&d, &[3, 3], false);
            loaded.group_type = GroupType::Imbalanced;
            loaded.no_capacity = false;
            s.push(&d, 1, loaded);
            s.push(&d, 2, group(&d, &[2, 2], false));
            s.busiest.map(|(i, _)| i)
        };
        assert_eq!(pick(Balancer::V4_5), Some(2), "overloaded beats imbalanced");
        assert_eq!(pick(Balancer::V3_4), Some(1), "3.4 looks at load alone");
    }

    #[test]
    fn a_group_without_excess_is_a_candidate_in_4_5_only() {
        let alone = |b| why(decide(&domain(b, false), PassKind::Idle, &[0, 0], &[&[1, 1]]));
        assert_eq!(alone(Balancer::V3_4), Err(Balanced::NoBusiest));
        assert_eq!(alone(Balancer::V4_5), Ok((1, Pull::IdleCpus)));
    }

    #[test]
    fn prefer_sibling_spreads_two_tasks_over_two_groups() {
        for b in BOTH {
            let pull =
                |prefer| why(decide(&domain(b, prefer), PassKind::Idle, &[0, 0, 0, 0], &[&[1, 1, 0, 0]]));
            assert_eq!(pull(true), Ok((1, Pull::IdleCpus)), "{b:?}");
        }
        let d = domain(Balancer::V3_4, false);
        assert_eq!(why(decide(&d, PassKind::Idle, &[0; 4], &[&[1, 1, 0, 0]])), Err(Balanced::NoBusiest));
    }

    #[test]
    fn prefer_sibling_of_3_4_still_asks_for_idle_cpus() {
        let d = domain(Balancer::V3_4, true);
        // One more idle CPU than the busiest group is not enough, two are.
        let idle = |local: &[u32]| why(decide(&d, PassKind::Idle, local, &[&[1, 1, 0, 0]]));
        assert_eq!(idle(&[1, 0, 0, 0]), Err(Balanced::EnoughIdle));
        assert_eq!(idle(&[0, 0, 0, 0]), Ok((1, Pull::IdleCpus)));
        let d = domain(Balancer::V4_5, true);
        assert_eq!(why(decide(&d, PassKind::Idle, &[1, 0, 0, 0], &[&[1, 1, 0, 0]])), Ok((1, Pull::IdleCpus)));
    }

    #[test]
    fn newidle_forces_only_with_room_here_and_none_there() {
        for b in BOTH {
            let d = domain(b, false);
            // One heavy local task leaves a CPU free. Averages are within 125 %, so only the force would pull.
            let mut local = Tally::default();
            let heavy = CpuSample { load: 7000, nr_running: 1, h_nr_running: 1, ..Default::default() };
            local.add(&heavy);
            local.add(&CpuSample { idle: true, ..Default::default() });
            let mut s = DomainStats::new(local.close(&d, &GroupFacts::of(2, 2048), true));
            s.push(&d, 1, group(&d, &[4, 4], false));
            assert_eq!(why(s.decide(&d, PassKind::Newidle, 0)), Ok((1, Pull::NewidleRoom)), "{b:?}");
            assert_eq!(why(s.decide(&d, PassKind::Busy, 0)), Err(Balanced::WithinPct), "{b:?}");
            s.local.has_capacity = false;
            assert_eq!(why(s.decide(&d, PassKind::Newidle, 0)), Err(Balanced::WithinPct), "{b:?}: no room");
        }
    }

    #[test]
    fn never_from_a_lighter_group_or_when_above_average() {
        for b in BOTH {
            let d = domain(b, false);
            assert_eq!(why(decide(&d, PassKind::Busy, &[3, 3], &[&[2, 2]])), Err(Balanced::LocalBusier));
            let above = decide(&d, PassKind::Busy, &[2, 2], &[&[4, 4], &[0, 0], &[0, 0]]);
            assert_eq!(why(above), Err(Balanced::LocalAboveAverage), "{b:?}");
        }
    }

    #[test]
    fn a_busy_cpu_wants_more_than_the_percentage() {
        for b in BOTH {
            let d = domain(b, false);
            let pull = |busiest: &[u32]| why(decide(&d, PassKind::Busy, &[4, 4], &[busiest]));
            assert_eq!(pull(&[5, 5]), Err(Balanced::WithinPct), "{b:?}: exactly 125%");
            assert_eq!(pull(&[6, 6]), Ok((1, Pull::AbovePct)), "{b:?}");
        }
    }

    #[test]
    fn an_imbalanced_group_is_pulled_from_whatever_the_loads() {
        let d = domain(Balancer::V4_5, false);
        let mut s = DomainStats::new(group(&d, &[2, 2], true));
        let mut stuck = group(&d, &[2, 0], false);
        stuck.group_type = GroupType::Imbalanced;
        s.push(&d, 7, stuck);
        assert_eq!(why(s.decide(&d, PassKind::Busy, 1024)), Ok((7, Pull::Imbalanced)));
    }

    #[test]
    fn overload_is_of_the_whole_domain() {
        let d = domain(Balancer::V4_5, false);
        assert!(seen(&d, &[0, 2], &[&[1, 1]]).overload());
        assert!(seen(&d, &[0, 0], &[&[1, 1], &[0, 2]]).overload());
        assert!(!seen(&d, &[1, 1], &[&[1, 1]]).overload());
    }
}
