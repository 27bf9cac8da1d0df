//! A comparison by verdict, losses first: one line for each change, with its interval. Unchanged metrics are counted.
//!
//! Within a verdict, workloads' own results come first, marked `>`, then larger changes. Changes are compared as
//! ratios, so that twice and half are equal. A row without a percentage (its baseline is 0) counts as the largest.

use crate::number::{change, signed, three};
use crate::text::{WIDTH, warnings, width, wrap};
use crate::{Exporter, legend, short};
use schedlab_base::counted;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{ComparisonRow, Stalled};
use schedlab_compare::stats::Verdict;
use std::collections::BTreeSet;
use std::io::{self, Write};

/// The mark of a workload's own result.
const OWN: char = '>';

pub struct Ranked;

/// The verdicts in the text's order, each with its heading.
const KINDS: &[(Verdict, &str)] = &[
    (Verdict::Worse, "Losses"),
    (Verdict::Better, "Gains"),
    (Verdict::Changed, "Changes that are neither"),
    (Verdict::Unclear, "Cannot tell"),
];

impl Exporter for Ranked {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        export(c, KINDS, out)
    }
}

impl Ranked {
    /// Writes the same, but only counts undecided rows.
    pub fn brief(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        export(c, &KINDS[..KINDS.len() - 1], out)
    }
}

fn export(c: &Comparison, kinds: &[(Verdict, &str)], out: &mut dyn Write) -> io::Result<()> {
    let variants: BTreeSet<(&str, &str)> =
        c.comparisons.iter().map(|r| (r.variant.as_str(), r.baseline.as_str())).collect();
    if variants.is_empty() {
        writeln!(out, "Nothing to rank: no load ran under two variants.")?;
        return warnings(c, out);
    }
    for (variant, baseline) in variants {
        let rows: Vec<&ComparisonRow> =
            c.comparisons.iter().filter(|r| r.variant == variant && r.baseline == baseline).collect();
        section(c, &rows, kinds, out)?;
    }
    warnings(c, out)?;
    let flag = legend::flag(c);
    let levels = legend::levels(c).map_or_else(String::new, |text| format!(" {text}"));
    write!(
        out,
        "{}",
        wrap(
            "",
            &format!(
                "Change: typical, trimmed, over runs, with its 95% interval.{flag}{} {}{}{levels}",
                own_rows_legend(c),
                legend::words(c),
                legend::looks(c)
            )
        )
    )
}

/// The meaning of [`OWN`], after a space; empty if no row has it.
fn own_rows_legend(c: &Comparison) -> String {
    if c.comparisons.iter().any(|r| r.own) {
        format!(" {OWN} the workload's own result.")
    } else {
        String::new()
    }
}

/// Fewest and most runs of a cell, in words: "1 run", "10 to 20 runs".
pub(crate) fn runs_in_words(c: &Comparison, variant: &str) -> String {
    let runs = || c.cells.iter().filter(|cell| cell.variant == variant).map(|cell| cell.runs);
    match (runs().min().unwrap_or(0), runs().max().unwrap_or(0)) {
        (few, many) if few == many => counted(many, "run"),
        (few, many) => format!("{few} to {many} runs"),
    }
}

fn section(
    c: &Comparison,
    rows: &[&ComparisonRow],
    kinds: &[(Verdict, &str)],
    out: &mut dyn Write,
) -> io::Result<()> {
    let Some(first) = rows.first() else { return Ok(()) };
    let many = |one: fn(&ComparisonRow) -> String| {
        rows.iter().map(|r| one(r)).collect::<BTreeSet<String>>().len() > 1
    };
    let (machines, backends) = (many(|r| r.machine.clone()), many(|r| r.backend.to_string()));
    let runs = runs_in_words(c, &first.variant);
    let place = if machines { String::new() } else { format!(" on {}", first.machine) };
    let title = format!("{} against {}{place}, {runs} each", first.variant, first.baseline);
    write!(out, "{}", wrap("", &title))?;
    let load = |r: &ComparisonRow| load_words(r, machines, backends);
    for (verdict, heading) in kinds {
        let of = largest_first(rows.to_vec(), *verdict);
        let stopped = stopped(c, first, *verdict);
        let number = of.len() + stopped.len();
        if number == 0 && *verdict != Verdict::Worse {
            continue;
        }
        writeln!(out, "\n{heading}: {}", if number == 0 { "none".to_owned() } else { number.to_string() })?;
        stopped.iter().try_for_each(|s| write!(out, "{}", wrap("! ", &s.words())))?;
        of.iter().try_for_each(|r| line(&load(r), r, out))?;
    }
    let same = rows.iter().filter(|r| r.verdict == Verdict::Same).count();
    let all = counted(rows.len(), "row");
    if kinds.len() < KINDS.len() {
        let unclear = rows.iter().filter(|r| r.verdict == Verdict::Unclear).count();
        writeln!(out, "\nCannot tell: {unclear} of {all}, listed below")?;
        return writeln!(out, "Unchanged: {same} of {all}\n");
    }
    writeln!(out, "\nUnchanged: {same} of {all}\n")
}

/// The loads that stopped on one side: losses if under the variant, gains if under the baseline.
pub(crate) fn stopped<'a>(c: &'a Comparison, row: &ComparisonRow, verdict: Verdict) -> Vec<&'a Stalled> {
    let is_of = |s: &&Stalled| s.variant == row.variant && s.baseline == row.baseline;
    let in_baseline = match verdict {
        Verdict::Worse => false,
        Verdict::Better => true,
        Verdict::Changed | Verdict::Same | Verdict::Unclear => return Vec::new(),
    };
    c.stalled.iter().filter(is_of).filter(|s| s.in_baseline == in_baseline).collect()
}

/// The rows of a verdict, largest change first; equal rows keep their order.
pub(crate) fn largest_first(mut rows: Vec<&ComparisonRow>, verdict: Verdict) -> Vec<&ComparisonRow> {
    rows.retain(|r| r.verdict == verdict);
    rows.sort_by(|a, b| b.own.cmp(&a.own).then(size(b).total_cmp(&size(a))));
    rows
}

/// A row's load, with its machine and backend if there are several.
fn load_words(r: &ComparisonRow, machines: bool, backends: bool) -> String {
    let on = if machines { format!(" on {}", r.machine) } else { String::new() };
    let by = if backends { format!(" ({})", r.backend) } else { String::new() };
    format!("{} {}{on}{by}", r.workload, r.load)
}

/// Writes every undecided row, with its interval and the change that could have been shown.
pub(crate) fn undecided(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let all: Vec<&ComparisonRow> = c.comparisons.iter().collect();
    let machines = all.iter().any(|r| r.machine != all[0].machine);
    let rows = largest_first(all, Verdict::Unclear);
    if rows.is_empty() {
        return Ok(());
    }
    let heading = format!("Cannot tell: {} of {}", rows.len(), counted(c.comparisons.len(), "row"));
    writeln!(out, "\n{heading:<52}{:>17} {:>8}\n", "95% interval", "shown at")?;
    for r in &rows {
        let interval = interval(r);
        let shown = match r.detectable_pct {
            Some(pct) if pct < 1_000.0 => format!("{}%", three(pct)),
            Some(_) => ">1000%".to_owned(),
            None => "-".to_owned(),
        };
        let figures = format!("{interval:>18} {shown:>7}");
        columns(&load_words(r, machines, false), r, &figures, out)?;
    }
    let words =
        "Shown at: the change that these runs would have shown in four of five repeats, among so many rows.";
    let is_flat = |r: &&ComparisonRow| r.ci95_pct.is_some_and(|[low, high]| low >= high);
    let flat = if rows.iter().any(is_flat) {
        " Where the interval has no width, most runs are equal and a few are not."
    } else {
        ""
    };
    write!(out, "\n{}", wrap("", &format!("{words}{flat}")))
}

/// Writes every unchanged row.
pub(crate) fn unchanged(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    let all: Vec<&ComparisonRow> = c.comparisons.iter().collect();
    let machines = all.iter().any(|r| r.machine != all[0].machine);
    let rows = largest_first(all, Verdict::Same);
    writeln!(out, "\nUnchanged: {} of {}\n", rows.len(), counted(c.comparisons.len(), "row"))?;
    rows.iter().try_for_each(|r| line(&load_words(r, machines, false), r, out))
}

/// The size of a change, as the logarithm of its ratio.
fn size(r: &ComparisonRow) -> f64 {
    let Some(pct) = r.change_pct else { return f64::INFINITY };
    let ratio = 1.0 + pct / 100.0;
    if ratio > 0.0 { ratio.ln().abs() } else { f64::INFINITY }
}

fn line(load: &str, r: &ComparisonRow, out: &mut dyn Write) -> io::Result<()> {
    let change = r.change_pct.map_or_else(|| "new".to_owned(), change);
    columns(load, r, &format!("{change:>7}{:1} {}", r.flag(), interval(r)), out)
}

fn interval(r: &ComparisonRow) -> String {
    r.ci95_pct.map_or_else(|| "-".to_owned(), |[a, b]| format!("{} to {}%", signed(a), signed(b)))
}

/// A row's load, metric and figures; a long load gets a line of its own.
fn columns(load: &str, r: &ComparisonRow, figures: &str, out: &mut dyn Write) -> io::Result<()> {
    const LOAD: usize = 26;
    const METRIC: usize = 22;
    let mark = if r.own { OWN } else { ' ' };
    let figures = format!("{:<METRIC$} {figures}", short(&r.metric, &r.workload));
    if width(load) <= LOAD && 2 + LOAD + 1 + width(&figures) <= WIDTH {
        return writeln!(out, "{mark} {load:<LOAD$} {figures}");
    }
    writeln!(out, "{mark} {load}\n  {:LOAD$} {figures}", "")
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_compare::testing::record;
    use schedlab_compare::{Question, compare};

    fn row(change_pct: Option<f64>) -> ComparisonRow {
        let text = serde_json::json!({
            "backend": "sim", "machine": "m", "workload": "w", "load": "l", "metric": "x", "baseline": "a",
            "variant": "b", "change_pct": change_pct, "ci95_pct": null, "p": 1.0, "verdict": "worse",
            "mean_change_pct": null, "rank_pct": null, "pairs": 0, "correlation": null, "detectable_pct": null,
        });
        serde_json::from_value(text).unwrap()
    }

    #[test]
    fn an_undecided_row_without_an_interval_says_why() {
        let undecided = |values: [u64; 6]| {
            let run = |variant: &str, seed: usize, value: u64| {
                let mut r = record(&[("migrations", value)]);
                (r.variant.name, r.seed) = (variant.to_owned(), seed as u64);
                r
            };
            let both = |(seed, value): (usize, u64)| [run("a", seed, 100), run("b", seed, value)];
            let records: Vec<_> = values.into_iter().enumerate().flat_map(both).collect();
            let question = Question { metrics: vec!["migrations".to_owned()], ..Question::default() };
            let c = compare(&records, &question, &[]).unwrap();
            let said = crate::testing::text(|out| super::undecided(&c, out));
            said.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let flat = undecided([100, 100, 100, 100, 80, 120]);
        assert!(flat.contains("+0.0 to +0.0%") && flat.contains("most runs are equal and a few"), "{flat}");
        let wide = undecided([100, 110, 90, 95, 80, 120]);
        assert!(wide.contains("migrations") && !wide.contains("most runs are equal"), "{wide}");
    }

    #[test]
    fn twice_and_half_are_equal_and_a_change_from_nothing_is_the_largest() {
        let of = |pct| size(&row(Some(pct)));
        assert!((of(100.0) - of(-50.0)).abs() < 1e-9);
        assert!(of(-60.0) > of(100.0) && of(3.0) > of(-2.0));
        assert!(size(&row(None)) > of(1e6));
    }
}
