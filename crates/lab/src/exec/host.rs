//! Runs on the running kernel, one at a time.

use super::keep::{self, Left};
use super::{Executor, Made, live};
use crate::cell::Cell;
use schedlab_base::{Result, Warning};
use schedlab_native::live::{Request, run_keeping};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// The live executor.
pub struct Host;

impl Executor for Host {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        self.run_kept(cell, seed, stop, None)
    }
    fn parallel(&self, _: &Cell) -> bool {
        false
    }
}

impl Host {
    /// A run whose events are written to a file in that folder, if they are recorded.
    ///
    /// # Errors
    /// As [`Executor::run`].
    pub fn run_kept(
        &self,
        cell: &Cell,
        seed: u64,
        stop: &AtomicBool,
        keep_in: Option<&Path>,
    ) -> Result<Option<Made>> {
        let request =
            Request { spec: cell.spec.clone(), variant: cell.variant.clone(), seed, observe: cell.observe };
        // The agent may run in another folder.
        let place = keep_in.map(|folder| folder.canonicalize().unwrap_or_else(|_| folder.to_owned()));
        let place = place.map(|folder| keep::name(&folder));
        let left = place.clone().map(Left::at);
        let outcome = run_keeping(&request, Some(stop), place.clone())?;
        let record = live::record(cell, seed, outcome)?;
        let written = place.as_ref().is_some_and(|path| path.is_file());
        Ok(record.map(|mut record| {
            let told = record.found.warnings.iter().any(|w| w.code == "events.not_kept");
            if place.is_some() && !written && !told {
                let text = "no file of events was left by the run";
                record.found.warnings.push(Warning::new("events.not_kept", text));
            }
            let events = left.filter(|_| written).and_then(Left::stays);
            Made { record, files: Vec::new(), events }
        }))
    }
}
