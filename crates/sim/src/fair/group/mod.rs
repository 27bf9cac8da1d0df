//! Task groups (CONFIG_FAIR_GROUP_SCHED, since 2.6.24): a tree of groups, and for each group and CPU a cfs_rq and the
//! entity that represents it in the cfs_rq one level up.
//!
//! The root group's cfs_rqs are the runqueues' own. [`class`](super::class) walks from a task's entity to the root, so
//! a task of the root group takes one step. Here are the parts that exist only below the root: the tree (`tree`), the
//! weight of a group's entity on one CPU (`shares`, pure), the load that groups pass on (`load`), idle groups (`idle`),
//! and quotas of CPU time: the pool (`bandwidth`, pure), its slices and timers (`pool`), and the throttling of queues
//! (`throttle`, up to 6.17) or of tasks (`limbo`, since 6.18). `sessions` makes the groups of autogroup.
//!
//! Shares are in the unit of weights, 1024 at nice 0; *fine* weights are 1024 times as large (`scale_load`, 4.7).
//! Invariant: group g's cfs_rq of CPU c is number g * CPUs + c, and its entity number (g - 1) * CPUs + c.

pub mod bandwidth;
mod idle;
mod later;
mod limbo;
pub mod load;
mod pool;
pub mod sessions;
pub mod shares;
mod throttle;
mod tree;
pub mod window;

use crate::pelt::Removed;
use bandwidth::Bandwidth;
use schedlab_base::{Error, GroupId, Ns, Result, TaskId};
use schedlab_kernel::History;
use schedlab_workload::GroupDecl;
use schedlab_workload::group::DEFAULT_SHARES;
use window::LoadWindow;

/// Refuses settings that a kernel does not have.
///
/// # Errors
/// Names the first group with such a setting.
pub fn check(groups: &[GroupDecl], history: &History) -> Result<()> {
    for group in groups {
        let wants = [
            ("a quota", "3.2", group.quota.is_some() && !history.bandwidth),
            ("a burst", "5.14", group.burst > Ns::ZERO && !history.bandwidth_bursts),
            ("idle = true", "5.15", group.idle && !history.idle_groups),
        ];
        if let Some((what, since, _)) = wants.iter().find(|(_, _, lacks)| *lacks) {
            let text = format!("group '{}' has {what}, which kernels before {since} do not know", group.path);
            return Err(Error::input(text).help("choose a later kernel, or leave it out of [[group]]"));
        }
    }
    Ok(())
}

/// A task group (`struct task_group`).
#[derive(Clone, Debug)]
pub struct TaskGroup {
    /// The group one level up; the root has none.
    pub parent: Option<GroupId>,
    pub shares: u64,
    /// The sum of its cfs_rqs' contributions (`tg->load_avg`; before 3.8 `tg->load_weight`).
    pub load: u64,
    /// The same sum of their average numbers of runnable tasks, times 1024 (`tg->runnable_avg`, 7.3).
    pub runnable: u64,
    /// Its quota of CPU time, if it has one.
    pub bandwidth: Option<Box<Bandwidth>>,
    /// Whether its tasks yield to tasks of other groups (`cpu.idle`).
    pub idle: bool,
    pub path: String,
}

impl TaskGroup {
    /// The root group. Its shares and load are not used.
    pub fn root() -> TaskGroup {
        let (bandwidth, path) = (None, "/".to_owned());
        TaskGroup { parent: None, shares: DEFAULT_SHARES, load: 0, runnable: 0, bandwidth, idle: false, path }
    }
}

/// The part of a cfs_rq that only groups have.
#[derive(Clone, Debug, Default)]
pub struct GroupRq {
    /// Its contribution to its group's load (`tg_load_avg_contrib`).
    pub contribution: u64,
    /// Its contribution to the group's average number of runnable tasks (`tg_runnable_avg_contrib`, 7.3).
    pub runnable_contribution: u64,
    /// When the contribution was last updated, ns.
    pub renewed_ns: Option<u64>,
    /// Its load as the root sees it (`h_load`).
    pub h_load: u64,
    /// The tick in which `h_load` was computed, plus one; 0 if never.
    pub h_load_tick: u64,
    /// Whether a task's load came or went, and the group's entity has yet to follow (`propagate`, 4.10).
    pub propagates: bool,
    /// The runnable time, without weights, that came or went with it (`prop_runnable_sum`).
    pub runnable_sum: i64,
    /// Loads of tasks that woke up elsewhere, which it has yet to subtract (`removed`).
    pub removed: Removed,
    /// Average of its weight over the share window (before 3.8).
    pub window: LoadWindow,
    /// Whether its group has a quota (`runtime_enabled`).
    pub limited: bool,
    pub slice: bandwidth::Slice,
    /// Whether it has no time left and is on its group's list (`throttled`).
    pub throttled: bool,
    /// Since when tasks have waited for that, ns (`throttled_clock`).
    pub throttled_since: Option<u64>,
    /// Number of throttled queues on the way up to the root, including itself (`throttle_count`).
    pub throttle_count: u32,
    /// Whether it was given time, and its CPU will unthrottle it.
    pub freed: bool,
    /// Runnable tasks that were taken off it, one by one (`throttled_limbo_list`, 6.18).
    pub limbo: Vec<TaskId>,
    /// When its load averages stopped, ns.
    pub frozen_at: Option<u64>,
    /// Whether it is on its CPU's list of queues whose averages are aged (`on_list`); matters in kernels that sometimes
    /// fail to put it there.
    pub listed: bool,
    /// How long its averages were stopped before, in total, ns (`throttled_clock_pelt_time`).
    pub frozen_ns: u64,
}
