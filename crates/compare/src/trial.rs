//! What a trial of a patch shows in addition to its table: the subject, and what the patch costs in instructions.

use serde::Serialize;

/// What is tried.
#[derive(Clone, Debug, Default)]
pub struct Subject {
    /// The patches: file name, and subject line if there is one.
    pub patches: Vec<(String, Option<String>)>,
    /// Features that they add and the trial switches, and whether they are on at boot.
    pub features: Vec<(String, bool)>,
    /// Counters that they add.
    pub counters: Vec<String>,
    /// The base's name.
    pub base: String,
    /// The patched kernel's name.
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
    /// Instructions of the operation.
    pub instructions: [u64; 2],
}

impl Cost {
    /// Instructions per call; for "all" the instructions. `None` without a call.
    pub fn each(&self, side: usize) -> Option<f64> {
        let executed = self.instructions[side] as f64;
        match (self.operation.as_str(), self.calls[side]) {
            (ALL, _) => Some(executed),
            (_, 0) => None,
            (_, calls) => Some(executed / calls as f64),
        }
    }
    /// The change, per cent of the base's.
    pub fn change_pct(&self) -> Option<f64> {
        let (base, patched) = (self.each(0)?, self.each(1)?);
        (base > 0.0).then(|| 100.0 * (patched / base - 1.0))
    }
}

/// The name of the sum of all operations.
pub const ALL: &str = "all";

/// A function whose instructions differ.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Moved {
    pub function: String,
    /// Calls: base, patched; 0 where it was inlined or does not exist.
    pub calls: [u64; 2],
    pub instructions: [u64; 2],
}

/// Lines that stand together and that a patch changes, and how often runs came to them.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Reached {
    /// File and first line of the patched tree: "kernel/sched/fair.c:12918".
    pub place: String,
    /// The functions that have its code; empty: it has none, or its file is not compiled.
    pub functions: Vec<String>,
    /// Visits in one run of each load.
    pub visits: Vec<Visits>,
}

/// How often a run of a load came to a place.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Visits {
    pub machine: String,
    pub workload: String,
    pub load: String,
    /// From [`Visits::MOST`] on it is at least so often.
    pub times: u64,
}

impl Visits {
    /// More visits of one place are not counted.
    pub const MOST: u64 = 100_000;
}
