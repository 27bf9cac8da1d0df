//! A fair class behind the core's interface: it walks the levels of a task's entities with the rules of
//! [`Early`](super::Early), [`Cfs`](super::Cfs) or [`Eevdf`](super::Eevdf).
//!
//! Invariant: the order of a queue has each queued entity, except the current one, with its present values. An entity
//! that leaves for another CPU takes its load average with it.

use super::entity::EntityId;
use super::group::shares::FINE;
use super::invariants;
use super::rules::FairRules;
use super::runqueue::{CfsRq, CfsRqId};
use crate::class::{Arrival, Dequeue, Enqueue, SchedClass};
use crate::system::System;
use schedlab_base::{CpuId, GroupId, TaskId};
use schedlab_kernel::Attr;
use schedlab_kernel::policy::NICE_0_WEIGHT;
use schedlab_trace::SwitchReason;
use std::marker::PhantomData;

/// The fair class with the rules `R`.
pub(crate) struct Fair<R>(PhantomData<R>);

impl<R: FairRules> SchedClass for Fair<R> {
    fn enqueue_task(sys: &mut System<'_>, cpu: CpuId, task: TaskId, why: Enqueue) {
        sys.count_in_estimate(cpu, task);
        if why == Enqueue::Wakeup {
            R::note_sleep(sys, task, false);
        }
        let mut level = Some(sys.tasks[task].entity);
        // A delayed task is still on its queues and on its CPU's list, and counts there. The levels above only learn
        // that it is runnable again.
        let stayed = sys.is_delayed(task);
        let joins = u32::from(!stayed);
        let (asked, mut why) = (why, why);
        let mut idle = sys.counts_as_sched_idle(task) * joins;
        let mut counted = true;
        while let Some(entity) = level {
            let (on_rq, delayed) = (sys.fair.entities[entity].on_rq, sys.fair.entities[entity].delayed);
            if !on_rq {
                Fair::<R>::update_group(sys, entity);
            }
            if !on_rq || delayed {
                R::enqueue_entity(sys, entity, why);
                why = Enqueue::Wakeup;
            }
            if on_rq && !stayed {
                // A group that was empty kept its old weight.
                sys.update_load(entity);
                Fair::<R>::update_group(sys, entity);
            }
            let queue = sys.fair.entities[entity].cfs_rq;
            if sys.fixed.history.attached_load_unlisted {
                sys.fair.group_rqs[queue].listed = true;
            }
            sys.fair.queues[queue].h_nr_running += 1;
            sys.fair.queues[queue].h_nr_queued += joins;
            sys.fair.queues[queue].h_nr_idle += idle;
            if sys.ends_counts(queue) {
                counted = false;
                break;
            }
            idle = if sys.is_idle_group(queue) { joins } else { idle };
            level = sys.fair.entities[entity].parent;
        }
        if !stayed {
            R::enqueued(sys, task, asked);
            sys.join_list(cpu, task, counted.then_some(idle));
            if counted {
                sys.fair_comes(cpu);
            }
        }
        R::queue_changed(sys, cpu, !stayed);
    }

    fn dequeue_task(sys: &mut System<'_>, task: TaskId, why: Dequeue) {
        let cpu = sys.tasks[task].cpu;
        if why != Dequeue::Move {
            R::note_sleep(sys, task, true);
        }
        let estimates_first = sys.fixed.history.util_est_before_dequeue;
        if estimates_first {
            sys.count_out_estimate(cpu, task, why != Dequeue::Move);
        }
        let mut level = Some(sys.tasks[task].entity);
        let (mut leaves, asked) = (true, why);
        let mut why = why;
        let mut idle = sys.counts_as_sched_idle(task);
        let mut counted = true;
        while let Some(entity) = level {
            let queue = sys.fair.entities[entity].cfs_rq;
            if leaves {
                let left = R::dequeue_entity(sys, entity, why);
                leaves = left && sys.fair.queues[queue].load_fine == 0;
                if left && !leaves && asked != Dequeue::Move && !sys.is_below_throttled(queue) {
                    R::note_group_stays(sys, queue);
                }
                // The group's entity goes to sleep; its vruntime stays absolute.
                why = if asked == Dequeue::Throttle { asked } else { Dequeue::Sleep };
            } else if !sys.is_delayed(task) {
                sys.update_load(entity);
            }
            let stays = sys.is_delayed(task);
            if !stays {
                Fair::<R>::update_group(sys, entity);
            }
            let left = u32::from(!stays);
            sys.fair.queues[queue].h_nr_running -= 1;
            sys.fair.queues[queue].h_nr_queued -= left;
            sys.fair.queues[queue].h_nr_idle -= idle * left;
            if sys.ends_counts(queue) {
                counted = false;
                break;
            }
            idle = if sys.is_idle_group(queue) { 1 } else { idle };
            level = sys.fair.entities[entity].parent;
        }
        if !sys.is_delayed(task) {
            sys.leave_list(cpu, task, counted.then_some(idle));
        }
        if !estimates_first {
            sys.count_out_estimate(cpu, task, asked != Dequeue::Move);
        }
        R::queue_changed(sys, cpu, false);
    }

    fn yield_task(sys: &mut System<'_>, task: TaskId) {
        R::yield_task(sys, task);
    }
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool {
        let queue = sys.entity(wakee.task).cfs_rq;
        if sys.is_below_throttled(queue) && !sys.fixed.history.bandwidth_of_tasks {
            return false;
        }
        R::wakeup_preempt(sys, cpu, curr, wakee)
    }
    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let picked = R::pick_next_task(sys, cpu, prev);
        if picked.is_some() {
            sys.update_misfit(cpu, picked);
        }
        picked
    }
    fn is_runnable(sys: &System<'_>, cpu: CpuId) -> bool {
        sys.fair.queues[sys.root(cpu)].h_nr_running > 0
    }
    fn put_prev_task(sys: &mut System<'_>, _cpu: CpuId, task: TaskId) {
        Fair::<R>::put_prev(sys, task);
    }
    fn set_next_task(sys: &mut System<'_>, _cpu: CpuId, task: TaskId) {
        let mut level = Some(sys.tasks[task].entity);
        while let Some(entity) = level {
            // The entities above a throttled queue are not queued. The task runs there until it is switched out.
            if sys.fair.entities[entity].on_rq {
                R::set_next_entity(sys, entity)
            } else {
                sys.make_current(entity)
            }
            level = sys.fair.entities[entity].parent;
        }
        sys.note_throttled(sys.tasks[task].entity);
    }
    fn drain(sys: &mut System<'_>, cpu: CpuId) {
        R::drain(sys, cpu);
    }
    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason> {
        let ends = R::task_tick(sys, task);
        sys.update_misfit(sys.tasks[task].cpu, Some(task));
        ends
    }
    fn charge_curr(sys: &mut System<'_>, cpu: CpuId) {
        // The queues' current entities, not the CPU's current task: in `schedule()` that is still the previous one.
        let mut level = Some(sys.root(cpu));
        while let Some(queue) = level {
            R::charge(sys, queue);
            level = sys.fair.queues[queue].curr.and_then(|curr| sys.fair.entities[curr].my_q);
        }
    }

    fn migrate_task(sys: &mut System<'_>, task: TaskId, to: CpuId) {
        let entity = sys.tasks[task].entity;
        R::leave_for_good(sys, entity);
        sys.move_load(task);
        sys.set_task_rq(task, to);
        let e = &mut sys.fair.entities[entity];
        if sys.fixed.history.migrated_is_cold {
            // A balancer does not treat a task that has just arrived as cache hot.
            e.exec_start = 0;
        }
    }

    fn task_fork(sys: &mut System<'_>, task: TaskId, to: CpuId) {
        let (entity, by) = (sys.tasks[task].entity, sys.tasks[task].cpu);
        sys.set_task_rq(task, by);
        if sys.fixed.history.fork_charges_parent {
            R::update_curr(sys, sys.fair.entities[entity].cfs_rq);
        }
        R::place_new(sys, entity);
        sys.settle_load(task, to);
    }

    fn task_dead(sys: &mut System<'_>, task: TaskId) {
        sys.forget_load(task);
    }

    /// The task's load leaves the queue, and its vruntime becomes relative, as in a move (`detach_task_cfs_rq`).
    fn switched_from(sys: &mut System<'_>, task: TaskId) {
        R::leave_for_good(sys, sys.tasks[task].entity);
        sys.detach_load(task);
    }
    fn switched_to(sys: &mut System<'_>, task: TaskId) {
        let weight = sys.tasks[task].attr.weight(&sys.fixed.history);
        Fair::<R>::reweight(sys, sys.tasks[task].entity, weight * FINE);
    }

    /// Updates every level up to the root (`sched_group_set_shares`).
    fn shares_changed(sys: &mut System<'_>, cpu: CpuId, group: GroupId) {
        let mut level = sys.owner_of(group, cpu);
        while let Some(entity) = level {
            sys.update_load(entity);
            Fair::<R>::update_group(sys, entity);
            level = sys.fair.entities[entity].parent;
        }
    }

    fn walk(sys: &mut System<'_>, cpu: CpuId) -> Result<u32, String> {
        invariants::walk::<R>(sys, cpu)
    }

    fn prio_changed(sys: &mut System<'_>, task: TaskId, old: Attr) {
        let (entity, attr) = (sys.tasks[task].entity, sys.tasks[task].attr);
        let weight = attr.weight(&sys.fixed.history);
        if sys.fair.entities[entity].on_rq {
            R::requeue(sys, entity, attr.nice != old.nice);
        }
        Fair::<R>::reweight(sys, entity, weight * FINE);
    }
}

impl<R: FairRules> Fair<R> {
    /// Gives a group's entity the weight that follows from its queue (`update_cfs_group`, `update_cfs_shares`).
    pub(super) fn update_group(sys: &mut System<'_>, entity: EntityId) {
        let Some(below) = sys.fair.entities[entity].my_q else { return };
        let history = &sys.fixed.history;
        let empty = history.empty_keeps_weight && sys.fair.queues[below].load_fine == 0;
        if empty || sys.is_below_throttled(below) && !history.bandwidth_of_tasks {
            return;
        }
        let fine = sys.group_weight(below);
        if fine != sys.fair.entities[entity].fine_weight {
            Fair::<R>::reweight(sys, entity, fine);
        }
    }

    /// Gives an entity another weight without moving it (`reweight_entity`). Its load follows at once; in older kernels
    /// gradually.
    fn reweight(sys: &mut System<'_>, entity: EntityId, fine: u64) {
        let (on_rq, queue) = (sys.fair.entities[entity].on_rq, sys.fair.entities[entity].cfs_rq);
        if on_rq {
            let e = &sys.fair.entities[entity];
            let charges = sys.fixed.history.reweight_charges || e.task.is_some();
            if charges || sys.fair.queues[queue].curr == Some(entity) {
                R::update_curr(sys, queue);
            }
            sys.update_load(entity);
        }
        R::before_reweight(sys, entity, fine);
        sys.change_weight(entity, fine, on_rq);
        R::after_reweight(sys, entity, on_rq);
    }

    /// The running task's entities leave the CPU; those still on a queue are charged and go back into its order. An
    /// entity that left its queue was charged then. After a newidle balance it is charged only if that pulled a task,
    /// whose enqueue charges the current one (`put_prev_entity` tests `on_rq`; read in 2.6.30, 6.1.192 and 7.3.4).
    pub(super) fn put_prev(sys: &mut System<'_>, task: TaskId) {
        Fair::<R>::put_prev_below(sys, task, None);
    }

    /// The same, only for the entities below `stays`, which stays current.
    pub(super) fn put_prev_below(sys: &mut System<'_>, task: TaskId, stays: Option<EntityId>) {
        R::note_put(sys, task);
        let mut level = Some(sys.tasks[task].entity);
        while let Some(entity) = level.filter(|e| Some(*e) != stays) {
            let queue = sys.fair.entities[entity].cfs_rq;
            if sys.fair.entities[entity].on_rq {
                R::update_curr(sys, queue);
            }
            Fair::<R>::check_quota(sys, queue);
            if sys.fair.entities[entity].on_rq {
                sys.update_load_here(entity);
                R::put_entity(sys, entity);
            }
            sys.fair.queues[queue].curr = None;
            level = sys.fair.entities[entity].parent;
        }
    }
}

impl System<'_> {
    /// Updates `exec_start`, `sum_exec` and vruntime of the running entity of `queue` to this instant. Returns the
    /// entity if there was anything to charge.
    pub(super) fn charge(&mut self, queue: CfsRqId) -> Option<EntityId> {
        let q = &self.fair.queues[queue];
        let curr = q.curr?;
        let cpu = q.cpu;
        let clock = self.cpus[cpu].clock.read(self.now);
        let unit = self.weight_unit(queue, 0);
        let delta_ns = self.fair.entities[curr].charge(clock, unit);
        if delta_ns == 0 {
            return None;
        }
        if self.fair.any_quota && self.fair.group_rqs[queue].limited {
            self.fair.group_rqs[queue].slice.left_ns -= delta_ns as i64;
        }
        if self.fair.entities[curr].task.is_some() {
            self.charge_server(cpu, delta_ns);
        }
        Some(curr)
    }

    /// The weight whose virtual time equals real time on a queue that an entity of weight `joins` is about to join.
    ///
    /// It is nice 0's; before 2.6.28 it is the whole queue's.
    #[inline]
    pub(super) fn weight_unit(&self, queue: CfsRqId, joins: u64) -> u64 {
        if self.fixed.history.vruntime_by_share {
            self.fair.queues[queue].load_weight() + joins
        } else {
            NICE_0_WEIGHT
        }
    }

    /// An entity that has left its queue's order becomes the queue's current one (`set_next_entity`).
    pub(super) fn make_current(&mut self, entity: EntityId) {
        self.update_load(entity);
        let queue = self.fair.entities[entity].cfs_rq;
        let c = &self.cpus[self.fair.queues[queue].cpu];
        let clock = c.clock.read(self.now);
        // Between a wakeup and the switch that it requested the clock is frozen, but ticks charge the running task
        // beyond it, especially while a vCPU does not run. If the task is picked again, that time is not charged twice.
        let goes_on = c.curr.is_some_and(|t| self.tasks[t].entity == entity);
        let e = &mut self.fair.entities[entity];
        e.exec_start = if goes_on { clock.max(e.exec_start) } else { clock };
        e.prev_sum_exec = e.sum_exec;
        self.fair.queues[queue].curr = Some(entity);
    }

    /// A pick makes a task the newest of its CPU's list. The balancer of 4.15 and later takes the oldest tasks first,
    /// which have waited longest.
    pub(super) fn note_picked(&mut self, cpu: CpuId, task: TaskId) {
        let list = &mut self.cpus[cpu].list;
        if list.last() != Some(&task)
            && self.fixed.history.picked_is_newest
            && let Some(at) = list.iter().rposition(|t| *t == task)
        {
            list[at..].rotate_left(1);
        }
    }

    /// A task is on `cpu`'s queues: it joins the CPU's list and `nr_running`. `counted`: 1 if it counts as SCHED_IDLE;
    /// `None` if it is not counted because of a throttled queue.
    pub(super) fn join_list(&mut self, cpu: CpuId, task: TaskId, counted: Option<u32>) {
        self.cpus[cpu].list.push(task);
        if let Some(idle) = counted {
            self.rqs.add_sched_idle(cpu, idle);
            self.add_nr_running(cpu);
        }
    }

    /// A task is no longer on `cpu`'s queues: it leaves the CPU's list and `nr_running`. `counted`: as in
    /// [`Self::join_list`].
    pub(super) fn leave_list(&mut self, cpu: CpuId, task: TaskId, counted: Option<u32>) {
        let was = self.is_sched_idle(cpu);
        let list = &mut self.cpus[cpu].list;
        if list.last() == Some(&task) {
            list.pop();
        } else if let Some(at) = list.iter().rposition(|t| *t == task) {
            list.remove(at);
        }
        if let Some(idle) = counted {
            self.rqs.sub_sched_idle(cpu, idle);
            self.sub_nr_running(cpu);
            self.note_sched_idle(cpu, was);
        }
    }

    /// Clears an entity's buddy marks, and marks of its groups that were set together with them.
    pub(super) fn clear_buddies(&mut self, entity: EntityId) {
        if self.is_flat() {
            let line = self.line(self.fair.entities[entity].cfs_rq);
            return self.fair.queues[line].clear_buddies(entity);
        }
        let marks: [fn(&mut CfsRq) -> &mut Option<EntityId>; 3] =
            [|q| &mut q.next, |q| &mut q.last, |q| &mut q.skip];
        for mark in marks {
            let mut level = Some(entity);
            while let Some(at) = level {
                let e = &self.fair.entities[at];
                let (queue, parent) = (e.cfs_rq, e.parent);
                let mark = mark(&mut self.fair.queues[queue]);
                if *mark != Some(at) {
                    break;
                }
                *mark = None;
                level = parent;
            }
        }
    }

    /// Walks both entities up to the level where they share a queue.
    pub(super) fn matching_level(&self, a: EntityId, b: EntityId) -> Option<(EntityId, EntityId)> {
        let chain = |mut e: EntityId| {
            std::iter::once(e)
                .chain(std::iter::from_fn(move || self.fair.entities[e].parent.inspect(|p| e = *p)))
        };
        chain(a).find_map(|x| {
            let queue = self.fair.entities[x].cfs_rq;
            chain(b).find(|y| self.fair.entities[*y].cfs_rq == queue).map(|y| (x, y))
        })
    }
}
