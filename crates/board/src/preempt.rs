//! Where a task in the kernel gives way before its return to user mode, by preemption model (`preempt_schedule`,
//! `preempt_schedule_irq`, `might_resched`).

use schedlab_kernel::preempt::Preempt;

/// A point of kernel code at which a task may give way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Point {
    /// An interrupt has ended, and the task holds no lock.
    InterruptEnd,
    /// A wakeup is over (`preempt_enable` in `try_to_wake_up`).
    WakeupEnd,
    /// The task's next step may sleep (`might_sleep`).
    MightSleep,
}

/// Whether a task gives way at `point`. `urgent` is `None` if no switch was asked for, and `Some(false)` if the switch
/// may wait for the next tick (TIF_NEED_RESCHED_LAZY).
pub fn gives_way(model: Preempt, point: Point, urgent: Option<bool>) -> bool {
    match (model, point) {
        (Preempt::None, _) | (Preempt::Voluntary, Point::InterruptEnd | Point::WakeupEnd) => false,
        (Preempt::Voluntary, Point::MightSleep) => urgent.is_some(),
        (Preempt::Full | Preempt::Lazy, _) => urgent == Some(true),
    }
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
