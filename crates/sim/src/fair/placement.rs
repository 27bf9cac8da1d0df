//! place_entity: where a new or waking entity starts on a queue (kernels 2.6.32 to 6.5).
//!
//! A sleeper is credited: it may start up to half a latency period (GENTLE_FAIR_SLEEPERS; a whole one without) to the
//! left of min_vruntime, but never to the left of its own vruntime, so that credit is capped and never accumulates.

/// What placement depends on.
#[derive(Clone, Copy, Debug)]
pub struct Facts {
    /// `min_vruntime` of the destination queue.
    pub min_vruntime: i64,
    /// The entity's own vruntime, absolute for the destination queue.
    pub own_vruntime: i64,
    /// sched_latency, scaled, ns.
    pub latency_ns: u64,
    /// GENTLE_FAIR_SLEEPERS.
    pub gentle: bool,
    /// The entity is idle-policy: its credit is `min_granularity_ns` (6.1), else `None`.
    pub idle_threshold_ns: Option<u64>,
}

/// vruntime of an entity that wakes up.
pub fn wakeup(f: Facts) -> i64 {
    let whole = f.idle_threshold_ns.unwrap_or(f.latency_ns);
    let credit = if f.gentle { whole / 2 } else { whole };
    f.own_vruntime.max(f.min_vruntime - credit as i64)
}

/// vruntime of a new task: one virtual slice to the right with START_DEBIT.
pub fn initial(f: Facts, vslice_ns: u64, start_debit: bool) -> i64 {
    f.own_vruntime.max(f.min_vruntime + if start_debit { vslice_ns as i64 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;
    const F: Facts = Facts {
        min_vruntime: 100 * MS,
        own_vruntime: 0,
        latency_ns: 24_000_000,
        gentle: true,
        idle_threshold_ns: None,
    };

    #[test]
    fn a_long_sleeper_gets_half_a_period() {
        assert_eq!(wakeup(F), 88 * MS);
        assert_eq!(wakeup(Facts { gentle: false, ..F }), 76 * MS);
    }

    #[test]
    fn a_short_sleeper_keeps_its_own_vruntime() {
        assert_eq!(
            wakeup(Facts { own_vruntime: 95 * MS, ..F }),
            95 * MS,
            "not pulled forward to min_vruntime"
        );
        assert_eq!(wakeup(Facts { own_vruntime: 130 * MS, ..F }), 130 * MS, "credit never pulls back");
    }

    #[test]
    fn a_new_task_starts_a_slice_to_the_right() {
        assert_eq!(initial(F, 3_000_000, true), 103 * MS);
        assert_eq!(initial(F, 3_000_000, false), 100 * MS);
    }
}
