//! The state of a domain after a pass: interval and failure count.
//!
//! Mirrors the end of `load_balance` of 3.4 and 4.5. In these kernels newidle passes also double and reset the
//! interval, but do not count as failures.

use super::era::PassKind;

/// The longest interval of a domain whose tasks are all pinned, ms (`MAX_PINNED_INTERVAL`).
pub(super) const MAX_PINNED_MS: u32 = 512;

/// A CPU's state of a domain that passes change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DomainState {
    pub interval_ms: u32,
    /// Failed passes in a row.
    pub nr_balance_failed: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bounds {
    /// Interval after an imbalance, ms.
    pub min_interval_ms: u32,
    pub max_interval_ms: u32,
    /// Number of failures after which hot tasks move.
    pub cache_nice_tries: u32,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassOutcome {
    /// It was not this CPU's turn, or there was no busiest group, no busiest queue, or every queue was pinned
    /// (`lb_balanced`).
    Balanced {
        /// The last queue walked could give nothing because of affinity: the interval may grow to the pinned limit.
        all_pinned: bool,
    },
    Moved,
    /// A queue was found and nothing moved (`lb_failed`).
    Failed(Active),
}

/// The outcome of active balance after a failure.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Active {
    NotDue,
    /// The source's running task may not run on the destination.
    Pinned,
    /// Another CPU is already pushing a task of that source.
    UnderWay,
    Started,
}

impl DomainState {
    /// Counts a failure, before `needs_active` decides. Newidle passes are too frequent to count.
    pub fn count_failure(&mut self, pass: PassKind) {
        if pass != PassKind::Newidle {
            self.nr_balance_failed += 1;
        }
    }

    pub fn settle(&mut self, bounds: &Bounds, outcome: PassOutcome) {
        self.nr_balance_failed = match outcome {
            PassOutcome::Balanced { .. } | PassOutcome::Moved => 0,
            // One less than the number that starts active balance again, and enough for hot tasks to move.
            PassOutcome::Failed(Active::UnderWay | Active::Started) => bounds.cache_nice_tries + 1,
            PassOutcome::Failed(Active::NotDue | Active::Pinned) => self.nr_balance_failed,
        };
        let limit_ms = match outcome {
            PassOutcome::Moved | PassOutcome::Failed(Active::NotDue | Active::UnderWay) => {
                self.interval_ms = bounds.min_interval_ms;
                return;
            }
            PassOutcome::Balanced { all_pinned: true } | PassOutcome::Failed(Active::Pinned) => {
                bounds.max_interval_ms.max(MAX_PINNED_MS)
            }
            PassOutcome::Balanced { all_pinned: false } | PassOutcome::Failed(Active::Started) => {
                bounds.max_interval_ms
            }
        };
        if self.interval_ms < limit_ms {
            self.interval_ms *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds { min_interval_ms: 24, max_interval_ms: 48, cache_nice_tries: 1 };

    fn after(interval_ms: u32, nr_balance_failed: u32, outcome: PassOutcome) -> (u32, u32) {
        let mut s = DomainState { interval_ms, nr_balance_failed };
        s.settle(&BOUNDS, outcome);
        (s.interval_ms, s.nr_balance_failed)
    }

    #[test]
    fn balanced_domains_back_off_to_the_maximum() {
        let balanced = PassOutcome::Balanced { all_pinned: false };
        assert_eq!(after(24, 3, balanced), (48, 0));
        assert_eq!(after(48, 3, balanced), (48, 0));
    }

    #[test]
    fn pinned_domains_back_off_further() {
        let pinned = PassOutcome::Balanced { all_pinned: true };
        assert_eq!(after(48, 0, pinned), (96, 0));
        assert_eq!(after(400, 0, pinned), (800, 0), "below 512 still doubles");
        assert_eq!(after(512, 0, pinned), (512, 0));
        assert_eq!(after(48, 4, PassOutcome::Failed(Active::Pinned)), (96, 4), "failures stand");
    }

    #[test]
    fn an_imbalance_brings_the_domain_back_soon() {
        assert_eq!(after(48, 3, PassOutcome::Moved), (24, 0));
        assert_eq!(after(48, 3, PassOutcome::Failed(Active::NotDue)), (24, 3));
    }

    #[test]
    fn active_balance_leaves_hot_tasks_movable() {
        assert_eq!(after(24, 4, PassOutcome::Failed(Active::Started)), (48, 2), "and backs off");
        assert_eq!(after(48, 4, PassOutcome::Failed(Active::Started)), (48, 2));
        assert_eq!(after(48, 4, PassOutcome::Failed(Active::UnderWay)), (24, 2));
    }

    #[test]
    fn newidle_failures_are_not_counted() {
        let count = |pass| {
            let mut s = DomainState { interval_ms: 24, nr_balance_failed: 0 };
            s.count_failure(pass);
            s.nr_balance_failed
        };
        assert_eq!([PassKind::Idle, PassKind::Busy, PassKind::Newidle].map(count), [1, 1, 0]);
    }
}
