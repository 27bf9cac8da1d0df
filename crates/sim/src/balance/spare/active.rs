//! After a pass: whether to push the source's running task, and the new state of the domain.
//!
//! Mirrors `need_active_balance` and the end of `load_balance` of 6.5. State, bounds and outcomes come from
//! [`settle`](crate::balance::settle), as does [`DomainState::count_failure`] (newidle does not count); `parent_flag`
//! is as in 4.5. Differences from 4.5:
//!
//! - too many failures push a running task only if *tasks* were to move;
//! - a newidle pass does not double the interval, since it does not wait for one;
//! - a started push leaves `nr_balance_failed` unchanged and the interval at its minimum (the reason for the push still
//!   holds when the end of the pass tests it again). The stopper clears the count once it has moved a task, in the
//!   lowest domain of the destination that spans the source. It takes hot tasks whatever the count
//!   ([`DetachRules::active`](crate::balance::spare::detach::DetachRules::active)).

use super::imbalance::MigrationType;
use crate::balance::active::ActiveFacts;
use crate::balance::era::PassKind;
use crate::balance::settle::{Active, Bounds, DomainState, MAX_PINNED_MS, PassOutcome};
use schedlab_trace::ActiveReason;

/// Whether the source's running task should be pushed to the destination. `wanted`: the unit of the wanted amount.
pub fn needs_active(f: &ActiveFacts, wanted: MigrationType) -> Option<ActiveReason> {
    if wanted == MigrationType::Task && f.has_failed_often() {
        return Some(ActiveReason::Failures);
    }
    if f.gives_its_only_task() {
        return Some(ActiveReason::ReducedCapacity);
    }
    (wanted == MigrationType::Misfit).then_some(ActiveReason::Misfit)
}

/// Ends a pass. `untested`: the source had a single task, so no walk has shown an obstacle other than affinity. It
/// matters only for [`Active::Pinned`], whose interval then grows as for a domain with only pinned tasks.
pub fn settle(
    state: &mut DomainState,
    bounds: &Bounds,
    pass: PassKind,
    outcome: PassOutcome,
    untested: bool,
) {
    if matches!(outcome, PassOutcome::Balanced { .. } | PassOutcome::Moved) {
        state.nr_balance_failed = 0;
    }
    let all_pinned = match outcome {
        PassOutcome::Moved | PassOutcome::Failed(Active::NotDue | Active::UnderWay | Active::Started) => {
            state.interval_ms = bounds.min_interval_ms;
            return;
        }
        PassOutcome::Balanced { all_pinned } => all_pinned,
        PassOutcome::Failed(Active::Pinned) => untested,
    };
    let limit_ms =
        if all_pinned { bounds.max_interval_ms.max(MAX_PINNED_MS) } else { bounds.max_interval_ms };
    if pass != PassKind::Newidle && state.interval_ms < limit_ms {
        state.interval_ms *= 2;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FACTS: ActiveFacts = ActiveFacts {
        pass: PassKind::Idle,
        nr_balance_failed: 3,
        cache_nice_tries: 1,
        imbalance_pct: 117,
        src_h_nr_running: 1,
        src_capacity: 1024,
        src_capacity_orig: 1024,
        dst_capacity: 1024,
    };
    const BOUNDS: Bounds = Bounds { min_interval_ms: 112, max_interval_ms: 224, cache_nice_tries: 1 };

    fn after(pass: PassKind, interval_ms: u32, outcome: PassOutcome, untested: bool) -> (u32, u32) {
        let mut s = DomainState { interval_ms, nr_balance_failed: 7 };
        settle(&mut s, &BOUNDS, pass, outcome, untested);
        (s.interval_ms, s.nr_balance_failed)
    }

    #[test]
    fn failures_push_only_when_tasks_were_to_move() {
        let needs_active = |f: &ActiveFacts| super::needs_active(f, MigrationType::Task);
        let failed = |nr_balance_failed| ActiveFacts { nr_balance_failed, ..FACTS };
        assert_eq!(needs_active(&failed(3)), None, "two above cache_nice_tries are not enough");
        assert_eq!(needs_active(&failed(4)), Some(ActiveReason::Failures));
        assert_eq!(needs_active(&ActiveFacts { cache_nice_tries: 2, ..failed(4) }), None);
        for migration in [MigrationType::Load, MigrationType::Util] {
            assert_eq!(super::needs_active(&failed(99), migration), None);
        }
        assert_eq!(
            needs_active(&ActiveFacts { pass: PassKind::Newidle, ..failed(4) }),
            Some(ActiveReason::Failures),
            "a newidle pass counts no failure but may act on those of others"
        );
    }

    #[test]
    fn a_disturbed_cpu_gives_its_only_task_to_an_idle_one() {
        let needs_active = |f: &ActiveFacts| super::needs_active(f, MigrationType::Load);
        let f = ActiveFacts { src_capacity: 875, ..FACTS };
        assert_eq!(needs_active(&f), Some(ActiveReason::ReducedCapacity));
        assert_eq!(needs_active(&ActiveFacts { src_capacity: 876, ..f }), None, "876 * 117 is 102492");
        assert_eq!(needs_active(&ActiveFacts { pass: PassKind::Busy, ..f }), None);
        assert_eq!(needs_active(&ActiveFacts { src_h_nr_running: 2, ..f }), None);
        assert_eq!(needs_active(&ActiveFacts { dst_capacity: 1023, ..f }), None, "little would be won");
        assert_eq!(needs_active(&ActiveFacts { src_capacity_orig: 875, ..f }), None, "small, not disturbed");
    }

    #[test]
    fn a_misfit_is_pushed_at_once() {
        let f = ActiveFacts { nr_balance_failed: 0, ..FACTS };
        assert_eq!(needs_active(&f, MigrationType::Misfit), Some(ActiveReason::Misfit));
    }

    #[test]
    fn balanced_domains_back_off_except_by_newidle() {
        let balanced = PassOutcome::Balanced { all_pinned: false };
        assert_eq!(after(PassKind::Idle, 112, balanced, false), (224, 0));
        assert_eq!(after(PassKind::Busy, 224, balanced, false), (224, 0));
        assert_eq!(after(PassKind::Newidle, 112, balanced, false), (112, 0), "but the count is cleared");
        let pinned = PassOutcome::Balanced { all_pinned: true };
        assert_eq!(after(PassKind::Idle, 500, pinned, false), (1000, 0));
        assert_eq!(after(PassKind::Idle, 512, pinned, false), (512, 0));
        assert_eq!(after(PassKind::Newidle, 112, pinned, false), (112, 0));
    }

    #[test]
    fn an_imbalance_brings_the_domain_back_soon_and_failures_stand() {
        for pass in [PassKind::Idle, PassKind::Newidle] {
            assert_eq!(after(pass, 224, PassOutcome::Moved, false), (112, 0));
            for active in [Active::NotDue, Active::UnderWay, Active::Started] {
                assert_eq!(after(pass, 224, PassOutcome::Failed(active), false), (112, 7), "{active:?}");
            }
        }
    }

    #[test]
    fn a_pinned_running_task_backs_off_further_if_it_is_alone() {
        let pinned = PassOutcome::Failed(Active::Pinned);
        assert_eq!(after(PassKind::Idle, 224, pinned, true), (448, 7));
        assert_eq!(after(PassKind::Idle, 224, pinned, false), (224, 7));
        assert_eq!(after(PassKind::Idle, 112, pinned, false), (224, 7));
        assert_eq!(after(PassKind::Newidle, 112, pinned, true), (112, 7));
    }
}
