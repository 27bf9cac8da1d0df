//! The state of a domain after a pass: interval and failures (the end of `load_balance` and `load_balance_newidle`).
//!
//! In both kernels a newidle pass does not change the interval. 2.6.12 lengthens it by a millisecond after a failure,
//! and a balanced pass does not clear failures; 2.6.18 keeps it short until a running task is pushed.

use crate::balance::settle::{Active, Bounds, DomainState, PassOutcome};

/// Ends a pass. `early`: 2.6.12's rules.
pub fn settle(state: &mut DomainState, bounds: &Bounds, outcome: PassOutcome, newidle: bool, early: bool) {
    match (newidle, early) {
        (true, true) => {}
        (true, false) => {
            if !matches!(outcome, PassOutcome::Failed(_)) {
                state.nr_balance_failed = 0;
            }
        }
        (false, true) => settle_early(state, bounds, outcome),
        (false, false) => state.settle(bounds, outcome),
    }
}

fn settle_early(state: &mut DomainState, bounds: &Bounds, outcome: PassOutcome) {
    let may_grow = state.interval_ms < bounds.max_interval_ms;
    match outcome {
        PassOutcome::Moved => {
            *state = DomainState { interval_ms: bounds.min_interval_ms, nr_balance_failed: 0 }
        }
        PassOutcome::Balanced { .. } => state.interval_ms *= if may_grow { 2 } else { 1 },
        PassOutcome::Failed(active) => {
            state.interval_ms += u32::from(may_grow);
            if active != Active::NotDue {
                state.nr_balance_failed = bounds.cache_nice_tries;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { min_interval_ms: 1, max_interval_ms: 4, cache_nice_tries: 1 };
    const BALANCED: PassOutcome = PassOutcome::Balanced { all_pinned: false };

    fn after(outcome: PassOutcome, newidle: bool, early: bool) -> (u32, u32) {
        let mut state = DomainState { interval_ms: 2, nr_balance_failed: 3 };
        settle(&mut state, &BOUNDS, outcome, newidle, early);
        (state.interval_ms, state.nr_balance_failed)
    }

    #[test]
    fn a_failure_costs_2_6_12_a_millisecond_and_2_6_18_the_back_off() {
        let failed = PassOutcome::Failed(Active::NotDue);
        assert_eq!((after(failed, false, true), after(failed, false, false)), ((3, 3), (1, 3)));
        let pushed = PassOutcome::Failed(Active::Started);
        assert_eq!((after(pushed, false, true), after(pushed, false, false)), ((3, 1), (4, 2)));
    }

    #[test]
    fn a_balanced_pass_clears_failures_since_2_6_18() {
        assert_eq!((after(BALANCED, false, true), after(BALANCED, false, false)), ((4, 3), (4, 0)));
        assert_eq!(
            (after(PassOutcome::Moved, false, true), after(PassOutcome::Moved, false, false)),
            ((1, 0), (1, 0))
        );
        let pinned = PassOutcome::Balanced { all_pinned: true };
        let mut state = DomainState { interval_ms: 256, nr_balance_failed: 0 };
        settle(&mut state, &BOUNDS, pinned, false, false);
        assert_eq!(state.interval_ms, 512);
        settle(&mut state, &BOUNDS, pinned, false, false);
        assert_eq!(state.interval_ms, 512);
    }

    #[test]
    fn newidle_passes_do_not_change_the_interval() {
        for early in [true, false] {
            assert_eq!(after(BALANCED, true, early).0, 2);
            assert_eq!(after(PassOutcome::Moved, true, early).0, 2);
        }
        assert_eq!((after(BALANCED, true, true).1, after(BALANCED, true, false).1), (3, 0));
    }
}
