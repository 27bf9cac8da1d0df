//! Explains to its author why a hunk fits nowhere.
//!
//! The hunk may be applied already, or only its white space differs. Else its lines are compared with the whole file;
//! the explanation names the place where most of them match, the first line that differs there, and the first line that
//! the patch lacks. The comparison is a local alignment, so a few lines inserted between the hunk's do not hide its
//! place. Blank lines and braces occur everywhere and hardly count.

use super::{Hunk, Line};

/// Scores of a matching line: one with words, and any other.
const WORDS: i32 = 8;
const BARE: i32 = 1;
/// Cost of a line that only the file or only the patch has.
const GAP: i32 = 1;
/// A line with words has at least this many letters and digits.
const FEW: usize = 3;
/// The comparison is made up to this product of both lengths, in cells of one byte.
const MOST_CELLS: usize = 64 << 20;
/// Characters of a line that are shown.
const SHOWN: usize = 70;

/// The reason for a hunk that is applied already.
pub const ALREADY: &str = "the file has these changes already: leave this hunk out";

/// Why a hunk that was wanted at index `wanted` fits nowhere in a file.
pub fn why(hunk: &Hunk, old: &[&[u8]], wanted: usize) -> String {
    let new: Vec<&[u8]> = hunk.lines.iter().filter_map(Line::in_new).collect();
    if new.iter().any(|l| has_words(l)) && old.windows(new.len()).any(|w| w == new) {
        return ALREADY.to_owned();
    }
    let pattern: Vec<&[u8]> = hunk.lines.iter().filter_map(Line::in_old).collect();
    let squeezed = |l: &[u8]| -> Vec<u8> { l.iter().copied().filter(|b| !b.is_ascii_whitespace()).collect() };
    let bare: Vec<Vec<u8>> = pattern.iter().map(|l| squeezed(l)).collect();
    let same_but_space = |w: &[&[u8]]| w.iter().zip(&bare).all(|(l, b)| squeezed(l) == *b);
    if !pattern.is_empty() && old.windows(pattern.len()).any(same_but_space) {
        return "it fits but for its white space: a mail program has changed the patch".to_owned();
    }
    let pairs = aligned(&pattern, old, wanted);
    if !pairs.iter().any(|(i, _)| has_words(pattern[*i])) {
        return "the file has none of its lines".to_owned();
    }
    let mut text =
        format!("{} of its {} lines fit at line {}", pairs.len(), pattern.len(), place(&pairs, 0) + 1);
    if let Some(i) = missing(&pattern, &pairs) {
        let (at, expected) = (place(&pairs, i), shown(pattern[i]));
        text += &match old.get(at) {
            Some(line) => format!("; line {} is '{}', the patch expects '{expected}'", at + 1, shown(line)),
            None => format!("; the file ends at line {}, the patch expects '{expected}'", old.len()),
        };
    }
    if let Some((from, count)) = between(&pairs) {
        let line = shown(old[from]);
        text +=
            &format!("; the patch lacks {count} line(s) of the file from line {} on ('{line}')", from + 1);
    }
    text
}

/// Whether a line is more than blanks, braces and the like.
fn has_words(line: &[u8]) -> bool {
    line.iter().filter(|b| b.is_ascii_alphanumeric()).take(FEW).count() == FEW
}

fn shown(line: &[u8]) -> String {
    String::from_utf8_lossy(line).trim().chars().take(SHOWN).collect()
}

/// The first line of the pattern without a match, preferably one with words.
fn missing(pattern: &[&[u8]], pairs: &[(usize, usize)]) -> Option<usize> {
    let lacks = |i: &usize| !pairs.iter().any(|(own, _)| own == i);
    let all = || (0..pattern.len()).filter(lacks);
    all().find(|i| has_words(pattern[*i])).or_else(|| all().next())
}

/// Where line `i` of the pattern is, or would be, in the file.
fn place(pairs: &[(usize, usize)], i: usize) -> usize {
    let before = pairs.iter().rev().find(|(own, _)| *own <= i);
    let after = pairs.iter().find(|(own, _)| *own >= i);
    match (before, after) {
        (Some((own, at)), Some((_, next))) => (at + (i - own)).min(*next),
        (Some((own, at)), None) => at + (i - own),
        (None, Some((own, at))) => at.saturating_sub(own - i),
        (None, None) => 0,
    }
}

/// The first place where the file has more lines than the pattern, and how many more.
fn between(pairs: &[(usize, usize)]) -> Option<(usize, usize)> {
    pairs.windows(2).find_map(|w| {
        let more = (w[1].1 - w[0].1).checked_sub(w[1].0 - w[0].0)?;
        (more > 0).then_some((w[0].1 + 1, more))
    })
}

/// The step that led to a cell of the comparison.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Step {
    /// The alignment begins here.
    Begin,
    Equal,
    Differ,
    /// Only the pattern has the line.
    Pattern,
    /// Only the file has the line.
    File,
}

/// Pairs of equal lines (index in pattern, index in file) where most of the pattern matches; of several such places,
/// the one nearest to `wanted`.
fn aligned(pattern: &[&[u8]], file: &[&[u8]], wanted: usize) -> Vec<(usize, usize)> {
    let width = file.len() + 1;
    if pattern.is_empty() || file.is_empty() || pattern.len().saturating_mul(width) > MOST_CELLS {
        return Vec::new();
    }
    let mut steps = vec![Step::Begin; (pattern.len() + 1) * width];
    let (mut above, mut best) = (vec![0i32; width], (0i32, usize::MAX, 0, 0));
    for (i, line) in pattern.iter().enumerate() {
        let worth = if has_words(line) { WORDS } else { BARE };
        let mut row = vec![0i32; width];
        for (j, other) in file.iter().enumerate() {
            let met =
                if line == other { (above[j] + worth, Step::Equal) } else { (above[j] - GAP, Step::Differ) };
            let rest = [(above[j + 1] - GAP, Step::Pattern), (row[j] - GAP, Step::File), (0, Step::Begin)];
            // Of equal scores the first wins.
            let (score, step) = rest.into_iter().fold(met, |a, b| if b.0 > a.0 { b } else { a });
            row[j + 1] = score;
            steps[(i + 1) * width + j + 1] = if score > 0 { step } else { Step::Begin };
            let far = (wanted + i).abs_diff(j);
            if score > best.0 || (score == best.0 && far < best.1) {
                best = (score, far, i + 1, j + 1);
            }
        }
        above = row;
    }
    let (mut i, mut j) = (best.2, best.3);
    let mut pairs = Vec::new();
    loop {
        match steps[i * width + j] {
            Step::Begin => break,
            Step::Equal => {
                pairs.push((i - 1, j - 1));
                (i, j) = (i - 1, j - 1);
            }
            Step::Differ => (i, j) = (i - 1, j - 1),
            Step::Pattern => i -= 1,
            Step::File => j -= 1,
        }
    }
    pairs.reverse();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reason(pattern: &str, file: &str, wanted: usize) -> String {
        let lines = pattern.lines().map(|l| Line::Context(l.as_bytes().to_vec())).collect();
        let hunk = Hunk { old_start: wanted + 1, lines, heading: String::new(), at: 1, ends_open: false };
        why(&hunk, &file.lines().map(str::as_bytes).collect::<Vec<_>>(), wanted)
    }

    /// A function whose middle was rewritten by another change, and an unrelated place with the same blank lines and
    /// braces.
    #[test]
    fn the_place_where_most_lines_fit_is_named() {
        let elsewhere =
            "int other(void)\n{\n\trcu_read_lock();\n\ttsk = curr;\n\n\tif (tsk)\n\t\tgoto out;\n\n}\n";
        let own = "\trcu_read_lock();\n\tsd = domain(rq);\n\tif (!sd) {\n\t\tgoto out;\n\t}\n\n\tif (!overload ||\n\t    \
                   idle < cost) {\n";
        let file = format!("{elsewhere}{}{own}", "filler();\n".repeat(40));
        let pattern =
            "\trcu_read_lock();\n\tsd = domain(rq);\n\n\tif (!overload ||\n\t    (sd && idle < cost)) {\n";
        let text = reason(pattern, &file, 3);
        assert!(text.starts_with("4 of its 5 lines fit at line 50; line 57 is 'idle < cost) {'"), "{text}");
        assert!(text.contains("expects '(sd && idle < cost)) {'"), "{text}");
        assert!(text.ends_with("lacks 3 line(s) of the file from line 52 on ('if (!sd) {')"), "{text}");
    }

    #[test]
    fn of_two_such_places_the_nearer_one_is_named() {
        let one = "first();\nsecond();\nother();\n";
        let file = format!("{one}{}{one}", "filler();\n".repeat(10));
        assert!(reason("first();\nsecond();\nthird();\n", &file, 0).contains("at line 1;"));
        assert!(reason("first();\nsecond();\nthird();\n", &file, 12).contains("at line 14;"));
    }

    #[test]
    fn braces_alone_do_not_make_a_place_and_a_file_may_end() {
        assert_eq!(reason("{\n\tfirst();\n}\n", "{\n}\n{\n}\n", 0), "the file has none of its lines");
        let text = reason("first();\nsecond();\nthird();\n", "zero();\nfirst();\nsecond();\n", 0);
        assert!(text.contains("2 of its 3 lines fit at line 2; the file ends at line 3"), "{text}");
    }
}
