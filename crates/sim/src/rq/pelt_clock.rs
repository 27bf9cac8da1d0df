//! The clock of a CPU's load averages (`clock_pelt`, `lost_idle_time`; 5.1, read in 6.1.192).
//!
//! While a CPU of less than full capacity runs a task, the clock is slower in proportion. So an average says what a
//! fastest CPU would have had to do. When the CPU goes idle, its clock catches up, and the averages decay. If the CPU
//! had no idle time left at all, what its clock lags behind is lost.

use crate::balance::capacity::SCALE;
use crate::system::System;
use schedlab_base::CpuId;

/// How far a CPU's clock is behind.
#[derive(Clone, Copy, Debug, Default)]
pub struct PeltLag {
    /// Time that will not be caught up with, ns.
    lost_ns: u64,
    /// Since when the CPU runs tasks without a pause, ns; `None`: it is idle.
    busy_since: Option<u64>,
}

impl PeltLag {
    /// The lag at `now` of a CPU with that capacity, ns.
    #[inline]
    fn at(&self, now: u64, capacity: u64) -> u64 {
        self.lost_ns + self.catchable(now, capacity)
    }
    /// The part of it that the next idle time makes up for.
    #[inline]
    fn catchable(&self, now: u64, capacity: u64) -> u64 {
        self.busy_since.map_or(0, |since| (now - since) * (SCALE - capacity) / SCALE)
    }
    /// The CPU begins to run tasks.
    fn busy(&mut self, now: u64) {
        self.busy_since.get_or_insert(now);
    }
    /// It goes idle; `saturated`: its averages leave no idle time to catch up in.
    fn idle(&mut self, now: u64, capacity: u64, saturated: bool) {
        if saturated {
            self.lost_ns += self.catchable(now, capacity);
        }
        self.busy_since = None;
    }
}

impl System<'_> {
    /// The clock of a CPU's load averages, ns.
    #[inline]
    pub fn cpu_pelt_clock(&self, cpu: CpuId) -> u64 {
        if !self.fixed.scales_time {
            return self.now;
        }
        self.now - self.pelt_lag[cpu].at(self.now, self.fixed.speed[cpu])
    }

    /// The capacity that a running task counts with in utilisation: 1024 where the clock is scaled instead.
    #[inline]
    pub fn util_share(&self, cpu: CpuId) -> u64 {
        if self.fixed.scales_time { SCALE } else { self.fixed.speed[cpu] }
    }

    /// A CPU is about to run a task after an idle time, or the other way round.
    pub fn switch_pelt_clock(&mut self, cpu: CpuId, to_task: bool) {
        if !self.fixed.scales_time {
            return;
        }
        let (now, capacity) = (self.now, self.fixed.speed[cpu]);
        if to_task {
            return self.pelt_lag[cpu].busy(now);
        }
        let saturated = self.queues[self.root(cpu)].avg.is_saturated(self.rt[cpu].taken.util_sum());
        self.pelt_lag[cpu].idle(now, capacity, saturated);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_cpus_clock_catches_up_when_it_goes_idle_unless_it_was_full() {
        let mut lag = PeltLag::default();
        lag.busy(1000);
        assert_eq!((lag.at(3000, 512), lag.at(3000, 1024)), (1000, 0));
        lag.busy(2000);
        lag.idle(3000, 512, false);
        assert_eq!(lag.at(9000, 512), 0);
        lag.busy(10_000);
        lag.idle(12_000, 512, true);
        assert_eq!(lag.at(20_000, 512), 1000);
        lag.busy(20_000);
        assert_eq!(lag.at(20_100, 512), 1050);
    }
}
