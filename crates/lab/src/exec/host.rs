//! Runs on the running kernel, one at a time.

use super::Executor;
use crate::plan::Cell;
use schedlab_base::{Result, Warning};
use schedlab_native::Job;
use schedlab_record::{MODEL, RECORD_SCHEMA, Record, Schedstat, environment, schedstat};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// The live executor.
pub struct Host;

impl Executor for Host {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Record>> {
        let before = schedstat::read_live().ok();
        let mut outcome = schedlab_native::run(&Job { workload: cell.spec.clone(), seed }, stop)?;
        let counted = before.and_then(|before| counted_since(&before, &mut outcome.warnings));
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
            schedstat: counted,
            figures: BTreeMap::new(),
            waits: Vec::new(),
            environment,
            warnings: outcome.warnings,
        }))
    }
    fn parallel(&self) -> bool {
        false
    }
}

/// What the kernel's schedstat counted since then, all of the machine, warm-up included. A kernel that stopped counting
/// in the middle leaves none, with a warning.
fn counted_since(before: &Schedstat, warnings: &mut Vec<Warning>) -> Option<Schedstat> {
    match schedstat::read_live().and_then(|after| schedstat::delta(before, &after)) {
        Ok((counted, wrapped)) => {
            warnings.extend(wrapped);
            Some(counted)
        }
        Err(e) => {
            warnings.push(Warning::new("schedstat.lost", format!("schedstat is not kept: {}", e.message())));
            None
        }
    }
}
