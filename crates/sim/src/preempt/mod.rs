//! Preemption in the kernel: a task gives way in the middle of a system call, and continues there when it runs again
//! (`preempt_schedule`, `preempt_schedule_irq`, `might_resched`).
//!
//! Under every model a task gives way at its return to user mode (`return_to_user`). The points before that are here,
//! and `drive` takes tasks through them. A call that is left in the middle is parked with its task: the step, its time
//! left, and the wakeups that it has yet to make.
//!
//! A task that holds the lock of a channel, or waits for it, gives way only after it. That, and the point of the
//! voluntary model at a pipe's mutex, need a machine that states how long a call holds the lock (`pipe_lock_ns`,
//! `unix_lock_ns`): elsewhere a writer may be left in the middle of its copy, and voluntary is none but at fork and
//! exec.
//!
//! Not modelled: a vCPU's thread gives way only at its return; `cond_resched` in long loops.

use crate::frame::Step;
use schedlab_base::TaskId;
use schedlab_kernel::preempt::Preempt;

mod drive;

/// A point of kernel code at which a task may give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Point {
    /// An interrupt has ended, and the task holds no lock.
    InterruptEnd,
    /// A wakeup is over (`preempt_enable` in `try_to_wake_up`).
    WakeupEnd,
    /// The task is about to do what may make it sleep (`might_sleep`).
    MightSleep,
}

/// Whether a task gives way at `point`, where `urgent` is `None` if no switch was asked for, and `Some(false)` if that
/// may wait for the next tick (TIF_NEED_RESCHED_LAZY).
pub(crate) fn gives_way(model: Preempt, point: Point, urgent: Option<bool>) -> bool {
    match (model, point) {
        (Preempt::None, _) | (Preempt::Voluntary, Point::InterruptEnd | Point::WakeupEnd) => false,
        (Preempt::Voluntary, Point::MightSleep) => urgent.is_some(),
        (Preempt::Full | Preempt::Lazy, _) => urgent == Some(true),
    }
}

/// A system call that a task has left in the middle.
#[derive(Debug, Default)]
pub struct Parked {
    /// The step it is in, and the rest of the step, ns; `None`: the task is not in a call.
    step: Option<(Step, u64)>,
    /// The tasks that it has yet to wake.
    pub to_wake: Vec<TaskId>,
    call_left_ns: u64,
    sync_wakes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_model_has_its_points_and_lazy_requests_wait_for_the_return_to_user_mode() {
        use Preempt::{Full, Lazy, None as Never, Voluntary};
        let points = [Point::InterruptEnd, Point::WakeupEnd, Point::MightSleep];
        let at = |model, urgent| points.map(|point| gives_way(model, point, urgent));
        for urgent in [None, Some(false), Some(true)] {
            assert_eq!(at(Never, urgent), [false; 3]);
        }
        assert_eq!(at(Voluntary, Some(true)), [false, false, true]);
        assert_eq!([at(Full, Some(true)), at(Lazy, Some(true))], [[true; 3]; 2]);
        assert_eq!(at(Lazy, Some(false)), [false; 3]);
    }
}
