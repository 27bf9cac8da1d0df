//! docs/chronology.md, from the table.

use super::{HISTORY, UNMODELLED};
use crate::PROFILES;
use std::fmt::Write;

const HEAD: &str = "# Chronology

Mechanisms that came to the kernel's scheduler or went, as far as the simulator models them: each once, by subject,
in order of time. What was found and is not modelled is at the end. Made from the tables in
`crates/kernel/src/history/`; change these, then run `SCHEDLAB_BLESS=1 cargo test -p schedlab-kernel chronology_page`.
`schedlab kernel history [VERSION|MECHANISM]` prints the same; with a version it prints the behaviour of that profile.

Mechanisms that can be switched in the kernel's sched/features are in [features.md](features.md). Parameters of
sched domains differ by version, too: `schedlab machine NAME` prints them.

- **Releases** are those of kernel.org that have the mechanism: from the first, before the second.
- **Function** is the kernel's function, by its name at the change or today.
- **Read** names the source trees between which the change lies, or says that the release is from memory and what
  was read in other trees. Trees: as in [features.md](features.md).

";

/// The whole page.
pub fn page() -> String {
    let mut text = HEAD.to_owned();
    let profiles: Vec<String> = PROFILES.iter().map(|p| p.version.to_string()).collect();
    // Writing to a String can't fail.
    let _ = writeln!(text, "Profiles: {}.", profiles.join(", "));
    for rows in HISTORY.chunk_by(|a, b| a.subject == b.subject) {
        let _ = writeln!(text, "\n## {}\n", rows[0].subject.title());
        text += "| mechanism | releases | with it | without it | function | read |\n";
        text += "| --- | --- | --- | --- | --- | --- |\n";
        for m in rows {
            let within = m.within.map_or_else(String::new, |whole| format!(", part of `{whole}`"));
            let (name, releases) = (m.name, m.releases());
            let _ = writeln!(
                text,
                "| `{name}`{within} | {releases} | {} | {} | `{}` | {} |",
                m.with, m.without, m.function, m.read
            );
        }
    }
    text += "\n## Not modelled\n\nChanges to decisions that were found in these trees and that no profile has.\n\n";
    text += "| part | releases | the kernel | function | read |\n| --- | --- | --- | --- | --- |\n";
    for u in UNMODELLED {
        let part = u.subject.title();
        let _ = writeln!(text, "| {part} | {} | {} | `{}` | {} |", u.span, u.text, u.function, u.read);
    }
    text
}

#[cfg(test)]
mod tests {
    #[test]
    fn chronology_page_matches_the_table() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/chronology.md");
        if std::env::var_os("SCHEDLAB_BLESS").is_some() {
            std::fs::write(&file, super::page()).unwrap();
        }
        let stored = std::fs::read_to_string(&file).unwrap_or_default();
        assert!(stored == super::page(), "docs/chronology.md is stale: run this test with SCHEDLAB_BLESS=1");
    }
}
