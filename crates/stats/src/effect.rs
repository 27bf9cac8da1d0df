//! The change between two cells in one metric, and the verdict on it (docs/statistics.md).
//!
//! Runs are the unit. If all values are above 0, the computation uses logarithms: a change is a ratio, and swapping the
//! cells turns x into 1/x. Otherwise it uses multiples of the baseline's median.
//!
//! Estimate, interval and the corrected p-value come from the trimmed mean, which a single wild run hardly moves. An
//! exact rank test of ten pairs can't go below 0.002 however large the change is, so over more than 25 rows it could
//! never decide. It is a guard instead: a change counts only if ranks or signs, which assume nothing about the
//! distribution, agree at 5 % for the row alone. If runs come in several looks ([`super::looks`]), exact tests are
//! corrected like the trimmed mean.
//!
//! Where the runs of two cells do not overlap, and the trimmed mean can't show it because one side's spread is many
//! times the other's (a few of one side, hundreds of the other), the U test decides: [`apart`].

use super::describe::{correlation, mean, median_sorted, sorted};
use super::intervals::{Shift, TEstimate, group_rank, group_rank_at, group_t, paired_rank, paired_t};
use super::rank::{mann_whitney_p, sign_p, signed_rank_p};
use serde::{Deserialize, Serialize};

/// The significance level of a table.
pub const ALPHA: f64 = 0.05;
/// The smallest p-value that is claimed, whatever the model of the data says.
const P_FLOOR: f64 = 1e-9;
/// Fewest pairs, and fewest runs of each of two groups, with which a rank test can reach [`ALPHA`].
pub const FEWEST_PAIRS: usize = 6;
/// See [`FEWEST_PAIRS`].
pub const FEWEST_GROUP: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RunValue {
    /// Seed of the run: runs of equal seed are pairs.
    pub seed: u64,
    /// The value, in the metric's unit.
    pub value: f64,
}

/// The change of one metric from a baseline to a variant.
#[derive(Clone, Debug, PartialEq)]
pub struct Change {
    /// Typical change in percent; `None` if the baseline is 0, so that there is no percentage.
    pub change_pct: Option<f64>,
    /// Ratio of the means minus 1, in percent.
    pub mean_change_pct: Option<f64>,
    /// Interval of `change_pct`: 95 %, or the level given to [`change_at`].
    pub ci95_pct: Option<[f64; 2]>,
    /// Sign and interval of the shift on the working scale. They decide even without a percentage.
    pub shift: Option<Shift>,
    /// p-value of the trimmed mean, not yet corrected; 1 if there is none.
    pub p: f64,
    /// The guard: the smaller p-value of signed ranks and signs (pairs), or that of the U test (groups).
    pub rank_p: f64,
    /// p-value that assumes nothing about the distribution, and so holds for any number of rows and looks. For pairs:
    /// three times the smallest of signed ranks, signs and the U test. For groups: the U test. 1 if the trimmed mean
    /// alone shows nothing at 5 %.
    pub exact_p: f64,
    /// Hodges-Lehmann estimate and interval in percent, from ranks alone: a second opinion.
    pub rank_pct: Option<Shift>,
    /// Number of pairs; 0 if the runs are not paired.
    pub pairs: usize,
    /// Correlation of the paired values, which comes from common random numbers.
    pub correlation: Option<f64>,
    /// Spread of the shift on the working scale, for [`Change::detectable_pct`].
    spread: Option<(TEstimate, Scale)>,
    /// Number of runs (or pairs) of each cell in it.
    pub n: usize,
    /// If trimming left only equal values: how far, in percent, two runs or more are from the rest. The interval has no
    /// width then and says nothing about runs that differ. 0 if it has a width, infinite without a percentage.
    pub hidden_pct: f64,
}

/// The scale on which a change is a shift.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Scale {
    Log,
    /// Multiples of this number.
    Relative(f64),
    /// The baseline is 0: plain differences, no percentage.
    Plain,
}

impl Scale {
    fn of(base: &[f64], variant: &[f64]) -> Scale {
        if base.iter().chain(variant).all(|v| *v > 0.0) {
            return Scale::Log;
        }
        let middle = median_sorted(&sorted(base)).abs();
        let unit = if middle > 0.0 { middle } else { mean(base).abs() };
        if unit > 0.0 { Scale::Relative(unit) } else { Scale::Plain }
    }
    fn to(self, v: f64) -> f64 {
        match self {
            Scale::Log => libm::log(v),
            Scale::Relative(unit) => v / unit,
            Scale::Plain => v,
        }
    }
    fn pct(self, shift: f64) -> Option<f64> {
        match self {
            Scale::Log => Some(100.0 * libm::expm1(shift)),
            Scale::Relative(_) => Some(100.0 * shift),
            Scale::Plain => (shift == 0.0).then_some(0.0),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PairChange {
    /// The seed of both runs.
    pub seed: u64,
    /// The change on the working scale: its sign and rank.
    pub shift: f64,
    /// In percent; `None` if there is no percentage.
    pub pct: Option<f64>,
}

/// The change of every pair of equal seed, in the order of the baseline's runs.
pub fn pair_changes(base: &[RunValue], variant: &[RunValue]) -> Vec<PairChange> {
    let partner =
        |b: &RunValue| variant.iter().find(|v| v.seed == b.seed).map(|v| (b.seed, b.value, v.value));
    let pairs: Vec<(u64, f64, f64)> = base.iter().filter_map(partner).collect();
    let side = |of: fn(&(u64, f64, f64)) -> f64| pairs.iter().map(of).collect::<Vec<f64>>();
    let scale = Scale::of(&side(|p| p.1), &side(|p| p.2));
    let one = |(seed, b, v): (u64, f64, f64)| {
        let shift = scale.to(v) - scale.to(b);
        PairChange { seed, shift, pct: scale.pct(shift) }
    };
    pairs.into_iter().map(one).collect()
}

/// Compares two cells in one metric. Runs are paired by seed if at least half of the larger cell has a
/// partner.
pub fn change(base: &[RunValue], variant: &[RunValue]) -> Change {
    change_at(base, variant, ALPHA)
}

/// As [`change`], with an interval that misses the true change with probability `alpha`.
pub fn change_at(base: &[RunValue], variant: &[RunValue], alpha: f64) -> Change {
    let pairs: Vec<(f64, f64)> = base
        .iter()
        .filter_map(|b| variant.iter().find(|v| v.seed == b.seed).map(|v| (b.value, v.value)))
        .collect();
    let paired = pairs.len() >= 2 && 2 * pairs.len() >= base.len().max(variant.len());
    let (b, v): (Vec<f64>, Vec<f64>) = if paired {
        pairs.iter().copied().unzip()
    } else {
        (base.iter().map(|r| r.value).collect(), variant.iter().map(|r| r.value).collect())
    };
    let scale = Scale::of(&b, &v);
    let (x, y): (Vec<f64>, Vec<f64>) =
        (b.iter().map(|v| scale.to(*v)).collect(), v.iter().map(|v| scale.to(*v)).collect());
    let mut c = if paired { of_pairs(&x, &y, alpha) } else { of_groups(&x, &y, alpha) };
    c.spread = c.spread.map(|(t, _)| (t, scale));
    if c.shift.is_some_and(|s| s.interval[0] == s.interval[1]) {
        let off = if paired {
            second(deviations(&differences(&x, &y)))
        } else {
            second([deviations(&x), deviations(&y)].concat())
        };
        c.hidden_pct = if off > 0.0 { scale.pct(off).unwrap_or(f64::INFINITY) } else { 0.0 };
    }
    let m = mean(&b);
    c.mean_change_pct =
        if m != 0.0 { Some(100.0 * (mean(&v) - m) / m.abs()) } else { Scale::Plain.pct(mean(&v)) };
    // What can't be negative falls by at most 100 %; an interval around a median may reach below.
    let floor = if b.iter().chain(&v).all(|value| *value >= 0.0) { -100.0 } else { f64::NEG_INFINITY };
    let in_pct = |s: Shift| -> Option<Shift> {
        let pct = |shift: f64| Some(scale.pct(shift)?.max(floor));
        Some(Shift { estimate: pct(s.estimate)?, interval: [pct(s.interval[0])?, pct(s.interval[1])?] })
    };
    c.rank_pct = c.rank_pct.and_then(in_pct);
    match c.shift {
        Some(s) => {
            let pct = in_pct(s);
            c.change_pct = pct.map(|s| s.estimate);
            c.ci95_pct = pct.map(|s| s.interval);
        }
        None => c.change_pct = c.mean_change_pct,
    }
    c
}

fn differences(x: &[f64], y: &[f64]) -> Vec<f64> {
    x.iter().zip(y).map(|(a, b)| b - a).collect()
}

/// Each value's distance from the median.
fn deviations(values: &[f64]) -> Vec<f64> {
    let middle = median_sorted(&sorted(values));
    values.iter().map(|v| (v - middle).abs()).collect()
}

/// The second largest value: a single wild run must not decide.
fn second(values: Vec<f64>) -> f64 {
    sorted(&values).into_iter().rev().nth(1).unwrap_or(0.0)
}

impl Change {
    /// The smallest change in percent that this data would show in 4 of 5 repeats at the two-sided level `alpha`;
    /// `None` without a percentage or a known spread.
    pub fn detectable_pct(&self, alpha: f64) -> Option<f64> {
        let (t, scale) = self.spread?;
        scale.pct(t.detectable(alpha))
    }
    /// Estimate, standard error and degrees of freedom on the working scale; `None` for single runs.
    pub fn spread(&self) -> Option<TEstimate> {
        self.spread.map(|(t, _)| t)
    }
    /// The shift on the working scale that equals `pct`; infinite without a percentage.
    pub fn shift_of_pct(&self, pct: f64) -> f64 {
        match self.spread {
            Some((_, Scale::Log)) => libm::log1p(pct / 100.0),
            Some((_, Scale::Relative(_))) => pct / 100.0,
            _ => f64::INFINITY,
        }
    }
    /// The change for a sequence of looks: its p-value is at least what an exact test allows.
    #[must_use]
    pub fn held_by_exact_tests(self) -> Change {
        Change { p: self.p.max(self.exact_p), rank_p: self.exact_p, ..self }
    }
}

fn of_pairs(x: &[f64], y: &[f64], alpha: f64) -> Change {
    let d = differences(x, y);
    let (t, guard) = (paired_t(&d), signed_rank_p(&d).min(sign_p(&d)));
    // Runs of one seed share their draws: without an effect, pairs are alike or unrelated. As two groups they are
    // then closer than strangers would be, so the U test holds. If the groups do not overlap, it shows with 12 pairs
    // what ranks of differences show with 24.
    let exact = guard.min(if is_worth_a_look(t) { mann_whitney_p(x, y) } else { 1.0 });
    let mut c = collect(t, [guard, exact, EXACT_TESTS * exact], paired_rank(&d), alpha);
    c.n = d.len();
    c.pairs = d.len();
    c.correlation = correlation(x, y);
    if d.len() >= FEWEST_PAIRS { apart(c, x, y, alpha) } else { c }
}

fn of_groups(x: &[f64], y: &[f64], alpha: f64) -> Change {
    let u = mann_whitney_p(x, y);
    let c = Change { n: x.len().min(y.len()), ..collect(group_t(x, y), [u; 3], group_rank(x, y), alpha) };
    apart(c, x, y, alpha)
}

/// Tests of the same runs: t and U.
const TESTS: f64 = 2.0;
/// Exact tests of the same runs: signed ranks, signs and U.
const EXACT_TESTS: f64 = 3.0;

/// The change of two groups that do not overlap, where the trimmed mean's interval holds 0 all the same: the estimate
/// of Hodges and Lehmann with the interval that the U test does not reject at `alpha`, and its p-value, doubled because
/// it is the second test of these runs. Any other change is as it was.
fn apart(c: Change, x: &[f64], y: &[f64], alpha: f64) -> Change {
    let ends =
        |v: &[f64]| v.iter().fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| (a.min(*v), b.max(*v)));
    let ((x_low, x_high), (y_low, y_high)) = (ends(x), ends(y));
    let is_apart = x_high < y_low || y_high < x_low;
    if !is_apart || excludes_zero(&c) {
        return c;
    }
    let Some(shift) = group_rank_at(x, y, alpha / 2.0) else { return c };
    let u = mann_whitney_p(x, y);
    let (p, exact_p) = (c.p.min(TESTS * u), c.exact_p.min(EXACT_TESTS * u));
    Change { shift: Some(shift), p, rank_p: c.rank_p.min(u), exact_p, ..c }
}

/// Whether the trimmed mean shows anything that an exact test could confirm.
fn is_worth_a_look(t: Option<TEstimate>) -> bool {
    t.is_some_and(|t| t.p() < ALPHA)
}

/// A change without percentages, which the caller adds: it knows the scale. `guard` is the guard of a single look,
/// `exact` the smallest p-value of exact tests, `held` the same corrected for their number.
fn collect(t: Option<TEstimate>, [guard, exact, held]: [f64; 3], rank: Option<Shift>, alpha: f64) -> Change {
    // Without any spread, t only says that the runs are equal. Only an exact test knows how likely that is.
    let by_t = |t: TEstimate| if t.error > 0.0 || t.estimate == 0.0 { t.p().max(P_FLOOR) } else { exact };
    Change {
        change_pct: None,
        mean_change_pct: None,
        ci95_pct: None,
        shift: t.map(|t| t.shift(alpha)),
        p: t.map_or(1.0, by_t),
        rank_p: guard,
        exact_p: if is_worth_a_look(t) { held.min(1.0) } else { 1.0 },
        rank_pct: rank,
        pairs: 0,
        correlation: None,
        spread: t.map(|t| (t, Scale::Plain)),
        n: 0,
        hidden_pct: 0.0,
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// It changed by the minimum effect or more in the good direction.
    Better,
    /// It changed by the minimum effect or more in the bad direction.
    Worse,
    /// It changed, and no direction is good.
    Changed,
    /// The whole interval lies inside the minimum effect.
    Same,
    /// The data can't tell.
    Unclear,
}

impl Verdict {
    /// The mark in tables: one character, one meaning.
    pub fn mark(self) -> &'static str {
        match self {
            Verdict::Better => "*",
            Verdict::Worse => "!",
            Verdict::Changed => "#",
            Verdict::Same => "=",
            Verdict::Unclear => "~",
        }
    }
    /// The word, as in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::Changed => "changed",
            Verdict::Same => "same",
            Verdict::Unclear => "unclear",
        }
    }
}

/// The good direction of a metric.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// Smaller values.
    Lower,
    /// Larger values.
    Higher,
    Neither,
}

/// The limits of a verdict, in percent.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Limits {
    /// An interval inside this is `same`. It is the minimum effect that the reader asked for.
    pub same_pct: f64,
    /// A smaller change does not count: `same_pct`, or the machine's noise floor if it is higher.
    pub change_pct: f64,
}

impl Limits {
    /// Both limits are the minimum effect.
    pub fn both(min_effect_pct: f64) -> Limits {
        Limits { same_pct: min_effect_pct, change_pct: min_effect_pct }
    }
    /// With a noise floor, which raises the limit of a change and not the limit of `same`.
    pub fn with_floor(min_effect_pct: f64, floor_pct: Option<f64>) -> Limits {
        Limits { same_pct: min_effect_pct, change_pct: floor_pct.unwrap_or(0.0).max(min_effect_pct) }
    }
}

/// A p-value in its table.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Corrected {
    /// Corrected for the other rows and looks: below [`ALPHA`] the row is beyond chance.
    pub p: f64,
    /// The level that the row's own p-value must reach.
    pub level: f64,
}

impl Corrected {
    /// A row that is alone, or was corrected elsewhere.
    pub fn alone(p: f64) -> Corrected {
        Corrected { p, level: ALPHA }
    }
}

/// The verdict on a change whose p-value was corrected for the table; for `unclear` with the reason.
pub fn verdict(c: &Change, at: Corrected, direction: Direction, limits: Limits) -> (Verdict, Option<String>) {
    let Some(shift) = c.shift else {
        return (Verdict::Unclear, Some("one run has no spread: make at least two".into()));
    };
    if c.ci95_pct.is_some_and(|[low, high]| low >= -limits.same_pct && high <= limits.same_pct) {
        if c.hidden_pct > limits.same_pct {
            let why = "most runs are equal and a few are not: more runs would tell how often they differ";
            return (Verdict::Unclear, Some(why.into()));
        }
        return (Verdict::Same, None);
    }
    let large = c.change_pct.is_none_or(|v| v.abs() >= limits.change_pct);
    if shown(c, at.p) && large {
        let up = shift.estimate > 0.0;
        return match direction {
            Direction::Neither => (Verdict::Changed, None),
            Direction::Higher if up => (Verdict::Better, None),
            Direction::Lower if !up => (Verdict::Better, None),
            _ => (Verdict::Worse, None),
        };
    }
    (Verdict::Unclear, Some(reason(c, at, limits)))
}

/// Whether the data shows a change of any size.
fn shown(c: &Change, p: f64) -> bool {
    p < ALPHA && c.rank_p < ALPHA && excludes_zero(c)
}

/// Whether the interval leaves out "no change".
fn excludes_zero(c: &Change) -> bool {
    c.shift.is_some_and(|s| s.interval[0] > 0.0 || s.interval[1] < 0.0)
}

/// Why a row is unclear, and what would help.
fn reason(c: &Change, at: Corrected, limits: Limits) -> String {
    let fewest = fewest(c);
    if c.n < fewest {
        return format!(
            "{}: no rank test can decide with fewer than {fewest}",
            schedlab_base::counted(c.n, "run")
        );
    }
    let Limits { same_pct, change_pct } = limits;
    let large = c.change_pct.is_none_or(|v| v.abs() >= same_pct);
    if shown(c, at.p) && large && same_pct < change_pct {
        return format!("shown, but below this machine's noise floor of {change_pct:.1}%");
    }
    match c.detectable_pct(at.level) {
        Some(d) if d > same_pct => format!(
            "a change of {d:.1}% or more would have shown; {same_pct}% needs about {} runs",
            runs_for(c.n, d, same_pct)
        ),
        _ if c.rank_p < ALPHA && at.p >= ALPHA => "shown alone, but not among so many rows".into(),
        _ => "the interval reaches past the minimum effect".into(),
    }
}

/// Fewest runs of a cell that could show a change like this.
fn fewest(c: &Change) -> usize {
    fewest_of(c.pairs > 0)
}

/// Fewest runs of a cell that could show a change, as pairs or as two groups.
pub(crate) fn fewest_of(pairs: bool) -> usize {
    if pairs { FEWEST_PAIRS } else { FEWEST_GROUP }
}

/// The runs needed to show `wanted` if `n` runs show `detectable`: errors shrink with the root of their number.
fn runs_for(n: usize, detectable: f64, wanted: f64) -> u64 {
    let ratio = detectable / wanted.max(1e-6);
    libm::ceil(n as f64 * ratio * ratio) as u64
}
