//! What a patch names: words on the lines that it changes, and functions whose beginning is near them or that a hunk's
//! header names as those around it.

use super::{Hunk, Line, Patch};
use std::collections::BTreeSet;

/// The words of C on changed lines, and on lines of hunks that begin a function; comments count as code.
pub fn named(patches: &[Patch]) -> BTreeSet<String> {
    let hunks = patches.iter().flat_map(|patch| &patch.files).flat_map(|file| &file.hunks);
    let lines = hunks.clone().flat_map(|hunk| &hunk.lines).filter_map(|line| match line {
        Line::Added(text) | Line::Removed(text) => Some(text.as_slice()),
        Line::Context(text) => begins_function(text).then_some(text),
    });
    let lines = lines.chain(hunks.filter(|hunk| is_around(hunk)).map(|hunk| hunk.heading.as_bytes()));
    let is_word = |b: &u8| b.is_ascii_alphanumeric() || *b == b'_';
    let words = lines.flat_map(|text| text.split(move |b| !is_word(b)));
    let words = words.filter(|word| word.first().is_some_and(|b| !b.is_ascii_digit()));
    words.map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

/// Whether a hunk changes a line of its heading's function: one before that function's end, or another's beginning.
fn is_around(hunk: &Hunk) -> bool {
    let context = |line: &Line| matches!(line, Line::Context(text) if !text.starts_with(b"}") && !begins_function(text));
    let first = hunk.lines.iter().find(|line| !context(line));
    begins_function(hunk.heading.as_bytes()) && matches!(first, Some(Line::Added(_) | Line::Removed(_)))
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

    #[test]
    fn a_heading_is_named_where_its_function_is_changed() {
        let of = |lines: &str, heading: &str| {
            let count = lines.lines().filter(|line| !line.starts_with('+')).count();
            let text = format!("--- a/k\n+++ b/k\n@@ -9,{count} +9,{} @@ {heading}\n{lines}", count + 1);
            named(&parse("x.patch", text.as_bytes()).unwrap()).contains("pick_idle")
        };
        let heading = "static int pick_idle(struct rq *rq, int cpu)";
        assert!(of(" \tlook();\n+\tmore();\n \treturn 0;\n }\n", heading));
        assert!(of("+\tmore();\n \treturn 0;\n }\n \n static void next(void)\n", heading));
        assert!(!of(" \treturn 0;\n }\n \n+int other;\n \n", heading), "it has ended");
        assert!(!of(" \n static void next(void)\n {\n+\tmore();\n", heading), "another has begun");
        assert!(!of(" \tint a;\n+\tint b;\n", "struct pick_idle {"), "no function");
        assert!(!of(" \tlook();\n+\tmore();\n", ""));
    }
}
