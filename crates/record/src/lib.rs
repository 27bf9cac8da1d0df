//! The results of a run: its record, its metrics, and the folders that store it.
//!
//! A record is plain data that every backend fills alike. Events become findings in the crate `analyse`; here the
//! findings have their form, and one table of names, [`METRICS`].
//!
//! From a run to its stored record:
//!
//! | step | module |
//! | --- | --- |
//! | events become counters, series and the longest waits | `analyse`; [`Series`], [`wait`] |
//! | the kernel's own counters are read, subtracted, checked | [`schedstat`] |
//! | host, kernel and settings are noted | [`environment`], [`computer`], [`scheduler`] |
//! | all measurements are put together | [`findings`] |
//! | samples of the kernel's own code become shares of functions | [`cycles`] |
//! | the record's name is derived from everything that determines the run | [`cell`] |
//! | it is written once, and listed and found again | [`store`], [`store_listing`], [`index`] |
//! | a name is looked up in it | [`metric`] |
//!
//! Terms:
//!
//! - A *record* is plain data: the resolved machine, kernel and workload, the seed, and the findings. Every output can
//!   be made from it again. Its JSON is described in docs/formats.md.
//! - A *cell* is everything that a run depends on except its seed; the hash of its key names the folder. So processes
//!   that share a folder need no lock, and a run that exists is never made twice.
//! - A *series* is all values of one quantity: exact count, sum, least and largest value, and a histogram.
//! - A *digest* is a record without its waits and histograms, for tables of thousands of runs.
//!
//! Comparisons of many stored runs see digests: from their store's [`index`], or made of records that are read without
//! their waits. A field that comparisons read must be in the index's rows. Histograms of read records stay packed.
//!
//! Rules. "Not measured" is a value with a reason, never 0. The same run gives the same bytes: maps are ordered, and no
//! float is stored where an integer will do. A change that alters counts of events raises [`WATCHING`]; one that alters
//! simulated results raises [`MODEL`].
//!
//! This crate stands on `stats`, `machine`, `kernel` and `trace`. It knows no backend and prints nothing.

pub mod accounts;
pub mod cell;
pub mod computer;
pub mod cycles;
pub mod environment;
pub mod findings;
mod function_counts;
pub mod index;
pub mod metric;
pub mod schedstat;
pub mod scheduler;
pub mod store;
pub mod store_listing;
pub mod wait;

pub use accounts::{Delays, Interval, MAX_INTERVALS, Stays, TaskAccount};
mod published;
mod record_wire;
pub use cell::{CellKey, CodeSetup, GuestSetup, cell_hash};
pub use computer::Computer;
pub use cycles::Cycles;
pub use findings::Findings;
pub use function_counts::{Counts, FunctionCount};
pub use metric::{Better, METRICS, Metric, Resolved, Stat, Value, evaluate};
pub use published::{PostedFigure, PostedFigures, PostedSeries, Published};
pub use schedstat::Schedstat;
pub use store::{RunDir, Store, Stored};
pub use wait::{Occupant, Wait, WaitCause};

pub use schedlab_stats::{Series, Tally};

use schedlab_base::{Backend, Origin};
use schedlab_kernel::{Kernel, Variant};
use schedlab_machine::{Drawn, Machine};
use serde::{Deserialize, Serialize};
use std::io;

pub const RECORD_SCHEMA: &str = "schedlab/record/1";
/// Version of the simulator's model: raised whenever a change can alter simulated results.
pub const MODEL: u32 = 22;
/// Version of the code that runs and watches real kernels (guests' init, agents, the analyser): raised whenever a
/// change can alter the record of an equal run on the same kernel. Runs of real kernels stay valid when the model
/// changes.
pub const WATCHING: u32 = 10;

/// Version of the engine that drives the kernel's own code: raised whenever a change can alter its results. Changes of
/// the code itself change its image's key instead.
pub const ENGINE: u32 = 14;

/// The version in a record, by its origin: [`MODEL`] for the simulator, [`WATCHING`] for a real kernel, [`ENGINE`] for
/// the kernel's own code.
pub fn version_of(origin: &Origin) -> u32 {
    match origin {
        Origin::Made(Backend::Sim) => MODEL,
        Origin::Made(Backend::Code) => ENGINE,
        Origin::Made(Backend::Host | Backend::Vm) | Origin::Read(_) => WATCHING,
    }
}

/// How closely a live run is watched. Each level costs the run more than the one before (docs/live.md). The simulator
/// always reports every event.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Observe {
    /// The kernel's own accounts of each task, read before and after.
    #[default]
    Accounts,
    /// Also records of the tasks' own switches, for the length of their stays on a CPU.
    Stays,
    /// Also performance counters, which the kernel switches with each task.
    Counters,
    /// Also counters of the last-level cache, which make each switch even longer.
    Caches,
    /// Every switch, wakeup and migration, by the kernel's tracepoints; without performance counters.
    Events,
}

impl Observe {
    /// The word in records and tables.
    pub const fn name(self) -> &'static str {
        match self {
            Observe::Accounts => "accounts",
            Observe::Stays => "stays",
            Observe::Counters => "counters",
            Observe::Caches => "caches",
            Observe::Events => "events",
        }
    }
}

/// The largest absolute value of a figure. Comparisons sum up squares of figures over runs, which must stay finite:
/// JSON has no infinity, so a record with one could not be read again.
pub const MAX_FIGURE: f64 = 1e150;

/// A number that a command printed for the whole run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Figure {
    /// In `unit`; finite, and at most [`MAX_FIGURE`].
    pub value: f64,
    /// "ns" for times, "1/s" for rates, "" for counts.
    pub unit: String,
    pub better: Better,
}

impl Figure {
    /// Whether a record can hold it.
    pub fn is_fit(&self) -> bool {
        self.value.abs() <= MAX_FIGURE
    }
}

/// The record of one run. Maps are ordered, so that the same run gives the same bytes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(from = "record_wire::Wire<Vec<Wait>, Vec<Interval>>")]
pub struct Record {
    /// [`RECORD_SCHEMA`].
    pub schema: String,
    /// The version of the code that made it ([`version_of`]).
    pub model: u32,
    /// The backend that made it, or another program whose output was read.
    pub backend: Origin,
    /// The whole machine, as stated.
    pub machine: Machine,
    /// Figures of the machine that were drawn from ranges for this run; empty if all were as stated. [`Machine::with`]
    /// gives the machine that was simulated.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub drawn: Vec<Drawn>,
    /// The kernel's name: profile ("v4.5") or release string.
    pub kernel: String,
    /// The simulated kernel; `None` for a live one.
    pub resolved: Option<Kernel>,
    /// The set-up of the guest; `None` for other backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub guest: Option<GuestSetup>,
    /// The kernel's code that ran on the simulated machine; `None` for other backends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub code: Option<CodeSetup>,
    /// The variant as the experiment states it.
    pub variant: Variant,
    pub workload: String,
    /// The workload as plain data (`workload::Spec`).
    pub spec: serde_json::Value,
    /// The load's name in tables ("2x24").
    pub load: String,
    /// How closely a live run was watched; `None` for simulated runs, other tools' output, and records without this
    /// field (see [`Record::watched`]).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observe: Option<Observe>,
    pub seed: u64,
    /// In JSON the findings' fields are next to those above.
    #[serde(flatten)]
    pub found: Findings,
}

impl Record {
    /// Reads a record of this version from its JSON.
    ///
    /// # Errors
    /// When the bytes are not the JSON of a record.
    pub fn from_json(bytes: &[u8]) -> serde_json::Result<Record> {
        // One reader for texts from everywhere: each reader of all of a record's types takes seconds to compile.
        serde_json::from_str(str::from_utf8(bytes).map_err(serde::de::Error::custom)?)
    }
    /// The record's JSON, as the store writes it, with a newline at the end.
    ///
    /// # Errors
    /// When it can't be written as JSON.
    pub fn to_json(&self) -> serde_json::Result<Vec<u8>> {
        let mut text = Text(Vec::with_capacity(4096));
        serde_json::to_writer(&mut text, self)?;
        text.0.push(b'\n');
        Ok(text.0)
    }
    /// How closely a live run was watched. Records of 0.1 have this only for events; their other runs had counters.
    /// `None` for simulated runs and other tools' output.
    pub fn watched(&self) -> Option<Observe> {
        let live = self.backend == Backend::Host && self.found.environment.contains_key("kernel.release");
        self.observe.or(live.then_some(Observe::Counters))
    }
    /// How much of the warm-up took the kernel's own code no time, before its level began, ns.
    pub fn free_ns(&self) -> u64 {
        let warmup_ns = self.spec["params"]["warmup"].as_u64().unwrap_or_default();
        let level = self.code.as_ref().map(|code| code.level).unwrap_or_default();
        level.begins_ns(warmup_ns, self.machine.turns.is_some())
    }
}

/// A record's JSON. Most of it is written a character at a time: a vector's own writer has a call for each.
struct Text(Vec<u8>);

impl io::Write for Text {
    #[inline]
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match bytes {
            [one] => self.0.push(*one),
            _ => self.0.extend_from_slice(bytes),
        }
        Ok(bytes.len())
    }
    #[inline]
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write(bytes).map(|_| ())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Ns;
    use std::collections::BTreeMap;

    /// A small record for tests.
    pub(crate) fn record(seed: u64) -> Record {
        let mut latency = Series::new("ns", Better::Lower);
        (0..5000).for_each(|i| latency.record(i * 37));
        Record {
            schema: RECORD_SCHEMA.into(),
            model: MODEL,
            backend: Backend::Sim.into(),
            machine: serde_json::from_value(serde_json::json!({
                "name": "tiny", "about": "", "costs": {}, "idle_states": [], "background": [],
                "topology": { "cpus": [], "node_distance": [] },
            }))
            .unwrap(),
            drawn: Vec::new(),
            kernel: "v4.5".into(),
            resolved: None,
            guest: None,
            code: None,
            variant: Variant::plain("v4.5"),
            workload: "schbench".into(),
            spec: serde_json::json!({"threads": 24}),
            load: "2x24".into(),
            observe: None,
            seed,
            found: Findings {
                duration: Ns::secs(1),
                series: BTreeMap::from([("schbench.latency".to_owned(), latency)]),
                environment: environment::simulated(),
                ..Findings::default()
            },
        }
    }

    #[test]
    fn findings_follow_the_run_in_the_order_of_their_fields() {
        let text = serde_json::to_string(&record(1)).unwrap();
        let keys = ["seed", "duration", "series", "counters", "waits", "environment", "warnings"];
        let at =
            keys.map(|key| text.find(&format!(",\"{key}\":")).unwrap_or_else(|| panic!("{key}: {text}")));
        assert!(at.is_sorted() && !text.contains("\"found\""), "{at:?}: {text}");
        let twice = text.replacen("\"counters\":{}", "\"counters\":{},\"counters\":{}", 1);
        assert!(serde_json::from_str::<Record>(&twice).unwrap_err().to_string().contains("duplicate field"));
    }

    #[test]
    fn a_record_is_read_back_unchanged() {
        let mut r = record(1);
        // This number's shortest text needs an exact reader.
        let figure = Figure { value: 1.0 / 3.0 * 1e9, unit: "ns".into(), better: Better::Lower };
        r.found.figures.insert("hackbench.time".into(), figure);
        let text = serde_json::to_string(&r).unwrap();
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), r);
        assert_ne!(serde_json::from_str::<Record>(&text.replace("\"seed\":1", "\"seed\":2")).unwrap(), r);
    }
}
