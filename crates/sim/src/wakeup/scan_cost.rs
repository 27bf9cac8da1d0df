//! The cost of a CPU's scans for idle CPUs, and the idle time that SIS_PROP allows them (`wake_avg_idle` and
//! `avg_scan_cost` of the CPU's own cache domain; 4.9 to 6.6; read in 6.1). Times are ns; stamps are ticks.

/// A CPU's record of its scans.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ScanCost {
    /// Average duration of a scan (`avg_scan_cost`).
    pub average_ns: u64,
    /// Idle time available for scans when it was last sampled or spent (`wake_avg_idle`).
    idle_ns: u64,
    /// When that was (`wake_stamp`).
    stamp: u64,
}

impl ScanCost {
    /// At boot the whole average idle time is available.
    pub fn new(avg_idle_ns: u64) -> ScanCost {
        ScanCost { average_ns: 0, idle_ns: avg_idle_ns, stamp: 0 }
    }

    /// An idle period was sampled: half of the average idle time is for scans.
    pub fn sampled(&mut self, avg_idle_ns: u64, tick: u64) {
        (self.idle_ns, self.stamp) = (avg_idle_ns / 2, tick);
    }

    /// Time available for scans: halved with each tick in which the CPU was not idle.
    pub fn idle_left_ns(&self, tick: u64) -> u64 {
        self.idle_ns >> tick.saturating_sub(self.stamp).min(63)
    }

    /// A scan took `took_ns`: the average moves by an eighth of the difference, and the time is spent.
    pub fn spend(&mut self, took_ns: u64, tick: u64) {
        self.average_ns = match took_ns.checked_sub(self.average_ns) {
            Some(more) => self.average_ns + more / 8,
            None => self.average_ns - (self.average_ns - took_ns) / 8,
        };
        (self.idle_ns, self.stamp) = (self.idle_left_ns(tick).saturating_sub(took_ns), tick.max(self.stamp));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_for_scans_is_halved_by_ticks_and_spent_by_scans() {
        let mut s = ScanCost::new(1_000_000);
        s.sampled(400_000, 10);
        assert_eq!([10, 11, 12, 100].map(|tick| s.idle_left_ns(tick)), [200_000, 100_000, 50_000, 0]);
        s.spend(10_000, 12);
        assert_eq!((s.idle_left_ns(12), s.idle_left_ns(13)), (40_000, 20_000));
        s.spend(90_000, 12);
        assert_eq!(s.idle_left_ns(12), 0);
    }

    #[test]
    fn the_average_moves_an_eighth_of_the_way() {
        let mut s = ScanCost::new(0);
        s.spend(8_000, 0);
        assert_eq!(s.average_ns, 1_000);
        s.spend(200, 0);
        assert_eq!(s.average_ns, 900);
    }
}
