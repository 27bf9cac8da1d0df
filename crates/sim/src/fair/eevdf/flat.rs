//! Flat picking (since 7.3; read in 7.3.4): every task competes on the timeline of its CPU's root queue, with a weight
//! that its groups divide.
//!
//! A group's entity is on its queue only for loads, counts and quotas. A task's entity is on the queue of its group for
//! the same purposes, and on the root queue's timeline to be picked. Its weight there (`h_load`) is its own weight,
//! multiplied for each level by the fraction that the group's entity has of the queue above. It is computed when the
//! task is enqueued, when it is picked and at its ticks; in between it may be out of date. A task of the root group
//! keeps its own weight, so without groups nothing changes.
//!
//! The average on the timeline has fine weights, as virtual time has. Invariant: the root's timeline holds every queued
//! task of the CPU except the running one; other timelines are empty.

use crate::fair::entity::EntityId;
use crate::fair::group::shares::FINE;
use crate::fair::runqueue::CfsRqId;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::policy::NICE_0_WEIGHT;

/// The smallest weight on the timeline (`MIN_SHARES`).
const LEAST: u64 = 2;

impl System<'_> {
    /// Whether tasks of all groups compete on one timeline.
    #[inline]
    pub(in crate::fair) fn is_flat(&self) -> bool {
        self.fixed.history.flat_pick
    }
    /// The queue on whose timeline the entities of `queue` compete.
    #[inline]
    pub(in crate::fair) fn line(&self, queue: CfsRqId) -> CfsRqId {
        if self.is_flat() { self.root(self.fair.queues[queue].cpu) } else { queue }
    }
    /// The running entity of a timeline. On a flat timeline it is the task's, reached through its groups' current
    /// entities.
    #[inline]
    pub(in crate::fair) fn line_curr(&self, line: CfsRqId) -> Option<EntityId> {
        let mut curr = self.fair.queues[line].curr?;
        if self.is_flat() {
            while let Some(below) = self.fair.entities[curr].my_q {
                curr = self.fair.queues[below].curr?;
            }
        }
        Some(curr)
    }
    /// Entities on a timeline, including the running one.
    #[inline]
    pub(super) fn nr_on_line(&self, line: CfsRqId) -> u32 {
        let q = &self.fair.queues[line];
        if self.is_flat() { q.h_nr_queued } else { q.nr_running }
    }
    /// Whether a task's weight on the timeline is divided by groups.
    #[inline]
    pub(in crate::fair) fn is_divided(&self, entity: EntityId) -> bool {
        self.is_flat() && self.fair.entities[entity].parent.is_some()
    }
    /// Whether an entity is only used for accounting: a group's, if tasks compete by themselves.
    #[inline]
    pub(super) fn only_accounts(&self, entity: EntityId) -> bool {
        self.is_flat() && self.fair.entities[entity].my_q.is_some()
    }

    /// Charges the running task of a CPU, and the entities of its groups (`update_curr_eevdf`, `update_curr`).
    pub(super) fn flat_update_curr(&mut self, cpu: CpuId) {
        let root = self.root(cpu);
        let (mut level, mut charged) = (Some(root), false);
        while let Some(queue) = level {
            if self.charge(queue).is_some() {
                self.account_quota(queue);
                charged = true;
            }
            level = self.fair.queues[queue].curr.and_then(|curr| self.fair.entities[curr].my_q);
        }
        if charged {
            self.check_slice(root);
        }
    }

    /// The fine weight of a task among all tasks of its CPU, by the weights of its groups (`__calc_prop_weight`).
    fn divided_weight(&self, entity: EntityId) -> u64 {
        let (mut fine, mut level) = (u128::from(NICE_0_WEIGHT * FINE), Some(entity));
        while let Some(at) = level {
            let e = &self.fair.entities[at];
            let whole = if e.parent.is_some() {
                self.fair.queues[e.cfs_rq].load_fine.max(1)
            } else {
                NICE_0_WEIGHT * FINE
            };
            fine = (fine * u128::from(e.fine_weight) / u128::from(whole)).max(u128::from(LEAST));
            level = e.parent;
        }
        fine as u64
    }

    /// Puts an enqueued task on the timeline, with its current weight (`enqueue_task_fair`).
    pub(super) fn enter_line(&mut self, entity: EntityId, initial: bool) {
        let weight = self.divided_weight(entity);
        self.rescale(entity, weight);
        self.place(entity, initial);
        self.line_up(entity);
    }

    /// Gives a task on no timeline another weight: its distances keep their length in real time (`rescale_entity`).
    fn rescale(&mut self, entity: EntityId, weight: u64) {
        let e = &mut self.fair.entities[entity];
        let old = e.line_fine;
        e.set_line_weight(weight);
        let scaled = |virt: i64| (i128::from(virt) * i128::from(old) / i128::from(weight)) as i64;
        e.vlag = scaled(e.vlag);
        if e.rel_deadline {
            e.deadline = scaled(e.deadline);
        }
    }

    /// Gives a task on the timeline its current weight; lag, deadline and protection keep their length in real time
    /// (`reweight_eevdf`).
    pub(super) fn divide_weight(&mut self, entity: EntityId) {
        let weight = self.divided_weight(entity);
        let e = &self.fair.entities[entity];
        let (old, line) = (e.line_fine, self.line(e.cfs_rq));
        if old == weight || !e.on_rq {
            return;
        }
        let scaled = |virt: i64| (i128::from(virt) * i128::from(old) / i128::from(weight)) as i64;
        let (time, lag, waits) =
            (self.average(line).time(), self.lag_of(entity), self.line_curr(line) != Some(entity));
        if waits {
            let deadline = self.fair.entities[entity].deadline;
            self.fair.queues[line].timeline.remove(entity, deadline);
        }
        let e = &mut self.fair.entities[entity];
        let protected = !waits && e.vruntime < e.vprot;
        e.set_line_weight(weight);
        e.vlag = scaled(lag);
        e.deadline = time + scaled(e.deadline - time);
        if protected {
            e.vprot = time + scaled(e.vprot - time);
        }
        e.vruntime = time - e.vlag;
        if waits {
            self.line_up(entity);
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::fair::slope::whole;
    use crate::run::{NewTask, add};
    use crate::system::System;
    use crate::upkeep_tests::{new_hog, with_system};
    use schedlab_base::{CpuId, GroupId, TaskId};
    use schedlab_workload::{GroupDecl, ROOT_GROUP};

    /// Four tasks join a group of double weight, one after another.
    fn four(sys: &mut System<'_>) -> [TaskId; 4] {
        let group =
            GroupDecl { path: "/a".into(), parent: Some(ROOT_GROUP), shares: 2048, ..GroupDecl::root() };
        sys.declare_groups(&[GroupDecl::root(), group]);
        [(); 4].map(|()| {
            let task = add(sys, NewTask { group: GroupId(1), ..new_hog() });
            sys.new_task(CpuId(0), task, CpuId(0));
            task
        })
    }
    fn weights(sys: &System<'_>, tasks: &[TaskId]) -> Vec<u64> {
        tasks.iter().map(|t| whole(sys.entity(*t).line_fine)).collect()
    }

    #[test]
    fn a_group_divides_its_weight_as_tasks_come_and_a_pick_brings_one_up_to_date() {
        with_system("v7.3", |sys| {
            let tasks = four(sys);
            assert_eq!(weights(sys, &tasks), [2048, 1024, 682, 512], "those that wait keep what they had");
            let first = sys.pick_next_task(CpuId(0), None);
            let first = first.and_then(|t| tasks.iter().position(|own| *own == t)).unwrap();
            assert_eq!(weights(sys, &tasks)[first], 512);
        });
        with_system("v6.18", |sys| {
            let tasks = four(sys);
            assert_eq!(weights(sys, &tasks), [1024; 4], "in its group a task has its own weight");
        });
    }

    #[test]
    fn deadlines_are_by_fractions_of_a_weight() {
        with_system("v7.3", |sys| {
            let tasks = four(sys);
            let e = sys.entity(tasks[2]);
            assert_eq!((e.line_weight, e.line_fine), (699_050, 699_050), "in the sums, too");
            let slice = u128::from(e.slice_ns) * (1 << 20) / 699_050;
            assert_eq!((e.deadline - e.vruntime) as u128, slice);
        });
    }

    #[test]
    fn a_queue_contributes_to_its_group_at_once_and_then_once_a_millisecond() {
        with_system("v7.3", |sys| {
            four(sys);
            let queue = sys.group_queue(GroupId(1), CpuId(0));
            assert_eq!((sys.fair.groups[GroupId(1)].load, sys.fair.queues[queue].avg.load_avg), (1024, 4096));
        });
    }

    #[test]
    fn tasks_of_all_groups_are_on_the_roots_timeline() {
        for (version, at_root) in [("v7.3", 4), ("v6.18", 1)] {
            with_system(version, |sys| {
                let tasks = four(sys);
                let root = sys.root(CpuId(0));
                assert_eq!(sys.fair.queues[root].timeline.queued().count(), at_root, "{version}");
                let own = sys.entity(tasks[0]).cfs_rq;
                assert_eq!(
                    (sys.fair.queues[own].nr_running, sys.fair.queues[root].h_nr_queued),
                    (4, 4),
                    "{version}"
                );
            });
        }
    }
}
