//! Runs on the running kernel, one at a time.

use super::executor::Made;
use super::keep::{self, Left};
use super::live;
use super::options::RunOptions;
use crate::ask::cell::Cell;
use schedlab_base::{Result, Warning};
use schedlab_native::live::{Request, run_keeping};
use std::sync::atomic::AtomicBool;

/// A live run; `None` if `stop` ended it early. Its events are kept if they are recorded.
///
/// # Errors
/// When this machine or user can't run the workload.
pub(super) fn run(cell: &Cell, seed: u64, options: &RunOptions, stop: &AtomicBool) -> Result<Option<Made>> {
    let request =
        Request { spec: cell.spec.clone(), variant: cell.variant.clone(), seed, observe: cell.observe };
    // The agent may run in another folder.
    let place = options
        .keep_events_in
        .as_ref()
        .map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.clone()));
    let place = place.map(|folder| keep::name(&folder));
    let left = place.clone().map(Left::at);
    let outcome = run_keeping(&request, Some(stop), place.clone())?;
    let record = live::record(cell, seed, outcome)?;
    let written = place.as_ref().is_some_and(|path| path.is_file());
    Ok(record.map(|mut record| {
        let is_explained = record.found.warnings.iter().any(|w| w.code == "events.not_kept");
        if place.is_some() && !written && !is_explained {
            let text = "no file of events was left by the run";
            record.found.warnings.push(Warning::new("events.not_kept", text));
        }
        let events = left.filter(|_| written).and_then(Left::stays);
        Made { record, json: None, files: Vec::new(), events }
    }))
}
