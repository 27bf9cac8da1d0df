//! Runs on the running kernel, one at a time.

use super::Executor;
use crate::command;
use crate::plan::Cell;
use schedlab_base::{Result, Warning};
use schedlab_native::settings::{self, Applied, Plan, System};
use schedlab_native::{Job, Outcome};
use schedlab_record::{Figure, MODEL, RECORD_SCHEMA, Record, Schedstat, Series, environment, schedstat};
use schedlab_workload::Spec;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// The live executor.
pub struct Host;

impl Executor for Host {
    fn run(&self, cell: &Cell, seed: u64, stop: &AtomicBool) -> Result<Option<Record>> {
        let mut applied = changed(cell)?;
        let before = schedstat::read_live().ok();
        let changes = applied.as_mut().map(|a| std::mem::take(&mut a.later)).unwrap_or_default();
        let job = Job { workload: cell.spec.clone(), seed, attrs: cell.variant.tasks.clone(), changes };
        let mut outcome = schedlab_native::run(&job, stop)?;
        let counted = before.and_then(|before| counted_since(&before, &mut outcome.warnings));
        if outcome.stopped {
            return Ok(None);
        }
        let (figures, series) = said(cell, &outcome)?;
        let mut environment = environment::capture();
        match applied {
            Some(applied) => {
                environment.extend(applied.told.clone());
                outcome
                    .warnings
                    .extend(applied.recovered.iter().map(|r| Warning::new("settings.left", &r.said)));
                outcome.warnings.extend(applied.put_back());
            }
            None => outcome.warnings.extend(settings::journal::warning(&System::live())),
        }
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
            series,
            counters: outcome.counters,
            schedstat: counted,
            figures,
            tasks: outcome.tasks,
            stays: Vec::new(),
            intervals: outcome.intervals,
            waits: Vec::new(),
            environment,
            warnings: outcome.warnings,
        }))
    }
    fn parallel(&self) -> bool {
        false
    }
}

/// Makes the live system what the cell's variant says, until the value is dropped.
fn changed(cell: &Cell) -> Result<Option<Applied>> {
    let plan = Plan::of(&cell.variant)?;
    if plan.is_empty() { Ok(None) } else { plan.apply().map(Some) }
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
