//! Counts of groups' quotas, from the tree's own file (`cpu.stat` of cgroup v1, in ns).

use crate::engine::Engine;
use schedlab_base::GroupId;
use std::collections::BTreeMap;

/// Lines of the file, named like our metrics.
const COUNTS: [&str; 5] = ["nr_periods", "nr_throttled", THROTTLED, "nr_bursts", "burst_time"];
const THROTTLED: &str = "throttled_time";

/// The groups that have a quota or had one.
#[derive(Default)]
pub struct Quotas {
    /// Paths of all groups, by id.
    pub paths: Vec<String>,
    /// The groups, each with its counts when measuring began.
    limited: BTreeMap<GroupId, BTreeMap<String, u64>>,
}

impl Quotas {
    /// A group gets a quota.
    pub fn limit(&mut self, group: GroupId) {
        self.limited.entry(group).or_default();
    }
}

impl Engine<'_> {
    /// Counts begin now.
    pub fn begin_quotas(&mut self) {
        let groups: Vec<GroupId> = self.quotas.limited.keys().copied().collect();
        for group in groups {
            let now = self.quota_of(group);
            self.quotas.limited.insert(group, now);
        }
    }
    /// Counts since then, by metric name. A tree without a count has no such line.
    pub fn quota_counts(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        for (group, before) in &self.quotas.limited {
            let path = &self.quotas.paths[group.index()];
            for (name, n) in self.quota_of(*group) {
                let n = n.saturating_sub(before.get(&name).copied().unwrap_or_default());
                all.push((format!("group.{path}.{name}"), n));
            }
        }
        all
    }
    fn quota_of(&self, group: GroupId) -> BTreeMap<String, u64> {
        let number = self.groups[group];
        let mut all = counts(&self.kernel.group_file(number, "stat").unwrap_or_default());
        // The file counts a throttling only once it is over.
        if let Some(ns) = all.get_mut(THROTTLED) {
            *ns += self.kernel.group_throttled(number);
        }
        all
    }
}

fn counts(text: &str) -> BTreeMap<String, u64> {
    let line = |line: &str| {
        let (name, n) = line.split_once(' ')?;
        COUNTS.contains(&name).then_some((name.to_owned(), n.parse().ok()?))
    };
    text.lines().filter_map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_without_a_metric_are_left_out() {
        let found = counts("nr_periods 5\nnr_throttled 2\nthrottled_time 17\nwait_sum 9\nnr_bursts 0\n");
        let names: Vec<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, ["nr_bursts", "nr_periods", "nr_throttled", "throttled_time"]);
        assert_eq!(found["throttled_time"], 17);
    }
}
