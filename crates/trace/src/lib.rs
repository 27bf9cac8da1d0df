//! The events of a run: one model, shaped like tracepoints, for the simulator, the live kernel and importers.
//!
//! A backend hands each event to a [`Sink`]. Only the `record` crate defines what a slice, a wakeup delay or a
//! migration is, so that every backend means the same. Times are nanoseconds since the run began. A sink sees the
//! events of one task in causal order, also where their times are equal.

pub mod cast;
pub mod counter;
pub mod ctf;
pub mod event;
pub mod kept;
pub mod parting;
pub mod perfetto;
pub mod points;
pub mod reason;
pub mod text;
pub mod window;

pub use cast::{Actor, Cast};
pub use counter::{Counter, CounterKind, Counters};
pub use event::{Event, EventKind};
pub use reason::{
    ActiveReason, AffineReason, BalanceReason, BalanceTrigger, KickReason, MigrationType, MoveReason,
    PlaceReason, SkipReason, SwitchReason,
};
pub use window::{Window, Within};

use schedlab_base::{Ns, TaskId};

/// A consumer of what a run emits, in time order per CPU.
pub trait Sink {
    /// One event of the scheduler.
    fn event(&mut self, event: &Event);
    /// One value that a program recorded for one of its series (index as declared by the workload).
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64);
    /// Whether the simulator also reports what only explanations need ([`EventKind::is_detail`]). Other sinks are
    /// spared the cost.
    fn wants_details(&self) -> bool {
        false
    }
    /// The value of a counter from now on.
    fn counter(&mut self, _at: Ns, _counter: Counter, _value: i64) {}
    /// The counters that the simulator reports to it. Other sinks are spared the cost.
    fn wants_counters(&self) -> Counters {
        Counters::NONE
    }
}

/// Drops everything: for speed measurements.
#[derive(Debug, Default)]
pub struct Discard;

impl Sink for Discard {
    fn event(&mut self, _: &Event) {}
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
}

/// Keeps everything: for tests and for short traces.
#[derive(Debug, Default)]
pub struct Keep {
    /// Events in the order they were emitted.
    pub events: Vec<Event>,
    /// Samples: time, task, series, value.
    pub samples: Vec<(Ns, TaskId, u16, u64)>,
}

impl Sink for Keep {
    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.samples.push((at, task, series, value));
    }
}
