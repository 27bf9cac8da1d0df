//! Load averages and utilisation estimates of entities and queues, updated as tasks come, go and change (PELT,
//! `attach_entity_load_avg`, `util_est_enqueue`; the arithmetic is in [`crate::pelt`] and [`crate::util_est`]).
//!
//! Invariant: a queue's average is the sum over its attached entities, including sleeping ones; a task that moves takes
//! its own load with it.

use super::entity::EntityId;
use super::runqueue::CfsRqId;
use crate::balance::capacity::SCALE;
use crate::pelt::{FirstUtilFacts, Pelt};
use crate::system::System;
use crate::task::TaskState;
use crate::util_est::{SleepFacts, cpu_util};
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::Feature;

impl System<'_> {
    /// Whether this kernel tracks load per entity (PELT); otherwise a load is a sum of weights.
    #[inline]
    pub fn tracks_load(&self) -> bool {
        self.fixed.history.per_entity_load
    }
    /// Whether the load averages of runnable entities are summed separately.
    #[inline]
    pub(super) fn sums_runnable(&self) -> bool {
        self.fixed.history.runnable_load
    }

    /// Updates the load averages of an entity and its queue to this instant (`update_load_avg` with `UPDATE_TG`).
    pub(super) fn update_load(&mut self, entity: EntityId) {
        self.age_load(entity, self.fair.entities[entity].cfs_rq, true);
    }

    /// The same without updating the queue's contribution to its group (in profiles since 5.10).
    pub(super) fn update_load_here(&mut self, entity: EntityId) {
        self.age_load(entity, self.fair.entities[entity].cfs_rq, false);
    }

    /// The same when a delayed task is woken. 7.3.4 ages the root's averages instead of its group's, so the group
    /// counts as runnable all the time.
    pub(super) fn update_woken_load(&mut self, entity: EntityId) {
        let own = self.fair.entities[entity].cfs_rq;
        let queue = if self.fixed.history.requeue_ages_root { self.line(own) } else { own };
        self.age_load(entity, queue, false);
    }

    /// Updates an entity and `queue`, which is its own or a flat timeline's, to this instant.
    fn age_load(&mut self, entity: EntityId, queue: CfsRqId, contributes: bool) {
        if !self.tracks_load() {
            return self.contribute_weight(queue, false);
        }
        let e = &self.fair.entities[entity];
        let running = self.fair.queues[queue].curr == Some(entity);
        let weight = if e.on_rq { e.weight } else { 0 };
        // A task is runnable or not; a group counts as many runnable tasks as its queue has.
        let runnable = match e.my_q {
            None => u64::from(e.on_rq && !e.delayed),
            Some(below) => u64::from(self.fair.queues[below].h_nr_running),
        };
        let now = self.pelt_clock(queue);
        // A task between two queues keeps the load that it took along: its time on neither counts.
        let between = e.task.is_some_and(|t| self.tasks[t].detached);
        let share = if running { self.util_share(self.fair.queues[queue].cpu) } else { 0 };
        let e = &mut self.fair.entities[entity];
        if !between && e.avg.update_by(now, weight, runnable, share) {
            e.est.unchanged = false;
        }
        if !self.fixed.history.contributes_when_asked {
            self.update_queue_load(queue);
            self.propagate(entity);
            return;
        }
        let aged = self.age_queue(queue);
        let followed = self.propagate(entity);
        // A load that is about to arrive contributes once it is there.
        if contributes && !between && (aged || followed) {
            self.contribute(queue);
        }
    }

    /// Updates a queue's averages to this instant (`update_blocked_averages` for one queue).
    pub fn update_queue_load(&mut self, queue: CfsRqId) {
        if self.tracks_load() && self.age_queue(queue) {
            self.contribute(queue);
        }
    }

    /// The same without its contribution (`update_cfs_rq_load_avg`). Returns whether its averages have changed.
    fn age_queue(&mut self, queue: CfsRqId) -> bool {
        let (sums, now) = (self.sums_runnable(), self.pelt_clock(queue));
        let gone = self.take_removed(queue);
        let share = self.util_share(self.fair.queues[queue].cpu);
        let q = &mut self.fair.queues[queue];
        let share = if q.curr.is_some() { share } else { 0 };
        let ended = q.avg.update_by(now, q.load_weight(), u64::from(q.h_nr_running), share);
        if sums {
            q.runnable.update_by(now, q.load_weight(), u64::from(q.h_nr_running), share);
        }
        ended || gone
    }

    /// Subtracts from a queue the loads that woken tasks have left behind. Returns whether there were any.
    #[inline]
    fn take_removed(&mut self, queue: CfsRqId) -> bool {
        let own = &mut self.fair.group_rqs[queue];
        if own.removed.tasks == 0 {
            return false;
        }
        let gone = std::mem::take(&mut own.removed);
        let runnable = self.fair.queues[queue].avg.remove(&gone, self.fixed.sum_rule);
        if self.fair.queues[queue].owner.is_some() && self.fixed.history.group_load_follows {
            own.propagates = true;
            own.runnable_sum -= runnable as i64;
        }
        true
    }

    /// Updates the averages of all cfs_rqs of a CPU to this instant, children before their parents
    /// (`update_blocked_averages`; before 3.8 `update_shares`).
    pub fn update_blocked(&mut self, cpu: CpuId) {
        for group in self.groups_upwards() {
            let queue = self.group_queue(group, cpu);
            if self.is_forgotten(queue) {
                continue;
            }
            if !self.tracks_load() {
                self.contribute_weight(queue, true);
            }
            self.update_queue_load(queue);
            if let Some(owner) = self.owner_of(group, cpu) {
                self.update_load(owner);
            }
        }
        let root = self.root(cpu);
        self.update_queue_load(root);
    }

    /// Whether, as in some kernels, a queue is not on the list of queues to be aged: it has had no task since its
    /// averages became zero (`cfs_rq_is_decayed`).
    fn is_forgotten(&mut self, queue: CfsRqId) -> bool {
        if !self.fixed.history.attached_load_unlisted || !self.fair.group_rqs[queue].listed {
            return self.fixed.history.attached_load_unlisted;
        }
        let q = &self.fair.queues[queue];
        self.fair.group_rqs[queue].listed = q.load_fine > 0 || q.avg.load_sum > 0 || q.avg.util_sum > 0;
        false
    }

    /// A task has joined a group: its load joins the queue where the task last ran, and propagates up from there
    /// (`attach_entity_cfs_rq`).
    pub(crate) fn attach_at_once(&mut self, task: TaskId) {
        let mut level = Some(self.tasks[task].entity);
        if !self.tracks_load() {
            return;
        }
        let own = self.entity(task).cfs_rq;
        self.update_queue_load(own);
        self.attach_load(self.tasks[task].entity);
        while let Some(entity) = level {
            self.update_load(entity);
            let queue = self.fair.entities[entity].cfs_rq;
            self.contribute(queue);
            level = self.fair.entities[entity].parent;
        }
    }

    /// Initial load averages of a new task, which is on no queue yet (`init_entity_runnable_average`,
    /// `post_init_entity_util_avg`).
    pub(super) fn settle_load(&mut self, task: TaskId, to: CpuId) {
        let queue = &self.fair.queues[self.group_queue(self.tasks[task].group, to)].avg;
        let capacity = if self.fixed.history.new_task_by_capacity { self.board.speed[to] } else { SCALE };
        let room = FirstUtilFacts { cfs_util_avg: queue.util_avg, cfs_load_avg: queue.load_avg, capacity };
        let (history, now) = (&self.fixed.history, self.now);
        let entity = &mut self.fair.entities[self.tasks[task].entity];
        entity.avg = Pelt::settled(history, entity.weight, now, room);
        self.tasks[task].detached = self.tracks_load();
    }

    /// A moved entity's load joins its new queue.
    pub(super) fn attach_load(&mut self, entity: EntityId) {
        let e = &self.fair.entities[entity];
        if let Some(t) = e.task.map(|t| &mut self.tasks[t])
            && std::mem::take(&mut t.detached)
        {
            let e = &mut self.fair.entities[entity];
            let avg = &mut self.fair.queues[e.cfs_rq].avg;
            e.avg.align_to(avg);
            avg.add(&e.avg, self.fixed.sum_rule);
            self.note_propagation(entity, true);
            let queue = self.fair.entities[entity].cfs_rq;
            self.contribute(queue);
        }
    }

    /// A task moves to another CPU: its load leaves the old queue.
    pub(super) fn move_load(&mut self, task: TaskId) {
        let t = &self.tasks[task];
        let left_behind = t.state == TaskState::Waking && !t.detached && self.tracks_load();
        if left_behind { self.leave_load(task) } else { self.detach_load(task) }
    }

    /// Removes a task's load from its old queue at once.
    pub(super) fn detach_load(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        let old = self.fair.entities[entity].cfs_rq;
        self.update_load(entity);
        if self.tracks_load() && !std::mem::replace(&mut self.tasks[task].detached, true) {
            self.fair.queues[old].avg.sub(&self.fair.entities[entity].avg, self.fixed.sum_rule);
            self.note_propagation(entity, false);
            self.contribute(old);
        }
    }

    /// A task that wakes up elsewhere leaves its load behind: the waker does not hold the lock of the old queue, which
    /// subtracts the load at its next update (`remove_entity_load_avg`). So the task is aged only up to the last update
    /// of that queue. On an idle CPU that may be long ago: newer kernels age it up to now (`migrate_se_pelt_lag`).
    fn leave_load(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        let old = self.fair.entities[entity].cfs_rq;
        let (cpu, seen_ns) = (self.fair.queues[old].cpu, self.fair.queues[old].avg.last_update_ns);
        let catches_up = self.fixed.history.woken_load_catches_up && self.cpus[cpu].curr.is_none();
        let now = self.pelt_clock(old);
        self.tasks[task].detached = true;
        let avg = &mut self.fair.entities[entity].avg;
        avg.update(seen_ns, 0, 0, false);
        self.fair.group_rqs[old].removed.add(avg);
        if catches_up {
            avg.update(now, 0, 0, false);
        }
    }

    /// Removes the load of a task that ended at its queue's next update (`task_dead_fair`, 4.3+).
    pub(super) fn forget_load(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        let queue = self.fair.entities[entity].cfs_rq;
        if self.tracks_load() && !std::mem::replace(&mut self.tasks[task].detached, true) {
            let seen_ns = self.fair.queues[queue].avg.last_update_ns;
            let avg = &mut self.fair.entities[entity].avg;
            avg.update(seen_ns, 0, 0, false);
            self.fair.group_rqs[queue].removed.add(avg);
        }
    }

    /// Changes the weight of an entity. Its load changes at once if this kernel does that. `fine` is 1024 times as
    /// large as the weight.
    pub(super) fn change_weight(&mut self, entity: EntityId, fine: u64, on_rq: bool) {
        let (at_once, sums) = (self.fixed.history.reweight_at_once, self.sums_runnable());
        let rule = self.fixed.sum_rule;
        // Its weight on a flat timeline follows from this one.
        let keeps = self.is_divided(entity).then(|| self.fair.entities[entity].line_fine);
        let e = &mut self.fair.entities[entity];
        let q = &mut self.fair.queues[e.cfs_rq];
        let (before, old, old_fine) = (e.avg, e.weight, e.fine_weight);
        e.set_weight(fine);
        if let Some(fine) = keeps {
            e.set_line_weight(fine);
        }
        let weight = e.weight;
        if on_rq {
            q.load_fine = q.load_fine - old_fine + e.fine_weight;
        }
        if !at_once {
            return;
        }
        e.avg.reweight(old, weight);
        // A queue's load includes its sleeping entities: when a group leaves, its smaller weight counts at once.
        if e.task.is_none_or(|t| !self.tasks[t].detached) {
            q.avg.exchange_load(&before, &e.avg, rule);
        }
        if on_rq && sums {
            q.runnable.exchange_load(&before, &e.avg, rule);
        }
    }

    /// A task arrives: adds its estimate to the queue.
    #[inline]
    pub(super) fn count_in_estimate(&mut self, cpu: CpuId, task: TaskId) {
        if self.has(Feature::UtilEst) {
            let estimate = self.entity(task).est.estimate();
            let root = self.root(cpu);
            self.fair.queues[root].util_est += estimate;
        }
    }

    /// A task leaves: subtracts its estimate from the queue, and updates it if the task goes to sleep.
    #[inline]
    pub(super) fn count_out_estimate(&mut self, cpu: CpuId, task: TaskId, sleeps: bool) {
        if !self.has(Feature::UtilEst) {
            return;
        }
        let (root, capacity) = (self.root(cpu), self.fixed.cpu_capacity[cpu]);
        let e = &mut self.fair.entities[self.tasks[task].entity];
        self.fair.queues[root].util_est -= e.est.estimate();
        if sleeps {
            let Pelt { util_avg, runnable_avg, .. } = e.avg;
            e.est.sleep(self.fixed.estimate_rule, SleepFacts { util_avg, runnable_avg, capacity });
        }
    }

    /// Utilisation of a task (updated to its queue's last update if it sleeps), or the estimate of it, whichever is
    /// larger (`sync_entity_load_avg`, `task_util_est`).
    pub fn task_util_est(&self, task: TaskId) -> u64 {
        let e = self.entity(task);
        let mut avg = e.avg;
        if !e.on_rq {
            avg.update(self.fair.queues[e.cfs_rq].avg.last_update_ns, 0, 0, false);
        }
        // The estimate counts even without UTIL_EST, which only stops its updates.
        e.est.task_util(avg.util_avg)
    }

    /// Utilisation of a CPU by fair tasks: the larger of PELT's and the sum of its runnable tasks' estimates, at most
    /// the CPU's capacity (`cpu_util_cfs`; before 4.17, or without UTIL_EST, only PELT's).
    #[inline]
    pub fn cfs_util(&self, cpu: CpuId) -> u64 {
        let q = &self.fair.queues[self.root(cpu)];
        let estimates = if self.has(Feature::UtilEst) { q.util_est } else { 0 };
        cpu_util(q.avg.util_avg, estimates, self.fixed.cpu_capacity[cpu])
    }

    /// The same without a task that runs there (`cpu_util_without`).
    pub fn util_without(&self, cpu: CpuId, task: TaskId) -> u64 {
        let (q, e) = (&self.fair.queues[self.root(cpu)], &self.fair.entities[self.tasks[task].entity]);
        let counts = self.has(Feature::UtilEst);
        let estimate = if counts { q.util_est.saturating_sub(e.est.estimate()) } else { 0 };
        cpu_util(q.avg.util_avg.saturating_sub(e.avg.util_avg), estimate, self.fixed.cpu_capacity[cpu])
    }

    /// The same with a sleeping task added (`cpu_util`). On the CPU where the task ran last, PELT's sum still contains
    /// it.
    pub fn util_with(&self, cpu: CpuId, task: TaskId) -> u64 {
        let (q, t) = (&self.fair.queues[self.root(cpu)], &self.tasks[task]);
        let e = &self.fair.entities[t.entity];
        let comes = if t.cpu == cpu { 0 } else { e.avg.util_avg };
        let estimate = if self.has(Feature::UtilEst) { q.util_est + e.est.estimate() } else { 0 };
        cpu_util(q.avg.util_avg + comes, estimate, self.fixed.cpu_capacity[cpu])
    }
}
