//! Types of groups, by which the busiest is chosen: a group has room, is full, or is stuck.
//!
//! 3.4 compares the number of tasks with whole CPUs of capacity. 4.5 compares utilisation with capacity, and calls a
//! group overloaded only if it also has more tasks than CPUs.

use super::stats::GroupStats;
use crate::balance::capacity::{DomainFacts, GroupFacts, slots};
use crate::balance::era::Balancer;

/// Types of a group before 5.5, least urgent first (`enum group_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum GroupType {
    /// Nothing special.
    Other,
    /// A task is too large for its CPU (4.20).
    Misfit,
    /// Affinity prevents balance within it.
    Imbalanced,
    /// More work than its capacity.
    Overloaded,
}

/// Sets a group's type and the signs of its room, by the rules before 5.5. `uneven` is 3.4's own sign of affinity
/// trouble; 4.5 reads the flag that passes over the level below have set.
pub fn pre_5_5(stats: &mut GroupStats, domain: &DomainFacts, group: &GroupFacts, uneven: bool) {
    match domain.balancer {
        Balancer::V2_6 | Balancer::V3_4 => {
            stats.slots = slots(group.capacity, group.capacity_orig, domain.share_capacity);
            stats.has_capacity = stats.slots > u64::from(stats.nr_running);
            stats.no_capacity = !stats.has_capacity;
            // `uneven` is more important than the count: a forced balance ignores the number of tasks.
            stats.group_type = match () {
                () if uneven => GroupType::Imbalanced,
                () if u64::from(stats.nr_running) > stats.slots => GroupType::Overloaded,
                () => GroupType::Other,
            };
        }
        Balancer::V4_5 => {
            let (can, uses) = (stats.capacity * 100, stats.group_util * u64::from(domain.imbalance_pct));
            stats.has_capacity = stats.nr_running < stats.weight || can > uses;
            stats.no_capacity = stats.nr_running > stats.weight && can < uses;
            stats.group_type = match () {
                () if stats.no_capacity => GroupType::Overloaded,
                () if group.imbalanced => GroupType::Imbalanced,
                () if stats.kinds.misfit_load > 0 => GroupType::Misfit,
                () => GroupType::Other,
            };
        }
    }
}

/// `SD_PREFER_SIBLING`: while the local group has room, another group with more than one task counts as full. Since
/// 4.12 it must have at least two tasks more than the local group.
pub fn prefer_sibling(candidate: &mut GroupStats, domain: &DomainFacts, local: &GroupStats) {
    if !domain.prefer_sibling || !local.has_capacity {
        return;
    }
    match domain.balancer {
        Balancer::V2_6 | Balancer::V3_4 => {
            candidate.slots = candidate.slots.min(1);
            let beyond = u64::from(candidate.nr_running) > candidate.slots;
            if beyond && candidate.group_type == GroupType::Other {
                candidate.group_type = GroupType::Overloaded;
            }
        }
        Balancer::V4_5 => {
            let fewest = if domain.later.siblings_by_difference { local.nr_running } else { 0 };
            if candidate.nr_running > fewest + 1 {
                candidate.no_capacity = true;
                candidate.group_type = GroupType::Overloaded;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::average::stats::{CpuSample, Tally};
    use crate::balance::capacity::AverageLater;

    fn domain(balancer: Balancer) -> DomainFacts {
        DomainFacts {
            balancer,
            imbalance_pct: 125,
            share_capacity: false,
            prefer_sibling: true,
            later: AverageLater::default(),
        }
    }
    fn group(balancer: Balancer, facts: &GroupFacts, nr: u32, util: u64) -> GroupStats {
        let mut t = Tally::default();
        let load = 1024 * u64::from(nr);
        t.add(&CpuSample {
            load,
            weight_sum: load,
            util,
            nr_running: nr,
            h_nr_running: nr,
            ..Default::default()
        });
        t.close(&domain(balancer), facts, true)
    }

    #[test]
    fn tasks_fill_whole_cpus_in_3_4() {
        let core = GroupFacts::of(2, 1178);
        let kind = |nr| {
            let g = group(Balancer::V3_4, &core, nr, 0);
            (g.has_capacity, g.no_capacity, g.group_type)
        };
        assert_eq!(kind(0), (true, false, GroupType::Other));
        assert_eq!(kind(1), (false, true, GroupType::Other), "one task fills a core of two threads");
        assert_eq!(kind(2), (false, true, GroupType::Overloaded));
    }

    #[test]
    fn utilisation_and_count_must_agree_in_4_5() {
        let two = GroupFacts::of(2, 2048);
        let kind = |nr, util| {
            let g = group(Balancer::V4_5, &two, nr, util);
            (g.has_capacity, g.no_capacity, g.group_type)
        };
        assert_eq!(kind(1, 2048), (true, false, GroupType::Other), "fewer tasks than CPUs: room");
        assert_eq!(kind(2, 2048), (false, false, GroupType::Other), "just full: neither");
        assert_eq!(kind(3, 2048), (false, true, GroupType::Overloaded));
        assert_eq!(kind(9, 1000), (true, false, GroupType::Other), "many sleepy tasks leave room");
        // 2048 * 100 = 204800; 1638 * 125 = 204750; 1639 * 125 = 204875.
        assert!(kind(3, 1638).0 && kind(3, 1639).1);
    }

    #[test]
    fn overload_comes_before_the_affinity_flag_in_4_5() {
        let flagged = GroupFacts { imbalanced: true, ..GroupFacts::of(2, 2048) };
        assert_eq!(group(Balancer::V4_5, &flagged, 1, 0).group_type, GroupType::Imbalanced);
        assert_eq!(group(Balancer::V4_5, &flagged, 3, 2048).group_type, GroupType::Overloaded);
        assert_eq!(
            group(Balancer::V3_4, &flagged, 1, 0).group_type,
            GroupType::Other,
            "3.4 has no such flag"
        );
    }

    #[test]
    fn prefer_sibling_makes_a_second_task_one_too_many() {
        for balancer in [Balancer::V3_4, Balancer::V4_5] {
            let node = GroupFacts::of(8, 8192);
            let after = |nr, room, prefer| {
                let mut g = group(balancer, &node, nr, 0);
                let domain = DomainFacts { prefer_sibling: prefer, ..domain(balancer) };
                let local = GroupStats { has_capacity: room, ..group(balancer, &node, 0, 0) };
                prefer_sibling(&mut g, &domain, &local);
                g.group_type
            };
            assert_eq!(after(2, true, true), GroupType::Overloaded, "{balancer:?}");
            assert_eq!(after(1, true, true), GroupType::Other, "{balancer:?}: a single task stays");
            assert_eq!(after(2, false, true), GroupType::Other, "{balancer:?}: the local group has no room");
            assert_eq!(after(2, true, false), GroupType::Other, "{balancer:?}: not asked for");
        }
    }

    #[test]
    fn since_4_12_a_sibling_counts_as_full_by_the_difference_to_the_local_group() {
        let node = GroupFacts::of(8, 8192);
        let full = |nr, local_nr, siblings_by_difference| {
            let later = AverageLater { siblings_by_difference, ..AverageLater::default() };
            let mut g = group(Balancer::V4_5, &node, nr, 0);
            let local = group(Balancer::V4_5, &node, local_nr, 0);
            prefer_sibling(&mut g, &DomainFacts { later, ..domain(Balancer::V4_5) }, &local);
            g.no_capacity
        };
        assert_eq!([(2, 0), (2, 1), (3, 1)].map(|(nr, local)| full(nr, local, true)), [true, false, true]);
        assert_eq!([(2, 0), (2, 1), (3, 1)].map(|(nr, local)| full(nr, local, false)), [true; 3]);
    }

    #[test]
    fn newidle_of_3_4_judges_capacity_before_the_cap() {
        let mut g = group(Balancer::V3_4, &GroupFacts::of(8, 8192), 2, 0);
        let local = |balancer| group(balancer, &GroupFacts::of(8, 8192), 0, 0);
        prefer_sibling(&mut g, &domain(Balancer::V3_4), &local(Balancer::V3_4));
        assert!(!g.no_capacity, "the cap changes which group may be busiest, not which is full");
        let mut g = group(Balancer::V4_5, &GroupFacts::of(8, 8192), 2, 0);
        prefer_sibling(&mut g, &domain(Balancer::V4_5), &local(Balancer::V4_5));
        assert!(g.no_capacity, "4.5 changes both");
    }
}
