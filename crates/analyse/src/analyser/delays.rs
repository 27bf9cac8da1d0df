//! Waits for a CPU, by group of tasks. Each wait is counted once: in its group's waits after a wakeup, or in the
//! group's other waits. The waits of all tasks are the sums.

use schedlab_record::Better;
use schedlab_record::Series;
use schedlab_record::Tally;
use schedlab_record::accounts::{Delays, MAX_GROUPS};

struct GroupWaits {
    woken: Tally,
    others: Tally,
}

impl GroupWaits {
    fn none() -> Box<GroupWaits> {
        let new = || Tally::new(Series::new("ns", Better::Lower));
        Box::new(GroupWaits { woken: new(), others: new() })
    }
    /// Adds another group's.
    fn merge(&mut self, other: &GroupWaits) {
        self.woken.merge(&other.woken);
        self.others.merge(&other.others);
    }
    /// Waits after a wakeup, and all.
    fn into_series(mut self) -> (Series, Series) {
        self.others.merge(&self.woken);
        (self.woken.into_series(), self.others.into_series())
    }
}

/// The waits of every group. Index 0 holds tasks whose groups are not distinguished.
pub(super) struct WaitsByGroup([Option<Box<GroupWaits>>; MAX_GROUPS + 1]);

/// The waits as series, at the end of the run.
pub(super) struct WaitSeries {
    /// Waits after a wakeup, of all tasks.
    pub woken: Series,
    pub all: Series,
    /// Waits by group; empty if the workload's tasks are one group.
    pub groups: Vec<Delays>,
}

impl WaitsByGroup {
    pub fn new() -> WaitsByGroup {
        WaitsByGroup([const { None }; MAX_GROUPS + 1])
    }
    /// Counts a wait of `length_ns` by a task of the group.
    #[inline]
    pub fn record(&mut self, group: u8, length_ns: u64, woken: bool) {
        // `NO_GROUP` wraps to index 0.
        let Some(place) = self.0.get_mut(usize::from(group.wrapping_add(1))) else { return };
        let waits = place.get_or_insert_with(GroupWaits::none);
        let tally = if woken { &mut waits.woken } else { &mut waits.others };
        tally.record(length_ns);
    }
    /// The waits of all tasks, and of each group if `by_group`. `names` is indexed by group.
    pub fn into_series(self, names: &[String], by_group: bool) -> WaitSeries {
        let (mut sum, mut groups) = (GroupWaits::none(), Vec::new());
        for (at, waits) in self.0.into_iter().enumerate() {
            let Some(waits) = waits else { continue };
            sum.merge(&waits);
            if let Some(name) = at.checked_sub(1).and_then(|group| names.get(group)).filter(|_| by_group) {
                let (wakeup_delay, run_delay) = waits.into_series();
                groups.push(Delays { group: name.clone(), wakeup_delay, run_delay });
            }
        }
        let (woken, all) = sum.into_series();
        WaitSeries { woken, all, groups }
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::NO_GROUP;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_groups_together_give_exactly_the_run(
            waits in prop::collection::vec((0..4u8, any::<u64>(), 0u32..64, any::<bool>()), 0..300),
        ) {
            let text = |series: &Series| serde_json::to_string(series).unwrap();
            let new = || Tally::new(Series::new("ns", Better::Lower));
            let mut by_group = WaitsByGroup::new();
            let (mut whole, mut first) = ((new(), new()), (new(), new()));
            for (group, value, shift, woken) in waits {
                let (value, number) = (value >> shift, if group == 3 { NO_GROUP } else { group });
                by_group.record(number, value, woken);
                for sum in [Some(&mut whole), (group == 0).then_some(&mut first)].into_iter().flatten() {
                    sum.1.record(value);
                    woken.then(|| sum.0.record(value));
                }
            }
            let found = by_group.into_series(&["a", "b", "c"].map(str::to_owned), true);
            prop_assert_eq!(text(&found.all), text(&whole.1.into_series()));
            prop_assert_eq!(text(&found.woken), text(&whole.0.into_series()));
            let a = found.groups.iter().find(|g| g.group == "a");
            let (woken, all) = (first.0.into_series(), first.1.into_series());
            prop_assert_eq!(a.map(|a| text(&a.run_delay)), (all.count() > 0).then(|| text(&all)));
            prop_assert_eq!(a.map(|a| text(&a.wakeup_delay)), (all.count() > 0).then(|| text(&woken)));
        }
    }
}
