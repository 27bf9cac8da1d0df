//! The agent is the child's side of a run: it reads one job from standard input, writes one reply to standard output,
//! and ends.
//!
//! Standard input stays open after the job: when the parent closes it or dies, the run ends early and the reply has the
//! measurements so far. Standard error has only faults; the parent quotes it. The process is started for this job and
//! has no other threads, so nothing in it disturbs the programs.

mod command;
mod control;
pub mod engine;
pub mod live;
pub mod parent;
pub mod protocol;
mod recording;
mod scx;
mod scx_counts;
mod setting_changes;
mod stage;
mod task_changes;

use crate::fault::Fault;
use crate::sys::limits;
use crate::watch::findings::ObserverFindings;
use crate::watch::kernel_counters::KernelCounters;
use crate::watch::witness::Witness;
use crate::{Job, Outcome, sys};
use protocol::{Reply, read_job};
use schedlab_base::{Error, Result};
use schedlab_kernel::Attr;
use schedlab_kernel::policy::{EVERY_TASK, changed};
use schedlab_record::Observe;
use schedlab_workload::{Spec, later};
use setting_changes::Changes;
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd};

/// The hidden subcommand `agent`. Call it before the process has any other thread.
///
/// # Errors
/// When standard input has no job, or standard output can't be written. A failed run gives a reply, not an error.
pub fn agent_main() -> Result<()> {
    sys::die_with_parent();
    let input = io::stdin();
    let job = read_job(input.as_fd())?;
    let reply = match execute(&job, Some(input.as_fd())) {
        Ok(outcome) => Reply::Done(Box::new(outcome)),
        Err(e) => Reply::Failed(Fault::from(&e)),
    };
    let text = serde_json::to_vec(&reply).map_err(|e| Error::internal(format!("the agent's reply: {e}")))?;
    let mut output = io::stdout().lock();
    output
        .write_all(&text)
        .and_then(|()| output.flush())
        .map_err(|e| Error::machine(format!("the agent can't reply: {e}")))
}

/// Runs a job in this process, which should have no other busy threads. Ends early when `stop` becomes readable or is
/// hung up.
///
/// # Errors
/// When the workload is wrong, or needs something that this machine or user can't have.
pub fn execute(job: &Job, stop: Option<BorrowedFd<'_>>) -> Result<Outcome> {
    crate::watch::tracepoints::ask_rings(job.ring_kib);
    crate::watch::tracepoints::ask_to_keep(job.keep.clone(), job.keep_most_bytes);
    let changes = Changes::new(job.changes.clone());
    let mut outcome = execute_changing(job, &changes, stop)?;
    outcome.found.environment.extend(changes.changes_made());
    if !outcome.stopped {
        outcome.found.warnings.extend(changes.missed());
    }
    Ok(outcome)
}

fn execute_changing(job: &Job, changes: &Changes, stop: Option<BorrowedFd<'_>>) -> Result<Outcome> {
    if let Spec::Command(command) = &job.workload {
        let change = job.attrs.get(EVERY_TASK).copied().unwrap_or_default();
        let mut outcome = command::execute(command, job.seed, change, changes, job.observe, stop)?;
        if job.observe == Observe::Events {
            let found = ObserverFindings {
                unmeasured: [("events", "events of commands are not recorded".to_owned())].into(),
                ..ObserverFindings::default()
            };
            found.join(&mut outcome.found);
        }
        return Ok(outcome);
    }
    let mut built = job.workload.build(job.seed)?;
    if !built.nested.is_empty() || !built.remotes.is_empty() {
        let text = "a live kernel has no [[nested]] and no [[remote]] machines";
        return Err(Error::input(text).help("--backend sim or --backend code simulates them"));
    }
    // Spawned tasks may never exist all at once, so a limit on them is reported when they reach it.
    limits::room_for_tasks(built.tasks.iter().filter(|t| t.spawned_by.is_none()).count())?;
    limits::room_for_memory(built.tasks.iter().map(|t| u64::from(t.footprint_kb)).sum())?;
    for task in &mut built.tasks {
        task.attr = changed(&job.attrs, &task.name, task.attr);
    }
    later::note(&mut built, &job.later)?;
    let prios = built.tasks.iter().map(|t| prio(&t.attr));
    crate::watch::tracepoints::describe_tasks(prios.zip(built.group_paths()));
    let witness = Witness::before();
    let measured =
        engine::run_changing(built, &job.groups, changes, stop, job.observe, KernelCounters::live())?;
    let (environment, seen) = witness.after();
    let mut found = measured.own;
    found.environment = environment;
    found.warnings.extend(seen);
    measured.counts.join(&mut found);
    measured.found.join(&mut found);
    Ok(Outcome { found, stopped: measured.stopped, said: None })
}

/// The kernel's priority of a task with these attributes.
fn prio(attr: &Attr) -> i32 {
    if attr.policy.is_fair() { 120 + i32::from(attr.nice) } else { 99 - i32::from(attr.rt_priority) }
}
