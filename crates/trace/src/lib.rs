//! The events of a run: one model, similar to tracepoints, for the simulator, the live kernel and importers.
//!
//! A backend hands each event to a [`Sink`]. Only the `record` crate defines slices, wakeup delays and migrations, so
//! that they mean the same on every backend. Times are nanoseconds since the run began. A sink gets the events of one
//! task in causal order, even if their times are equal.

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

/// A consumer of a run's events, in time order per CPU.
pub trait Sink {
    /// An event of the scheduler.
    fn event(&mut self, event: &Event);
    /// A value that a program recorded for one of its series (index in the workload's order).
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64);
    /// Whether the simulator should also report details for explanations ([`EventKind::is_detail`]). Other sinks save
    /// their cost.
    fn wants_details(&self) -> bool {
        false
    }
    /// A counter's value from now on.
    fn counter(&mut self, _at: Ns, _counter: Counter, _value: i64) {}
    /// The counters that the simulator should report. Other sinks save their cost.
    fn wants_counters(&self) -> Counters {
        Counters::NONE
    }
}

/// Drops everything, for measurements of speed.
#[derive(Debug, Default)]
pub struct Discard;

impl Sink for Discard {
    fn event(&mut self, _: &Event) {}
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
}

/// Keeps everything, for tests and short traces.
#[derive(Debug, Default)]
pub struct Keep {
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
