//! What single tasks used, where groups of tasks stayed, and what a program measured interval by interval.
//!
//! A task's account holds for the measured time, on every backend. A group is what [`group_of`] says: the tasks whose
//! names differ by their number only.

use schedlab_base::{CpuId, Ns};
use schedlab_kernel::policy::group_of;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What one task of the workload used.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAccount {
    /// Its name.
    pub name: String,
    /// Time on a CPU.
    pub cpu_time: Ns,
    /// Switches away from it because it slept or ended (nvcsw).
    pub voluntary: u64,
    /// Switches away from it while it could have run on (nivcsw).
    pub involuntary: u64,
    /// Changes of its CPU, where the source counts them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrations: Option<u64>,
}

impl TaskAccount {
    /// Its stays on a CPU that ended: each ended with a switch.
    pub fn slices(&self) -> u64 {
        self.voluntary + self.involuntary
    }
    /// Time over stays, ns; `None` when no stay has ended.
    pub fn mean_slice_ns(&self) -> Option<f64> {
        (self.slices() > 0).then(|| self.cpu_time.0 as f64 / self.slices() as f64)
    }
}

/// The stays of a group's tasks on one CPU that ended in the measured time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stays {
    /// The group.
    pub group: String,
    /// The CPU.
    pub cpu: CpuId,
    /// How many.
    pub count: u64,
    /// How long, all together; each is counted whole.
    pub time: Ns,
}

/// What a program measured over a stretch of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// When it began, counted from the end of the warm-up.
    pub start: Ns,
    /// How long it was.
    pub length: Ns,
    /// Values by the name of the series they belong to, in its unit.
    pub values: BTreeMap<String, u64>,
}

/// More intervals than anybody reads: further ones are dropped, with a warning. Their values count in the series.
pub const MAX_INTERVALS: usize = 10_000;

/// What is said of intervals that were dropped.
pub fn dropped(intervals: u64) -> schedlab_base::Warning {
    let text = format!("{intervals} intervals beyond the first {MAX_INTERVALS} are not kept one by one");
    schedlab_base::Warning::new("intervals.dropped", text)
}

/// The accounts of a group's tasks.
pub fn of_group<'a>(
    tasks: &'a [TaskAccount],
    group: &'a str,
) -> impl Iterator<Item = &'a TaskAccount> + Clone {
    tasks.iter().filter(move |t| group_of(&t.name) == group)
}

/// Every group, in the order of its first task.
pub fn groups(tasks: &[TaskAccount]) -> Vec<&str> {
    let mut all: Vec<&str> = Vec::new();
    for task in tasks {
        let group = group_of(&task.name);
        if !all.contains(&group) {
            all.push(group);
        }
    }
    all
}
