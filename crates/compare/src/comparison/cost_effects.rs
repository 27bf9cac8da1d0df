//! How drawn costs affect each figure of a comparison: the baselines' values, and every variant's change.

use super::group::CellRuns;
use super::{Cell, ComparisonRow, DrawnEffect};
use crate::uncertainty::{Sway, of_change, of_value};

/// The cells of a group, and the metrics shown.
pub struct Section<'a> {
    pub runs: &'a [CellRuns<'a>],
    /// Index of the section's first cell among the comparison's cells.
    pub first: usize,
    /// Index of the baseline within the section.
    pub base: Option<usize>,
    pub metrics: Vec<String>,
}

/// All effects, metric by metric: that on the baseline's value (without a baseline, the first cell's), then those on
/// the changes.
pub fn effects(
    sections: &[Section<'_>],
    cells: &[Cell],
    rows: &[ComparisonRow],
    min_effect_pct: f64,
) -> Vec<DrawnEffect> {
    let drawn = |s: &&Section<'_>| s.runs.iter().any(|c| c.runs.iter().any(|r| !r.drawn.is_empty()));
    sections.iter().filter(drawn).flat_map(|s| section(s, cells, rows, min_effect_pct)).collect()
}

fn section(s: &Section<'_>, cells: &[Cell], rows: &[ComparisonRow], min_effect_pct: f64) -> Vec<DrawnEffect> {
    let base = s.base.unwrap_or(0);
    let mut all = Vec::new();
    for metric in &s.metrics {
        for (i, (own, cell)) in s.runs.iter().zip(&cells[s.first..]).enumerate() {
            let row = rows.iter().find(|r| is_of(r, cell, metric));
            let sway = match row {
                Some(row) => {
                    let base = &s.runs[base].runs;
                    of_change(base, &own.runs, metric, row.verdict, min_effect_pct)
                }
                None if i == base => of_value(&own.runs, metric),
                None => None,
            };
            all.extend(sway.map(|sway| effect(cell, metric, row.map(|r| r.baseline.clone()), sway)));
        }
    }
    all
}

fn is_of(row: &ComparisonRow, cell: &Cell, metric: &str) -> bool {
    (&row.backend, &row.machine, &row.workload, &row.load, &row.variant)
        == (&cell.backend, &cell.machine, &cell.workload, &cell.load, &cell.variant)
        && row.metric == metric
}

fn effect(cell: &Cell, metric: &str, baseline: Option<String>, sway: Sway) -> DrawnEffect {
    DrawnEffect {
        machine: cell.machine.clone(),
        workload: cell.workload.clone(),
        load: cell.load.clone(),
        metric: metric.to_owned(),
        baseline,
        variant: cell.variant.clone(),
        sway,
    }
}
