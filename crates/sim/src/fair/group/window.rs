//! The load that a cfs_rq contributes to its group before 3.8: its weight, averaged over a window of 10 ms
//! (`update_cfs_load`, `update_cfs_rq_load_contribution`; 2.6.38 to 3.7, from memory).
//!
//! The average is a sum of weight times ns over a period in ns. Both are halved whenever the period exceeds the window.

/// The window (`sched_shares_window`), ns.
pub const WINDOW_NS: u64 = 10_000_000;

/// The average of one cfs_rq.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct LoadWindow {
    /// Weight times ns (`load_avg`).
    sum: u64,
    /// The time averaged over, ns (`load_period`).
    period_ns: u64,
    /// The last update, ns (`load_stamp`).
    stamp_ns: u64,
    /// The last update that found weight, ns (`load_last`).
    loaded_ns: u64,
}

impl LoadWindow {
    pub fn since_ns(&self, now_ns: u64) -> u64 {
        now_ns - self.stamp_ns
    }

    /// Accounts the time since the last update, in which the queue weighed `load`. Returns its new contribution to the
    /// group, given the present one. `push`: it is updated for any difference, as balancing requests.
    pub fn update(&mut self, now_ns: u64, load: u64, contribution: u64, push: bool) -> u64 {
        let mut delta = self.since_ns(now_ns);
        if self.stamp_ns > self.loaded_ns && now_ns - self.loaded_ns > 4 * WINDOW_NS {
            // Without weight for a long time: the history is dropped.
            (self.sum, self.period_ns) = (0, 0);
            delta = WINDOW_NS - 1;
        }
        self.stamp_ns = now_ns;
        self.period_ns += delta;
        if load > 0 {
            self.loaded_ns = now_ns;
            self.sum += delta * load;
        }
        let mut result = contribution;
        if push || self.period_ns > WINDOW_NS || self.period_ns == 0 {
            let average = self.sum / (self.period_ns + 1);
            let far = average.abs_diff(contribution) > contribution / 8;
            if push || far {
                result = average;
            }
        }
        while self.period_ns > WINDOW_NS {
            self.period_ns /= 2;
            self.sum /= 2;
        }
        result
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_steady_weight_is_its_own_average() {
        let mut w = LoadWindow::default();
        let mut contribution = 0;
        for ms in 1..40u64 {
            contribution = w.update(ms * 1_000_000, 1024, contribution, false);
        }
        assert!((1020..=1024).contains(&contribution), "{contribution}");
    }

    #[test]
    fn a_small_change_is_pushed_only_when_asked() {
        let mut w = LoadWindow::default();
        (1..30u64).for_each(|ms| _ = w.update(ms * 1_000_000, 1024, 0, false));
        let at = 30_000_000;
        assert_eq!(w.clone().update(at, 1024, 1000, false), 1000, "an eighth off at least");
        assert!(w.update(at, 1024, 1000, true) > 1000);
    }

    #[test]
    fn a_queue_that_was_empty_for_long_forgets() {
        let mut w = LoadWindow::default();
        (1..30u64).for_each(|ms| _ = w.update(ms * 1_000_000, 1024, 0, false));
        w.update(31_000_000, 0, 1024, false);
        assert_eq!(w.update(100_000_000, 0, 1024, true), 0);
    }
}
