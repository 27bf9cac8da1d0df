//! A matrix: a row for each metric, a column for each variant, the baseline first. All matrices of a comparison have
//! the same columns, so that loads can be compared down the page. Variants that don't fit continue in another matrix,
//! which repeats the baseline.

use crate::number::{change, spread, value};
use crate::text::{WIDTH, stack, width};
use crate::{groups, published, row, short};
use schedlab_compare::comparison::{Cell, CellStat, ComparisonRow, DISAGREES};
use schedlab_compare::{Comparison, Published};
use std::io::{self, Write};

/// The label of the row with published figures, below a metric.
const PUBLISHED: &str = "  published";
/// A metric with a longer name gets a line of its own.
const LONGEST_LABEL: usize = 28;
/// A baseline's column is widened for its name up to this many characters.
const LONGEST_ALONE: usize = 14;
/// Smallest width of changes, that of "+0.4%". Narrower columns would touch a flag before them.
const CHANGE: usize = 5;
/// Fewest and most spaces between columns.
const GAP: (usize, usize) = (2, 4);

/// Widths shared by all matrices of a comparison, in characters.
pub struct MatrixLayout {
    label: usize,
    value: usize,
    /// 0 if no cell has several runs.
    spread: usize,
    /// Smallest width of the baseline's column: without a spread its name would be broken within a word.
    name: usize,
    change: usize,
    /// Width of a variant's column: that of its cells, or of its name if all names fit.
    column: usize,
    gap: usize,
    /// The number of variants that fit next to the baseline.
    beside: usize,
}

struct MatrixCell {
    value: String,
    spread: String,
    change: String,
    mark: &'static str,
    /// [`ASTRAY`](schedlab_compare::comparison::ASTRAY) or nothing, between value and change.
    flag: &'static str,
}

fn shown(c: &Comparison, cell: &Cell, metric: &str) -> MatrixCell {
    let measured = cell.metrics.get(metric).and_then(CellStat::measured);
    let row = row(c, cell, metric);
    // If the comparison has marked values, the others get a blank, so that digits stay aligned.
    let doubt = match (c.disagreements.is_empty(), c.disagrees(cell, metric)) {
        (true, _) => "",
        (false, true) => DISAGREES,
        (false, false) => " ",
    };
    MatrixCell {
        value: measured.map_or_else(|| "-".to_owned(), |m| value(m.mean, &m.unit)) + doubt,
        spread: measured.and_then(|m| m.std_pct).map_or_else(String::new, |s| format!("({})", spread(s))),
        change: row.map_or_else(String::new, |r| r.change_pct.map_or_else(|| "new".to_owned(), change)),
        mark: row.map_or("", |r| r.verdict.mark()),
        flag: row.map_or("", ComparisonRow::flag),
    }
}

/// The baseline's index in a group: the variant named by the others' rows, else the first.
pub fn baseline(c: &Comparison, group: &[Cell]) -> usize {
    let named = group.iter().find_map(|cell| c.metrics.iter().find_map(|m| row(c, cell, m)));
    named.and_then(|r| group.iter().position(|cell| cell.variant == r.baseline)).unwrap_or(0)
}

/// The metrics of a group, chosen for its load.
pub fn metrics<'a>(c: &'a Comparison, cell: &'a Cell) -> impl Iterator<Item = &'a str> {
    c.metrics.iter().map(String::as_str).filter(move |m| cell.metrics.contains_key(*m))
}

impl MatrixLayout {
    /// The widths that a comparison needs.
    pub fn of(c: &Comparison) -> MatrixLayout {
        let mut l = MatrixLayout {
            label: 0,
            value: 1,
            spread: 0,
            name: 0,
            change: CHANGE,
            column: 0,
            gap: GAP.0,
            beside: 1,
        };
        let (mut names, mut most) = (0, 1);
        for group in groups(c) {
            let base = baseline(c, group);
            most = most.max(group.len() - 1);
            for (i, cell) in group.iter().enumerate() {
                metrics(c, cell).for_each(|m| l.make_room(c, group, (i, base), m));
                names = if i == base { names } else { names.max(width(&cell.variant)) };
                l.name = if i == base { l.name.max(width(&cell.variant)) } else { l.name };
            }
        }
        l.name = if l.spread == 0 { l.name.min(LONGEST_ALONE) } else { 0 };
        let cells = l.value + l.change + 3;
        let room = WIDTH.saturating_sub(l.label + GAP.0 + l.first());
        let fits = |column: usize| (room / (column + GAP.0)).max(1);
        l.column = if fits(names) >= most { cells.max(names) } else { cells };
        l.beside = fits(l.column).min(most);
        l.gap = (room / l.beside).saturating_sub(l.column).clamp(GAP.0, GAP.1);
        l
    }

    /// Widens the columns for cell `at` of a group with the baseline `base`.
    fn make_room(&mut self, c: &Comparison, group: &[Cell], (at, base): (usize, usize), metric: &str) {
        let cell = &group[at];
        let label = width(short(metric, &cell.workload));
        self.label = self.label.max(if label > LONGEST_LABEL { 0 } else { label });
        let s = shown(c, cell, metric);
        self.value = self.value.max(width(&s.value));
        self.change = self.change.max(width(&s.change));
        if at == base {
            self.spread = self.spread.max(width(&s.spread));
        }
        if let Some(p) = published(c, cell, metric) {
            self.label = self.label.max(PUBLISHED.len());
            self.value = self.value.max(width(&value(p.value, &p.unit)));
            let first = group.get(base).and_then(|b| published(c, b, metric));
            self.change = self.change.max(first.map_or(0, |b| width(&published_change((b, p)))));
        }
    }

    /// Width of the baseline's column.
    fn first(&self) -> usize {
        (self.value + self.behind()).max(self.name)
    }

    /// Width of the spread after the baseline's values, including its space.
    fn behind(&self) -> usize {
        if self.spread > 0 { 1 + self.spread } else { 0 }
    }

    /// Writes a group's matrix, or several.
    pub fn write(&self, c: &Comparison, group: &[Cell], out: &mut dyn Write) -> io::Result<()> {
        let at = baseline(c, group);
        let Some(base) = group.get(at) else { return Ok(()) };
        let others: Vec<&Cell> =
            group.iter().enumerate().filter(|(i, _)| *i != at).map(|(_, cell)| cell).collect();
        if others.is_empty() {
            return self.matrix(c, base, &[], out);
        }
        for (n, some) in others.chunks(self.beside).enumerate() {
            if n > 0 {
                writeln!(out)?;
            }
            self.matrix(c, base, some, out)?;
        }
        Ok(())
    }

    fn matrix(&self, c: &Comparison, base: &Cell, others: &[&Cell], out: &mut dyn Write) -> io::Result<()> {
        self.names(base, others, out)?;
        for metric in metrics(c, base) {
            let mut label = short(metric, &base.workload);
            if width(label) > self.label {
                writeln!(out, "{label}")?;
                label = "";
            }
            let b = shown(c, base, metric);
            let spread = if self.spread > 0 { format!(" {}", b.spread) } else { String::new() };
            let first = format!("{:>v$}{spread:<s$}", b.value, v = self.value, s = self.behind());
            let cells = others.iter().map(|cell| {
                let s = shown(c, cell, metric);
                self.cell(&s.value, s.flag, &s.change, s.mark)
            });
            self.line(label, &first, cells, out)?;
            self.published(c, base, others, metric, out)?;
        }
        Ok(())
    }

    /// Writes the names of the columns, in several lines if one is longer than its column.
    fn names(&self, base: &Cell, others: &[&Cell], out: &mut dyn Write) -> io::Result<()> {
        let std = if self.spread > 0 { " (std)" } else { "" };
        let first = stack(&format!("{}{std}", base.variant), self.first());
        let stacks: Vec<Vec<String>> = others.iter().map(|o| stack(&o.variant, self.column)).collect();
        let height = stacks.iter().map(Vec::len).fold(first.len(), usize::max);
        let at = |s: &[String], line: usize| {
            (line + s.len()).checked_sub(height).map_or_else(String::new, |i| s[i].clone())
        };
        for line in 0..height {
            self.line("", &at(&first, line), stacks.iter().map(|s| at(s, line)), out)?;
        }
        Ok(())
    }

    fn cell(&self, value: &str, flag: &str, change: &str, mark: &str) -> String {
        format!("{value:>v$}{flag:1}{change:>w$} {mark:1}", v = self.value, w = self.change)
    }

    /// Writes the published figures, each below its value, with the change from the baseline's.
    fn published(
        &self,
        c: &Comparison,
        base: &Cell,
        others: &[&Cell],
        metric: &str,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let figure = |p: Option<&Published>| p.map_or_else(String::new, |p| value(p.value, &p.unit));
        let first = published(c, base, metric);
        let theirs: Vec<Option<&Published>> = others.iter().map(|o| published(c, o, metric)).collect();
        if first.is_none() && theirs.iter().all(Option::is_none) {
            return Ok(());
        }
        let cells = theirs.into_iter().map(|p| {
            let change = first.zip(p).map_or_else(String::new, published_change);
            self.cell(&figure(p), "", &change, "")
        });
        let first = format!("{:>v$}{:s$}", figure(first), "", v = self.value, s = self.behind());
        self.line(PUBLISHED, &first, cells, out)
    }

    fn line(
        &self,
        label: &str,
        first: &str,
        others: impl Iterator<Item = String>,
        out: &mut dyn Write,
    ) -> io::Result<()> {
        let mut text =
            format!("{label:<l$}{:g$}{first:>w$}", "", l = self.label, g = GAP.0, w = self.first());
        for cell in others {
            text.push_str(&format!("{:g$}{cell:>w$}", "", g = self.gap, w = self.column));
        }
        writeln!(out, "{}", text.trim_end())
    }
}

fn published_change((base, other): (&Published, &Published)) -> String {
    if base.value > 0.0 { change(100.0 * (other.value / base.value - 1.0)) } else { String::new() }
}
