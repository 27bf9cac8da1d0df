//! Sittings: several runs in one boot of a guest.
//!
//! A boot of a deterministic guest takes as long as ten short runs. A *sitting* is one boot that makes all loads of one
//! variant on one machine, for a block of seeds. Every sitting makes the same runs in the same order, so that a run has
//! the same history under each variant. Its cells say so in their set-up, and are other cells than those whose runs
//! have boots of their own.

use super::{Done, Finished, Made, Outcome, Session};
use crate::cell::Cell;
use crate::plan::{Plan, Run};
use crate::room;
use rayon::prelude::*;
use schedlab_base::{Backend, Error, Result};
use schedlab_record::{Stored, content_hash};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The runs of one boot: indices into the plan's runs, in the order in which they are made.
type Sitting = Vec<usize>;

/// The plan with its guests' cells marked as those of sittings of `seeds` seeds each.
///
/// # Errors
/// When a workload can't be written as JSON (a fault of schedlab).
pub fn seated(mut plan: Plan, seeds: u64) -> Result<Plan> {
    let first = plan.runs.iter().map(|r| r.seed).min().unwrap_or(0);
    let mut specs: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for cell in plan.cells.iter().filter(|c| c.backend == Backend::Vm) {
        let key = (cell.variant.name.clone(), cell.machine.name.clone());
        specs.entry(key).or_default().push(
            serde_json::to_string(&cell.spec)
                .map_err(|e| Error::internal(format!("a workload can't be written as JSON: {e}")))?,
        );
    }
    for cell in plan.cells.iter_mut().filter(|c| c.backend == Backend::Vm) {
        let key = (cell.variant.name.clone(), cell.machine.name.clone());
        let text = format!("{seeds} seeds from {first}\n{}", specs[&key].join("\n"));
        if let Some(guest) = &mut cell.guest {
            guest.sitting = Some(content_hash(text.as_bytes())[..16].to_owned());
        }
    }
    Ok(plan)
}

/// The sittings of a seated plan, and its runs on other backends.
fn sittings(plan: &Plan, seeds: u64) -> (Vec<Sitting>, Vec<usize>) {
    let first = plan.runs.iter().map(|r| r.seed).min().unwrap_or(0);
    let mut boots: BTreeMap<(u64, String, String), Sitting> = BTreeMap::new();
    let mut others = Vec::new();
    for (at, run) in plan.runs.iter().enumerate() {
        let cell = &plan.cells[run.cell];
        if cell.guest.as_ref().is_none_or(|g| g.sitting.is_none()) {
            others.push(at);
            continue;
        }
        let block = (run.seed - first) / seeds.max(1);
        let key = (block, cell.machine.name.clone(), cell.variant.name.clone());
        boots.entry(key).or_default().push(at);
    }
    let mut all: Vec<Sitting> = boots.into_values().collect();
    for sitting in &mut all {
        sitting.sort_by_key(|at| (plan.runs[*at].seed, plan.runs[*at].cell));
    }
    (all, others)
}

impl Session<'_> {
    /// Works off a seated plan: sittings first, then the runs of other backends. A sitting that fails is told as its
    /// first run in the plan's order.
    ///
    /// # Errors
    /// As [`Session::work`].
    pub fn work_seated(&self, plan: &Plan, seeds: u64) -> Result<Finished> {
        self.progress.start(plan.runs.len());
        let hashes: Vec<String> = plan.cells.iter().map(Cell::hash).collect::<Result<_>>()?;
        let to_make = plan.runs.iter().filter(|run| self.stored(&hashes[run.cell], run.seed).is_none());
        room::for_plan(plan, to_make, self.jobs)?;
        let (sittings, others) = sittings(plan, seeds);
        // As in `work`: what stands before the first failure is still made.
        let failed = AtomicUsize::new(usize::MAX);
        let is_over = |at: usize| self.stop.load(Ordering::Relaxed) || at > failed.load(Ordering::Relaxed);
        let results: Mutex<Vec<Option<Outcome>>> = Mutex::new(plan.runs.iter().map(|_| None).collect());
        let keep = |at: usize, outcome: Outcome| {
            results.lock().unwrap_or_else(PoisonError::into_inner)[at] = Some(outcome);
        };
        let pool = rayon::ThreadPoolBuilder::new()
            .num_threads(self.jobs)
            .build()
            .map_err(|e| Error::machine(format!("can't start {} threads: {e}", self.jobs)))?;
        pool.install(|| {
            sittings.par_iter().with_max_len(1).for_each(|sitting| {
                let Some(first) = sitting.iter().copied().min().filter(|at| !is_over(*at)) else { return };
                match self.sit(plan, &hashes, sitting) {
                    Ok(all) => sitting.iter().zip(all).for_each(|(at, outcome)| keep(*at, Ok(outcome))),
                    Err(e) => {
                        let Run { cell, seed } = plan.runs[first];
                        self.progress.done(&plan.cells[cell], seed, Done::Failed(&e));
                        failed.fetch_min(first, Ordering::Relaxed);
                        keep(first, Err(e));
                    }
                }
            });
        });
        pool.install(|| {
            others.par_iter().with_max_len(1).for_each(|at| {
                let Run { cell, seed } = plan.runs[*at];
                if is_over(*at) {
                    return;
                }
                let outcome = self.one(&plan.cells[cell], &hashes[cell], seed);
                if outcome.is_err() {
                    failed.fetch_min(*at, Ordering::Relaxed);
                }
                keep(*at, outcome);
            });
        });
        let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.finish(plan, results.into_iter().map(|r| r.unwrap_or(Ok(None))).collect())
    }

    /// Makes the runs of a sitting, or finds all of them; nothing if `stop` ended it.
    fn sit(
        &self,
        plan: &Plan,
        hashes: &[String],
        sitting: &Sitting,
    ) -> Result<Vec<Option<(schedlab_record::Record, bool)>>> {
        let runs: Vec<Run> = sitting.iter().map(|at| plan.runs[*at]).collect();
        let stored: Option<Vec<_>> = runs.iter().map(|r| self.stored(&hashes[r.cell], r.seed)).collect();
        if let Some(stored) = stored {
            let mut found = Vec::new();
            for (run, dir) in runs.iter().zip(stored) {
                let record = dir.record_of(&hashes[run.cell])?;
                self.progress.done(&plan.cells[run.cell], run.seed, Done::Found(&record));
                found.push(Some((record, true)));
            }
            return Ok(found);
        }
        if self.stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        let asked: Vec<(&Cell, u64)> = runs.iter().map(|r| (&plan.cells[r.cell], r.seed)).collect();
        let first =
            asked.first().map_or_else(String::new, |(cell, seed)| format!("{}, seed {seed}", cell.title()));
        let made = self.executor.sit(&asked, self.stop);
        let Some(made) = made.map_err(|e| e.context(format!("the sitting that begins with {first}")))? else {
            return Ok(Vec::new());
        };
        let mut all = Vec::new();
        for (run, made) in runs.iter().zip(made) {
            let stored = self.store.map(|store| made.put(store, &hashes[run.cell], run.seed, self.attach));
            let Made { mut record, .. } = made;
            if let Some(Stored::Kept(there)) = stored.transpose()? {
                // Another process was faster; its record is the one that later comparisons read.
                record = there.record()?;
            }
            self.progress.done(&plan.cells[run.cell], run.seed, Done::Made(&record));
            all.push(Some((record, false)));
        }
        Ok(all)
    }
}
