//! DELAY_DEQUEUE: a task that goes to sleep with negative lag stays queued and competes until its lag is worked off.
//!
//! It is blocked and not runnable, but it stays in the runqueue's `nr_running` and on the balancer's list. When its
//! turn to run comes it is taken off instead. If it is woken before, it continues in its place, and no CPU is chosen.

use super::queueing::LeaveReason;
use super::{Eevdf, lag};
use crate::class::Enqueue;
use crate::fair::Fair;
use crate::fair::entity::EntityId;
use crate::fair::rules::FairRules;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::Feature;

impl System<'_> {
    /// Whether a sleeping task is still queued.
    #[inline]
    pub fn is_delayed(&self, task: TaskId) -> bool {
        self.entity(task).delayed
    }

    /// A balancer takes a delayed task off its CPU; the task remains asleep (before 6.14, or if load is to move).
    pub(crate) fn take_off_delayed(&mut self, task: TaskId) {
        let (entity, cpu) = (self.tasks[task].entity, self.tasks[task].cpu);
        let counted = self.leave_levels(entity, LeaveReason::Moves, 1);
        self.leave_list(cpu, task, counted.then(|| self.idle_at_root(task)));
        self.refresh_idle(cpu);
    }

    /// Takes an entity off its queue (for the reason `first`), and each group above it that became empty. A group may
    /// be delayed like a task. `tasks`: number of sleeping tasks that leave with it. Returns whether the CPU counted
    /// them: queues above one that is throttled as a whole count nothing of it.
    pub(super) fn leave_levels(&mut self, entity: EntityId, first: LeaveReason, tasks: u32) -> bool {
        let (mut level, mut leaves, mut how) = (Some(entity), true, first);
        let mut idle = self.fair.entities[entity].task.map_or(0, |t| self.counts_as_sched_idle(t));
        while let Some(at) = level {
            if leaves {
                let left = self.eevdf_dequeue_entity(at, how);
                let queue = self.fair.entities[at].cfs_rq;
                leaves = left && self.fair.queues[queue].nr_running == 0;
                if left && !leaves && first == LeaveReason::Delayed && !self.is_below_throttled(queue) {
                    Eevdf::note_group_stays(self, queue);
                }
                how = LeaveReason::Sleeps;
            } else {
                self.update_load(at);
            }
            Fair::<Eevdf>::update_group(self, at);
            let queue = self.fair.entities[at].cfs_rq;
            self.fair.queues[queue].h_nr_queued -= tasks;
            self.fair.queues[queue].h_nr_idle -= idle;
            if self.ends_counts(queue) {
                return false;
            }
            idle = if self.is_idle_group(queue) { tasks } else { idle };
            level = self.fair.entities[at].parent;
        }
        true
    }

    /// Queues a delayed task on another CPU, where it continues to work off its debt.
    pub(crate) fn put_on_delayed(&mut self, cpu: CpuId, task: TaskId) {
        let own = self.tasks[task].entity;
        let mut level = Some(own);
        let (mut idle, mut counted) = (self.counts_as_sched_idle(task), true);
        while let Some(entity) = level {
            let e = &self.fair.entities[entity];
            if e.on_rq {
                if e.delayed {
                    self.requeue_delayed(entity);
                }
                self.update_load(entity);
                Fair::<Eevdf>::update_group(self, entity);
            } else {
                Fair::<Eevdf>::update_group(self, entity);
                let why = if entity == own { Enqueue::Moved } else { Enqueue::Wakeup };
                self.eevdf_enqueue_entity(entity, why);
            }
            self.fair.entities[own].delayed = true;
            let queue = self.fair.entities[entity].cfs_rq;
            self.fair.queues[queue].h_nr_queued += 1;
            self.fair.queues[queue].h_nr_idle += idle;
            if self.ends_counts(queue) {
                counted = false;
                break;
            }
            idle = if self.is_idle_group(queue) { 1 } else { idle };
            level = self.fair.entities[entity].parent;
        }
        if self.is_flat() {
            self.enter_line(own, false);
        }
        self.tasks[task].cpu = cpu;
        self.join_list(cpu, task, counted.then_some(idle));
        self.refresh_idle(cpu);
    }

    /// Whether a queued task has had more than its share on its queue (`!entity_eligible`).
    pub(crate) fn is_ineligible(&self, task: TaskId) -> bool {
        let e = self.entity(task);
        e.on_rq && !self.average(e.cfs_rq).eligible(e.vruntime)
    }

    /// The lag with which a delayed entity leaves, or continues when it is woken.
    pub(super) fn delayed_lag(&self, entity: EntityId) -> i64 {
        let lag = self.lag_of(entity);
        let lag =
            if self.fixed.history.debt_shrinks { lag.max(self.fair.entities[entity].vlag) } else { lag };
        lag::after_delay(lag, self.has(Feature::DelayZero))
    }

    /// A delayed entity is woken (`requeue_delayed_entity`). With DELAY_ZERO, an entity whose lag has become positive
    /// starts again with none. Since 7.1, one whose debt has grown starts with its former debt. Otherwise it continues
    /// unchanged. 6.12 does not charge the running entity before that, so its time since the last charge remains as
    /// credit; 7.3.4 charges it (`update_curr_eevdf`).
    pub(super) fn requeue_delayed(&mut self, entity: EntityId) {
        if self.fixed.history.charges_before_requeue {
            Eevdf::update_curr(self, self.fair.entities[entity].cfs_rq);
        }
        let (e, lag) = (&self.fair.entities[entity], self.delayed_lag(entity));
        let found = self.average(e.cfs_rq).time() - e.vruntime;
        let again = if self.fixed.history.debt_shrinks {
            lag != found
        } else {
            self.has(Feature::DelayZero) && found > 0
        };
        if again {
            let line = self.line(self.fair.entities[entity].cfs_rq);
            // A task that is still in `schedule()` on its way to sleep is current, and not in the order.
            let waits = self.line_curr(line) != Some(entity);
            let e = &mut self.fair.entities[entity];
            (e.vlag, e.on_rq) = (lag, false);
            if waits {
                self.fair.queues[line].timeline.remove(entity, e.deadline);
            }
            self.place(entity, false);
            self.fair.entities[entity].on_rq = true;
            if waits {
                self.line_up(entity);
            }
        }
        self.update_woken_load(entity);
        self.fair.entities[entity].delayed = false;
    }
}
