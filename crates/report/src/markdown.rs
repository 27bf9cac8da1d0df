//! One Markdown table: a row for each load, metric and variant.

use crate::number::{percent, signed, value};
use crate::{Exporter, groups, row, short};
use schedlab_lab::Comparison;
use schedlab_lab::compare::{Cell, Stat};
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
                writeln!(out, "{}", line(c, cell, metric))?;
            }
        }
        if !c.warnings.is_empty() {
            writeln!(out)?;
        }
        c.warnings.iter().try_for_each(|w| writeln!(out, "- warning: {}", w.warning.message))
    }
}

fn line(c: &Comparison, cell: &Cell, metric: &str) -> String {
    let (mean, std) = match cell.metrics.get(metric) {
        Some(Stat::Measured(m)) => {
            (value(m.mean, &m.unit), m.std_pct.map_or_else(String::new, |s| format!("{s:.1}%")))
        }
        Some(Stat::Missing { missing }) => (format!("- ({missing})"), String::new()),
        None => (String::new(), String::new()),
    };
    let r = row(c, cell, metric);
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
        r.map_or_else(|| "baseline".to_owned(), |r| r.verdict.word().to_owned()),
    ];
    // A bar would end the field.
    format!("| {} |", fields.map(|f| f.replace('|', "\\|")).join(" | "))
}
