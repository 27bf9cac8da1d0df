//! Throttling of single tasks (since 6.18; read in 7.2.12 and 7.3.4).
//!
//! A queue without time is marked as throttled at once, but nothing leaves it. The running task continues until it
//! returns to user mode, so that its system call ends and locks are released. Then it is taken off the queue and put on
//! the queue's list of tasks in limbo. Each other task of the queue is picked in its turn and goes the same way. The
//! group's entity leaves with the last task, as usual. When the queue has time again, its tasks are enqueued.
//!
//! Invariant: a task in limbo is runnable, on no queue, and counted nowhere.

use crate::class::{Dequeue, Enqueue, SchedClass};
use crate::fair::Eevdf;
use crate::fair::class::Fair;
use crate::fair::entity::EntityId;
use crate::fair::runqueue::CfsRqId;
use crate::system::System;
use crate::task::{Class, TaskState};
use schedlab_base::CpuId;

impl System<'_> {
    /// A queue has no time left: throttles it unless its group's pool has some. Returns whether it is throttled
    /// (`throttle_cfs_rq`).
    pub(super) fn throttle_tasks_of(&mut self, queue: CfsRqId) -> bool {
        let runs = self.fair.queues[queue].curr.is_some_and(|c| self.fair.entities[c].on_rq);
        let target_ns = if runs { self.fixed.kernel.tunables.cfs_bandwidth_slice_ns } else { 1 };
        if self.assign(queue, target_ns) {
            return false;
        }
        self.begin_throttling(queue);
        self.fair.group_rqs[queue].throttled = true;
        if runs && let Some(curr) = self.cpus[self.fair.queues[queue].cpu].curr {
            self.tasks[curr].throttles = true;
        }
        true
    }

    /// A task's entity and those above it became current: if one of their queues is throttled, the task will be taken
    /// off on its return to user mode (`set_next_task_fair`).
    pub(in crate::fair) fn note_throttled(&mut self, entity: EntityId) {
        if !self.fair.any_quota || !self.fixed.history.bandwidth_of_tasks {
            return;
        }
        let (mut level, mut throttled) = (Some(entity), false);
        while let Some(at) = level {
            throttled |= self.account_quota(self.fair.entities[at].cfs_rq);
            level = self.fair.entities[at].parent;
        }
        if throttled && let Some(task) = self.fair.entities[entity].task {
            self.tasks[task].throttles = true;
        }
    }

    /// The current task of `cpu` is about to return to user mode. Returns whether it was taken off its queue
    /// (`throttle_cfs_rq_work`).
    pub(crate) fn throttle_on_return(&mut self, cpu: CpuId) -> bool {
        let Some(curr) = self.cpus[cpu].curr else { return false };
        if !std::mem::take(&mut self.tasks[curr].throttles) {
            return false;
        }
        let queue = self.entity(curr).cfs_rq;
        let t = &self.tasks[curr];
        if t.class == Class::Rt || t.state != TaskState::Runnable || !self.is_below_throttled(queue) {
            return false;
        }
        let begun = self.begin_enqueue(cpu, self.now);
        Fair::<Eevdf>::dequeue_task(self, curr, Dequeue::Throttle);
        self.refresh_idle(cpu);
        self.note_limbo(queue);
        self.fair.group_rqs[queue].limbo.insert(0, curr);
        self.end_enqueue(cpu, begun);
        true
    }

    /// A task went to limbo: from the first such task on, the throttled queues above it count their time
    /// (`record_throttle_clock`).
    fn note_limbo(&mut self, queue: CfsRqId) {
        let clock = self.rq_clock(self.fair.queues[queue].cpu);
        let mut level = Some(queue);
        while let Some(at) = level {
            let own = &mut self.fair.group_rqs[at];
            if own.throttled {
                own.throttled_since.get_or_insert(clock);
            }
            if own.throttle_count > 0 && self.fair.queues[at].nr_running == 0 {
                self.freeze(at);
            }
            level = self.fair.queues[at].owner.map(|owner| self.fair.entities[owner].cfs_rq);
        }
    }

    /// A queue was given time: its tasks, and those of queues below it, come back from limbo. It stays throttled if the
    /// task that still runs has used up that time by now (`unthrottle_cfs_rq`, `tg_unthrottle_up`).
    pub(super) fn unthrottle_tasks_of(&mut self, queue: CfsRqId) {
        self.update_fair_curr(queue);
        if self.fair.group_rqs[queue].slice.left_ns <= 0 {
            return;
        }
        self.fair.group_rqs[queue].throttled = false;
        self.end_throttling(queue);
        let cpu = self.fair.queues[queue].cpu;
        self.touch_below(queue, |sys, below| {
            sys.update_fair_curr(below);
            sys.fair.group_rqs[below].throttle_count -= 1;
            if sys.fair.group_rqs[below].throttle_count > 0 {
                return;
            }
            sys.thaw(below);
            let mut tasks = std::mem::take(&mut sys.fair.group_rqs[below].limbo);
            for (at, task) in tasks.iter().enumerate() {
                if sys.fair.group_rqs[below].throttle_count > 0 {
                    // An enqueue has throttled a queue above.
                    sys.fair.group_rqs[below].limbo.extend(&tasks[at..]);
                    break;
                }
                Fair::<Eevdf>::enqueue_task(sys, cpu, *task, Enqueue::Wakeup);
                sys.refresh_idle(cpu);
            }
            if sys.fair.group_rqs[below].limbo.is_empty() {
                // The list's memory is reused.
                tasks.clear();
                sys.fair.group_rqs[below].limbo = tasks;
            }
        });
    }
}
