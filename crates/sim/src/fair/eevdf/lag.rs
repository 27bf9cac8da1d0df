//! Lag: the difference from its share that an entity keeps when it leaves a queue (`update_entity_lag`).

#[derive(Clone, Copy, Debug)]
pub struct LagLimit {
    pub slice_ns: u64,
    /// The longest slice in the queue, ns, if that is the limit (7.0+).
    pub longest_ns: Option<u64>,
    pub tick_ns: u64,
}

impl LagLimit {
    /// The largest lag, ns of the entity's time: two slices or a tick, whichever is longer. Since 7.0: the queue's
    /// longest slice plus a tick.
    pub fn real_ns(self) -> u64 {
        match self.longest_ns {
            Some(longest) => longest + self.tick_ns,
            None => (2 * self.slice_ns).max(self.tick_ns),
        }
    }
}

/// The lag of an entity at `vruntime` when virtual time is `time`.
pub fn lag(time: i64, vruntime: i64, limit: i64) -> i64 {
    (time - vruntime).clamp(-limit, limit)
}

/// The lag that a *delayed* entity keeps: with DELAY_ZERO it works off debt, but earns no credit.
pub fn after_delay(lag: i64, delay_zero: bool) -> i64 {
    if delay_zero { lag.min(0) } else { lag }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn the_limit_is_the_kernels() {
        let old = LagLimit { slice_ns: 1_400_000, longest_ns: None, tick_ns: 4 * MS };
        assert_eq!(old.real_ns(), 4_000_000, "a tick is more than two slices");
        assert_eq!(LagLimit { tick_ns: MS, ..old }.real_ns(), 2_800_000);
        assert_eq!(LagLimit { longest_ns: Some(3 * MS), ..old }.real_ns(), 7_000_000);
    }

    #[test]
    fn lag_is_clamped_both_ways() {
        assert_eq!([lag(10, 4, 5), lag(10, 6, 5), lag(4, 10, 5)], [5, 4, -5]);
    }

    #[test]
    fn a_delayed_entity_keeps_debt_but_no_credit() {
        assert_eq!([after_delay(7, true), after_delay(-7, true), after_delay(7, false)], [0, -7, 7]);
    }
}
