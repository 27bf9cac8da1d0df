//! Go benchmark text (Go proposal 14313), which benchstat reads: `key: value` lines, `Unit` lines with the direction,
//! and a result line for each run, so that benchstat has the samples. Units are "METRIC-ns" and the like; benchstat
//! scales units that end in -ns by itself.

use crate::{Exporter, groups};
use schedlab_compare::Comparison;
use schedlab_compare::comparison::Cell;
use schedlab_compare::tools::own::percent::{escape, escaped};
use schedlab_record::Better;
use std::io::{self, Write};

/// The exporter.
pub struct GoBench;

impl Exporter for GoBench {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        if !c.experiment.is_empty() {
            writeln!(out, "experiment: {}", c.experiment)?;
        }
        units(c, out)?;
        for group in groups(c) {
            let Some(first) = group.first() else { continue };
            // benchstat makes a table for each set of these lines, so there is none for the kernel; variants name it.
            writeln!(out, "backend: {}\nmachine: {}", first.backend, first.machine)?;
            group.iter().try_for_each(|cell| results(c, cell, out))?;
        }
        Ok(())
    }
}

fn units(c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
    for metric in &c.metrics {
        let Some(m) = c.cells.iter().find_map(|cell| cell.metrics.get(metric)?.measured()) else { continue };
        if m.better != Better::Neither {
            writeln!(out, "Unit {} better={}", unit(metric, &m.unit), m.better.name())?;
        }
    }
    Ok(())
}

fn results(c: &Comparison, cell: &Cell, out: &mut dyn Write) -> io::Result<()> {
    let name = name(cell);
    for run in 0..cell.runs {
        let mut line = String::new();
        for metric in &c.metrics {
            let Some(m) = cell.metrics.get(metric).and_then(|s| s.measured()) else { continue };
            if let Some(v) = m.values.get(run) {
                line.push_str(&format!(" {v} {}", unit(metric, &m.unit)));
            }
        }
        if !line.is_empty() {
            writeln!(out, "{name} 1{line}")?;
        }
    }
    Ok(())
}

/// The unit of a metric, without spaces ([`escaped`]); the unit of a plain count is the metric's name.
fn unit(metric: &str, unit: &str) -> String {
    let (metric, unit) = (escaped(metric, &[]), escaped(unit, &[]));
    if unit.is_empty() { metric } else { format!("{metric}-{unit}") }
}

/// `BenchmarkSchbench/load=2x24/variant=v4.5`. The format wants no lower-case letter after the word and no spaces,
/// parts names at slashes, and reads "-8" at the end as a number of CPUs. Such characters are escaped, and come back
/// when schedlab reads the text. A first capital letter is escaped, too, since a small one becomes one.
fn name(cell: &Cell) -> String {
    let clean = |s: &str| escaped(s, &['/']);
    let mut letters = cell.workload.chars();
    let workload = match letters.next() {
        Some(c) if c.is_ascii_lowercase() => c.to_ascii_uppercase().to_string() + &clean(letters.as_str()),
        Some(c) if c.is_alphabetic() => escape(c) + &clean(letters.as_str()),
        _ => clean(&cell.workload),
    };
    let name = format!("Benchmark{workload}/load={}/variant={}", clean(&cell.load), clean(&cell.variant));
    match name.rsplit_once('-') {
        Some((head, tail)) if !tail.is_empty() && tail.bytes().all(|b| b.is_ascii_digit()) => {
            format!("{head}{}{tail}", escape('-'))
        }
        _ => name,
    }
}
