//! One Markdown table: a row for each load, metric and variant.

use crate::number::{percent, signed, value};
use crate::uncertainty::summary;
use crate::{Exporter, groups, legend, row, short};
use schedlab_lab::Comparison;
use schedlab_lab::compare::{Cell, Row, Stat};
use std::io::{self, Write};

/// The exporter.
pub struct Markdown;

impl Exporter for Markdown {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        writeln!(
            out,
            "| machine | load | metric | variant | mean | std | change | 95% interval | verdict |"
        )?;
        writeln!(out, "| --- | --- | --- | --- | ---: | ---: | ---: | ---: | --- |")?;
        for group in groups(c) {
            for (metric, cell) in c.metrics.iter().flat_map(|m| group.iter().map(move |cell| (m, cell))) {
                if let Some(stat) = cell.metrics.get(metric) {
                    writeln!(out, "{}", line(c, cell, metric, stat))?;
                }
            }
        }
        if let Some(text) = summary(c) {
            writeln!(out, "\n{text}")?;
        }
        if !c.comparisons.is_empty() {
            writeln!(out, "\n{}", words(c))?;
        }
        if !c.warnings.is_empty() {
            writeln!(out)?;
        }
        c.warnings.iter().try_for_each(|w| writeln!(out, "- warning: {}", w.warning.message))
    }
}

fn line(c: &Comparison, cell: &Cell, metric: &str, stat: &Stat) -> String {
    let (mean, std) = match stat {
        Stat::Measured(m) => {
            (value(m.mean, &m.unit), m.std_pct.map_or_else(String::new, |s| format!("{s:.1}%")))
        }
        Stat::Missing { missing } => (format!("- ({missing})"), String::new()),
    };
    let r = row(c, cell, metric);
    let mean = mean + r.map_or("", Row::flag);
    let fields = [
        cell.machine.clone(),
        format!("{} {}", cell.workload, cell.load),
        short(metric, &cell.workload).to_owned(),
        cell.variant.clone(),
        mean,
        std,
        r.and_then(|r| r.change_pct).map_or_else(String::new, percent),
        r.and_then(|r| r.ci95_pct)
            .map_or_else(String::new, |[a, b]| format!("{} to {}", signed(a), signed(b))),
        match r {
            Some(r) => r.verdict.word().to_owned(),
            None if is_baseline(c, cell) => "baseline".to_owned(),
            None => String::new(),
        },
    ];
    // A bar would end the field.
    format!("| {} |", fields.map(|f| f.replace('|', "\\|")).join(" | "))
}

/// The legend of the columns.
fn words(c: &Comparison) -> String {
    format!(
        "Mean and std over runs; change: typical, trimmed, over runs.{} {}",
        legend::flag(c),
        legend::words(c)
    )
}

/// Whether the other cells of its group are compared with this cell, or it is alone.
fn is_baseline(c: &Comparison, cell: &Cell) -> bool {
    let group = c.cells.iter().filter(|other| other.same_group(cell));
    let of_group = |r: &&Row| {
        (&r.backend, &r.machine, &r.workload, &r.load)
            == (&cell.backend, &cell.machine, &cell.workload, &cell.load)
    };
    match c.comparisons.iter().find(of_group) {
        Some(r) => r.baseline == cell.variant,
        None => group.count() == 1,
    }
}
