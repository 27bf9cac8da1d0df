//! Computes the amount to pull, and its unit.
//!
//! Mirrors `calculate_imbalance` and `adjust_numa_imbalance` of 6.5. If the local group has room, tasks are counted or
//! the room is filled; otherwise load is brought to the domain's average.

use super::classify::SpareType;
use super::stats::GroupStats;
use super::{DomainFacts, NodeTolerance};
use crate::balance::capacity::SCALE;
use crate::balance::era::PassKind;
pub use schedlab_trace::MigrationType;

/// The difference made by one pair of communicating tasks; not worth leaving a node for.
const NUMA_IMBALANCE_MIN: u64 = 2;
/// In some kernels this many tasks stay on their node.
const NUMA_PAIR: u32 = 2;

/// The facts that the amount depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ImbalanceFacts {
    pub domain: DomainFacts,
    pub pass: PassKind,
    /// The balancing CPU's group.
    pub local: GroupStats,
    pub busiest: GroupStats,
    /// Load of the domain per capacity; that of the stored totals after an early end of the scan.
    pub domain_avg_load: u64,
}

/// An amount, its unit, and the rule that gave it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    pub migration: MigrationType,
    /// 0 means that the domain is balanced after all (`lb_nobusyg`).
    pub amount: u64,
    pub how: AmountRule,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum AmountRule {
    /// Any one task: averages mean nothing if affinity decides.
    Imbalanced,
    /// One task of a core that has two.
    SharedCore,
    /// The task that is too large for its CPU.
    Misfit,
    /// The load of a task on a CPU whose time other classes take.
    Disturbed,
    /// As much utilisation as the local group has room for.
    FillRoom,
    /// The local group has no room by utilisation, but this CPU is idle and a task waits there: one task.
    WaitingTask,
    /// Half the difference in tasks.
    EvenTasks,
    /// Half the difference in idle CPUs.
    EvenIdle,
    /// Nothing: a small difference between nodes while few tasks run on the local one.
    NumaTolerated,
    /// Nothing: the local group is full and has as much load for its capacity as the busiest.
    LocalBusier,
    /// Nothing: the local group is full and at the domain's average or above.
    LocalAboveAverage,
    /// Enough load to bring one of the two groups to the domain's average.
    ToAverage,
}

/// The amount to pull from the busiest group.
pub fn calculate(f: &ImbalanceFacts) -> Amount {
    match f.busiest.group_type {
        SpareType::Imbalanced => return tasks(1, AmountRule::Imbalanced),
        SpareType::SharedCore => return tasks(1, AmountRule::SharedCore),
        SpareType::Misfit if !f.domain.asym.marked => {
            let (amount, how) = (f.busiest.kinds.misfit_load, AmountRule::Disturbed);
            return Amount { migration: MigrationType::Load, amount, how };
        }
        SpareType::Misfit => {
            return Amount { migration: MigrationType::Misfit, amount: 1, how: AmountRule::Misfit };
        }
        _ => {}
    }
    if f.local.group_type == SpareType::HasSpare {
        let fills = f.busiest.group_type > SpareType::FullyBusy && !f.domain.share_llc;
        return if fills { fill_room(f) } else { even_out(f) };
    }
    to_average(f)
}

fn tasks(amount: u64, how: AmountRule) -> Amount {
    Amount { migration: MigrationType::Task, amount, how }
}

/// The local group has room, and the overloaded group is in another cache.
fn fill_room(f: &ImbalanceFacts) -> Amount {
    let room = f.local.capacity.saturating_sub(f.local.group_util);
    if room == 0 && f.pass != PassKind::Busy {
        return tasks(1, AmountRule::WaitingTask);
    }
    Amount { migration: MigrationType::Util, amount: room, how: AmountRule::FillRoom }
}

/// The local group has room: evens out tasks, or idle CPUs.
fn even_out(f: &ImbalanceFacts) -> Amount {
    let (local, busiest) = (&f.local, &f.busiest);
    let (difference, how) = if busiest.weight == 1 || f.domain.prefer_sibling {
        (sibling_imbalance(&f.domain, f.pass, local, busiest), AmountRule::EvenTasks)
    } else {
        // The kernel's difference has no sign: with fewer idle CPUs here it is huge, not negative. Between nodes, idle
        // CPUs were compared before, so this case does not occur.
        let difference = match f.domain.numa {
            true => local.idle_cpus.saturating_sub(busiest.idle_cpus),
            false => local.idle_cpus.wrapping_sub(busiest.idle_cpus),
        };
        (difference, AmountRule::EvenIdle)
    };
    let difference = u64::from(difference);
    if f.domain.numa && tolerates(f.domain.tolerance, difference, local, busiest) {
        return tasks(0, AmountRule::NumaTolerated);
    }
    tasks(difference / 2, how)
}

/// The excess of tasks in the busiest group; half of it is to move. Since 6.6 a busy CPU takes none of it, and groups
/// with different numbers of cores get tasks in proportion to cores (`sibling_imbalance`).
pub fn sibling_imbalance(
    domain: &DomainFacts,
    pass: PassKind,
    local: &GroupStats,
    busiest: &GroupStats,
) -> u32 {
    let (here, there) = (local.sum_nr_running, busiest.sum_nr_running);
    if domain.later.siblings_by_cores && pass == PassKind::Busy {
        return 0;
    }
    let Some(cores) = domain.cores else { return there.saturating_sub(here) };
    let all = cores.local + cores.busiest;
    let crossed = (cores.local * there).saturating_sub(cores.busiest * here);
    match (2 * crossed + all) / all {
        // An empty group is used.
        0 | 1 if here == 0 && there > 1 => 2,
        imbalance => imbalance,
    }
}

/// Whether an imbalance between nodes is tolerated; half the difference would move.
fn tolerates(rule: NodeTolerance, difference: u64, local: &GroupStats, busiest: &GroupStats) -> bool {
    let few_move = difference / 2 <= NUMA_IMBALANCE_MIN;
    let dst_running = local.sum_nr_running + 1;
    match rule {
        NodeTolerance::Never => false,
        NodeTolerance::Pair => busiest.sum_nr_running <= NUMA_PAIR,
        NodeTolerance::Quarter => busiest.sum_nr_running < busiest.weight / 4 && few_move,
        NodeTolerance::Moving(imb_numa_nr) => dst_running <= imb_numa_nr && few_move,
        NodeTolerance::Difference(imb_numa_nr) => {
            dst_running <= imb_numa_nr && difference <= NUMA_IMBALANCE_MIN
        }
    }
}

/// Both groups are overloaded, or the local one would be.
fn to_average(f: &ImbalanceFacts) -> Amount {
    let (busiest, avg) = (f.busiest.avg_load, f.domain_avg_load);
    let load = |amount, how| Amount { migration: MigrationType::Load, amount, how };
    let overloaded = f.local.group_type == SpareType::Overloaded;
    let local = if overloaded { f.local.avg_load } else { f.local.load_per_capacity() };
    if !overloaded && local >= busiest {
        return load(0, AmountRule::LocalBusier);
    }
    let Some(room) = avg.checked_sub(local).filter(|room| *room > 0) else {
        return load(0, AmountRule::LocalAboveAverage);
    };
    // A busiest group may be below the average, if heavier groups are not overloaded. The kernel's difference then
    // wraps to a huge number, so that only the local group limits the amount.
    let give = busiest.checked_sub(avg).map_or(u64::MAX, |excess| excess * f.busiest.capacity);
    load(give.min(room * f.local.capacity) / SCALE, AmountRule::ToAverage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::spare::Cores;
    use crate::balance::testing::{MC, spare_group};
    use SpareType::{FullyBusy, HasSpare, Imbalanced, Overloaded};

    const LLC: DomainFacts =
        DomainFacts { prefer_sibling: false, tolerance: NodeTolerance::Difference(14), ..MC };
    const NODES: DomainFacts = DomainFacts { share_llc: false, numa: true, ..LLC };

    /// A group of `weight` CPUs with `nr` tasks of load and utilisation 512.
    fn group(kind: SpareType, weight: u32, nr: u32) -> GroupStats {
        GroupStats { overload: false, ..spare_group(kind, weight, nr, 512) }
    }
    fn facts(domain: DomainFacts, local: GroupStats, busiest: GroupStats) -> ImbalanceFacts {
        let load = SCALE * (local.group_load + busiest.group_load);
        let domain_avg_load = load / (local.capacity + busiest.capacity);
        ImbalanceFacts { domain, pass: PassKind::Idle, local, busiest, domain_avg_load }
    }
    fn amount(
        domain: DomainFacts,
        local: GroupStats,
        busiest: GroupStats,
    ) -> (MigrationType, u64, AmountRule) {
        let a = calculate(&facts(domain, local, busiest));
        (a.migration, a.amount, a.how)
    }

    #[test]
    fn one_task_when_affinity_decides_whatever_the_local_group() {
        for local in [HasSpare, Overloaded] {
            let got = amount(LLC, group(local, 2, 9), group(Imbalanced, 2, 2));
            assert_eq!(got, (MigrationType::Task, 1, AmountRule::Imbalanced));
        }
    }

    #[test]
    fn half_the_difference_in_tasks_when_siblings_are_preferred_or_groups_are_single_cpus() {
        let tasks = |n| (MigrationType::Task, n, AmountRule::EvenTasks);
        let prefer = DomainFacts { prefer_sibling: true, ..LLC };
        let at = |nr| amount(prefer, group(HasSpare, 2, 0), group(FullyBusy, 2, nr));
        assert_eq!([at(1), at(2), at(3), at(4)], [tasks(0), tasks(1), tasks(1), tasks(2)]);
        assert_eq!(amount(LLC, group(HasSpare, 1, 0), group(FullyBusy, 1, 2)), tasks(1));
        let fewer = amount(prefer, group(HasSpare, 4, 3), group(Overloaded, 2, 2));
        assert_eq!(fewer, tasks(0), "never below none");
    }

    #[test]
    fn half_the_difference_in_idle_cpus_otherwise() {
        let idle = |n| (MigrationType::Task, n, AmountRule::EvenIdle);
        let at = |nr| amount(LLC, group(HasSpare, 8, 1), group(HasSpare, 8, nr));
        assert_eq!([at(2), at(3), at(6)], [idle(0), idle(1), idle(2)]);
        // Two idle CPUs here and seven there: -5 of 32 bits, halved.
        assert_eq!(amount(LLC, group(HasSpare, 8, 6), group(HasSpare, 8, 1)), idle(2_147_483_645));
        let nodes = amount(NODES, group(HasSpare, 8, 6), group(HasSpare, 8, 1));
        assert_eq!(nodes.1, 0, "no such group is left between nodes");
    }

    #[test]
    fn room_is_filled_from_another_caches_overload() {
        let nodes = |kind| amount(NODES, group(HasSpare, 8, 5), group(kind, 8, 40));
        assert_eq!(nodes(Overloaded), (MigrationType::Util, 8 * 1024 - 5 * 512, AmountRule::FillRoom));
        assert_eq!(nodes(FullyBusy).0, MigrationType::Task, "not from one that is just full");
        let inside = amount(LLC, group(HasSpare, 8, 5), group(Overloaded, 8, 40));
        assert_eq!(inside, (MigrationType::Task, 1, AmountRule::EvenIdle), "nor inside a cache");
    }

    #[test]
    fn without_room_by_utilisation_an_idle_cpu_takes_the_task_that_waits() {
        let mut local = group(HasSpare, 8, 5);
        local.group_util = 8 * 1024;
        let mut f = facts(NODES, local, group(Overloaded, 8, 40));
        assert_eq!(calculate(&f), tasks(1, AmountRule::WaitingTask));
        f.pass = PassKind::Busy;
        assert_eq!(calculate(&f).amount, 0, "a busy one does not");
        f.local.group_util = 8 * 1024 + 1;
        assert_eq!(calculate(&f).amount, 0, "nor does more than full wrap");
        f.local.group_util = 8 * 1024 - 1;
        assert_eq!(
            calculate(&f),
            Amount { migration: MigrationType::Util, amount: 1, how: AmountRule::FillRoom }
        );
    }

    #[test]
    fn two_nodes_tolerate_a_pair_of_tasks_while_few_run_here() {
        // D001's machine: 14 at NUMA, so a difference of two is tolerated with 13 tasks here, but not with 14.
        let nodes = |here, there| amount(NODES, group(HasSpare, 112, here), group(HasSpare, 112, there));
        assert_eq!(nodes(13, 15), (MigrationType::Task, 0, AmountRule::NumaTolerated));
        assert_eq!(nodes(14, 16), (MigrationType::Task, 1, AmountRule::EvenIdle));
        assert_eq!(nodes(13, 16), (MigrationType::Task, 1, AmountRule::EvenIdle), "three are too many");
        assert_eq!(
            nodes(0, 4),
            (MigrationType::Task, 2, AmountRule::EvenIdle),
            "compared before it is halved"
        );
        let one_node = DomainFacts { numa: false, ..NODES };
        let got = amount(one_node, group(HasSpare, 112, 13), group(HasSpare, 112, 15));
        assert_eq!(got, (MigrationType::Task, 1, AmountRule::EvenIdle));
    }

    #[test]
    fn before_5_11_two_tasks_stay_on_their_node_and_three_do_not() {
        let at = |tolerance, nr| {
            let nodes = DomainFacts { tolerance, ..NODES };
            amount(nodes, group(HasSpare, 8, 0), group(HasSpare, 8, nr)).1
        };
        use NodeTolerance::{Never, Pair};
        assert_eq!([at(Pair, 2), at(Never, 2), at(Pair, 3)], [0, 1, 1]);
    }

    #[test]
    fn from_5_11_to_5_19_the_tasks_to_move_count_and_not_the_difference() {
        let at = |version: &str, (here, there)| {
            let history = schedlab_kernel::History::of(schedlab_base::Version::parse(version).unwrap());
            let nodes = DomainFacts { tolerance: NodeTolerance::of(&history, 8), ..NODES };
            amount(nodes, group(HasSpare, 32, here), group(HasSpare, 32, there)).1
        };
        // Five more would move two: tolerated while the busiest has fewer tasks than a quarter of its 32 CPUs.
        assert_eq!([at("5.15", (2, 7)), at("5.15", (3, 8)), at("5.15", (0, 6))], [0, 2, 3]);
        // Eight tasks on the local node, including the one more.
        assert_eq!([at("5.19", (3, 8)), at("5.19", (7, 12)), at("5.19", (8, 13))], [0, 0, 2]);
        assert_eq!([at("6.0", (3, 8)), at("6.0", (3, 5))], [2, 0], "the difference itself");
    }

    #[test]
    fn since_6_6_a_busy_cpu_takes_no_task_to_even_out_siblings_of_equal_size() {
        let at = |siblings_by_cores, pass| {
            let later = crate::balance::spare::SpareLater { siblings_by_cores, ..MC.later };
            let domain = DomainFacts { later, prefer_sibling: true, ..LLC };
            sibling_imbalance(&domain, pass, &group(HasSpare, 2, 0), &group(FullyBusy, 2, 2))
        };
        assert_eq!(
            [at(true, PassKind::Busy), at(true, PassKind::Idle), at(false, PassKind::Busy)],
            [0, 2, 2]
        );
    }

    #[test]
    fn overloaded_groups_level_to_the_average() {
        // 12 and 28 tasks of 512 on 4 CPUs each: averages 1536 and 3584 around 2560.
        let got = amount(LLC, group(Overloaded, 4, 12), group(Overloaded, 4, 28));
        assert_eq!(got, (MigrationType::Load, 4096, AmountRule::ToAverage));
        // The smaller limit counts: (2000 - 1024) * 2 here, (3584 - 3000) * 4 there.
        let mut f = facts(LLC, group(Overloaded, 2, 4), group(Overloaded, 4, 28));
        f.domain_avg_load = 2000;
        assert_eq!(calculate(&f).amount, 1952);
        f.domain_avg_load = 3000;
        assert_eq!(calculate(&f).amount, 2336);
    }

    #[test]
    fn a_full_local_group_gets_its_average_late_and_may_be_the_heavier() {
        let local = GroupStats { group_load: 9000, ..group(FullyBusy, 2, 2) };
        let mut f = facts(LLC, local, group(Overloaded, 2, 6));
        f.busiest.avg_load = 4501;
        f.domain_avg_load = 4501;
        let how = |f: &ImbalanceFacts| (calculate(f).amount, calculate(f).how);
        assert_eq!(
            how(&f),
            (0, AmountRule::ToAverage),
            "one more than 4500 is, but the busiest gives nothing"
        );
        f.busiest.avg_load = 4500;
        assert_eq!(how(&f), (0, AmountRule::LocalBusier));
        f.busiest.avg_load = 5000;
        f.domain_avg_load = 4500;
        assert_eq!(how(&f), (0, AmountRule::LocalAboveAverage));
        f.domain_avg_load = 4510;
        assert_eq!(how(&f), (20, AmountRule::ToAverage), "10 each on two CPUs");
    }

    #[test]
    fn two_groups_just_full_have_no_averages_and_nothing_moves() {
        let got = amount(LLC, group(FullyBusy, 2, 2), group(FullyBusy, 2, 4));
        assert_eq!(got, (MigrationType::Load, 0, AmountRule::LocalBusier));
    }

    #[test]
    fn groups_of_unlike_numbers_of_cores_get_tasks_by_cores_since_6_6() {
        let by = |cores, pass, here: u32, there: u32| {
            let later = crate::balance::spare::SpareLater { siblings_by_cores: true, ..LLC.later };
            let domain = DomainFacts { cores, later, ..LLC };
            let (local, busiest) = (group(HasSpare, 4, here), group(FullyBusy, 2, there));
            sibling_imbalance(&domain, pass, &local, &busiest)
        };
        let two_of_six = Some(Cores { busiest: 2, local: 4 });
        assert_eq!(by(None, PassKind::Idle, 3, 3), 0);
        assert_eq!(by(two_of_six, PassKind::Idle, 3, 3), 3, "two tasks on two cores, and four on four");
        assert_eq!(by(two_of_six, PassKind::Busy, 3, 3), 0);
        assert_eq!(by(two_of_six, PassKind::Idle, 4, 2), 1, "in proportion");
        assert_eq!(
            by(Some(Cores { busiest: 4, local: 2 }), PassKind::Idle, 0, 2),
            2,
            "an empty group is used"
        );
    }

    #[test]
    fn a_busiest_group_below_the_average_sets_no_limit() {
        let mut f = facts(LLC, group(Overloaded, 2, 8), group(Overloaded, 2, 10));
        f.domain_avg_load = 2600;
        assert!(f.busiest.avg_load < 2600);
        assert_eq!(calculate(&f).amount, (2600 - 2048) * 2);
    }
}
