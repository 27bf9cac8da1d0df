//! Takes a queue whose group has no quota left off its CPU, and puts it back (`throttle_cfs_rq`, `unthrottle_cfs_rq`).
//!
//! Up to 6.17 the queue is throttled as a whole, in `schedule()`, or when its first entity is enqueued: its group's
//! entity leaves the queue above, as do those above it that become empty. The tasks stay on the throttled queue, as
//! runnable as before, but count nowhere above it. Since 6.18 tasks are taken off one by one: [`super::limbo`].
//!
//! Invariants: the entity of a throttled queue is not queued (up to 6.17); counts of tasks end at a throttled queue.

use crate::class::Enqueue;
use crate::fair::class::Fair;
use crate::fair::rules::FairRules;
use crate::fair::runqueue::CfsRqId;
use crate::fair::{Cfs, Eevdf};
use crate::system::System;
use crate::task::Class;
use schedlab_base::TaskId;
use schedlab_trace::SwitchReason;

/// Numbers of a queue's tasks, as the queues above it count them.
#[derive(Clone, Copy)]
struct Tasks {
    queued: u32,
    runnable: u32,
    idle: u32,
}

impl<R: FairRules> Fair<R> {
    /// Throttles a queue that has no time left, unless its group has some. Returns whether it is throttled
    /// (`check_cfs_rq_runtime`).
    pub(in crate::fair) fn check_quota(sys: &mut System<'_>, queue: CfsRqId) -> bool {
        if !sys.is_limited(queue) || sys.fixed.history.bandwidth_of_tasks {
            return false;
        }
        let own = &sys.fair.group_rqs[queue];
        if own.slice.left_ns > 0 || own.throttled {
            return own.throttled;
        }
        Fair::<R>::throttle(sys, queue)
    }

    /// A queue's first entity was enqueued: without this test a group could run until the next tick whenever it wakes
    /// up (`check_enqueue_throttle`).
    pub(in crate::fair) fn check_enqueue_quota(sys: &mut System<'_>, queue: CfsRqId) {
        let q = &sys.fair.queues[queue];
        if !sys.fair.any_quota || q.nr_running != 1 {
            return;
        }
        if sys.fixed.history.bandwidth_of_tasks {
            sys.thaw(queue);
        }
        if sys.is_limited(queue) && sys.fair.queues[queue].curr.is_none() && !sys.is_throttled(queue) {
            sys.account_quota(queue);
            Fair::<R>::check_quota(sys, queue);
        }
        sys.count_throttled_time(queue);
    }

    /// Throttles the queues of a task that may be about to leave the CPU, if they have no time left (`put_prev_entity`,
    /// `pick_next_task_fair`).
    fn check_quotas_of(sys: &mut System<'_>, task: TaskId) {
        let mut level = Some(sys.tasks[task].entity);
        while let Some(entity) = level {
            let queue = sys.fair.entities[entity].cfs_rq;
            if sys.fair.entities[entity].on_rq {
                R::update_curr(sys, queue);
            }
            Fair::<R>::check_quota(sys, queue);
            level = sys.fair.entities[entity].parent;
        }
    }

    fn throttle(sys: &mut System<'_>, queue: CfsRqId) -> bool {
        if sys.fixed.history.bandwidth_asks_again && sys.assign(queue, 1) {
            return false;
        }
        sys.start_period_of(sys.group_of(queue));
        sys.begin_throttling(queue);
        let mut tasks = sys.tasks_of(queue);
        let (cpu, mut leaves, mut level) = (sys.fair.queues[queue].cpu, true, sys.fair.queues[queue].owner);
        let mut below = queue;
        let counted = loop {
            let Some(entity) = level else { break true };
            if !sys.fair.entities[entity].on_rq {
                // The queue has just become empty, or one above it is throttled.
                break false;
            }
            let above = sys.fair.entities[entity].cfs_rq;
            if leaves {
                R::dequeue_throttled(sys, entity);
                Fair::<R>::update_group(sys, entity);
                leaves = sys.fair.queues[above].load_fine == 0;
            } else {
                sys.update_load(entity);
            }
            tasks.idle = sys.idle_above(below, tasks);
            let q = &mut sys.fair.queues[above];
            q.h_nr_queued -= tasks.queued;
            q.h_nr_running -= tasks.runnable;
            q.h_nr_idle -= tasks.idle;
            (below, level) = (above, sys.fair.entities[entity].parent);
        };
        if counted {
            sys.rqs.hide(cpu, tasks.queued, tasks.idle);
            sys.refresh_idle(cpu);
        }
        sys.fair.group_rqs[queue].throttled = true;
        sys.count_throttled_time(queue);
        true
    }

    fn unthrottle(sys: &mut System<'_>, queue: CfsRqId) {
        let cpu = sys.fair.queues[queue].cpu;
        sys.fair.group_rqs[queue].throttled = false;
        sys.end_throttling(queue);
        sys.thaw_below(queue);
        let (mut level, mut comes, mut below) = (sys.fair.queues[queue].owner, true, queue);
        let mut tasks = sys.tasks_of(queue);
        if sys.fair.queues[queue].load_fine == 0 {
            return;
        }
        let counted = loop {
            let Some(entity) = level else { break true };
            if comes && sys.fair.entities[entity].delayed {
                R::dequeue_throttled(sys, entity);
            }
            let above = sys.fair.entities[entity].cfs_rq;
            comes &= !sys.fair.entities[entity].on_rq;
            if comes {
                Fair::<R>::update_group(sys, entity);
                R::enqueue_entity(sys, entity, Enqueue::Wakeup);
            } else {
                sys.update_load(entity);
            }
            tasks.idle = sys.idle_above(below, tasks);
            let q = &mut sys.fair.queues[above];
            q.h_nr_queued += tasks.queued;
            q.h_nr_running += tasks.runnable;
            q.h_nr_idle += tasks.idle;
            if sys.ends_counts(above) {
                break false;
            }
            (below, level) = (above, sys.fair.entities[entity].parent);
        };
        if counted {
            sys.rqs.show(cpu, tasks.queued, tasks.idle);
            sys.balance.overload |= sys.rqs.nr_running(cpu) >= 2;
            sys.refresh_idle(cpu);
            sys.fair_comes(cpu);
        }
    }
}

impl System<'_> {
    fn tasks_of(&self, queue: CfsRqId) -> Tasks {
        let q = &self.fair.queues[queue];
        Tasks { queued: q.h_nr_queued, runnable: q.h_nr_running, idle: q.h_nr_idle }
    }
    /// How many of these tasks count as SCHED_IDLE above the queue `below`: all of them if its group is idle.
    fn idle_above(&self, below: CfsRqId, tasks: Tasks) -> u32 {
        if self.is_idle_group(below) { tasks.queued } else { tasks.idle }
    }

    /// Begins to throttle a queue: it joins its group's list, and its load averages and those below stop.
    pub(super) fn begin_throttling(&mut self, queue: CfsRqId) {
        let (now, history) = (self.now, self.fixed.history);
        self.bandwidth(queue).join(queue, now, &history);
        self.touch_below(queue, |sys, below| {
            sys.fair.group_rqs[below].throttle_count += 1;
            // Since 6.18 tasks may still run: a queue's averages stop when the last one leaves it.
            if !history.bandwidth_of_tasks || sys.fair.queues[below].nr_running == 0 {
                sys.freeze(below);
            }
        });
    }

    /// Begins to count the time of a throttled queue; since 6.6 only once a task waits for it. Tasks that are throttled
    /// one by one do this themselves (`limbo`).
    fn count_throttled_time(&mut self, queue: CfsRqId) {
        let empty = self.fixed.history.empty_throttled_free && self.fair.queues[queue].nr_running == 0;
        if self.is_throttled(queue) && !empty && !self.fixed.history.bandwidth_of_tasks {
            let clock = self.rq_clock(self.fair.queues[queue].cpu);
            self.fair.group_rqs[queue].throttled_since.get_or_insert(clock);
        }
    }

    pub(super) fn end_throttling(&mut self, queue: CfsRqId) {
        let now = self.rq_clock(self.fair.queues[queue].cpu);
        let since = self.fair.group_rqs[queue].throttled_since.take();
        let b = self.bandwidth(queue);
        b.counts.throttled_ns += since.map_or(0, |at| now.saturating_sub(at));
        b.leave(queue);
    }

    fn thaw_below(&mut self, queue: CfsRqId) {
        self.touch_below(queue, |sys, below| {
            let own = &mut sys.fair.group_rqs[below];
            own.throttle_count -= 1;
            if own.throttle_count == 0 {
                sys.thaw(below);
            }
        });
    }

    /// Calls `each` for a queue and all below it on its CPU, children before their parents.
    pub(super) fn touch_below(&mut self, queue: CfsRqId, mut each: impl FnMut(&mut System<'_>, CfsRqId)) {
        let (top, cpu) = (self.group_of(queue), self.fair.queues[queue].cpu);
        for group in self.groups_upwards() {
            if self.is_within(group, top) {
                let below = self.group_queue(group, cpu);
                each(self, below);
            }
        }
    }

    /// `schedule()` has begun: the current task's queues are throttled if they have no time left. This decides whether
    /// the CPU goes idle, and looks for tasks elsewhere first.
    #[inline]
    pub(crate) fn check_quotas(&mut self, prev: TaskId) {
        if !self.fair.any_quota || self.fixed.history.bandwidth_of_tasks {
            return;
        }
        match self.class(prev) {
            Class::Cfs => Fair::<Cfs>::check_quotas_of(self, prev),
            Class::Eevdf => Fair::<Eevdf>::check_quotas_of(self, prev),
            Class::Early | Class::O1 | Class::Rt => {}
        }
    }

    /// Charges the running entity of a queue.
    pub(super) fn update_fair_curr(&mut self, queue: CfsRqId) {
        match self.fixed.fair {
            Class::Eevdf => Eevdf::update_curr(self, queue),
            _ => Cfs::update_curr(self, queue),
        }
    }

    /// A throttled queue was given time (`unthrottle_cfs_rq`).
    pub(super) fn unthrottle(&mut self, queue: CfsRqId) {
        let cpu = self.fair.queues[queue].cpu;
        let begun = self.begin_enqueue(cpu, self.now);
        match (self.fixed.history.bandwidth_of_tasks, self.fixed.fair) {
            (true, _) => self.unthrottle_tasks_of(queue),
            (false, Class::Eevdf) => Fair::<Eevdf>::unthrottle(self, queue),
            (false, _) => Fair::<Cfs>::unthrottle(self, queue),
        }
        if self.cpus[cpu].curr.is_none() && self.fair.queues[self.root(cpu)].nr_running > 0 {
            self.resched(self.stepping.acting, cpu, SwitchReason::Arrived);
        }
        self.end_enqueue(cpu, begun);
    }

    /// Number of runnable tasks that no runqueue counts, because their groups have no quota left.
    pub(crate) fn tasks_without_quota(&self) -> u32 {
        if !self.fair.any_quota {
            return 0;
        }
        let queues = self.fair.queues.ids().map(|q| (q, &self.fair.group_rqs[q]));
        let of = |(q, own): (CfsRqId, &super::GroupRq)| {
            let whole = own.throttled && !self.fixed.history.bandwidth_of_tasks;
            own.limbo.len() as u32 + if whole { self.fair.queues[q].h_nr_running } else { 0 }
        };
        queues.map(of).sum()
    }
}
