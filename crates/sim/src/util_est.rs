//! Utilisation estimated at dequeue (`util_est`, 4.17+): what a task used when it last went to sleep.
//!
//! PELT forgets a task's demand while it sleeps and learns it anew when it wakes; the estimate bridges that. Unit: 1024
//! is one CPU. A runqueue sums the estimates of its runnable tasks. Mirrors 6.1 fair.c, with the rise at once
//! (UTIL_EST_FASTUP) of 5.5 and later.

/// A difference below about 1 % of a CPU is none.
const MARGIN: u64 = 1024 / 100;

/// The estimate of one task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UtilEst {
    /// Utilisation when it last went to sleep.
    pub enqueued: u64,
    /// Average of that over its sleeps: up at once, down by a quarter of the way.
    pub ewma: u64,
}

impl UtilEst {
    /// The task goes to sleep with this `util_avg`, on a CPU of this capacity.
    ///
    /// Near the average nothing changes but `enqueued`, and that by more than the margin only. Above the CPU's capacity
    /// the average is not lowered: the figure says more about the CPU than the task.
    pub fn sleep(&mut self, util_avg: u64, capacity: u64) {
        let before = self.enqueued;
        if self.ewma < util_avg {
            *self = UtilEst { enqueued: util_avg, ewma: util_avg };
        } else if self.ewma - util_avg < MARGIN {
            if before.abs_diff(util_avg) >= MARGIN {
                self.enqueued = util_avg;
            }
        } else if util_avg <= capacity {
            *self = UtilEst { enqueued: util_avg, ewma: (self.ewma * 3 + util_avg) / 4 };
        }
    }
    /// What a runqueue counts for the task while it is runnable.
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

    #[test]
    fn up_at_once_and_down_by_a_quarter() {
        let mut e = UtilEst::default();
        e.sleep(400, 1024);
        assert_eq!((e.enqueued, e.ewma), (400, 400));
        e.sleep(200, 1024);
        assert_eq!((e.enqueued, e.ewma, e.estimate()), (200, 350, 350));
        assert_eq!((e.task_util(100), e.task_util(600)), (350, 600));
    }

    #[test]
    fn small_changes_and_impossible_ones_are_ignored() {
        let mut e = UtilEst { enqueued: 398, ewma: 400 };
        e.sleep(391, 1024);
        assert_eq!(e, UtilEst { enqueued: 398, ewma: 400 });
        e.enqueued = 300;
        e.sleep(391, 1024);
        assert_eq!(e, UtilEst { enqueued: 391, ewma: 400 });
        e.sleep(390, 300);
        assert_eq!(
            e,
            UtilEst { enqueued: 391, ewma: 400 },
            "ten is beyond the margin, but above the capacity"
        );
    }

    #[test]
    fn a_cpus_utilisation_is_bounded_by_its_capacity() {
        assert_eq!(
            [cpu_util(300, 200, 1024), cpu_util(100, 200, 1024), cpu_util(900, 1500, 1024)],
            [300, 200, 1024]
        );
    }
}
