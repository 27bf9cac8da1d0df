//! A comparison for programs that call schedlab: JUnit XML for CI, and one number for scripts.

use crate::output;
use clap::Args;
use schedlab_base::{Error, ErrorKind, Result, temp};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat};
use schedlab_compare::metrics::{self, Declared};
use schedlab_compare::stats::Verdict;
use schedlab_record::{Record, Value};
use schedlab_report::junit;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where else a comparison goes, and what of it.
#[derive(Args)]
pub struct OutletOptions {
    /// Write the rows as JUnit XML into this file, too: rows with a verdict of --fail-on fail [default: worse], rows
    /// about which the data cannot tell are skipped
    #[arg(long, value_name = "FILE", conflicts_with = "print", hide_short_help = true)]
    pub junit: Option<PathBuf>,
    /// Print one number and nothing else: the mean of this metric over the runs of the variant that is compared (of the
    /// baseline, where it is alone), times in ns; with % behind the metric, its change in percent
    #[arg(long, value_name = "METRIC", conflicts_with = "json", hide_short_help = true)]
    pub print: Option<String>,
}

impl OutletOptions {
    /// Checks them before the work begins.
    ///
    /// # Errors
    /// When the file can't be written.
    pub fn check(&self) -> Result<()> {
        self.junit.as_deref().map_or(Ok(()), |file| temp::check_place(file).map_err(|e| e.context("--junit")))
    }

    /// Whether a file or a number is asked for.
    pub fn asked(&self) -> bool {
        self.junit.is_some() || self.print.is_some()
    }

    /// The metrics to measure: those that are asked for, and the one whose number is printed.
    pub fn with_metrics(&self, asked: &[String]) -> Vec<String> {
        let mut all = asked.to_vec();
        all.extend(self.print.as_deref().map(|text| split(text).0.to_owned()).filter(|m| !asked.contains(m)));
        all
    }
}

/// The metric, and whether its change is meant.
fn split(text: &str) -> (&str, bool) {
    text.strip_suffix('%').map_or((text, false), |metric| (metric, true))
}

/// Writes a comparison as JUnit XML. Rows with one of the verdicts `failing` fail.
///
/// # Errors
/// When the file can't be written.
pub fn junit(comparison: &Comparison, failing: &[Verdict], file: &Path) -> Result<()> {
    let mut text = Vec::new();
    junit::junit(comparison, failing, &mut text)
        .map_err(|e| Error::internal(format!("the comparison as JUnit XML: {e}")))?;
    temp::write_whole(file, &text)
}

/// Prints one number of a comparison.
///
/// # Errors
/// When it is not exactly one, or was not measured.
pub fn print(comparison: &Comparison, wanted: &str) -> Result<()> {
    let number = number(comparison, wanted)?;
    output::result(|out| writeln!(out, "{number}"))
}

/// Prints one number of a run.
///
/// # Errors
/// When the metric does not exist or was not measured.
pub fn print_of_run(record: &Record, metric: &str) -> Result<()> {
    let figures: Vec<String> = record.found.figures.keys().cloned().collect();
    let series: Vec<Declared> =
        record.found.series.iter().map(|(name, s)| (name.clone(), s.unit().to_owned(), s.better())).collect();
    let whole = match metrics::check(metric, &series, &figures) {
        Ok(()) => metric.to_owned(),
        Err(e) => only(metric, metrics::in_full(metric, &series, &figures))?.ok_or(e)?,
    };
    let value = match metrics::evaluate(record, &whole).value {
        Value::Number(value) => value,
        Value::Missing(why) => {
            return Err(Error::new(ErrorKind::CheckFailed, format!("--print {metric}: {why}")));
        }
    };
    output::result(|out| writeln!(out, "{value}"))
}

/// The only whole name that matches a short name of a table; `None` without a match.
fn only(name: &str, mut whole: Vec<String>) -> Result<Option<String>> {
    match whole.len() {
        0 | 1 => Ok(whole.pop()),
        _ => Err(Error::input(format!("--print: '{name}' stands for {} metrics", whole.len()))
            .help(format!("name one: {}", whole.join(", ")))),
    }
}

/// The whole name of a metric of the comparison: tables leave out the program's name.
fn whole_name(comparison: &Comparison, metric: &str) -> Result<String> {
    let all: BTreeSet<&str> =
        comparison.cells.iter().flat_map(|c| c.metrics.keys()).map(String::as_str).collect();
    if all.contains(metric) {
        return Ok(metric.to_owned());
    }
    let means = |name: &&&str| name.split_once('.').is_some_and(|(_, rest)| rest == metric);
    let found = only(metric, all.iter().filter(means).map(|name| (*name).to_owned()).collect())?;
    found.ok_or_else(|| Error::unknown("metric", metric, all).context("--print"))
}

fn number(comparison: &Comparison, wanted: &str) -> Result<f64> {
    let (metric, change) = split(wanted);
    let metric = &whole_name(comparison, metric)?;
    let cells: Vec<&Cell> = comparison.cells.iter().filter(|c| c.metrics.contains_key(metric)).collect();
    let rows: Vec<_> = comparison.comparisons.iter().filter(|r| r.metric == *metric).collect();
    // Without rows there is no baseline: the cells stand for themselves.
    let compared = |c: &&Cell| rows.is_empty() || rows.iter().any(|r| r.is_of(c));
    let mut chosen: Vec<&Cell> = cells.into_iter().filter(compared).collect();
    // Cells without the figure do not make the choice ambiguous.
    let missing = chosen.iter().filter(|c| c.metrics[metric].measured().is_none()).count();
    if missing < chosen.len() {
        chosen.retain(|c| c.metrics[metric].measured().is_some());
    } else {
        chosen.truncate(1);
    }
    let one = match chosen[..] {
        [one] => one,
        [] => {
            return Err(Error::input(format!(
                "--print {wanted}: no compared load has the metric '{metric}'"
            )));
        }
        _ => {
            let names: Vec<String> =
                chosen.iter().map(|c| format!("{} {} {}", c.workload, c.load, c.variant)).take(4).collect();
            let text = format!("--print {wanted}: {} numbers, of {} ...", chosen.len(), names.join(", "));
            return Err(Error::input(text)
                .help("narrow it to one load and one variant: --load, --variant, --machine"));
        }
    };
    let none = |why: &str| Error::new(ErrorKind::CheckFailed, format!("--print {wanted}: {why}"));
    match (&one.metrics[metric], change) {
        (CellStat::Missing { missing }, _) => Err(none(missing)),
        (CellStat::Measured(m), false) => Ok(m.mean),
        (CellStat::Measured(_), true) => {
            let row = rows.iter().find(|r| r.is_of(one));
            let row = row.ok_or_else(|| none("there is nothing to compare it with"))?;
            row.change_pct.ok_or_else(|| none("the baseline is 0"))
        }
    }
}
