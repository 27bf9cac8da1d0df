//! Runs on the running kernel, one at a time.

use super::{Executor, Made, live};
use crate::cell::Cell;
use schedlab_base::Result;
use schedlab_native::live::Request;
use std::sync::atomic::AtomicBool;

/// The live executor.
pub struct Host;

impl Executor for Host {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Made>> {
        let request =
            Request { spec: cell.spec.clone(), variant: cell.variant.clone(), seed, observe: cell.observe };
        let record = live::record(cell, seed, schedlab_native::live::run(&request, Some(stop))?)?;
        Ok(record.map(Made::from))
    }
    fn parallel(&self, _: &Cell) -> bool {
        false
    }
}
