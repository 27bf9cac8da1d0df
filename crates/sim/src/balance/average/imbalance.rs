//! Computes the amount of load to pull.
//!
//! Mirrors `calculate_imbalance` and `fix_small_imbalance` of 3.4 and 4.5. The amount is in weight (1024 = one nice-0
//! task); averages are per whole CPU of capacity. If the amount is less than one task of the busiest group, a second
//! rule decides between one task's load and the computed amount (which is nothing, or too little to move most tasks).

use super::classify::GroupType;
use super::stats::GroupStats;
use crate::balance::capacity::SCALE;
use crate::balance::era::Balancer;

/// The facts that the amount depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImbalanceFacts {
    /// The generation of rules.
    pub balancer: Balancer,
    /// The load above a group's capacity is scaled by that capacity (4.8).
    pub scales_excess: bool,
    /// The balancing CPU's group.
    pub local: GroupStats,
    /// The group to pull from; it has at least one task.
    pub busiest: GroupStats,
    /// Load of the domain per capacity.
    pub domain_avg_load: u64,
    /// Mean load of a task on the balancing CPU, 0 if it has none; used if its group has no task.
    pub dst_load_per_task: u64,
}

/// An amount, and the rule that gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// Load to pull, in weight.
    pub load: u64,
    pub how: AmountRule,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AmountRule {
    /// Enough to bring both groups to the domain's average.
    ToAverage,
    /// Limited by the busiest group's load above its capacity (before 2.6.32: above one task).
    AboveCapacity,
    /// At least the load of the task that is too large for its CPU (4.20).
    Misfit,
    /// Less than one task, but a task more or less evens the groups out.
    OneTask,
    /// Less than one task, but moving one uses more capacity.
    MoreThroughput,
    /// Less than one task, and moving one would gain nothing: the small amount remains.
    Small,
}

/// The load that counts as one task of a group. The domain's average for a group that affinity keeps uneven, since such
/// a group's own average means little.
pub fn task_load(group: &GroupStats, domain_avg_load: u64) -> u64 {
    match group.group_type {
        GroupType::Imbalanced => group.load_per_task.min(domain_avg_load),
        GroupType::Other | GroupType::Misfit | GroupType::Overloaded => group.load_per_task,
    }
}

/// The amount to pull from the busiest group.
pub fn calculate(f: &ImbalanceFacts) -> Amount {
    let (local, busiest) = (&f.local, &f.busiest);
    let avg = f.domain_avg_load;
    let task = task_load(busiest, avg);
    let nothing_to_even_out = match f.balancer {
        Balancer::V2_6 | Balancer::V3_4 => busiest.avg_load < avg,
        Balancer::V4_5 if busiest.group_type == GroupType::Misfit => false,
        Balancer::V4_5 => busiest.avg_load <= avg || local.avg_load >= avg,
    };
    if nothing_to_even_out {
        return fix_small(f, task, 0);
    }
    if busiest.group_type == GroupType::Misfit {
        // Averages may not show the misfit: at least its load is wanted.
        let give = busiest.avg_load.saturating_sub(avg) * busiest.capacity;
        let take = avg.saturating_sub(local.avg_load) * local.capacity;
        let load = (give.min(take) / SCALE).max(busiest.kinds.misfit_load);
        return if load < task { fix_small(f, task, load) } else { Amount { load, how: AmountRule::Misfit } };
    }
    let excess = busiest.avg_load - avg;
    let cap = above_capacity(f, task);
    let give = excess.min(cap) * busiest.capacity;
    // In a forced balance of 3.4 the local group may be above the average. The kernel's subtraction then wraps to a
    // huge number, so that only the busiest group limits the amount.
    let take = avg.checked_sub(local.avg_load).map_or(u64::MAX, |room| room * local.capacity);
    let load = give.min(take) / SCALE;
    if load < task {
        return fix_small(f, task, load);
    }
    let how = if cap < excess && give < take { AmountRule::AboveCapacity } else { AmountRule::ToAverage };
    Amount { load, how }
}

/// The busiest group's load beyond its capacity, as average load; `u64::MAX` if the rules have no such limit.
fn above_capacity(f: &ImbalanceFacts, task: u64) -> u64 {
    let (local, busiest) = (&f.local, &f.busiest);
    let nr = u64::from(busiest.nr_running);
    match f.balancer {
        Balancer::V2_6 => busiest.avg_load.saturating_sub(task),
        Balancer::V3_4 if busiest.group_type == GroupType::Imbalanced => u64::MAX,
        Balancer::V3_4 => nr.saturating_sub(busiest.slots) * SCALE * SCALE / busiest.capacity,
        // 4.5 subtracts a capacity from a load as if they had the same unit.
        Balancer::V4_5
            if busiest.group_type == GroupType::Overloaded && local.group_type == GroupType::Overloaded =>
        {
            let above = (nr * SCALE).checked_sub(busiest.capacity).filter(|above| *above > 0);
            let scaled = |above: u64| if f.scales_excess { above * SCALE / busiest.capacity } else { above };
            above.map_or(u64::MAX, scaled)
        }
        Balancer::V4_5 => u64::MAX,
    }
}

/// The rule for amounts below one task; the result is `computed` if moving a task does not pay off.
fn fix_small(f: &ImbalanceFacts, task: u64, computed: u64) -> Amount {
    let (local, busiest) = (&f.local, &f.busiest);
    let local_task = if local.nr_running == 0 { f.dst_load_per_task } else { local.load_per_task };
    // If the local tasks are smaller, a difference of one task is enough; otherwise it takes two.
    let times = if local.nr_running > 0 && task > local_task { 1 } else { 2 };
    let scaled_task = task * SCALE / busiest.capacity;
    let evens_out = match f.balancer {
        // Unsigned wrap as in 3.4: a local group far busier than the busiest passes the test.
        Balancer::V2_6 | Balancer::V3_4 => {
            busiest.avg_load.wrapping_sub(local.avg_load).wrapping_add(scaled_task) >= scaled_task * times
        }
        Balancer::V4_5 => busiest.avg_load + scaled_task >= local.avg_load + scaled_task * times,
    };
    if evens_out {
        return Amount { load: task, how: AmountRule::OneTask };
    }
    let used = |g: &GroupStats, task: u64, load: u64| g.capacity * task.min(load);
    let now = (used(busiest, task, busiest.avg_load) + used(local, local_task, local.avg_load)) / SCALE;
    let left = busiest.avg_load.checked_sub(scaled_task).map_or(0, |rest| used(busiest, task, rest));
    let added = (busiest.avg_load * busiest.capacity).min(task * SCALE) / local.capacity;
    let moved = (left + used(local, local_task, local.avg_load + added)) / SCALE;
    if moved > now {
        Amount { load: task, how: AmountRule::MoreThroughput }
    } else {
        Amount { load: computed, how: AmountRule::Small }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Balancer; 2] = [Balancer::V3_4, Balancer::V4_5];

    /// A group of `weight` whole CPUs with `nr` tasks of `task` load each.
    fn group(weight: u32, nr: u32, task: u64, group_type: GroupType) -> GroupStats {
        let capacity = 1024 * u64::from(weight);
        let group_load = u64::from(nr) * task;
        GroupStats {
            group_load,
            avg_load: group_load * SCALE / capacity,
            load_per_task: if nr > 0 { task } else { 0 },
            group_util: 0,
            capacity,
            slots: u64::from(weight),
            nr_running: nr,
            idle_cpus: 0,
            weight,
            has_capacity: false,
            no_capacity: false,
            group_type,
            overload: false,
            kinds: Default::default(),
        }
    }
    fn facts(balancer: Balancer, local: GroupStats, busiest: GroupStats) -> ImbalanceFacts {
        let load = SCALE * (local.group_load + busiest.group_load);
        let domain_avg_load = load / (local.capacity + busiest.capacity);
        ImbalanceFacts {
            balancer,
            scales_excess: false,
            local,
            busiest,
            domain_avg_load,
            dst_load_per_task: 0,
        }
    }
    use GroupType::{Imbalanced, Other, Overloaded};

    #[test]
    fn since_4_8_the_load_above_a_capacity_is_scaled_by_it() {
        let f = facts(Balancer::V4_5, group(4, 5, 1024, Overloaded), group(4, 16, 1024, Overloaded));
        assert_eq!(above_capacity(&f, 1024), 12 * 1024, "as if load and capacity had one unit");
        assert_eq!(above_capacity(&ImbalanceFacts { scales_excess: true, ..f }, 1024), 3 * 1024);
    }

    #[test]
    fn half_the_difference_moves() {
        for b in BOTH {
            let f = facts(b, group(4, 4, 1024, Other), group(4, 12, 1024, Overloaded));
            assert_eq!(calculate(&f), Amount { load: 4096, how: AmountRule::ToAverage }, "{b:?}");
        }
    }

    #[test]
    fn the_local_groups_capacity_limits_the_amount() {
        for b in BOTH {
            // Averages 512 and 3072 around a total of 9 tasks on 5 CPUs; the local group's one CPU takes (average - 0)
            // for itself.
            let f = facts(b, group(1, 0, 1024, Other), group(4, 10, 1024, Overloaded));
            assert_eq!(f.domain_avg_load, 2048);
            assert_eq!(calculate(&f).load, 2048, "{b:?}");
        }
    }

    #[test]
    fn the_busiest_group_keeps_its_capacity_in_3_4() {
        // Five tasks on four CPUs, local group idle: the average would take 2.5, the capacity leaves 1.
        let f = facts(Balancer::V3_4, group(4, 0, 1024, Other), group(4, 5, 1024, Overloaded));
        assert_eq!(calculate(&f), Amount { load: 1024, how: AmountRule::AboveCapacity });
        let free = ImbalanceFacts { balancer: Balancer::V4_5, ..f };
        assert_eq!(calculate(&free).load, 2560, "4.5 spares capacity only when both are overloaded");
        let stuck = ImbalanceFacts { busiest: GroupStats { group_type: Imbalanced, ..f.busiest }, ..f };
        assert_eq!(calculate(&stuck).load, 2560, "an imbalanced group has no such limit");
    }

    #[test]
    fn before_2_6_32_the_busiest_group_keeps_one_task() {
        // Five tasks on four CPUs, local group idle: the average would take 2.5, the limit of the load above one task
        // is 1.
        let f = facts(Balancer::V2_6, group(4, 0, 1024, Other), group(4, 5, 1024, Overloaded));
        assert_eq!(calculate(&f), Amount { load: 1024, how: AmountRule::AboveCapacity });
        let stuck = ImbalanceFacts { busiest: GroupStats { group_type: Imbalanced, ..f.busiest }, ..f };
        assert_eq!(task_load(&stuck.busiest, 640), 640);
        assert_eq!(calculate(&stuck).load, (1280 - 640) * 4, "the domain's average counts as a task");
    }

    #[test]
    fn two_overloaded_groups_of_4_5_count_tasks_against_capacity() {
        // 24 tasks of 900 against 5: the excess over capacity, 24 * 1024 - 4096, does not limit the amount.
        let f = facts(Balancer::V4_5, group(4, 5, 900, Overloaded), group(4, 24, 900, Overloaded));
        let room = f.domain_avg_load - f.local.avg_load;
        assert_eq!(calculate(&f), Amount { load: room * 4, how: AmountRule::ToAverage });
        // Few but heavy tasks: 5 * 1024 - 4096 = 1024 limits an excess of 6144.
        let f = facts(Balancer::V4_5, group(4, 5, 10, Overloaded), group(4, 5, 10240, Overloaded));
        assert!(f.busiest.avg_load - f.domain_avg_load > 1024);
        assert_eq!(above_capacity(&f, 10240), 1024);
        assert_eq!(calculate(&f).how, AmountRule::OneTask, "the rest is less than one such task");
    }

    #[test]
    fn one_task_of_two_moves_to_an_idle_cpu() {
        for b in BOTH {
            let mut busiest = group(1, 2, 1024, Overloaded);
            busiest.slots = 1;
            let f = facts(b, group(1, 0, 1024, Other), busiest);
            assert_eq!(calculate(&f).load, 1024, "{b:?}");
        }
    }

    #[test]
    fn a_single_light_difference_does_not_move_a_task() {
        for b in BOTH {
            // 3 against 2: moving one only swaps the roles.
            let f = facts(b, group(1, 2, 1024, Other), group(1, 3, 1024, Imbalanced));
            assert_eq!(f.domain_avg_load, 2560);
            let a = calculate(&f);
            assert_eq!(
                (a.load, a.how),
                (1024, AmountRule::OneTask),
                "{b:?}: a whole task's difference still counts"
            );
            // 2.5 against 2.2 of unequal tasks: less than a task, and no gain.
            let mut near = f;
            near.busiest.avg_load = 2600;
            near.local.avg_load = 2540;
            near.domain_avg_load = 2570;
            let a = calculate(&near);
            assert_eq!((a.load, a.how), (30, AmountRule::Small), "{b:?}");
        }
    }

    #[test]
    fn smaller_local_tasks_make_one_tasks_difference_enough() {
        for b in BOTH {
            let near = |local_task| {
                let mut f = facts(b, group(1, 2, local_task, Other), group(1, 2, 1024, Imbalanced));
                f.busiest.avg_load = 2048;
                f.local.avg_load = 2040;
                f.domain_avg_load = 2044;
                calculate(&f).how
            };
            assert_eq!(near(1024), AmountRule::Small, "{b:?}");
            assert_eq!(near(1000), AmountRule::OneTask, "{b:?}");
        }
    }

    #[test]
    fn capacity_left_unused_is_a_reason() {
        // The busiest group's CPU has more capacity than its load needs, and the local tasks could use all of theirs.
        for b in BOTH {
            let mut f = facts(b, group(1, 1, 4000, Other), group(1, 1, 4000, Imbalanced));
            f.busiest.avg_load = 5000;
            f.busiest.capacity = 512;
            f.busiest.load_per_task = 3000;
            f.local.avg_load = 1000;
            f.domain_avg_load = 4900;
            // Scaled task is 6000: 5000 + 6000 < 1000 + 12000.
            let a = calculate(&f);
            assert_eq!((a.load, a.how), (3000, AmountRule::MoreThroughput), "{b:?}");
        }
    }

    #[test]
    fn averages_at_the_edge_differ_between_eras() {
        // The busiest group is exactly at the average: 4.5 uses the rule for small amounts; 3.4 computes 0 and then
        // does the same.
        for b in BOTH {
            let mut f = facts(b, group(1, 2, 1024, Other), group(1, 2, 1024, Imbalanced));
            f.domain_avg_load = 2048;
            assert_eq!(calculate(&f), Amount { load: 0, how: AmountRule::Small }, "{b:?}");
        }
    }

    #[test]
    fn in_3_4_only_the_busiest_group_limits_a_forced_balance_above_average() {
        let mut f = facts(Balancer::V3_4, group(1, 3, 1024, Other), group(1, 5, 1024, Imbalanced));
        f.domain_avg_load = 2048;
        // Local 3072 is above 2048: only the busiest group limits the amount, to 5120 - 2048.
        assert_eq!(calculate(&f).load, 3072);
        let f = ImbalanceFacts { balancer: Balancer::V4_5, ..f };
        assert_eq!(calculate(&f).load, 1024, "4.5 moves one task at most");
    }

    #[test]
    fn a_far_busier_local_group_wraps_the_test_of_3_4() {
        let mut f = facts(Balancer::V3_4, group(1, 9, 1024, Other), group(1, 2, 1024, Imbalanced));
        f.domain_avg_load = 4000;
        assert_eq!(calculate(&f).how, AmountRule::OneTask);
        let f = ImbalanceFacts { balancer: Balancer::V4_5, ..f };
        assert_eq!(calculate(&f).how, AmountRule::Small);
    }

    #[test]
    fn an_empty_local_group_uses_the_cpus_own_mean() {
        // Only the throughput rule reads the mean; with a local task size of 0 there is nothing to gain.
        let mut f = facts(Balancer::V4_5, group(1, 0, 1024, Other), group(1, 1, 3000, Imbalanced));
        f.busiest.avg_load = 5000;
        f.busiest.capacity = 512;
        f.local.avg_load = 1000;
        f.domain_avg_load = 4900;
        assert_eq!(calculate(&f).how, AmountRule::Small);
        assert_eq!(
            calculate(&ImbalanceFacts { dst_load_per_task: 4000, ..f }).how,
            AmountRule::MoreThroughput
        );
    }
}
