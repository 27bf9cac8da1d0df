//! One matrix for each load over all machines: a column for each machine, in the order of their CPUs' numbers, as the
//! experiment names them. For each metric the baseline's mean, then the change of each variant with its mark.

use crate::number::{change, value};
use crate::text::{WIDTH, stack, stalled, warnings, width, wrap};
use crate::{Exporter, legend, row, short};
use schedlab_base::each_once;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, how};
use std::io::{self, Write};

/// The narrowest column of a machine.
const COLUMN: usize = 12;
const LABEL: usize = 26;

pub struct Sizes;

impl Exporter for Sizes {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        stalled(c, out)?;
        let mut done: Vec<(&str, &str, &str)> = Vec::new();
        for cell in &c.cells {
            let load = (cell.backend.name(), cell.workload.as_str(), cell.load.as_str());
            if !done.contains(&load) {
                done.push(load);
                let is_of = |o: &&Cell| (o.backend.name(), o.workload.as_str(), o.load.as_str()) == load;
                of_load(c, &c.cells.iter().filter(is_of).collect::<Vec<_>>(), out)?;
            }
        }
        warnings(c, out)?;
        let text = format!("Means of the baseline, and typical changes. {}", legend::marks(c));
        write!(out, "{}", wrap("", &text))
    }
}

/// The matrices of a load: as many machines side by side as fit.
fn of_load(c: &Comparison, cells: &[&Cell], out: &mut dyn Write) -> io::Result<()> {
    let Some(first) = cells.first() else { return Ok(()) };
    let machines = each_once(&cells.iter().map(|cell| cell.machine.clone()).collect::<Vec<_>>());
    write!(out, "{}", wrap("", &format!("{} {}, {}", first.workload, first.load, how([*first]))))?;
    let beside = ((WIDTH - LABEL) / (COLUMN + 1)).max(1);
    for some in machines.chunks(beside) {
        names(some, out)?;
        for metric in c.metrics.iter().filter(|m| cells.iter().any(|cell| cell.metrics.contains_key(*m))) {
            of_metric(c, cells, some, metric, out)?;
        }
        writeln!(out)?;
    }
    Ok(())
}

fn names(machines: &[String], out: &mut dyn Write) -> io::Result<()> {
    let stacks: Vec<Vec<String>> = machines.iter().map(|name| stack(name, COLUMN)).collect();
    let height = stacks.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let at =
            |s: &Vec<String>| (line + s.len()).checked_sub(height).map_or("", |i| s[i].as_str()).to_owned();
        columns("", stacks.iter().map(at), out)?;
    }
    Ok(())
}

fn of_metric(
    c: &Comparison,
    cells: &[&Cell],
    machines: &[String],
    metric: &str,
    out: &mut dyn Write,
) -> io::Result<()> {
    let variants = each_once(&cells.iter().map(|cell| cell.variant.clone()).collect::<Vec<_>>());
    let Some(first) = cells.first() else { return Ok(()) };
    columns(short(metric, &first.workload), machines.iter().map(|_| String::new()), out)?;
    for variant in variants {
        let shown = |machine: &String| {
            let own = cells.iter().find(|cell| cell.machine == *machine && cell.variant == variant);
            own.map_or_else(|| "-".to_owned(), |cell| figure(c, cell, metric))
        };
        columns(&format!("  {variant}"), machines.iter().map(shown), out)?;
    }
    Ok(())
}

/// A baseline's mean, or a variant's change with its flag and mark.
fn figure(c: &Comparison, cell: &Cell, metric: &str) -> String {
    if let Some(r) = row(c, cell, metric) {
        let by = r.change_pct.map_or_else(|| "new".to_owned(), change);
        return format!("{by}{} {}", r.flag(), r.verdict.mark());
    }
    let measured = cell.metrics.get(metric).and_then(CellStat::measured);
    measured.map_or_else(|| "-".to_owned(), |m| format!("{}  ", value(m.mean, &m.unit)))
}

fn columns(label: &str, figures: impl Iterator<Item = String>, out: &mut dyn Write) -> io::Result<()> {
    let mut text = format!("{label:<LABEL$}");
    if width(label) > LABEL {
        writeln!(out, "{label}")?;
        text = " ".repeat(LABEL);
    }
    figures.for_each(|figure| text += &format!(" {figure:>COLUMN$}"));
    writeln!(out, "{}", text.trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_are_side_by_side() {
        let cell = |machine: &str, variant: &str| {
            serde_json::json!({
                "backend": "sim", "machine": machine, "kernel": "v6.5", "workload": "pipe", "load": "one", "params": {},
                "variant": variant, "runs": 1, "seeds": [1],
                "metrics": { "migrations": { "unit": "", "better": "lower", "mean": 40.0, "std_pct": null, "values": [40.0] } },
            })
        };
        let row = |machine: &str, pct: f64| {
            serde_json::json!({
                "backend": "sim", "machine": machine, "workload": "pipe", "load": "one", "metric": "migrations",
                "baseline": "v6.5", "variant": "mine", "change_pct": pct, "ci95_pct": null, "p": 1.0, "verdict": "worse",
                "mean_change_pct": null, "rank_pct": null, "pairs": 0, "correlation": null, "detectable_pct": null,
            })
        };
        let cells: Vec<_> =
            ["smp-2", "smp-8"].iter().flat_map(|m| [cell(m, "v6.5"), cell(m, "mine")]).collect();
        let c: Comparison = serde_json::from_value(serde_json::json!({
            "schema": "schedlab/comparison/1", "experiment": "", "model": 1, "metrics": ["migrations"], "min_effect_pct": 2.0,
            "cells": cells, "comparisons": [row("smp-2", 5.0), row("smp-8", -50.0)], "warnings": [],
        }))
        .unwrap();
        let mut out = Vec::new();
        Sizes.export(&c, &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = |word: &str| {
            let found = text.lines().find(|l| l.trim_start().starts_with(word)).unwrap_or_default();
            found.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            (line("smp-2"), line("v6.5")),
            ("smp-2 smp-8".to_owned(), "v6.5 40 40".to_owned()),
            "{text}"
        );
        assert_eq!(line("mine"), "mine +5.0% ! -50% !", "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
    }
}
