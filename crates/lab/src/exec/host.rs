//! Runs on the running kernel, one at a time.

use super::Executor;
use crate::plan::Cell;
use schedlab_base::Result;
use schedlab_native::Job;
use schedlab_record::{MODEL, RECORD_SCHEMA, Record, environment};
use std::sync::atomic::AtomicBool;

/// The live executor.
pub struct Host;

impl Executor for Host {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Record>> {
        let outcome = schedlab_native::run(&Job { workload: cell.spec.clone(), seed }, stop)?;
        if outcome.stopped {
            return Ok(None);
        }
        let mut environment = environment::capture();
        environment.extend(outcome.environment);
        Ok(Some(Record {
            schema: RECORD_SCHEMA.to_owned(),
            model: MODEL,
            backend: cell.backend.name().to_owned(),
            machine: (*cell.machine).clone(),
            kernel: cell.kernel.clone(),
            resolved: None,
            variant: cell.variant.clone(),
            workload: cell.spec.name().to_owned(),
            spec: cell.spec_json()?,
            load: cell.load.clone(),
            seed,
            duration: outcome.duration,
            series: outcome.series,
            counters: outcome.counters,
            waits: Vec::new(),
            environment,
            warnings: outcome.warnings,
        }))
    }
    fn parallel(&self) -> bool {
        false
    }
}
