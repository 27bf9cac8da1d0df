//! Numbers out of text for people.

use schedlab_base::{Error, Result};

/// The lines of a text. A carriage return ends a line, too, since progress lines use it.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r']).map(str::trim).filter(|l| !l.is_empty())
}

/// The number a text begins with, blanks before it skipped; what follows it does not matter.
pub fn number(text: &str) -> Option<f64> {
    let text = text.trim_start();
    let end = text.find(|c: char| !(c.is_ascii_digit() || ".+-eE".contains(c))).unwrap_or(text.len());
    // "12e" or "5-" at the end belong to what follows.
    let word = text[..end].trim_end_matches(|c: char| !c.is_ascii_digit() && c != '.');
    word.parse().ok().filter(|n: &f64| n.is_finite())
}

/// The number behind a word of a line.
pub fn after(line: &str, word: &str) -> Option<f64> {
    line.split_once(word).and_then(|(_, rest)| number(rest))
}

/// The number behind a word of the first line that has both.
pub fn first(text: &str, word: &str) -> Option<f64> {
    lines(text).find_map(|l| after(l, word))
}

/// A number in units of `factor`, rounded to a thousandth, so that 0.612 s are exactly 612000000 ns.
pub fn scaled(value: f64, factor: f64) -> f64 {
    let v = value * factor;
    if v.abs() < 1e12 { (v * 1000.0).round() / 1000.0 } else { v.round() }
}

/// The error for a text that lacks a part of a result.
pub fn missing(tool: &str, what: &str) -> Error {
    Error::input(format!("no result of {tool}: there is no {what}"))
}

/// The first JSON value that begins a line, of a text that may have other lines.
pub fn json(tool: &str, text: &str) -> Result<serde_json::Value> {
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at);
    let begins_line =
        |at: &usize| text[..*at].trim_end_matches([' ', '\t']).chars().last().is_none_or(|c| c == '\n');
    let at = starts.into_iter().find(begins_line).ok_or_else(|| missing(tool, "JSON"))?;
    let mut values = serde_json::Deserializer::from_str(&text[at..]).into_iter::<serde_json::Value>();
    match values.next() {
        Some(Ok(value)) => Ok(value),
        Some(Err(e)) => Err(Error::input(format!("no result of {tool}: its JSON is not whole: {e}"))),
        None => Err(missing(tool, "JSON")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_ends_where_text_begins() {
        for (text, want) in [
            ("  1.23 s", Some(1.23)),
            ("93 ev/s", Some(93.0)),
            ("-4e3,", Some(-4000.0)),
            ("10e", Some(10.0)),
            ("5s", Some(5.0)),
            ("nan", None),
            ("", None),
            ("1e999", None),
            (".", None),
        ] {
            assert_eq!(number(text), want, "{text}");
        }
        assert_eq!(
            (after("Time: 0.5", "Time:"), first("a\rTime: x\nTime: 2", "Time:")),
            (Some(0.5), Some(2.0))
        );
    }

    #[test]
    fn scaling_leaves_no_dust() {
        assert_eq!((scaled(0.612, 1e9), scaled(17.8125, 1e3), scaled(1e6, 1e9)), (612e6, 17_812.5, 1e15));
    }

    #[test]
    fn json_is_found_among_lines() {
        assert_eq!(json("x", "note {1}\n  {\"a\": [1]}\nmore").unwrap()["a"][0], 1);
        assert!(json("x", "{\"a\": ").unwrap_err().to_string().contains("not whole"));
        assert!(json("x", "a { b").is_err());
    }
}
