//! place_entity: where a new or waking entity starts on a queue (kernels 2.6.27 to 6.5).
//!
//! A sleeper gets a credit: it may start up to half a latency period (GENTLE_FAIR_SLEEPERS, 2.6.32; without it a whole
//! one) to the left of min_vruntime. It never starts to the left of its own vruntime, so credit is limited and never
//! accumulates. Before 2.6.39 NEW_FAIR_SLEEPERS may be switched off: the sleeper then starts at min_vruntime.

use crate::fair::slope::Slope;

#[derive(Clone, Copy, Debug)]
pub struct PlacementFacts {
    /// `min_vruntime` of the destination queue.
    pub min_vruntime: i64,
    /// The entity's own vruntime, absolute for the destination queue.
    pub own_vruntime: i64,
    /// sched_latency, scaled, ns.
    pub latency_ns: u64,
    /// Whether sleepers get a credit (NEW_FAIR_SLEEPERS, before 2.6.39).
    pub credited: bool,
    /// The weight in whose virtual time the credit counts, and its unit (NORMALIZED_SLEEPER, before 2.6.35); `None` for
    /// real time.
    pub normalized: Option<(Slope, u64)>,
    /// GENTLE_FAIR_SLEEPERS.
    pub gentle: bool,
    /// `min_granularity_ns` as the credit of an idle-policy entity (6.1), else `None`.
    pub idle_threshold_ns: Option<u64>,
}

/// vruntime of an entity that wakes up.
pub fn wakeup(f: PlacementFacts) -> i64 {
    if !f.credited {
        return f.own_vruntime.max(f.min_vruntime);
    }
    let whole = f.idle_threshold_ns.unwrap_or(f.latency_ns);
    let whole = f.normalized.map_or(whole, |(slope, unit)| slope.virtual_ns_in(whole, unit));
    let credit = if f.gentle { whole / 2 } else { whole };
    f.own_vruntime.max(f.min_vruntime - credit as i64)
}

/// vruntime of a new task: one virtual slice to the right with START_DEBIT.
pub fn initial(f: PlacementFacts, vslice_ns: u64, start_debit: bool) -> i64 {
    f.own_vruntime.max(f.min_vruntime + if start_debit { vslice_ns as i64 } else { 0 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::group::shares::FINE;

    const MS: i64 = 1_000_000;
    const F: PlacementFacts = PlacementFacts {
        min_vruntime: 100 * MS,
        own_vruntime: 0,
        latency_ns: 24_000_000,
        credited: true,
        normalized: None,
        gentle: true,
        idle_threshold_ns: None,
    };

    #[test]
    fn a_long_sleeper_gets_half_a_period() {
        assert_eq!(wakeup(F), 88 * MS);
        assert_eq!(wakeup(PlacementFacts { gentle: false, ..F }), 76 * MS);
    }

    #[test]
    fn without_fair_sleepers_a_sleeper_lands_level_with_the_queue() {
        let off = PlacementFacts { credited: false, gentle: false, ..F };
        assert_eq!(wakeup(off), 100 * MS);
        assert_eq!(
            wakeup(PlacementFacts { own_vruntime: 95 * MS, ..off }),
            100 * MS,
            "here it is pulled forward"
        );
        assert_eq!(wakeup(PlacementFacts { own_vruntime: 130 * MS, ..off }), 130 * MS);
    }

    #[test]
    fn a_normalized_credit_is_smaller_for_heavy_tasks() {
        let of = |weight: u64| {
            wakeup(PlacementFacts {
                gentle: false,
                normalized: Some((Slope::exact(weight * FINE), 1024)),
                ..F
            })
        };
        assert_eq!([of(1024), of(2048), of(512)], [76 * MS, 88 * MS, 52 * MS]);
    }

    #[test]
    fn a_short_sleeper_keeps_its_own_vruntime() {
        assert_eq!(
            wakeup(PlacementFacts { own_vruntime: 95 * MS, ..F }),
            95 * MS,
            "not pulled forward to min_vruntime"
        );
        assert_eq!(
            wakeup(PlacementFacts { own_vruntime: 130 * MS, ..F }),
            130 * MS,
            "credit never pulls back"
        );
    }

    #[test]
    fn a_new_task_starts_a_slice_to_the_right() {
        assert_eq!(initial(F, 3_000_000, true), 103 * MS);
        assert_eq!(initial(F, 3_000_000, false), 100 * MS);
    }
}
