//! Waits for a CPU in the analyser, by group of tasks. A wait is counted once, among those after a wakeup of its group
//! or among the others; the waits of all tasks are the sums of these.

use crate::accounts::{Delays, MAX_GROUPS};
use crate::metric::value::Better;
use crate::series::Series;
use crate::tally::Tally;

/// The waits of one group's tasks.
struct Waits {
    woken: Tally,
    others: Tally,
}

impl Waits {
    fn none() -> Box<Waits> {
        let new = || Tally::new(Series::new("ns", Better::Lower));
        Box::new(Waits { woken: new(), others: new() })
    }
}

/// The waits of every group. The first place is that of tasks whose groups are not distinguished.
pub(super) struct ByGroup([Option<Box<Waits>>; MAX_GROUPS + 1]);

/// What is left of them at the end.
pub(super) struct Found {
    /// Waits after a wakeup, of all tasks.
    pub woken: Series,
    /// All waits, of all tasks.
    pub all: Series,
    /// The same by group; empty if the workload's tasks are one group.
    pub groups: Vec<Delays>,
}

impl ByGroup {
    /// No wait yet.
    pub fn new() -> ByGroup {
        ByGroup([const { None }; MAX_GROUPS + 1])
    }
    /// A task of the group has waited so long.
    #[inline]
    pub fn record(&mut self, group: u8, length_ns: u64, woken: bool) {
        // `NO_GROUP` comes first.
        let Some(place) = self.0.get_mut(usize::from(group.wrapping_add(1))) else { return };
        let waits = place.get_or_insert_with(Waits::none);
        let tally = if woken { &mut waits.woken } else { &mut waits.others };
        tally.record(length_ns);
    }
    /// The waits in all, and by group where `apart`. `names` by the groups' numbers.
    pub fn found(self, names: &[String], apart: bool) -> Found {
        let new = || Series::new("ns", Better::Lower);
        let mut found = Found { woken: new(), all: new(), groups: Vec::new() };
        for (at, waits) in self.0.into_iter().enumerate() {
            let Some(waits) = waits else { continue };
            let (woken, mut all) = (waits.woken.into_series(), waits.others.into_series());
            all.merge(&woken);
            found.woken.merge(&woken);
            found.all.merge(&all);
            if let Some(name) = at.checked_sub(1).and_then(|group| names.get(group)).filter(|_| apart) {
                found.groups.push(Delays { group: name.clone(), wakeup_delay: woken, run_delay: all });
            }
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::super::groups::NO_GROUP;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn all_groups_together_are_the_run_to_the_byte(
            waits in prop::collection::vec((0..4u8, any::<u64>(), 0u32..64, any::<bool>()), 0..300),
        ) {
            let text = |series: &Series| serde_json::to_string(series).unwrap();
            let new = || Tally::new(Series::new("ns", Better::Lower));
            let mut by_group = ByGroup::new();
            let (mut whole, mut first) = ((new(), new()), (new(), new()));
            for (group, value, shift, woken) in waits {
                let (value, number) = (value >> shift, if group == 3 { NO_GROUP } else { group });
                by_group.record(number, value, woken);
                for sum in [Some(&mut whole), (group == 0).then_some(&mut first)].into_iter().flatten() {
                    sum.1.record(value);
                    woken.then(|| sum.0.record(value));
                }
            }
            let found = by_group.found(&["a", "b", "c"].map(str::to_owned), true);
            prop_assert_eq!(text(&found.all), text(&whole.1.into_series()));
            prop_assert_eq!(text(&found.woken), text(&whole.0.into_series()));
            let a = found.groups.iter().find(|g| g.group == "a");
            let (woken, all) = (first.0.into_series(), first.1.into_series());
            prop_assert_eq!(a.map(|a| text(&a.run_delay)), (all.count() > 0).then(|| text(&all)));
            prop_assert_eq!(a.map(|a| text(&a.wakeup_delay)), (all.count() > 0).then(|| text(&woken)));
        }
    }
}
