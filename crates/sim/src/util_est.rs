//! Utilisation estimated at dequeue (`util_est`, 4.17+), from a task's utilisation when it went to sleep.
//!
//! PELT forgets a task's demand while it sleeps and learns it again when it wakes; the estimate bridges that. Unit:
//! 1024 is one CPU. A runqueue sums the estimates of its runnable tasks. Mirrors fair.c of 6.1, 6.12 and 7.3, with the
//! immediate rise (UTIL_EST_FASTUP) of 5.5 and later; nothing here reads the estimates of earlier kernels.

use schedlab_kernel::History;

/// A smaller difference, about 1 % of a CPU, is ignored.
const MARGIN: u64 = 1024 / 100;

/// How the estimate follows utilisation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EstimateRule {
    /// The last sleep's utilisation is kept as well as the average, and the larger of the two counts (4.17).
    WithLast,
    /// Only the average; a task that also waited, and so ran less than it would have, does not lower it (6.8).
    Alone,
    /// The same, regardless of the CPU's capacity (7.3).
    AloneOnAnyCpu,
}

impl EstimateRule {
    pub fn of(history: &History) -> EstimateRule {
        match (history.util_est_alone, history.util_est_on_any_cpu) {
            (false, _) => EstimateRule::WithLast,
            (true, false) => EstimateRule::Alone,
            (true, true) => EstimateRule::AloneOnAnyCpu,
        }
    }
}

/// Facts about a task that goes to sleep.
#[derive(Clone, Copy, Debug)]
pub struct SleepFacts {
    pub util_avg: u64,
    pub runnable_avg: u64,
    pub capacity: u64,
}

/// The estimate of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UtilEst {
    /// Utilisation when it last went to sleep; 0 if only the average is kept.
    pub enqueued: u64,
    /// Average of that over its sleeps: it rises at once, and falls by a quarter of the difference.
    pub ewma: u64,
    /// Whether `util_avg` is unchanged since the last sleep, so that the estimate already includes it.
    pub unchanged: bool,
}

impl UtilEst {
    /// The task goes to sleep (`util_est_update`).
    ///
    /// Within the margin the average stays; `enqueued`, before 6.8, changes if it differs by more. Above the CPU's
    /// capacity the average is not lowered: the value then says more about the CPU than about the task. Of several
    /// sleeps within one PELT period the first counts.
    pub fn sleep(&mut self, rule: EstimateRule, facts: SleepFacts) {
        let util_avg = facts.util_avg;
        if self.unchanged {
            return;
        }
        let with_last = rule == EstimateRule::WithLast;
        let ewma = match () {
            () if self.ewma < util_avg || (self.ewma == util_avg && !with_last) => util_avg,
            () if self.ewma - util_avg < MARGIN => {
                if with_last && self.enqueued.abs_diff(util_avg) < MARGIN {
                    return;
                }
                self.ewma
            }
            () if util_avg > facts.capacity && rule != EstimateRule::AloneOnAnyCpu => return,
            () if !with_last && util_avg + MARGIN < facts.runnable_avg => self.ewma,
            () => (self.ewma * 3 + util_avg) / 4,
        };
        *self = UtilEst { enqueued: if with_last { util_avg } else { 0 }, ewma, unchanged: true };
    }
    /// The value that the runqueue counts for the task while it is runnable.
    pub fn estimate(&self) -> u64 {
        self.enqueued.max(self.ewma)
    }
    /// The task's utilisation for placement: the larger of its current average and the estimate (`task_util_est`).
    pub fn task_util(&self, util_avg: u64) -> u64 {
        util_avg.max(self.estimate())
    }
}

/// A CPU's utilisation: the larger of the runqueue's average and the estimates of its runnable tasks, at most the
/// capacity (`cpu_util_cfs`).
pub fn cpu_util(cfs_util_avg: u64, estimates: u64, capacity: u64) -> u64 {
    cfs_util_avg.max(estimates).min(capacity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn est(enqueued: u64, ewma: u64) -> UtilEst {
        UtilEst { enqueued, ewma, unchanged: false }
    }
    /// `enqueued` and `ewma` after a sleep.
    fn after(mut e: UtilEst, util_avg: u64, capacity: u64) -> (u64, u64) {
        e.sleep(EstimateRule::WithLast, SleepFacts { util_avg, runnable_avg: 1024, capacity });
        (e.enqueued, e.ewma)
    }

    #[test]
    fn up_at_once_and_down_by_a_quarter() {
        assert_eq!(after(UtilEst::default(), 400, 1024), (400, 400));
        assert_eq!(after(est(400, 400), 200, 1024), (200, 350));
        let e = est(200, 350);
        assert_eq!((e.estimate(), e.task_util(100), e.task_util(600)), (350, 350, 600));
        assert_eq!(est(500, 350).estimate(), 500);
    }

    #[test]
    fn small_changes_and_impossible_ones_are_ignored() {
        assert_eq!(after(est(398, 400), 391, 1024), (398, 400));
        assert_eq!(after(est(401, 400), 391, 1024), (391, 400), "ten from the last sleep's");
        assert_eq!(after(est(398, 400), 390, 1024), (390, 397), "ten from the average");
        assert_eq!(after(est(398, 400), 390, 389), (398, 400), "but above the capacity");
        assert_eq!(after(est(398, 400), 500, 389), (500, 500), "which is not asked on the way up");
    }

    #[test]
    fn many_sleeps_within_a_period_count_once() {
        let (mut e, rule) = (est(400, 400), EstimateRule::WithLast);
        let facts = SleepFacts { util_avg: 200, runnable_avg: 200, capacity: 1024 };
        e.sleep(rule, facts);
        assert!(e.unchanged);
        e.sleep(rule, facts);
        assert_eq!((e.enqueued, e.ewma), (200, 350));
        e.unchanged = false;
        e.sleep(rule, facts);
        assert_eq!((e.enqueued, e.ewma), (200, 312));
    }

    #[test]
    fn the_average_alone_is_not_lowered_by_a_task_that_waited() {
        let after = |rule, util_avg, runnable_avg| {
            let mut e = est(0, 400);
            e.sleep(rule, SleepFacts { util_avg, runnable_avg, capacity: 150 });
            (e.enqueued, e.ewma, e.unchanged)
        };
        use EstimateRule::{Alone, AloneOnAnyCpu};
        assert_eq!(after(Alone, 500, 900), (0, 500, true), "up at once");
        assert_eq!(after(Alone, 391, 391), (0, 400, true), "within the margin");
        assert_eq!(after(Alone, 100, 110), (0, 325, true));
        assert_eq!(after(Alone, 100, 111), (0, 400, true), "it waited");
        assert_eq!(after(Alone, 160, 160), (0, 400, false), "above the capacity");
        assert_eq!(after(AloneOnAnyCpu, 160, 160), (0, 340, true));
    }

    #[test]
    fn a_cpus_utilisation_is_bounded_by_its_capacity() {
        let at = [cpu_util(300, 200, 1024), cpu_util(100, 200, 1024), cpu_util(900, 1500, 1024)];
        assert_eq!(at, [300, 200, 1024]);
    }
}
