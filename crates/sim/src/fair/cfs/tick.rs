//! check_preempt_tick (kernels 2.6.27 to 6.5): whether the current entity may stay at this tick.

use schedlab_trace::SwitchReason;

/// The facts for the tick's decision; used only if more than one entity is on the queue.
#[derive(Clone, Copy, Debug)]
pub struct TickFacts {
    /// Real time since the current entity was picked, ns.
    pub ran_ns: u64,
    /// Whether only the slice decides (before 2.6.32).
    pub slice_only: bool,
    /// Its slice, real ns.
    pub slice_ns: u64,
    /// min_granularity, scaled, ns.
    pub min_granularity_ns: u64,
    /// Current vruntime minus the leftmost's, virtual ns.
    pub ahead_ns: i64,
}

/// The reason to switch, if there is one. As in the kernel, the virtual distance is compared with the real slice.
pub fn check(f: TickFacts) -> Option<SwitchReason> {
    if f.ran_ns > f.slice_ns {
        return Some(SwitchReason::TickSlice);
    }
    if f.slice_only || f.ran_ns < f.min_granularity_ns {
        return None;
    }
    (f.ahead_ns > f.slice_ns as i64).then_some(SwitchReason::TickBehind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const F: TickFacts = TickFacts {
        ran_ns: 8_000_000,
        slice_only: false,
        slice_ns: 8_000_000,
        min_granularity_ns: 3_000_000,
        ahead_ns: 0,
    };

    #[test]
    fn a_slice_must_be_exceeded_not_just_reached() {
        assert_eq!(check(F), None, "exactly at the tick: one more tick");
        assert_eq!(check(TickFacts { ran_ns: 8_000_001, ..F }), Some(SwitchReason::TickSlice));
    }

    #[test]
    fn early_kernels_look_at_nothing_but_the_slice() {
        let far = TickFacts { slice_only: true, ahead_ns: 1_000_000_000, ..F };
        assert_eq!(check(far), None);
        assert_eq!(check(TickFacts { ran_ns: 8_000_001, ..far }), Some(SwitchReason::TickSlice));
    }

    #[test]
    fn min_granularity_protects_from_the_leftmost() {
        let behind = TickFacts { ahead_ns: 8_000_001, ..F };
        assert_eq!(check(TickFacts { ran_ns: 2_999_999, ..behind }), None);
        assert_eq!(check(TickFacts { ran_ns: 3_000_000, ..behind }), Some(SwitchReason::TickBehind));
        assert_eq!(check(TickFacts { ran_ns: 3_000_000, ahead_ns: 8_000_000, ..behind }), None);
    }
}
