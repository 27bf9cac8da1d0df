//! Reduces the number of pieces: time is cut into bins, and each bin shows one of the values that occurred in it.
//!
//! It is not the value with most time: a CPU that runs a task for two of every ten microseconds would seem idle.
//! Instead the values take turns. Each has a credit, the time it had minus the time it was shown, and a bin shows the
//! value with the largest credit among those that occurred in it. So a shown value really occurred, and over longer
//! times each value has its share.
//!
//! Some windows of time can stay exact. They are widened to whole bins, so that every bin is either exact or not. The
//! total length of all pieces stays the length of the run.

use super::track::{Piece, Track};
use std::collections::BTreeMap;

/// A stretch of time, ns: begin and end.
pub type Window = (u64, u64);

/// The windows widened to whole bins, in order of time; adjacent ones are joined.
pub fn whole_bins(windows: &[Window], bin: u64) -> Vec<Window> {
    let mut all: Vec<Window> =
        windows.iter().map(|(from, until)| (from / bin * bin, until.div_ceil(bin) * bin)).collect();
    all.sort_unstable();
    let mut joined: Vec<Window> = Vec::new();
    for (from, until) in all {
        match joined.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(until),
            _ => joined.push((from, until)),
        }
    }
    joined
}

/// The track in bins of `bin` ns, except in `windows` (from [`whole_bins`]). Values with the same `key` count as equal
/// in a bin.
pub fn coarse(track: &Track, end: u64, bin: u64, windows: &[Window], key: impl Fn(u32) -> u32) -> Track {
    let (held, credits) = (Vec::new(), BTreeMap::new());
    let mut out = Coarse { bin, key, windows, held, credits, began: 0, out: Track::default() };
    for piece in track.pieces(end) {
        out.piece(piece);
    }
    out.flush();
    out.out.close(end);
    out.out
}

struct Coarse<'a, K> {
    bin: u64,
    key: K,
    /// Windows that are not over.
    windows: &'a [Window],
    /// Values in the current bin, each with its time.
    held: Vec<(u32, u64)>,
    /// By value: its time minus the time it was shown, ns.
    credits: BTreeMap<u32, i64>,
    /// Begin of the current bin.
    began: u64,
    out: Track,
}

impl<K: Fn(u32) -> u32> Coarse<'_, K> {
    fn piece(&mut self, piece: Piece) {
        let mut from = piece.from;
        while from < piece.until {
            while self.windows.first().is_some_and(|(_, until)| *until <= from) {
                self.windows = &self.windows[1..];
            }
            let window = self.windows.first().copied().unwrap_or((u64::MAX, u64::MAX));
            let until = if from >= window.0 {
                self.flush();
                self.out.set(from, piece.value);
                piece.until.min(window.1)
            } else {
                self.binned(from, piece.until.min(window.0), (self.key)(piece.value))
            };
            from = until;
        }
    }
    /// Adds a value until the end of the current bin, or of all bins that it fills. Returns the time reached.
    fn binned(&mut self, from: u64, until: u64, value: u32) -> u64 {
        let bin = from / self.bin * self.bin;
        if bin != self.began || self.held.is_empty() {
            self.flush();
            self.began = bin;
        }
        let full = until / self.bin * self.bin;
        if from == bin && full > bin {
            self.held.clear();
            self.out.set(bin, value);
            return full;
        }
        let until = until.min(bin + self.bin);
        match self.held.iter_mut().find(|(v, _)| *v == value) {
            Some((_, time)) => *time += until - from,
            None => self.held.push((value, until - from)),
        }
        until
    }
    /// Ends the current bin.
    fn flush(&mut self) {
        let mut shown: Option<(u32, i64)> = None;
        let mut length = 0;
        for (value, time) in self.held.drain(..) {
            let credit = self.credits.entry(value).or_default();
            *credit += time as i64;
            length += time as i64;
            // Of values with equal credit the first is shown.
            if shown.is_none_or(|(_, most)| *credit > most) {
                shown = Some((value, *credit));
            }
        }
        if let Some((value, _)) = shown {
            *self.credits.entry(value).or_default() -= length;
            self.out.set(self.began, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn track(changes: &[(u64, u32)], end: u64) -> Track {
        let mut t = Track::default();
        changes.iter().for_each(|(at, value)| t.set(*at, *value));
        t.close(end);
        t
    }
    fn pieces_of(t: &Track, end: u64) -> Vec<(u64, u32)> {
        t.pieces(end).map(|p| (p.from, p.value)).collect()
    }

    #[test]
    fn values_take_turns_and_a_window_stays_exact() {
        let t = track(&[(3, 1), (6, 2), (17, 1), (18, 2), (24, 3), (25, 4), (26, 5)], 40);
        // 0-10: 0 for 3, 1 for 3, 2 for 4; 10-20: 2 for 9 less 6 that it owes, 1 for 1 and 3 from before; 20-30: 2 for
        // 4 and 3 from before.
        assert_eq!(pieces_of(&coarse(&t, 40, 10, &[], |v| v), 40), [(0, 2), (10, 1), (20, 2), (30, 5)]);
        let windows = whole_bins(&[(22, 24), (25, 26)], 10);
        assert_eq!(windows, [(20, 30)]);
        let exact = coarse(&t, 40, 10, &windows, |v| v);
        assert_eq!(pieces_of(&exact, 40), [(0, 2), (10, 1), (20, 2), (24, 3), (25, 4), (26, 5)]);
        // 0 and 1 count as equal; together they have 6 of the first 10.
        assert_eq!(pieces_of(&coarse(&t, 40, 10, &[], |v| v / 2), 40)[..2], [(0, 0), (10, 1)]);
    }

    #[test]
    fn a_task_that_never_has_most_time_has_its_share() {
        let changes: Vec<(u64, u32)> = (0..1000).flat_map(|n| [(n * 50 + 20, 7), (n * 50 + 22, 0)]).collect();
        let c = coarse(&track(&changes, 50_000), 50_000, 10, &[], |v| v);
        let shown: u64 = c.pieces(50_000).filter(|p| p.value == 7).map(|p| p.until - p.from).sum();
        assert!(shown.abs_diff(2000) <= 10, "{shown} ns of 2000");
    }

    proptest! {
        #[test]
        fn bins_add_up_to_the_time_of_the_run(
            steps in prop::collection::vec((0u64..60, 0u32..5), 0..80),
            bin in 1u64..50,
            windows in prop::collection::vec((0u64..2000, 1u64..90), 0..4),
        ) {
            let (mut changes, mut at) = (Vec::new(), 0);
            for (step, value) in steps {
                at += step;
                changes.push((at, value));
            }
            let end = at + 7;
            let t = track(&changes, end);
            let windows: Vec<Window> = windows.iter().map(|(from, length)| (*from, from + length)).collect();
            let windows = whole_bins(&windows, bin);
            let c = coarse(&t, end, bin, &windows, |v| v);
            let pieces: Vec<Piece> = c.pieces(end).collect();
            prop_assert_eq!(pieces.iter().map(|p| p.until - p.from).sum::<u64>(), end);
            let at = |t: &Track, time: u64| t.pieces(end).find(|p| (p.from..p.until).contains(&time)).map(|p| p.value);
            for time in 0..end {
                if windows.iter().any(|(from, until)| (*from..*until).contains(&time)) {
                    prop_assert_eq!(at(&t, time), at(&c, time));
                }
            }
            let binned = |time: u64| !windows.iter().any(|w| (w.0..w.1).contains(&time));
            // A shown value occurred in its bin.
            for from in (0..end).step_by(bin as usize).filter(|from| binned(*from)) {
                let shown = at(&c, from);
                prop_assert!((from..(from + bin).min(end)).any(|time| at(&t, time) == shown));
            }
            // Over the run each value has its share, except for less than two bins for each of them.
            for value in 0..5 {
                let times = |t: &Track| (0..end).filter(|time| binned(*time) && at(t, *time) == Some(value)).count();
                prop_assert!(times(&t).abs_diff(times(&c)) as u64 <= 10 * bin);
            }
        }
    }
}
