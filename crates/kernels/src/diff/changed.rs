//! The lines of a file that patches change, as the patched file has them.

use std::ops::RangeInclusive;

/// After a change, this many equal lines end it.
const ALIKE: usize = 3;

/// Adjacent lines that were changed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ChangedLines {
    pub path: String,
    /// Lines of the patched file, from 1. Where lines were only removed: the line after them.
    pub lines: RangeInclusive<usize>,
}

/// The lines that differ between two texts of a file.
pub fn changed(path: &str, before: &[u8], after: &[u8]) -> Vec<ChangedLines> {
    let split = |text: &'_ [u8]| text.split(|b| *b == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>();
    let (old, new) = (split(before), split(after));
    let (mut at, mut to, mut all) = (0, 0, Vec::new());
    while at < old.len() || to < new.len() {
        if at < old.len() && to < new.len() && old[at] == new[to] {
            (at, to) = (at + 1, to + 1);
            continue;
        }
        let (gone, come) = apart(&old[at..], &new[to..]);
        let last = (to + come.max(1)).min(new.len());
        all.push(ChangedLines { path: path.to_owned(), lines: to + 1..=last.max(to + 1) });
        (at, to) = (at + gone, to + come);
    }
    all
}

/// How many lines of each text stand before both are the same again; all lines if they never are.
fn apart(old: &[Vec<u8>], new: &[Vec<u8>]) -> (usize, usize) {
    let alike = |a: usize, b: usize| {
        let (a, b) = (&old[a..], &new[b..]);
        let most = ALIKE.min(a.len()).min(b.len());
        // The end of a text matches only the other text's end.
        a[..most] == b[..most] && (most == ALIKE || a.len() == b.len())
    };
    let pairs = (1..=old.len() + new.len()).flat_map(|sum| {
        let first = sum.saturating_sub(new.len());
        (first..=sum.min(old.len())).map(move |a| (a, sum - a))
    });
    let mut found = pairs;
    found.find(|(a, b)| alike(*a, *b)).unwrap_or((old.len(), new.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(before: &str, after: &str) -> Vec<RangeInclusive<usize>> {
        changed("f", before.as_bytes(), after.as_bytes()).into_iter().map(|c| c.lines).collect()
    }

    #[test]
    fn added_lines_are_named_and_for_removed_ones_the_next() {
        let base = "a\nb\nc\nd\ne\nf\ng\nh\n";
        assert_eq!(of(base, base), []);
        assert_eq!(of(base, "a\nb\nX\nY\nc\nd\ne\nf\ng\nh\n"), [3..=4]);
        assert_eq!(of(base, "a\nb\nc\nD\ne\nf\ng\nh\n"), [4..=4]);
        assert_eq!(of(base, "a\nd\ne\nf\ng\nh\n"), [2..=2], "two lines went before the second");
        assert_eq!(of(base, "A\nb\nc\nd\ne\nf\nG\nh\n"), [1..=1, 7..=7]);
        assert_eq!(of(base, "a\nb\nc\nd\ne\nf\ng\nh\ni\n"), [9..=9]);
        assert_eq!(of("", "n\n"), [1..=1], "a new file");
    }
}
