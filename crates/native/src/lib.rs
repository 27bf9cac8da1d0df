//! Runs on the live kernel: a re-executed agent runs programs as threads or processes.
//!
//! [`run`] starts this same executable as `schedlab agent`, passes it a [`Job`] and receives an [`Outcome`]. So tasks
//! are started from a process without other threads. A run does not need root; if a workload needs something that this
//! user may not have, the error names it. Counters that the kernel does not provide are absent, never 0.
//!
//! The modules; each may use those before it:
//! - `sys`: system calls, each behind a safe function, and the limits of this machine and user;
//! - [`settings`]: changes of the system for a run (files, control groups, attributes), and how they are undone;
//! - `watch`: the kernel's view of a run: tracepoints, counters, samples, the witness of other load;
//! - `tasks`: a program on its thread or in its process, and its measurements;
//! - `agent`: a run from the job to the outcome, on both sides of the pipe;
//! - [`probe`]: the costs of this machine, for the simulator;
//! - [`facts`]: this kernel's defaults.
//!
//! The only exception: [`settings`] removes tracing instances of killed runs, which are made in `watch`.

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
pub use sys::limits;
pub use sys::offspring::take;
pub use sys::{affinity, die_with_parent, fix_addresses, fork_alone, wait_readable};
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

/// The running kernel's tick period.
pub fn jiffy() -> Ns {
    Ns(sys::jiffy_ns())
}

/// The agent's orders, as plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    pub workload: Spec,
    pub seed: u64,
    /// A variant's changes of tasks' attributes, by group or for all tasks; for a command only the latter.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub attrs: BTreeMap<String, AttrChange>,
    /// Settings of the system that change during the run; their old values are in the parent's journal.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<settings::Later>,
    /// Changes of groups and tasks during the run, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub later: Vec<Change>,
    /// The control groups of its tasks, made by the parent.
    #[serde(default, skip_serializing_if = "Places::is_empty")]
    pub groups: Places,
    /// Whether the tasks get their own session, so that autogroup groups them.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub session: bool,
    /// The kind of recording; if events can't be recorded, the outcome's environment has the reason.
    #[serde(default)]
    pub observe: Observe,
    /// Size of each CPU's event ring, KiB; 0: the usual size.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub ring_kib: u32,
    /// The file for recorded events.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keep: Option<PathBuf>,
    /// The most bytes for that file; 0: no limit.
    #[serde(default, skip_serializing_if = "schedlab_base::is_zero")]
    pub keep_most_bytes: u64,
}

/// The agent's result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The findings, with the system's state around the run (steal, PSI, foreign CPU time). Figures in a command's
    /// output are read later.
    pub found: Findings,
    /// Whether `stop` ended it early.
    pub stopped: bool,
    /// Output of a command; `None` for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub said: Option<CommandOutput>,
}
