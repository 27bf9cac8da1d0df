//! The page that links several reports.

use super::escape::escape;
use super::page::head;
use std::fmt::Write;

/// A report in the index.
pub struct Entry {
    pub title: String,
    /// The question that it answers.
    pub about: String,
    /// Its file, in the index's folder.
    pub file: String,
    /// Its result, in a sentence.
    pub outcome: String,
}

/// The index of these reports.
pub fn index(title: &str, command: &str, version: &str, entries: &[Entry]) -> String {
    let mut out = head(title);
    let _ = writeln!(
        out,
        "<header><h1>{}</h1>\n<p class=\"note\">Made by schedlab {} with <code>{}</code></p></header>",
        escape(title),
        escape(version),
        escape(command)
    );
    for e in entries {
        let _ = writeln!(
            out,
            "<section><h2><a href=\"{}\">{}</a></h2>\n<p>{}</p>\n<p class=\"note\">{}</p></section>",
            escape(&e.file),
            escape(&e.title),
            escape(&e.about),
            escape(&e.outcome)
        );
    }
    out + "</body></html>\n"
}
