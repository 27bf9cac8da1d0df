//! One run on the running kernel under a variant: makes the settings, runs the agent, and puts everything back. The
//! host backend calls it on this machine, the vm backend inside its guest.

use crate::settings::{self, Applied, Plan, System};
use crate::{Job, Outcome};
use schedlab_base::{Result, Warning};
use schedlab_kernel::Variant;
use schedlab_record::{Observe, environment};
use schedlab_workload::Spec;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// The run that is asked for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The workload.
    pub spec: Spec,
    /// The changes of the running kernel and of the tasks.
    pub variant: Variant,
    /// Seed of the run.
    pub seed: u64,
    /// How closely it is watched.
    #[serde(default)]
    pub observe: Observe,
}

/// Makes the run. Its environment and warnings cover all of it, settings included. When `stop` becomes true the run
/// ends early, and the outcome says so; with `None` it can't be stopped.
///
/// # Errors
/// When the variant or the workload asks for something that this machine or user can't have.
pub fn run(request: &Request, stop: Option<&AtomicBool>) -> Result<Outcome> {
    let mut applied = changed(&request.variant)?;
    let changes = applied.as_mut().map(|a| std::mem::take(&mut a.later)).unwrap_or_default();
    let attrs = request.variant.tasks.clone();
    let job =
        Job { workload: request.spec.clone(), seed: request.seed, attrs, changes, observe: request.observe };
    let mut outcome = crate::run(&job, stop)?;
    let mut environment = environment::capture();
    match applied {
        Some(applied) => {
            environment.extend(applied.told.clone());
            let left = applied.recovered.iter().map(|r| Warning::new("settings.left", &r.said));
            outcome.found.warnings.extend(left);
            outcome.found.warnings.extend(applied.put_back());
        }
        None => outcome.found.warnings.extend(settings::journal::warning(&System::live())),
    }
    environment.append(&mut outcome.found.environment);
    outcome.found.environment = environment;
    Ok(outcome)
}

/// Changes the live system as the variant says, until the value is dropped.
fn changed(variant: &Variant) -> Result<Option<Applied>> {
    let plan = Plan::of(variant)?;
    if plan.is_empty() { Ok(None) } else { plan.apply().map(Some) }
}
