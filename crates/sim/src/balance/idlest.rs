//! The slow path for a forked or exec'd task: the domain to start in, the group in it, and the next domain down.
//!
//! Mirrors the slow path of `select_task_rq_fair`: `find_idlest_group` of 3.4 and 4.5 (lowest average load) and of 5.5
//! and later (group types, then idle CPUs; read in 6.1). The caller reads CPUs in ring order and passes them in; it
//! skips groups in which the task may not run. [`super::idlest_cpu`] chooses the CPU within the group. Not modelled:
//! preferred NUMA nodes, 3.4's SD_PREFER_LOCAL and power-saving detours (off on x86 by default).

use super::capacity::SCALE;
use super::spare::classify::{SpareFacts, SpareType, since_5_5};
use super::spare::stats::load_per_capacity;
use schedlab_kernel::History;

/// The highest rank within a type of group.
const MOST: u64 = (1 << 60) - 1;

/// One domain of a CPU, as the walk sees it; lowest first in a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LevelFacts {
    /// Whether it has SD_BALANCE_FORK or SD_BALANCE_EXEC, depending on the event.
    pub balances: bool,
    /// CPUs in its span.
    pub span_weight: u32,
}

/// The level to start at: the highest that balances. With `to_first_gap` (4.5 and later) the search ends at the first
/// level that does not balance; 3.4 searches all.
pub fn start_level(levels: &[LevelFacts], to_first_gap: bool) -> Option<usize> {
    if to_first_gap {
        levels.iter().take_while(|l| l.balances).count().checked_sub(1)
    } else {
        levels.iter().rposition(|l| l.balances)
    }
}

/// The next level of the chosen CPU, whose domains are `levels`: the highest that balances and is narrower than the
/// level just searched. If the task stays with its CPU, `levels` are the same and the next level is the child.
pub fn next_level(levels: &[LevelFacts], searched_weight: u32) -> Option<usize> {
    let narrower = levels.iter().take_while(|l| l.span_weight < searched_weight).count();
    levels[..narrower].iter().rposition(|l| l.balances)
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GroupChoice {
    /// Try this CPU's own group, one level down.
    Stay(Stay),
    /// This group, by its number for the caller.
    Go(u32),
}

/// Why the local group is chosen.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stay {
    /// There is no other group in which the task may run.
    NoOther,
    /// The best other group is not clearly less loaded.
    NotClearlyLess,
    /// The local group is of a better type (5.5+).
    BetterType,
    /// The best other group has no more idle CPUs (5.5+).
    AsManyIdle,
    /// A NUMA domain tolerates the difference (5.10+).
    NumaTolerated,
}

/// Compares groups by load, as before 4.12.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByLoad {
    sum: u64,
    local: u64,
    best: Option<(u32, u64)>,
}

impl ByLoad {
    /// Adds a CPU of the current group: `source_load` for the local group, `target_load` for others (index
    /// `forkexec_idx`). The bias is the reverse of the balancer's, so the local group looks lighter.
    #[inline]
    pub fn add(&mut self, load: u64) {
        self.sum += load;
    }
    /// Ends a group of this capacity; `local`: it contains the forking CPU.
    pub fn close(&mut self, group: u32, capacity: u64, local: bool) {
        let avg = std::mem::take(&mut self.sum) * SCALE / capacity;
        if local {
            self.local = avg;
        } else if self.best.is_none_or(|(_, least)| avg < least) {
            self.best = Some((group, avg));
        }
    }
    /// The choice. The local group is kept unless its load exceeds the best group's by half of the excess in
    /// `imbalance_pct`. A local group where the task may not run counts as empty.
    pub fn choose(&self, imbalance_pct: u32) -> GroupChoice {
        let factor = 100 + u64::from(imbalance_pct.saturating_sub(100)) / 2;
        match self.best {
            None => GroupChoice::Stay(Stay::NoOther),
            Some((_, least)) if 100 * self.local < factor * least => GroupChoice::Stay(Stay::NotClearlyLess),
            Some((group, _)) => GroupChoice::Go(group),
        }
    }
}

/// Compares groups by the room of their emptiest CPU, as kernels from 4.10 to 5.4 do at exec before they compare loads.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ByRoom {
    now: u64,
    local: u64,
    most: Option<(u32, u64)>,
}

impl ByRoom {
    /// Adds a CPU of the current group; `room`: its capacity minus its utilisation without the task.
    #[inline]
    pub fn add(&mut self, room: u64) {
        self.now = self.now.max(room);
    }
    /// Ends a group; `local`: it contains the task's CPU.
    pub fn close(&mut self, group: u32, local: bool) {
        let room = std::mem::take(&mut self.now);
        if local {
            self.local = room;
        } else if self.most.is_none_or(|(_, most)| room > most) {
            self.most = Some((group, room));
        }
    }
    /// The choice for a task of this utilisation; `None` if no group has room for it, so that loads decide.
    pub fn choose(&self, util: u64, imbalance_pct: u32) -> Option<GroupChoice> {
        let factor = 100 + u64::from(imbalance_pct.saturating_sub(100)) / 2;
        let most = self.most.map_or(0, |(_, most)| most);
        if self.local > util / 2 && factor * self.local > 100 * most {
            return Some(GroupChoice::Stay(Stay::NotClearlyLess));
        }
        self.most.filter(|(_, most)| *most > util / 2).map(|(group, _)| GroupChoice::Go(group))
    }
}

/// The facts about one CPU in 5.5 and later, all without the task itself if that runs there (exec).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SpareSample {
    /// Load (`cpu_load`: PELT).
    pub load: u64,
    pub util: u64,
    pub runnable: u64,
    pub nr_running: u32,
    pub idle: bool,
}

/// The facts about a group that do not change during the search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpareGroup {
    /// Sum of capacities.
    pub capacity: u64,
    pub weight: u32,
    /// The flag set by passes over the level below.
    pub imbalanced: bool,
    /// Whether the task fits none of its CPUs; only computed for domains with SD_ASYM_CPUCAPACITY.
    pub misfit: bool,
    /// The largest capacity of a CPU.
    pub max_capacity: u64,
}

/// The facts about the domain that the choice depends on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SpareDomain {
    /// Percent by which one side must exceed the other.
    pub imbalance_pct: u32,
    /// SD_NUMA.
    pub numa: bool,
    /// When a new task stays on its node while both nodes have room; read if `numa`.
    pub stays: NodeStay,
}

/// When a new task stays on its node although another has more idle CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NodeStay {
    /// While one of the node's CPUs is idle (5.5 to 5.10).
    WhileIdle,
    /// While the node runs fewer tasks (5.11 to 5.19).
    Below(u32),
    /// The same, provided that the other node has at most two more idle CPUs (6.0).
    NearlyAlikeBelow(u32),
}

impl NodeStay {
    /// The rule of a kernel in a domain of this size and `imb_numa_nr`; `allowed`: number of CPUs of the local group
    /// that the task may use.
    pub fn of(history: &History, span_weight: u32, imb_numa_nr: u32, allowed: u32) -> NodeStay {
        match () {
            () if history.node_while_idle => NodeStay::WhileIdle,
            () if history.node_quarter => NodeStay::Below(span_weight / 4),
            () if history.node_by_tasks => NodeStay::Below(imb_numa_nr),
            () => NodeStay::NearlyAlikeBelow(imb_numa_nr.min(allowed)),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct SpareStats {
    kind: SpareType,
    avg_load: u64,
    util: u64,
    nr_running: u32,
    idle_cpus: u32,
    max_capacity: u64,
}

impl SpareStats {
    /// The order of groups as one number: the type, then within it what the type compares. The least is the idlest.
    #[inline]
    fn rank(&self) -> u64 {
        let within = match self.kind {
            SpareType::Overloaded | SpareType::FullyBusy => self.avg_load,
            SpareType::SharedCore | SpareType::Imbalanced => 0,
            SpareType::Misfit => u64::from(u32::MAX) - self.max_capacity,
            SpareType::HasSpare => {
                u64::from((u32::MAX >> 4) - self.idle_cpus) << 32 | self.util.min(MOST >> 28)
            }
        };
        (self.kind as u64) << 60 | within.min(MOST)
    }
}

/// Compares groups by type and idle CPUs, as 5.5 and later do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct BySpare {
    sum: SpareSample,
    idle_cpus: u32,
    local: Option<SpareStats>,
    best: Option<(u32, SpareStats)>,
    /// The best group's rank.
    least: u64,
}

impl BySpare {
    /// Adds a CPU of the present group.
    #[inline]
    pub fn add(&mut self, s: &SpareSample) {
        self.sum.load += s.load;
        self.sum.util += s.util;
        self.sum.runnable += s.runnable;
        self.sum.nr_running += s.nr_running;
        self.idle_cpus += u32::from(s.idle && s.nr_running == 0);
    }

    /// Ends a group and returns its rank; `local`: it contains the forking CPU. The search starts as if it had found an
    /// overloaded group with infinite load; of equal groups the first stays.
    #[inline]
    pub fn close(&mut self, group: u32, facts: &SpareGroup, domain: &SpareDomain, local: bool) -> u64 {
        let sum = std::mem::take(&mut self.sum);
        let kind = since_5_5(&SpareFacts {
            util: sum.util,
            runnable: sum.runnable,
            capacity: facts.capacity,
            nr_running: sum.nr_running,
            weight: facts.weight,
            imbalanced: facts.imbalanced,
            imbalance_pct: domain.imbalance_pct,
            // The placement of a new task has no idle CPU that looks for work.
            shared_core: false,
            misfit: facts.misfit,
        });
        let stats = SpareStats {
            kind,
            avg_load: load_per_capacity(sum.load, facts.capacity),
            util: sum.util,
            nr_running: sum.nr_running,
            idle_cpus: std::mem::take(&mut self.idle_cpus),
            max_capacity: facts.max_capacity,
        };
        let rank = stats.rank();
        if local {
            self.local = Some(stats);
        } else if self.best.is_none() || rank < self.least {
            (self.best, self.least) = (Some((group, stats)), rank);
        }
        rank
    }

    /// The choice. If the task may not run in the local group, it is the best other one.
    pub fn choose(&self, domain: &SpareDomain) -> GroupChoice {
        let (Some((group, best)), local) = (self.best, self.local) else {
            return GroupChoice::Stay(Stay::NoOther);
        };
        let Some(local) = local else { return GroupChoice::Go(group) };
        let stay = match () {
            () if local.kind < best.kind => Some(Stay::BetterType),
            () if local.kind > best.kind => None,
            () => match local.kind {
                SpareType::Overloaded | SpareType::FullyBusy => {
                    is_close(domain, local.avg_load, best.avg_load)
                }
                SpareType::SharedCore | SpareType::Imbalanced => Some(Stay::NotClearlyLess),
                SpareType::Misfit => {
                    (local.max_capacity >= best.max_capacity).then_some(Stay::NotClearlyLess)
                }
                SpareType::HasSpare => has_no_more_idle(domain, &local, &best),
            },
        };
        stay.map_or(GroupChoice::Go(group), GroupChoice::Stay)
    }
}

/// Both groups are full: the other must be less loaded by `imbalance_pct`, and by the same percentage of one task.
fn is_close(domain: &SpareDomain, local: u64, best: u64) -> Option<Stay> {
    let pct = u64::from(domain.imbalance_pct);
    let margin = SCALE * pct.saturating_sub(100) / 100;
    let near = best >= local + margin || 100 * local <= pct * best;
    let other_node = domain.numa && best + margin >= local;
    (near || other_node).then_some(Stay::NotClearlyLess)
}

/// Both groups have room: the other must have more idle CPUs, and by more than a node's tolerance.
fn has_no_more_idle(domain: &SpareDomain, local: &SpareStats, best: &SpareStats) -> Option<Stay> {
    let tolerated = match domain.stays {
        NodeStay::WhileIdle => local.idle_cpus > 0,
        NodeStay::Below(tasks) => local.nr_running < tasks,
        NodeStay::NearlyAlikeBelow(tasks) => {
            local.nr_running < tasks && local.idle_cpus.abs_diff(best.idle_cpus) <= 2
        }
    };
    match () {
        () if domain.numa && tolerated => Some(Stay::NumaTolerated),
        () if local.idle_cpus >= best.idle_cpus => Some(Stay::AsManyIdle),
        () => None,
    }
}

#[cfg(test)]
#[path = "idlest_tests.rs"]
mod tests;
