//! Reads `perf stat`: its text (also with `-r N`), its fields (`-x,` or `-x;`) and its JSON (`-j`). Every report in a
//! file is a run.
//!
//! Times are in ns, other values as perf counts them. Events that were not counted are left out. With `-r` perf prints
//! means, so a report counts as one run, regardless of the number of runs in it.

use super::text::{count, missing, number, scaled};
use super::tool::{FigureRow, FigureValues, PERF, Reading, Tool};
use schedlab_base::{Error, Result};
use schedlab_record::Better::{Higher, Lower, Neither};
use serde_json::Value;
use std::collections::BTreeSet;

pub const TOOL: Tool = Tool {
    name: "perf-stat",
    about: "counters of a command; args = \"COMMAND\"",
    before: &["stat"],
    figures: &[
        FigureRow("elapsed", "ns", Lower, "time from start to end"),
        FigureRow("user", "ns", Lower, "CPU time in user mode"),
        FigureRow("system", "ns", Lower, "CPU time in the kernel"),
        FigureRow("task-clock", "ns", Lower, "CPU time of the command's tasks"),
        FigureRow("task-clock:<modifiers>", "ns", Lower, "the same, under the modifiers that were asked for"),
        FigureRow("cpu-clock", "ns", Neither, "time of the CPUs that were watched"),
        FigureRow(
            "cpu-clock:<modifiers>",
            "ns",
            Neither,
            "the same, under the modifiers that were asked for",
        ),
        FigureRow("cpus_used", "", Neither, "CPU time over elapsed time"),
        FigureRow("insn_per_cycle", "", Higher, "instructions over cycles"),
        FigureRow("<event>", "", Neither, "an event as perf names it"),
    ],
    headline: &["elapsed", "task-clock", "context-switches", "cpu-migrations", "cycles", "instructions"],
    knows: |text| head(text).is_some() || is_interval_text(text) || is_table(text) || is_reports(text),
    read,
    ..PERF
};

/// The words before the command in the head of a text.
const HEAD: &str = "Performance counter stats for";

fn read(text: &str) -> Result<Vec<Reading>> {
    if head(text).is_some() {
        return texts(text);
    }
    if is_interval_text(text) {
        return Err(no_run(text));
    }
    // With `-o` a comment with the date is above the reports.
    if is_reports(text) {
        return reports(text);
    }
    table(text)
}

/// The lines that are not comments.
fn data(text: &str) -> impl Iterator<Item = &str> {
    text.lines().map(str::trim).filter(|l| !l.is_empty() && !l.starts_with('#'))
}

/// Whether a text was printed with `-I`: its head is "# time counts unit events".
fn is_interval_text(text: &str) -> bool {
    let head = text.lines().find(|l| l.trim_start().starts_with('#') && l.contains("counts"));
    head.is_some_and(|l| {
        l.split(['#', ' ']).filter(|w| !w.is_empty()).eq(["time", "counts", "unit", "events"])
    })
}

/// Whether a text's first line has the fields of `-x`, even after those of `-I` and `-A`.
fn is_table(text: &str) -> bool {
    data(text).next().is_some_and(|line| event_at(&split(line)).is_some())
}

fn is_reports(text: &str) -> bool {
    data(text).next().is_some_and(|l| l.starts_with('{') && l.contains("\"counter-value\""))
}

fn head(text: &str) -> Option<&str> {
    text.lines().find(|l| l.trim_start().starts_with(HEAD))
}

/// The reports in perf's plain text.
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
            reading.values.extend(line_of_text(line)?);
        }
    }
    non_empty(all)
}

/// Reads a line: a time, or a count with its unit, its event, and derived values.
fn line_of_text(line: &str) -> Result<Vec<(String, f64)>> {
    for (end, name) in
        [("seconds time elapsed", "elapsed"), ("seconds user", "user"), ("seconds sys", "system")]
    {
        if line.contains(end) {
            let seconds = number(line).map_err(|_| other_locale(line))?;
            return Ok(seconds.map(|v| (name.to_owned(), scaled(v, 1e9))).into_iter().collect());
        }
    }
    let (counted, derived) = line.split_once('#').unwrap_or((line, ""));
    let counted = counted.split_once('(').map_or(counted, |(before, _)| before);
    let words: Vec<&str> = counted.split_whitespace().collect();
    // Some locales put a space between thousands.
    if let [value, next, ..] = words[..]
        && is_count(value)
        && is_count(next)
    {
        return Err(other_locale(line));
    }
    let (value, unit, event) = match words[..] {
        [cpu, value, ..] if is_cpu(cpu) && is_count(value) => return Err(no_run(line)),
        [value, event] => (value, "", event),
        [value, unit, event] => (value, unit, event),
        _ => return Ok(Vec::new()),
    };
    let derived = derived.trim();
    let unit_of_derived = derived.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').trim_start();
    figures(value, unit, event, derived, unit_of_derived).map_err(|_| other_locale(line))
}

/// Whether a word is a place of `-A`: "CPU0", "S0-D0-C1".
fn is_cpu(word: &str) -> bool {
    let digits = |s: &str| s.starts_with(|c: char| c.is_ascii_digit());
    word.strip_prefix("CPU").is_some_and(digits)
        || word.strip_prefix('S').is_some_and(|r| digits(r) && r.contains("-D"))
}

/// Whether a word consists of digits and separators only.
fn is_count(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || ",.".contains(c))
}

fn other_locale(line: &str) -> Error {
    Error::input(format!(
        "no result of perf stat: the number of '{line}' is written in the way of another locale"
    ))
    .help("save it under LC_ALL=C")
}

/// The figures of one event: its count, and the useful ones of its derived values.
///
/// # Errors
/// When a number is not written as under `LC_ALL=C`.
fn figures(value: &str, unit: &str, event: &str, derived: &str, of: &str) -> Result<Vec<(String, f64)>> {
    let mut all = Vec::new();
    let good_name =
        !event.is_empty() && !event.contains(char::is_whitespace) && !event.contains(char::is_control);
    // "<not counted>" and words of sentences are not numbers. A value with a unit has decimals.
    let whole = value.starts_with(|c: char| c.is_ascii_digit() || "+-".contains(c));
    let counted = match (whole, unit) {
        (false, _) => None,
        (true, "") => count(value)?,
        (true, _) => number(value)?,
    };
    if let Some(v) = counted.filter(|_| good_name) {
        let factor = match unit {
            "msec" => 1e6,
            "usec" => 1e3,
            "sec" => 1e9,
            _ => 1.0,
        };
        all.push((event.to_owned(), scaled(v, factor)));
    }
    // perf 7.x names them "CPUs CPUs_utilized" and "instructions insn_per_cycle".
    let name = if of.starts_with("CPUs utilized") || of.contains("CPUs_utilized") {
        "cpus_used"
    } else if of.starts_with("insn per cycle") || of.contains("insn_per_cycle") {
        "insn_per_cycle"
    } else {
        return Ok(all);
    };
    if whole && derived.starts_with(|c: char| c.is_ascii_digit()) {
        all.extend(number(derived)?.map(|v| (name.to_owned(), v)));
    }
    Ok(all)
}

/// The fields of a line of `-x`. With `;` they may contain a locale's decimal commas.
fn split(line: &str) -> Vec<&str> {
    let semicolons = line.matches(';').count() > 3;
    line.split(if semicolons { ';' } else { ',' }).map(str::trim).collect()
}

/// The index of the event's field. Value and unit stand before it; after it, with `-r`, a spread, then the time counted
/// and the share counted. Fields of `-I` and `-A` stand before the value.
fn event_at(fields: &[&str]) -> Option<usize> {
    let counted = |f: &str| f.starts_with('<') || is_count(f);
    let word = |f: &str| f.starts_with(|c: char| c.is_alphabetic());
    (2..5).find(|at| {
        let (Some(event), Some(rest)) = (fields.get(*at), fields.get(at + 1..)) else { return false };
        let rest = if rest.first().is_some_and(|f| f.ends_with('%')) { &rest[1..] } else { rest };
        let unit = fields[at - 1];
        let before = counted(fields[at - 2]) && (unit.is_empty() || word(unit) || unit == "%");
        before && word(event) && rest.len() >= 2 && rest[..2].iter().all(|f| counted(f))
    })
}

/// The reports in lines of fields: value, unit, event, with `-r` a spread, time counted, share counted, and a derived
/// value with its unit.
fn table(text: &str) -> Result<Vec<Reading>> {
    let mut reports = Reports::default();
    for line in data(text) {
        let fields = split(line);
        match event_at(&fields) {
            // A line with only a derived value has no event.
            None if matches!(fields[..], ["", "", "", ..]) && fields.len() > 5 => {}
            Some(2) => {}
            _ => return Err(no_run(line)),
        }
        let spread = fields[3].ends_with('%');
        let (derived, of) = match fields[..] {
            [.., derived, of] if fields.len() > 5 => (derived, of),
            _ => ("", ""),
        };
        let values = figures(fields[0], fields[1], fields[2], derived, of);
        reports.add(fields[2], spread, values.map_err(|_| other_locale(line))?);
    }
    non_empty(reports.all)
}

fn no_run(line: &str) -> Error {
    let shown: String = line.trim().lines().next().unwrap_or_default().chars().take(60).collect();
    Error::input(format!("no result of perf stat: '{shown}' is not value, unit, event, time and share"))
        .help("output per CPU (-A) or by interval (-I) is not the result of a run; save it without these")
}

/// The reports in lines of JSON, one line for each event.
fn reports(text: &str) -> Result<Vec<Reading>> {
    let mut reports = Reports::default();
    for line in text.lines().map(str::trim).filter(|l| l.starts_with('{')) {
        let event: Value = serde_json::from_str(line).map_err(|e| {
            Error::input(format!("no result of perf stat: a line of its JSON is not whole: {e}"))
        })?;
        let word = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
        // A number; 7.x prints it as text, which may be "nan".
        let number = |key: &str| match event.get(key) {
            Some(Value::String(text)) => text.clone(),
            value => value.and_then(Value::as_f64).map_or(String::new(), |v| v.to_string()),
        };
        let Some(value) = event.get("counter-value").and_then(Value::as_str) else { continue };
        if event.get("interval").is_some() || event.get("cpu").is_some() {
            return Err(no_run(line));
        }
        let values =
            figures(value, word("unit"), word("event"), &number("metric-value"), word("metric-unit"));
        let values = values.map_err(|_| other_locale(line))?;
        reports.add(word("event"), event.get("variance").is_some(), values);
    }
    non_empty(reports.all)
}

/// Collects reports while their events are read.
#[derive(Default)]
struct Reports {
    all: Vec<Reading>,
    /// The events of the last report, counted or not.
    seen: BTreeSet<String>,
}

impl Reports {
    /// Adds an event to the last report, or to a new one if the last has it already. A line with only a derived value
    /// has no event.
    fn add(&mut self, event: &str, spread: bool, values: Vec<(String, f64)>) {
        let again = !event.is_empty() && !self.seen.insert(event.to_owned());
        if again || self.all.is_empty() {
            let means = spread.then(|| "several runs".to_owned());
            self.all.push(Reading { means, ..Reading::default() });
            self.seen = [event.to_owned()].into();
        }
        if let Some(reading) = self.all.last_mut() {
            if spread && reading.means.is_none() {
                reading.means = Some("several runs".to_owned());
            }
            reading.values.extend(values);
        }
    }
}

fn non_empty(mut all: Vec<Reading>) -> Result<Vec<Reading>> {
    all.retain(|r| r.values != FigureValues::new());
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
    fn separators_and_shares_are_not_part_of_a_count() {
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
    fn an_uncounted_event_still_belongs_to_its_report() {
        let csv = "<not counted>,,cycles,0,0.00,,\n5,,faults,100,100.00,,\n70,,cycles,100,100.00,,\n6,,faults,1,100.00,,\n";
        let json = |value: &str, event: &str| {
            format!("{{\"counter-value\" : \"{value}\", \"unit\" : \"\", \"event\" : \"{event}\"}}\n")
        };
        let lines = [("<not counted>", "cycles"), ("5", "faults"), ("70", "cycles"), ("6", "faults")];
        let json: String = lines.map(|(value, event)| json(value, event)).concat();
        for text in [csv, &json] {
            let all = read(text).unwrap();
            let counts: Vec<_> = all.iter().map(|r| (r.values.get("cycles"), r.values["faults"])).collect();
            assert_eq!(counts, [(None, 5.0), (Some(&70.0), 6.0)], "{text}");
        }
    }

    #[test]
    fn numbers_of_another_locale_are_refused_with_the_line() {
        let head = "Performance counter stats for 'x':\n";
        for line in [
            "0,012345678 seconds time elapsed",
            "1.234,56 msec task-clock",
            "12,34 msec task-clock",
            "1.234.567 cycles",
            "1\u{202f}234 cycles",
            "0,5 +- 0,01 seconds time elapsed",
        ] {
            let e = read(&format!("{head} {line}\n")).unwrap_err();
            let said = format!("{e} {:?}", e);
            assert!(said.contains("LC_ALL=C"), "{said}");
            assert!(e.to_string().contains(line), "{e}");
        }
        let good =
            one(&format!("{head} 1,234.56 msec task-clock\n 1234567 cycles\n 0.012 seconds time elapsed\n"));
        assert_eq!(
            (good.values["task-clock"], good.values["cycles"], good.values["elapsed"]),
            (1_234_560_000.0, 1_234_567.0, 12e6)
        );
    }

    #[test]
    fn perf_7_names_derived_values_differently() {
        let text = |cpus: &str| {
            format!(
                " Performance counter stats for 'x' (3 runs):\n\n  240.93 msec task-clock  #  {cpus} CPUs  CPUs_utilized  \
                 ( +- 10.33% )\n  9  instructions  #  0.5 instructions  insn_per_cycle\n"
            )
        };
        let json = |cpus: &str| {
            format!(
                "# started on Sun Nov 29 12:49:14 2026\n\n{{\"counter-value\" : \"240.93\", \"unit\" : \"msec\", \
                 \"event\" : \"task-clock\", \"metric-value\" : {cpus}, \"metric-unit\" : \"CPUs  CPUs_utilized\"}}\n"
            )
        };
        assert_eq!(
            (one(&text("1.5")).values["cpus_used"], one(&text("1.5")).values["insn_per_cycle"]),
            (1.5, 0.5)
        );
        assert_eq!(
            (one(&json("\"1.5\"")).values["cpus_used"], one(&json("1.5")).values["cpus_used"]),
            (1.5, 1.5)
        );
        for nan in [text("nan"), json("\"nan\"")] {
            assert_eq!(
                (one(&nan).values.get("cpus_used"), one(&nan).values["task-clock"]),
                (None, 240_930_000.0)
            );
        }
    }

    #[test]
    fn texts_without_a_run_are_refused_with_the_reason() {
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
