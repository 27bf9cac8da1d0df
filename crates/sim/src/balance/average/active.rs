//! After a pass that moved nothing: decides whether to push the source's running task, and the flag for the level
//! above.
//!
//! Mirrors `need_active_balance` and the end of `load_balance` of 3.4 and 4.5.

use crate::balance::active::ActiveFacts;
use crate::balance::era::{Balancer, PassKind};
use schedlab_trace::ActiveReason;

/// Whether the source's running task should be pushed to the destination (`need_active_balance`). The stopper then
/// preempts it and moves one task by [`crate::balance::can_migrate::can_migrate`], as an idle pass does. `misfit`: the
/// pass wanted a task that is too large for its CPU (4.20).
pub fn needs_active(balancer: Balancer, f: &ActiveFacts, misfit: bool) -> Option<ActiveReason> {
    if balancer <= Balancer::V3_4 && f.pass == PassKind::Newidle {
        return None;
    }
    if balancer == Balancer::V4_5 && f.gives_its_only_task() {
        return Some(ActiveReason::ReducedCapacity);
    }
    if misfit {
        return Some(ActiveReason::Misfit);
    }
    f.has_failed_often().then_some(ActiveReason::Failures)
}

/// The imbalance flag of the local group one level up (`sgc->imbalance`, 3.9+): `Some` if a pass changes it.
///
/// `walked`: after a walk over a queue, whether affinity held tasks back while load was still wanted. `balanced`: the
/// pass ended as balanced, and not because all tasks were pinned.
pub fn parent_flag(balancer: Balancer, walked: Option<bool>, balanced: bool) -> Option<bool> {
    if balancer <= Balancer::V3_4 {
        return None;
    }
    match () {
        () if balanced => Some(false),
        () if walked == Some(true) => Some(true),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACTIVE: ActiveFacts = ActiveFacts {
        pass: PassKind::Idle,
        nr_balance_failed: 3,
        cache_nice_tries: 1,
        imbalance_pct: 125,
        src_h_nr_running: 1,
        src_capacity: 1024,
        src_capacity_orig: 1024,
        dst_capacity: 1024,
    };

    #[test]
    fn failures_beyond_the_tries_push() {
        for balancer in [Balancer::V3_4, Balancer::V4_5] {
            let needs_active = |f: &ActiveFacts| needs_active(balancer, f, false);
            let f = ACTIVE;
            assert_eq!(needs_active(&f), None, "three are not more than one and two");
            assert_eq!(
                needs_active(&ActiveFacts { nr_balance_failed: 4, ..f }),
                Some(ActiveReason::Failures)
            );
            assert_eq!(needs_active(&ActiveFacts { nr_balance_failed: 4, cache_nice_tries: 2, ..f }), None);
        }
    }

    #[test]
    fn a_misfit_is_pushed_at_once() {
        let f = ActiveFacts { nr_balance_failed: 0, ..ACTIVE };
        assert_eq!(needs_active(Balancer::V4_5, &f, true), Some(ActiveReason::Misfit));
    }

    #[test]
    fn newidle_of_3_4_never_pushes() {
        let f = ActiveFacts { pass: PassKind::Newidle, nr_balance_failed: 9, ..ACTIVE };
        assert_eq!(needs_active(Balancer::V4_5, &f, false), Some(ActiveReason::Failures));
        assert_eq!(needs_active(Balancer::V3_4, &f, false), None);
    }

    #[test]
    fn a_disturbed_cpu_gives_its_only_task_to_an_idle_one() {
        let f = ActiveFacts { src_capacity: 700, ..ACTIVE };
        let old = needs_active(Balancer::V3_4, &f, false);
        let needs_active = |f: &ActiveFacts| needs_active(Balancer::V4_5, f, false);
        assert_eq!(needs_active(&f), Some(ActiveReason::ReducedCapacity));
        assert_eq!(needs_active(&ActiveFacts { pass: PassKind::Busy, ..f }), None);
        assert_eq!(needs_active(&ActiveFacts { src_h_nr_running: 2, ..f }), None);
        assert_eq!(needs_active(&ActiveFacts { dst_capacity: 800, ..f }), None, "little would be won");
        assert_eq!(needs_active(&ActiveFacts { src_capacity_orig: 700, ..f }), None, "small, not disturbed");
        assert_eq!(old, None);
    }

    #[test]
    fn affinity_is_reported_one_level_up() {
        let b = Balancer::V4_5;
        assert_eq!(parent_flag(b, Some(true), false), Some(true));
        assert_eq!(parent_flag(b, Some(false), false), None, "nothing held back: the flag stands");
        assert_eq!(parent_flag(b, Some(true), true), Some(false), "balanced in the end");
        assert_eq!(parent_flag(b, None, false), None);
        assert_eq!(parent_flag(Balancer::V3_4, Some(true), false), None);
    }
}
