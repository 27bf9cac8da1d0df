//! Small helps for plain text: wrapping, and the notes below tables.

use schedlab_lab::Comparison;
use std::io::{self, Write};

/// The width that mails and terminals take.
pub const WIDTH: usize = 78;

/// The text in lines of at most [`WIDTH`] columns, the first behind `first`, the others behind as many spaces.
pub fn wrap(first: &str, text: &str) -> String {
    let indent = " ".repeat(first.len());
    let (mut out, mut line) = (String::new(), first.to_owned());
    let mut empty = true;
    for word in text.split_whitespace() {
        if !empty && line.chars().count() + 1 + word.chars().count() > WIDTH {
            out.push_str(line.trim_end());
            out.push('\n');
            line.clone_from(&indent);
            empty = true;
        }
        if !empty {
            line.push(' ');
        }
        line.push_str(word);
        empty = false;
    }
    out.push_str(line.trim_end());
    out.push('\n');
    out
}

/// The comparison's warnings, one paragraph each.
pub fn warnings(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    for w in &c.warnings {
        let runs = match w.runs {
            0 => String::new(),
            1 => " (1 run)".to_owned(),
            n => format!(" ({n} runs)"),
        };
        write!(out, "{}", wrap("warning: ", &format!("{}{runs}", w.warning.message)))?;
    }
    Ok(())
}

/// Where the published figures are from.
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
}
