//! What watching the scheduler found in a run, and what it could not tell and why.

use crate::Outcome;
use schedlab_base::Warning;
use schedlab_record::metric::perf::UNCOUNTED;
use schedlab_record::{Series, Stays, TaskAccount, Wait};
use std::collections::BTreeMap;

/// What is known of switches, wakeups and migrations when a run is over.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Found {
    /// Distributions by metric name.
    pub series: BTreeMap<String, Series>,
    /// Counters by metric name; they stand above what the kernel counts for each task.
    pub counters: BTreeMap<String, u64>,
    /// What each task used, where every switch was seen.
    pub tasks: Option<Vec<TaskAccount>>,
    /// How groups of tasks stayed on each CPU.
    pub stays: Vec<Stays>,
    /// The longest waits.
    pub waits: Vec<Wait>,
    /// What is not known ("slice", "events"), and why.
    pub unmeasured: BTreeMap<&'static str, String>,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
}

impl Found {
    /// Leaves it where a run keeps its results.
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
