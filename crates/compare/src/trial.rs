//! Results of a patch's trial in addition to its table: the subject, and the patch's cost in instructions.

use serde::Serialize;

/// The patches and kernels that are tried.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The patches: file name, and subject line if there is one.
    pub patches: Vec<(String, Option<String>)>,
    /// Features that the patches add and the trial switches, and whether they are on at boot.
    pub features: Vec<(String, bool)>,
    /// Counters that the patches add.
    pub counters: Vec<String>,
    pub base: String,
    pub patched: String,
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
