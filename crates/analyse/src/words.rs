//! Writes explanations in lines of at most 78 columns, fit for mail.

use schedlab_base::wrap::{WIDTH, pieces, wrapped};

/// The column at which the text of an item begins.
pub const STORY: usize = 14;

/// Adds words in lines of at most [`WIDTH`](schedlab_base::wrap::WIDTH) columns. The first follows `front`; the others
/// are indented.
pub fn wrap(out: &mut Vec<String>, front: &str, indent: usize, words: &str) {
    let words = words.split_whitespace().flat_map(|word| pieces(word, WIDTH - indent));
    out.extend(wrapped(front, &" ".repeat(indent), words));
}

/// A number and its noun, which takes an `s` unless the number is 1.
pub fn count(n: u64, noun: &str) -> String {
    if n == 1 { format!("1 {noun}") } else { format!("{n} {noun}s") }
}

/// A heading and the text of each item, numbered from 1; nothing without items. `nouns`: for one, for several.
pub fn longest<T>(
    out: &mut Vec<String>,
    nouns: [&str; 2],
    items: &[T],
    story: impl Fn(usize, &T, &mut Vec<String>),
) {
    let [one, several] = nouns;
    match items.len() {
        0 => return,
        1 => out.extend([String::new(), format!("The longest {one}:")]),
        n => out.extend([String::new(), format!("The {n} longest {several}:")]),
    }
    for (n, item) in items.iter().enumerate() {
        out.push(String::new());
        story(n + 1, item, out);
    }
}

/// The text, with notes at its end.
pub fn with_notes(mut out: Vec<String>, notes: &[String]) -> String {
    if !notes.is_empty() {
        out.push(String::new());
    }
    notes.iter().for_each(|n| wrap(&mut out, "", 6, &format!("note: {n}")));
    out.push(String::new());
    out.join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_list_is_broken_after_commas_and_a_long_name_is_cut() {
        let list: Vec<String> = (0..64).map(|n| (2 * n).to_string()).collect();
        let mut out = Vec::new();
        wrap(&mut out, "    ", 6, &format!("idle ({}; cpu3 longest) {}", list.join(","), "n".repeat(99)));
        assert!(out.iter().all(|l| l.chars().count() <= WIDTH), "{out:#?}");
        let whole: String = out.iter().map(|l| l.trim()).collect();
        assert!(whole.contains(&list.join(",")), "no number is lost or cut: {out:#?}");
        assert!(
            out.iter().filter(|l| l.contains(",")).all(|l| l.ends_with(',') || l.contains(';')),
            "{out:#?}"
        );
        assert_eq!((count(1, "probe"), count(0, "probe")), ("1 probe".to_owned(), "0 probes".to_owned()));
    }
}
