//! The record of a live run, here or in a guest, from its outcome.

use crate::ask::cell::Cell;
use schedlab_base::{Origin, Result};
use schedlab_compare::tools;
use schedlab_native::Outcome;
use schedlab_record::{RECORD_SCHEMA, Record, version_of};
use schedlab_workload::Spec;

/// The record of a run; `None` if it was stopped.
///
/// # Errors
/// When a command's output can't be read.
pub fn record(cell: &Cell, seed: u64, outcome: Outcome) -> Result<Option<Record>> {
    if outcome.stopped {
        return Ok(None);
    }
    let mut found = outcome.found;
    if let (Spec::Command(spec), Some(said)) = (&cell.spec, &outcome.said) {
        found.add(tools::findings(spec, said)?);
    }
    let backend = Origin::from(cell.backend);
    Ok(Some(Record {
        schema: RECORD_SCHEMA.to_owned(),
        model: version_of(&backend),
        backend,
        machine: (*cell.machine).clone(),
        drawn: Vec::new(),
        kernel: cell.kernel.clone(),
        resolved: None,
        code: None,
        guest: cell.guest.as_ref().map(|g| g.setup(&cell.machine)),
        variant: cell.variant.clone(),
        workload: cell.spec.name().to_owned(),
        spec: cell.spec_json()?,
        load: cell.load.clone(),
        observe: Some(cell.observe),
        seed,
        found,
    }))
}
