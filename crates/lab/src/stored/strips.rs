//! Strips of stored runs: the choice of runs, and their strips. A simulated run is made again, a kernel's run has kept
//! its events.

use crate::stored::events::Events;
use crate::stored::rerun::Rerun;
use schedlab_analyse::TaskName;
use schedlab_analyse::conserve::World;
use schedlab_base::{Error, Ns, Result};
use schedlab_compare::comparison::{self, Comparison};
use schedlab_compare::stats::Verdict;
use schedlab_compare::strips::gather::{Follows, Gather};
use schedlab_compare::strips::{COUNTS, Strips, windows};
use schedlab_record::{Record, RunDir};
use std::sync::atomic::AtomicBool;

impl Rerun<'_> {
    /// The run's strips in at most `room` bytes; `None`: `stop` ended the run.
    ///
    /// # Errors
    /// When the simulator finds a fault.
    pub fn strips(&self, room: usize, stop: &AtomicBool) -> Result<Option<Strips>> {
        let width = self.length().0.div_ceil(COUNTS).max(1);
        let follows = Follows::Stretches(Box::new(self.watching(0).in_bins(width)));
        let mut sink = Gather::new(self.nr_cpus(), self.names().to_vec(), follows, width);
        let end = self.simulate(&mut sink, stop)?;
        Ok(end.map(|end| sink.finish(self.warmup(), end).fitted(room, &windows(self.waits()))))
    }
}

/// The strips of a run that has kept its events, in at most `room` bytes.
///
/// # Errors
/// When the run has kept no events, and when their file is damaged.
pub fn kept(run: &RunDir, record: &Record, room: usize, stop: &AtomicBool) -> Result<Strips> {
    let events = Events::kept(run, record)?;
    // A damaged time would make too many bins.
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

/// The cells whose runs are shown: the wanted variants of the first load that has them, or the baseline and the variant
/// with the most changes of the load that changed most. Simulated runs come before others.
///
/// # Errors
/// When no load has all of the wanted variants.
pub fn chosen(c: &Comparison, wanted: &[String]) -> Result<Vec<usize>> {
    let mut first = 0;
    let mut groups: Vec<(usize, &[comparison::Cell])> = Vec::new();
    for cells in c.cells.chunk_by(comparison::Cell::same_group) {
        groups.push((first, cells));
        first += cells.len();
    }
    let has = |cells: &[comparison::Cell], name: &String| cells.iter().position(|cell| cell.variant == *name);
    if !wanted.is_empty() {
        let all = |cells: &[comparison::Cell]| wanted.iter().all(|name| has(cells, name).is_some());
        let Some((first, cells)) = groups.iter().find(|(_, cells)| all(cells)) else {
            let strange = wanted.iter().find(|w| !c.cells.iter().any(|cell| cell.variant == **w));
            let names = c.cells.iter().map(|cell| cell.variant.as_str());
            return Err(match strange {
                Some(name) => Error::unknown("variant", name, names).context("--strips"),
                None => Error::input("--strips: no load has all of these variants"),
            });
        };
        return Ok(wanted.iter().filter_map(|name| has(cells, name)).map(|at| first + at).collect());
    }
    // The load that changed most; of equals the first.
    let simulated = |cells: &[comparison::Cell]| cells.iter().any(|cell| cell.backend.is_simulated());
    let some_simulated = groups.iter().any(|(_, cells)| simulated(cells));
    let can = groups.iter().filter(|(_, cells)| simulated(cells) || !some_simulated);
    let most = can.map(|(first, cells)| (*first, pair(c, cells))).rev().max_by_key(|(_, pair)| pair.changes);
    let Some((first, pair)) = most else { return Ok(Vec::new()) };
    Ok(std::iter::once(pair.base).chain(pair.other).map(|at| first + at).collect())
}

/// Two cells of a load, as places among its cells.
struct Pair {
    base: usize,
    /// The variant with the most changes; `None`: there is only one.
    other: Option<usize>,
    /// Its rows whose verdict is a change.
    changes: usize,
}

/// The baseline of a load, and the variant that differs most from it.
fn pair(c: &Comparison, cells: &[comparison::Cell]) -> Pair {
    let rows = |cell: &comparison::Cell| c.comparisons.iter().filter(|r| r.is_of(cell)).collect::<Vec<_>>();
    let named = |name: &String| cells.iter().position(|cell| cell.variant == *name);
    let base = cells
        .iter()
        .find_map(|cell| rows(cell).first().copied())
        .and_then(|r| named(&r.baseline))
        .unwrap_or(0);
    let decided = |v: Verdict| matches!(v, Verdict::Better | Verdict::Worse | Verdict::Changed);
    let changes = |at: usize| rows(&cells[at]).iter().filter(|r| decided(r.verdict)).count();
    let other = (0..cells.len()).filter(|at| *at != base).rev().max_by_key(|at| changes(*at));
    Pair { base, other, changes: other.map_or(0, changes) }
}
