//! The changes in a history: as text of at most 78 columns that fits a mail, as Markdown, and as JUnit XML.

use crate::html::escape::escape;
use crate::markdown::plain;
use crate::number::{percent, signed, value};
use crate::short;
use crate::text::wrap;
use schedlab_base::{counted, one_or};
use schedlab_compare::history::{At, Cause, Change, Judged, MachineChange, Series};
use schedlab_compare::stats::Verdict;
use schedlab_compare::stats::course::FEWEST_DAYS;
use schedlab_workload::command::one_line;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// Writes the changes, the newest first, and what the reader must know.
pub fn table(j: &Judged, out: &mut dyn Write) -> io::Result<()> {
    write!(out, "{}", wrap("", &heading(j)))?;
    for c in &j.changes {
        let head = format!("\n{} {}: ", c.verdict.mark(), word(c));
        write!(out, "{}", wrap(&head, &format!("{} {}", subject(c), size(c.change_pct, c.ci95_pct))))?;
        write!(out, "{}", wrap("  ", &when(c)))?;
        write!(out, "{}", wrap("  ", &machines(c)))?;
        if let Some(line) = bisection(c) {
            writeln!(out, "  {line}")?;
        }
    }
    for (at, d) in j.drifts.iter().enumerate() {
        let line = if at == 0 { "\n" } else { "" };
        let what = format!(
            "{} on {}: {} from {} to {}",
            named(&d.workload, &d.load, &d.metric),
            d.machine,
            percent(d.change_pct),
            at_words(&d.from),
            at_words(&d.to)
        );
        write!(out, "{}", wrap(&format!("{line}drift: "), &what))?;
    }
    writeln!(out)?;
    notes(j).iter().try_for_each(|note| write!(out, "{}", wrap("", note)))
}

/// Writes the same as Markdown.
pub fn markdown(j: &Judged, out: &mut dyn Write) -> io::Result<()> {
    writeln!(out, "{}\n", plain(&heading(j)))?;
    if !j.changes.is_empty() || !j.drifts.is_empty() {
        writeln!(out, "| verdict | metric | change | 95% interval | when | machines |")?;
        writeln!(out, "| --- | --- | ---: | ---: | --- | --- |")?;
    }
    let mut row = |fields: [String; 6]| writeln!(out, "| {} |", fields.map(|f| plain(&f)).join(" | "));
    let interval = |[low, high]: [f64; 2]| format!("{} to {}", signed(low), signed(high));
    for c in &j.changes {
        row([
            word(c).to_owned(),
            subject(c),
            percent(c.change_pct),
            interval(c.ci95_pct),
            when(c),
            machines(c),
        ])?;
    }
    for d in &j.drifts {
        let when = format!("{} to {}", at_words(&d.from), at_words(&d.to));
        let what = named(&d.workload, &d.load, &d.metric);
        row(["drift".to_owned(), what, percent(d.change_pct), String::new(), when, d.machine.clone()])?;
    }
    notes(j).iter().try_for_each(|note| writeln!(out, "\n{}", plain(note)))
}

/// Writes a suite for each machine, with a test for each series. Series with a verdict in `failing` fail; those with
/// too few units are skipped.
pub fn junit(j: &Judged, failing: &[Verdict], out: &mut dyn Write) -> io::Result<()> {
    let machines: BTreeSet<&str> = j.series.iter().map(|s| s.machine.as_str()).collect();
    let fails = |s: &Series| failing.contains(&s.verdict);
    let count = |all: &[&Series]| all.iter().filter(|s| fails(s)).count();
    let all: Vec<&Series> = j.series.iter().collect();
    writeln!(out, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>")?;
    writeln!(
        out,
        "<testsuites name=\"schedlab gate\" tests=\"{}\" failures=\"{}\" errors=\"0\">",
        all.len(),
        count(&all)
    )?;
    for machine in machines {
        let of: Vec<&Series> = all.iter().copied().filter(|s| s.machine == machine).collect();
        let name = escape(if machine.is_empty() { "history" } else { machine });
        let (tests, failures) = (of.len(), count(&of));
        writeln!(
            out,
            "  <testsuite name=\"{name}\" tests=\"{tests}\" failures=\"{failures}\" errors=\"0\">"
        )?;
        for s in of {
            let test = escape(&named(&s.workload, &s.load, &s.metric));
            let words = escape(&words_of(j, s));
            let inside = match s.verdict {
                v if failing.contains(&v) => {
                    format!("<failure type=\"{}\" message=\"{words}\">{words}</failure>", v.word())
                }
                Verdict::Unclear => format!("<skipped message=\"{words}\"/>"),
                _ => format!("<system-out>{words}</system-out>"),
            };
            writeln!(out, "    <testcase classname=\"{name}\" name=\"{test}\">{inside}</testcase>")?;
        }
        writeln!(out, "  </testsuite>")?;
    }
    writeln!(out, "</testsuites>")
}

/// The changes of a series.
pub(crate) fn changes_of<'a>(j: &'a Judged, s: &'a Series) -> impl Iterator<Item = &'a Change> {
    let is_of = |c: &&Change| {
        let on = |m: &MachineChange| m.machine == s.machine && m.shown;
        (&c.workload, &c.load, &c.metric) == (&s.workload, &s.load, &s.metric) && c.machines.iter().any(on)
    };
    j.changes.iter().filter(is_of)
}

/// A series in a line: its newest value and its changes.
pub(crate) fn words_of(j: &Judged, s: &Series) -> String {
    let last = s.units.last().map_or_else(String::new, |u| value(u.mean, &s.unit));
    let all: Vec<String> = changes_of(j, s).map(line).collect();
    match s.verdict {
        _ if !all.is_empty() => format!("{last}; {}", all.join("; ")),
        Verdict::Unclear => {
            format!("{last}; {} of the {FEWEST_DAYS} that show a change", units(s.units.len()))
        }
        _ => format!("{last}; no change"),
    }
}

/// A change in a line, for the error of `--fail-on`.
pub fn line(c: &Change) -> String {
    format!("{}: {} {}, {}", word(c), subject(c), size(c.change_pct, c.ci95_pct), when(c))
}

fn units(n: usize) -> String {
    counted(n, "day")
}

pub(crate) fn heading(j: &Judged) -> String {
    let machines: BTreeSet<&str> =
        j.series.iter().map(|s| s.machine.as_str()).filter(|m| !m.is_empty()).collect();
    let dates =
        || j.series.iter().flat_map(|s| &s.units).map(|u| u.at.date.as_str()).filter(|d| !d.is_empty());
    let span = match (dates().min(), dates().max()) {
        (Some(first), Some(last)) => format!(", {first} to {last}"),
        _ => String::new(),
    };
    let of = if machines.is_empty() {
        String::new()
    } else {
        format!(" of {}", counted(machines.len(), "machine"))
    };
    let changes = match j.changes.len() {
        0 => "No change".to_owned(),
        n => counted(n, "change"),
    };
    let since = j.since.as_ref().map_or_else(String::new, |date| format!(" shown since {date}"));
    let series = format!("{} series", j.series.len());
    format!("{changes}{since} in {series}{of}{span}.")
}

/// The workload, load and metric.
pub(crate) fn named(workload: &str, load: &str, metric: &str) -> String {
    let parts = [workload, load, short(metric, workload)];
    parts.iter().filter(|p| !p.is_empty()).copied().collect::<Vec<_>>().join(" ")
}

fn subject(c: &Change) -> String {
    named(&c.workload, &c.load, &c.metric)
}

pub(crate) fn size(pct: f64, [low, high]: [f64; 2]) -> String {
    format!("{} [{}, {}]", percent(pct), signed(low), signed(high))
}

/// The verdict, or the machine if it is the cause.
pub(crate) fn word(c: &Change) -> &'static str {
    if c.cause == Cause::Machine { "machine" } else { c.verdict.word() }
}

pub(crate) fn at_words(at: &At) -> String {
    match (at.date.as_str(), at.commit.as_str()) {
        (date, "") => date.to_owned(),
        ("", commit) => commit.to_owned(),
        (date, commit) => format!("{commit} ({date})"),
    }
}

/// The commits or days between which it lies, and the range of certainty.
pub(crate) fn when(c: &Change) -> String {
    let [low, high] = &c.range;
    let range = if low == high {
        String::new()
    } else {
        format!("; may be any from {} to {}", at_words(low), at_words(high))
    };
    let first = match c.cause {
        Cause::Machine => {
            format!("at {}, with the same commit before: the machine changed", at_words(&c.first))
        }
        _ => format!("between {} and {}", at_words(&c.before), at_words(&c.first)),
    };
    let seen = if c.seen.date.is_empty() { &c.seen.commit } else { &c.seen.date };
    format!("{first}{range}; beyond chance on {seen}")
}

/// The command that looks for the commit; the user fills in how it is built and measured.
fn bisection(c: &Change) -> Option<String> {
    let end = |option: &str, commit: &String| {
        // A word that begins with a hyphen would be another option.
        let between = if commit.starts_with('-') { '=' } else { ' ' };
        format!("{option}{between}{}", one_line(std::slice::from_ref(commit)))
    };
    let [good, bad] = c.bisect.as_ref()?;
    let (good, bad) = (end("--good", good), end("--bad", bad));
    Some(format!("schedlab bisect {good} {bad} --build 'make -j' -- COMMAND"))
}

/// On which machines.
pub(crate) fn machines(c: &Change) -> String {
    if let [one] = &c.machines[..] {
        let on = if one.machine.is_empty() { String::new() } else { format!("on {}, ", one.machine) };
        return format!("{on}{} before and {} after", units(one.units[0]), units(one.units[1]));
    }
    let one = |m: &MachineChange| {
        format!("{} {}{}", m.machine, percent(m.change_pct), if m.shown { "" } else { " (not shown alone)" })
    };
    let all: Vec<String> = c.machines.iter().map(one).collect();
    let between = c.between_machines_pct.map_or_else(String::new, |b| format!("; {b:.1}% between machines"));
    format!("{} on {} of {} machines: {}{between}", word(c), c.on, c.machines.len(), all.join(", "))
}

/// What the reader must know.
pub(crate) fn notes(j: &Judged) -> Vec<String> {
    let mut notes = vec![format!(
        "The chance of even one false alarm in a year is at most {:.0}%, over all series and however often one looks. \
         Changes below {}% are not reported.",
        100.0 * j.alpha,
        j.min_effect_pct
    )];
    if j.changes.iter().any(|c| c.machines.len() > 1) {
        let text = "Of several machines the size is the mean over machines, and its interval knows that they differ.";
        notes.push(text.to_owned());
    }
    if j.changes.iter().any(|c| bisection(c).is_some()) {
        let text = "Commits of a kernel are bisected with --metric NAME --load NAME instead of --build and a command.";
        notes.push(text.to_owned());
    }
    if !j.drifts.is_empty() {
        let text = "A drift moved without a day that can be named: the machine, or a change too small for its noise.";
        notes.push(text.to_owned());
    }
    let few = j.series.iter().filter(|s| s.units.len() < FEWEST_DAYS).count();
    if few > 0 {
        let has = one_or(few, "has", "have");
        notes.push(format!(
            "{few} series {has} fewer than {FEWEST_DAYS} days: no change can be shown there yet."
        ));
    }
    notes
}
