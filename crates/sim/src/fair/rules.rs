//! The differences between the fair classes: the order of a queue, placement, preemption, and the pick.
//!
//! [`super::Early`], [`super::Cfs`] and [`super::Eevdf`] each implement [`FairRules`] for one entity on one
//! queue; [`super::class`] walks the levels of a task's entities and is the same for all three.

use super::entity::EntityId;
use super::runqueue::{CfsRq, CfsRqId};
use crate::class::{Arrival, Dequeue, Enqueue};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::SwitchReason;

pub(crate) trait FairRules {
    /// Charges the running entity of `queue` up to this instant, and acts on the result (`update_curr`).
    fn update_curr(sys: &mut System<'_>, queue: CfsRqId);
    /// Only charges, without consequences; for callers that only read.
    fn charge(sys: &mut System<'_>, queue: CfsRqId);
    /// Puts an entity on its queue (`enqueue_entity`). Returns whether it was there all the time, asleep.
    fn enqueue_entity(sys: &mut System<'_>, entity: EntityId, why: Enqueue) -> bool;
    /// Takes an entity off its queue (`dequeue_entity`). Returns false if it stays there, asleep.
    fn dequeue_entity(sys: &mut System<'_>, entity: EntityId, why: Dequeue) -> bool;
    /// Takes the entity of a throttled group off its queue. It never stays there asleep (`throttle_cfs_rq`).
    fn dequeue_throttled(sys: &mut System<'_>, entity: EntityId) {
        Self::dequeue_entity(sys, entity, Dequeue::Sleep);
    }
    /// The queued current entity stops being current and goes back into the order.
    fn put_entity(sys: &mut System<'_>, entity: EntityId);
    /// A queued entity becomes the current one of its queue.
    fn set_next_entity(sys: &mut System<'_>, entity: EntityId);
    /// Chooses the next task to run on `cpu` and makes it current.
    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId>;
    /// Removes queued entities of sleeping tasks, if no other is left.
    fn drain(_sys: &mut System<'_>, _cpu: CpuId) {}
    /// The tick finds a task running.
    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason>;
    fn yield_task(sys: &mut System<'_>, task: TaskId);
    /// Whether a task just enqueued on `cpu` preempts `curr`. Marks buddies as the kernel does.
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool;
    /// Places a new entity on the queue of its creator.
    fn place_new(sys: &mut System<'_>, entity: EntityId);
    /// An entity on no queue is about to get another queue.
    fn leave_for_good(sys: &mut System<'_>, entity: EntityId);
    /// A system call gives a queued or running task new attributes, for which it is taken off its queue and put back.
    /// `moves`: its priority changes (DEQUEUE_MOVE).
    fn requeue(_sys: &mut System<'_>, _entity: EntityId, _moves: bool) {}
    /// Prepares a change of an entity's weight to `fine`, 1024 times as fine (`reweight_entity`).
    fn before_reweight(_sys: &mut System<'_>, _entity: EntityId, _fine: u64) {}
    /// Completes that change; `was_on_rq`: whether the entity was on its queue before.
    fn after_reweight(_sys: &mut System<'_>, _entity: EntityId, _was_on_rq: bool) {}
    /// A task has been enqueued on every level.
    fn enqueued(_sys: &mut System<'_>, _task: TaskId, _why: Enqueue) {}
    /// A task falls asleep or is woken up, before it is taken off or put on its queue.
    fn note_sleep(_sys: &mut System<'_>, _task: TaskId, _sleeps: bool) {}
    /// A task of a group goes to sleep, and others of the group stay on `queue`.
    fn note_group_stays(_sys: &mut System<'_>, _queue: CfsRqId) {}
    /// The running task stops running, before its last charge.
    fn note_put(_sys: &mut System<'_>, _task: TaskId) {}
    /// The queued entities of a queue, with their vruntimes; an error if its order is wrong.
    fn queued(sys: &System<'_>, queue: &CfsRq) -> Result<Vec<(EntityId, i64)>, String>;
    /// A queue of `cpu` has one entity more or less. `joined`: one more, which was not there asleep before.
    fn queue_changed(_sys: &mut System<'_>, _cpu: CpuId, _joined: bool) {}
}
