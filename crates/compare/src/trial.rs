//! The result of a patch's trial: its verdicts, its cost in instructions, and whether its lines were reached.

use crate::Comparison;
use crate::predicted::Predictions;
use schedlab_base::Error;
use serde::{Serialize, Serializer};

/// The result of a trial, as its page and its JSON (`schedlab/trial/1`) have it.
#[derive(Debug, Serialize)]
pub struct Tried {
    /// The patches: file name, and subject line if there is one.
    #[serde(skip)]
    pub patches: Vec<(String, Option<String>)>,
    /// The names of both variants.
    #[serde(skip)]
    pub base: String,
    #[serde(skip)]
    pub patched: String,
    /// The base kernel's source, for readers.
    pub source: String,
    /// Features that the patches add and the trial switches.
    pub features: Vec<Feature>,
    /// Counters that the patches add.
    pub counters: Vec<String>,
    /// Options of the configuration that they bring or change, as the patched kernel has them.
    pub options: Vec<Brought>,
    /// The patched kernel against the base; on backend vm from the runs in guests only.
    pub comparison: Comparison,
    /// Instructions by machine and operation.
    pub costs: Vec<Cost>,
    /// Instructions by function, the largest difference first.
    pub functions: Vec<Moved>,
    /// Changes that the simulator predicted; empty if the simulator does not know the patch.
    pub predicted: Predictions,
    /// How often the lines that they change were reached (empty on backends that can't tell), or why that was not
    /// counted.
    #[serde(serialize_with = "counted")]
    pub reached: Result<Vec<Reached>, String>,
    /// Why runs are missing: the work was interrupted.
    #[serde(skip)]
    pub unfinished: Option<Error>,
}

fn counted<S: Serializer>(reached: &Result<Vec<Reached>, String>, to: S) -> Result<S::Ok, S::Error> {
    reached.as_deref().unwrap_or_default().serialize(to)
}

/// A feature of the scheduler that patches add.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Feature {
    pub name: String,
    /// Whether a kernel starts with it on.
    pub on: bool,
}

/// An option of the configuration that patches bring, or whose default they change.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Brought {
    /// Its name, without CONFIG_.
    pub name: String,
    /// Its value; `None` if its dependencies are off.
    pub value: Option<String>,
    /// Who sets it: "default", "fragment", "builtin".
    pub by: &'static str,
    /// Whether the patches add it.
    pub new: bool,
    #[serde(skip)]
    pub words: String,
}

/// The cost of an operation under both kernels.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Cost {
    pub machine: String,
    /// The operation: "wakeup", "switch", "pass"; "all" is everything that the scheduler executed.
    pub operation: String,
    /// Calls: base, patched.
    pub calls: [u64; 2],
    /// Instructions of the operation: base, patched.
    pub instructions: [u64; 2],
}

impl Cost {
    /// Instructions per call; for "all" the sum of instructions. `None` if there was no call.
    pub fn each(&self, side: usize) -> Option<f64> {
        let executed = self.instructions[side] as f64;
        match (self.operation.as_str(), self.calls[side]) {
            (ALL, _) => Some(executed),
            (_, 0) => None,
            (_, calls) => Some(executed / calls as f64),
        }
    }
    /// The change, percent of the base's value.
    pub fn change_pct(&self) -> Option<f64> {
        let (base, patched) = (self.each(0)?, self.each(1)?);
        (base > 0.0).then(|| 100.0 * (patched / base - 1.0))
    }
}

/// The name of the sum over all operations.
pub const ALL: &str = "all";

/// A function whose instructions differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Moved {
    pub function: String,
    /// Calls: base, patched; 0 if it was inlined or does not exist.
    pub calls: [u64; 2],
    pub instructions: [u64; 2],
}

/// Adjacent lines that a patch changes, and how often runs reached them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reached {
    /// File and first line of the patched tree: "kernel/sched/fair.c:12918".
    pub place: String,
    /// The functions that contain its code; empty if it has none, or its file is not compiled.
    pub functions: Vec<String>,
    pub visits: Vec<Visits>,
}

/// How often a run of a load reached a place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Visits {
    pub machine: String,
    pub workload: String,
    pub load: String,
    /// From [`Visits::MOST`] on a lower bound.
    pub times: u64,
}

impl Visits {
    /// Counting of one place stops at this number.
    pub const MOST: u64 = 100_000;
}
