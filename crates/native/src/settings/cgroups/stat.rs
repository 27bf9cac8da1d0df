//! The counters of a group's quota: `cpu.stat`, as metrics `group.<path>.<counter>`.
//!
//! v1 has times in ns, v2 in us under other names. A group is new when the run begins and is read after the run, so the
//! counters include the set-up and the end of its tasks. With a warm-up they would include that as well, so such a run
//! has no counters.

use super::writes::Groups;
use crate::settings::Files;
use std::collections::BTreeMap;

/// The kernel's name of a counter, the metric's name, and the factor to the metric's unit.
const COUNTERS: &[(&str, &str, u64)] = &[
    ("nr_periods", "nr_periods", 1),
    ("nr_throttled", "nr_throttled", 1),
    ("throttled_time", "throttled_time", 1),
    ("throttled_usec", "throttled_time", 1_000),
    ("nr_bursts", "nr_bursts", 1),
    ("burst_time", "burst_time", 1),
    ("burst_usec", "burst_time", 1_000),
];

/// The counters of a `cpu.stat`, by the metrics' names and in their units.
pub(super) fn counters(text: &str) -> BTreeMap<String, u64> {
    let line = |(name, value): (&str, &str)| {
        let (_, metric, unit) = COUNTERS.iter().find(|(kernels, ..)| *kernels == name)?;
        Some(((*metric).to_owned(), value.trim().parse::<u64>().ok()?.saturating_mul(*unit)))
    };
    text.lines().filter_map(|text| line(text.split_once(' ')?)).collect()
}

impl Groups {
    /// The counters of every group with a quota, by metric name.
    pub fn counted(&self, files: &dyn Files) -> BTreeMap<String, u64> {
        let mut all = BTreeMap::new();
        for (path, folder) in &self.limited {
            let text = files.read(&folder.join("cpu.stat")).unwrap_or_default();
            all.extend(
                counters(&text).into_iter().map(|(name, value)| (format!("group.{path}.{name}"), value)),
            );
        }
        all
    }
}
