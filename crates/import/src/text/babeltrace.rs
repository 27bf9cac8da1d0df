//! The text of babeltrace 1 and 2: `[10:12:00.009000000] (+0.001000000) box sched_waking: { cpu_id = 1 }, { comm =
//! "helper", tid = 300, prio = 20, target_cpu = 1 }`.
//!
//! Events and fields have the names of LTTng's kernel tracer. The waker is the thread that runs on the event's CPU, by
//! its switches, as for the folder that the text was made from. Times are times of the day, seconds (`--clock-seconds`)
//! or with a date (`--clock-date`); a time of the day that steps back by half a day belongs to the next day.

use crate::ctf::content::{Content, EventFields};
use crate::sched_record::{MAX_CPUS, TRACEPOINTS};
use crate::states::States;
use crate::{Importer, text};
use memchr::memmem;
use schedlab_base::{Error, Result};
use std::borrow::Cow;

const DAY_NS: u64 = 86_400 * 1_000_000_000;
const MOST_FIELDS: usize = 256;

/// Whether a line is an event of this form.
pub fn is_event(line: &[u8]) -> bool {
    head(line).is_some()
}

/// The head of a line: the time, and where the event's name and its fields begin.
struct Head<'a> {
    stamp: &'a [u8],
    name: &'a [u8],
    fields: &'a [u8],
}

fn head(line: &[u8]) -> Option<Head<'_>> {
    let line = line.trim_ascii();
    let inner = line.strip_prefix(b"[")?;
    let (stamp, rest) = inner.split_at(memchr::memchr(b']', inner)?);
    let mut rest = rest[1..].trim_ascii_start();
    if let Some(delta) = rest.strip_prefix(b"(+") {
        rest = delta[memchr::memchr(b')', delta)? + 1..].trim_ascii_start();
    }
    let (before, fields) = rest.split_at(memmem::find(rest, b": {")?);
    let name = before.rsplit(|b| *b == b' ').next()?;
    // LTTng's packets give the CPU. A text printed without field names can't be read.
    (!name.is_empty() && memmem::find(fields, b"cpu_id = ").is_some()).then_some(Head {
        stamp,
        name,
        fields: &fields[2..],
    })
}

/// The fields of one event; inner ones next to outer ones.
struct FieldList<'a>(Vec<(&'a [u8], Field<'a>)>);

enum Field<'a> {
    Number(i64),
    Text(Cow<'a, [u8]>),
}

impl EventFields for FieldList<'_> {
    fn number(&self, name: &str) -> Option<i64> {
        self.0.iter().rev().find_map(|(key, value)| match value {
            Field::Number(n) if *key == name.as_bytes() => Some(*n),
            _ => None,
        })
    }
    fn text(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().rev().find_map(|(key, value)| match value {
            Field::Text(text) if *key == name.as_bytes() => Some(&**text),
            _ => None,
        })
    }
}

/// `{ cpu_id = 1 }, { prev_comm = "a b", prev_state = ( "TASK_RUNNING" : container = 0 ), ... }`; `None` where a text
/// does not end.
fn fields(text: &[u8]) -> Option<FieldList<'_>> {
    let mut all = Vec::new();
    let mut key = &b""[..];
    let mut rest = text;
    while let Some(first) = rest.first() {
        match first {
            b'"' => {
                let (value, taken) = quoted(rest)?;
                all.push((key, Field::Text(value)));
                rest = &rest[taken..];
            }
            b' ' | b',' | b'{' | b'}' | b'(' | b')' | b'[' | b']' | b'=' | b':' | b'|' => rest = &rest[1..],
            _ => {
                let is_end = |b: &u8| b" ,{}()[]\"".contains(b);
                let word = &rest[..rest.iter().position(is_end).unwrap_or(rest.len()).max(1)];
                rest = &rest[word.len()..];
                match number(word) {
                    Some(n) => all.push((key, Field::Number(n))),
                    // The number in `prev_state = ( "TASK_RUNNING" : container = 0 )` is stored under the outer name.
                    None if word == b"container" || word.starts_with(b"<") => {}
                    None => key = word,
                }
            }
        }
        if all.len() > MOST_FIELDS {
            return None;
        }
    }
    Some(FieldList(all))
}

/// A text in quotes, with a backslash before quotes and backslashes, and its length with them.
fn quoted(text: &[u8]) -> Option<(Cow<'_, [u8]>, usize)> {
    let mut at = 1;
    let mut escaped = false;
    loop {
        match text.get(at)? {
            b'\\' => {
                escaped = true;
                at += 2;
            }
            b'"' => break,
            _ => at += 1,
        }
    }
    let inner = &text[1..at];
    if !escaped {
        return Some((Cow::Borrowed(inner), at + 1));
    }
    let mut plain = Vec::with_capacity(inner.len());
    let mut bytes = inner.iter();
    while let Some(b) = bytes.next() {
        plain.push(if *b == b'\\' { *bytes.next()? } else { *b });
    }
    Some((Cow::Owned(plain), at + 1))
}

fn number(word: &[u8]) -> Option<i64> {
    let word = std::str::from_utf8(word).ok()?;
    match word.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(|n| n as i64),
        None => word.parse().ok().or_else(|| word.parse::<u64>().ok().map(|n| n as i64)),
    }
}

/// Reads `10:12:00.009000000`, `2026-11-28 10:12:00.009` or `1795907291.25` as ns; also whether it is a time of the
/// day.
fn time(stamp: &[u8]) -> Option<(u64, bool)> {
    let stamp = std::str::from_utf8(stamp).ok()?.trim();
    let (date, clock) = stamp.split_once(' ').map_or((None, stamp), |(date, clock)| (Some(date), clock));
    let (whole, fraction) = clock.split_once('.')?;
    if fraction.is_empty() || fraction.len() > 9 || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let fraction_ns = fraction.parse::<u64>().ok()? * 10_u64.pow(9 - fraction.len() as u32);
    let mut parts = whole.split(':').map(|part| part.parse::<u64>().ok());
    let (seconds, of_day) = match (parts.next()??, parts.next(), parts.next(), parts.next()) {
        (seconds, None, ..) => (seconds, false),
        (hours, Some(minutes), Some(seconds), None) => {
            (hours.checked_mul(3600)?.checked_add(minutes?.checked_mul(60)?)?.checked_add(seconds?)?, true)
        }
        _ => return None,
    };
    let days = date.map_or(Some(0), days)?;
    let seconds = seconds.checked_add(days.checked_mul(86_400)?)?;
    Some((seconds.checked_mul(1_000_000_000)?.checked_add(fraction_ns)?, of_day && date.is_none()))
}

/// Days from 1970-01-01 to `2026-11-28`. Proleptic Gregorian calendar; years are counted from March.
fn days(date: &str) -> Option<u64> {
    let mut parts = date.splitn(3, '-').map(|part| part.parse::<u64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    if !(1..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day;
    days.checked_sub(719_469)
}

/// Reads lines and gives the importer their events.
pub struct Reader {
    content: Content,
    /// The time of the last event, and the days to add to times of the day, ns.
    last_ns: u64,
    days_ns: u64,
    /// Number of events that are not the scheduler's.
    pub others: u64,
}

impl Reader {
    pub fn new(states: States) -> Reader {
        Reader { content: Content::new(states), last_ns: 0, days_ns: 0, others: 0 }
    }

    /// Reads a line; `at` is its number. `is_last`: the line has no newline, so a part may be missing.
    pub fn line(&mut self, line: &[u8], at: u64, is_last: bool, importer: &mut Importer<'_>) {
        if is_last && !line.trim_ascii_end().ends_with(b"}") {
            importer.losses.cut |= !line.trim_ascii().is_empty();
            return;
        }
        let Some(head) = head(line) else {
            if let Some(n) = lost(line) {
                text::note(&mut importer.losses, n);
            }
            return;
        };
        let Ok(name) = std::str::from_utf8(head.name) else { return importer.losses.unreadable(at) };
        if !TRACEPOINTS.contains(&name) {
            self.others += 1;
            return;
        }
        let cpu = |f: &FieldList<'_>| u32::try_from(f.number("cpu_id")?).ok().filter(|cpu| *cpu < MAX_CPUS);
        let read = fields(head.fields).and_then(|f| Some((cpu(&f)?, f)));
        let Some(((cpu, fields), (at_ns, of_day))) = read.zip(time(head.stamp)) else {
            return importer.losses.unreadable(at);
        };
        if of_day && at_ns.saturating_add(self.days_ns + DAY_NS / 2) < self.last_ns {
            self.days_ns += DAY_NS;
        }
        let at_ns = at_ns.saturating_add(if of_day { self.days_ns } else { 0 });
        self.last_ns = at_ns;
        self.content.give(name, &fields, (at_ns, cpu), importer);
    }

    /// The error for a text without events of the scheduler.
    pub fn none(&self) -> Error {
        Error::input(format!(
            "the text has {}, and none of the scheduler",
            schedlab_base::counted(self.others, "event")
        ))
        .help("lttng enable-event --kernel 'sched_*', then babeltrace2 FOLDER; or name the trace's folder itself")
    }
}

/// `Tracer discarded 12 events between ...`, which babeltrace prints between events.
fn lost(line: &[u8]) -> Option<u64> {
    let at = memmem::find(line, b"racer discarded ")?;
    text::number_at(&line[at + 16..])
}

/// Checks the result of a whole text.
///
/// # Errors
/// When it has no events of the scheduler.
pub fn check(reader: &Reader, records: u64, unreadable: u64) -> Result<()> {
    match (records, unreadable) {
        (0, 0) => Err(reader.none()),
        (0, line) => Err(Error::input(format!(
            "line {line} is an event of the scheduler that can't be read"
        ))
        .help("babeltrace2 FOLDER without options prints what is known; or name the trace's folder itself")),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_days_seconds_or_dates() {
        let second = 1_000_000_000;
        assert_eq!(time(b"10:12:00.009000000"), Some((36_720 * second + 9_000_000, true)));
        assert_eq!(time(b"1795907291.25"), Some((1_795_907_291_250_000_000, false)));
        let of = |text: &[u8]| time(text).unwrap().0;
        assert_eq!((of(b"1970-01-01 00:00:01.0"), time(b"1969-12-31 00:00:00.0")), (second, None));
        assert_eq!(of(b"2026-03-01 00:00:00.0") - of(b"2026-02-28 23:59:59.5"), second / 2);
        assert_eq!(of(b"2024-03-01 00:00:00.0") - of(b"2024-02-28 00:00:00.0"), 2 * DAY_NS);
        for wrong in
            [&b""[..], b"12", b"1:2.3", b"a:b:c.1", b"1:2:3:4.5", b"2026-13-01 1:2:3.4", b"1.1234567890"]
        {
            assert_eq!(time(wrong), None, "{}", String::from_utf8_lossy(wrong));
        }
    }

    #[test]
    fn fields_have_names_texts_and_numbers_of_enumerations() {
        let all = fields(
            br#"{ cpu_id = 3 }, { c = "a \"b\", x = 1", s = ( "A" | "B" : container = 2 ), n = -20, h = 0x1F, u = ( <unknown> : container = 7 ) }"#,
        )
        .unwrap();
        let numbers = ["cpu_id", "s", "n", "h", "u", "x"].map(|name| all.number(name));
        assert_eq!(numbers, [Some(3), Some(2), Some(-20), Some(31), Some(7), None]);
        assert_eq!(all.text("c"), Some(&b"a \"b\", x = 1"[..]));
        assert!(fields(b"{ c = \"never ends").is_none());
    }
}
