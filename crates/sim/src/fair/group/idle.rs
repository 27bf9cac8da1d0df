//! Idle groups (`cpu.idle`, since 5.15; read in 6.1.192 and 6.12.117): a group whose tasks yield to all others.
//!
//! An idle group weighs 3 regardless of its shares. Its entity preempts nothing and is preempted by every entity that
//! is not idle. Above it, its tasks count as SCHED_IDLE ones, so that a CPU without others is as good as idle to a
//! search. Within the group all tasks are equal, as in any other.

use crate::fair::entity::EntityId;
use crate::fair::runqueue::CfsRqId;
use crate::system::System;
use schedlab_base::TaskId;
use schedlab_kernel::Policy;

impl System<'_> {
    /// Whether a queue is an idle group's (`cfs_rq_is_idle`).
    #[inline]
    pub(in crate::fair) fn is_idle_group(&self, queue: CfsRqId) -> bool {
        self.fair.any_idle_group && self.fair.groups[self.group_of(queue)].idle
    }

    /// Whether an entity is an idle group's or a SCHED_IDLE task's (`se_is_idle`).
    #[inline]
    pub(in crate::fair) fn is_idle_entity(&self, entity: EntityId) -> bool {
        match (self.fair.entities[entity].my_q, self.fair.entities[entity].task) {
            (Some(below), _) => self.is_idle_group(below),
            (None, task) => task.is_some_and(|t| self.tasks[t].attr.policy == Policy::Idle),
        }
    }

    /// 1 if a task counts as SCHED_IDLE on its CPU, by its policy or by a group that it is in, else 0.
    pub(in crate::fair) fn idle_at_root(&self, task: TaskId) -> u32 {
        let mut idle = self.counts_as_sched_idle(task);
        let mut level = self.entity(task).parent;
        while let Some(owner) = level.filter(|_| idle == 0) {
            idle = u32::from(self.is_idle_entity(owner));
            level = self.fair.entities[owner].parent;
        }
        idle
    }

    /// Whether a wakee of one group preempts a running task of another, or must not, because exactly one of the two is
    /// idle. `c` and `w` share a queue.
    pub(in crate::fair) fn by_idleness(&self, c: EntityId, w: EntityId) -> Option<bool> {
        if !self.fair.any_idle_group {
            return None;
        }
        let (c, w) = (self.is_idle_entity(c), self.is_idle_entity(w));
        (c != w).then_some(c)
    }

    /// A queued task starts or stops to count as SCHED_IDLE. The counts change up to the first idle group, and the
    /// CPU's too if there is none on the way. Returns whether the CPU's count changed.
    pub(crate) fn recount_idle(&mut self, task: TaskId, before: u32, after: u32) -> bool {
        let mut level = Some(self.tasks[task].entity);
        while let Some(entity) = level {
            let queue = self.fair.entities[entity].cfs_rq;
            let q = &mut self.fair.queues[queue];
            q.h_nr_idle = q.h_nr_idle + after - before;
            if self.is_idle_group(queue) || self.ends_counts(queue) {
                return false;
            }
            level = self.fair.entities[entity].parent;
        }
        true
    }
}
