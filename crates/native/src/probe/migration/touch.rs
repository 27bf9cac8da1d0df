//! Touches a working set, and empties a cache.
//!
//! The shuffled order visits blocks of 128 bytes, each once, in an order that no prefetcher follows. The two lines of a
//! block are touched in succession, so a prefetch of the adjacent line brings only data that is needed at once.
//! Touching means reading and writing a word, as in D003's `touch_cache`; misses may overlap, as in a program that
//! scans its data.

use schedlab_base::random::Stream;
use schedlab_machine::migration::{Pattern, touch_2005};
use std::hint::black_box;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;

const WORD: u64 = 8;
/// Bytes of a line, and of the block that one prefetch may bring.
const LINE: u64 = 64;
const BLOCK: u64 = 128;
const WORDS_OF_LINE: usize = (LINE / WORD) as usize;
const WORDS_OF_BLOCK: usize = (BLOCK / WORD) as usize;

/// A working set in the order of touching.
pub(super) enum Set {
    /// Numbers of blocks, each once.
    Shuffled(Vec<u32>),
    /// D003's streams over this many words.
    Y2005(u64),
    /// This many lines in order, as a program scans an array.
    InOrder(u64),
}

impl Set {
    /// A set of `size` bytes, in whole blocks.
    pub fn new(pattern: Pattern, size: u64) -> Set {
        match pattern {
            Pattern::Shuffled => Set::Shuffled(shuffled((size / BLOCK) as u32)),
            Pattern::Y2005 => Set::Y2005(size / WORD),
        }
    }
    /// A set of `size` bytes, line by line.
    pub fn in_order(size: u64) -> Set {
        Set::InOrder(size / LINE)
    }
    pub fn size(&self) -> u64 {
        match self {
            Set::Shuffled(order) => order.len() as u64 * BLOCK,
            Set::Y2005(words) => words * WORD,
            Set::InOrder(lines) => lines * LINE,
        }
    }
    pub fn touch(&self, area: &[AtomicU64]) {
        // Only one thread at a time touches the area, so a plain load and store lose nothing.
        let change = |word: &AtomicU64| word.store(word.load(Relaxed).wrapping_add(1), Relaxed);
        match self {
            Set::Shuffled(order) => {
                for block in order {
                    let at = *block as usize * WORDS_OF_BLOCK;
                    change(&area[at]);
                    change(&area[at + WORDS_OF_LINE]);
                }
            }
            Set::Y2005(words) => touch_2005(*words, |at| change(&area[at as usize])),
            Set::InOrder(lines) => {
                area.iter().step_by(WORDS_OF_LINE).take(*lines as usize).for_each(change);
            }
        }
    }
}

/// The numbers below `n` in a fixed order (Fisher and Yates).
fn shuffled(n: u32) -> Vec<u32> {
    let draws = Stream::new(2005).purpose("migration.order").number(u64::from(n));
    let mut order: Vec<u32> = (0..n).collect();
    for last in (1..order.len()).rev() {
        order.swap(last, draws.below(last as u64, last as u64 + 1) as usize);
    }
    order
}

/// Reads `bytes` of the area (or all of it) line by line, so that a cache then has little else.
pub(super) fn flush(area: &[AtomicU64], bytes: u64) {
    let lines = (bytes / LINE) as usize;
    let sum: u64 = area.iter().step_by(WORDS_OF_LINE).take(lines).map(|word| word.load(Relaxed)).sum();
    black_box(sum);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touched(set: &Set, size: u64) -> Vec<u64> {
        let area: Vec<AtomicU64> = (0..size / WORD).map(|_| AtomicU64::new(0)).collect();
        set.touch(&area);
        let lines = area.chunks(WORDS_OF_LINE);
        lines.map(|line| line.iter().map(|word| word.load(Relaxed)).sum()).collect()
    }

    #[test]
    fn every_line_is_touched_exactly_once_and_in_no_order() {
        let set = Set::new(Pattern::Shuffled, 64 << 10);
        assert_eq!(set.size(), 64 << 10);
        assert!(touched(&set, 64 << 10).iter().all(|n| *n == 1));
        let Set::Shuffled(order) = &set else { panic!("shuffled") };
        let strides = |order: &[u32], stride: i64| {
            order.windows(2).filter(|w| i64::from(w[1]) - i64::from(w[0]) == stride).count()
        };
        assert!((1..8).all(|stride| strides(order, stride) < order.len() / 50), "no stride to follow");
        assert!(touched(&Set::in_order(64 << 10), 64 << 10).iter().all(|n| *n == 1));
    }

    #[test]
    fn the_pattern_of_2005_stays_within_the_set() {
        let set = Set::new(Pattern::Y2005, 60 << 10);
        let lines = touched(&set, 60 << 10);
        let left_out = lines.iter().filter(|n| **n == 0).count();
        assert!(left_out > 0 && left_out < lines.len() / 4, "{left_out} of {}", lines.len());
    }
}
