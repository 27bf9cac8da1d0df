//! From a request to the plan of its runs. Kernels are built on the way.

use super::{Lab, RunRequest};
use crate::ask::builds;
use crate::ask::cell::Cell;
use crate::ask::code;
use crate::ask::experiment::{Experiment, blame};
use crate::make::plan::{Plan, left_out, order, plan, plan_in_guests, plan_on_code};
use schedlab_base::{Backend, Error, Result};
use schedlab_guest::Mode;
use schedlab_kernel::Variant;
use schedlab_kernel::migration::MigrationCost;

impl Lab<'_> {
    /// The plan of an experiment's part, and that part. Kernels are built first.
    ///
    /// # Errors
    /// When the experiment lacks the part, a kernel can't be built, or this machine can't make the runs.
    pub fn planned(&self, request: &RunRequest, mut experiment: Experiment) -> Result<(Plan, Experiment)> {
        let backend = request.backend;
        match backend {
            Backend::Vm => experiment = experiment.in_guests(),
            Backend::Code => experiment = experiment.on_code(),
            Backend::Sim | Backend::Host => {}
        }
        let whole = experiment.variants.clone();
        experiment.narrow(backend, &request.part)?;
        let mut plan = match backend {
            Backend::Vm => self.planned_in_guests(request, &experiment, &whole)?,
            Backend::Code => self.planned_on_code(request, &mut experiment)?,
            Backend::Sim | Backend::Host => {
                // To measure that on simulated caches of many MB takes up to a minute, before the first run.
                let measures = |v: &Variant| v.migration_cost == Some(MigrationCost::Auto);
                let words = "measuring how long tasks stay cache hot on the machines (migration_cost = auto)";
                let _step = experiment.variants.iter().any(measures).then(|| self.listener.step(words));
                plan(&experiment, backend, request.wanted)?
            }
        };
        if request.trial {
            plan = without_lone_twins(plan)?;
        }
        let left_out = left_out(&experiment, backend);
        if !left_out.is_empty() {
            let left_out = left_out.join(", ");
            self.listener.note(&format!("left out on backend {}: {left_out}", backend.name()));
        }
        Ok((plan, experiment))
    }

    /// The plan in guests, whose kernels are built. `whole` are the variants of all of the experiment.
    fn planned_in_guests(
        &self,
        request: &RunRequest,
        experiment: &Experiment,
        whole: &[Variant],
    ) -> Result<Plan> {
        let usual = request.trial.then_some(Mode::Deterministic);
        let mut guests = request.guest.guests(&request.kernel, usual)?;
        if usual.is_some_and(|mode| mode != guests.mode) {
            return Err(
                Error::input("a trial needs deterministic guests").help("leave out --guest-mode real-time")
            );
        }
        if request.kernel.is_empty() {
            let builds = builds::wanted(whole, &experiment.variants, experiment.folder())?;
            if request.trial && self.listener.wants_notes() {
                let cells = experiment.loads.len() * experiment.variants.len();
                let first = cells as u64 * request.wanted.runs.unwrap_or(experiment.runs);
                let further = request.budget.map_or(Some(0), |budget| budget.further_runs(first));
                let forecast = builds::foretell(&builds, (first, further), request.jobs())?;
                self.listener.note(&forecast);
            }
            guests.built = builds::build_all(&builds, &experiment.variants, self.listener)?;
        }
        plan_in_guests(experiment, &guests, request.wanted)
    }

    /// The plan on the kernel's own code, whose images are built unless they are known.
    fn planned_on_code(&self, request: &RunRequest, experiment: &mut Experiment) -> Result<Plan> {
        if let Some(level) = request.level {
            experiment.variants.iter_mut().for_each(|v| v.level = level);
        }
        let (variants, twinned) = match request.driven.as_slice() {
            [] => {
                let (own, folder) = (&experiment.variants, experiment.folder());
                let driven = code::driven(own, &request.kernel, folder, self.listener);
                // Published changes are held against the kernel's own code alone.
                let twinned = !request.trial && !request.of_schedulers && experiment.series.is_none();
                (driven.map_err(|e| blame::placed(experiment, e))?, twinned)
            }
            driven => (driven.to_vec(), false),
        };
        plan_on_code(experiment, &variants, (twinned, request.wanted))
    }
}

/// The plan without simulations if only one variant has them: nothing would be compared with it.
fn without_lone_twins(plan: Plan) -> Result<Plan> {
    let simulated = |c: &&Cell| c.backend == Backend::Sim;
    let mut names: Vec<&str> = plan.cells.iter().filter(simulated).map(|c| c.variant.name.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    if names.len() != 1 {
        return Ok(plan);
    }
    let runs = plan.runs.iter().filter(|r| r.cell == 0).count() as u64;
    let seed = plan.runs.iter().map(|r| r.seed).min().unwrap_or(1);
    let cells: Vec<Cell> = plan.cells.into_iter().filter(|c| c.backend != Backend::Sim).collect();
    Ok(Plan { runs: order(cells.len(), runs, seed)?, cells, warnings: plan.warnings })
}
