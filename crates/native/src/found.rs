//! The findings of watching the scheduler in a run, and the reasons for missing ones.

use crate::Outcome;
use schedlab_base::Warning;
use schedlab_record::metric::perf::UNCOUNTED;
use schedlab_record::{Series, Stays, TaskAccount, Wait};
use std::collections::BTreeMap;

/// The findings about switches, wakeups and migrations at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Distributions by metric name.
    pub series: BTreeMap<String, Series>,
    /// Counters by metric name; they replace the kernel's own counts of each task.
    pub counters: BTreeMap<String, u64>,
    /// The usage of each task, if every switch was seen.
    pub tasks: Option<Vec<TaskAccount>>,
    /// How groups of tasks stayed on each CPU.
    pub stays: Vec<Stays>,
    /// The longest waits.
    pub waits: Vec<Wait>,
    /// Missing findings ("slice", "events"), with the reasons.
    pub unmeasured: BTreeMap<&'static str, String>,
    /// Warnings for the reader.
    pub warnings: Vec<Warning>,
}

impl Found {
    /// Adds the findings to the results of a run.
    pub fn join(self, outcome: &mut Outcome) {
        outcome.series.extend(self.series);
        outcome.counters.extend(self.counters);
        if let Some(tasks) = self.tasks {
            outcome.tasks = tasks;
        }
        outcome.stays = self.stays;
        outcome.waits = self.waits;
        let reasons = self.unmeasured.into_iter().map(|(what, why)| (format!("{UNCOUNTED}{what}"), why));
        outcome.environment.extend(reasons);
        outcome.warnings.extend(self.warnings);
    }
}
