//! The statistics of a pass: the facts read of each CPU, and the sums of a group.
//!
//! Mirrors `update_sg_lb_stats` of 3.4 and 4.5. The caller reads CPUs one after another in simulated time and adds each
//! sample when it is read; nothing here depends on time. Loads are weights (1024 = one nice-0 task always runnable).
//! The caller calls `add` once for each CPU of the group that the pass may still pull from, then [`Tally::close`].

use super::classify::{self, GroupType};
use crate::balance::capacity::{DomainFacts, GroupFacts, SCALE};
use crate::balance::era::Balancer;
use crate::balance::fits::Kinds;
use schedlab_base::CpuId;

/// One CPU as a pass reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuSample {
    pub cpu: CpuId,
    /// Biased load: `target_load` for a CPU of the local group, `source_load` for others (LB_BIAS).
    pub load: u64,
    /// Load of this instant (`weighted_cpuload`).
    pub weight_sum: u64,
    /// Utilisation, already capped (`capacity::capped_util`); not read by 3.4.
    pub util: u64,
    /// Runnable tasks of all classes.
    pub nr_running: u32,
    /// Runnable fair tasks, groups counted through.
    pub h_nr_running: u32,
    /// Whether it runs its idle task, has nothing queued and no wakeup pending. A CPU that balances because it is about
    /// to go idle does not count: its leaving task is still current.
    pub idle: bool,
    /// The load of its running task, if that is too large for it and the domain's CPUs differ in capacity.
    pub misfit: u64,
}

/// Sums over the CPUs of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Tally {
    load: u64,
    weight_sum: u64,
    util: u64,
    nr_running: u32,
    h_nr_running: u32,
    idle_cpus: u32,
    max_load: u64,
    min_load: u64,
    /// `nr_running` of the CPU that set `max_load`.
    nr_at_max: u32,
    overload: bool,
    misfit: u64,
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            load: 0,
            weight_sum: 0,
            util: 0,
            nr_running: 0,
            h_nr_running: 0,
            idle_cpus: 0,
            max_load: 0,
            min_load: u64::MAX,
            nr_at_max: 0,
            overload: false,
            misfit: 0,
        }
    }
}

impl Tally {
    #[inline]
    pub fn add(&mut self, s: &CpuSample) {
        self.load += s.load;
        self.weight_sum += s.weight_sum;
        self.util += s.util;
        self.nr_running += s.nr_running;
        self.h_nr_running += s.h_nr_running;
        self.idle_cpus += u32::from(s.idle);
        self.overload |= s.nr_running > 1 || s.misfit > 0;
        self.misfit = self.misfit.max(s.misfit);
        if s.load > self.max_load {
            self.max_load = s.load;
            self.nr_at_max = s.nr_running;
        }
        self.min_load = self.min_load.min(s.load);
    }

    /// The group's statistics, once all its CPUs are added. `local`: whether it holds the balancing CPU.
    pub fn close(&self, domain: &DomainFacts, group: &GroupFacts, local: bool) -> GroupStats {
        let nr_running = match domain.balancer {
            Balancer::V2_6 | Balancer::V3_4 => self.nr_running,
            Balancer::V4_5 => self.h_nr_running,
        };
        let mut stats = GroupStats {
            group_load: self.load,
            avg_load: self.load * SCALE / group.capacity,
            load_per_task: self.weight_sum.checked_div(u64::from(nr_running)).unwrap_or(0),
            group_util: self.util,
            capacity: group.capacity,
            slots: 0,
            nr_running,
            idle_cpus: self.idle_cpus,
            weight: group.weight,
            has_capacity: false,
            no_capacity: false,
            group_type: GroupType::Other,
            overload: self.overload,
            kinds: Kinds { misfit_load: self.misfit, ..group.kinds },
        };
        let uneven = !local && self.is_uneven(domain.balancer, stats.load_per_task);
        classify::pre_5_5(&mut stats, domain, group, uneven);
        stats
    }

    /// 3.4's sign of tasks that affinity keeps together: one CPU has more load than another by one task's load (in
    /// 2.6.30 two tasks'), and a second task to give. The local group is not tested.
    fn is_uneven(&self, balancer: Balancer, load_per_task: u64) -> bool {
        if balancer == Balancer::V2_6 {
            return self.max_load - self.min_load > 2 * load_per_task;
        }
        self.nr_at_max > 1 && self.max_load - self.min_load >= load_per_task
    }
}

/// The statistics of a group (`struct sg_lb_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupStats {
    /// Sum of biased loads.
    pub group_load: u64,
    /// Sum of biased loads per whole CPU of capacity.
    pub avg_load: u64,
    /// Mean load of a runnable task; 0 when there is none.
    pub load_per_task: u64,
    /// Sum of capped utilisation.
    pub group_util: u64,
    /// Sum of capacities.
    pub capacity: u64,
    /// Number of tasks that fill it (3.4; 0 in 4.5).
    pub slots: u64,
    /// Runnable tasks: of all classes in 3.4, fair ones in 4.5.
    pub nr_running: u32,
    pub idle_cpus: u32,
    pub weight: u32,
    /// Whether it can take another task.
    pub has_capacity: bool,
    /// Whether it should give away a task. In 3.4 the opposite of `has_capacity`; in 4.5 neither holds for a group that
    /// is exactly full.
    pub no_capacity: bool,
    /// In 4.5 the type decides which group is busiest, in 3.4 whether a group may be the busiest.
    pub group_type: GroupType,
    /// Whether some CPU had two runnable tasks. A full pass over the top domain stores it as `rd->overload` (3.19+).
    pub overload: bool,
    /// Capacities and misfits, where CPUs differ in capacity.
    pub kinds: Kinds,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::capacity::AverageLater;

    const OLD: DomainFacts = DomainFacts {
        balancer: Balancer::V3_4,
        imbalance_pct: 125,
        share_capacity: false,
        prefer_sibling: false,
        later: AverageLater {
            scales_excess: false,
            siblings_by_difference: false,
            idle_forces: false,
            asym: crate::balance::fits::Asymmetry::NONE,
        },
    };
    const NEW: DomainFacts = DomainFacts { balancer: Balancer::V4_5, ..OLD };

    fn cpu(load: u64, nr: u32) -> CpuSample {
        CpuSample {
            load,
            weight_sum: load,
            util: load.min(1024),
            nr_running: nr,
            h_nr_running: nr,
            idle: nr == 0,
            ..CpuSample::default()
        }
    }
    fn tally(cpus: &[CpuSample]) -> Tally {
        let mut t = Tally::default();
        cpus.iter().for_each(|c| t.add(c));
        t
    }

    #[test]
    fn average_is_per_capacity_and_per_task_is_of_the_instant() {
        let mut busy = cpu(2048, 2);
        busy.weight_sum = 3072;
        let s = tally(&[busy, cpu(0, 0)]).close(&NEW, &GroupFacts::of(2, 1178), false);
        assert_eq!(s.avg_load, 2048 * 1024 / 1178);
        assert_eq!(s.load_per_task, 1536, "unbiased load over tasks");
        assert_eq!((s.idle_cpus, s.nr_running, s.weight, s.overload), (1, 2, 2, true));
    }

    #[test]
    fn an_empty_group_has_no_load_per_task() {
        let s = Tally::default().close(&OLD, &GroupFacts::of(2, 2048), false);
        assert_eq!((s.avg_load, s.load_per_task, s.overload), (0, 0, false));
        assert_eq!(s.group_type, GroupType::Other);
    }

    #[test]
    fn the_two_eras_count_other_tasks() {
        let mut realtime = cpu(0, 3);
        realtime.h_nr_running = 1;
        let t = tally(&[realtime]);
        assert_eq!(t.close(&OLD, &GroupFacts::of(1, 1024), false).nr_running, 3);
        assert_eq!(t.close(&NEW, &GroupFacts::of(1, 1024), false).nr_running, 1);
    }

    #[test]
    fn one_task_a_cpu_is_no_overload() {
        assert!(!tally(&[cpu(1024, 1), cpu(1024, 1)]).close(&NEW, &GroupFacts::of(2, 2048), false).overload);
    }

    #[test]
    fn unevenness_needs_a_second_task_and_another_group() {
        let kind =
            |cpus: &[CpuSample], local| tally(cpus).close(&OLD, &GroupFacts::of(4, 4096), local).group_type;
        let pinned = [cpu(2048, 2), cpu(0, 0), cpu(0, 0), cpu(0, 0)];
        assert_eq!(kind(&pinned, false), GroupType::Imbalanced);
        assert_eq!(kind(&pinned, true), GroupType::Other, "local");
        assert_eq!(
            kind(&[cpu(2048, 1), cpu(0, 0)], false),
            GroupType::Other,
            "one heavy task cannot be split"
        );
        assert_eq!(kind(&[cpu(2048, 2), cpu(2048, 2)], false), GroupType::Other, "even");
    }

    #[test]
    fn before_2_6_32_unevenness_is_more_than_two_tasks() {
        let early = DomainFacts { balancer: Balancer::V2_6, ..OLD };
        let kind = |load| {
            let busy = CpuSample { weight_sum: 2048, ..cpu(load, 2) };
            tally(&[busy, cpu(0, 0)]).close(&early, &GroupFacts::of(2, 2048), false).group_type
        };
        assert_eq!((kind(2048), kind(2049)), (GroupType::Other, GroupType::Imbalanced));
    }

    #[test]
    fn order_of_reading_changes_no_sum() {
        let cpus = [cpu(3000, 3), cpu(10, 1), cpu(0, 0), cpu(2000, 1)];
        let mut back = cpus;
        back.reverse();
        assert_eq!(tally(&cpus), tally(&back));
    }
}
