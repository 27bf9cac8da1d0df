//! The cost of ticks, seen by a thread that only reads the clock: gaps in its time that come once per period.
//!
//! Not every gap is a tick: other tasks run, and a hypervisor takes the CPU away, periodically or not. Ticks are a
//! jiffy apart, so their gaps have the same phase within a jiffy. The phase that has gaps in most periods is theirs; in
//! each period only the longest gap near it counts. A few periods with other gaps do not change the median. The cost of
//! a tick is the thread's lost time: on a virtual machine it includes the exits to the hypervisor at both ends. Times
//! are ns.

use super::batches::Batches;
use crate::sys;

/// Shorter gaps are cache misses.
const SHORTEST_NS: u64 = 500;
/// Longer gaps belong to another task or the hypervisor.
const LONGEST_NS: u64 = 400_000;
/// A tick may begin this much before or after its phase, because its timer waits for other interrupts.
const NEAR_NS: u64 = 50_000;

/// A period without the thread.
#[derive(Clone, Copy)]
struct Gap {
    from_ns: u64,
    ns: u64,
}

/// The time of each tick, observed for `for_ns`; empty if no ticks are found.
pub(super) fn measure(for_ns: u64) -> Batches {
    let began = sys::monotonic_ns();
    let (mut last, mut gaps) = (began, Vec::with_capacity(1 << 14));
    while last - began < for_ns {
        let now = sys::monotonic_ns();
        if now - last >= SHORTEST_NS && gaps.len() < gaps.capacity() {
            gaps.push(Gap { from_ns: last, ns: now - last });
        }
        last = now;
    }
    Batches::new(ticks(&gaps, sys::jiffy_ns(), for_ns))
}

/// The gaps that are ticks, among all in `for_ns`.
fn ticks(gaps: &[Gap], jiffy_ns: u64, for_ns: u64) -> Vec<u64> {
    if jiffy_ns < 4 * NEAR_NS {
        return Vec::new();
    }
    let periods = for_ns / jiffy_ns;
    let phases = (0..jiffy_ns).step_by(NEAR_NS as usize / 2);
    let best = phases.map(|phase| near(gaps, jiffy_ns, phase)).max_by_key(Vec::len).unwrap_or_default();
    // A phase without gaps in most periods is coincidence.
    if (best.len() as u64) * 2 < periods { Vec::new() } else { best }
}

/// The longest gap around the phase in each period, if any.
fn near(gaps: &[Gap], jiffy_ns: u64, phase_ns: u64) -> Vec<u64> {
    let mut longest: Vec<(u64, u64)> = Vec::new();
    for gap in gaps.iter().filter(|g| g.ns < LONGEST_NS) {
        // Shift by half a window, so that a slightly early gap falls into the same period.
        let shifted = gap.from_ns + jiffy_ns - phase_ns + NEAR_NS / 2;
        if shifted % jiffy_ns >= NEAR_NS {
            continue;
        }
        match longest.last_mut() {
            Some((period, ns)) if *period == shifted / jiffy_ns => *ns = gap.ns.max(*ns),
            _ => longest.push((shifted / jiffy_ns, gap.ns)),
        }
    }
    longest.into_iter().map(|(_, ns)| ns).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const JIFFY: u64 = 4_000_000;

    fn at(from_ns: u64, ns: u64) -> Gap {
        Gap { from_ns, ns }
    }

    #[test]
    fn ticks_are_separated_from_gaps_of_another_or_no_period() {
        let mut gaps: Vec<Gap> =
            (0..250).map(|n| at(n * JIFFY + 3_990_000 + n * 37 % 20_000, 30_000)).collect();
        // A hypervisor's gaps a hundred times a second, and short gaps at any time.
        gaps.extend((0..100).map(|n| at(n * 10_000_000 + 555_000, 70_000)));
        gaps.extend((0..2_000).map(|n| at(n * 499_979, 1_400)));
        gaps.sort_by_key(|g| g.from_ns);
        let found = Batches::new(ticks(&gaps, JIFFY, 1_000_000_000));
        assert_eq!(found.median(), 30_000);
        assert!((240..=251).contains(&found.0.len()), "{}", found.0.len());
    }

    #[test]
    fn without_a_phase_there_is_no_tick() {
        let gaps: Vec<Gap> = (0..100).map(|n| at(n * 10_000_000 + 555_000, 70_000)).collect();
        assert!(ticks(&gaps, JIFFY, 1_000_000_000).is_empty());
    }

    #[test]
    fn gaps_around_the_end_of_a_period_are_one_phase() {
        let gaps: Vec<Gap> = (1..250).map(|n| at(n * JIFFY - 10_000 + (n % 2) * 20_000, 5_000)).collect();
        assert_eq!(ticks(&gaps, JIFFY, 1_000_000_000).len(), 249);
    }
}
