//! The valid name that is nearest to an unknown one, by edit distance.

use std::cmp::Reverse;

/// The most similar candidate, if it is similar enough to be offered: the edits are at most one more than a third of
/// the compared letters, and fewer than the typed letters.
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let wanted = name.to_lowercase();
    known
        .into_iter()
        .filter_map(|k| Some((score(&wanted, &k.to_lowercase())?, k)))
        .min_by_key(|(d, _)| *d)
        .map(|(_, k)| k)
}

/// The `most` candidates most similar to `name`, best first, however different they are. Candidates that share more
/// words with it (parts between dots, underscores, hyphens and blanks) come first, then those with fewer edits. Ties
/// keep their order.
pub fn likest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let wanted = name.to_lowercase();
    let shared = |known: &str| words(&wanted).filter(|w| words(known).any(|k| alike(w, k))).count();
    let mut all: Vec<(Reverse<usize>, usize, &str)> = known
        .into_iter()
        .map(|k| {
            let lower = k.to_lowercase();
            (Reverse(shared(&lower)), distance(&wanted, &lower), k)
        })
        .collect();
    all.sort_by_key(|(shared, edits, _)| (*shared, *edits));
    let mut names: Vec<&str> = Vec::new();
    for (_, _, name) in all {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.truncate(most);
    names
}

/// The parts of a name that are compared: all with at least two letters.
fn words(name: &str) -> impl Iterator<Item = &str> {
    name.split(['.', '_', '-', ' ']).filter(|w| w.len() > 1)
}

/// Whether two words differ only by an ending or a typing error.
fn alike(a: &str, b: &str) -> bool {
    let starts = |a: &str, b: &str| a.len() > 2 && b.starts_with(a);
    a == b || starts(a, b) || starts(b, a) || (a.len() > 3 && distance(a, b) <= 1)
}

/// Edits from `wanted` to the candidate, or to a prefix of the candidate as long as `wanted`: `SIS_FRIST` is near
/// `SIS_FIRST_IDLE`. `None` when neither is near: a long candidate must not make a short text look near.
fn score(wanted: &str, known: &str) -> Option<usize> {
    let (typed, letters) = (wanted.chars().count(), known.chars().count());
    let near = |edits: usize, of: usize| (edits <= 1 + of / 3 && edits < typed).then_some(edits);
    let start: String = known.chars().take(typed).collect();
    let whole = near(distance(wanted, known), typed.max(letters));
    let beginning = if typed >= 4 { near(1 + distance(wanted, &start), typed) } else { None };
    whole.into_iter().chain(beginning).min()
}

/// Edits (insert, delete, replace, swap of neighbours) between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut rows: Vec<Vec<usize>> = vec![(0..=b.len()).collect()];
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let replace = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
            let mut best = replace.min(rows[i - 1][j] + 1).min(row[j - 1] + 1);
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(rows[i - 2][j - 2] + 1);
            }
            row.push(best);
        }
        rows.push(row);
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::{likest, nearest};

    #[test]
    fn similar_names_share_words_and_appear_once() {
        let known =
            ["wakeup_delay.p50", "run_delay.total", "run_delay.mean", "migrations", "run_delay.total"];
        assert_eq!(likest("rundelay.total", known, 2), ["run_delay.total", "run_delay.mean"]);
        assert_eq!(likest("delays", known, 3), ["run_delay.mean", "run_delay.total", "wakeup_delay.p50"]);
        assert_eq!(likest("bananas", known, 9).len(), 4, "however far they are");
    }

    #[test]
    fn offers_a_near_name_and_keeps_silent_otherwise() {
        let known = ["ILB_FAST", "ILB_UTIL", "SIS_UTIL"];
        assert_eq!(nearest("ilb_fsat", known), Some("ILB_FAST"));
        assert_eq!(nearest("SIS_UTL", known), Some("SIS_UTIL"));
        assert_eq!(nearest("bananas", known), None);
        assert_eq!(nearest("SIS_FRIST", ["SIS_GROUP", "SIS_FIRST_IDLE"]), Some("SIS_FIRST_IDLE"));
        assert_eq!(nearest("m", known), None);
        assert_eq!(nearest("b", ["a"]), None);
        assert_eq!(nearest("nope", ["gobench", "wakeup_delay.p50"]), None);
        assert_eq!(nearest("é̀💥", ["fb-2x24-smt"]), None);
    }
}
