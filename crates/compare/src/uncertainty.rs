//! How the model's uncertainty affects a result: which drawn costs affect it, how far, and whether the verdict holds.
//!
//! Under `--uncertainty` run i of every variant draws the same costs from their stated ranges
//! ([`Machine::draw`](schedlab_machine::Machine::draw)), so variants stay paired and the spread over runs includes that
//! of the costs. This module correlates each drawn cost with a metric's value, or with the change of each pair, by
//! Spearman's rank correlation: costs act in curves and steps, and ranks need only a direction. p-values are corrected
//! by Holm's method over the costs of one result, because two of forty costs are "significant" by chance.

use crate::metrics;
use crate::stats::describe::{median_sorted, sorted};
use crate::stats::spearman::{Spearman, spearman};
use crate::stats::{ALPHA, PairChange, RunValue, Verdict, holm, pair_changes};
use schedlab_machine::{Drawn, Span};
use schedlab_record::Record;
use serde::{Deserialize, Serialize};

/// Default number of runs of each cell when costs are drawn. With these, a cost that explains a quarter of the spread
/// of ranks (rho 0.5) is significant even among forty.
pub const DEFAULT_DRAWS: u64 = 40;
/// The most costs kept for each result.
const KEPT: usize = 3;

/// How drawn costs affect one value or change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sway {
    /// Number of draws with the result.
    pub draws: usize,
    /// Number of drawn costs and idle states, for which p-values are corrected.
    pub costs: usize,
    /// Number of draws that, taken alone, agree with the verdict: by the sign of the change or, for "same", because the
    /// change is within the minimum effect. `None` for values, and if the verdict is "unclear".
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agree: Option<usize>,
    /// The costs with the strongest correlation, strongest first.
    pub movers: Vec<Mover>,
}

/// A drawn cost and its effect on a result.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Mover {
    /// The cost and the range from which it was drawn.
    #[serde(flatten)]
    pub cost: Span,
    /// Rank correlation of cost and result, -1 to 1.
    pub rho: f64,
    /// Its p-value, corrected for the number of costs.
    pub p: f64,
    /// Median of the result over the third of the draws with the lowest cost: a value in the metric's unit, or a change
    /// in percent; `None` if there is no percentage.
    pub low: Option<f64>,
    /// The same over the third with the highest cost.
    pub high: Option<f64>,
}

impl Mover {
    /// Whether the correlation is significant among all drawn costs.
    pub fn beyond_chance(&self) -> bool {
        self.p < ALPHA
    }
}

/// A result of one draw.
pub struct Point<'a> {
    /// The drawn costs, of the same figures at every point.
    pub drawn: &'a [Drawn],
    /// The value by which results are ranked.
    pub rank_by: f64,
    /// The value to show.
    pub shown: Option<f64>,
}

/// How drawn costs affect a metric's value; `None` if no cost was drawn, or no value measured.
pub fn of_value(runs: &[&Record], metric: &str) -> Option<Sway> {
    let point = |r: &&'_ Record| metrics::evaluate(r, metric).value.number();
    let points: Vec<Point<'_>> = runs
        .iter()
        .filter_map(|r| point(r).map(|v| Point { drawn: &r.drawn, rank_by: v, shown: Some(v) }))
        .collect();
    sway(&points, None)
}

/// How drawn costs affect the change from a baseline, pair by pair; `None` if no cost was drawn, or no pair measured.
pub fn of_change(
    base: &[&Record],
    variant: &[&Record],
    metric: &str,
    verdict: Verdict,
    min_effect_pct: f64,
) -> Option<Sway> {
    let changes = pair_changes(&values(base, metric), &values(variant, metric));
    let point =
        |c: &PairChange| Some(Point { drawn: drawn_in(variant, c.seed)?, rank_by: c.shift, shown: c.pct });
    let points: Vec<Point<'_>> = changes.iter().map(point).collect::<Option<_>>()?;
    sway(&points, agreeing(&changes, verdict, min_effect_pct))
}

/// Number of draws that, taken alone, agree with the verdict ([`Sway::agree`]).
fn agreeing(changes: &[PairChange], verdict: Verdict, min_effect_pct: f64) -> Option<usize> {
    let shifts: Vec<f64> = changes.iter().map(|c| c.shift).collect();
    let typical = median_sorted(&sorted(&shifts));
    match verdict {
        Verdict::Unclear => None,
        Verdict::Same => {
            Some(changes.iter().filter(|c| c.pct.is_some_and(|p| p.abs() <= min_effect_pct)).count())
        }
        Verdict::Better | Verdict::Worse | Verdict::Changed => {
            Some(shifts.iter().filter(|s| **s * typical > 0.0).count())
        }
    }
}

fn drawn_in<'a>(runs: &[&'a Record], seed: u64) -> Option<&'a [Drawn]> {
    runs.iter().find(|r| r.seed == seed).map(|r| r.drawn.as_slice())
}

pub(crate) fn values(runs: &[&Record], metric: &str) -> Vec<RunValue> {
    let of = |r: &&Record| {
        metrics::evaluate(r, metric).value.number().map(|value| RunValue { seed: r.seed, value })
    };
    runs.iter().filter_map(of).collect()
}

/// The drawn costs that correlate with a result; `None` if there is no result, or no cost was drawn.
pub fn sway(points: &[Point<'_>], agree: Option<usize>) -> Option<Sway> {
    let first = points.first().filter(|p| !p.drawn.is_empty())?;
    let results: Vec<f64> = points.iter().map(|p| p.rank_by).collect();
    let related = |span: &Span| {
        let costs = points.iter().map(|p| value_of(p.drawn, &span.name)).collect::<Option<Vec<f64>>>()?;
        Some((span.clone(), spearman(&costs, &results)?, costs))
    };
    let mut all: Vec<(Span, Spearman, Vec<f64>)> =
        first.drawn.iter().filter_map(|d| related(&d.span)).collect();
    let corrected = holm(&all.iter().map(|(_, s, _)| s.p).collect::<Vec<_>>());
    for ((_, s, _), p) in all.iter_mut().zip(corrected) {
        s.p = p;
    }
    all.sort_by(|(_, a, _), (_, b, _)| b.rho.abs().total_cmp(&a.rho.abs()));
    let mover = |(cost, Spearman { rho, p }, costs): (Span, Spearman, Vec<f64>)| {
        let [low, high] = thirds(&costs, points);
        Mover { cost, rho, p, low, high }
    };
    let (draws, costs) = (points.len(), first.drawn.len());
    Some(Sway { draws, costs, agree, movers: all.into_iter().take(KEPT).map(mover).collect() })
}

fn value_of(drawn: &[Drawn], name: &str) -> Option<f64> {
    drawn.iter().find(|d| d.span.name == name).map(|d| d.value as f64)
}

/// Medians of the shown results, over the thirds of draws with the lowest and the highest cost.
fn thirds(costs: &[f64], points: &[Point<'_>]) -> [Option<f64>; 2] {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by(|a, b| costs[*a].total_cmp(&costs[*b]));
    let n = (order.len() / 3).max(1);
    let median = |places: &[usize]| {
        let shown = places.iter().map(|at| points[*at].shown).collect::<Option<Vec<f64>>>()?;
        Some(median_sorted(&sorted(&shown)))
    };
    [median(&order[..n]), median(&order[order.len() - n..])]
}
