//! Orders in which a working set is touched.

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Pattern {
    /// Every line once, in a shuffled order that no prefetcher follows.
    #[default]
    Shuffled,
    /// The six streams of D003 ([`touch_2005`]).
    #[serde(rename = "2005")]
    Y2005,
}

impl Pattern {
    /// The words on the command line.
    pub const NAMES: [(&'static str, Pattern); 2] =
        [("shuffled", Pattern::Shuffled), ("2005", Pattern::Y2005)];

    pub fn name(self) -> &'static str {
        Pattern::NAMES.iter().find(|(_, p)| *p == self).map_or("", |(name, _)| name)
    }
}

/// Calls `touch` for each long that D003's `touch_cache` increments in a set of `longs` longs, in its order.
///
/// Six streams cross the set: up from the start, down from the end, and both ways from a third and from two thirds.
/// They take steps of four longs up to a sixth of the set. The switch that should choose a stream has no breaks. So of
/// three steps one touches all six streams, one the two at two thirds, and one the four at both thirds.
pub fn touch_2005(longs: u64, mut touch: impl FnMut(u64)) {
    let (third, two_thirds) = (longs / 3, 2 * longs / 3);
    for i in (0..longs / 6).step_by(4) {
        let streams = match i % 6 {
            0 => 3,
            2 => 2,
            _ => 1,
        };
        if streams == 3 {
            touch(i);
            touch(longs - 1 - i);
        }
        if streams >= 2 {
            touch(third - i);
            touch(third + i);
        }
        touch(two_thirds - i);
        touch(two_thirds + i);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// The share of touched lines of a 60 KB set, in per cent, by sixths of the set.
    fn covered(long: u64, line: u64) -> Vec<u64> {
        let longs = 61_440 / long;
        let mut lines = BTreeSet::new();
        touch_2005(longs, |at| {
            assert!(at < longs, "within the set");
            lines.insert(at * long / line);
        });
        let in_sixth = 61_440 / line / 6;
        let share = |sixth: u64| {
            let n = lines.range(sixth * in_sixth..(sixth + 1) * in_sixth).count() as u64;
            (100 * n).div_euclid(in_sixth)
        };
        (0..6).map(share).collect()
    }

    #[test]
    fn long_strides_leave_out_a_third_of_the_lines_at_both_ends() {
        // A line may be missing where two streams meet.
        let all = 99..=100;
        for (long, line) in [(8, 64), (4, 32)] {
            let sixths = covered(long, line);
            assert_eq!((sixths[0], sixths[5]), (66, 66), "longs of {long} bytes, lines of {line}");
            assert!(sixths[1..5].iter().all(|share| all.contains(share)), "{sixths:?}");
        }
        assert!(
            covered(4, 64).iter().all(|share| all.contains(share)),
            "32-bit longs meet each line of 64 bytes"
        );
    }

    #[test]
    fn twelve_increments_in_three_steps() {
        let mut n = 0;
        touch_2005(6 * 12, |_| n += 1);
        assert_eq!(n, 12);
    }
}
