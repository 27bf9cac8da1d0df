//! Counts scaled to the whole time: counters take turns if a CPU has fewer registers than counters.
//!
//! The kernel reports how long a counter was enabled, and how long it had a register (PERF_FORMAT_TOTAL_TIME_*). The
//! count is extrapolated to the whole time, and a warning says so.

/// One counter, as read from the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Reading {
    pub count: u64,
    /// How long it was enabled while its task ran, ns.
    pub enabled_ns: u64,
    /// How long of that time it had a register, ns.
    pub running_ns: u64,
}

#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Scaled {
    /// Counted all the time.
    Whole(u64),
    /// The extrapolated count, and the share of the time in which it was counted, per cent.
    Stretched(u64, f64),
    /// It never had a register.
    Never,
}

impl Reading {
    /// The sum: the same counter on two CPUs.
    pub fn plus(self, o: Reading) -> Reading {
        Reading {
            count: self.count + o.count,
            enabled_ns: self.enabled_ns + o.enabled_ns,
            running_ns: self.running_ns + o.running_ns,
        }
    }
    /// The count for the whole time. A counter that was never enabled, because no task ran, counted 0.
    pub fn scaled(self) -> Scaled {
        let Reading { count, enabled_ns, running_ns } = self;
        match running_ns {
            0 if enabled_ns > 0 => Scaled::Never,
            r if r >= enabled_ns => Scaled::Whole(count),
            r => {
                let (count, enabled, running) = (u128::from(count), u128::from(enabled_ns), u128::from(r));
                let whole = (count * enabled + running / 2) / running;
                let share = 100.0 * r as f64 / enabled_ns as f64;
                Scaled::Stretched(u64::try_from(whole).unwrap_or(u64::MAX), share)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reading(count: u64, enabled_ns: u64, running_ns: u64) -> Scaled {
        Reading { count, enabled_ns, running_ns }.scaled()
    }

    #[test]
    fn a_counter_that_took_turns_is_extrapolated_with_a_warning() {
        assert_eq!(reading(7, 100, 100), Scaled::Whole(7));
        assert_eq!(reading(1_000, 100, 25), Scaled::Stretched(4_000, 25.0));
        assert_eq!(reading(10, 3, 2), Scaled::Stretched(15, 200.0 / 3.0));
        assert_eq!(reading(0, 100, 0), Scaled::Never);
        assert_eq!(reading(0, 0, 0), Scaled::Whole(0));
        assert_eq!(reading(u64::MAX, 2, 1), Scaled::Stretched(u64::MAX, 50.0));
    }

    #[test]
    fn cpus_are_summed_before_they_are_stretched() {
        let a = Reading { count: 100, enabled_ns: 10, running_ns: 10 };
        let b = Reading { count: 100, enabled_ns: 30, running_ns: 10 };
        assert_eq!(a.plus(b).scaled(), Scaled::Stretched(400, 50.0));
    }

    proptest! {
        #[test]
        fn stretching_never_makes_less(count in 0u64..1 << 50, enabled in 1u64..1 << 40, part in 1u64..1 << 40) {
            let running = part.min(enabled);
            match reading(count, enabled, running) {
                Scaled::Whole(n) => prop_assert!(n == count && running == enabled),
                Scaled::Stretched(n, share) => prop_assert!(n >= count && share > 0.0 && share < 100.0),
                Scaled::Never => prop_assert!(false),
            }
        }
    }
}
