//! One workload under costs drawn from their ranges: as many runs as draws, and which cost moves each metric; several
//! kernels side by side.

use crate::common;
use crate::progress::Bar;
use crate::{interrupt, output};
use schedlab_base::{Error, ErrorKind, Result};
use schedlab_lab::plan::{Cell, order};
use schedlab_lab::uncertainty::DEFAULT_DRAWS;
use schedlab_lab::{Plan, Question, Session, compare};
use schedlab_record::Store;

/// How many draws, from which seed on.
#[derive(Clone, Copy)]
pub struct Draws {
    /// Runs; `None`: as many as are usual.
    pub runs: Option<u64>,
    /// The first seed.
    pub seed: u64,
    /// Whether progress and notes are kept quiet.
    pub quiet: bool,
}

/// Makes the runs and prints the cells' metrics in a form of comparisons.
///
/// # Errors
/// An unknown form, what the runs find, and an interruption.
pub fn conduct(cells: Vec<Cell>, store: &Store, draws: Draws, form: &str) -> Result<()> {
    let form = schedlab_report::form(form)?;
    let runs = order(cells.len(), draws.runs.unwrap_or(DEFAULT_DRAWS), draws.seed)?;
    let plan = Plan { cells, runs, warnings: Vec::new() };
    let bar = Bar::runs(draws.quiet);
    let jobs = common::cpus() as usize;
    let stop = interrupt::stop_flag()?;
    let finished =
        Session { executor: &common::EXECUTOR, store: Some(store), attach: &[], jobs, progress: &bar, stop }
            .work(&plan)?;
    drop(bar);
    if finished.interrupted {
        let (done, all) = (finished.records.len(), plan.runs.len());
        let words = format!("interrupted: {done} of {all} runs finished, kept in {}", store.root().display());
        return Err(Error::new(ErrorKind::CheckFailed, words).help("the same command goes on from there"));
    }
    let comparison = compare(&finished.records, &Question::default(), &finished.warnings)?;
    output::result(|out| form.exporter.export(&comparison, out))
}
