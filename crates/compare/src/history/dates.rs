//! Dates of a history: days as numbers, from text.

use schedlab_base::utc;

/// Digits of seconds since 1970 as text: from 1973 to 5138. Milliseconds and `202611301200` have more.
const DIGITS: std::ops::RangeInclusive<usize> = 9..=11;

/// The day, counted from 1970, and the text that orders units within the day. Reads `2026-11-30`, with a time behind a
/// blank or `T`, or seconds since 1970.
pub(super) fn day(text: &str) -> Option<(u64, String)> {
    if DIGITS.contains(&text.len()) && text.bytes().all(|b| b.is_ascii_digit()) {
        let s: u64 = text.parse().ok()?;
        return Some((s / 86_400, format!("{:05}", s % 86_400)));
    }
    let (date, rest) = (text.get(..10)?, text.get(10..)?);
    if !(rest.is_empty() || rest.starts_with(['T', ' '])) {
        return None;
    }
    let mut parts = date.split('-');
    let mut next = |digits: usize| {
        let part = parts.next()?;
        (part.len() == digits && part.bytes().all(|b| b.is_ascii_digit()))
            .then(|| part.parse::<u64>().ok())
            .flatten()
    };
    let (year, month, of_month) = (next(4)?, next(2)?, next(2)?);
    // Years are counted from March, so that the leap day is their last; 400 years have 146,097 days.
    let from_march = if month <= 2 { year.checked_sub(1)? } else { year };
    let months = if month <= 2 { month + 9 } else { month.checked_sub(3)? };
    let days = 365 * from_march + from_march / 4 - from_march / 100 + from_march / 400;
    let day = (days + (153 * months + 2) / 5 + of_month).checked_sub(719_469)?;
    (name(day) == date).then(|| (day, rest.to_owned()))
}

/// A day as "2026-11-30".
pub(super) fn name(day: u64) -> String {
    utc::minute(day * 86_400).split(' ').next().unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_read_back() {
        for day_of in [0, 59, 11_016, 20_787, 40_000] {
            assert_eq!(day(&name(day_of)), Some((day_of, String::new())));
        }
        assert_eq!(day("2026-12-01T06:30:00Z"), Some((20_788, "T06:30:00Z".into())));
        assert_eq!(day("1796083200").map(|d| d.0), Some(20_788));
        for wrong in [
            "2026-02-30",
            "2026-13-01",
            "2026-1-1",
            "01.12.2026",
            "yesterday",
            "",
            "2026-12-01x",
            "1969-12-31",
            "1796083200000",
            "202612010630",
        ] {
            assert_eq!(day(wrong), None, "{wrong}");
        }
    }
}
