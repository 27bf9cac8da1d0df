//! A series that takes millions of values. They are counted by bucket here and packed once, at the end.
//!
//! The buckets are the histogram's own, and the stored bytes are those of a histogram that was given every value.
//!
//! A tally may have room from the start for all expected values. That is zeroed memory from the allocator; only pages
//! with values cost anything.

use crate::series::Series;

/// Each value below this has its own bucket; above, the width of buckets doubles whenever the value doubles.
const EXACT: u64 = 2048;

/// A tally made [`with_room`](Tally::with_room) holds values up to a minute in ns: 220 KB, most of it never touched.
const ROOM: u64 = 1 << 36;

/// An empty series, and the values that it will have.
pub struct Tally {
    series: Series,
    counts: Vec<u64>,
}

impl Tally {
    /// A tally of values for `series`, which has none.
    pub fn new(series: Series) -> Tally {
        debug_assert!(series.count() == 0, "a tally does not continue a series");
        Tally { series, counts: vec![0; EXACT as usize] }
    }

    /// The same, with room from the start for large values.
    pub fn with_room(series: Series) -> Tally {
        Tally { series, counts: vec![0; bucket(ROOM) + 1] }
    }

    #[inline]
    pub fn record(&mut self, value: u64) {
        match self.counts.get_mut(bucket(value)) {
            Some(count) => {
                *count += 1;
                self.series.note(value);
            }
            None => self.beyond(value),
        }
    }

    #[cold]
    fn beyond(&mut self, value: u64) {
        let half = EXACT as usize / 2;
        self.counts.resize((bucket(value) / half + 1) * half, 0);
        self.record(value);
    }

    /// Adds all values of another tally of the same quantity.
    pub fn merge(&mut self, other: &Tally) {
        self.counts.resize(self.counts.len().max(other.counts.len()), 0);
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, n)| *mine += n);
        self.series.note_all(&other.series);
    }

    /// The exact sum so far.
    pub fn sum(&self) -> u128 {
        self.series.sum()
    }

    pub fn into_series(self) -> Series {
        self.series.counted(&self.counts)
    }
}

/// The histogram's bucket of a value.
#[inline]
pub(crate) fn bucket(value: u64) -> usize {
    let doublings = (value | (EXACT - 1)).ilog2() - (EXACT - 1).ilog2();
    doublings as usize * (EXACT as usize / 2) + (value >> doublings) as usize
}

/// The smallest value of a bucket.
fn lowest_of(bucket: usize) -> u64 {
    let half = EXACT as usize / 2;
    let doublings = (bucket / half).saturating_sub(1);
    ((bucket - doublings * half) as u64) << doublings
}

/// The middle of a bucket, as the histogram's crate computes it.
pub(crate) fn middle_of(bucket: usize) -> u64 {
    let doublings = (bucket / (EXACT as usize / 2)).saturating_sub(1);
    lowest_of(bucket).saturating_add((1 << doublings) >> 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::Better;
    use proptest::prelude::*;

    fn text(series: &Series) -> String {
        serde_json::to_string(series).unwrap()
    }

    proptest! {
        #[test]
        fn the_series_is_the_same_to_the_byte(values in prop::collection::vec((any::<u64>(), 0u32..64), 0..300)) {
            let (mut tally, mut series) = (Tally::new(Series::new("ns", Better::Lower)), Series::new("ns", Better::Lower));
            for (value, shift) in values {
                tally.record(value >> shift);
                series.record(value >> shift);
            }
            prop_assert_eq!(tally.sum(), series.sum());
            prop_assert_eq!(text(&tally.into_series()), text(&series));
        }

        #[test]
        fn room_does_not_change_the_stored_bytes(values in prop::collection::vec((any::<u64>(), 0u32..64), 0..300)) {
            let new = || Series::new("ns", Better::Lower);
            let (mut roomy, mut series) = (Tally::with_room(new()), new());
            for (value, shift) in values {
                roomy.record(value >> shift);
                series.record(value >> shift);
            }
            prop_assert_eq!(text(&roomy.into_series()), text(&series));
        }

        #[test]
        fn a_bucket_begins_at_its_least_value(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let least = lowest_of(bucket(value));
            prop_assert!(least <= value && bucket(least) == bucket(value));
            prop_assert!(least == 0 || bucket(least - 1) + 1 == bucket(least));
        }
    }
}
