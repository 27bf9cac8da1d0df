//! Finds names that patches use and an image lacks.

use crate::diff::{Line, Patch};
use std::collections::BTreeSet;

/// Names of stubs on lines that patches add. A run that reaches such a line ends.
pub(super) fn of(patches: &[Patch], stubs: &[String]) -> Vec<String> {
    let hunks = patches.iter().flat_map(|p| &p.files).flat_map(|f| &f.hunks);
    let added = hunks.flat_map(|h| &h.lines).filter_map(|line| match line {
        Line::Added(text) => Some(String::from_utf8_lossy(text)),
        Line::Context(_) | Line::Removed(_) => None,
    });
    let mut words = BTreeSet::new();
    for line in added {
        let named = line.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|w| !w.is_empty());
        words.extend(named.map(str::to_owned));
    }
    stubs.iter().filter(|stub| words.contains(*stub)).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stub_on_an_added_line_is_lacking() {
        let diff = "--- a/x\n+++ b/x\n@@ -1,2 +1,2 @@\n a(vma_find);\n-b(kallsyms);\n+x = mas_find(&b);\n";
        let patches = crate::diff::parse("p", diff.as_bytes()).unwrap();
        let stubs = ["kallsyms", "mas", "mas_find", "vma_find"].map(str::to_owned);
        assert_eq!(of(&patches, &stubs), ["mas_find"]);
    }
}
