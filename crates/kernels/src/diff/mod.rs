//! Patches: reads them from diffs, mails and mailboxes, applies them in memory, and reports what they add.
//!
//! A patch is text in the unified form of diff(1) and git. Lines are bytes, since sources need not be UTF-8. Nothing
//! here touches a file.

mod adds;
mod apply;
mod changed;
mod mail;
mod misfit;
mod named;
mod read;

pub use adds::{Added, Counter, adds};
pub use apply::{Outcome, Placement, Reject, apply, rejected};
pub use changed::{ChangedLines, changed};
pub use named::named;
pub use read::{parse, read};

use crate::blob::Kind;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Line {
    /// In both files.
    Context(Vec<u8>),
    /// In the old file only.
    Removed(Vec<u8>),
    /// In the new file only.
    Added(Vec<u8>),
}

impl Line {
    /// The text, if the old file has the line.
    pub fn in_old(&self) -> Option<&[u8]> {
        match self {
            Line::Context(text) | Line::Removed(text) => Some(text),
            Line::Added(_) => None,
        }
    }
    /// The text, if the new file has the line.
    pub fn in_new(&self) -> Option<&[u8]> {
        match self {
            Line::Context(text) | Line::Added(text) => Some(text),
            Line::Removed(_) => None,
        }
    }
}

/// A hunk: adjacent lines.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hunk {
    /// Line of the old file at which it begins, from 1; 0 for a new file.
    pub old_start: usize,
    pub lines: Vec<Line>,
    /// The text behind the header's numbers: by git the line above the hunk that begins a function.
    pub heading: String,
    /// Line of the patch that holds its header, from 1.
    pub at: usize,
    /// Whether the last line of the new file has no newline.
    pub ends_open: bool,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileDiff {
    /// The old path; `None` for a new file.
    pub old: Option<String>,
    /// The new path; `None` for a removed file.
    pub new: Option<String>,
    /// Whether the new file is a copy: the old one stays.
    pub copied: bool,
    /// The kind of the new file; `None` if unchanged (plain for a new file).
    pub kind: Option<Kind>,
    /// Whether the patch says that the old file is a symbolic link.
    pub of_link: bool,
    pub hunks: Vec<Hunk>,
}

impl FileDiff {
    /// The path to show: the new one, or that of a removed file.
    pub fn path(&self) -> &str {
        self.new.as_deref().or(self.old.as_deref()).unwrap_or("?")
    }
}

/// A patch: the changes of one mail or diff.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patch {
    /// Where the patch comes from: the file's name, and the mail's number if the file holds several.
    pub name: String,
    /// The mail's subject, without its brackets.
    pub subject: Option<String>,
    pub files: Vec<FileDiff>,
}

impl Patch {
    /// Hash of the changes. The mail around them does not count.
    pub fn hash(&self) -> String {
        let mut bytes = Vec::new();
        for file in &self.files {
            let arrow = if file.copied { ">>" } else { ">" };
            bytes.extend(format!("{:?}{arrow}{:?}\n", file.old, file.new).into_bytes());
            // A new file is plain, whether its patch says so or not.
            if let Some(kind) = file.kind.filter(|kind| file.old.is_some() || *kind != Kind::Plain) {
                bytes.extend(format!("{kind:?}\n").into_bytes());
            }
            for hunk in &file.hunks {
                bytes.extend(format!("@{}{}\n", hunk.old_start, hunk.ends_open).into_bytes());
                for line in &hunk.lines {
                    let (sign, text) = match line {
                        Line::Context(text) => (b' ', text),
                        Line::Removed(text) => (b'-', text),
                        Line::Added(text) => (b'+', text),
                    };
                    bytes.push(sign);
                    bytes.extend(text);
                    bytes.push(b'\n');
                }
            }
        }
        schedlab_base::content_hash(&bytes)
    }
    /// The files that the patch changes, by their new paths.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.files.iter().map(FileDiff::path)
    }
}
