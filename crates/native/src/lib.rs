//! The kernel, live: a re-executed agent that runs programs as threads.

use schedlab_base::{Ns, Result, Warning};
use schedlab_record::Series;
use schedlab_workload::Spec;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// What the agent is told to do: plain data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The workload.
    pub workload: Spec,
    /// Seed of the run.
    pub seed: u64,
}

/// What the agent sends back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Measured time.
    pub duration: Ns,
    /// Series the programs recorded, by name.
    pub series: BTreeMap<String, Series>,
    /// Counters by dotted metric name ("cpu_time", "switches.voluntary").
    pub counters: BTreeMap<String, u64>,
    /// What was seen of the system around the run (steal, PSI, foreign CPU time).
    pub environment: BTreeMap<String, String>,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
    /// Whether `stop` ended it early.
    pub stopped: bool,
}

/// Runs a job in a re-executed agent and waits for it.
///
/// # Errors
/// When the agent can't start, or the workload asks for what this kernel or user may not do.
pub fn run(job: &Job, stop: &AtomicBool) -> Result<Outcome> {
    let _ = (job, stop);
    Err(schedlab_base::Error::internal("the live runner is being built"))
}
