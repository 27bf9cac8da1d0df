//! What the balancers' decisions are called: from each era's own verdicts to the rows of the reason table, and the
//! counters of decisions that no event tells.
//!
//! A pass tells its reason with its event. That no pass was begun, and what a tick decided, is counted; sinks that ask
//! for details get an event, too.

use super::busiest::Balanced;
use super::detach::{Refusal, Stop};
use super::newidle_gate::{EnterFacts, Skip};
use super::nohz::{Kick, NoKick};
use super::spare::busiest::Balanced as SpareBalanced;
use super::spare::imbalance::How;
use super::spare::nohz::Kick as SpareKick;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_trace::{ActiveReason, BalanceReason, EventKind, KickReason, SkipReason};

impl From<Balanced> for BalanceReason {
    fn from(why: Balanced) -> BalanceReason {
        match why {
            Balanced::NoBusiest => BalanceReason::NoBusiest,
            Balanced::LocalBusier => BalanceReason::LocalBusier,
            Balanced::LocalAboveAverage => BalanceReason::LocalAboveAverage,
            Balanced::EnoughIdle => BalanceReason::EnoughIdle,
            Balanced::WithinPct => BalanceReason::WithinPct,
            Balanced::OneTask => BalanceReason::OneTask,
        }
    }
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

/// Why a rule for the amount says that nothing should move.
fn nothing_by(how: How) -> BalanceReason {
    match how {
        How::NumaTolerated => BalanceReason::NumaTolerated,
        How::EvenTasks | How::EvenIdle => BalanceReason::SmallDifference,
        How::LocalBusier => BalanceReason::LocalBusier,
        How::LocalAboveAverage => BalanceReason::LocalAboveAverage,
        How::FillRoom => BalanceReason::NoRoom,
        // The first two always ask for one task.
        How::Imbalanced | How::WaitingTask | How::ToAverage => BalanceReason::TooLittle,
    }
}

impl From<Refusal> for BalanceReason {
    fn from(why: Refusal) -> BalanceReason {
        match why {
            Refusal::Running => BalanceReason::Running,
            Refusal::NotAllowed => BalanceReason::Pinned,
            Refusal::Hot => BalanceReason::Hot,
            Refusal::TooHeavy { .. } => BalanceReason::TooHeavy,
        }
    }
}

/// Why a walk over a queue moved nothing: the refusal that came nearest to a move, else why the walk ended. `None`: the
/// queue was not walked.
pub(super) fn walked_in_vain(refusal: Option<Refusal>, ended: Option<Stop>) -> BalanceReason {
    match (refusal, ended) {
        (Some(refusal), _) => refusal.into(),
        (None, Some(Stop::NothingWanted)) => BalanceReason::NothingWanted,
        (None, _) => BalanceReason::Emptied,
    }
}

impl From<Skip> for SkipReason {
    fn from(why: Skip) -> SkipReason {
        match why {
            Skip::ShortIdle => SkipReason::ShortIdle,
            Skip::NoOverload => SkipReason::NoOverload,
            Skip::TooDear => SkipReason::TooDear,
        }
    }
}

impl From<Kick> for KickReason {
    fn from(why: Kick) -> KickReason {
        match why {
            Kick::TwoTasks => KickReason::TwoTasks,
            Kick::BusyCache => KickReason::BusyCache,
            Kick::ReducedCapacity => KickReason::ReducedCapacity,
        }
    }
}

impl From<SpareKick> for KickReason {
    fn from(why: SpareKick) -> KickReason {
        match why {
            SpareKick::TwoTasks => KickReason::TwoTasks,
            SpareKick::BusyCache => KickReason::BusyCache,
            SpareKick::ReducedCapacity => KickReason::ReducedCapacity,
            SpareKick::AveragesOnly => KickReason::AveragesOnly,
        }
    }
}

impl From<NoKick> for KickReason {
    fn from(why: NoKick) -> KickReason {
        match why {
            NoKick::Idle => KickReason::Idle,
            NoKick::NobodyTickless => KickReason::NobodyTickless,
            NoKick::TooEarly => KickReason::TooEarly,
            NoKick::NothingToGive => KickReason::NothingToGive,
        }
    }
}

impl System<'_> {
    /// No pass is begun over a domain of `dst`.
    #[inline]
    pub(super) fn skip(&mut self, dst: CpuId, level: usize, why: SkipReason) {
        self.skip_for(dst, level, why, || (0, 0));
    }
    /// The same where two times were compared, ns: what there is, and what would be needed.
    #[inline]
    pub(super) fn skip_for(
        &mut self,
        dst: CpuId,
        level: usize,
        why: SkipReason,
        compared: impl FnOnce() -> (u64, u64),
    ) {
        self.stats.skips[why as usize] += 1;
        if self.tells {
            let short = |ns: u64| u32::try_from(ns).unwrap_or(u32::MAX);
            let (have_ns, need_ns) = compared();
            let (have_ns, need_ns) = (short(have_ns), short(need_ns));
            self.tell(dst, EventKind::Skip { level: level as u8, why, have_ns, need_ns });
        }
    }
    /// A CPU about to go idle does not look for work.
    #[inline]
    pub(super) fn skip_newidle(&mut self, dst: CpuId, why: Skip, f: &EnterFacts) {
        self.skip_for(dst, 0, why.into(), || match why {
            Skip::ShortIdle => (f.avg_idle_ns, f.migration_cost_ns),
            Skip::NoOverload => (0, 0),
            Skip::TooDear => (f.avg_idle_ns, f.lowest_cost_ns),
        });
    }
    /// A tick of `cpu` decided whether a tickless CPU is to balance.
    pub(super) fn kick_decided(&mut self, cpu: CpuId, why: KickReason, to: Option<CpuId>) {
        self.stats.kicks[why as usize] += 1;
        self.tell(cpu, EventKind::Kick { why, to });
    }
    /// A running task is to be pushed.
    pub(super) fn count_push(&mut self, why: ActiveReason) {
        self.stats.pushes[why as usize] += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_walk_in_vain_tells_the_refusal_that_came_nearest_to_a_move() {
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
    fn an_amount_of_nothing_tells_its_rule() {
        let of = |how| BalanceReason::from(SpareBalanced::NothingToMove(how));
        assert_eq!(of(How::FillRoom), BalanceReason::NoRoom);
        assert_eq!(of(How::ToAverage), BalanceReason::TooLittle);
        assert_eq!(of(How::EvenIdle), BalanceReason::SmallDifference);
        assert_eq!(of(How::NumaTolerated), BalanceReason::NumaTolerated);
    }
}
