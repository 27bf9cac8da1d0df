//! `perf stat`: its text, with `-r N` too, its fields (`-x,` or `-x;`) and its JSON (`-j`). Every report in a file is a run.
//!
//! Times are in ns, all else as perf counts it; events that were not counted are left out. With `-r` perf prints means, so
//! that a report is one run however many it is made of.

use super::text::{missing, number, scaled};
use super::{Reading, Row, Tool, Values};
use schedlab_base::{Error, Result};
use schedlab_record::Better::{Higher, Lower, Neither};
use serde_json::Value;

/// The row.
pub const TOOL: Tool = Tool {
    name: "perf-stat",
    about: "counters of a command; args = \"COMMAND\"",
    program: "perf",
    package: "linux-perf",
    before: &["stat"],
    load: &[],
    after: &[],
    load_about: "",
    default_load: "",
    server: &[],
    figures: &[
        Row("elapsed", "ns", Lower, "time from start to end"),
        Row("user", "ns", Lower, "CPU time in user mode"),
        Row("system", "ns", Lower, "CPU time in the kernel"),
        Row("task-clock", "ns", Lower, "CPU time of the command's tasks"),
        Row("task-clock:<modifiers>", "ns", Lower, "the same, under the modifiers that were asked for"),
        Row("cpu-clock", "ns", Neither, "time of the CPUs that were watched"),
        Row("cpu-clock:<modifiers>", "ns", Neither, "the same, under the modifiers that were asked for"),
        Row("cpus_used", "", Neither, "CPU time over elapsed time"),
        Row("insn_per_cycle", "", Higher, "instructions over cycles"),
        Row("<event>", "", Neither, "an event as perf names it"),
    ],
    headline: &["elapsed", "task-clock", "context-switches", "cpu-migrations", "cycles", "instructions"],
    knows: |text| head(text).is_some() || table(text).is_ok() || reports(text).is_ok_and(|r| !r.is_empty()),
    read,
};

/// Before the command in a text's head.
const HEAD: &str = "Performance counter stats for";

fn read(text: &str) -> Result<Vec<Reading>> {
    if head(text).is_some() {
        return texts(text);
    }
    if text.trim_start().starts_with('{') {
        return reports(text);
    }
    table(text)
}

fn head(text: &str) -> Option<&str> {
    text.lines().find(|l| l.trim_start().starts_with(HEAD))
}

/// The reports in a text for people.
fn texts(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    for line in text.lines().map(str::trim) {
        if let Some(rest) = line.strip_prefix(HEAD) {
            let rest = rest.trim().trim_end_matches(':');
            let (what, runs) =
                match rest.rsplit_once(" (").map(|(what, runs)| (what, runs.trim_end_matches(')'))) {
                    Some((what, runs)) if runs.ends_with(" runs") => (what, Some(runs.to_owned())),
                    _ => (rest, None),
                };
            let load = what.trim_matches('\'').replace(char::is_control, " ");
            all.push(Reading {
                load: Some(load).filter(|l| !l.is_empty()),
                means: runs,
                ..Reading::default()
            });
        } else if let Some(reading) = all.last_mut() {
            reading.values.extend(line_of_text(line));
        }
    }
    some(all)
}

/// A line: a time, or a count with its unit, its event, and what perf derives from it.
fn line_of_text(line: &str) -> Vec<(String, f64)> {
    for (end, name) in
        [("seconds time elapsed", "elapsed"), ("seconds user", "user"), ("seconds sys", "system")]
    {
        if line.contains(end) {
            return number(line).map(|v| (name.to_owned(), scaled(v, 1e9))).into_iter().collect();
        }
    }
    let (counted, derived) = line.split_once('#').unwrap_or((line, ""));
    let counted = counted.split_once('(').map_or(counted, |(before, _)| before);
    let words: Vec<&str> = counted.split_whitespace().collect();
    let (value, unit, event) = match words[..] {
        [value, event] => (value, "", event),
        [value, unit, event] => (value, unit, event),
        _ => return Vec::new(),
    };
    let derived = derived.trim();
    let unit_of_derived = derived.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    let unit_of_derived = unit_of_derived.split_once("  ").map_or(unit_of_derived, |(unit, _)| unit);
    figures(value, unit, event, derived, unit_of_derived)
}

/// What one event says: its count, and of what is derived from it that which is of use.
fn figures(value: &str, unit: &str, event: &str, derived: &str, of: &str) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    let plain = value.replace(',', "");
    let whole = !plain.is_empty() && plain.chars().all(|c| c.is_ascii_digit() || ".+-e".contains(c));
    let good_name =
        !event.is_empty() && !event.contains(char::is_whitespace) && !event.contains(char::is_control);
    if let Some(v) = number(&plain).filter(|_| whole && good_name) {
        let factor = match unit {
            "msec" => 1e6,
            "usec" => 1e3,
            "sec" => 1e9,
            _ => 1.0,
        };
        all.push((event.to_owned(), scaled(v, factor)));
    }
    let name = if of.starts_with("CPUs utilized") {
        "cpus_used"
    } else if of.starts_with("insn per cycle") {
        "insn_per_cycle"
    } else {
        return all;
    };
    all.extend(number(derived).filter(|_| whole).map(|v| (name.to_owned(), v)));
    all
}

/// The reports in lines of fields: value, unit, event, with `-r` a spread, time counted, share counted, and a derived value
/// with its unit.
fn table(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let lines = text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'));
    for line in lines {
        let separator = if line.contains(';') && !line.contains(',') { ';' } else { ',' };
        let fields: Vec<&str> = line.split(separator).collect();
        let counted = |f: &str| f.starts_with('<') || f.is_empty() || f.parse::<f64>().is_ok();
        let [value, unit, event, rest @ ..] = &fields[..] else { return Err(no_table(line)) };
        let spread = rest.first().is_some_and(|f| f.ends_with('%'));
        let times = if spread { &rest[1..] } else { rest };
        if !counted(value) || times.len() < 2 || !times[..2].iter().all(|f| counted(f)) {
            return Err(no_table(line));
        }
        let (derived, of) = match fields[..] {
            [.., derived, of] if fields.len() > 5 => (derived, of),
            _ => ("", ""),
        };
        add(&mut all, event, spread, figures(value, unit, event, derived, of));
    }
    some(all)
}

fn no_table(line: &str) -> Error {
    let shown: String = line.chars().take(60).collect();
    Error::input(format!("no result of perf stat: '{shown}' is not value, unit, event, time and share"))
        .help("per CPU (-A) and by interval (-I) it is no result of a run; save it without these")
}

/// The reports in lines of JSON, one for each event.
fn reports(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    for line in text.lines().map(str::trim).filter(|l| l.starts_with('{')) {
        let event: Value = serde_json::from_str(line).map_err(|e| {
            Error::input(format!("no result of perf stat: a line of its JSON is not whole: {e}"))
        })?;
        let word = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        let number =
            |key: &str| event.get(key).and_then(Value::as_f64).map_or(String::new(), |v| v.to_string());
        let Some(value) = event.get("counter-value").and_then(Value::as_str) else { continue };
        if event.get("interval").is_some() || event.get("cpu").is_some() {
            return Err(no_table(line));
        }
        let values =
            figures(value, word("unit"), word("event"), &number("metric-value"), word("metric-unit"));
        add(&mut all, word("event"), event.get("variance").is_some(), values);
    }
    some(all)
}

/// Adds an event to the last report, or to a new one when that has it.
fn add(all: &mut Vec<Reading>, event: &str, spread: bool, values: Vec<(String, f64)>) {
    if all.last().is_none_or(|r: &Reading| r.values.contains_key(event)) {
        let means = spread.then(|| "several runs".to_owned());
        all.push(Reading { means, ..Reading::default() });
    }
    if let Some(reading) = all.last_mut() {
        reading.values.extend(values);
    }
}

fn some(mut all: Vec<Reading>) -> Result<Vec<Reading>> {
    all.retain(|r| r.values != Values::new());
    if all.is_empty() { Err(missing("perf stat", "event that was counted")) } else { Ok(all) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> Reading {
        let all = read(text).unwrap();
        assert_eq!(all.len(), 1, "{all:?}");
        all[0].clone()
    }

    #[test]
    fn separators_of_thousands_and_shares_are_no_part_of_a_count() {
        let text = " Performance counter stats for 'x y':\n\n   1,234,567      cycles:u    #    0.5 GHz    (33.3%)\n\
                    \x20  617,283  instructions:u  #  0.50  insn per cycle  (66.7%)\n   <not counted>  branches\n";
        let r = one(text);
        assert_eq!((r.load.as_deref(), r.means), (Some("x y"), None));
        let want = [("cycles:u", 1_234_567.0), ("insn_per_cycle", 0.5), ("instructions:u", 617_283.0)];
        assert_eq!(r.values, want.map(|(n, v)| (n.to_owned(), v)).into());
    }

    #[test]
    fn every_report_of_a_file_is_a_run() {
        let csv =
            "10,,context-switches,100,100.00,,\n5,,faults,100,100.00,,\n12,,context-switches,100,100.00,,\n";
        let all = read(csv).unwrap();
        assert_eq!(all.iter().map(|r| r.values["context-switches"]).collect::<Vec<_>>(), [10.0, 12.0]);
        assert_eq!((all[0].values.len(), all[1].values.len()), (2, 1));
    }

    #[test]
    fn what_is_no_run_is_refused_with_the_reason() {
        for text in [
            "CPU0,36,,context-switches,59568286,100.00,,\n",
            "0.10,0.47,msec,task-clock,1,100.00,,\n",
            "{\"interval\" : 0.1, \"counter-value\" : \"1.0\", \"unit\" : \"\", \"event\" : \"faults\"}\n",
        ] {
            let e = read(text).unwrap_err().to_string();
            assert!(e.contains("-A") && e.contains("-I"), "{e}");
        }
    }
}
