//! The lag of the clock of a CPU's load averages ([`super::pelt_clock`]).

use crate::balance::capacity::SCALE;

#[derive(Clone, Copy, Debug, Default)]
pub struct PeltLag {
    /// Lag that will never be caught up, ns.
    lost_ns: u64,
    /// Since when the CPU has run tasks without a pause, ns; `None` if it is idle.
    busy_since: Option<u64>,
}

impl PeltLag {
    /// The lag at `now` of a CPU with this capacity, ns.
    #[inline]
    pub fn at(&self, now: u64, capacity: u64) -> u64 {
        self.lost_ns + self.catchable(now, capacity)
    }
    /// The part of it that the next idle time can catch up.
    #[inline]
    fn catchable(&self, now: u64, capacity: u64) -> u64 {
        self.busy_since.map_or(0, |since| (now - since) * (SCALE - capacity) / SCALE)
    }
    /// The CPU begins to run tasks.
    pub fn busy(&mut self, now: u64) {
        self.busy_since.get_or_insert(now);
    }
    /// The CPU goes idle; `saturated`: its averages leave no idle time in which to catch up.
    pub fn idle(&mut self, now: u64, capacity: u64, saturated: bool) {
        if saturated {
            self.lost_ns += self.catchable(now, capacity);
        }
        self.busy_since = None;
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
