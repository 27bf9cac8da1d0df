//! What a patch names: words on the lines that it changes, and functions whose beginning is near them.

use super::{Line, Patch};
use std::collections::BTreeSet;

/// The words of C on changed lines, and on lines of hunks that begin a function; comments count as code.
pub fn named(patches: &[Patch]) -> BTreeSet<String> {
    let hunks = patches.iter().flat_map(|patch| &patch.files).flat_map(|file| &file.hunks);
    let lines = hunks.flat_map(|hunk| &hunk.lines).filter_map(|line| match line {
        Line::Added(text) | Line::Removed(text) => Some(text),
        Line::Context(text) => begins_function(text).then_some(text),
    });
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let words = lines.flat_map(|text| text.split(move |b| !is_word(b)));
    let words = words.filter(|word| word.first().is_some_and(|b| !b.is_ascii_digit()));
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether a line begins a function, or its declaration: it is not indented, and has parentheses.
fn begins_function(text: &[u8]) -> bool {
    text.first().is_some_and(|b| b.is_ascii_alphabetic() || *b == b'_') && text.contains(&b'(')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::parse;

    #[test]
    fn changed_lines_and_beginnings_of_functions_are_named() {
        let text = "--- a/k/fair.c\n+++ b/k/fair.c\n@@ -1,5 +1,5 @@\n static int pick(struct rq *rq)\n {\n \tlook(rq);\n\
                    -\told_way(rq);\n+\tif (sched_feat(NEW))\n \t2nd(rq);\n";
        let words = named(&parse("x.patch", text.as_bytes()).unwrap());
        for word in ["pick", "old_way", "sched_feat", "NEW"] {
            assert!(words.contains(word), "{word}: {words:?}");
        }
        assert!(!words.contains("look") && !words.contains("2nd") && !words.contains(""), "{words:?}");
    }
}
