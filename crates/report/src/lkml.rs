//! The table in the form of schedtests, as in mails to LKML: case, load, normalised baseline with its spread, change
//! with the variant's spread. The first columns have widths 16 and 8, the others are separated by tabs. There is a
//! table for each variant and machine.
//!
//! The change is the comparison's own estimate, as in every form; a positive sign always means "better". Marks and the
//! flag are schedlab's own. The legend below the table explains them, because that list has used one character with
//! three meanings. Names too long for 78 columns are cut and numbered, and listed in full below the tables.

use crate::text::{stalled, warnings, wrap};
use crate::uncertainty::summary;
use crate::{Exporter, groups, heading, legend, row, short};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{self, Cell, ComparisonRow, Measured};
use schedlab_record::Better;
use std::io::{self, Write};

pub struct Lkml;

/// The title of a table: machine and backend, then variant and baseline.
type Title = (String, String);

impl Exporter for Lkml {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        let mut tables: Vec<(Title, Vec<String>)> = Vec::new();
        let mut cut = Cut::default();
        for group in groups(c) {
            for (cell, metric) in group.iter().flat_map(|cell| c.metrics.iter().map(move |m| (cell, m))) {
                let Some(row) = row(c, cell, metric) else { continue };
                let Some(base) = group.iter().find(|b| b.variant == row.baseline) else { continue };
                let Some(line) = line(c, base, cell, row, &mut cut) else { continue };
                let title = title(c, group, [base, cell], row);
                match tables.iter_mut().find(|(t, _)| *t == title) {
                    Some((_, lines)) => lines.push(line),
                    None => tables.push((title, vec![line])),
                }
            }
        }
        stalled(c, out)?;
        for ((place, what), lines) in &tables {
            writeln!(out, "{}{}", wrap("", what), wrap("", place))?;
            writeln!(out, "{:<16}\t{:<8}\tbaseline(std%)\tcompare%( std%)", "case", "load")?;
            lines.iter().try_for_each(|l| writeln!(out, "{l}"))?;
            writeln!(out)?;
        }
        for (number, name) in cut.0.iter().enumerate() {
            write!(out, "{}", wrap(&format!("[{}] ", number + 1), name))?;
        }
        if let Some(text) = summary(c) {
            write!(out, "{}", wrap("", &text))?;
        }
        warnings(c, out)?;
        write!(out, "{}", wrap("", &columns(c)))
    }
}

/// The most columns of case and load: longer ones would push the tab beyond [`crate::text::WIDTH`] columns.
const CASE: usize = 23;
const LOAD: usize = 15;

/// Names that were cut, numbered from 1 in the text.
#[derive(Default)]
struct Cut(Vec<String>);

impl Cut {
    /// The name in at most `most` columns.
    fn fit(&mut self, name: &str, most: usize) -> String {
        if name.chars().count() <= most {
            return name.to_owned();
        }
        let at = self.0.iter().position(|n| n == name).unwrap_or_else(|| {
            self.0.push(name.to_owned());
            self.0.len() - 1
        });
        let mark = format!("[{}]", at + 1);
        let head: String = name.chars().take(most.saturating_sub(mark.len())).collect();
        head + &mark
    }
}

fn title(c: &Comparison, group: &[Cell], [base, cell]: [&Cell; 2], row: &ComparisonRow) -> Title {
    let (machine, how) = (heading::place(c, group), comparison::how([base, cell]));
    let place = format!(
        "{machine}, {how} {}, {} each",
        heading::kernels([base, cell]),
        schedlab_base::counted(cell.runs, "run")
    );
    (place, format!("{} against {}{}", cell.variant, row.baseline, c.baseline_is.words()))
}

fn line(c: &Comparison, base: &Cell, cell: &Cell, row: &ComparisonRow, cut: &mut Cut) -> Option<String> {
    let (b, v) = (base.metrics.get(&row.metric)?.measured()?, cell.metrics.get(&row.metric)?.measured()?);
    // With one workload the mail is about it; several need names, as schedtests' cases have.
    let metric = short(&row.metric, &cell.workload);
    let several = c.cells.iter().any(|other| other.workload != cell.workload);
    let case = if several { format!("{} {metric}", cell.workload) } else { metric.to_owned() };
    let case = cut.fit(&case, CASE);
    let load = cut.fit(&cell.load, LOAD);
    let mark = row.verdict.mark();
    let spread = |m: &Measured| m.std_pct.map_or_else(|| "     -".to_owned(), |s| format!("{s:6.2}"));
    let change = gain(row, b.better).map_or_else(|| "   new".to_owned(), |g| format!("{g:+6.2}"));
    let neither = if b.better == Better::Neither { "^" } else { "" };
    let flag = row.flag();
    Some(format!(
        "{case:<16}\t{load:<8}\t 1.00 ({})\t{change}{flag:1}({spread}) {mark}{neither}",
        spread(b),
        spread = spread(v)
    ))
}

/// The change in percent, positive for an improvement; `None` if the baseline is 0.
fn gain(row: &ComparisonRow, better: Better) -> Option<f64> {
    row.change_pct.map(|up| if better == Better::Lower { 0.0 - up } else { up })
}

/// The legend of the columns. Marks mean the same as in all text forms.
fn columns(c: &Comparison) -> String {
    let new =
        if c.comparisons.iter().any(|r| r.change_pct.is_none()) { "; new: the baseline is 0" } else { "" };
    format!(
        "compare%: typical change (trimmed, over runs), positive is better (^: no direction is good, plain change){new}. \
         std%: sample standard deviation.{} {}",
        legend::flag(c),
        legend::marks(c)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_names_are_cut_once_and_numbered() {
        let mut cut = Cut::default();
        assert_eq!(cut.fit("short", CASE), "short");
        assert_eq!(cut.fit("domain1.newidle.lb_count", CASE), "domain1.newidle.lb_c[1]");
        assert_eq!(cut.fit("domain1.newidle.lb_failed", CASE), "domain1.newidle.lb_f[2]");
        assert_eq!(cut.fit("domain1.newidle.lb_count", CASE), "domain1.newidle.lb_c[1]");
        assert_eq!(cut.0, ["domain1.newidle.lb_count", "domain1.newidle.lb_failed"]);
    }
}
