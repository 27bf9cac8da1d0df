//! The report: one HTML file that needs no network, for a browser, a phone or paper.
//!
//! [`page`] writes it from a comparison, the records of its cells and, where runs could be made again, their strips.
//! Tables and charts are HTML and SVG; the strips are data that `strips.js` draws. The same input gives the same bytes:
//! the page's only dates are those of the runs.

mod balance;
mod bars;
mod course;
mod curves;
pub(crate) mod escape;
mod histogram;
mod index;
mod loads;
mod matrix;
mod notes;
mod page;
mod points;
mod scale;
mod strips;
mod tasks;
mod waits;

pub use course::history;
pub use index::{Entry, index};
pub use page::page;

use schedlab_compare::Comparison;
use schedlab_compare::comparison::Cell;
use schedlab_compare::strips::Strips;
use schedlab_record::Record;

pub struct HtmlReport<'a> {
    pub title: &'a str,
    /// The question, in a sentence or more; may be empty.
    pub about: &'a str,
    /// The command line that made the report.
    pub command: &'a str,
    /// The version of schedlab that made the report.
    pub version: &'a str,
    /// When the first and the last of the runs were stored, UTC; empty if unknown.
    pub made: (String, String),
    pub comparison: &'a Comparison,
    pub runs: &'a [Vec<Record>],
    /// The command line that makes each cell's runs again, if there is one.
    pub again: &'a [Option<String>],
    /// The runs whose CPUs are shown over time: none, one or two.
    pub shown: &'a [ShownRun<'a>],
    /// Why no strips, or no more strips, are shown.
    pub strip_notes: &'a [String],
}

/// A run whose CPUs are shown over time.
pub struct ShownRun<'a> {
    /// Index of its cell in the comparison.
    pub cell: usize,
    pub record: &'a Record,
    pub strips: &'a Strips,
}

/// A group of cells: the variants of one load, with their runs.
struct LoadGroup<'a> {
    cells: &'a [Cell],
    runs: &'a [Vec<Record>],
}

impl<'a> HtmlReport<'a> {
    fn groups(&self) -> Vec<LoadGroup<'a>> {
        let mut first = 0;
        let groups = self.comparison.cells.chunk_by(Cell::same_group).map(|cells| {
            let group = LoadGroup { cells, runs: &self.runs[first..first + cells.len()] };
            first += cells.len();
            group
        });
        groups.collect()
    }
}

impl LoadGroup<'_> {
    /// "schbench 2x24 on fb-2x12-smt".
    fn name(&self) -> String {
        self.cells.first().map_or_else(String::new, |c| format!("{} {} on {}", c.workload, c.load, c.machine))
    }
}

/// Number of colours in the page's style sheet.
const COLOURS: usize = 8;

/// The classes of a group's variant: its colour and, from the ninth variant on, its dashes.
fn colour(at: usize) -> String {
    match at / COLOURS {
        0 => format!("v{at}"),
        round => format!("v{} r{}", at % COLOURS, round.min(2)),
    }
}

/// The legend of a group's colours.
fn key(cells: &[Cell]) -> String {
    let one = |(at, cell): (usize, &Cell)| {
        format!("<span class=\"{}\"><i></i>{}</span>", colour(at), escape::escape(&cell.variant))
    };
    format!("<div class=\"key\">{}</div>\n", cells.iter().enumerate().map(one).collect::<String>())
}

#[cfg(test)]
mod tests;
