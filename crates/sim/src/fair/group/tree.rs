//! The tree of groups in the arenas, declared once before a run; and how a task gets into its group.

use super::bandwidth::Bandwidth;
use super::{GroupRq, TaskGroup};
use crate::fair::entity::{Entity, EntityId};
use crate::fair::runqueue::{CfsRq, CfsRqId};
use crate::system::System;
use schedlab_base::{CpuId, GroupId, TaskId};
use schedlab_board::BEGINS_AT;
use schedlab_workload::{GroupDecl, ROOT_GROUP};

/// The shares of an idle group (`WEIGHT_IDLEPRIO`).
const WEIGHT_OF_IDLE: u64 = 3;

impl System<'_> {
    /// Declares the groups of a workload, before any task. The first one is the root, which already exists.
    pub(crate) fn declare_groups(&mut self, groups: &[GroupDecl]) {
        debug_assert!(self.fair.entities.is_empty(), "groups come before tasks");
        let n = self.nr_cpus();
        for decl in groups.iter().skip(1) {
            let (id, parent) = (GroupId::from(self.fair.groups.len()), decl.parent.unwrap_or(ROOT_GROUP));
            let shares = if decl.idle { WEIGHT_OF_IDLE } else { decl.shares };
            let bandwidth = Bandwidth::of(decl, self.phase_ns(id, decl)).map(Box::new);
            let (idle, path) = (decl.idle, decl.path.clone());
            let limited = bandwidth.is_some();
            self.fair.groups.push(TaskGroup {
                parent: Some(parent),
                shares,
                load: 0,
                runnable: 0,
                bandwidth,
                idle,
                path,
            });
            for cpu in (0..n).map(CpuId::from) {
                let entity = EntityId(self.fair.entities.len() as u32);
                let queue = self.group_queue(id, cpu);
                let above = self.owner_of(parent, cpu);
                let on = self.group_queue(parent, cpu);
                self.fair.entities.push(Entity::of_group(queue, on, above, &self.fixed.history));
                self.fair.queues.push(CfsRq::new(cpu, Some(entity)));
                self.fair.group_rqs.push(GroupRq { limited, ..GroupRq::default() });
                self.fair.floors.push(i64::MIN);
            }
            if limited {
                self.fair.any_quota = true;
                self.start_period_of(id);
            }
            self.fair.any_idle_group |= decl.idle;
        }
    }

    /// The shift of the periods of a group's quota, ns. Before kernels draw it (6.4), periods end at multiples of their
    /// length by the kernel's clock (`hrtimer_forward_now`), of which time 0 is [`BEGINS_AT`].
    pub(super) fn phase_ns(&self, group: GroupId, decl: &GroupDecl) -> u64 {
        if self.fixed.history.bandwidth_out_of_step && self.fixed.dice {
            self.fixed.stream.purpose("bandwidth").number(group.0.into()).below(0, decl.period.0)
        } else {
            decl.period.0 - BEGINS_AT % decl.period.0
        }
    }

    #[inline]
    pub fn group_queue(&self, group: GroupId, cpu: CpuId) -> CfsRqId {
        CfsRqId(group.0 * self.nr_cpus() as u32 + cpu.0)
    }
    #[inline]
    pub fn group_of(&self, queue: CfsRqId) -> GroupId {
        GroupId(queue.0 / self.nr_cpus() as u32)
    }
    /// The entity that represents a group on a CPU; the root has none.
    #[inline]
    pub fn owner_of(&self, group: GroupId, cpu: CpuId) -> Option<EntityId> {
        let before = group.0.checked_sub(1)?;
        Some(EntityId(before * self.nr_cpus() as u32 + cpu.0))
    }
    /// A task on no queue belongs to `cpu` from now on (`set_task_rq`).
    pub fn set_task_rq(&mut self, task: TaskId, cpu: CpuId) {
        let group = self.tasks[task].group;
        let (queue, owner) = (self.group_queue(group, cpu), self.owner_of(group, cpu));
        let e = &mut self.fair.entities[self.tasks[task].entity];
        (e.cfs_rq, e.parent) = (queue, owner);
    }
    /// Whether a group is `top`, or below it.
    pub fn is_within(&self, group: GroupId, top: GroupId) -> bool {
        let mut level = Some(group);
        while let Some(at) = level.filter(|at| *at != top) {
            level = self.fair.groups[at].parent;
        }
        level.is_some()
    }
    /// Whether two tasks of a group are queued on `cpu` while another CPU of its cache has a shorter queue: the
    /// disadvantage of a wakeup that considers the group instead of the queue.
    pub fn is_crowded(&self, cpu: CpuId) -> bool {
        let own = self.rqs.nr_running(cpu);
        let together = |g: usize| {
            let q = &self.fair.queues[self.group_queue(GroupId::from(g), cpu)];
            q.nr_running > 1 && q.nr_running == q.h_nr_running
        };
        let shorter = || {
            let of = self.fixed.machine.topology.cpu(cpu).llc;
            let near = |c: &CpuId| self.fixed.machine.topology.cpu(*c).llc == of;
            self.cpus.ids().filter(near).any(|c| self.rqs.nr_running(c) < own)
        };
        own > 1 && (1..self.fair.groups.len()).any(together) && shorter()
    }
    /// The groups below the root, children before their parents.
    pub fn groups_upwards(&self) -> impl Iterator<Item = GroupId> + use<> {
        (1..self.fair.groups.len()).rev().map(GroupId::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep_tests::with_system;
    use schedlab_base::Ns;

    #[test]
    fn periods_of_quotas_end_at_multiples_of_the_kernels_clock_before_6_4() {
        // A run begins at 81.92 s: a period of 100 ms ends 80 ms later, one of 10 ms at multiples of 10.
        for (period, ends) in [(Ns::ms(100), 80_000_000), (Ns::ms(10), 0)] {
            let decl = GroupDecl { quota: Some(Ns::ms(5)), period, ..GroupDecl::root() };
            for profile in ["v4.5", "v5.10", "v6.1"] {
                with_system(profile, |sys| {
                    let phase_ns = sys.phase_ns(GroupId(1), &decl);
                    assert_eq!(phase_ns % period.0, ends, "{profile}");
                });
            }
        }
    }
}
