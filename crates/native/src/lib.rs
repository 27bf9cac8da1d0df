//! Runs on the live kernel: a re-executed agent runs programs as threads or processes.
//!
//! [`run`] starts this same executable as `schedlab agent`, hands it a [`Job`] and takes back an [`Outcome`]. So tasks
//! are started from a process that has no threads yet. A run does not need root; if a workload asks for something that
//! this user may not have, the error names it. Counters that the kernel does not give are absent, never 0.
//!
//! The rooms, each of which may use those before it:
//! - `sys`: system calls, each behind a safe function, and the limits of this machine and user;
//! - [`settings`]: what a run changes on the system (files, control groups, attributes) and how that is put back;
//! - `watch`: what the kernel shows of a run: tracepoints, counters, samples, the witness of other load;
//! - `tasks`: a program on its thread or in its process, and its measurements;
//! - `agent`: a run from the job to the outcome, on both sides of the pipe;
//! - [`probe`]: the costs of this machine, for the simulator;
//! - [`facts`]: what this kernel does by default.
//!
//! The one step back: [`settings`] removes tracing instances that a killed run has left, which `watch` knows.

#[cfg(not(target_os = "linux"))]
compile_error!("the live backend runs on Linux");

mod agent;
pub mod facts;
mod fault;
pub mod probe;
pub mod settings;
mod sys;
mod tasks;
mod watch;

pub use agent::{engine, live};
pub use settings::{cgroups, exec};
pub use sys::die_with_parent;
pub use sys::limits;
pub use watch::{counters, profile, tracepoints};

pub use agent::parent::{AGENT_VARIABLE, run, run_with, signal_name};
pub use agent::{agent_main, execute};
pub use fault::Fault;
pub use sys::signals::{hangups_are_ignored, ignore_hangups};

use schedlab_base::Ns;
use schedlab_kernel::{AttrChange, Change};
use schedlab_record::{Findings, Observe};
use schedlab_workload::{CommandOutput, Spec};
use serde::{Deserialize, Serialize};
use settings::cgroups::Places;
use std::collections::BTreeMap;
use std::path::PathBuf;

/// The time from tick to tick of the running kernel.
pub fn jiffy() -> Ns {
    Ns(sys::jiffy_ns())
}

/// The agent's order, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub workload: Spec,
    /// Seed of the run.
    pub seed: u64,
    /// A variant's changes of tasks' attributes, by group or for all tasks; for a command only the latter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, AttrChange>,
    /// Settings of the system that change within the run; their old values are in the parent's journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<settings::Later>,
    /// Changes of groups and tasks within the run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Change>,
    /// The control groups of its tasks, which the parent has made.
    #[serde(default, skip_serializing_if = "Places::is_empty")]
    pub groups: Places,
    /// Whether the run's tasks are a session of their own, so that autogroup makes them a group.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session: bool,
    /// How closely the run is watched; where events can't be recorded, the outcome's environment says why.
    #[serde(default)]
    pub observe: Observe,
    /// Size of each CPU's ring of events, KiB; 0: the usual size.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ring_kib: u32,
    /// The file to which recorded events are written, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<PathBuf>,
    /// The most bytes that are written there; 0: as many as come.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub keep_most_bytes: u64,
}

fn is_zero<N: Default + PartialEq>(n: &N) -> bool {
    *n == N::default()
}

/// The result that the agent sends back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The findings, with the state of the system around the run (steal, PSI, foreign CPU time). Its figures are read
    /// later, from a command's output.
    pub found: Findings,
    /// Whether `stop` ended it early.
    pub stopped: bool,
    /// A command's output; `None` for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<CommandOutput>,
}
