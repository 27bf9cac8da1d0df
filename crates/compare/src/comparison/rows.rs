//! The rows of a comparison: every variant against its baseline, metric by metric. A row first gets its values; it is
//! judged when all rows are known, because Holm's correction needs all p-values.

use super::group::CellRuns;
use super::model::{Cell, ComparisonRow, CountedWarning};
use super::question::{DEFAULT_RUNS, Question};
use super::{own_results, units};
use crate::stats::{self, Change, Decided, Direction, Limits, Looks, Table, Verdict};
use crate::uncertainty::values;
use schedlab_base::{Warning, counted};
use schedlab_record::Better;

/// The code of the warning about cells with too few runs.
pub const FEW_RUNS: &str = "runs.few";

/// A row that is not judged yet.
pub struct OpenRow {
    row: ComparisonRow,
    asked: Table,
}

/// The rows of a group whose baseline is its cell `base`.
pub fn of_group(
    runs: &[CellRuns<'_>],
    base: usize,
    cells: &[Cell],
    metrics: &[String],
    question: &Question,
) -> Vec<OpenRow> {
    let others = cells.iter().enumerate().filter(|(i, _)| *i != base);
    let rows = others.flat_map(|(i, _)| metrics.iter().map(move |metric| (i, metric)));
    rows.filter_map(|(i, metric)| open((&runs[base], &cells[base]), (&runs[i], &cells[i]), metric, question))
        .collect()
}

/// The row of a metric; `None` if one of the two cells has no value.
fn open(
    (base_runs, base): (&CellRuns<'_>, &Cell),
    (runs, cell): (&CellRuns<'_>, &Cell),
    metric: &str,
    question: &Question,
) -> Option<OpenRow> {
    let better = base.metrics[metric].measured()?.better;
    cell.metrics[metric].measured()?;
    if !units::same(base, cell, metric) {
        return None;
    }
    let direction = match better {
        Better::Lower => Direction::Lower,
        Better::Higher => Direction::Higher,
        Better::Neither => Direction::Neither,
    };
    let floor = question.floors.above(base_runs.runs[0], metric, question.min_effect_pct);
    let asked = Table {
        base: values(&base_runs.runs, metric),
        variant: values(&runs.runs, metric),
        first_seed: base.seeds.iter().chain(&cell.seeds).min().copied().unwrap_or(0),
        runs: base.runs.min(cell.runs) as u64,
        own: own_results::is_own(question, base_runs, metric),
        direction,
        limits: Limits::with_floor(question.min_effect_pct, floor),
    };
    let row = ComparisonRow {
        backend: cell.backend.clone(),
        machine: cell.machine.clone(),
        workload: cell.workload.clone(),
        load: cell.load.clone(),
        metric: metric.to_owned(),
        baseline: base.variant.clone(),
        variant: cell.variant.clone(),
        own: asked.own,
        change_pct: None,
        ci95_pct: None,
        p: 1.0,
        verdict: Verdict::Unclear,
        mean_change_pct: None,
        astray: false,
        rank_pct: None,
        pairs: 0,
        correlation: None,
        detectable_pct: None,
        min_effect_pct: floor,
        look: None,
        why: None,
    };
    Some(OpenRow { row, asked })
}

fn judged(row: ComparisonRow, found: Decided, min_effect_pct: f64) -> ComparisonRow {
    let Decided { change, at, verdict, why, look } = found;
    ComparisonRow {
        change_pct: change.change_pct,
        ci95_pct: change.ci95_pct,
        p: at.p,
        verdict,
        mean_change_pct: change.mean_change_pct,
        astray: is_astray(&change, min_effect_pct),
        rank_pct: change.rank_pct.map(|s| [s.interval[0], s.estimate, s.interval[1]]),
        pairs: change.pairs,
        correlation: change.correlation,
        detectable_pct: change.detectable_pct(at.level),
        look: look.map(|k| k + 1),
        why,
        ..row
    }
}

/// Whether the ratio of the means does not fit the change: it is outside the change's interval by at least the minimum
/// effect. A few extreme runs move a mean but not the trimmed change.
fn is_astray(c: &Change, min_effect_pct: f64) -> bool {
    let (Some(change), Some([low, high])) = (c.change_pct, c.ci95_pct) else { return false };
    // A percentage from 0 does not exist, and any change contradicts "no change".
    let Some(means) = c.mean_change_pct else { return true };
    !(low..=high).contains(&means) && (means - change).abs() >= min_effect_pct
}

/// One line for all rows whose cells have too few runs for a rank test to decide. Cells with a single run don't count:
/// they are not compared, and tables say so.
pub fn too_few_runs(judged: &[JudgedRows]) -> Option<CountedWarning> {
    let few = || judged.iter().filter(|j| j.runs > 1 && j.has_too_few());
    let least = few().map(|j| j.runs).min()?;
    let needed = few().map(|j| j.fewest).max()?;
    let which = match few().count() {
        n if n == judged.len() => "these rows".to_owned(),
        n => format!("{n} of {}", counted(judged.len(), "row")),
    };
    let text = format!(
        "{which} can show no change with {} of a cell, however large it is: that takes {needed} runs or more \
         ({DEFAULT_RUNS} are usual)",
        counted(least, "run")
    );
    Some(CountedWarning::of_all(Warning::new(FEW_RUNS, text)))
}

/// The fewest runs of a cell with which some row could show a change; `None` if a row already can, or there is no row.
pub fn runs_needed(judged: &[JudgedRows]) -> Option<u64> {
    let all = judged.iter().all(JudgedRows::has_too_few);
    judged.iter().map(|j| j.fewest).min().filter(|_| all)
}

pub struct JudgedRows {
    pub row: ComparisonRow,
    /// Runs of the smaller of the two cells.
    runs: u64,
    /// The fewest runs with which a change like this could be shown.
    fewest: u64,
}

impl JudgedRows {
    /// Whether its cells have fewer runs than any test needs.
    fn has_too_few(&self) -> bool {
        self.runs < self.fewest
    }
}

/// Gives every row its verdict.
pub fn judge(open: Vec<OpenRow>, looks: &Looks, min_effect_pct: f64) -> Vec<JudgedRows> {
    let (rows, asked): (Vec<ComparisonRow>, Vec<Table>) = open.into_iter().map(|o| (o.row, o.asked)).unzip();
    let one = |((row, asked), found): ((ComparisonRow, Table), Decided)| {
        let fewest = asked.fewest_runs(looks);
        JudgedRows { row: judged(row, found, min_effect_pct), runs: asked.runs, fewest }
    };
    let found = stats::decide(&asked, looks);
    rows.into_iter().zip(asked).zip(found).map(one).collect()
}

/// The note about noise floors that decided rows.
pub(super) fn floors_note(rows: &[ComparisonRow], min_effect_pct: f64) -> Option<CountedWarning> {
    let of = |r: &ComparisonRow| r.min_effect_pct.map(|pct| format!("{} {} {pct:.1}%", r.workload, r.metric));
    let mut raised: Vec<String> = rows.iter().filter_map(of).collect();
    raised.sort();
    raised.dedup();
    let text = format!(
        "this machine's noise floor ('schedlab doctor') is the smallest change that counts for {}; what counts as the same stays \
         {min_effect_pct}%",
        raised.join(", ")
    );
    (!raised.is_empty()).then(|| CountedWarning::of_all(Warning::new("noise.floor", text)))
}
