//! Costs that only scheduler events show, and the cost of recording events: steps are timed with and without the
//! recorder of watched runs. If events can't be recorded, nothing is measured.

use super::batches::{Batches, KnownCosts};
use crate::sys;
use crate::watch::tracepoints::Events;
use schedlab_base::{Result, TaskId};

/// Events per wakeup and switch: sched_waking, sched_wakeup, sched_switch.
const EVENTS: u64 = 3;

/// Measures the cost of recording an event, if possible. `step` times wakeups from one task to another on the caller's
/// CPU.
pub(super) fn measure(known: &mut KnownCosts, step: impl Fn() -> Result<Batches>) -> Result<()> {
    let alone = step()?.median();
    let Ok(events) = Events::open(&[], sys::thread_id()) else { return Ok(()) };
    let watched = step();
    drop(events);
    let each = watched?.0.iter().map(|t| t.saturating_sub(alone) / EVENTS).collect();
    let how = "two threads on a CPU that wake each other, with and without the recorder, a third of it";
    known.add(Batches::new(each).cost("trace_event_ns", 0, how));
    Ok(())
}

/// Times of one thread, from events.
pub(super) struct ThreadTimes {
    /// From its wakeups, as reported by their waker, until the switches to it.
    pub delays: Batches,
    /// From the switches to it until the switches away from it.
    pub stays: Batches,
}

/// Records events while `body` runs; returns the times of the thread whose id `body` returns.
pub(super) fn seen(body: impl FnOnce() -> Result<u32>) -> Result<Option<ThreadTimes>> {
    let Ok(mut events) = Events::open(&["probe".to_owned()], sys::thread_id()) else { return Ok(None) };
    events.measure();
    let thread = body()?;
    events.close(sys::monotonic_ns());
    let found = events.found(vec![(thread, TaskId(0))]);
    let all = |name: &str| {
        let series = found.seen.series.get(name).filter(|s| s.count() > 0)?;
        let each = series.values().flat_map(|(value, count)| std::iter::repeat_n(value, count as usize));
        Some(Batches::new(each.collect()))
    };
    Ok(all("wakeup_delay").zip(all("slice")).map(|(delays, stays)| ThreadTimes { delays, stays }))
}
