//! The tree of groups in the arenas: declared once before a run, and a task's way into its group.

use super::{GroupRq, TaskGroup};
use crate::fair::entity::{Entity, EntityId};
use crate::fair::runqueue::{CfsRq, CfsRqId};
use crate::system::System;
use schedlab_base::{CpuId, GroupId, TaskId};
use schedlab_workload::{GroupDecl, ROOT_GROUP};

impl System<'_> {
    /// Declares the groups of a workload, before any task. The first is the root, which is there already.
    pub(crate) fn declare_groups(&mut self, groups: &[GroupDecl]) {
        debug_assert!(self.entities.is_empty(), "groups come before tasks");
        let n = self.nr_cpus();
        for decl in groups.iter().skip(1) {
            let (id, parent) = (GroupId::from(self.groups.len()), decl.parent.unwrap_or(ROOT_GROUP));
            self.groups.push(TaskGroup { parent: Some(parent), shares: decl.shares, load: 0 });
            for cpu in (0..n).map(CpuId::from) {
                let entity = EntityId(self.entities.len() as u32);
                let queue = self.group_queue(id, cpu);
                let above = self.owner_of(parent, cpu);
                self.entities.push(Entity::of_group(queue, self.group_queue(parent, cpu), above));
                self.queues.push(CfsRq::new(cpu, Some(entity)));
                self.group_rqs.push(GroupRq::default());
                self.floors.push(i64::MIN);
            }
        }
    }

    /// A group's cfs_rq of a CPU.
    #[inline]
    pub fn group_queue(&self, group: GroupId, cpu: CpuId) -> CfsRqId {
        CfsRqId(group.0 * self.nr_cpus() as u32 + cpu.0)
    }
    /// The group of a cfs_rq.
    #[inline]
    pub fn group_of(&self, queue: CfsRqId) -> GroupId {
        GroupId(queue.0 / self.nr_cpus() as u32)
    }
    /// The entity that stands for a group on a CPU; the root has none.
    #[inline]
    pub fn owner_of(&self, group: GroupId, cpu: CpuId) -> Option<EntityId> {
        let before = group.0.checked_sub(1)?;
        Some(EntityId(before * self.nr_cpus() as u32 + cpu.0))
    }
    /// A task that is on no queue belongs to `cpu` from now on (`set_task_rq`).
    pub fn set_task_rq(&mut self, task: TaskId, cpu: CpuId) {
        let group = self.tasks[task].group;
        let (queue, owner) = (self.group_queue(group, cpu), self.owner_of(group, cpu));
        let e = &mut self.entities[self.tasks[task].entity];
        (e.cfs_rq, e.parent) = (queue, owner);
    }
    /// The groups below the root, children before their parents.
    pub fn groups_upwards(&self) -> impl Iterator<Item = GroupId> + use<> {
        (1..self.groups.len()).rev().map(GroupId::from)
    }
}
