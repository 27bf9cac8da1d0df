//! The only reader of numbers in tools' output.
//!
//! It reads numbers as `LC_ALL=C` writes them: a point before decimals. Commas may separate thousands if they can mean
//! nothing else. Any other form is an error: a misread comma makes a result that looks right and is off by a factor of
//! a thousand. "nan" and "inf" are errors, too: a run would silently lose its figure.

use schedlab_base::{Error, Result};

/// The numbers that can stand at a place of a tool's text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberForm {
    /// A number with or without decimals: "5,318" may be either.
    Decimal,
    /// A whole number: "188,037" has a comma between thousands.
    Whole,
}

/// The number at the beginning of a text, after blanks, whatever follows; `None` if the text begins with something
/// else.
///
/// # Errors
/// When its commas can be read in two ways, it is written as in another locale, or it is "nan" or "inf".
pub fn number(text: &str) -> Result<Option<f64>> {
    begin(text, NumberForm::Decimal)
}

/// As [`number`], for a place where the tool prints whole numbers: a comma separates thousands.
///
/// # Errors
/// As [`number`], and for "188.037", where the point would separate thousands.
pub fn count(text: &str) -> Result<Option<f64>> {
    begin(text, NumberForm::Whole)
}

/// A word that is a number as a whole.
///
/// # Errors
/// As [`number`], and for any other word.
pub fn whole(word: &str) -> Result<f64> {
    let word = word.trim();
    let (first, rest) = split(word);
    match value(first, NumberForm::Decimal)? {
        Some(value) if rest.is_empty() => Ok(value),
        _ => not_finite(word).map_or_else(|| Err(no_number(word)), Err),
    }
}

fn begin(text: &str, form: NumberForm) -> Result<Option<f64>> {
    let text = text.trim_start();
    let (first, rest) = split(text);
    match value(first, form)? {
        None => not_finite(text).map_or(Ok(None), Err),
        // "5s" is a number with its unit; "1x5", "1..2", "1_000" and "1m30s" are not numbers.
        Some(_) if has_digits(rest) => Err(no_number(text)),
        some => Ok(some),
    }
}

/// Whether the rest of a number's word has more digits.
fn has_digits(rest: &str) -> bool {
    rest.chars().take_while(|c| c.is_alphanumeric() || "._:;".contains(*c)).any(|c| c.is_ascii_digit())
}

/// Splits a text after the characters that belong to the number at its beginning.
fn split(text: &str) -> (&str, &str) {
    let digit = |at: usize| text.as_bytes().get(at).is_some_and(u8::is_ascii_digit);
    let mut end = usize::from(text.starts_with(['+', '-']));
    while let Some(c) = text[end..].chars().next() {
        let next = end + c.len_utf8();
        // A sign without a following digit belongs to the sentence.
        if !(c.is_ascii_digit() || is_separator(c) && digit(next)) {
            break;
        }
        end = next;
    }
    let exponent = text[end..].strip_prefix(['e', 'E']).map(|rest| rest.trim_start_matches(['+', '-']));
    if let Some(rest) = exponent.filter(|rest| rest.starts_with(|c: char| c.is_ascii_digit())) {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        end = text.len() - rest.len() + digits;
    }
    text.split_at(end)
}

/// Signs that some locale writes within numbers.
fn is_separator(c: char) -> bool {
    matches!(c, '.' | ',' | '\'' | '\u{2019}' | '\u{a0}' | '\u{202f}' | '\u{2009}')
}

/// The value of the characters of a number; `None` if there is no digit.
fn value(word: &str, form: NumberForm) -> Result<Option<f64>> {
    if !word.contains(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let plain = word.trim_start_matches(['+', '-']);
    let plain = plain.split(['e', 'E']).next().unwrap_or(plain);
    let digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (front, decimals) = plain.split_once('.').map_or((plain, None), |(f, d)| (f, Some(d)));
    let groups: Vec<&str> = front.split(',').collect();
    let grouped = groups[1..].iter().all(|g| g.len() == 3)
        && (groups.len() == 1 || (1..=3).contains(&groups[0].len()) && !groups[0].starts_with('0'));
    let whole = form == NumberForm::Whole;
    if decimals.is_some_and(|d| d.contains('.')) && plain.split('.').skip(1).any(|g| g.len() != 3) {
        return Err(no_number(word));
    }
    if !grouped
        || !groups.iter().all(|g| digits(g))
        || !decimals.unwrap_or("0").bytes().all(|b| b.is_ascii_digit())
    {
        return Err(other_locale(word));
    }
    let one_comma = groups.len() == 2 && decimals.is_none() && !whole;
    let point_of_thousands =
        whole && groups.len() == 1 && front.len() <= 3 && decimals.is_some_and(|d| d.len() == 3);
    if one_comma || point_of_thousands {
        return Err(two_ways(word));
    }
    let value: Option<f64> = word.replace(',', "").parse().ok();
    // "1e999" is too large for a number.
    value.filter(|v| v.is_finite()).map(Some).ok_or_else(|| no_number(word))
}

/// The error for a text that begins with "nan" or "inf".
fn not_finite(text: &str) -> Option<Error> {
    let word: String =
        text.trim_start_matches(['+', '-']).chars().take_while(|c| c.is_alphabetic()).collect();
    let known = ["nan", "inf", "infinity"].contains(&word.to_ascii_lowercase().as_str());
    known.then(|| no_number(&word))
}

fn no_number(word: &str) -> Error {
    let shown: String = word.chars().take(40).collect();
    Error::input(format!("'{shown}' is not a number"))
}

fn two_ways(word: &str) -> Error {
    let joined = word.replace([',', '.'], "");
    let pointed = word.replace(',', ".");
    Error::input(format!("'{word}' may mean {joined} or {pointed}")).help(REMEDY)
}

/// The error for a number that is not written as `LC_ALL=C` writes it.
pub fn other_locale(word: &str) -> Error {
    let shown: String = word.chars().take(60).collect();
    Error::input(format!("the number of '{shown}' is written in the way of another locale")).help(REMEDY)
}

const REMEDY: &str = "numbers are read as tools print them under LC_ALL=C; save the output under that";

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
            ("8.3e+08 x", Some(8.3e8)),
            ("300, next", Some(300.0)),
            ("12. So", Some(12.0)),
            (".5", Some(0.5)),
            ("nanosecs", None),
            ("info", None),
            ("", None),
            (".", None),
            ("-", None),
        ] {
            assert_eq!(number(text).unwrap(), want, "{text}");
        }
    }

    #[test]
    fn commas_are_read_only_where_they_can_mean_one_thing() {
        for (text, want) in
            [("1,234,567", 1_234_567.0), ("1,234.5", 1234.5), ("12,345,678.25 x", 12_345_678.25)]
        {
            assert_eq!((number(text).unwrap(), count(text).unwrap()), (Some(want), Some(want)), "{text}");
        }
        assert_eq!((count("188,037 ops").unwrap(), count("1.5").unwrap()), (Some(188_037.0), Some(1.5)));
        for text in [
            "0,52",
            "0,123",
            "1234,56",
            "1.234,56",
            "1.234.567",
            "1'234",
            "1\u{202f}234",
            "12,34",
            "1,2345",
            "0,123.5",
        ] {
            let e = number(text).unwrap_err();
            assert!(e.to_string().contains(text) && e.to_string().contains("LC_ALL=C"), "{e}");
            assert!(count(text).is_err(), "{text}");
        }
        let e = number("5,318 [sec]").unwrap_err().to_string();
        assert!(e.contains("'5,318' may mean 5318 or 5.318"), "{e}");
        let e = count("188.037 ops/sec").unwrap_err().to_string();
        assert!(e.contains("'188.037' may mean 188037 or 188.037"), "{e}");
    }

    #[test]
    fn texts_that_are_not_numbers_are_refused() {
        for word in [
            "nan", "-nan", "NaN", "inf", "Infinity", "1e999", "1x5", "1..2", "1m30s", "1_000", "1:1038",
            "1;5",
        ] {
            assert!(number(word).is_err() && whole(word).is_err(), "{word}");
        }
        for word in ["2003x", "1.2.3", "x", "", "7-8", "5,", "0x10"] {
            let e = whole(word).unwrap_err().to_string();
            assert!(e.contains(&format!("'{word}' is not a number")), "{e}");
        }
        assert_eq!((whole(" 2.5 ").unwrap(), whole("-1e3").unwrap()), (2.5, -1000.0));
    }
}
