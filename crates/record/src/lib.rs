//! What was measured: the record of a run, the one analyser of events, the metric table, run folders.
//!
//! Only this crate says what a slice, a wakeup delay, a migration is, so that all backends and importers mean the same.

pub mod accounts;
pub mod analyse;
pub mod cell;
pub mod environment;
pub mod explain;
pub mod holdings;
pub mod metric;
pub mod schedstat;
pub mod scheduler;
pub mod series;
pub mod store;
mod tally;
pub mod wait;

pub use accounts::{Interval, MAX_INTERVALS, Stays, TaskAccount};
pub use analyse::{Analyser, Observed, TaskName};
pub use cell::{CellKey, GuestSetup, cell_hash, content_hash};
pub use explain::{Explanation, Versus, explain, explain_text, versus, versus_text};
pub use metric::{Better, METRICS, Metric, Resolved, Stat, Value, evaluate};
pub use schedstat::Schedstat;
pub use series::Series;
pub use store::{RunDir, Store, Stored};
pub use tally::Tally;
pub use wait::{Occupant, Wait, WaitCause};

use schedlab_base::{Ns, Warning};
use schedlab_kernel::{Kernel, Variant};
use schedlab_machine::{Drawn, Machine};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The schema of records on disk.
pub const RECORD_SCHEMA: &str = "schedlab/record/1";
/// Version of the simulator's model: raised whenever a change can alter simulated results.
pub const MODEL: u32 = 9;
/// Version of how real kernels are run and watched (guests' init, agents, the analyser): raised whenever a change can
/// alter what the record of the same run on the same kernel says. Runs of real kernels outlive changes of the model.
pub const WATCHING: u32 = 8;

/// The version that a record of the backend carries: [`MODEL`] of the simulator, [`WATCHING`] of a real kernel.
pub fn version_of(backend: &str) -> u32 {
    if backend == "sim" { MODEL } else { WATCHING }
}

/// How closely a live run is watched: each level costs the run more than the one before (docs/live.md). The simulator
/// tells everything anyway.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Observe {
    /// By what the kernel accounts for each task anyway, read before and after.
    #[default]
    Accounts,
    /// Also by records of the tasks' own switches: how long they stay on a CPU.
    Stays,
    /// Also by performance counters, which are switched with each task.
    Counters,
    /// By every switch, wakeup and migration, through the kernel's tracepoints; without performance counters.
    Events,
}

impl Observe {
    /// Its word in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Observe::Accounts => "accounts",
            Observe::Stays => "stays",
            Observe::Counters => "counters",
            Observe::Events => "events",
        }
    }
}

/// A figure that a command said of itself: one number for the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// The number, in `unit`; finite.
    pub value: f64,
    /// Unit: "ns" for times, "1/s" for rates, "" for counts.
    pub unit: String,
    /// Which direction is good.
    pub better: Better,
}

/// All that was seen in one run. Maps are ordered, so that the same run gives the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// [`RECORD_SCHEMA`].
    pub schema: String,
    /// [`version_of`] its backend.
    pub model: u32,
    /// "sim", "host" or "vm".
    pub backend: String,
    /// The machine, whole, as it is stated.
    pub machine: Machine,
    /// Figures of the machine that were drawn from their ranges for this run ([`Machine::with`] makes the machine that
    /// was simulated); empty: all were as stated.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Drawn>,
    /// The kernel's name: profile ("v4.5") or release string.
    pub kernel: String,
    /// What was simulated; `None` on live kernels.
    pub resolved: Option<Kernel>,
    /// How the guest was set up; `None` on other backends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestSetup>,
    /// The variant as the experiment states it.
    pub variant: Variant,
    /// The workload's name.
    pub workload: String,
    /// The workload as plain data (`workload::Spec`).
    pub spec: serde_json::Value,
    /// The load's name in tables ("2x24").
    pub load: String,
    /// How closely a live run was watched; `None` of simulated ones, of other tools' and of records that do not say
    /// ([`Record::watched`]).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
    /// Seed of the run.
    pub seed: u64,
    /// Measured time.
    pub duration: Ns,
    /// Recorded and observed series by dotted name ("schbench.latency", "wakeup_delay", "slice").
    pub series: BTreeMap<String, Series>,
    /// Counts and sums by dotted name ("migrations", "placement.idle_core", "work" in ns).
    pub counters: BTreeMap<String, u64>,
    /// The scheduler's own counters, where they are kept: over the measured time, live over the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedstat: Option<Schedstat>,
    /// What a command said of itself, by dotted name ("hackbench.time"); only commands have figures.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Figure>,
    /// What each task of the workload used, in the order in which the workload declares them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskAccount>,
    /// How groups of tasks stayed on each CPU; of the first [`analyse::MAX_GROUPS`] groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays: Vec<Stays>,
    /// What programs measured interval by interval, in the order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// The longest waits, longest first, with what is known of each.
    pub waits: Vec<Wait>,
    /// Where and how the run was made: sorted key and value.
    pub environment: BTreeMap<String, String>,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
}

impl Record {
    /// How closely a live run was watched. Records of 0.1 name events only, and the others had counters. `None` of
    /// simulated runs and of what other tools saved.
    pub fn watched(&self) -> Option<Observe> {
        let live = self.backend == "host" && self.environment.contains_key("kernel.release");
        self.observe.or(live.then_some(Observe::Counters))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A small record for tests.
    pub(crate) fn record(seed: u64) -> Record {
        let mut latency = Series::new("ns", Better::Lower);
        (0..5000).for_each(|i| latency.record(i * 37));
        Record {
            schema: RECORD_SCHEMA.into(),
            model: MODEL,
            backend: "sim".into(),
            machine: serde_json::from_value(serde_json::json!({
                "name": "tiny", "about": "", "costs": {}, "idle_states": [], "background": [],
                "topology": { "cpus": [], "node_distance": [] },
            }))
            .unwrap(),
            drawn: Vec::new(),
            kernel: "v4.5".into(),
            resolved: None,
            guest: None,
            variant: Variant::plain("v4.5"),
            workload: "schbench".into(),
            spec: serde_json::json!({"threads": 24}),
            load: "2x24".into(),
            observe: None,
            seed,
            duration: Ns::secs(1),
            series: BTreeMap::from([("schbench.latency".to_owned(), latency)]),
            counters: BTreeMap::new(),
            schedstat: None,
            figures: BTreeMap::new(),
            tasks: Vec::new(),
            stays: Vec::new(),
            intervals: Vec::new(),
            waits: Vec::new(),
            environment: environment::simulated(),
            warnings: Vec::new(),
        }
    }

    #[test]
    fn a_record_reads_back_as_it_was() {
        let mut r = record(1);
        // A number whose shortest text only an exact reader takes back.
        let figure = Figure { value: 1.0 / 3.0 * 1e9, unit: "ns".into(), better: Better::Lower };
        r.figures.insert("hackbench.time".into(), figure);
        let text = serde_json::to_string(&r).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), r);
        assert_ne!(serde_json::from_str::<Record>(&text.replace("\"seed\":1", "\"seed\":2")).unwrap(), r);
    }
}
