//! The rows of a comparison: every variant against its baseline, metric by metric. A row is opened with its
//! estimate and judged when all are known, since Holm's correction takes all p-values.

use super::group::CellRuns;
use super::{Cell, Counted, Question, Row, units};
use crate::experiment::DEFAULT_RUNS;
use crate::stats::{self, Change, Direction, Limits, Verdict};
use crate::uncertainty::values;
use schedlab_base::Warning;
use schedlab_record::Better;

/// A row that is not judged yet.
pub struct Open {
    row: Row,
    change: Change,
    direction: Direction,
    /// Runs of the smaller of the two cells.
    runs: usize,
}

/// The rows of a group whose baseline is its cell `base`.
pub fn of_group(
    runs: &[CellRuns<'_>],
    base: usize,
    cells: &[Cell],
    metrics: &[String],
    question: &Question,
) -> Vec<Open> {
    let others = cells.iter().enumerate().filter(|(i, _)| *i != base);
    let rows = others.flat_map(|(i, _)| metrics.iter().map(move |metric| (i, metric)));
    rows.filter_map(|(i, metric)| open((&runs[base], &cells[base]), (&runs[i], &cells[i]), metric, question))
        .collect()
}

/// `None` if one of the two cells has no value.
fn open(
    (base_runs, base): (&CellRuns<'_>, &Cell),
    (runs, cell): (&CellRuns<'_>, &Cell),
    metric: &str,
    question: &Question,
) -> Option<Open> {
    let better = base.metrics[metric].measured()?.better;
    cell.metrics[metric].measured()?;
    if !units::same(base, cell, metric) {
        return None;
    }
    let change = stats::change(&values(&base_runs.runs, metric), &values(&runs.runs, metric));
    let direction = match better {
        Better::Lower => Direction::Lower,
        Better::Higher => Direction::Higher,
        Better::Neither => Direction::Neither,
    };
    let row = Row {
        backend: cell.backend.clone(),
        machine: cell.machine.clone(),
        workload: cell.workload.clone(),
        load: cell.load.clone(),
        metric: metric.to_owned(),
        baseline: base.variant.clone(),
        variant: cell.variant.clone(),
        change_pct: change.change_pct,
        ci95_pct: change.ci95_pct,
        p: change.p,
        verdict: Verdict::Unclear,
        mean_change_pct: change.mean_change_pct,
        astray: is_astray(&change, question.min_effect_pct),
        rank_pct: change.rank_pct.map(|s| [s.interval[0], s.estimate, s.interval[1]]),
        pairs: change.pairs,
        correlation: change.correlation,
        detectable_pct: change.detectable_pct,
        min_effect_pct: question.floors.above(base_runs.runs[0], metric, question.min_effect_pct),
        why: None,
    };
    Some(Open { row, change, direction, runs: base.runs.min(cell.runs) })
}

/// Whether the ratio of the means does not fit the change: it lies outside the change's interval by the
/// minimum effect or more. A few wild runs move a mean but not the trimmed change.
fn is_astray(c: &Change, min_effect_pct: f64) -> bool {
    let (Some(change), Some([low, high])) = (c.change_pct, c.ci95_pct) else { return false };
    // From a mean of 0 to another there is no percentage, and any change does not fit "no change".
    let Some(means) = c.mean_change_pct else { return true };
    !(low..=high).contains(&means) && (means - change).abs() >= min_effect_pct
}

/// One line for all rows whose cells have fewer runs than a rank test needs to decide. Cells of a single run
/// are not counted: they are no comparison, and the tables say so themselves.
pub fn too_few_runs(open: &[Open]) -> Option<Counted> {
    let few = || open.iter().filter(|o| o.runs > 1 && o.runs < stats::fewest(&o.change));
    let least = few().map(|o| o.runs).min()?;
    let needed = few().map(|o| stats::fewest(&o.change)).max()?;
    let which = match few().count() {
        n if n == open.len() => "these rows".to_owned(),
        n => format!("{n} of {} rows", open.len()),
    };
    let text = format!(
        "{which} can show no change with {least} runs of a cell, however large it is: that takes {needed} runs or more \
         ({DEFAULT_RUNS} are usual)"
    );
    Some(Counted { warning: Warning::new("runs.few", text), runs: 0 })
}

/// Gives every row its verdict.
pub fn judge(open: Vec<Open>, min_effect_pct: f64) -> Vec<Row> {
    let corrected = stats::holm(&open.iter().map(|o| o.change.p).collect::<Vec<_>>());
    let one = |(o, p): (Open, f64)| {
        let limits = Limits::with_floor(min_effect_pct, o.row.min_effect_pct);
        let (verdict, why) = stats::verdict(&o.change, p, o.direction, limits);
        Row { p, verdict, why, ..o.row }
    };
    open.into_iter().zip(corrected).map(one).collect()
}

/// The note below a comparison in which floors decided.
pub(super) fn floors_note(rows: &[Row], min_effect_pct: f64) -> Option<Counted> {
    let of = |r: &Row| r.min_effect_pct.map(|pct| format!("{} {} {pct:.1}%", r.workload, r.metric));
    let mut told: Vec<String> = rows.iter().filter_map(of).collect();
    told.sort();
    told.dedup();
    let text = format!(
        "this machine's noise floor ('schedlab doctor') is the smallest change that counts for {}; what counts as the same stays \
         {min_effect_pct}%",
        told.join(", ")
    );
    (!told.is_empty()).then(|| Counted { warning: Warning::new("noise.floor", text), runs: 0 })
}
