//! A row for each variant and a column for each metric: for a few metrics of many variants, as in questions about
//! limits. Values of a variant have their change from the baseline, which is the first row, with its verdict.
//!
//! Two counters of a task group's quota are one column: how many of its periods were throttled.

use crate::heading::{kernels, place};
use crate::number::{change, count, parameters, value};
use crate::table::matrix::{baseline, metrics};
use crate::table::notes;
use crate::text::{WIDTH, stack, stalled, warnings, width, wrap};
use crate::{Exporter, groups, row, short};
use schedlab_base::counted;
use schedlab_compare::Comparison;
use schedlab_compare::comparison::{Cell, CellStat, ComparisonRow, how};
use std::io::{self, Write};

/// The widest name of a variant in one line.
const LONGEST_NAME: usize = 16;
/// Endings of the two counters that are one column, and its heading.
const THROTTLED: (&str, &str, &str) = (".nr_throttled", ".nr_periods", "throttled periods");
const GAP: usize = 2;
/// The width of a change with its mark, behind a value.
const CHANGE: usize = 9;

pub struct Variants;

impl Exporter for Variants {
    fn export(&self, c: &Comparison, out: &mut dyn Write) -> io::Result<()> {
        stalled(c, out)?;
        if !c.experiment.is_empty() {
            writeln!(out, "{}\n", c.experiment)?;
        }
        for group in groups(c) {
            let Some(first) = group.first() else { continue };
            let runs = counted(group.iter().map(|cell| cell.runs).max().unwrap_or(0), "run");
            let what = format!("{} {} on {}", first.workload, first.load, place(c, group));
            let how = how(group) + if first.mode.is_some() { " of" } else { "" };
            write!(out, "{}", wrap("", &format!("{what}, {how} {}, {runs}", kernels(group))))?;
            let set = parameters(&first.workload, &first.params).join(" ");
            if !set.is_empty() {
                write!(out, "{}", wrap("  ", &set))?;
            }
            writeln!(out)?;
            block(c, group, out)?;
            writeln!(out)?;
        }
        notes::legend_with(c, "", out)?;
        notes::missing(c, out)?;
        notes::kept(c, out)?;
        warnings(c, out)
    }
}

/// A column: the heading in words, and the text of each variant.
struct Column {
    heading: String,
    cells: Vec<String>,
}

impl Column {
    fn width(&self) -> usize {
        let widest = self.cells.iter().map(|cell| width(cell)).max().unwrap_or(0);
        widest.max(self.heading.split(['.', ' ']).map(|word| width(word) + 1).max().unwrap_or(0))
    }
}

/// Writes a group. Columns that don't fit continue below, with the variants' names again.
fn block(c: &Comparison, group: &[Cell], out: &mut dyn Write) -> io::Result<()> {
    let base = baseline(c, group);
    let mut order: Vec<&Cell> = group.iter().collect();
    let first = order.remove(base.min(order.len().saturating_sub(1)));
    order.insert(0, first);
    let all = columns(c, &order);
    let name = order.iter().map(|cell| width(label(cell))).max().unwrap_or(0).min(LONGEST_NAME);
    let mut left = all.as_slice();
    while let Some(first) = left.first() {
        let mut used = name + GAP + first.width();
        let mut fits = 1;
        while let Some(next) = left.get(fits).filter(|next| used + GAP + next.width() <= WIDTH) {
            used += GAP + next.width();
            fits += 1;
        }
        part(&order, name, &left[..fits], out)?;
        left = &left[fits..];
        if !left.is_empty() {
            writeln!(out)?;
        }
    }
    Ok(())
}

/// The variant's name without the load's in front, where a load has variants of its own.
pub(crate) fn label(cell: &Cell) -> &str {
    let own = cell.load.rsplit(' ').next().unwrap_or_default();
    cell.variant.strip_prefix(own).and_then(|rest| rest.strip_prefix(' ')).unwrap_or(&cell.variant)
}

fn columns(c: &Comparison, order: &[&Cell]) -> Vec<Column> {
    let Some(first) = order.first() else { return Vec::new() };
    let shown: Vec<&str> = metrics(c, first).collect();
    let mut all = Vec::new();
    for metric in &shown {
        let (throttled, periods, words) = THROTTLED;
        let partner = |from: &str, to: &str| metric.strip_suffix(from).map(|path| format!("{path}{to}"));
        let has = |name: &String| shown.contains(&name.as_str());
        if partner(periods, throttled).is_some_and(|name| has(&name)) {
            continue;
        }
        let of = partner(throttled, periods).filter(has);
        let cells = order.iter().map(|cell| match &of {
            Some(of) => throttling(cell, metric, of),
            None => figure(c, cell, metric),
        });
        let plain = short(metric, &first.workload);
        let plain = plain.strip_prefix("group.").unwrap_or(plain);
        let heading = if of.is_some() { words } else { plain }.to_owned();
        all.push(Column { heading, cells: cells.collect() });
    }
    align(&mut all);
    all
}

/// Values are under each other: one without a change gets blanks in its place.
fn align(columns: &mut [Column]) {
    let marked = |cell: &str| cell.ends_with(['*', '!', '#', '=', '~']);
    for column in columns {
        if column.cells.iter().any(|cell| marked(cell)) {
            let blank = " ".repeat(CHANGE);
            column.cells.iter_mut().filter(|cell| !marked(cell)).for_each(|cell| *cell += &blank);
        }
    }
}

fn mean(cell: &Cell, metric: &str) -> Option<f64> {
    cell.metrics.get(metric).and_then(CellStat::measured).map(|m| m.mean)
}

/// "12 of 50": means over the runs; "-" for a group without a quota.
fn throttling(cell: &Cell, throttled: &str, periods: &str) -> String {
    match (mean(cell, throttled), mean(cell, periods)) {
        (Some(n), Some(all)) => format!("{} of {}", count(n), count(all)),
        _ => "-".to_owned(),
    }
}

fn figure(c: &Comparison, cell: &Cell, metric: &str) -> String {
    let Some(m) = cell.metrics.get(metric).and_then(CellStat::measured) else { return "-".to_owned() };
    let text = value(m.mean, &m.unit);
    let Some(r) = row(c, cell, metric) else { return text };
    let by = r.change_pct.map_or_else(|| "new".to_owned(), change);
    format!("{text} {:>6} {}", format!("{by}{}", ComparisonRow::flag(r)), r.verdict.mark())
}

fn part(order: &[&Cell], name: usize, columns: &[Column], out: &mut dyn Write) -> io::Result<()> {
    let stacks: Vec<Vec<String>> = columns.iter().map(|col| stack_dots(&col.heading, col.width())).collect();
    let height = stacks.iter().map(Vec::len).max().unwrap_or(0);
    for line in 0..height {
        let mut text = " ".repeat(name);
        for (stack, column) in stacks.iter().zip(columns) {
            let at = (line + stack.len()).checked_sub(height).map_or("", |i| stack[i].as_str());
            text += &format!("{:gap$}{at:>w$}", "", gap = GAP, w = column.width());
        }
        writeln!(out, "{}", text.trim_end())?;
    }
    for (n, cell) in order.iter().enumerate() {
        let names = stack(label(cell), name);
        for (i, piece) in names.iter().enumerate() {
            let mut text = format!("{piece:<name$}");
            if i + 1 == names.len() {
                for column in columns {
                    let cell = column.cells.get(n).map_or("", String::as_str);
                    text += &format!("{:gap$}{cell:>w$}", "", gap = GAP, w = column.width());
                }
            }
            writeln!(out, "{}", text.trim_end())?;
        }
    }
    Ok(())
}

/// A metric's name in lines, broken at its dots and at spaces.
fn stack_dots(heading: &str, most: usize) -> Vec<String> {
    let mut lines: Vec<String> = vec![String::new()];
    for piece in heading.split_inclusive(['.', ' ']) {
        let last = lines.last().map_or(0, |line| width(line));
        if last > 0 && last + width(piece.trim_end()) > most {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push_str(piece);
        }
    }
    lines.iter().map(|line| line.trim().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comparison() -> Comparison {
        let metrics = [
            "http.latency.p99",
            "group./service.nr_throttled",
            "group./service.nr_periods",
            "group./service.cpus",
        ];
        let measured = |unit: &str, v: f64| serde_json::json!({ "unit": unit, "better": "lower", "mean": v, "std_pct": 1.0, "values": [v] });
        let cell = |variant: &str, ns: f64, quota: bool| {
            let mut own =
                serde_json::json!({ metrics[0]: measured("ns", ns), metrics[3]: measured("", 0.5) });
            for (metric, n) in [(metrics[1], 12.0), (metrics[2], 50.0)] {
                own[metric] = if quota {
                    measured("", n)
                } else {
                    serde_json::json!({ "missing": "not measured in this run" })
                };
            }
            serde_json::json!({
                "backend": "sim", "machine": "smp-4", "kernel": "v6.12", "workload": "http", "load": "default",
                "params": { "rate": 100 }, "variant": variant, "runs": 10, "seeds": [1], "metrics": own,
            })
        };
        let row = serde_json::json!({
            "backend": "sim", "machine": "smp-4", "workload": "http", "load": "default", "metric": metrics[0],
            "baseline": "as-is 2", "variant": "none", "change_pct": -50.0, "ci95_pct": [-52.0, -48.0], "p": 0.001,
            "verdict": "better", "mean_change_pct": -50.0, "rank_pct": null, "pairs": 10, "correlation": null,
            "detectable_pct": null,
        });
        serde_json::from_value(serde_json::json!({
            "schema": "schedlab/comparison/1", "experiment": "limits-http", "model": 1, "metrics": metrics,
            "min_effect_pct": 2.0, "cells": [cell("none", 1e6, false), cell("as-is 2", 2e6, true)], "comparisons": [row],
            "warnings": [],
        }))
        .unwrap()
    }

    #[test]
    fn a_row_for_each_variant_begins_with_the_baseline_and_counts_throttled_periods() {
        let mut out = Vec::new();
        Variants.export(&comparison(), &mut out).unwrap();
        let text = String::from_utf8(out).unwrap();
        let line = |word: &str| {
            let found = text.lines().find(|l| l.starts_with(word)).unwrap_or_default();
            found.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        assert_eq!(line("as-is"), "as-is 2 2.00ms 12 of 50 0.50", "{text}");
        assert_eq!(line("none"), "none 1.00ms -50% * - 0.50", "{text}");
        assert!(text.find("as-is").unwrap() < text.find("none").unwrap(), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= WIDTH), "{text}");
        assert!(text.contains("throttled") && text.contains("* better"), "{text}");
    }
}
