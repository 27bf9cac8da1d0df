//! Decides whether an idle CPU keeps its tick, and which stay its governor remembers. Times are ns.

use schedlab_kernel::History;

/// The facts that decide whether an idle CPU keeps its tick.
#[derive(Clone, Copy)]
pub struct Nap {
    /// Whether a short nap keeps the tick.
    short_keeps: bool,
    /// Whether the first halt keeps the tick if there is no choice of states.
    first_keeps: bool,
    /// Number of the machine's idle states.
    states: usize,
    /// The length of the nap that the governor predicts, ns.
    predicted_ns: u64,
    /// Whether the tick ended the last halt of this stay in the idle loop.
    by_tick: bool,
}

impl Nap {
    pub fn of(history: &History, states: usize, predicted_ns: u64, by_tick: bool) -> Nap {
        let (short_keeps, first_keeps) = (history.short_nap_keeps_tick, history.first_halt_keeps_tick);
        Nap { short_keeps, first_keeps, states, predicted_ns, by_tick }
    }
}

/// Whether an idle CPU keeps its tick: yes if it is expected back within one tick. If there is no choice of idle states
/// (a guest without an idle driver) the governor is not asked: the first halt keeps the tick, and the next one stops it
/// if the tick woke the CPU (`idle_call_stop_or_retain_tick`; 6.5 stopped it at once, which is not modelled).
pub fn keeps_tick(nap: Nap, tick_ns: u64) -> bool {
    if nap.first_keeps && nap.states < 2 {
        return !nap.by_tick;
    }
    nap.short_keeps && nap.predicted_ns < tick_ns
}

/// The stay that the governor remembers. A CPU that was woken only by the tick would have continued to sleep for an
/// unknown time. That counts as a stay of several ticks, so that a CPU that wrongly kept its tick stops it the next
/// time.
pub fn stayed(stay_ns: u64, by_tick: bool, tick_ns: u64) -> u64 {
    if by_tick { stay_ns.max(4 * tick_ns) } else { stay_ns }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;

    fn nap(version: &str, states: usize, us: u64, by_tick: bool) -> Nap {
        Nap::of(&History::of(Version::parse(version).unwrap()), states, us * 1000, by_tick)
    }

    #[test]
    fn without_a_choice_of_states_the_first_halt_keeps_the_tick_and_the_second_does_not() {
        let keeps = |v, states, by_tick| keeps_tick(nap(v, states, 1_000_000, by_tick), 4_000_000);
        for v in ["v6.1", "v6.18", "v7.3"] {
            assert_eq!([keeps(v, 0, false), keeps(v, 1, true)], [true, false], "{v}");
            assert!(!keeps(v, 2, false), "{v}: a governor knows better");
        }
        assert!(!keeps("v6.5", 1, false));
    }

    #[test]
    fn short_naps_keep_the_tick_since_4_17() {
        let keeps = |v: &str, us: u64| keeps_tick(nap(v, 3, us, false), 4_000_000);
        assert_eq!([keeps("v4.16", 50), keeps("v4.17", 50), keeps("v6.5", 3_999)], [false, true, true]);
        assert!(!keeps("v6.5", 4_000));
    }

    #[test]
    fn a_stay_that_only_the_tick_ended_counts_as_long() {
        assert_eq!(stayed(2_000_000, true, 4_000_000), 16_000_000);
        assert_eq!(stayed(2_000_000, false, 4_000_000), 2_000_000);
    }
}
