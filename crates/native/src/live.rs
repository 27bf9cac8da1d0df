//! One run on the running kernel under a variant: settings made, the agent run, and everything put back. The host backend
//! calls it here, the vm backend inside its guest.

use crate::settings::{self, Applied, Plan, System};
use crate::{Job, Outcome};
use schedlab_base::{Result, Warning};
use schedlab_kernel::Variant;
use schedlab_record::{Observe, environment};
use schedlab_workload::Spec;
use serde::{Deserialize, Serialize};
use std::sync::atomic::AtomicBool;

/// What is to be run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    /// The workload.
    pub spec: Spec,
    /// What is changed about the running kernel and the tasks.
    pub variant: Variant,
    /// Seed of the run.
    pub seed: u64,
    /// How closely it is watched.
    #[serde(default)]
    pub observe: Observe,
}

/// Makes the run; environment and warnings are those of the whole of it. When `stop` becomes true it ends early, and the
/// outcome says so; `None`: nobody stops it.
///
/// # Errors
/// What the variant or the workload asks for and this machine or user can't have.
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
            outcome.warnings.extend(left);
            outcome.warnings.extend(applied.put_back());
        }
        None => outcome.warnings.extend(settings::journal::warning(&System::live())),
    }
    environment.append(&mut outcome.environment);
    outcome.environment = environment;
    Ok(outcome)
}

/// Makes the live system what the variant says, until the value is dropped.
fn changed(variant: &Variant) -> Result<Option<Applied>> {
    let plan = Plan::of(variant)?;
    if plan.is_empty() { Ok(None) } else { plan.apply().map(Some) }
}
