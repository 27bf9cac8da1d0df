//! State: the entities, queues and groups of the fair classes.

use super::group::{GroupRq, TaskGroup};
use super::{CfsRq, CfsRqId, Entity, EntityId};
use schedlab_base::{Arena, CpuId, GroupId};

/// The entities, queues and groups of one kernel.
pub struct FairState {
    pub entities: Arena<EntityId, Entity>,
    /// cfs_rqs; number n is CPU n's root queue.
    pub queues: Arena<CfsRqId, CfsRq>,
    /// Task groups; 0 is the root.
    pub groups: Arena<GroupId, TaskGroup>,
    /// The part of each cfs_rq that only groups have.
    pub(crate) group_rqs: Arena<CfsRqId, GroupRq>,
    /// Whether some group has a quota (`cfs_bandwidth_used`).
    pub any_quota: bool,
    /// Whether some group is idle.
    pub(super) any_idle_group: bool,
    /// `min_vruntime` of each queue at the last check of invariants.
    pub(super) floors: Arena<CfsRqId, i64>,
}

impl FairState {
    /// Empty root queues, and the root group.
    pub fn new(nr_cpus: usize) -> FairState {
        FairState {
            entities: Arena::new(),
            queues: (0..nr_cpus).map(|c| CfsRq::new(CpuId::from(c), None)).collect(),
            groups: std::iter::once(TaskGroup::root()).collect(),
            group_rqs: Arena::filled(GroupRq::default(), nr_cpus),
            any_quota: false,
            any_idle_group: false,
            floors: Arena::filled(i64::MIN, nr_cpus),
        }
    }
}
