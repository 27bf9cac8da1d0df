//! Means as multiples of the baseline's, as in postings: the baseline is 1, each mean has its standard deviation, and a
//! published figure is a multiple of its own baseline.
//!
//! The ratio is between plain means. The verdict is the comparison's.

use crate::text::{WIDTH, warnings};
use crate::{Exporter, groups, heading, published, row, short};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, how};
use std::io::{self, Write};

pub struct Normal;

impl Exporter for Normal {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        for group in groups(c) {
            let Some(base) = baseline(c, group) else { continue };
            writeln!(
                out,
                "{} {} on {}, {}",
                base.workload,
                base.load,
                heading::place(c, group),
                if base.level.is_some() { how(group) } else { base.backend.to_string() }
            )?;
            for metric in c.metrics.iter().filter(|m| mean(base, m).is_some()) {
                writeln!(out, "  {}", short(metric, &base.workload))?;
                for cell in group {
                    line(c, (base, cell), metric, out)?;
                }
            }
            writeln!(out)?;
        }
        writeln!(out, "Means in multiples of the baseline's, with their standard deviation over runs.")?;
        warnings(c, out)
    }
}

/// The cell with which the other cells of a group are compared.
fn baseline<'a>(c: &Comparison, group: &'a [Cell]) -> Option<&'a Cell> {
    let first = group.first()?;
    let of_group = |r: &&schedlab_compare::comparison::ComparisonRow| {
        (&r.backend, &r.machine, &r.workload, &r.load)
            == (&first.backend, &first.machine, &first.workload, &first.load)
    };
    let name = c.comparisons.iter().find(of_group).map(|r| &r.baseline);
    group.iter().find(|cell| name.is_none_or(|n| *n == cell.variant))
}

/// A mean that can be a divisor.
fn mean(cell: &Cell, metric: &str) -> Option<f64> {
    match cell.metrics.get(metric)? {
        CellStat::Measured(m) => (m.mean > 0.0).then_some(m.mean),
        CellStat::Missing { .. } => None,
    }
}

fn line(c: &Comparison, (base, cell): (&Cell, &Cell), metric: &str, out: &mut dyn Write) -> io::Result<()> {
    let (ratio, std) = match cell.metrics.get(metric) {
        Some(CellStat::Measured(m)) => {
            let ratio = mean(base, metric).map_or_else(|| "-".to_owned(), |b| format!("{:.3}", m.mean / b));
            (ratio, m.std_pct.map_or_else(String::new, |s| format!("({s:.1}%)")))
        }
        _ => ("-".to_owned(), String::new()),
    };
    let r = row(c, cell, metric);
    let verdict = r.map_or("", |r| r.verdict.word());
    let known = published(c, base, metric).filter(|p| p.value > 0.0).zip(published(c, cell, metric));
    let known = known.map_or_else(String::new, |(b, own)| format!("published {:.3}", own.value / b.value));
    let text = format!("    {:<22} {ratio:>8} {std:>9}  {verdict:<8} {known}", cell.variant);
    debug_assert!(cell.variant.len() > 22 || text.trim_end().len() <= WIDTH);
    writeln!(out, "{}", text.trim_end())
}
