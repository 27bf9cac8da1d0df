//! The length of a union of intervals that are told in no strict order.
//!
//! Intervals are merged a batch at a time. What ends before every interval that may still be told is summed and
//! forgotten, so that a long run takes no more room than its open intervals.

/// Intervals kept before they are merged.
const BATCH: usize = 1 << 16;

/// A union of intervals of time, ns.
#[derive(Clone, Debug, Default)]
pub struct Union {
    kept: Vec<(u64, u64)>,
    settled_ns: u64,
}

impl Union {
    /// Adds an interval.
    pub fn add(&mut self, from: u64, until: u64) {
        self.kept.push((from, until));
    }
    /// Whether it is time to call [`Union::settle`].
    pub fn is_full(&self) -> bool {
        self.kept.len() >= BATCH
    }
    /// Merges what is kept. No interval told from now on begins before `horizon`.
    pub fn settle(&mut self, horizon: u64) {
        self.kept.sort_unstable();
        let mut merged: Vec<(u64, u64)> = Vec::new();
        for (from, until) in self.kept.drain(..) {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(until),
                _ => merged.push((from, until)),
            }
        }
        let (over, open): (Vec<_>, Vec<_>) = merged.into_iter().partition(|(_, until)| *until < horizon);
        self.settled_ns += over.iter().map(|(from, until)| until - from).sum::<u64>();
        self.kept = open;
    }
    /// Its length, ns.
    pub fn length(mut self) -> u64 {
        self.settle(u64::MAX);
        self.settled_ns + self.kept.iter().map(|(from, until)| until - from).sum::<u64>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_as_long_as_the_instants_it_covers(
            mut all in prop::collection::vec((0u64..200, 1u64..30), 0..40),
            every in 1usize..9,
        ) {
            all.sort_unstable();
            let covers = |t: &u64| all.iter().any(|(from, length)| (*from..from + length).contains(t));
            let covered = (0..300u64).filter(covers).count();
            let mut union = Union::default();
            for (n, (from, length)) in all.iter().enumerate() {
                if n % every == 0 {
                    union.settle(*from);
                }
                union.add(*from, from + length);
            }
            prop_assert_eq!(union.length(), covered as u64);
        }
    }
}
