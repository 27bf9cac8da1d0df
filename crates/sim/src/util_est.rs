//! Utilisation estimated at dequeue (`util_est`, 4.17+): the task's utilisation when it last went to sleep.
//!
//! PELT forgets a task's demand while it sleeps and learns it anew when it wakes; the estimate bridges that. Unit: 1024
//! is one CPU. A runqueue sums the estimates of its runnable tasks. Mirrors 6.5 fair.c, with the immediate rise
//! (UTIL_EST_FASTUP) of 5.5 and later; nothing here reads the estimates of earlier kernels.

/// A smaller difference, about 1 % of a CPU, counts as none.
const MARGIN: u64 = 1024 / 100;

/// The estimate of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UtilEst {
    /// Utilisation when it last went to sleep.
    pub enqueued: u64,
    /// Average of that over its sleeps: it rises at once, and falls by a quarter of the way.
    pub ewma: u64,
    /// `util_avg` has not been computed anew since the last sleep, so the estimate contains it already.
    pub unchanged: bool,
}

impl UtilEst {
    /// The task goes to sleep with this `util_avg`, on a CPU of this capacity.
    ///
    /// Near the average only `enqueued` changes, and only by more than the margin. Above the CPU's capacity the average
    /// is not lowered: the figure says more about the CPU than about the task. Of several sleeps within one PELT period
    /// the first counts.
    pub fn sleep(&mut self, util_avg: u64, capacity: u64) {
        if self.unchanged {
            return;
        }
        let ewma = match () {
            () if self.ewma < util_avg => util_avg,
            () if self.ewma - util_avg < MARGIN => {
                if self.enqueued.abs_diff(util_avg) < MARGIN {
                    return;
                }
                self.ewma
            }
            () if util_avg > capacity => return,
            () => (self.ewma * 3 + util_avg) / 4,
        };
        *self = UtilEst { enqueued: util_avg, ewma, unchanged: true };
    }
    /// The runqueue's count for the task while it is runnable.
    pub fn estimate(&self) -> u64 {
        self.enqueued.max(self.ewma)
    }
    /// The task's utilisation for placement: its present average or the estimate (`task_util_est`).
    pub fn task_util(&self, util_avg: u64) -> u64 {
        util_avg.max(self.estimate())
    }
}

/// A CPU's utilisation: the runqueue's average or the estimates of its runnable tasks, at most the capacity
/// (`cpu_util_cfs`).
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
        e.sleep(util_avg, capacity);
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
        let mut e = est(400, 400);
        e.sleep(200, 1024);
        assert!(e.unchanged);
        e.sleep(200, 1024);
        assert_eq!((e.enqueued, e.ewma), (200, 350));
        e.unchanged = false;
        e.sleep(200, 1024);
        assert_eq!((e.enqueued, e.ewma), (200, 312));
    }

    #[test]
    fn a_cpus_utilisation_is_bounded_by_its_capacity() {
        let at = [cpu_util(300, 200, 1024), cpu_util(100, 200, 1024), cpu_util(900, 1500, 1024)];
        assert_eq!(at, [300, 200, 1024]);
    }
}
