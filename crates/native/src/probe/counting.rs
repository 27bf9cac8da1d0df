//! The cost of counting itself: at each switch the kernel installs or removes a task's counters.
//!
//! perf's time of a task (`perf.task_clock`) includes part of that cost, so a counted run looks longer than it is, much
//! longer if a hypervisor traps each access to the CPU's counters. The cost is measured on this machine: two threads on
//! one CPU yield to each other, with and without counters on one of them. ns.

use super::peer::Peer;
use crate::sys;
use crate::watch::counters::{Set, Whom, Width};
use schedlab_base::CpuSet;
use schedlab_kernel::Attr;
use std::sync::atomic::Ordering::Relaxed;

/// Rounds per batch. In each the counted thread leaves the CPU once and returns.
const ROUNDS: u64 = 100;
/// Number of batches with counters, and of those without. The quickest of each counts, because other work only adds
/// time.
const BATCHES: usize = 7;

/// The cost of these counters per switch of a counted task, for leaving and returning together; `None` if none can be
/// opened or this user may not pin a thread.
pub fn per_switch_ns(width: Width) -> Option<u64> {
    // A separate thread, since it is pinned during the measurement.
    std::thread::spawn(move || measured(width)).join().ok().flatten()
}

fn measured(width: Width) -> Option<u64> {
    let here = sys::current_cpu();
    let mask: CpuSet = [here].into_iter().collect();
    sys::set_affinity(&mask).ok()?;
    let peer = Peer::start(here, Attr::default(), |_, shared| {
        while shared.phase.load(Relaxed) == 0 {
            sys::yield_now();
        }
    });
    let peer = peer.ok()?;
    let bare = quickest();
    let mut set = Set::open(&Whom::Myself, width);
    let counted = (!set.is_empty() && set.enable().is_ok()).then(quickest);
    peer.end();
    counted.map(|counted| counted.saturating_sub(bare) / ROUNDS)
}

fn quickest() -> u64 {
    let batch = || {
        let from = sys::monotonic_ns();
        (0..ROUNDS).for_each(|_| sys::yield_now());
        sys::monotonic_ns() - from
    };
    (0..BATCHES).map(|_| batch()).min().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::counters::EVENTS;
    use schedlab_base::testing::skipped;

    #[test]
    fn counters_take_time_at_a_switch_and_less_than_a_millisecond() {
        let set = Set::open(&Whom::Myself, Width::Usual);
        if set.is_empty() {
            return skipped("a counter");
        }
        let opened = EVENTS.iter().filter(|e| set.why(e.name).is_none()).count();
        let cost = per_switch_ns(Width::Usual).unwrap();
        assert!(cost < 1_000_000, "{cost} ns a switch for {opened} counters");
    }
}
