//! Escapes for foreign text, so that it is harmless for a terminal and for a reader.
//!
//! A record, a saved output or a file's name may contain characters that a terminal obeys (colours, cursor moves) or
//! that change the order of reading. They are shown as JSON writes them (`\u001b`), so escaped JSON stays the same
//! JSON. Harmless text is returned unchanged.

use std::borrow::Cow;
use std::fmt::Write;

/// Whether a character controls the display: C0, DEL and C1 controls, line and paragraph separators, and bidirectional
/// marks, embeddings, overrides and isolates.
pub fn acts(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Why results can't carry a name; `None` if it is visible and on one line.
pub fn unfit(name: &str) -> Option<&'static str> {
    match name {
        name if name.trim().is_empty() => Some("is empty"),
        name if name.contains(acts) => Some("has control characters or more than one line"),
        _ => None,
    }
}

/// Escapes a name for the middle of a line, including newlines and tabs.
pub fn name(text: &str) -> Cow<'_, str> {
    escaped(text, |c, _| acts(c))
}

/// Escapes whole lines. Newlines and tabs stay, as does a carriage return at the end of a line (CSV).
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c, next| acts(c) && !matches!((c, next), ('\n' | '\t', _) | ('\r', Some('\n'))))
}

/// Escapes the characters for which `acts` holds; its second argument is the next character.
fn escaped(text: &str, acts: impl Fn(char, Option<char>) -> bool) -> Cow<'_, str> {
    let with_next = || text.chars().zip(text.chars().skip(1).map(Some).chain([None]));
    if !with_next().any(|(c, next)| acts(c, next)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (c, next) in with_next() {
        if acts(c, next) {
            // Writing to a string can't fail. All of these characters have four digits.
            let _ = write!(out, "\\u{:04x}", u32::from(c));
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped_and_others_stay() {
        assert_eq!(name("pi\u{1b}[31mpe"), "pi\\u001b[31mpe");
        assert_eq!(name("a\nb\tc\u{7f}\u{9b}\u{202e}"), "a\\u000ab\\u0009c\\u007f\\u009b\\u202e");
        assert!(unfit("v6.1 J\u{f6}rg").is_none() && unfit(" ").is_some() && unfit("a\u{1b}[31m").is_some());
        assert_eq!(lines("a\n\tb\r\u{85}\u{2066}"), "a\n\tb\\u000d\\u0085\\u2066");
        assert_eq!(lines("a,b\r\nc\r\r\n"), "a,b\r\nc\\u000d\r\n", "only what ends a line stays");
        assert!(
            matches!(lines("Jörg: 日本 \u{200d} \\u001b\n"), Cow::Borrowed(_)),
            "harmless text is not copied"
        );
    }

    #[test]
    fn escaped_json_says_the_same() {
        // Inside strings, JSON allows DEL, C1 and bidirectional marks as they are.
        let json = "{\"a\u{7f}\": \"\u{9b}31m\u{202e}\"}\n";
        let escaped = lines(json);
        assert!(!escaped.contains(|c| acts(c) && c != '\n'));
        assert_eq!(escaped, "{\"a\\u007f\": \"\\u009b31m\\u202e\"}\n");
    }
}
