//! What follows a pass that moved nothing, and what a pass leaves in its domain.
//!
//! Mirrors `need_active_balance` and the end of `load_balance` of 6.5. State, bounds and outcomes are those of
//! [`settle`](super::super::settle), and so are [`DomainState::count_failure`] (newidle does not count) and
//! `parent_flag` (as in 4.5). It differs from 4.5 in this:
//!
//! - too many failures push a running task only when *tasks* were to move;
//! - a newidle pass doubles no interval, since it does not wait for one;
//! - a started push leaves `nr_balance_failed` alone and the interval at its minimum (the reason for the push still
//!   stands when the end asks again). The stopper clears the count once it has moved a task, in the lowest domain of
//!   the destination that spans the source, and takes hot tasks whatever the count
//!   ([`Rules::active`](super::detach::Rules::active)).

use super::super::capacity::is_reduced;
use super::super::era::Pass;
use super::super::settle::{Active, ActiveWhy, Bounds, DomainState, MAX_PINNED_MS, Outcome};
use super::imbalance::MigrationType;

/// What active balance depends on, after a pass that moved nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ActiveFacts {
    /// The kind of pass.
    pub pass: Pass,
    /// What was to move.
    pub migration: MigrationType,
    /// The domain's failures, this one counted.
    pub nr_balance_failed: u32,
    /// The domain's `cache_nice_tries`.
    pub cache_nice_tries: u32,
    /// The domain's `imbalance_pct`.
    pub imbalance_pct: u32,
    /// Runnable fair tasks on the source.
    pub src_h_nr_running: u32,
    /// Capacity of the source.
    pub src_capacity: u64,
    /// Capacity of the source, undisturbed.
    pub src_capacity_orig: u64,
    /// Capacity of the destination.
    pub dst_capacity: u64,
}

/// Whether the source's running task should be pushed to the destination.
pub fn needs_active(f: &ActiveFacts) -> Option<ActiveWhy> {
    if f.migration == MigrationType::Task && f.nr_balance_failed > f.cache_nice_tries + 2 {
        return Some(ActiveWhy::Failures);
    }
    let alone = f.pass != Pass::Busy && f.src_h_nr_running == 1;
    let better = f.src_capacity * u64::from(f.imbalance_pct) < f.dst_capacity * 100;
    let reduced = is_reduced(f.src_capacity, f.src_capacity_orig, f.imbalance_pct);
    (alone && reduced && better).then_some(ActiveWhy::ReducedCapacity)
}

/// Ends a pass. `untested`: the source had a single task, so that no walk has shown that anything but affinity is in
/// the way; read for [`Active::Pinned`] only, which then backs off as far as an all-pinned domain.
pub fn settle(state: &mut DomainState, bounds: &Bounds, pass: Pass, outcome: Outcome, untested: bool) {
    if matches!(outcome, Outcome::Balanced { .. } | Outcome::Moved) {
        state.nr_balance_failed = 0;
    }
    let all_pinned = match outcome {
        Outcome::Moved | Outcome::Failed(Active::NotDue | Active::UnderWay | Active::Started) => {
            state.interval_ms = bounds.min_interval_ms;
            return;
        }
        Outcome::Balanced { all_pinned } => all_pinned,
        Outcome::Failed(Active::Pinned) => untested,
    };
    let limit_ms =
        if all_pinned { bounds.max_interval_ms.max(MAX_PINNED_MS) } else { bounds.max_interval_ms };
    if pass != Pass::Newidle && state.interval_ms < limit_ms {
        state.interval_ms *= 2;
    }
}
