//! The cause of a stretch: the event at its first instant. Either a task was queued while a CPU was free, or a CPU
//! became free while a task waited.

use super::world::{Freed, Queued};
use schedlab_base::CpuId;
use schedlab_trace::{BalanceReason, ExtQueue, SkipReason};

schedlab_trace::reasons! {
    /// Kinds of causes.
    CauseKind {
        Placed = "placed", "a wakeup or fork queued it on a busy CPU while another was idle";
        Preempted = "preempted", "it lost its CPU while another was idle";
        Moved = "moved", "a move queued it on a busy CPU while another was idle";
        NewidleSkipped = "newidle_skipped", "a CPU went idle and did not look for work";
        NewidleFailed = "newidle_failed", "a CPU went idle, looked, and did not take it";
        OutOfReach = "out_of_reach", "a CPU went idle and looked, but not as far as its CPU";
        Untried = "untried", "a CPU became idle without an occasion to look for work";
        IntoDsq = "into_dsq", "sched_ext: it was put where no CPU's local queue is, while a CPU was idle";
        LeftInDsq = "left_in_dsq", "sched_ext: a CPU went idle and did not take it";
        WentIdle = "went_idle", "a CPU went idle; whether it looked for the task is not known";
    }
}

/// A cause, with the reason of the decision.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Cause {
    pub kind: CauseKind,
    /// The decision's reason: its name and explanation.
    pub reason: Option<(&'static str, &'static str)>,
}

/// An attempt of a CPU before it went idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Attempt {
    /// A pass over a domain.
    Pass(u8, BalanceReason),
    /// Balancing was skipped at this domain and those above.
    Skip(SkipReason),
}

impl Cause {
    fn new(kind: CauseKind, name: &'static str, about: &'static str) -> Cause {
        Cause { kind, reason: Some((name, about)) }
    }

    /// The cause when a task is in a dispatch queue of sched_ext that is not a CPU's own.
    pub(super) fn shared(kind: CauseKind, queue: ExtQueue) -> Cause {
        Cause::new(kind, queue.name(), queue.about())
    }
    /// The cause when a task is queued while a CPU is free.
    pub(super) fn queued(how: Queued) -> Cause {
        match how {
            Queued::Placed(Some(why)) => Cause::new(CauseKind::Placed, why.name(), why.about()),
            Queued::Placed(None) => Cause { kind: CauseKind::Placed, reason: None },
            Queued::Moved(why) => Cause::new(CauseKind::Moved, why.name(), why.about()),
            Queued::Preempted(why) => Cause::new(CauseKind::Preempted, why.name(), why.about()),
        }
    }

    /// The cause when a CPU becomes free while a task waits on `on`. `attempts` are that CPU's attempts before, `None`
    /// if the source does not report them; `spans` says whether the CPU's domain of a level holds a CPU. The highest
    /// pass that reached the task explains most; without one, the reason to search no further does.
    pub(super) fn freed(
        how: Freed,
        attempts: Option<&[Attempt]>,
        on: CpuId,
        spans: impl Fn(u8, CpuId) -> bool,
    ) -> Cause {
        let untried = Cause { kind: CauseKind::Untried, reason: None };
        if how == Freed::Emptied {
            return untried;
        }
        let Some(attempts) = attempts else { return Cause { kind: CauseKind::WentIdle, reason: None } };
        let reached = attempts.iter().rev().find_map(|a| match a {
            Attempt::Pass(level, why) if spans(*level, on) => Some(*why),
            _ => None,
        });
        let skipped = attempts.iter().rev().find_map(|a| match a {
            Attempt::Skip(why) => Some(*why),
            Attempt::Pass(..) => None,
        });
        match (reached, skipped) {
            (Some(why), _) => Cause::new(CauseKind::NewidleFailed, why.name(), why.about()),
            (None, Some(why)) => Cause::new(CauseKind::NewidleSkipped, why.name(), why.about()),
            (None, None) if attempts.is_empty() => untried,
            (None, None) => Cause { kind: CauseKind::OutOfReach, reason: None },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_trace::PlaceReason;

    fn of(attempts: &[Attempt]) -> (&'static str, Option<&'static str>) {
        // Domain 0 holds CPU 1; domain 1 also holds CPU 4.
        let spans = |level: u8, cpu: CpuId| cpu.0 <= 1 || level > 0;
        let cause = Cause::freed(Freed::WentIdle, Some(attempts), CpuId(4), spans);
        (cause.kind.name(), cause.reason.map(|(name, _)| name))
    }

    #[test]
    fn the_pass_that_reached_the_task_explains_first_then_the_end_of_the_climb() {
        let (low, high) = (Attempt::Pass(0, BalanceReason::NoBusiest), Attempt::Pass(1, BalanceReason::Hot));
        let dear = Attempt::Skip(SkipReason::TooDear);
        assert_eq!(of(&[low, high]), ("newidle_failed", Some("hot")));
        assert_eq!(of(&[low, high, dear]), ("newidle_failed", Some("hot")));
        assert_eq!(of(&[low, dear]), ("newidle_skipped", Some("too_dear")));
        assert_eq!(of(&[low]), ("out_of_reach", None));
        assert_eq!(of(&[]), ("untried", None));
    }

    #[test]
    fn a_task_queued_while_a_cpu_is_free_gives_the_reason() {
        let cause = Cause::queued(Queued::Placed(Some(PlaceReason::TargetBusy)));
        assert_eq!((cause.kind.name(), cause.reason.unwrap().0), ("placed", "target_busy"));
        let freed = |how, attempts| Cause::freed(how, attempts, CpuId(0), |_, _| true).kind;
        assert_eq!(freed(Freed::Emptied, Some(&[])), CauseKind::Untried);
        assert_eq!(freed(Freed::WentIdle, None), CauseKind::WentIdle, "nobody says what it tried");
    }

    #[test]
    fn kinds_have_different_names() {
        let names: std::collections::BTreeSet<_> = CauseKind::ALL.iter().map(|k| k.name()).collect();
        assert_eq!(names.len(), CauseKind::ALL.len());
    }
}
