//! The fit of a replay to its recording: the prices of waking and sleeping, and how far the replay is from the
//! recording.
//!
//! Recorded bursts include the kernel's own work. The machine of the replay adds the work of its own switches and
//! wakeups, which would then count twice. A first simulation without prices shows how much it adds for each wakeup and
//! sleep; this is subtracted from the bursts for each recorded one. Nothing else is fitted. So a replay that sleeps
//! more often than the recording takes more CPU time, which is reported.

use super::lower::{Lower, Lowered};
use crate::ask::cell::Cell;
use crate::make::exec::Backends;
use crate::make::exec::Executor;
use crate::make::exec::cast::Both;
use crate::stored::events::Events;
use schedlab_analyse::{Analyser, TaskName};
use schedlab_base::{Error, Ns, Result, Warning};
use schedlab_machine::Machine;
use schedlab_record::{Findings, Metric, Record};
use schedlab_workload::Spec;
use schedlab_workload::replay::{Prices, Schedule, Step};
use serde::Serialize;
use std::sync::atomic::AtomicBool;

/// The change of the prices at which the fit is good enough, per mille of the recorded work.
const GOOD_PERMILLE: i128 = 5;
/// The prices are at most this part of the bursts.
const MOST_OF_BURSTS: i128 = 2;
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
    /// The events, as a run's findings.
    pub found: Findings,
    pub schedule: Schedule,
    /// Tasks slept, but the recording has no wakeups.
    pub lacks_wakeups: bool,
    /// Warnings where the schedule deviates from the recording.
    pub warnings: Vec<Warning>,
}

impl Recording {
    /// The recording as a record that can be compared with its replay's.
    fn beside(&self, run: &Record) -> Record {
        Record { found: self.found.clone(), ..run.clone() }
    }
}

/// Reads a run's events once for both its findings and its schedule. `None`: `stop` ended it.
///
/// # Errors
/// When events are damaged or missing, or no task of the recording runs.
pub fn read(events: &mut Events<'_>, machine: &Machine, stop: &AtomicBool) -> Result<Option<Recording>> {
    let cast = events.cast().clone();
    let names =
        cast.tasks.iter().map(|a| TaskName { name: a.name.clone(), background: a.background }).collect();
    let cpus = cast.cpus.max(1);
    let groups = cast.tasks.iter().map(|task| task.group.as_deref());
    let mut analyser = Analyser::new(cpus, names, Vec::new(), Ns::ZERO).in_groups(groups);
    if machine.topology.nr_cpus() >= cpus {
        analyser = analyser.on(&machine.topology);
    }
    let mut lower = Lower::on(machine);
    if !events.feed(&mut Both(&mut analyser, &mut lower), stop)? {
        return Ok(None);
    }
    let mut found = Findings { duration: cast.end, ..analyser.finish(cast.end) };
    let Some(Lowered { schedule, coarse, lacks_wakeups }) = lower.finish(&cast, |_| true, stop) else {
        return Ok(None);
    };
    if lacks_wakeups {
        found.keep_what_switches_show();
    }
    if schedule.work() == Ns::ZERO {
        return Err(Error::input(
            "no task of the workload runs in this recording: there is nothing to replay",
        ));
    }
    let words = format!(
        "{coarse} bursts are too long beside those that one wakeup gives to be cut into what was given one by one: \
         several are given at once"
    );
    let warnings = (coarse > 0).then(|| Warning::new("replay.coarse", words)).into_iter().collect();
    Ok(Some(Recording { found, schedule, lacks_wakeups, warnings }))
}

/// A fitted replay.
pub struct Fitted {
    pub spec: Spec,
    pub prices: Prices,
    /// Its run under the recorded kernel.
    pub run: Record,
}

/// Finds the prices of the cell that `cell` makes from a schedule: a machine under the recorded kernel. `None`: `stop`
/// ended it.
///
/// # Errors
/// When a schedule can't be built or simulated.
pub fn fit(
    name: &str,
    recording: &Recording,
    cell: &dyn Fn(Spec) -> Result<Cell>,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Option<Fitted>> {
    let text = recording.schedule.text();
    let (wakes, sleeps) = recording.schedule.counts();
    let work = match cpu_time(&recording.found) {
        // Switches are missing, so no time could be counted: the schedule's own work is used.
        0 => i128::from(recording.schedule.work().0),
        counted => counted,
    };
    let calls = i128::from(wakes + sleeps);
    // If bursts were subtracted wholly, tasks would proceed in no time.
    let most = work / calls.max(1) / MOST_OF_BURSTS;
    let (mut prices, mut best): (Prices, Option<(i128, Fitted)>) = (Prices::default(), None);
    for _ in 0..PASSES {
        let spec = Spec::replay(name, text.clone(), prices)?;
        let Some(made) = Backends::default().run(&cell(spec.clone())?, seed, stop)? else { return Ok(None) };
        let found = &made.record.found;
        // The cost that the machine added for each call, if it made as many calls for each wakeup as were recorded.
        let paid = calls * i128::from(prices.wake_ns);
        let made_calls = match (wakeups(&recording.found), wakeups(found)) {
            (0, _) | (_, 0) => calls,
            (then, now) => calls * now / then,
        };
        let cost = (cpu_time(found) - work + paid) / made_calls.max(1);
        let off = (cost.clamp(0, most) - i128::from(prices.wake_ns)).abs() * calls;
        if best.as_ref().is_none_or(|(least, _)| off < *least) {
            best = Some((off, Fitted { spec, prices, run: made.record }));
        }
        let price = u64::try_from(cost.min(most)).unwrap_or(0);
        let next = Prices { wake_ns: price, sleep_ns: price };
        if off * 1000 <= work * GOOD_PERMILLE || calls == 0 || next == prices {
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

/// Wakeups of the workload.
fn wakeups(found: &Findings) -> i128 {
    found.counters.get("wakeups").copied().unwrap_or(0).into()
}

/// A metric of the recording and of its replay: how far the replay is off.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Off {
    pub metric: String,
    pub unit: String,
    pub recorded: f64,
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
    errors_in(COMPARED, recording, run)
}

/// Those of these metrics that both have.
pub fn errors_in<'m>(
    metrics: impl IntoIterator<Item = &'m &'m str>,
    recording: &Recording,
    run: &Record,
) -> Vec<Off> {
    let as_recorded = recording.beside(run);
    let one = |metric: &&str| {
        let known = Metric::find(metric).ok()?;
        let of = |record: &Record| known.evaluate(record).number();
        let (recorded, replayed) = (of(&as_recorded)?, of(run)?);
        Some(Off { metric: (*metric).to_owned(), unit: known.unit.to_string(), recorded, replayed })
    };
    metrics.into_iter().filter_map(one).collect()
}

/// A metric in which the replay is farther from the recording than it should be.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Worse {
    /// The metric that is off.
    pub what: String,
    /// How far it may be off, per cent.
    pub limit_pct: f64,
    /// How far it is off, per cent.
    pub off_pct: f64,
    /// The likely reason, as far as the two records show it.
    pub why: String,
}

/// The reason if the recording has no wakeups.
const NO_WAKEUPS: &str = "the recording has no wakeups: a sleep lasts until the task ran again, its wait for a CPU included, and no task \
     wakes another";

/// How far CPU time, the number of switches and the median run delay may be off, per cent.
const LIMITS: (f64, f64, f64) = (2.0, 15.0, FAR_PCT);
/// A figure of waits or periods that is off by more than that, per cent, is far from the recording.
pub const FAR_PCT: f64 = 50.0;

/// The metrics that are off by more than the limits, with the likely reasons.
pub fn worse(recording: &Recording, prices: Prices, off: &[Off]) -> Vec<Worse> {
    let of = |metric: &str| off.iter().find(|o| o.metric == metric);
    let pct = |metric: &str| of(metric).and_then(Off::pct);
    let reasons = Reasons { recording, prices, more_wakeups_pct: pct("wakeups").unwrap_or(0.0) };
    let mut all = Vec::new();
    let mut put = |what: &str, limit_pct: f64, off_pct: Option<f64>, why: &dyn Fn() -> String| {
        if let Some(off_pct) = off_pct.filter(|p| p.abs() > limit_pct) {
            all.push(Worse { what: what.to_owned(), limit_pct, off_pct, why: why() });
        }
    };
    put("cpu_time", LIMITS.0, pct("cpu_time"), &|| reasons.of_cpu_time());
    if let (Some(v), Some(i)) = (of("switches.voluntary"), of("switches.involuntary")) {
        let (recorded, replayed) = (v.recorded + i.recorded, v.replayed + i.replayed);
        let off_pct = 100.0 * (replayed - recorded) / recorded.max(1.0);
        let by_sleeps = (v.replayed - v.recorded).abs() >= (i.replayed - i.recorded).abs();
        put("switches", LIMITS.1, Some(off_pct), &|| reasons.of_switches(by_sleeps));
    }
    put("run_delay.p50", LIMITS.2, pct("run_delay.p50"), &|| reasons.of_run_delay());
    all
}

/// Where the likely reasons are seen.
struct Reasons<'a> {
    recording: &'a Recording,
    prices: Prices,
    /// Wakeups of the replay beyond the recording's.
    more_wakeups_pct: f64,
}

impl Reasons<'_> {
    fn of_cpu_time(&self) -> String {
        let (wakes, sleeps) = self.recording.schedule.counts();
        let calls = wakes + sleeps;
        let mean_ns = self.recording.schedule.work().0 / calls.max(1);
        if calls > 0 && self.prices.wake_ns >= mean_ns / 3 {
            return format!(
                "the machine's own work for a wakeup or sleep, {} ns, is most of a recorded burst ({mean_ns} ns for each)",
                self.prices.wake_ns
            );
        }
        if self.more_wakeups_pct.abs() > LIMITS.0 {
            self.slept()
        } else {
            "caches and the speed of CPUs are not replayed".to_owned()
        }
    }

    /// `by_sleeps`: most of the difference are switches of tasks that slept.
    fn of_switches(&self, by_sleeps: bool) -> String {
        if by_sleeps && (self.more_wakeups_pct.abs() > 1.0 || self.recording.lacks_wakeups) {
            self.slept()
        } else {
            "tasks lose their CPU at other times: ticks, interrupts, and weights and groups that the recording does not have".to_owned()
        }
    }

    fn of_run_delay(&self) -> String {
        let background = self.recording.schedule.parts.iter().filter(|p| p.background).flat_map(|p| &p.steps);
        let others: u64 = background.map(|s| if let Step::Run(ns) = s { ns.0 } else { 0 }).sum();
        if others > self.recording.schedule.work().0 {
            return "other tasks had most of the machine; those without a sleep in the recording wanted more CPU time than they got, which it does not show".to_owned();
        }
        if self.more_wakeups_pct.abs() > LIMITS.1 {
            self.slept()
        } else {
            "waits depend on idle states, interrupts and the order of wakeups, which only the simulated machine decides".to_owned()
        }
    }

    fn slept(&self) -> String {
        if self.recording.lacks_wakeups {
            return NO_WAKEUPS.to_owned();
        }
        let own = self.recording.schedule.parts.iter().filter(|p| !p.background).flat_map(|p| &p.steps);
        let inferred = own.filter(|s| matches!(s, Step::Need)).count() as u64;
        let needed = inferred + self.recording.schedule.counts().1;
        let word = if self.more_wakeups_pct > 0.0 { "more" } else { "less" };
        format!(
            "tasks sleep {:.0}% {word} often: a recording does not show what a task that is awake is given; {inferred} of \
             {needed} things that tasks need are inferred",
            self.more_wakeups_pct.abs()
        )
    }
}
