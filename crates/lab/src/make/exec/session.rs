//! Executors make a record of a cell and a seed; a session makes all runs of a plan.
//!
//! A run that is in the store already is not made again, since cell and seed decide a simulated run. Runs are stored as
//! they end, so that an interruption loses only those under way. Records come back in the plan's order, whatever the
//! number of threads. Runs that would disturb each other are made one at a time, after the others.

use super::executor::Executor;
use crate::ask::cell::Cell;
use crate::ask::scx;
use crate::listener::{Done, Progress, Silent};
use crate::make::memory_estimate;
use crate::make::plan::{Plan, Run};
use schedlab_base::{Error, Result, Warning, parallel};
use schedlab_record::{Record, RunDir, Store};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The code of the warning about a cell that is left out, because its scheduler does not last.
pub const LEFT_OUT: &str = "scx.left_out";

/// The settings with which a plan is worked off.
pub struct Session<'a> {
    pub executor: &'a dyn Executor,
    /// The store of runs; `None`: they are not kept.
    pub store: Option<&'a Store>,
    /// Files kept next to every record: name and content.
    pub attach: &'a [(&'a str, &'a [u8])],
    /// Number of runs made side by side, if the executor allows it.
    pub jobs: usize,
    pub progress: &'a dyn Progress,
    /// Ends the work when it becomes true.
    pub stop: &'a AtomicBool,
    /// Makes missing runs elsewhere; `None`: this process makes them.
    pub engine: Option<&'a dyn Engine>,
    /// Stored runs stay in memory as outlines only ([`schedlab_record::RunDir::outline`]): whole
    /// records of 10,000 runs would take 10 GB.
    pub outlines: bool,
    /// Whether cells whose sched_ext scheduler does not last are left out, with a warning each; otherwise the first one
    /// ends the work.
    pub leaves_out: bool,
}

/// Makes the missing runs of a plan elsewhere than in this process.
pub trait Engine: Sync {
    /// Has the runs made and put into the store. Returns whether all are there; false if the stop flag ended the
    /// waiting.
    ///
    /// # Errors
    /// When the engine can't be reached, refuses, or a run fails.
    fn make(&self, wanted: &MissingRuns<'_>, session: &Session<'_>) -> Result<bool>;
}

/// The runs of a plan that a store lacks, as an engine gets them.
pub struct MissingRuns<'a> {
    pub plan: &'a Plan,
    pub hashes: &'a [String],
    /// Indices into the plan's runs.
    pub missing: Vec<usize>,
    pub store: &'a Store,
}

/// The result of a plan.
#[derive(Debug)]
pub struct Finished {
    /// Records in the plan's order; fewer than planned after an interruption.
    pub records: Vec<Record>,
    /// Number of records that were found in the store.
    pub found: usize,
    /// Whether runs are missing because of `stop`.
    pub interrupted: bool,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
}

/// A run's record, and whether it was found in the store; `None` if it was not made because of `stop`.
type Outcome = Result<Option<(Record, bool)>>;

impl<'a> Session<'a> {
    /// Runs are made one at a time in this process; they are not kept, and nothing is shown.
    pub fn of(executor: &'a dyn Executor, stop: &'a AtomicBool) -> Session<'a> {
        Session {
            executor,
            store: None,
            attach: &[],
            jobs: 1,
            progress: &Silent,
            stop,
            engine: None,
            outlines: false,
            leaves_out: false,
        }
    }
}

impl Session<'_> {
    /// Works off a plan.
    ///
    /// # Errors
    /// The first error in the plan's order; earlier stored runs stay.
    pub fn work(&self, plan: &Plan) -> Result<Finished> {
        self.progress.start(plan.runs.len());
        let hashes: Vec<String> = plan.cells.iter().map(Cell::hash).collect::<Result<_>>()?;
        let missing = |(_, run): &(usize, &Run)| self.stored(&hashes[run.cell], run.seed).is_none();
        let missing: Vec<usize> = plan.runs.iter().enumerate().filter(missing).map(|(at, _)| at).collect();
        if let Some(engine) = self.engine {
            return self.collect(plan, &hashes, missing, engine);
        }
        memory_estimate::for_plan(plan, missing.iter().map(|at| &plan.runs[*at]), self.jobs)?;
        // Index of the first run that failed, of all and of each cell that is left out. Runs before it are still made,
        // so that the error does not depend on jobs.
        let failed = AtomicUsize::new(usize::MAX);
        let left_out: Vec<AtomicUsize> = plan.cells.iter().map(|_| AtomicUsize::new(usize::MAX)).collect();
        let one = |(at, run): (usize, &Run)| {
            let first = [&failed, &left_out[run.cell]].map(|first| first.load(Ordering::Relaxed));
            if self.stop.load(Ordering::Relaxed) || first.into_iter().any(|first| at > first) {
                return Ok(None);
            }
            let cell = &plan.cells[run.cell];
            let outcome = self.find_or_make(cell, &hashes[run.cell], run.seed);
            if let Err(e) = &outcome {
                let first = if self.is_left_out(cell, e) { &left_out[run.cell] } else { &failed };
                first.fetch_min(at, Ordering::Relaxed);
            }
            outcome
        };
        let beside =
            |(_, run): &(usize, &Run)| self.jobs != 1 && self.executor.parallel(&plan.cells[run.cell]);
        let (beside, alone): (Vec<_>, Vec<_>) = plan.runs.iter().enumerate().partition(beside);
        let mut results: Vec<(usize, Outcome)> = Vec::with_capacity(plan.runs.len());
        if !beside.is_empty() {
            results.extend(parallel::map(self.jobs, &beside, |(at, run)| (*at, one((*at, *run)))));
        }
        results.extend(alone.into_iter().map(|(at, run)| (at, one((at, run)))));
        results.sort_by_key(|(at, _)| *at);
        self.finish(plan, results.into_iter().map(|(_, outcome)| outcome).collect())
    }

    /// Has an engine make the missing runs, and reads all of them from the store.
    fn collect(
        &self,
        plan: &Plan,
        hashes: &[String],
        missing: Vec<usize>,
        engine: &dyn Engine,
    ) -> Result<Finished> {
        let no_store = || Error::internal("runs that are made elsewhere are kept in a store");
        let store = self.store.ok_or_else(no_store)?;
        let made: BTreeSet<usize> = missing.iter().copied().collect();
        let whole = engine.make(&MissingRuns { plan, hashes, missing, store }, self)?;
        self.progress.start(plan.runs.len());
        let read = |(at, run): (usize, &Run)| {
            let cell = &plan.cells[run.cell];
            match store.get(&hashes[run.cell], run.seed) {
                Some(dir) => {
                    let record = self.read(&dir, &hashes[run.cell])?;
                    self.progress.done(cell, run.seed, Done::Found(&record));
                    Ok(Some((record, !made.contains(&at))))
                }
                None if whole => {
                    let text =
                        format!("{}, seed {}: the run has gone from the store", cell.title(), run.seed);
                    Err(Error::machine(text).help("the same command makes it again"))
                }
                None => Ok(None),
            }
        };
        self.finish(plan, plan.runs.iter().enumerate().map(read).collect())
    }

    fn stored(&self, hash: &str, seed: u64) -> Option<RunDir> {
        self.store.and_then(|s| s.get(hash, seed))
    }

    /// A stored run of the cell of that name.
    fn read(&self, run: &RunDir, cell: &str) -> Result<Record> {
        if self.outlines { run.outline_of(cell) } else { run.record_of(cell) }
    }

    fn find_or_make(&self, cell: &Cell, hash: &str, seed: u64) -> Outcome {
        let outcome = self.found_or_made(cell, hash, seed);
        match &outcome {
            Ok(Some((record, true))) => self.progress.done(cell, seed, Done::Found(record)),
            Ok(Some((record, false))) => self.progress.done(cell, seed, Done::Made(record)),
            Ok(None) => {}
            Err(e) => self.progress.done(cell, seed, Done::Failed(e)),
        }
        outcome
    }

    fn found_or_made(&self, cell: &Cell, hash: &str, seed: u64) -> Outcome {
        if let Some(run) = self.stored(hash, seed) {
            return Ok(Some((self.read(&run, hash)?, true)));
        }
        let made = self.executor.run(cell, seed, self.stop);
        let mut made = made.map_err(|e| e.context(format!("{}, seed {seed}", cell.title())))?;
        made.as_ref().map_or(Ok(()), |made| cell.check_computer(&made.record))?;
        if let (Some(made), Some(store)) = (&mut made, self.store) {
            made.put(store, hash, seed, self.attach)?;
            if self.outlines {
                made.record.found.outline();
            }
        }
        Ok(made.map(|made| (made.record, false)))
    }

    fn is_left_out(&self, cell: &Cell, e: &Error) -> bool {
        self.leaves_out && scx::has_failed(&cell.variant, e)
    }

    fn finish(&self, plan: &Plan, results: Vec<Outcome>) -> Result<Finished> {
        let mut runs: Vec<(usize, Record, bool)> = Vec::new();
        let mut left_out: Vec<(usize, Error)> = Vec::new();
        for (run, outcome) in plan.runs.iter().zip(results) {
            match outcome {
                Err(e) if self.is_left_out(&plan.cells[run.cell], &e) => {
                    if left_out.iter().all(|(cell, _)| *cell != run.cell) {
                        left_out.push((run.cell, e));
                    }
                }
                other => runs.extend(other?.map(|(record, found)| (run.cell, record, found))),
            }
        }
        let is_out = |cell: usize| left_out.iter().any(|(out, _)| *out == cell);
        let under_schedulers = |at: &usize| plan.cells[*at].variant.scx.is_some();
        if !left_out.is_empty() && (0..plan.cells.len()).filter(under_schedulers).all(is_out) {
            // Nothing of the schedulers is left: what they lack, or their values, are wrong.
            return Err(left_out.swap_remove(0).1);
        }
        runs.retain(|(cell, ..)| !is_out(*cell));
        let planned = plan.runs.iter().filter(|run| !is_out(run.cell)).count();
        let found = runs.iter().filter(|(.., found)| *found).count();
        let mut warnings = plan.warnings.clone();
        warnings.extend(left_out.iter().map(|(_, e)| Warning::new(LEFT_OUT, e.message())));
        let interrupted = runs.len() < planned;
        if interrupted {
            let text =
                format!("interrupted: {} of {} finished", runs.len(), schedlab_base::counted(planned, "run"));
            warnings.push(Warning::new("run.interrupted", text));
        }
        let records = runs.into_iter().map(|(_, r, _)| r).collect();
        Ok(Finished { records, found, interrupted, warnings })
    }
}
