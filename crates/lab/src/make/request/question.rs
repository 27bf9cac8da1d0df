//! The question of an experiment to its records.

use crate::ask::cell::Cell;
use crate::ask::experiment::Experiment;
use crate::ask::state;
use crate::listener::Listener;
use crate::make::plan::{Options, Plan, plan};
use schedlab_base::{Backend, Result};
use schedlab_compare::Question;
use schedlab_compare::metrics::KnownMetrics;
use schedlab_record::RunDir;
use std::collections::BTreeSet;
use std::ffi::OsStr;

/// The question to the records. It leaves out variants that were not run (as on the live kernel), their published
/// figures, and metrics that only left-out loads have.
///
/// # Errors
/// When this machine's noise floors can't be read.
pub fn question(experiment: &Experiment, plan: &Plan, listener: &dyn Listener) -> Result<Question> {
    // With guests, only simulated cells may have the experiment's own variant names.
    let backends: Vec<Backend> = plan.cells.iter().map(|c| c.backend).collect();
    let is = |c: &Cell, variant: &str, backend: Backend| c.backend == backend && c.variant.name == variant;
    let was_run = |variant: &str| backends.iter().all(|b| plan.cells.iter().any(|c| is(c, variant, *b)));
    let mut question = experiment.question();
    question.keep_baseline(was_run);
    question.published.retain(|p| was_run(&p.variant));
    let known = KnownMetrics::of(plan.cells.iter().map(|c| &c.spec))?;
    question.metrics.retain(|m| known.check(m).is_ok());
    question.of_load.values_mut().for_each(|own| own.retain(|m| known.check(m).is_ok()));
    question.of_load.retain(|_, own| !own.is_empty());
    let live = plan.cells.iter().any(|c| c.backend == Backend::Host);
    if live {
        Ok(question.with_floors(state::noise_floors(&|text| listener.warn(text))?))
    } else {
        Ok(question)
    }
}

/// The part of an experiment's plan with these runs; the whole plan if they are none of its simulations.
///
/// # Errors
/// When the experiment can't be planned.
pub fn planned_of(experiment: &Experiment, runs: &[RunDir]) -> Result<Plan> {
    let mut planned = plan(experiment, Backend::Sim, Options::default())?;
    let stored: BTreeSet<&OsStr> = runs.iter().filter_map(|r| r.path.parent()?.file_name()).collect();
    let names = planned.cells.iter().map(Cell::hash).collect::<Result<Vec<_>>>()?;
    if names.iter().any(|name| stored.contains(OsStr::new(name))) {
        let mut names = names.iter();
        planned.cells.retain(|_| names.next().is_some_and(|name| stored.contains(OsStr::new(name))));
    }
    Ok(planned)
}
