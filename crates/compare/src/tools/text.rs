//! Finds numbers in text.

pub use super::number::{count, number, whole};
use schedlab_base::{Error, Result};

/// The lines of a text. A carriage return also ends a line, for progress lines.
pub fn lines(text: &str) -> impl Iterator<Item = &str> {
    text.split(['\n', '\r']).map(str::trim).filter(|l| !l.is_empty())
}

/// The lines with their numbers, from 1.
pub fn numbered(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.lines().enumerate().flat_map(|(at, whole)| lines(whole).map(move |line| (at + 1, line)))
}

/// The number that follows a word in a line.
pub fn after(line: &str, word: &str) -> Result<Option<f64>> {
    line.split_once(word).map_or(Ok(None), |(_, rest)| number(rest))
}

/// The number that follows a word, in the first line that has both.
pub fn first(text: &str, word: &str) -> Result<Option<f64>> {
    for line in lines(text) {
        if let Some(value) = after(line, word)? {
            return Ok(Some(value));
        }
    }
    Ok(None)
}

/// A number in units of `factor`, rounded to a thousandth: 0.612 s are exactly 612000000 ns.
pub fn scaled(value: f64, factor: f64) -> f64 {
    let v = value * factor;
    if v.abs() < 1e12 { (v * 1000.0).round() / 1000.0 } else { v.round() }
}

/// The error for a text that lacks a part of a result.
pub fn missing(tool: &str, what: &str) -> Error {
    Error::input(format!("no result of {tool}: there is no {what}"))
        .help("its output may be of another version or not whole: --metric-regex 'NAME[UNIT]=REGEX' reads a figure out of any text")
}

/// The first JSON value that begins a line; the text may have other lines.
pub fn json(tool: &str, text: &str) -> Result<serde_json::Value> {
    jsons(tool, text).map(|mut all| all.swap_remove(0))
}

/// The successive JSON values of a text, at least one. The first one begins a line.
pub fn jsons(tool: &str, text: &str) -> Result<Vec<serde_json::Value>> {
    let starts = text.match_indices(['{', '[']).map(|(at, _)| at);
    let begins_line =
        |at: &usize| text[..*at].trim_end_matches([' ', '\t']).chars().last().is_none_or(|c| c == '\n');
    let at = starts.into_iter().find(begins_line).ok_or_else(|| missing(tool, "JSON"))?;
    let mut all = Vec::new();
    for value in serde_json::Deserializer::from_str(&text[at..]).into_iter::<serde_json::Value>() {
        match value {
            Ok(value) => all.push(value),
            // Other lines may follow a complete value.
            Err(_) if !all.is_empty() => break,
            Err(e) => return Err(Error::input(format!("no result of {tool}: its JSON is not whole: {e}"))),
        }
    }
    if all.is_empty() { Err(missing(tool, "JSON")) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_searched_after_its_word() {
        let found = (after("Time: 0.5", "Time:").unwrap(), first("a\rTime: x\nTime: 2", "Time:").unwrap());
        assert_eq!(found, (Some(0.5), Some(2.0)));
        assert!(first("a\nTime: 0,5\nTime: 2", "Time:").is_err());
    }

    #[test]
    fn scaling_leaves_no_rounding_errors() {
        assert_eq!((scaled(0.612, 1e9), scaled(17.8125, 1e3), scaled(1e6, 1e9)), (612e6, 17_812.5, 1e15));
    }

    #[test]
    fn json_is_found_among_lines() {
        assert_eq!(json("x", "note {1}\n  {\"a\": [1]}\nmore").unwrap()["a"][0], 1);
        assert!(json("x", "{\"a\": ").unwrap_err().to_string().contains("not whole"));
        assert!(json("x", "a { b").is_err());
    }
}
