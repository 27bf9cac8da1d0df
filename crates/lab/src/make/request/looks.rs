//! Makes the runs of a request, look by look, and compares them.

use super::{Compared, Lab, RunRequest, question};
use crate::ask::cell::{Cell, folders};
use crate::ask::experiment::{Experiment, blame};
use crate::make::budget::{self, Budget};
use crate::make::exec::{Finished, Session};
use crate::make::plan::Plan;
use schedlab_base::{Backend, Error, ErrorKind, Result, Warning, counted};
use schedlab_compare::comparison::folders_made_by_looks;
use schedlab_compare::comparison::looks_warning::with_looks;
use schedlab_compare::stats::Looks;
use schedlab_compare::{Comparison, Question, compare};
use schedlab_kernels::cache;
use schedlab_kernels::forecast::Speed;
use schedlab_record::store_listing::EXPERIMENT_FILE;
use schedlab_record::{Record, RunDir, Store};
use std::borrow::Cow;
use std::time::{Duration, Instant};

impl Lab<'_> {
    /// Makes the missing runs, and compares all.
    ///
    /// # Errors
    /// As [`Lab::planned`], when a run fails, and on an interruption.
    pub fn compared(&self, request: &RunRequest, experiment: Experiment) -> Result<Compared> {
        let mut made = self.compared_so_far(request, experiment)?;
        made.unfinished.take().map_or(Ok(made), Err)
    }
    /// As [`Lab::compared`]; after an interruption compares the finished runs if possible.
    ///
    /// # Errors
    /// As [`Lab::planned`], when a run fails, and on an interruption before anything could be compared.
    pub fn compared_so_far(&self, request: &RunRequest, experiment: Experiment) -> Result<Compared> {
        let (plan, experiment) = self.planned(request, experiment)?;
        let store = Store::create(&request.out)?;
        let folders = folders(&plan.cells, store.root())?;
        let mut question = question(&experiment, &plan, self.listener)?.kept_in(folders);
        if request.budget.is_some() {
            let runs = plan.runs.iter().filter(|r| r.cell == 0).count() as u64;
            question = question.at_looks(Looks::doubling(runs, budget::LOOKS));
            let (first, most) =
                (plan.runs.iter().map(|r| r.seed).min(), question.looks.runs().last().copied());
            if first.zip(most).is_some_and(|(seed, runs)| seed.checked_add(runs).is_none()) {
                return Err(Error::input("--seed is so large that the seeds of --budget do not fit"));
            }
        }
        let by_looks = match request.budget {
            Some(_) => None,
            None => found_by_looks(&plan, &store)?,
        };
        let began = Instant::now();
        let mut looking = Looking {
            lab: *self,
            request,
            experiment: &experiment,
            store: &store,
            question,
            by_looks,
            began,
            is_first: true,
        };
        let nothing_more = Budget::Runs(0);
        let done = budget::until_decided(plan, request.budget.unwrap_or(nothing_more), &mut looking)?;
        let (finished, plan) = (done.finished, done.plan);
        let unfinished = finished
            .interrupted
            .then(|| unfinished(&finished, &plan, &store).help("the same command continues from there"));
        let Some(comparison) = done.comparison else {
            return Err(unfinished.unwrap_or_else(|| Error::internal("runs that were made are not compared")));
        };
        let new = finished.records.len() - finished.found;
        Ok(Compared { comparison, plan, found: finished.found, new, records: finished.records, unfinished })
    }
    fn work(
        &self,
        request: &RunRequest,
        plan: &Plan,
        experiment: &Experiment,
        store: &Store,
        looks: &Looks,
    ) -> Result<Finished> {
        let stop = self.listener.stop_flag()?;
        let progress = self.listener.runs();
        let copy = with_looks(&experiment.text, looks);
        let session = Session {
            store: Some(store),
            attach: &[(EXPERIMENT_FILE, copy.as_bytes())],
            jobs: request.jobs() as usize,
            progress: &*progress,
            engine: self.engine,
            outlines: true,
            leaves_out: request.of_schedulers,
            ..Session::of(self.executor, stop)
        };
        let began = Instant::now();
        let finished = session.work(plan).map_err(|e| match request.backend {
            Backend::Code => blame::placed(experiment, e),
            _ => e,
        });
        if let (true, Ok(done), Ok(cache)) = (request.trial, &finished, cache::folder(None)) {
            let made = (done.records.len() - done.found) as u64;
            Speed::learn_runs(&cache, made, began.elapsed().as_millis() as u64 * request.jobs());
        }
        finished
    }
}

/// Makes and compares the runs of an experiment, look by look.
struct Looking<'a> {
    lab: Lab<'a>,
    request: &'a RunRequest,
    experiment: &'a Experiment,
    store: &'a Store,
    question: Question,
    /// The warning about stored runs of a budget that are now judged at one look.
    by_looks: Option<Warning>,
    began: Instant,
    /// Whether no runs were made yet. Runs of the first look are made whatever they show, so their budget has no
    /// influence; later ones are made because rows were undecided.
    is_first: bool,
}

/// The warning about stored runs of the plan that a budget made.
fn found_by_looks(plan: &Plan, store: &Store) -> Result<Option<Warning>> {
    let hashes = plan.cells.iter().map(Cell::hash).collect::<Result<Vec<_>>>()?;
    let runs: Vec<RunDir> =
        plan.runs.iter().filter_map(|run| store.get(&hashes[run.cell], run.seed)).collect();
    Ok(folders_made_by_looks(runs.iter().map(|run| run.path.as_path())))
}

impl budget::LookRuns for Looking<'_> {
    fn make(&mut self, part: &Plan) -> Result<Finished> {
        let once = Looks::once();
        let looks = if std::mem::take(&mut self.is_first) { &once } else { &self.question.looks };
        self.lab.work(self.request, part, self.experiment, self.store, looks)
    }
    fn compare(&self, records: &[Record], warnings: &[Warning]) -> Result<Comparison> {
        // Simulations next to a trial's runs in guests are predictions, and not rows of its family.
        let backend = self.request.backend;
        let of_kernels = |r: &&Record| r.backend == backend;
        let rows = if self.request.trial {
            Cow::Owned(records.iter().filter(of_kernels).cloned().collect::<Vec<_>>())
        } else {
            Cow::Borrowed(records)
        };
        let all: Vec<Warning> = self.by_looks.iter().chain(warnings).cloned().collect();
        compare(&rows, &self.question, &all)
    }
    fn elapsed(&self) -> Duration {
        self.began.elapsed()
    }
}

/// The error of work that was stopped; the store has the finished runs.
pub(super) fn unfinished(finished: &Finished, plan: &Plan, store: &Store) -> Error {
    let (done, all, dir) = (finished.records.len(), plan.runs.len(), store.root().display());
    let words = format!("interrupted: {done} of {} finished, kept in {dir}", counted(all, "run"));
    Error::new(ErrorKind::CheckFailed, words)
}
