//! What only a run made again can show: which CPUs were idle while a task waited, and why none of them took it.

use crate::progress::Bar;
use crate::{common, interrupt};
use schedlab_base::{Backend, Error, ErrorKind, Result};
use schedlab_lab::stored::rerun::Rerun;
use schedlab_record::conserve::IdleWhileWaiting;
use schedlab_record::explain::explain_beyond;
use schedlab_record::explain::samples::SampleTail;
use schedlab_record::{Explanation, Record, Series, Value, evaluate};

/// An explanation beyond a statistic of the waits, with the idle CPUs of the worst ones and, of the kernel's own code,
/// with our rules' reasons. A run that this build can't make again gets a note.
///
/// # Errors
/// An interruption, and what the simulator finds wrong.
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

/// A record with the reasons for its run's decisions: of the kernel's own code those of the run made again, if this
/// build can make it.
///
/// # Errors
/// An interruption, and what the run finds wrong.
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

/// The tail of a series of times that is not of the waits that a record keeps, beyond a statistic of it.
///
/// # Errors
/// A series or statistic that the run does not have, one that is not of times, a run that can't be made again, an
/// interruption, and what the simulator finds wrong.
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
        // The series' name is checked below, which knows all of them.
        Value::Missing(_) if unit.is_none() => 0.0,
        Value::Missing(why) => {
            return Err(Error::input(format!("--metric: {metric} is missing: {why}"))
                .help("name a lower percentile, such as p90, or make longer runs"));
        }
    };
    // A percentile is known to the histogram's resolution; what can't be told from it is not beyond it.
    let cut = match stat {
        "max" => (cut as u64).saturating_sub(1),
        _ => Series::bucket_end(cut as u64),
    };
    let bar = bar(&again);
    let found = again.samples((series, &metric), cut, worst, interrupt::stop_flag()?);
    drop(bar);
    found.map_err(|e| e.context("--metric"))?.ok_or_else(interrupted)
}

/// The stretches of a record's run.
///
/// # Errors
/// A run that can't be made again, an interruption, and what the simulator finds wrong.
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
