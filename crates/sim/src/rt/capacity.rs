//! The time that real-time tasks take of a CPU, and the capacity left for fair ones (`scale_rt_capacity`).
//!
//! Since 4.19 it is an average like that of load (`avg_rt`). Before, it is time on the CPU, halved every half second
//! (`rt_avg`, `sched_time_avg_ms`). Kernels before 2.6.32 do not reduce the capacity.

use crate::balance::capacity::SCALE;
use crate::pelt::Pelt;

/// Half of sched_time_avg, ns (`sched_avg_period`).
const HALF_LIFE_NS: u64 = 500_000_000;

/// Time taken by real-time tasks.
#[derive(Clone, Copy, Debug, Default)]
pub struct TakenTime {
    avg: Pelt,
    /// Time for which they ran, ns, halved each half second (before 4.19).
    sum_ns: u64,
    /// Time of the last halving, ns.
    aged_at: u64,
}

impl TakenTime {
    /// The average `util` at `now`.
    pub(crate) fn known(util: u64, now: u64) -> TakenTime {
        let avg = Pelt { last_update_ns: now, util_avg: util, ..Pelt::default() };
        TakenTime { avg, ..TakenTime::default() }
    }
    /// Updates the average to `now`; `share`: the capacity that a real-time task has used since the last update, 0 if
    /// none ran.
    pub fn update(&mut self, now: u64, share: u64) {
        self.avg.update_by(now, u64::from(share > 0), 0, share);
    }

    /// The sum behind the average.
    pub fn util_sum(&self) -> u64 {
        self.avg.util_sum
    }

    /// Real-time tasks have run for `delta_ns`, up to `now`.
    pub fn charge(&mut self, now: u64, delta_ns: u64) {
        self.age(now);
        self.sum_ns += delta_ns;
    }

    fn age(&mut self, now: u64) {
        while now.saturating_sub(self.aged_at) > HALF_LIFE_NS {
            self.aged_at += HALF_LIFE_NS;
            self.sum_ns /= 2;
        }
    }

    /// The rest of a capacity at `now`, by the average; at least 1.
    pub fn left(mut self, capacity: u64, now: u64, share: u64) -> u64 {
        self.update(now, share);
        capacity.saturating_sub(self.avg.util_avg).max(1)
    }

    /// The same by time (before 4.19): the part of the last half to whole second without real-time tasks.
    pub fn left_by_time(mut self, capacity: u64, now: u64) -> u64 {
        self.age(now);
        let total = HALF_LIFE_NS + now.saturating_sub(self.aged_at);
        let available = total.saturating_sub(self.sum_ns);
        (capacity * (available * SCALE / total) / SCALE).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn real_time_tasks_that_run_all_the_time_leave_no_capacity() {
        let mut taken = TakenTime::default();
        (0..400).for_each(|ms| taken.update(ms * MS, SCALE));
        assert!(taken.left(1024, 400 * MS, SCALE) < 10);
        assert!(taken.left(1024, 432 * MS, 0) > 500, "it comes back with a half-life of 32 ms");
        let mut slow = TakenTime::default();
        (0..400).for_each(|ms| slow.update(ms * MS, 446));
        assert!(slow.left(1024, 400 * MS, 446) > 1024 - 447, "a slow CPU gives no more than it has");
    }

    #[test]
    fn before_4_19_time_counts_for_half_a_second() {
        let mut taken = TakenTime::default();
        taken.charge(400 * MS, 200 * MS);
        assert_eq!(taken.left_by_time(1024, 500 * MS), 1024 * 4 / 5, "200 ms of the last 1000");
        assert_eq!(taken.left_by_time(1024, 1100 * MS), 1024 - 1024 * 50 / 600 - 1, "half, and half again");
    }
}
