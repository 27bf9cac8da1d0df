//! Intervals that a program measured individually. A task keeps them until it leaves.

use crate::tasks::column::Column;
use schedlab_base::{Ns, Warning};
use schedlab_record::accounts::{Interval, MAX_INTERVALS, dropped};
use schedlab_workload::SeriesId;
use serde::{Deserialize, Serialize};

/// An interval; times count from the start of the run.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Kept {
    start: Ns,
    length: Ns,
    values: Vec<(usize, u64)>,
}

/// The intervals of one task, or of all tasks.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Intervals {
    kept: Vec<Kept>,
    dropped: u64,
}

impl Intervals {
    /// Keeps an interval if there is room.
    pub fn keep(&mut self, start: Ns, length: Ns, values: &[(SeriesId, u64)]) {
        if self.kept.len() == MAX_INTERVALS {
            self.dropped += 1;
            return;
        }
        let values = values.iter().map(|(series, value)| (series.index(), *value)).collect();
        self.kept.push(Kept { start, length, values });
    }
    /// Adds the intervals of another task.
    pub fn add(&mut self, other: Intervals) {
        self.kept.extend(other.kept);
        self.dropped += other.dropped;
    }
    /// All intervals in order of time, counted from the end of the warm-up; and a warning about those that were dropped
    /// for lack of room.
    pub fn in_order(mut self, warmup: Ns, columns: &[Column]) -> (Vec<Interval>, Option<Warning>) {
        self.kept.sort_by_key(|k| k.start);
        self.dropped += self.kept.len().saturating_sub(MAX_INTERVALS) as u64;
        self.kept.truncate(MAX_INTERVALS);
        let one = |k: Kept| {
            let named = |(at, value): (usize, u64)| Some((columns.get(at)?.name.clone(), value));
            let values = k.values.into_iter().filter_map(named).collect();
            Interval { start: k.start.since(warmup), length: k.length, values }
        };
        let all = self.kept.into_iter().map(one).collect();
        (all, (self.dropped > 0).then(|| dropped(self.dropped)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::SeriesDecl;

    #[test]
    fn intervals_come_in_the_order_of_time_and_no_more_than_have_room() {
        let decl = SeriesDecl { name: "x.y".into(), unit: "ns".into(), better: "lower".into() };
        let columns = [Column::of(&decl).unwrap()];
        let mut all = Intervals::default();
        for first in [1, 0] {
            let mut task = Intervals::default();
            for n in 0..MAX_INTERVALS as u64 {
                task.keep(Ns(100 + first + 2 * n), Ns(2), &[(SeriesId(0), first)]);
            }
            all.add(task);
        }
        let (kept, warning) = all.in_order(Ns(100), &columns);
        assert_eq!(kept.len(), MAX_INTERVALS);
        assert!(kept.iter().enumerate().all(|(n, i)| i.start == Ns(n as u64)), "both tasks' in turn");
        assert_eq!((kept[3].values["x.y"], kept[3].length), (1, Ns(2)));
        assert!(warning.is_some_and(|w| w.message.starts_with("10000 intervals")));
        let mut full = Intervals::default();
        (0..=MAX_INTERVALS as u64).for_each(|n| full.keep(Ns(n), Ns(1), &[]));
        assert!(full.in_order(Ns::ZERO, &[]).1.is_some_and(|w| w.message.starts_with("1 interval ")));
    }
}
