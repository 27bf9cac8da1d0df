//! The length of a union of intervals that come only roughly in order.
//!
//! Intervals are merged in batches. Those that end before every interval still to come are summed and dropped, so that
//! a long run takes no more memory than its open intervals.

/// Number of intervals kept before they are merged.
const BATCH: usize = 1 << 16;

/// A union of intervals of time, ns.
#[derive(Clone, Debug, Default)]
pub struct Union {
    kept: Vec<(u64, u64)>,
    settled_ns: u64,
    /// Width of the bins, ns (0: no bins), and the covered time in each.
    width: u64,
    bins: Vec<u64>,
}

impl Union {
    /// Also sums up the covered time in bins of `width` ns.
    pub fn set_bins(&mut self, width: u64) {
        self.width = width;
    }
    pub fn add(&mut self, from: u64, until: u64) {
        self.kept.push((from, until));
    }
    /// Whether it is time to call [`Union::settle`].
    pub fn is_full(&self) -> bool {
        self.kept.len() >= BATCH
    }
    /// Merges the kept intervals. No later interval begins before `horizon`.
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
        over.into_iter().for_each(|interval| self.spend(interval));
        self.kept = open;
    }
    /// The union's length, ns, and the length in each bin, if there are bins.
    pub fn finish(mut self) -> (u64, Vec<u64>) {
        self.settle(u64::MAX);
        std::mem::take(&mut self.kept).into_iter().for_each(|interval| self.spend(interval));
        (self.settled_ns, self.bins)
    }
    fn spend(&mut self, (mut from, until): (u64, u64)) {
        self.settled_ns += until - from;
        while self.width > 0 && from < until {
            let bin = from / self.width;
            let end = until.min((bin + 1) * self.width);
            if self.bins.len() <= bin as usize {
                self.bins.resize(bin as usize + 1, 0);
            }
            self.bins[bin as usize] += end - from;
            from = end;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_union_is_as_long_as_the_instants_it_covers(
            mut all in prop::collection::vec((0u64..200, 1u64..30), 0..40),
            every in 1usize..9,
        ) {
            all.sort_unstable();
            let covers = |t: &u64| all.iter().any(|(from, length)| (*from..from + length).contains(t));
            let covered = (0..300u64).filter(covers).count();
            let mut union = Union::default();
            union.set_bins(7);
            for (n, (from, length)) in all.iter().enumerate() {
                if n % every == 0 {
                    union.settle(*from);
                }
                union.add(*from, from + length);
            }
            let (length, bins) = union.finish();
            prop_assert_eq!(length, covered as u64);
            for (n, covered) in bins.iter().enumerate() {
                let inside = (n as u64 * 7..n as u64 * 7 + 7).filter(covers).count();
                prop_assert_eq!(*covered, inside as u64);
            }
            prop_assert_eq!(bins.iter().sum::<u64>(), length);
        }
    }
}
