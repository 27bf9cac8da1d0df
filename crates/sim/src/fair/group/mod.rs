//! Task groups (CONFIG_FAIR_GROUP_SCHED, since 2.6.24): a tree of groups, and for each group and CPU a cfs_rq and the
//! entity that stands for it in the cfs_rq one level up.
//!
//! The root group's cfs_rqs are the runqueues' own. [`class`](super::class) walks from a task's entity to the root, so
//! a task of the root group takes one step. Here are the parts that exist only below the root: the tree (`tree`), the
//! weight of a group's entity on one CPU (`shares`, pure), and the load that groups pass on (`load`).
//!
//! Shares are in the unit of weights, 1024 at nice 0; *fine* weights are 1024 times as large (`scale_load`, 4.7).
//! Invariant: group g's cfs_rq of CPU c is number g * CPUs + c, and its entity number (g - 1) * CPUs + c.

pub mod load;
pub mod shares;
mod tree;
pub mod window;

use schedlab_base::GroupId;
use schedlab_workload::group::DEFAULT_SHARES;
use window::Window;

/// A task group (`struct task_group`).
#[derive(Clone, Debug)]
pub struct TaskGroup {
    /// The group one level up; the root has none.
    pub parent: Option<GroupId>,
    /// Its shares.
    pub shares: u64,
    /// The sum of its cfs_rqs' contributions (`tg->load_avg`; before 3.8 `tg->load_weight`).
    pub load: u64,
}

impl TaskGroup {
    /// The root group. Its shares and load play no part.
    pub fn root() -> TaskGroup {
        TaskGroup { parent: None, shares: DEFAULT_SHARES, load: 0 }
    }
}

/// The part of a cfs_rq that only groups have.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupRq {
    /// Its contribution to its group's load (`tg_load_avg_contrib`).
    pub contribution: u64,
    /// When the contribution was last renewed, ns.
    pub renewed_ns: u64,
    /// Its load as the root sees it (`h_load`), and the tick it was computed in, plus one.
    pub h_load: u64,
    /// See `h_load`; 0: never.
    pub h_load_tick: u64,
    /// A task's load came or went, and the group's entity has yet to follow (`propagate`, 4.10).
    pub propagates: bool,
    /// The runnable time that came with it or went, without weights (`prop_runnable_sum`).
    pub runnable_sum: i64,
    /// Average of its weight over the share window (before 3.8).
    pub window: Window,
}
