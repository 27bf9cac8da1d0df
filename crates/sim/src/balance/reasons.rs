//! Translates each generation's verdicts into rows of the table of reasons, and counts decisions that have no event.
//!
//! A pass states its reason in its event. Passes that were not begun and decisions of ticks are counted; sinks that ask
//! for details also get an event for each.

use super::average::busiest::Balanced;
use super::average::nohz::Kick;
use super::can_migrate::{Refusal, Stop};
use super::newidle_gate::Skip;
use super::nohz::NoKick;
use super::spare::busiest::Balanced as SpareBalanced;
use super::spare::imbalance::AmountRule;
use super::spare::nohz::Kick as SpareKick;
use crate::o1::busiest::Balanced as O1Balanced;
use schedlab_trace::{BalanceReason, KickReason, SkipReason};

/// Verdicts whose names are those of rows.
macro_rules! rows_of_the_same_names {
    ($($from:ident => $to:ident { $($name:ident)* })*) => {
        $(impl From<$from> for $to {
            fn from(why: $from) -> $to {
                match why {
                    $($from::$name => $to::$name,)*
                }
            }
        })*
    };
}

rows_of_the_same_names! {
    O1Balanced => BalanceReason { NoBusiest LocalBusier LocalAboveAverage WithinPct OneTask }
    Balanced => BalanceReason { NoBusiest LocalBusier LocalAboveAverage EnoughIdle WithinPct OneTask }
    Skip => SkipReason { ShortIdle NoOverload TooDear }
    Kick => KickReason { TwoTasks BusyCache ReducedCapacity Misfit }
    SpareKick => KickReason { TwoTasks BusyCache ReducedCapacity Misfit AveragesOnly NextBalance }
    NoKick => KickReason { Idle NobodyTickless TooEarly NothingToGive }
}

impl From<SpareBalanced> for BalanceReason {
    fn from(why: SpareBalanced) -> BalanceReason {
        match why {
            SpareBalanced::NoBusiest => BalanceReason::NoBusiest,
            SpareBalanced::LocalFuller => BalanceReason::LocalFuller,
            SpareBalanced::LocalBusier => BalanceReason::LocalBusier,
            SpareBalanced::LocalAboveAverage => BalanceReason::LocalAboveAverage,
            SpareBalanced::WithinPct => BalanceReason::WithinPct,
            SpareBalanced::BusyCpu => BalanceReason::BusyCpu,
            SpareBalanced::EnoughIdle => BalanceReason::EnoughIdle,
            SpareBalanced::SingleTask => BalanceReason::SingleTask,
            SpareBalanced::NothingToMove(how) => nothing_by(how),
        }
    }
}

/// The reason if a rule for the amount gives nothing to move.
fn nothing_by(how: AmountRule) -> BalanceReason {
    match how {
        AmountRule::NumaTolerated => BalanceReason::NumaTolerated,
        AmountRule::EvenTasks | AmountRule::EvenIdle => BalanceReason::SmallDifference,
        AmountRule::LocalBusier => BalanceReason::LocalBusier,
        AmountRule::LocalAboveAverage => BalanceReason::LocalAboveAverage,
        AmountRule::FillRoom => BalanceReason::NoRoom,
        // A disturbed task may have no load; the others except the last always ask for one task.
        AmountRule::Imbalanced
        | AmountRule::Disturbed
        | AmountRule::WaitingTask
        | AmountRule::SharedCore
        | AmountRule::Misfit
        | AmountRule::ToAverage => BalanceReason::TooLittle,
    }
}

impl From<Refusal> for BalanceReason {
    fn from(why: Refusal) -> BalanceReason {
        match why {
            Refusal::Delayed => BalanceReason::Delayed,
            Refusal::KernelThread | Refusal::Running | Refusal::Throttled => BalanceReason::Running,
            Refusal::Ineligible => BalanceReason::Ineligible,
            Refusal::NotAllowed => BalanceReason::Pinned,
            Refusal::Hot => BalanceReason::Hot,
            Refusal::TooHeavy { .. } => BalanceReason::TooHeavy,
        }
    }
}

/// Why a walk over a queue moved nothing: the refusal closest to a move, else the reason why the walk ended. Both are
/// `None` if the queue was not walked.
pub(super) fn walked_in_vain(refusal: Option<Refusal>, ended: Option<Stop>) -> BalanceReason {
    match (refusal, ended) {
        (Some(refusal), _) => refusal.into(),
        (None, Some(Stop::NothingWanted)) => BalanceReason::NothingWanted,
        (None, _) => BalanceReason::Emptied,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_in_vain_gives_the_refusal_closest_to_a_move() {
        let (heavy, last) = (Refusal::TooHeavy { hot: false }, Some(Stop::LastTask));
        let nearest = [Refusal::Running, heavy, Refusal::Hot, Refusal::NotAllowed].into_iter().max();
        assert_eq!(walked_in_vain(nearest, last), BalanceReason::TooHeavy);
        let nearest = [Refusal::NotAllowed, Refusal::Hot, Refusal::Running].into_iter().max();
        assert_eq!(walked_in_vain(nearest, last), BalanceReason::Hot);
        let nearest = [Refusal::NotAllowed, Refusal::Running].into_iter().max();
        assert_eq!(walked_in_vain(nearest, last), BalanceReason::Pinned);
        assert_eq!(walked_in_vain(Some(Refusal::Running), last), BalanceReason::Running);
        assert_eq!(walked_in_vain(None, Some(Stop::NothingWanted)), BalanceReason::NothingWanted);
        assert_eq!(walked_in_vain(None, last), BalanceReason::Emptied);
        assert_eq!(walked_in_vain(None, None), BalanceReason::Emptied, "it was not walked");
    }

    #[test]
    fn an_amount_of_0_gives_its_rule() {
        let of = |how| BalanceReason::from(SpareBalanced::NothingToMove(how));
        assert_eq!(of(AmountRule::FillRoom), BalanceReason::NoRoom);
        assert_eq!(of(AmountRule::ToAverage), BalanceReason::TooLittle);
        assert_eq!(of(AmountRule::EvenIdle), BalanceReason::SmallDifference);
        assert_eq!(of(AmountRule::NumaTolerated), BalanceReason::NumaTolerated);
    }
}
