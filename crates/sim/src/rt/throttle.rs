//! Throttling: real-time tasks of a CPU run for at most 950 ms of each second (`sched_rt_runtime_us`, before 6.12).
//!
//! The time they run is charged to the CPU's share. If the charge exceeds the runtime they are throttled, and do not
//! count as runnable, until the end of a period subtracts a runtime from the charge. One timer serves all CPUs; it runs
//! while it is needed. With RT_RUNTIME_SHARE, and always before 3.2, a CPU first borrows time that the others have not
//! used, so that one CPU's task is hardly ever throttled on a large machine. A loan is repaid only when the feature is
//! switched off.
//!
//! Since 6.12 only groups of real-time tasks are throttled, and the fair server replaces the throttling of whole CPUs.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeriodShare {
    /// Time charged to real-time tasks (`rt_time`), ns.
    pub used_ns: u64,
    /// Time borrowed from others minus time lent, ns: `rt_runtime` is the tunable plus this.
    pub borrowed_ns: i64,
    /// Whether they have exceeded their runtime (`rt_throttled`).
    pub throttled: bool,
}

impl PeriodShare {
    /// `rt_runtime`, ns.
    pub(super) fn runtime(&self, runtime_ns: u64) -> u64 {
        runtime_ns.saturating_add_signed(self.borrowed_ns)
    }

    /// Ends a period: subtracts a runtime from the charge. Returns whether they are no longer throttled.
    pub fn end_period(&mut self, runtime_ns: u64) -> bool {
        let runtime = self.runtime(runtime_ns);
        self.used_ns -= self.used_ns.min(runtime);
        let freed = self.throttled && self.used_ns < runtime;
        self.throttled &= !freed;
        freed
    }
}

/// Time that a CPU with the runtime `own_ns` may borrow from one with `spare_ns` unused: an equal part for each CPU, up
/// to the period (`do_balance_runtime`).
pub fn borrowed(own_ns: u64, period_ns: u64, spare_ns: u64, nr_cpus: u64) -> u64 {
    (spare_ns / nr_cpus).min(period_ns.saturating_sub(own_ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_period_s_end_takes_a_runtime_off() {
        let mut s = PeriodShare { used_ns: 952 * MS, throttled: true, ..PeriodShare::default() };
        assert!(s.end_period(950 * MS));
        assert_eq!((s.used_ns, s.throttled), (2 * MS, false));
        let mut debtor = PeriodShare { used_ns: 2000 * MS, throttled: true, ..PeriodShare::default() };
        assert!(!debtor.end_period(950 * MS), "it has had more than a runtime still");
        assert!(debtor.end_period(950 * MS));
    }

    #[test]
    fn a_cpu_borrows_an_equal_part_and_no_more_than_the_period() {
        assert_eq!(borrowed(950 * MS, 1000 * MS, 950 * MS, 4), 50 * MS, "the whole second is had");
        assert_eq!(borrowed(950 * MS, 1000 * MS, 100 * MS, 4), 25 * MS);
        assert_eq!(borrowed(1000 * MS, 1000 * MS, 950 * MS, 4), 0);
    }
}
