//! docs/chronology.md, from the table.

use super::{HISTORY, UNMODELLED};
use crate::PROFILES;
use std::fmt::Write;

const HEAD: &str = include_str!("page-head.md");

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
        schedlab_base::testing::page_is("docs/chronology.md", &super::page());
    }
}
