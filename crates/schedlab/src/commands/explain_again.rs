//! Explanations that need the run made again: which CPUs were idle while a task waited, and why none of them took it.

use crate::progress::Bar;
use crate::{common, interrupt};
use schedlab_analyse::Explanation;
use schedlab_analyse::conserve::IdleWhileWaiting;
use schedlab_analyse::explain::explain_beyond;
use schedlab_analyse::explain::samples::SampleTail;
use schedlab_base::{Backend, Error, ErrorKind, Result};
use schedlab_lab::stored::rerun::Rerun;
use schedlab_record::{Record, Series, Value, evaluate};

/// Explains the waits beyond a statistic, with the CPUs that were idle during the worst ones. For the kernel's own code
/// our rules' reasons are added. A run that this build can't make again gets a note.
///
/// # Errors
/// On an interruption, and when the simulator finds a fault.
pub fn explanation(record: &Record, stat: &str, worst: usize) -> Result<Explanation> {
    let stored = || explain_beyond(record, stat, worst);
    if record.found.waits.is_empty() || worst == 0 {
        return Ok(stored());
    }
    let again = match Rerun::of(record) {
        Ok(again) => again.clocked(&common::SIMULATED),
        Err(e) => {
            let mut explanation = stored();
            explanation.notes.push(format!("which CPUs were idle meanwhile is not shown: {}", e.message()));
            return Ok(explanation);
        }
    };
    let bar = bar(&again);
    let stop = interrupt::stop_flag()?;
    let mut explanation = explain_beyond(again.explained(stop)?.ok_or_else(interrupted)?, stat, worst);
    let chances = again.chances(explanation.worst.len(), stop)?;
    drop(bar);
    explanation.add_chances(chances.ok_or_else(interrupted)?);
    Ok(explanation)
}

/// A record with the reasons for its run's decisions. For the kernel's own code they come from the run made again, if
/// this build can make it.
///
/// # Errors
/// On an interruption, and when the run finds a fault.
pub fn with_reasons(record: Record) -> Result<Record> {
    let made = match Rerun::of(&record) {
        Ok(again) if record.backend == Backend::Code => {
            let again = again.clocked(&common::SIMULATED);
            let bar = bar(&again);
            let made = again.explained(interrupt::stop_flag()?)?.cloned();
            drop(bar);
            Some(made.ok_or_else(interrupted)?)
        }
        _ => None,
    };
    Ok(made.unwrap_or(record))
}

/// The tail of a series of times beyond a statistic, for series other than the recorded waits.
///
/// # Errors
/// For a series or statistic that the run does not have, a series that is not of times, and a run that can't be made
/// again; on an interruption, and when the simulator finds a fault.
pub fn samples(record: &Record, (series, stat): (&str, &str), worst: usize) -> Result<SampleTail> {
    let metric = format!("{series}.{stat}");
    let again = Rerun::of(record).map_err(|e| e.context(format!("--metric {metric}")))?;
    let again = again.clocked(&common::SIMULATED);
    let unit = record.found.series.get(series).map(|s| s.unit().to_owned());
    if unit.as_deref().is_some_and(|unit| unit != "ns") {
        return Err(Error::input(format!("--metric: {series} is not a time, so no wait can explain it")));
    }
    let cut = match evaluate(record, &metric) {
        Value::Number(cut) => cut,
        // The series' name is checked below, where all names are known.
        Value::Missing(_) if unit.is_none() => 0.0,
        Value::Missing(why) => {
            return Err(Error::input(format!("--metric: {metric} is missing: {why}"))
                .help("name a lower percentile, such as p90, or make longer runs"));
        }
    };
    // A percentile is known to the histogram's resolution; a value within that resolution is not beyond it.
    let cut = match stat {
        "max" => (cut as u64).saturating_sub(1),
        _ => Series::bucket_end(cut as u64),
    };
    let bar = bar(&again);
    let found = again.samples((series, &metric), cut, worst, interrupt::stop_flag()?);
    drop(bar);
    found.map_err(|e| e.context("--metric"))?.ok_or_else(interrupted)
}

/// The stretches of a record's run in which CPUs were idle while tasks waited.
///
/// # Errors
/// For a run that can't be made again; on an interruption, and when the simulator finds a fault.
pub fn idle_while_waiting(record: &Record, longest: usize) -> Result<IdleWhileWaiting> {
    let again = Rerun::of(record)?.clocked(&common::SIMULATED);
    let bar = bar(&again);
    let found = again.idle_while_waiting(longest, interrupt::stop_flag()?)?;
    drop(bar);
    found.ok_or_else(interrupted)
}

fn bar(again: &Rerun<'_>) -> Bar {
    let bar = Bar::simulated(false, again.length(), &common::SIMULATED);
    bar.say("the run is made again".to_owned());
    bar
}

fn interrupted() -> Error {
    Error::new(ErrorKind::CheckFailed, "interrupted: the run was not simulated to its end")
}
