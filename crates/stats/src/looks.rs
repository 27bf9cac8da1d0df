//! Looks: the same rows are tested several times while runs come in, and the probability of a false alarm stays 5 %.
//!
//! A table tested after 6, 12, 24 and 48 seeds at 5 % each time would raise a false alarm in one case of eight. So the
//! 5 % are spent in parts (Lan and DeMets 1983): look k gets what the spending function adds since the look before.
//! Within a look, Holm's method shares its part among the rows; a row that was decided passes its share on. The sum of
//! all parts bounds the probability of even one false alarm, however rows depend on each other, and whoever decides for
//! whatever reason which rows get more runs. The joint distribution of the looks is not used: with runs that double at
//! each look it would gain little, and it would need a model of the rows.
//!
//! The bound is only as good as a single look's p-value far out in the tail, where no one knows the distribution. With
//! several looks a row must therefore pass an exact test, too, corrected in the same way ([`Change::exact_p`]).
//!
//! Units: runs are seeds of a cell; levels are probabilities.

use super::effect::{
    ALPHA, Change, Corrected, Direction, Limits, RunValue, Verdict, change, change_at, fewest_of, verdict,
};
use super::holm::weighted;

/// The runs of a cell at each look.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Looks {
    /// Ascending; empty: one look at all runs there are.
    runs: Vec<u64>,
}

impl Looks {
    /// One look at all runs there are.
    pub fn once() -> Looks {
        Looks::default()
    }
    /// `number` looks: at `first` runs, then at twice as many each time.
    pub fn doubling(first: u64, number: u32) -> Looks {
        Looks { runs: (0..number).map(|k| first.saturating_mul(1 << k.min(32))).collect() }
    }
    /// Looks at `first` runs, then at twice as many each time, up to `most` runs.
    pub fn up_to(first: u64, most: u64) -> Looks {
        let next = |runs: &u64| runs.checked_mul(2).filter(|r| *r <= most);
        Looks { runs: std::iter::successors(Some(first), next).collect() }
    }
    /// Runs of a cell at each look; empty for a single look at all runs.
    pub fn runs(&self) -> &[u64] {
        &self.runs
    }
    /// The part of the 5 % that look `k` may spend.
    pub fn alpha(&self, k: usize) -> f64 {
        let Some((last, runs)) = self.runs.last().zip(self.runs.get(k)) else { return ALPHA };
        let share = |runs: u64| runs as f64 / *last as f64;
        let before = k.checked_sub(1).map_or(0.0, |b| spent(share(self.runs[b])));
        spent(share(*runs)) - before
    }
}

/// The part of the 5 % that is spent once `share` of the runs are there: Lan and DeMets' function after Pocock, which
/// leaves early looks enough to find large changes.
fn spent(share: f64) -> f64 {
    ALPHA * libm::log(1.0 + (core::f64::consts::E - 1.0) * share)
}

/// A row to judge: two cells in one metric.
#[derive(Clone, Debug)]
pub struct Table {
    /// The baseline's values.
    pub base: Vec<RunValue>,
    /// The variant's.
    pub variant: Vec<RunValue>,
    pub first_seed: u64,
    /// Runs of the smaller cell, those without this metric included.
    pub runs: u64,
    /// Whether it is the workload's own result.
    pub own: bool,
    pub direction: Direction,
    pub limits: Limits,
}

#[derive(Clone, Debug)]
pub struct Decided {
    /// The change at the look that decided it, or at its last one.
    pub change: Change,
    /// The corrected p-value there, and the level.
    pub at: Corrected,
    pub verdict: Verdict,
    /// The reason for `unclear`.
    pub why: Option<String>,
    /// The look, counted from 0; `None` with a single look.
    pub look: Option<usize>,
}

impl Table {
    /// The values of the first `runs` seeds.
    fn first(&self, runs: u64) -> (Vec<RunValue>, Vec<RunValue>) {
        let end = self.first_seed.saturating_add(runs);
        let of = |all: &[RunValue]| all.iter().filter(|r| r.seed < end).copied().collect();
        (of(&self.base), of(&self.variant))
    }

    /// The fewest runs of a cell that could show a change; runs count as pairs where they are paired by seed. The first
    /// look with that many can show one, so runs between two looks do not help.
    pub fn fewest_runs(&self, looks: &Looks) -> u64 {
        let shared = self.base.iter().filter(|b| self.variant.iter().any(|v| v.seed == b.seed)).count();
        let fewest = fewest_of(shared > 0 && 2 * shared >= self.base.len().max(self.variant.len())) as u64;
        looks.runs.iter().copied().find(|runs| *runs >= fewest).unwrap_or(fewest)
    }
}

/// The weights of rows in their table. Own results together have half of the 5 %, or more if they are more than half of
/// the rows.
pub fn weights(own: &[bool]) -> Vec<f64> {
    let (all, owns) = (own.len() as f64, own.iter().filter(|o| **o).count() as f64);
    if owns == 0.0 || owns == all {
        return vec![1.0; own.len()];
    }
    let part = (owns / all).max(0.5);
    own.iter().map(|o| if *o { part / owns } else { (1.0 - part) / (all - owns) }).collect()
}

/// Judges the rows of a table, look after look, until each is decided or its runs end. A decided row keeps what that
/// look showed.
pub fn decide(rows: &[Table], looks: &Looks) -> Vec<Decided> {
    let own: Vec<bool> = rows.iter().map(|r| r.own).collect();
    let weights = weights(&own);
    if looks.runs.is_empty() {
        let changes = rows.iter().map(|r| Some(change(&r.base, &r.variant))).collect();
        let judged = at_look(rows, &weights, changes, &[], ALPHA);
        return judged.into_iter().flatten().collect();
    }
    let mut decided: Vec<Option<Decided>> = vec![None; rows.len()];
    for (k, runs) in looks.runs.iter().enumerate() {
        let alpha = looks.alpha(k);
        let done = |i: usize| decided[i].as_ref().is_some_and(|d| d.verdict != Verdict::Unclear);
        // Only a shown change passes its share on: a row that is the same may be a false "same".
        let is_shown = |d: &Decided| !matches!(d.verdict, Verdict::Unclear | Verdict::Same);
        let passed: Vec<bool> = decided.iter().map(|d| d.as_ref().is_some_and(is_shown)).collect();
        let change = |(i, row): (usize, &Table)| {
            let (base, variant) = row.first(*runs);
            // A row with fewer runs than the first look gets a figure, too, but no change is claimed.
            let is_there = !done(i) && (row.runs >= *runs || k == 0);
            is_there.then(|| change_at(&base, &variant, alpha).held_by_exact_tests())
        };
        let changes = rows.iter().enumerate().map(change).collect();
        let judged = at_look(rows, &weights, changes, &passed, alpha);
        for (i, one) in judged.into_iter().enumerate() {
            let Some(mut one) = one else { continue };
            one.look = Some(k);
            if rows[i].runs < *runs && one.verdict != Verdict::Same {
                one.verdict = Verdict::Unclear;
                one.why = Some(format!("{} of the {runs} runs of the first look are there", rows[i].runs));
            }
            decided[i] = Some(one);
        }
    }
    decided.into_iter().flatten().collect()
}

/// As [`decide`], for one row alone.
pub fn decide_one(row: &Table, looks: &Looks) -> Decided {
    // The first look judges every row, whatever its runs.
    decide(std::slice::from_ref(row), looks).swap_remove(0)
}

/// The verdicts of one look. Rows without a change are skipped; those in `passed` have passed their share on.
fn at_look(
    rows: &[Table],
    weights: &[f64],
    changes: Vec<Option<Change>>,
    passed: &[bool],
    alpha: f64,
) -> Vec<Option<Decided>> {
    let left: Vec<usize> = (0..rows.len()).filter(|i| !passed.get(*i).is_some_and(|p| *p)).collect();
    let p: Vec<f64> = left.iter().map(|i| changes[*i].as_ref().map_or(1.0, |c| c.p)).collect();
    let shares: Vec<f64> = left.iter().map(|i| weights[*i]).collect();
    let corrected = weighted(&p, &shares);
    let beyond = |at: usize| corrected[at] < alpha;
    let all: f64 = (0..left.len()).filter(|at| !beyond(*at)).map(|at| shares[at]).sum();
    let mut levels: Vec<Option<Corrected>> = vec![None; rows.len()];
    for (at, i) in left.iter().enumerate() {
        let level = alpha * shares[at] / all.max(shares[at]);
        levels[*i] = Some(Corrected { p: (corrected[at] * ALPHA / alpha).min(1.0), level });
    }
    let one = |(i, change): (usize, Option<Change>)| {
        let (change, at) = (change?, levels[i]?);
        let (verdict, why) = verdict(&change, at, rows[i].direction, rows[i].limits);
        Some(Decided { change, at, verdict, why, look: None })
    };
    changes.into_iter().enumerate().map(one).collect()
}
