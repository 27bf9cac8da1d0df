//! Onto queues and off them: accounting, enqueue, dequeue, migration (`fair.c`, kernels 3.4 to 6.5).
//!
//! Invariant: an entity that is on a queue and not current is in its order under its present vruntime; one that leaves
//! for another CPU carries a vruntime relative to the old queue's `min_vruntime`, and its load average with it.

use super::eevdf::Leave;
use super::entity::{EntityId, virtual_time};
use super::placement;
use super::runqueue::CfsRqId;
use crate::system::System;
use crate::task::State;
use crate::util_est::cpu_util;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::{Feature, Policy};

/// Why a task is put on a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueue {
    /// It woke up.
    Wakeup,
    /// It is new.
    New,
    /// It was moved while runnable.
    Moved,
}

impl System<'_> {
    /// Whether this kernel tracks load per entity (PELT); a load is else a sum of weights.
    #[inline]
    pub fn tracks_load(&self) -> bool {
        self.fixed.history.per_entity_load
    }
    /// Whether runnable entities' load averages are summed apart from sleeping ones'.
    #[inline]
    fn sums_runnable(&self) -> bool {
        self.fixed.history.runnable_load
    }

    /// Charges the running entity of `queue` up to this instant; under EEVDF that may end its slice.
    pub fn update_curr(&mut self, queue: CfsRqId) {
        if self.charge(queue) && self.eevdf() {
            self.check_slice(queue);
        }
    }

    /// The charge alone; whether there was anything to charge.
    pub fn charge(&mut self, queue: CfsRqId) -> bool {
        let eevdf = self.eevdf();
        let q = &mut self.queues[queue];
        let Some(curr) = q.curr else { return false };
        let clock = self.cpus[q.cpu].clock.read(self.now);
        let e = &mut self.entities[curr];
        let delta = clock.saturating_sub(e.exec_start);
        if delta == 0 {
            return false;
        }
        // Interrupts are charged to the task they interrupt: 2.6.30's only clock, later kernels' without
        // IRQ_TIME_ACCOUNTING.
        e.exec_start = clock;
        e.sum_exec += delta;
        e.vruntime += virtual_time(delta, e.weight) as i64;
        let counts = e.on_rq || !self.fixed.history.dequeued_curr_ignored;
        if !eevdf {
            q.update_min_vruntime(counts.then_some(e.vruntime));
        }
        true
    }

    /// Brings the load averages of an entity and its queue up to this instant.
    pub(super) fn update_load(&mut self, entity: EntityId) {
        if !self.tracks_load() {
            return;
        }
        let e = &mut self.entities[entity];
        let queue = e.cfs_rq;
        let running = self.queues[queue].curr == Some(entity);
        let weight = if e.on_rq { e.weight } else { 0 };
        if e.avg.update(self.now, weight, u64::from(e.on_rq && !e.delayed), running) {
            e.est.unchanged = false;
        }
        self.update_queue_load(queue);
    }

    /// Brings a queue's averages up to this instant (`update_blocked_averages` for one queue).
    pub fn update_queue_load(&mut self, queue: CfsRqId) {
        if !self.tracks_load() {
            return;
        }
        let sums = self.sums_runnable();
        let q = &mut self.queues[queue];
        q.avg.update(self.now, q.load_weight, u64::from(q.h_nr_running), q.curr.is_some());
        if sums {
            q.runnable.update(self.now, q.load_weight, u64::from(q.h_nr_running), q.curr.is_some());
        }
    }

    /// Puts `task` on `cpu`'s queues.
    pub fn enqueue_task(&mut self, cpu: CpuId, task: TaskId, why: Enqueue) {
        if self.has(Feature::UtilEst) {
            let estimate = self.entity(task).est.estimate();
            let root = self.root(cpu);
            self.queues[root].util_est += estimate;
        }
        if why == Enqueue::Wakeup && self.fixed.history.overlap_averages {
            self.note_sleep(task, false);
        }
        let mut level = Some(self.tasks[task].entity);
        let (mut why, mut requeued) = (why, false);
        while let Some(entity) = level {
            if self.entities[entity].delayed {
                requeued = true;
                self.requeue_delayed(entity);
            } else if self.entities[entity].on_rq {
                self.update_load(entity);
            } else {
                self.enqueue_entity(entity, why);
                why = Enqueue::Wakeup;
            }
            let queue = self.entities[entity].cfs_rq;
            self.queues[queue].h_nr_running += 1;
            level = self.entities[entity].parent;
        }
        let t = &mut self.tasks[task];
        t.on_rq = true;
        t.cpu = cpu;
        self.count_queued(task);
        self.cpus[cpu].list.push(task);
        let nr = &mut self.nr_running[cpu];
        *nr += 1;
        if *nr == 2 {
            self.overload = true;
        }
        self.refresh_idle(cpu);
        self.hrtick_update(cpu, !requeued);
    }

    fn enqueue_entity(&mut self, entity: EntityId, why: Enqueue) {
        if self.eevdf() {
            return self.eevdf_enqueue_entity(entity, why);
        }
        let queue = self.entities[entity].cfs_rq;
        self.update_curr(queue);
        let min = self.queues[queue].min_vruntime;
        let task = self.entities[entity].task;
        if let Some(t) = task.map(|t| &mut self.tasks[t])
            && std::mem::take(&mut t.relative)
        {
            self.entities[entity].vruntime += min;
        }
        self.update_load(entity);
        self.attach_load(entity);
        let e = &self.entities[entity];
        if why == Enqueue::Wakeup {
            let idle = task.is_some_and(|t| self.tasks[t].attr.policy == Policy::Idle);
            let facts = placement::Facts {
                min_vruntime: min,
                own_vruntime: e.vruntime,
                latency_ns: self.fixed.gran.latency_ns,
                credited: self.has(Feature::NewFairSleepers) || self.fixed.history.credits_sleepers,
                normalized: (self.has(Feature::NormalizedSleeper) && self.is_early() && !idle)
                    .then_some(e.weight),
                gentle: self.has(Feature::GentleFairSleepers),
                idle_threshold_ns: (idle && self.fixed.history.idle_credit_small)
                    .then_some(self.fixed.gran.min_ns),
            };
            self.entities[entity].vruntime = placement::wakeup(facts);
        }
        let sums = self.sums_runnable();
        let e = &mut self.entities[entity];
        e.on_rq = true;
        let q = &mut self.queues[queue];
        q.load_weight += e.weight;
        q.nr_running += 1;
        if sums {
            q.runnable.add(&e.avg);
        }
        if q.curr != Some(entity) {
            q.insert(entity, e.vruntime);
        }
    }

    /// A moved entity's load joins its new queue.
    pub(super) fn attach_load(&mut self, entity: EntityId) {
        let e = &self.entities[entity];
        if let Some(t) = e.task.map(|t| &mut self.tasks[t])
            && std::mem::take(&mut t.detached)
        {
            let entity = &mut self.entities[entity];
            let avg = &mut self.queues[entity.cfs_rq].avg;
            entity.avg.align_to(avg);
            avg.add(&entity.avg);
        }
    }

    /// Takes `task` off its CPU's queues; `sleeps`: it keeps its vruntime absolute, else it is about to move.
    pub fn dequeue_task(&mut self, task: TaskId, sleeps: bool) {
        let cpu = self.tasks[task].cpu;
        if sleeps && self.fixed.history.overlap_averages {
            self.note_sleep(task, true);
        }
        let mut level = Some(self.tasks[task].entity);
        let mut leaves = true;
        while let Some(entity) = level {
            let queue = self.entities[entity].cfs_rq;
            if leaves {
                let left = self.dequeue_entity(entity, sleeps);
                leaves = left && self.queues[queue].load_weight == 0;
            } else {
                self.update_load(entity);
            }
            self.queues[queue].h_nr_running -= 1;
            level = self.entities[entity].parent;
        }
        self.tasks[task].on_rq = false;
        self.count_dequeued(task);
        let list = &mut self.cpus[cpu].list;
        if list.last() == Some(&task) {
            list.pop();
        } else if let Some(at) = list.iter().rposition(|t| *t == task) {
            list.remove(at);
        }
        self.nr_running[cpu] -= 1;
        if self.has(Feature::UtilEst) {
            self.count_out_estimate(cpu, task, sleeps);
        }
        self.refresh_idle(cpu);
        self.hrtick_update(cpu, false);
    }

    /// A task leaves: its queue forgets what it was thought to use; if it sleeps, that is thought over.
    fn count_out_estimate(&mut self, cpu: CpuId, task: TaskId, sleeps: bool) {
        let (root, capacity) = (self.root(cpu), self.fixed.cpu_capacity[cpu]);
        let e = &mut self.entities[self.tasks[task].entity];
        self.queues[root].util_est -= e.est.estimate();
        if sleeps {
            e.est.sleep(e.avg.util_avg, capacity);
        }
    }

    /// Utilisation of a CPU by fair tasks: PELT's or what its runnable tasks are thought to use, whichever is more, at
    /// most the CPU's capacity (`cpu_util_cfs`; before 4.17, or without UTIL_EST, PELT's alone).
    #[inline]
    pub fn cfs_util(&self, cpu: CpuId) -> u64 {
        let q = &self.queues[self.root(cpu)];
        cpu_util(q.avg.util_avg, q.util_est, self.fixed.cpu_capacity[cpu])
    }

    /// The same once a task that sleeps is there, too (`cpu_util`): PELT's sum still has it where it ran last.
    pub fn util_with(&self, cpu: CpuId, task: TaskId) -> u64 {
        let (q, t) = (&self.queues[self.root(cpu)], &self.tasks[task]);
        let e = &self.entities[t.entity];
        let comes = if t.cpu == cpu { 0 } else { e.avg.util_avg };
        let estimate = if self.has(Feature::UtilEst) { q.util_est + e.est.estimate() } else { 0 };
        cpu_util(q.avg.util_avg + comes, estimate, self.fixed.cpu_capacity[cpu])
    }

    /// Whether it left: under EEVDF one that sleeps may stay queued.
    fn dequeue_entity(&mut self, entity: EntityId, sleeps: bool) -> bool {
        if self.eevdf() {
            let ended = self.entities[entity].task.map(|t| self.tasks[t].state);
            let how = match (sleeps, ended) {
                (true, Some(State::Dead)) => Leave::Ends,
                (true, _) => Leave::Sleeps,
                (false, _) => Leave::Moves,
            };
            return self.eevdf_dequeue_entity(entity, how);
        }
        let queue = self.entities[entity].cfs_rq;
        self.update_curr(queue);
        self.update_load(entity);
        let sums = self.sums_runnable();
        let e = &mut self.entities[entity];
        let q = &mut self.queues[queue];
        if sums {
            q.runnable.sub(&e.avg);
        }
        q.clear_buddies(entity);
        if q.curr != Some(entity) {
            q.remove(entity, e.vruntime);
        }
        e.on_rq = false;
        q.load_weight -= e.weight;
        q.nr_running -= 1;
        let curr = q.curr.map(|c| (self.entities[c].on_rq, self.entities[c].vruntime));
        let counted = curr.filter(|(on_rq, _)| *on_rq || !self.fixed.history.dequeued_curr_ignored);
        let before = q.min_vruntime;
        q.update_min_vruntime(counted.map(|(_, v)| v));
        let after = q.min_vruntime;
        if !sleeps {
            // A task that held min_vruntime back would else be ahead of its next queue by as much as that now moves on.
            let fixed = self.fixed.history.relative_before_min;
            self.make_relative(entity, if fixed { before } else { after });
        }
        true
    }

    /// A task that ended takes its load with it (`task_dead_fair`, 4.3+).
    pub fn forget_load(&mut self, task: TaskId) {
        let e = &self.entities[self.tasks[task].entity];
        if self.tracks_load() {
            self.queues[e.cfs_rq].avg.sub(&e.avg);
        }
    }

    /// Gives an entity another weight where it stands (`reweight_entity`). Its load follows at once, or in older kernels
    /// with time.
    pub fn reweight(&mut self, entity: EntityId, weight: u64) {
        let (on_rq, old, queue) = {
            let e = &self.entities[entity];
            (e.on_rq, e.weight, e.cfs_rq)
        };
        let at_once = self.fixed.history.reweight_at_once;
        let sums = self.sums_runnable();
        if on_rq {
            self.update_curr(queue);
            self.update_load(entity);
        }
        if self.eevdf() {
            self.before_reweight(entity, weight);
        }
        let (e, q) = (&mut self.entities[entity], &mut self.queues[queue]);
        let before = e.avg;
        if at_once {
            e.avg.reweight(old, weight);
        }
        e.weight = weight;
        if on_rq {
            q.load_weight = q.load_weight - old + weight;
            for sum in
                [Some(&mut q.avg), sums.then_some(&mut q.runnable)].into_iter().flatten().filter(|_| at_once)
            {
                sum.sub(&before);
                sum.add(&e.avg);
            }
        }
        if self.eevdf() {
            self.after_reweight(entity, on_rq);
        }
    }

    fn make_relative(&mut self, entity: EntityId, min_vruntime: i64) {
        let e = &mut self.entities[entity];
        if let Some(t) = e.task.map(|t| &mut self.tasks[t])
            && !std::mem::replace(&mut t.relative, true)
        {
            e.vruntime -= min_vruntime;
        }
    }

    /// Gives a task that is on no queue to `to`: its vruntime becomes relative, its load leaves the old queue.
    pub fn migrate_task(&mut self, task: TaskId, to: CpuId) {
        let entity = self.tasks[task].entity;
        let old = self.entities[entity].cfs_rq;
        let min = self.queues[old].min_vruntime;
        if !self.eevdf() {
            self.make_relative(entity, min);
        }
        self.update_load(entity);
        if self.tracks_load() && !std::mem::replace(&mut self.tasks[task].detached, true) {
            self.queues[old].avg.sub(&self.entities[entity].avg);
        }
        let to_root = self.root(to);
        let e = &mut self.entities[entity];
        e.cfs_rq = to_root;
        if self.fixed.history.migrated_is_cold {
            // A task that has just come is not cache hot for a balancer.
            e.exec_start = 0;
        }
        self.tasks[task].cpu = to;
    }
}

#[cfg(test)]
#[path = "queueing_tests.rs"]
mod tests;
