//! DELAY_DEQUEUE: a task that goes to sleep with negative lag stays queued, competing, until it has worked that off.
//!
//! It is asleep for everybody else: not runnable, off the balancer's list, its program blocked. When its turn to run
//! comes it is taken off instead; when it is woken before, it goes on where it is, and nobody chooses a CPU for it.

use super::lag;
use crate::fair::entity::EntityId;
use crate::system::System;
use schedlab_base::TaskId;
use schedlab_kernel::Feature;

impl System<'_> {
    /// Whether a sleeping task is still queued.
    #[inline]
    pub fn is_delayed(&self, task: TaskId) -> bool {
        self.entities[self.tasks[task.index()].entity.index()].delayed
    }

    /// A delayed entity is woken (`requeue_delayed_entity`): with DELAY_ZERO one whose lag has become positive starts
    /// again without any; else it goes on as it is. The running entity is not charged before, as in 6.12.
    pub(in crate::fair) fn requeue_delayed(&mut self, entity: EntityId) {
        let lag = self.lag_of(entity);
        if self.has(Feature::DelayZero) && lag > 0 {
            let e = &mut self.entities[entity.index()];
            (e.vlag, e.on_rq) = (lag::after_delay(lag, true), false);
            self.queues[e.cfs_rq.index()].timeline.remove(entity, e.deadline);
            self.place(entity, false);
            self.entities[entity.index()].on_rq = true;
            self.line_up(entity);
        }
        self.update_load(entity);
        self.entities[entity.index()].delayed = false;
    }
}
