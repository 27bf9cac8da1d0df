//! Counts by metric name, reasons for missing ones, and warnings.

use schedlab_base::Warning;
use schedlab_record::Findings;
use schedlab_record::metric::perf::UNCOUNTED;
use std::collections::BTreeMap;

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// By metric name (`perf.context_switches`).
    pub counters: BTreeMap<String, u64>,
    /// Why other counters are missing, by metric name.
    pub uncounted: BTreeMap<String, String>,
    pub warnings: Vec<Warning>,
}

impl Counts {
    /// These counts minus those of a counted task that does not belong to the workload.
    #[must_use]
    pub fn less(mut self, own: &Counts) -> Counts {
        for (name, n) in &mut self.counters {
            *n = n.saturating_sub(own.counters.get(name).copied().unwrap_or(0));
        }
        self
    }
    /// Adds the counters, reasons and warnings to the findings of a run.
    pub fn join(self, found: &mut Findings) {
        found.counters.extend(self.counters);
        let reasons = self.uncounted.into_iter().map(|(name, why)| (format!("{UNCOUNTED}{name}"), why));
        found.environment.extend(reasons);
        found.warnings.extend(self.warnings);
    }
}
