//! Counts by metric name, with the reasons for missing ones and the warnings about them.

use schedlab_base::Warning;
use schedlab_record::Findings;
use schedlab_record::metric::perf::UNCOUNTED;
use std::collections::BTreeMap;

/// The counts of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Counters by metric name (`perf.context_switches`).
    pub counters: BTreeMap<String, u64>,
    /// The reasons why other counters are missing, by metric name.
    pub uncounted: BTreeMap<String, String>,
    pub warnings: Vec<Warning>,
}

impl Counts {
    /// These counts less those of a counted task that is not a part of the workload.
    #[must_use]
    pub fn less(mut self, own: &Counts) -> Counts {
        for (name, n) in &mut self.counters {
            *n = n.saturating_sub(own.counters.get(name).copied().unwrap_or(0));
        }
        self
    }
    /// Adds counters, reasons and warnings to those of a run.
    pub fn join(self, found: &mut Findings) {
        found.counters.extend(self.counters);
        let reasons = self.uncounted.into_iter().map(|(name, why)| (format!("{UNCOUNTED}{name}"), why));
        found.environment.extend(reasons);
        found.warnings.extend(self.warnings);
    }
}
