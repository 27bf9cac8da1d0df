//! Helpers for plain text: wrapping, and the notes below tables.

use schedlab_base::counted;
pub use schedlab_base::wrap::WIDTH;
use schedlab_base::wrap::wrapped;
use schedlab_compare::Comparison;
use schedlab_kernel::Level;
use schedlab_record::store_listing::CHAINS_FILE;
use std::io::{self, Write};

/// The text in lines of at most [`WIDTH`] columns. The first line begins with `first`, the others with as many spaces.
pub fn wrap(first: &str, text: &str) -> String {
    let lines = wrapped(first, &" ".repeat(first.len()), text.split_whitespace());
    lines.iter().flat_map(|line| [line.trim_end(), "\n"]).collect()
}

/// The columns that a text takes.
pub fn width(text: &str) -> usize {
    text.chars().count()
}

/// A name in lines of at most `most` characters, broken after its separators if possible.
pub fn stack(name: &str, most: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for piece in name.split_inclusive(['-', '_', ' ', ',', '+', '=', '/']) {
        let last = lines.last().map_or(0, |l| width(l));
        if last > 0 && last + width(piece.trim_end()) > most {
            lines.push(String::new());
        }
        for ch in piece.chars() {
            if lines.last().is_some_and(|l| width(l) >= most) && ch != ' ' {
                lines.push(String::new());
            }
            if let Some(line) = lines.last_mut() {
                line.push(ch);
            }
        }
    }
    lines.iter().map(|l| l.trim().to_owned()).collect()
}

/// Writes the loads that stopped on one side only: one paragraph each, before all figures.
pub fn stalled(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    for one in &c.stalled {
        let first = if one.in_baseline { "STOPPED IN THE BASELINE: " } else { "STOPPED: " };
        write!(out, "{}", wrap(first, &one.words()))?;
    }
    if c.stalled.is_empty() { Ok(()) } else { writeln!(out) }
}

/// Writes the comparison's warnings, one paragraph each.
pub fn warnings(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    warnings_but(c, |_| false, out)
}

/// Writes the warnings, except those whose code was shown before.
pub fn warnings_but(c: &Comparison, is_said: impl Fn(&str) -> bool, out: &mut dyn Write) -> io::Result<()> {
    for w in c.warnings.iter().filter(|w| !is_said(&w.warning.code)) {
        let runs = match w.runs {
            0 => String::new(),
            n => format!(" ({})", counted(n, "run")),
        };
        write!(out, "{}", wrap("warning: ", &format!("{}{runs}", w.warning.message)))?;
    }
    Ok(())
}

/// Where to find the call chains of runs whose code was charged by instructions, with one run as an example.
pub fn stacks(c: &Comparison) -> Option<String> {
    let counted = c.cells.iter().find(|cell| cell.level.is_some_and(Level::counts))?;
    let (folder, seed) = (counted.folders.first()?, counted.seeds.first()?);
    Some(format!("chains of calls, for flame graphs, beside each run: {folder}/{seed}/{CHAINS_FILE}"))
}

/// The sources of the published figures.
pub fn sources(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let mut sources: Vec<&str> = Vec::new();
    for p in c.published.iter().filter(|p| !p.source.is_empty()) {
        if !sources.contains(&p.source.as_str()) {
            sources.push(&p.source);
        }
    }
    if sources.is_empty() {
        return Ok(());
    }
    write!(out, "{}", wrap("", &format!("Published: {}.", sources.join("; "))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_stay_within_the_width() {
        let text = wrap("note: ", &"word ".repeat(40));
        assert!(text.lines().all(|l| l.len() <= WIDTH) && text.lines().count() == 3, "{text}");
        assert!(text.lines().skip(1).all(|l| l.starts_with("      word")));
        assert_eq!(wrap("- ", &"x".repeat(90)), format!("- {}\n", "x".repeat(90)), "a long word is not torn");
    }

    #[test]
    fn long_names_are_stacked_and_lose_nothing() {
        assert_eq!(stack("first-idle", 14), ["first-idle"]);
        assert_eq!(stack("no-target-test", 11), ["no-target-", "test"]);
        assert_eq!(stack("today, with a long name", 12), ["today, with", "a long name"]);
        assert_eq!(stack("abcdefghij", 4), ["abcd", "efgh", "ij"]);
        for most in 1..30 {
            let lines = stack("wake_affine+sis_util and more", most);
            assert!(lines.iter().all(|l| l.chars().count() <= most), "{most}: {lines:?}");
            assert_eq!(lines.concat().replace(' ', ""), "wake_affine+sis_utilandmore");
        }
    }
}
