//! From what a live kernel answered, here or in a guest, to a record.

use crate::command;
use crate::plan::Cell;
use schedlab_base::Result;
use schedlab_guest::Guest;
use schedlab_native::Outcome;
use schedlab_record::{Figure, RECORD_SCHEMA, Record, Series, version_of};
use schedlab_workload::Spec;
use std::collections::BTreeMap;

/// The record of a run; `None` of one that was stopped.
///
/// # Errors
/// What a command said that can't be read.
pub fn record(cell: &Cell, seed: u64, outcome: Outcome) -> Result<Option<Record>> {
    if outcome.stopped {
        return Ok(None);
    }
    let (figures, series) = said(cell, &outcome)?;
    Ok(Some(Record {
        schema: RECORD_SCHEMA.to_owned(),
        model: version_of(cell.backend.name()),
        backend: cell.backend.name().to_owned(),
        machine: (*cell.machine).clone(),
        drawn: Vec::new(),
        kernel: cell.kernel.clone(),
        resolved: None,
        guest: cell.guest.as_ref().map(Guest::setup),
        variant: cell.variant.clone(),
        workload: cell.spec.name().to_owned(),
        spec: cell.spec_json()?,
        load: cell.load.clone(),
        observe: Some(cell.observe),
        seed,
        duration: outcome.duration,
        series,
        counters: outcome.counters,
        schedstat: outcome.schedstat,
        figures,
        tasks: outcome.tasks,
        stays: outcome.stays,
        intervals: outcome.intervals,
        waits: outcome.waits,
        environment: outcome.environment,
        warnings: outcome.warnings,
    }))
}

/// What a command said of itself; of programs the series they recorded.
fn said(cell: &Cell, outcome: &Outcome) -> Result<(BTreeMap<String, Figure>, BTreeMap<String, Series>)> {
    let mut series = outcome.series.clone();
    let (Spec::Command(spec), Some(said)) = (&cell.spec, &outcome.said) else {
        return Ok((BTreeMap::new(), series));
    };
    let found = command::findings(spec, said)?;
    series.extend(found.series);
    Ok((found.figures, series))
}
