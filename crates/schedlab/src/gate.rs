//! `--fail-on`: verdicts that make a command fail after it has printed its result, so that a script need not read it.

use clap::Args;
use schedlab_base::{Error, ErrorKind, Result, counted};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, ComparisonRow, Gap, gaps};
use schedlab_compare::growth::{Growth, Operation};
use schedlab_compare::stats::Verdict;
use schedlab_lab::make::exec::LEFT_OUT;
use schedlab_report::number;

/// The verdicts that may be named.
const VERDICTS: [Verdict; 5] =
    [Verdict::Worse, Verdict::Better, Verdict::Changed, Verdict::Unclear, Verdict::Same];

/// What makes a command fail after its result.
#[derive(Args, Clone, Debug, Default)]
pub struct GateOptions {
    /// Exit with 1 and name the rows if any has this verdict: worse, unclear, changed, better or same; several with
    /// commas between. A figure that one side lacks is unclear
    // The number that --print asks for would narrow the rows to its metric.
    #[arg(long, value_name = "VERDICT[,...]", value_delimiter = ',', value_parser = verdict, conflicts_with = "print")]
    fail_on: Vec<Verdict>,
}

/// The verdict of that name.
///
/// # Errors
/// When there is none.
pub fn verdict(text: &str) -> Result<Verdict> {
    let known = VERDICTS.iter().find(|v| v.word() == text);
    known.copied().ok_or_else(|| Error::unknown("verdict", text, VERDICTS.iter().map(|v| v.word())))
}

impl GateOptions {
    /// Whether verdicts that fail were named.
    pub fn is_asked(&self) -> bool {
        !self.fail_on.is_empty()
    }
    /// The verdicts that fail in forms for CI: those that were named, else "worse".
    pub fn failing(&self) -> &[Verdict] {
        if self.fail_on.is_empty() { &[Verdict::Worse] } else { &self.fail_on }
    }
    /// Fails if a row has a verdict that was named.
    ///
    /// # Errors
    /// Of the kind "a check failed", with the rows.
    pub fn check(&self, comparison: &Comparison) -> Result<()> {
        self.check_all(std::iter::once(comparison))
    }
    /// As [`GateOptions::check`], over several results.
    pub fn check_all<'a>(&self, comparisons: impl Iterator<Item = &'a Comparison>) -> Result<()> {
        let comparisons: Vec<&Comparison> = comparisons.collect();
        let rows: Vec<&ComparisonRow> = comparisons.iter().flat_map(|c| &c.comparisons).collect();
        if self.fail_on.is_empty() {
            return Ok(());
        }
        some_row("--fail-on", &comparisons)?;
        let named = |r: &&&ComparisonRow| self.fail_on.contains(&r.verdict);
        let fails_if_worse = self.fail_on.contains(&Verdict::Worse);
        let stopped: Vec<String> =
            comparisons.iter().filter(|_| fails_if_worse).flat_map(|c| stopped(c)).collect();
        let all = rows.len() + stopped.len();
        let mut failed: Vec<String> = stopped;
        failed.extend(rows.iter().filter(named).map(|r| words(r)));
        // Gaps are rows only where they are judged.
        let gaps: Vec<Gap<'_>> = if self.fail_on.contains(&Verdict::Unclear) {
            comparisons.iter().flat_map(|c| gaps(c)).collect()
        } else {
            Vec::new()
        };
        failed.extend(gaps.iter().map(gap_words));
        self.none_failed(&failed, &counted(all + gaps.len(), "row"))
    }
    /// Fails if the growth of an operation is one of the verdicts that were named.
    ///
    /// # Errors
    /// Of the kind "a check failed", with the operations.
    pub fn check_growth(&self, all: &[Growth]) -> Result<()> {
        let operations = || all.iter().flat_map(|g| g.operations.iter().map(move |o| (&g.scheduler, o)));
        let failed = operations().filter(|(_, operation)| self.fail_on.contains(&operation.verdict()));
        let words = |(scheduler, operation): (&String, &Operation)| {
            let times =
                operation.growth.map(|by| format!(", {} times", number::three(by))).unwrap_or_default();
            format!("{}: {scheduler}, {}{times}", operation.verdict().word(), operation.name)
        };
        let failed: Vec<String> = failed.map(words).collect();
        self.none_failed(&failed, &counted(operations().count(), "operation"))
    }
    fn none_failed(&self, failed: &[String], of: &str) -> Result<()> {
        if failed.is_empty() {
            return Ok(());
        }
        Err(failure(&self.fail_on, failed, of))
    }
}

/// The error of rows that have one of the verdicts `fail_on`, out of `all`.
pub fn failure(fail_on: &[Verdict], failed: &[String], all: &str) -> Error {
    let verdicts: Vec<&str> = fail_on.iter().map(|v| v.word()).collect();
    let text =
        format!("--fail-on {}: {} of {all}\n    {}", verdicts.join(","), failed.len(), failed.join("\n    "));
    Error::new(ErrorKind::CheckFailed, text)
}

/// Fails if a load stood still under a variant and not under its baseline, whatever verdicts were named: no other
/// figure of such a kernel means anything.
///
/// # Errors
/// Of the kind "a check failed", with the loads.
pub fn none_stopped(comparison: &Comparison) -> Result<()> {
    let stopped = stopped(comparison);
    if stopped.is_empty() {
        return Ok(());
    }
    let text = format!("{} stopped\n    {}", counted(stopped.len(), "load"), stopped.join("\n    "));
    Err(Error::new(ErrorKind::CheckFailed, text)
        .help("the kernel with the change loses tasks: 'schedlab explain' shows a run's longest waits"))
}

/// Checks that no load was left out because its scheduler did not last; the comparison's warnings say why.
///
/// # Errors
/// Of the kind "a check failed".
pub fn none_left_out(comparison: &Comparison) -> Result<()> {
    match comparison.warnings.iter().filter(|w| w.warning.code == LEFT_OUT).count() {
        0 => Ok(()),
        n => {
            let text = format!("{} can't be run under a scheduler, as the warnings say", counted(n, "load"));
            Err(Error::new(ErrorKind::CheckFailed, text).help("they were left out; the others are compared"))
        }
    }
}

/// The loads that stood still under a variant alone, a line each.
fn stopped(c: &Comparison) -> Vec<String> {
    let losses = c.stalled.iter().filter(|s| !s.in_baseline);
    losses.map(|s| format!("{}: {}", Verdict::Worse.word(), s.words())).collect()
}

/// Checks that there is a row to judge: without one nothing can fail.
///
/// # Errors
/// Of the kind "a check failed", with the missing things.
pub fn some_row(option: &str, comparisons: &[&Comparison]) -> Result<()> {
    if comparisons.iter().any(|c| !c.comparisons.is_empty()) {
        return Ok(());
    }
    let missing: Vec<String> = comparisons.iter().flat_map(|c| unmeasured(c)).collect();
    let text = format!("{option}: there is not one row to judge");
    let (text, help) = match missing.is_empty() {
        true => (text, "a comparison needs two variants with runs of the same load"),
        false => {
            (format!("{text}\n    {}", missing.join("\n    ")), "choose a metric that both variants measured")
        }
    };
    Err(Error::new(ErrorKind::CheckFailed, text).help(help))
}

/// The figures that are missing in loads of several variants, a line each.
fn unmeasured(c: &Comparison) -> Vec<String> {
    let line = |cell: &Cell, metric: &str| match cell.metrics.get(metric) {
        Some(CellStat::Missing { missing }) => {
            Some(format!("{}, {}: {metric}: not measured: {missing}", place(cell), cell.variant))
        }
        _ => None,
    };
    let compared = c.cells.chunk_by(Cell::same_group).filter(|group| group.len() > 1).flatten();
    compared.flat_map(|cell| c.metrics.iter().filter_map(|m| line(cell, m))).collect()
}

/// "schbench 1x6 on smp-4".
fn place(cell: &Cell) -> String {
    let machine = if cell.machine.is_empty() { String::new() } else { format!(" on {}", cell.machine) };
    format!("{} {}{machine}", cell.workload, cell.load)
}

/// A row that is not there, in one line.
fn gap_words(gap: &Gap<'_>) -> String {
    let Gap { cell, variant, metric, why } = gap;
    let metric = metric.map_or_else(String::new, |m| format!("{m}: "));
    format!("{}: {}, {variant}: {metric}{why}", Verdict::Unclear.word(), place(cell))
}

/// A row in one line.
fn words(r: &ComparisonRow) -> String {
    let change = r.change_pct.map_or_else(|| "from 0".to_owned(), number::change);
    let interval = r.ci95_pct.map_or_else(String::new, |[low, high]| format!(" [{low:+.1}, {high:+.1}]"));
    let machine = if r.machine.is_empty() { String::new() } else { format!(" on {}", r.machine) };
    format!(
        "{}: {} {}{machine}, {} against {}: {} {change}{interval}",
        r.verdict.word(),
        r.workload,
        r.load,
        r.variant,
        r.baseline,
        r.metric
    )
}
