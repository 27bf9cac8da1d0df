//! The record of a live run, here or in a guest, from its outcome.

use crate::ask::cell::Cell;
use schedlab_base::Result;
use schedlab_compare::tools;
use schedlab_native::Outcome;
use schedlab_record::Record;
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
    cell.record(seed, found).map(Some)
}
