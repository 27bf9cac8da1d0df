//! Findings about the scheduler in a run, and reasons for missing ones.

use schedlab_record::Findings;
use schedlab_record::metric::perf::UNCOUNTED;
use std::collections::BTreeMap;

/// The findings about switches, wakeups and migrations at the end of a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ObserverFindings {
    /// The recorder's measurements; its counters replace the kernel's own counts of each task. It has tasks only if
    /// every switch was seen.
    pub seen: Findings,
    /// Missing findings ("slice", "events"), with reasons.
    pub unmeasured: BTreeMap<&'static str, String>,
}

impl ObserverFindings {
    /// Adds the findings to those of a run.
    pub fn join(self, found: &mut Findings) {
        found.add(self.seen);
        let reasons = self.unmeasured.into_iter().map(|(what, why)| (format!("{UNCOUNTED}{what}"), why));
        found.environment.extend(reasons);
    }
}
