//! Several runs of single cells without an experiment: one workload, under one kernel or several side by side.

use super::Lab;
use super::looks::unfinished;
use crate::ask::cell::{Cell, folders};
use crate::ask::here;
use crate::make::exec::Session;
use crate::make::plan::{Plan, order};
use schedlab_base::{Backend, Result, Warning};
use schedlab_compare::comparison::overview;
use schedlab_compare::{Comparison, Question, compare};
use schedlab_record::{Record, Store};

/// Runs of cells that were made or found, compared.
pub struct ComparedCells {
    pub comparison: Comparison,
    pub new: usize,
    /// Number of runs found in the store.
    pub found: usize,
    /// Whether costs were drawn from their ranges.
    pub drawn: bool,
    /// The records in the order in which they were made.
    pub records: Vec<Record>,
}

impl Lab<'_> {
    /// Makes `runs` runs of each cell from a seed on, in turn over the cells, and compares them. Stored runs are not
    /// made again. The warnings are added to the comparison.
    ///
    /// # Errors
    /// When a run fails, or on an interruption.
    pub fn compared_cells(
        &self,
        cells: Vec<Cell>,
        store: &Store,
        (runs, seed): (u64, u64),
        warnings: Vec<Warning>,
    ) -> Result<ComparedCells> {
        let runs = order(cells.len(), runs, seed)?;
        let live = cells.iter().any(|c| c.backend == Backend::Host);
        let drawn = cells.iter().any(|c| !c.uncertain.is_empty());
        let plan = Plan { cells, runs, warnings };
        let stop = self.listener.stop_flag()?;
        let progress = self.listener.runs();
        let session = Session {
            store: Some(store),
            jobs: here::cpus() as usize,
            progress: &*progress,
            engine: self.engine,
            ..Session::of(self.executor, stop)
        };
        let finished = session.work(&plan);
        drop(progress);
        let finished = finished?;
        if finished.interrupted {
            let error = unfinished(&finished, &plan, store);
            // Live runs get new seeds, so the same command would make different runs.
            return Err(if live { error } else { error.help("the same command continues from there") });
        }
        let metrics = if drawn { Vec::new() } else { overview(&finished.records) };
        let question =
            Question { metrics, folders: folders(&plan.cells, store.root())?, ..Question::default() };
        let comparison = compare(&finished.records, &question, &finished.warnings)?;
        let new = finished.records.len() - finished.found;
        Ok(ComparedCells { comparison, new, found: finished.found, drawn, records: finished.records })
    }
}
