//! What only the scheduler's events tell, and what recording them takes: steps with and without the recorder that a watched
//! run has. Nothing where events can't be recorded.

use super::{Batches, Known};
use crate::sys;
use crate::tracepoints::Events;
use schedlab_base::{Result, TaskId};

/// A wakeup and a switch: sched_waking, sched_wakeup, sched_switch.
const EVENTS: u64 = 3;

/// Measures it where events can be recorded. `step` times wakeups from one task to another on the caller's CPU.
pub(super) fn measure(known: &mut Known, step: impl Fn() -> Result<Batches>) -> Result<()> {
    let alone = step()?.median();
    let Ok(events) = Events::open(&[], sys::thread_id()) else { return Ok(()) };
    let watched = step();
    drop(events);
    let each = watched?.0.iter().map(|t| t.saturating_sub(alone) / EVENTS).collect();
    let how = "two threads on a CPU that wake each other, with and without the recorder, a third of it";
    known.add(Batches::new(each).cost("trace_event_ns", 0, how));
    Ok(())
}

/// From this thread's wakeups, as told by their waker, until the switches to it, while it does `body`.
pub(super) fn delays(body: impl FnOnce()) -> Option<Batches> {
    let me = sys::thread_id();
    let mut events = Events::open(&["probe".to_owned()], me).ok()?;
    events.measure();
    body();
    events.close(sys::monotonic_ns());
    let found = events.found(vec![(me, TaskId(0))]);
    let seen = found.series.get("wakeup_delay").filter(|s| s.count() > 0)?;
    let each = seen.values().flat_map(|(value, count)| std::iter::repeat_n(value, count as usize));
    Some(Batches::new(each.collect()))
}
