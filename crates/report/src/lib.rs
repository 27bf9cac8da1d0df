//! Output for people: each form of a comparison, and the text layouts of other tools.
//!
//! `compare` judges runs; this crate writes the result. It reads plain data and writes text. It makes no run, knows no
//! backend, and computes nothing except the ratios and roundings of its forms: two forms of one comparison never
//! disagree, which tests/agree.rs checks.
//!
//! | output | module |
//! | --- | --- |
//! | a comparison for a terminal or a mail | [`table`], [`detail`], [`ranked`], [`normal`], [`lkml`], `sizes`,
//! | | [`variants`] |
//! | a comparison for a page or a program | [`markdown`], [`csv`], [`json`], [`junit`], [`html`], [`plot`] |
//! | one run | [`run`], [`stat`], [`profile`], [`schedstat`] |
//! | a run as its original printed it | [`schbench`], [`schbench2016`], [`mod@slice`] |
//! | the runs of a store | [`runs`] |
//! | results of searches | [`knee`], [`trial`] |
//! | a history of many days | [`mod@gate`] |
//! | judgements | [`validation`], [`changes`], [`predictions`], [`reports`] |
//! | reference pages | [`features`], [`history`], [`migration`] |
//!
//! The HTML page is made of the comparison, its cells' records and the *strips* of two runs
//! (`schedlab_compare::strips`): who ran on each CPU and how many waited there, packed into bytes, in bins where a run
//! has too much for a page. `pixels.js` unpacks them and `strips.js` draws them.
//!
//! All forms share [`number`] (three significant digits, a unit that fits, signs on changes), [`text`]
//! (wrapping at 78 columns), and the private modules `heading` (machine and kernels), `legend` (marks and
//! flags) and `usec` (schbench's histogram). [`uncertainty`] puts the effect of drawn costs into words.
//!
//! Terms:
//!
//! - A *form* is a way to write a comparison; [`EXPORTERS`] is the table of all forms, from which options and help
//!   derive.
//! - A *group* is the cells of one load on one machine, which differ in variant and kernel; a form writes group by
//!   group.
//! - A *row* is one variant against its baseline in one metric, with its verdict.
//! - A *mark* is the verdict in one character. The legend below every table explains it.
//!
//! Rules: Plain text has at most 78 columns, because it is pasted into mail. Names come from other people's files, so
//! they are escaped for where they are written: a terminal, Markdown, HTML, XML, a spreadsheet. The same input gives
//! the same bytes: no clock is read.
//!
//! A new form is a file with an [`Exporter`], and a row of [`EXPORTERS`].

pub mod answer;
pub mod changes;
pub mod csv;
pub mod decisions;
pub mod detail;
pub mod features;
pub mod gate;
pub mod growth;
mod heading;
pub mod history;
pub mod html;
pub mod json;
pub mod junit;
pub mod knee;
mod legend;
pub mod limits;
pub mod lkml;
pub mod markdown;
pub mod migration;
pub mod normal;
pub mod number;
pub mod plot;
pub mod predictions;
pub mod profile;
pub mod published;
pub mod ranked;
mod reached;
pub mod reports;
pub mod run;
pub mod runs;
pub mod schbench;
pub mod schbench2016;
pub mod schedstat;
mod sizes;
pub mod slice;
pub mod stat;
pub mod table;
pub mod text;
pub mod trial;
pub mod tuned;
pub mod uncertainty;
mod usec;
pub mod validation;
pub mod variants;

pub use usec::none_in as no_schbench;

use schedlab_base::{Error, Result};
use schedlab_compare::comparison::{Cell, ComparisonRow};
use schedlab_compare::{Comparison, Published};
use schedlab_record::metric::of_program;
use std::io::{self, Write};

/// Writes a comparison in one form.
pub trait Exporter: Sync {
    fn export(&self, comparison: &Comparison, out: &mut dyn Write) -> io::Result<()>;
}

/// A row of the table of exporters.
pub struct ReportForm {
    pub name: &'static str,
    /// The usual extension of its files.
    pub extension: &'static str,
    pub about: &'static str,
    pub exporter: &'static dyn Exporter,
}

const fn row_of(
    name: &'static str,
    extension: &'static str,
    exporter: &'static dyn Exporter,
    about: &'static str,
) -> ReportForm {
    ReportForm { name, extension, about, exporter }
}

/// Every form; the first is the default.
pub const EXPORTERS: &[ReportForm] = &[
    row_of("table", "txt", &table::Table, "a matrix for each load: metrics by variants, at most 78 columns"),
    row_of(
        "detail",
        "txt",
        &detail::Detail,
        "every figure with its spread, interval and power, at most 78 columns",
    ),
    row_of("lkml", "txt", &lkml::Lkml, "the table of schedtests, as in mails to LKML"),
    row_of("markdown", "md", &markdown::Markdown, "one Markdown table"),
    row_of("normal", "txt", &normal::Normal, "means in multiples of the baseline's, with their spread"),
    row_of("ranked", "txt", &ranked::Ranked, "one line for each change, losses first, at most 78 columns"),
    row_of(
        "sizes",
        "txt",
        &sizes::Sizes,
        "a column for each machine: metrics down, the change on each machine, at most 78 columns",
    ),
    row_of(
        "variants",
        "txt",
        &variants::Variants,
        "a row for each variant, a column for each metric, at most 78 columns",
    ),
    row_of("csv", "csv", &csv::Csv, "one line for each cell and metric"),
    row_of("json", "json", &json::Json, "schedlab/comparison/1, whole"),
];

/// Finds a form by name.
///
/// # Errors
/// When there is none; the error offers the nearest name.
pub fn form(name: &str) -> Result<&'static ReportForm> {
    EXPORTERS
        .iter()
        .find(|f| f.name == name)
        .ok_or_else(|| Error::unknown("format", name, EXPORTERS.iter().map(|f| f.name)))
}

/// The row that compares this cell with its baseline in a metric.
fn row<'a>(c: &'a Comparison, cell: &Cell, metric: &str) -> Option<&'a ComparisonRow> {
    c.comparisons.iter().find(|r| r.is_of(cell) && r.metric == metric)
}

fn published<'a>(c: &'a Comparison, cell: &Cell, metric: &str) -> Option<&'a Published> {
    c.published.iter().find(|p| p.is_for(&cell.variant, &cell.load, metric))
}

/// The cells, group by group (a workload and load on a machine), in the comparison's order.
fn groups(c: &Comparison) -> Vec<&[Cell]> {
    c.cells.chunk_by(Cell::same_group).collect()
}

/// The metric's name without the workload's name in front, which the reader already knows. Metrics of any workload keep
/// their full names: `slice.p50` is not a metric of the program `slice`.
fn short<'a>(metric: &'a str, workload: &str) -> &'a str {
    if !of_program(metric) {
        return metric;
    }
    metric.strip_prefix(workload).and_then(|m| m.strip_prefix('.')).unwrap_or(metric)
}

#[cfg(test)]
mod testing;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_programs_own_metrics_lose_its_name() {
        let all = [
            ("schbench.latency.p99", "schbench", "latency.p99"),
            ("hackbench.elapsed.mean", "hackbench", "elapsed.mean"),
            ("schbench.latency.p99", "slice", "schbench.latency.p99"),
            ("slice.p50", "slice", "slice.p50"),
            ("migrations", "schbench", "migrations"),
        ];
        all.iter().for_each(|(metric, workload, shown)| assert_eq!(short(metric, workload), *shown));
    }

    #[test]
    fn forms_are_found_by_name() {
        assert_eq!(form("lkml").ok().map(|f| f.extension), Some("txt"));
        assert!(form("lkmll").err().is_some_and(|e| e.to_string().contains("'lkml'")));
    }
}
