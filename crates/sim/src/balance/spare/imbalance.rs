//! How much to pull, and of what.
//!
//! Mirrors `calculate_imbalance` and `adjust_numa_imbalance` of 6.5. With room here, tasks are counted or room is filled;
//! without, load is levelled to the domain's average.

use super::super::capacity::SCALE;
use super::super::classify::SpareType;
use super::super::era::Pass;
use super::DomainFacts;
use super::stats::GroupStats;

/// A difference in tasks (before it is halved) that one pair of communicating tasks makes: not worth leaving a node for.
const NUMA_IMBALANCE_MIN: u64 = 2;

/// What an amount counts (`enum migration_type`).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum MigrationType {
    /// Load averages.
    Load,
    /// Utilisation.
    Util,
    /// Tasks.
    Task,
}

/// What the amount depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Facts {
    /// The domain.
    pub domain: DomainFacts,
    /// The kind of pass.
    pub pass: Pass,
    /// The balancing CPU's group.
    pub local: GroupStats,
    /// The group pulled from.
    pub busiest: GroupStats,
    /// Load of the domain per capacity; a snapshot's after an early end of the scan.
    pub domain_avg_load: u64,
}

/// How much, and by which rule.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Amount {
    /// What is counted.
    pub migration: MigrationType,
    /// How much of it; 0 means that the domain is balanced after all (`lb_nobusyg`).
    pub amount: u64,
    /// The rule.
    pub how: How,
}

/// The rule an amount came from.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum How {
    /// One task, whichever may move: averages say nothing when affinity decides.
    Imbalanced,
    /// As much utilisation as the local group has room for.
    FillRoom,
    /// No room by utilisation, but this CPU idles and a task waits there: one task.
    WaitingTask,
    /// Half the difference in tasks.
    EvenTasks,
    /// Half the difference in idle CPUs.
    EvenIdle,
    /// Nothing: a small difference between nodes while few tasks run here.
    NumaTolerated,
    /// Nothing: the local group, full, has as much load for its capacity as the busiest.
    LocalBusier,
    /// Nothing: the local group, full, is at the domain's average or above.
    LocalAboveAverage,
    /// Enough load to bring one of both groups to the domain's average.
    ToAverage,
}

/// The amount to pull from the busiest group.
pub fn calculate(f: &Facts) -> Amount {
    if f.busiest.group_type == SpareType::Imbalanced {
        return tasks(1, How::Imbalanced);
    }
    if f.local.group_type == SpareType::HasSpare {
        let fills = f.busiest.group_type > SpareType::FullyBusy && !f.domain.share_llc;
        return if fills { fill_room(f) } else { even_out(f) };
    }
    to_average(f)
}

fn tasks(amount: u64, how: How) -> Amount {
    Amount { migration: MigrationType::Task, amount, how }
}

/// There is room here, and an overloaded group in another cache.
fn fill_room(f: &Facts) -> Amount {
    let room = f.local.capacity.saturating_sub(f.local.group_util);
    if room == 0 && f.pass != Pass::Busy {
        return tasks(1, How::WaitingTask);
    }
    Amount { migration: MigrationType::Util, amount: room, how: How::FillRoom }
}

/// There is room here: even out tasks, or idle CPUs.
fn even_out(f: &Facts) -> Amount {
    let (local, busiest) = (&f.local, &f.busiest);
    let (difference, how) = if busiest.weight == 1 || f.domain.prefer_sibling {
        (busiest.sum_nr_running.saturating_sub(local.sum_nr_running), How::EvenTasks)
    } else {
        (local.idle_cpus.saturating_sub(busiest.idle_cpus), How::EvenIdle)
    };
    let difference = u64::from(difference);
    if f.domain.numa && tolerates(difference, local.sum_nr_running + 1, f.domain.imb_numa_nr) {
        return tasks(0, How::NumaTolerated);
    }
    tasks(difference / 2, how)
}

/// Whether an imbalance between nodes is left alone. `dst_running`: tasks on the local node with one more.
fn tolerates(imbalance: u64, dst_running: u32, imb_numa_nr: u32) -> bool {
    dst_running <= imb_numa_nr && imbalance <= NUMA_IMBALANCE_MIN
}

/// Both groups are overloaded, or the local one would be.
fn to_average(f: &Facts) -> Amount {
    let (busiest, avg) = (f.busiest.avg_load, f.domain_avg_load);
    let load = |amount, how| Amount { migration: MigrationType::Load, amount, how };
    let overloaded = f.local.group_type == SpareType::Overloaded;
    let local = if overloaded { f.local.avg_load } else { f.local.load_per_capacity() };
    if !overloaded && local >= busiest {
        return load(0, How::LocalBusier);
    }
    let Some(room) = avg.checked_sub(local).filter(|room| *room > 0) else {
        return load(0, How::LocalAboveAverage);
    };
    // A busiest group below the average (others, not overloaded, are heavier) wraps to a huge number in the kernel, so
    // that only the local side limits.
    let give = busiest.checked_sub(avg).map_or(u64::MAX, |excess| excess * f.busiest.capacity);
    load(give.min(room * f.local.capacity) / SCALE, How::ToAverage)
}
