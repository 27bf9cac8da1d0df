//! Tables in which no row can show a change, because cells have too few runs. The table begins with that; a long one is
//! shortened to a line for each load.

use super::limit::ROWS;
use super::notes;
use crate::heading::place;
use crate::text::{stalled, warnings_but, wrap};
use crate::{Exporter, groups};
use schedlab_base::counted;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, DEFAULT_RUNS, FEW_RUNS, how};
use schedlab_compare::stats::Verdict;
use std::io::{self, Write};

/// The table's first line; `None` if some row can show a change. Short tables of single runs compare nothing and need
/// no such line.
pub fn note(c: &Comparison) -> Option<String> {
    let needed = c.runs_needed?;
    let runs = c.cells.iter().map(|cell| cell.runs).min().filter(|runs| *runs > 1 || is_long(c))?;
    Some(format!(
        "No row can show a change with {} of a cell, however large it is: that takes {} or more ({DEFAULT_RUNS} are usual).",
        counted(runs, "run"),
        counted(needed, "run"),
    ))
}

/// Whether the first line already contains the content of this warning.
pub fn is_said(c: &Comparison, code: &str) -> bool {
    code == FEW_RUNS && note(c).is_some()
}

fn is_long(c: &Comparison) -> bool {
    c.comparisons.len() > ROWS
}

/// Whether a table is long and no row of it can show a change.
pub fn is_hopeless(c: &Comparison) -> bool {
    c.runs_needed.is_some() && is_long(c)
}

/// The shortened table: a line for each load, with the numbers of its rows.
pub struct Short;

impl Exporter for Short {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        stalled(c, out)?;
        if let Some(text) = note(c) {
            writeln!(out, "{}", wrap("", &text))?;
        }
        if !c.experiment.is_empty() {
            writeln!(out, "{}: rows of each load\n", c.experiment)?;
        }
        let many = c.cells.iter().any(|cell| cell.how() != c.cells[0].how());
        for group in groups(c) {
            let Some(first) = group.first() else { continue };
            let how = if many { format!(", {}", how(group)) } else { String::new() };
            let of = format!("{} {} on {}{how}", first.workload, first.load, place(c, group));
            write!(out, "{}", wrap("", &format!("{of}: {}", numbers(c, group))))?;
            if let Some(fit) = c.fit(first) {
                write!(out, "{}", wrap("  ", &super::nearness(c, fit)))?;
            }
        }
        writeln!(out, "\n--all-rows shows every row.")?;
        notes::kept(c, out)?;
        warnings_but(c, |code| is_said(c, code), out)
    }
}

/// "12 cannot tell, 3 same".
fn numbers(c: &Comparison, group: &[Cell]) -> String {
    let rows = || c.comparisons.iter().filter(|r| group.iter().any(|cell| r.is_of(cell)));
    let same = rows().filter(|r| r.verdict == Verdict::Same).count();
    let counts = [(rows().count() - same, "cannot tell"), (same, "same")];
    let counted = counts.iter().filter(|(n, _)| *n > 0).map(|(n, what)| format!("{n} {what}"));
    counted.collect::<Vec<_>>().join(", ")
}
