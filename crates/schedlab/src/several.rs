//! Several runs of one workload, under one kernel or several side by side: plain runs, or runs with costs drawn from
//! their ranges.

use crate::progress::Bar;
use crate::timing::Timed;
use crate::{common, interrupt, output};
use schedlab_base::{Error, ErrorKind, Result, Warning};
use schedlab_compare::comparison::overview;
use schedlab_compare::{Question, compare};
use schedlab_lab::cell::Cell;
use schedlab_lab::cell::folders;
use schedlab_lab::plan::order;
use schedlab_lab::{Backend, Backends, Plan, Session};
use schedlab_record::Store;
use schedlab_report::ReportForm;

/// How many runs to make, and what to print of them.
#[derive(Clone, Copy)]
pub struct Several<'a> {
    /// Makes them.
    pub backends: &'a Backends,
    /// Runs of each cell.
    pub runs: u64,
    /// The first seed.
    pub seed: u64,
    /// Whether the speed of the simulator is printed.
    pub timing: bool,
    /// Whether progress and notes are kept quiet.
    pub quiet: bool,
}

/// Makes the runs, cell after cell in turn, and prints the cells' metrics. Runs that are stored already are not made
/// again.
///
/// # Errors
/// When a run fails, or on an interruption.
pub fn conduct(cells: Vec<Cell>, store: &Store, several: Several<'_>, form: &ReportForm) -> Result<()> {
    conduct_told(cells, store, several, form, Vec::new())
}

/// The same; the comparison has these warnings, too.
pub fn conduct_told(
    cells: Vec<Cell>,
    store: &Store,
    several: Several<'_>,
    form: &ReportForm,
    warnings: Vec<Warning>,
) -> Result<()> {
    let runs = order(cells.len(), several.runs, several.seed)?;
    let live = cells.iter().any(|c| c.backend == Backend::Host);
    let drawn = cells.iter().any(|c| !c.uncertain.is_empty());
    let plan = Plan { cells, runs, warnings };
    let bar = Bar::runs(several.quiet);
    let jobs = common::cpus() as usize;
    let stop = interrupt::stop_flag()?;
    let executor = Timed::new(several.backends);
    let finished = Session {
        executor: &executor,
        store: Some(store),
        attach: &[],
        jobs,
        progress: &bar,
        stop,
        engine: None,
        outlines: false,
    }
    .work(&plan)?;
    drop(bar);
    if several.timing {
        executor.table().lines().for_each(output::note);
    }
    let kept = store.root().display();
    if finished.interrupted {
        let (done, all) = (finished.records.len(), plan.runs.len());
        let words =
            format!("interrupted: {done} of {} finished, kept in {kept}", schedlab_base::counted(all, "run"));
        let error = Error::new(ErrorKind::CheckFailed, words);
        // Live runs get new seeds, so the same command would make other runs.
        return Err(if live { error } else { error.help("the same command continues from there") });
    }
    let metrics = if drawn { Vec::new() } else { overview(&finished.records) };
    let question = Question { metrics, folders: folders(&plan.cells, store.root())?, ..Question::default() };
    common::show(&compare(&finished.records, &question, &finished.warnings)?, form)?;
    if !several.quiet && !drawn {
        let made = finished.records.len() - finished.found;
        output::note(&format!(
            "{} made, {} found; kept in {kept}",
            schedlab_base::counted(made, "run"),
            finished.found
        ));
    }
    Ok(())
}
