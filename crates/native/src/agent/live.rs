//! One run on the running kernel under a variant: applies settings and control groups, runs the agent, and restores
//! everything. The host backend calls it on this machine, the vm backend inside its guest.

use crate::agent::scx;
use crate::settings::cgroups;
use crate::settings::owner::Owner;
use crate::settings::{self, Plan, System};
use crate::{Job, Outcome};
use schedlab_base::{Result, Warning};
use schedlab_kernel::Variant;
use schedlab_record::{Observe, environment};
use schedlab_workload::Spec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Request {
    pub spec: Spec,
    /// Changes of the running kernel and of the tasks.
    pub variant: Variant,
    pub seed: u64,
    /// The kind of recording.
    #[serde(default)]
    pub observe: Observe,
}

/// Makes the run. Its environment and warnings cover the whole run, including settings. When `stop` becomes true the
/// run ends early, and the outcome reports that; with `None` it can't be stopped.
///
/// # Errors
/// When the variant or the workload needs something that this machine or user can't have.
pub fn run(request: &Request, stop: Option<&AtomicBool>) -> Result<Outcome> {
    run_with_rings(request, stop, 0)
}

/// As [`run`]. Recorded events are also written to the new file `keep` (an absolute path).
pub fn run_keeping(request: &Request, stop: Option<&AtomicBool>, keep: Option<PathBuf>) -> Result<Outcome> {
    run_as(request, stop, 0, keep.map(|file| (file, 0)))
}

/// As [`run`], with event rings of that size for each CPU, KiB; 0: the usual size.
pub fn run_with_rings(request: &Request, stop: Option<&AtomicBool>, ring_kib: u32) -> Result<Outcome> {
    run_as(request, stop, ring_kib, None)
}

/// As both; at most this many bytes are written to the file, with a warning if events are cut off.
pub fn run_keeping_some(request: &Request, ring_kib: u32, keep: PathBuf, most_bytes: u64) -> Result<Outcome> {
    run_as(request, None, ring_kib, Some((keep, most_bytes)))
}

fn run_as(
    request: &Request,
    stop: Option<&AtomicBool>,
    ring_kib: u32,
    keep: Option<(PathBuf, u64)>,
) -> Result<Outcome> {
    let keep_most_bytes = keep.as_ref().map_or(0, |(_, bytes)| *bytes);
    let mut plan = Plan::of(&request.variant)?;
    let spec = request.spec.clone().with_groups(&request.variant.groups)?;
    let groups = match Owner::of(std::process::id()) {
        Some(me) => cgroups::groups_of(&System::live(), &spec, &request.variant.at, request.seed, me)?,
        None => None,
    };
    groups.iter().for_each(|groups| plan.group(groups));
    let mut applied = if plan.is_empty() { None } else { Some(plan.apply()?) };
    let changes = applied.as_mut().map(|a| std::mem::take(&mut a.later)).unwrap_or_default();
    let attrs = request.variant.tasks.clone();
    let job = Job {
        workload: spec,
        seed: request.seed,
        attrs,
        changes,
        later: request.variant.at.iter().filter(|c| c.group.is_some() || c.task.is_some()).cloned().collect(),
        groups: groups.as_ref().map(|g| g.places.clone()).unwrap_or_default(),
        session: asks_for_autogroup(&request.variant),
        observe: request.observe,
        ring_kib,
        keep: keep.map(|(file, _)| file),
        keep_most_bytes,
    };
    let scheduler = request.variant.scx.as_ref().map(scx::start).transpose()?;
    let mut outcome = crate::run(&job, stop)?;
    let ended = scheduler.map(scx::Running::end).transpose()?;
    outcome.found.counters.extend(groups.iter().flat_map(|groups| groups.counted(&System::live())));
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
    if let Some(groups) = groups {
        environment.insert("cgroup.version".to_owned(), groups.version.name().to_owned());
        outcome.found.warnings.extend(groups.warnings);
    }
    if let Some(ended) = ended {
        outcome.found.counters.extend(ended.counters);
        let facts = [("scx.ops", ended.ops), ("scx.exit", ended.exit), ("scx.said", ended.said)];
        environment.extend(facts.map(|(name, value)| (name.to_owned(), value)));
    }
    environment.append(&mut outcome.found.environment);
    outcome.found.environment = environment;
    Ok(outcome)
}

/// Whether a variant enables autogroup (2.6.38). The kernel groups tasks by session, so the run then gets its own
/// session: a guest's init has none, and on a host the run would share the group of its terminal.
fn asks_for_autogroup(variant: &Variant) -> bool {
    let on = |text: &String| matches!(text.trim(), "1" | "on" | "true");
    variant.tunables.get("autogroup") == Some(&1) || variant.settings.get("autogroup").is_some_and(on)
}
