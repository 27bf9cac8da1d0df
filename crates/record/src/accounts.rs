//! Accounts of single tasks; stays and waits of groups of tasks; measurements by interval.
//!
//! A task's account covers the measured time, on every backend. A group is all tasks whose names differ only in their
//! number ([`group_of`]).

use schedlab_base::{CpuId, Ns};
use schedlab_kernel::policy::group_of;
use schedlab_stats::series::Series;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Number of groups of tasks that are distinguished, in the order of their first task.
pub const MAX_GROUPS: usize = 64;

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskAccount {
    pub name: String,
    pub cpu_time: Ns,
    /// Switches away from it because it slept or ended (nvcsw).
    pub voluntary: u64,
    /// Switches away from it while it was still runnable (nivcsw).
    pub involuntary: u64,
    /// Changes of its CPU; `None` if they are not counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub migrations: Option<u64>,
}

impl TaskAccount {
    /// Number of stays on a CPU that ended with a switch.
    pub fn slices(&self) -> u64 {
        self.voluntary + self.involuntary
    }
    /// Mean length of a stay, ns; `None` if no stay has ended.
    pub fn mean_slice_ns(&self) -> Option<f64> {
        (self.slices() > 0).then(|| self.cpu_time.0 as f64 / self.slices() as f64)
    }
}

/// The stays of a group's tasks on one CPU. A stay counts if it ended in the measured time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stays {
    pub group: String,
    pub cpu: CpuId,
    pub count: u64,
    /// Sum of the stays' times; each stay counts whole.
    pub time: Ns,
}

/// The waits for a CPU of a group's tasks. A wait counts if it ended in the measured time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Delays {
    pub group: String,
    /// Waits after a wakeup, as in `wakeup_delay` of all tasks.
    pub wakeup_delay: Series,
    /// All waits, as in `run_delay` of all tasks.
    pub run_delay: Series,
}

/// A program's measurements in an interval of time.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interval {
    /// The begin, since the end of the warm-up.
    pub start: Ns,
    pub length: Ns,
    /// Values by the name of their series, in its unit.
    pub values: BTreeMap<String, u64>,
}

/// The most intervals that are kept. Later ones are dropped, with a warning; their values still count in the series.
pub const MAX_INTERVALS: usize = 10_000;

/// The warning about intervals that were dropped.
pub fn dropped(intervals: u64) -> schedlab_base::Warning {
    let text = format!(
        "{} beyond the first {MAX_INTERVALS} {} not kept one by one",
        schedlab_base::counted(intervals, "interval"),
        schedlab_base::one_or(intervals, "is", "are")
    );
    schedlab_base::Warning::new("intervals.dropped", text)
}

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
