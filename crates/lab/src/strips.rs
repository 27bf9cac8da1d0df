//! Strips of stored runs: a simulated run is made again, a kernel's run has kept its events.

use crate::events::Events;
use crate::rerun::Rerun;
use schedlab_base::{Ns, Result};
use schedlab_compare::strips::gather::{Follows, Gather};
use schedlab_compare::strips::{COUNTS, Strips, windows};
use schedlab_record::conserve::{Stretches, World};
use schedlab_record::{Record, RunDir, TaskName};
use std::sync::atomic::AtomicBool;

impl Rerun<'_> {
    /// The run's strips in at most `room` bytes; `None`: `stop` ended the run.
    ///
    /// # Errors
    /// What the simulator finds wrong.
    pub fn strips(&self, room: usize, stop: &AtomicBool) -> Result<Option<Strips>> {
        let width = self.length().0.div_ceil(COUNTS).max(1);
        let stretches = Stretches::new(self.world(), self.domains().clone(), self.warmup(), 0).in_bins(width);
        let follows = Follows::Stretches(Box::new(stretches));
        let mut sink = Gather::new(self.nr_cpus(), self.names().to_vec(), follows, width);
        let end = self.simulate(&mut sink, stop)?;
        Ok(end.map(|end| sink.finish(self.warmup(), end).fitted(room, &windows(self.waits()))))
    }
}

/// The strips of a run that has kept its events, in at most `room` bytes.
///
/// # Errors
/// A run without kept events, and damage in their file.
pub fn kept(run: &RunDir, record: &Record, room: usize, stop: &AtomicBool) -> Result<Strips> {
    let events = Events::kept(run, record)?;
    // A damaged time would make as many bins.
    let end = events.cast().end;
    let mut events = events.within(schedlab_trace::Window { from: Ns::ZERO, until: end.max(Ns(1)) })?;
    let (cast, measured_from) = (events.cast(), events.measured_from());
    let cpus = cast.cpus.max(record.machine.topology.nr_cpus());
    let named = |a: &schedlab_trace::Actor| TaskName { name: a.name.clone(), background: a.background };
    let names = cast.tasks.iter().map(named).collect();
    let world = World::new(cpus, Vec::new(), Vec::new());
    let width = end.0.div_ceil(COUNTS).max(1);
    let mut sink = Gather::new(cpus, names, Follows::Points(world), width);
    events.feed(&mut sink, stop)?;
    Ok(sink.finish(measured_from, end).fitted(room, &windows(&record.found.waits)))
}
