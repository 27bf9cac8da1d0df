//! The events of a run: one model, shaped like tracepoints, for the simulators, the live kernel and importers.
//!
//! # Problem
//!
//! Four backends and many recorders report what a scheduler did, each in its own words. Whatever is made of that
//! (metrics, timelines, explanations) should be made once. So all of them emit one kind of [`Event`], 32 bytes and
//! `Copy`, and hand it to a [`Sink`]. What a slice, a wakeup delay or a migration is, only the crate `record` defines,
//! which is the most important sink.
//!
//! # Main parts
//!
//! - [`event`]: the kinds of events, named after tracepoints where these exist. Read it first.
//! - [`reason`]: why a CPU was chosen, a switch made, a balance pass given up: a row for each reason, with its name in
//!   metrics and a sentence. Only our rules know reasons; other backends leave them out.
//! - [`cast`]: the tasks that events name by [`schedlab_base::TaskId`]. [`counter`]: tracks of loads and virtual times,
//!   for sinks that ask.
//! - [`kept`]: `events.slt`, the file of a run's events, written and read in constant memory.
//! - [`points`]: from our events to the kernel's tracepoints, in words and order. All writers for other tools stand on
//!   it: [`perfetto`] (packets are encoded by hand where a run has many), [`ctf`], [`text`].
//! - [`window`]: a part of a run, with everything under way when it begins. [`parting`]: where two runs of the same
//!   programs part.
//!
//! # Invariants
//!
//! Times are nanoseconds since the run began. Events come in the order of time per CPU, and those of one task in causal
//! order, also where times are equal. An event that is lost is an event ([`EventKind::Lost`]). A sink gets details and
//! counters only if it asks ([`Sink::wants_details`], [`Sink::wants_counters`]), and asking changes nothing in the run.

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
pub use event::{DsqId, Event, EventKind};
pub use reason::{
    ActiveReason, AffineReason, BalanceReason, BalanceTrigger, ExtOp, ExtQueue, KickReason, MigrationType,
    MoveReason, PlaceReason, SkipReason, SwitchReason,
};
pub use window::{Window, Within};

use schedlab_base::{Ns, TaskId};

/// A consumer of a run's events, in time order per CPU.
pub trait Sink {
    /// An event of the scheduler.
    fn event(&mut self, event: &Event);
    /// A value that a program recorded for one of its series (index in the workload's order).
    fn sample(&mut self, _at: Ns, _task: TaskId, _series: u16, _value: u64) {}
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
