//! The fit of a replay to its recording: the prices of waking and sleeping, and how far the replay is from what was
//! recorded.
//!
//! Recorded bursts hold the kernel's own work. The machine of the replay adds the work of its own switches and
//! wakeups, which would then count twice. A first simulation without prices shows how much it adds; the excess is
//! spread evenly over wakeups and sleeps and taken off the bursts. Nothing else is fitted.

use super::lower::Lower;
use crate::cell::Cell;
use crate::events::{Both, Events};
use crate::exec::Executor;
use crate::exec::sim::Sim;
use schedlab_base::{Error, Ns, Result};
use schedlab_kernel::Variant;
use schedlab_machine::Machine;
use schedlab_record::{Analyser, Findings, Metric, Record, TaskName};
use schedlab_workload::Spec;
use schedlab_workload::replay::{Prices, Schedule};
use serde::Serialize;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// The excess of CPU time at which the fit is good enough, per mille of the recorded work.
const GOOD_PERMILLE: i128 = 5;
/// Simulations that the fit may take.
const PASSES: usize = 4;
/// The metrics that are compared.
pub const COMPARED: &[&str] = &[
    "cpu_time",
    "switches.voluntary",
    "switches.involuntary",
    "wakeups",
    "migrations",
    "slice.p50",
    "slice.mean",
    "run_delay.p50",
    "run_delay.p99",
    "run_delay.total",
    "wakeup_delay.p50",
    "wakeup_delay.p99",
];

/// A recording, ready to be replayed.
pub struct Recording {
    /// What its events say, as a run's findings.
    pub found: Findings,
    /// Its schedule.
    pub schedule: Schedule,
}

impl Recording {
    /// The recording as a record beside that of its replay.
    fn beside(&self, run: &Record) -> Record {
        Record { found: self.found.clone(), ..run.clone() }
    }
}

/// Reads a run's events once for both its findings and its schedule. `None`: `stop` ended it.
///
/// # Errors
/// Damaged or missing events; a recording without a task that runs.
pub fn read(events: &mut Events<'_>, machine: &Machine, stop: &AtomicBool) -> Result<Option<Recording>> {
    let cast = events.cast().clone();
    let names =
        cast.tasks.iter().map(|a| TaskName { name: a.name.clone(), background: a.background }).collect();
    let cpus = cast.cpus.max(1);
    let mut analyser = Analyser::new(cpus, names, Vec::new(), Ns::ZERO);
    if machine.topology.nr_cpus() >= cpus {
        analyser = analyser.on(&machine.topology);
    }
    let mut lower = Lower::on(machine);
    if !events.tell(&mut Both(&mut analyser, &mut lower), stop)? {
        return Ok(None);
    }
    let found = Findings { duration: cast.end, ..analyser.finish(cast.end) };
    let schedule = lower.finish(&cast, |_| true);
    if schedule.work() == Ns::ZERO {
        return Err(Error::input(
            "no task of the workload runs in this recording: there is nothing to replay",
        ));
    }
    Ok(Some(Recording { found, schedule }))
}

/// A fitted replay.
pub struct Fitted {
    /// The workload.
    pub spec: Spec,
    /// Its prices.
    pub prices: Prices,
    /// Its run under the recorded kernel.
    pub run: Record,
}

/// Finds the prices on a machine under the recorded kernel. `None`: `stop` ended it.
///
/// # Errors
/// A schedule that can't be built or simulated.
pub fn fit(
    name: &str,
    recording: &Recording,
    machine: &Arc<Machine>,
    recorded: &Variant,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Option<Fitted>> {
    let text = recording.schedule.text();
    let (wakes, sleeps) = recording.schedule.counts();
    let work = cpu_time(&recording.found);
    let (mut prices, mut best): (Prices, Option<(i128, Fitted)>) = (Prices::default(), None);
    for _ in 0..PASSES {
        let spec = Spec::replay(name, text.clone(), prices)?;
        let cell = Cell::simulated(machine, recorded.clone(), spec.clone(), "replay".to_owned())?;
        let Some(made) = Sim::default().run(&cell, seed, stop)? else { return Ok(None) };
        let excess = cpu_time(&made.record.found) - work;
        if best.as_ref().is_none_or(|(least, _)| excess.abs() < *least) {
            best = Some((excess.abs(), Fitted { spec, prices, run: made.record }));
        }
        let calls = i128::from(wakes + sleeps);
        if excess.abs() * 1000 <= work * GOOD_PERMILLE || calls == 0 {
            break;
        }
        let more = excess / calls;
        let moved = |old: u64| u64::try_from(i128::from(old) + more).unwrap_or(0);
        let next = Prices { wake_ns: moved(prices.wake_ns), sleep_ns: moved(prices.sleep_ns) };
        if next == prices {
            break;
        }
        prices = next;
    }
    Ok(best.map(|(_, fitted)| fitted))
}

/// CPU time of the workload, ns.
fn cpu_time(found: &Findings) -> i128 {
    found.counters.get("cpu_time").copied().unwrap_or(0).into()
}

/// A metric of the recording and of its replay: how far the replay is off.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Off {
    /// The metric.
    pub metric: String,
    /// Its unit.
    pub unit: String,
    /// In the recording.
    pub recorded: f64,
    /// In the replay.
    pub replayed: f64,
}

impl Off {
    /// How far the replay is off, per cent of the recording; `None` where that is 0.
    pub fn pct(&self) -> Option<f64> {
        (self.recorded != 0.0).then(|| 100.0 * (self.replayed - self.recorded) / self.recorded)
    }
}

/// The metrics that both have.
pub fn errors(recording: &Recording, run: &Record) -> Vec<Off> {
    let as_recorded = recording.beside(run);
    let one = |metric: &&str| {
        let known = Metric::find(metric).ok()?;
        let of = |record: &Record| known.evaluate(record).number();
        let (recorded, replayed) = (of(&as_recorded)?, of(run)?);
        Some(Off { metric: (*metric).to_owned(), unit: known.unit.to_string(), recorded, replayed })
    };
    COMPARED.iter().filter_map(one).collect()
}
