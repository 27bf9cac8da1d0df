//! The course of a metric over days: on which day it changed for good, and whether it drifts (docs/statistics.md).
//!
//! The unit is the day: runs of one day share what the day was like. A machine's history is looked at every day, so the
//! test must hold however often one looks. Its evidence for a change is a ratio of likelihoods:
//!
//! - above, a mixture over the day of the change (each day has its part of a year, so that a year's parts add up to 1),
//!   over the change's size in multiples of the noise, and over the kinds of noise ([`noise`]);
//! - below, the kind of noise that explains the days best without any change.
//!
//! Under each kind, with any level and any size of the noise, the mean of that ratio is at most 1 at every day, so the
//! chance that it ever reaches 1/alpha is at most alpha (Ville 1939; universal inference: Wasserman, Ramdas and
//! Balakrishnan 2020; unknown level and scale: Perez-Ortiz, Lardy, de Heide and Grunwald 2024). Among the kinds below
//! are random walks and slopes: what a drift explains as well is not a change.
//!
//! The days are read twice: as they are, and with wild days drawn nearer ([`tame`]). Each reading has a part of alpha.
//!
//! After a change the history begins anew at its first day. A change is thought of for two years ([`IN_SIGHT`]):
//! weights that are dropped only lower the evidence, and the work of a day does not grow with the history.

mod noise;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod simulated;

use crate::describe::{median_sorted, sorted};
use crate::effect::ALPHA;
use crate::intervals::TEstimate;
use crate::rank::mann_whitney_p;
use noise::{DRIFTING, Filter, STABLE};
use std::ops::Range;

/// Variances of a change's size in multiples of a day's noise.
const SIZES: [f64; 3] = [1.0, 9.0, 81.0];
/// Variances of a slope in a day.
const SLOPES: [f64; 3] = [1e-4, 1e-3, 1e-2];
/// Against drifts a day counts as much as its fortnight: a walk that looks like a step does so for all days near it.
const FORTNIGHT: f64 = 14.0;
/// The weights of days that have nothing to do with each other, of days that fade away, and of walks, before a change
/// is looked for under them: the plainest has the most. Any weights keep the chance of a false alarm.
const PLAINEST: [f64; 3] = [0.5, 0.25, 0.25];
/// The ranks of the days before and after a change must differ at this level: single wild days are not a change.
const RANKS: f64 = 1e-3;
/// Fewest days with which ranks can ([`RANKS`]): 7 before and 7 after.
pub const FEWEST_DAYS: usize = 14;
/// Days over which a drift's level is taken, at most.
const END: usize = 10;
/// A day may be so many deviations from the days before it.
const WILD: f64 = 5.0;
/// The standard deviation of normal noise in multiples of its median distance from the median.
const NORMAL_MAD: f64 = 1.482_602_218_505_602;
/// The part of a shift that matters below which noise is not believed.
const QUARTER: f64 = 4.0;
/// The part of the chance of a false alarm that the reading of the days as they are has: what only that reading shows
/// is large, with evidence to spare.
const PLAIN: f64 = 0.1;
/// Years for which a change is thought of.
const IN_SIGHT: f64 = 2.0;
const NONE: f64 = f64::NEG_INFINITY;

/// A day, or another unit of a history.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Day {
    /// On a scale where a change is a shift.
    pub value: f64,
    /// The part of a year that it stands for.
    pub year: f64,
}

#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Chance of a false alarm in a year.
    pub alpha: f64,
    /// A shift that matters: noise far below it is not believed.
    pub matters: f64,
}

impl Rules {
    /// The least sum of squares: as if one day had been off by a quarter of a shift that matters.
    fn floor(self) -> f64 {
        let off = self.matters / QUARTER;
        (off * off).max(f64::MIN_POSITIVE)
    }
}

/// A change for good.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Step {
    /// The first day after it.
    pub at: usize,
    /// The first and the last day that may be that day; 95 % of the evidence.
    pub range: [usize; 2],
    /// The day on which it was beyond chance.
    pub seen: usize,
    /// Its size, over all days between the changes before and after it.
    pub size: TEstimate,
}

/// A stretch without a change over which the level moved all the same.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Drift {
    /// The first and the last of the days between which it moved farthest.
    pub days: [usize; 2],
    /// The day on which it was beyond chance.
    pub seen: usize,
    /// From its first days to its last.
    pub shift: f64,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    pub steps: Vec<Step>,
    pub drifts: Vec<Drift>,
}

/// Finds the changes and drifts of a history.
pub fn course(days: &[Day], rules: Rules) -> Course {
    let (mut found, mut start) = (Vec::new(), 0);
    let mut drifts = Vec::new();
    loop {
        let Stretch { step, drift } = stretch(&days[start..], rules);
        let end = step.map_or(days.len(), |(at, _)| start + at);
        drifts.extend(
            drift
                .filter(|seen| start + seen < end)
                .and_then(|seen| drift_of(days, [start, end], start + seen)),
        );
        let Some((at, seen)) = step else { break };
        found.push((start + at, start + seen));
        start += at;
    }
    let bounds: Vec<usize> =
        std::iter::once(0).chain(found.iter().map(|f| f.0)).chain([days.len()]).collect();
    let step = |(i, (at, seen)): (usize, &(usize, usize))| {
        let (from, to) = (bounds[i], bounds[i + 2]);
        measured(&days[from..to], at - from, rules).map(|s| Step {
            at: from + s.at,
            range: s.range.map(|day| from + day),
            seen: *seen,
            size: s.size,
        })
    };
    Course { steps: found.iter().enumerate().filter_map(step).collect(), drifts }
}

/// What the days up to the first change show.
struct Stretch {
    /// The first day after the change, and the day on which it was beyond chance.
    step: Option<(usize, usize)>,
    /// The day on which a drift was beyond chance.
    drift: Option<usize>,
}

fn stretch(days: &[Day], rules: Rules) -> Stretch {
    let mut tamed = filters(0..usize::MAX);
    // Until a day is wild both readings are the same.
    let mut plain: Option<Vec<Filter>> = None;
    let (beyond, floor) = (-libm::log(rules.alpha), rules.floor());
    let mut found = Stretch { step: None, drift: None };
    let (mut years, mut first) = (0.0, 0);
    for (t, day) in days.iter().enumerate() {
        let near = tame(days, t, rules);
        if near != day.value && plain.is_none() {
            plain = Some(tamed.clone());
        }
        years += day.year;
        // The newest day stays: after a gap of years it alone stands for more.
        while years > IN_SIGHT && first < t {
            years -= days[first].year;
            first += 1;
        }
        push(&mut tamed, near - days[0].value, first);
        if let Some(plain) = &mut plain {
            push(plain, day.value - days[0].value, first);
        }
        if t + 1 < FEWEST_DAYS {
            continue;
        }
        let look = Look::of(&tamed, floor);
        if found.drift.is_none() && look.drift() > beyond {
            found.drift = Some(t);
        }
        // Either reading of the days may show a change. Each has its part of the chance of a false alarm.
        let shown = |filters: &[Filter], look: &Look, part: f64| {
            change_seen(filters, look, &days[..=t], [beyond - libm::log(part), floor])
        };
        let as_they_are = || plain.as_ref().and_then(|p| shown(p, &Look::of(p, floor), PLAIN));
        if let Some(at) = shown(&tamed, &look, 1.0 - PLAIN).or_else(as_they_are) {
            found.step = Some((at, t));
            return found;
        }
    }
    found
}

/// Takes a day, and thinks no more of changes before day `first`.
fn push(filters: &mut [Filter], value: f64, first: usize) {
    for filter in filters {
        filter.push(value);
        filter.forget_before(first);
    }
}

/// The first day after a change, if one reading of the days shows it with the evidence `need`.
fn change_seen(filters: &[Filter], look: &Look, days: &[Day], [need, floor]: [f64; 2]) -> Option<usize> {
    let shows = |sum: f64| sum - look.stable >= need && sum - look.moving + libm::log(FORTNIGHT) >= need;
    if !shows(look.most(filters, days, floor)) {
        return None;
    }
    let by_day = look.steps(filters, days, floor);
    let sum = by_day.iter().copied().fold(NONE, log_sum);
    if !shows(sum) {
        return None;
    }
    let at = likeliest(&by_day);
    let values = |part: &[Day]| part.iter().map(|d| d.value).collect::<Vec<f64>>();
    (mann_whitney_p(&values(&days[..at]), &values(&days[at..])) < RANKS).then_some(at)
}

/// A day's value, no farther than [`WILD`] deviations from the days just before: one wild day would hide all changes
/// smaller than itself. A change brings its days nearer one by one, and they are taken as they are within a week. Until
/// then a large change looks like a slope, so the days are read as they are, too.
fn tame(days: &[Day], t: usize, rules: Rules) -> f64 {
    let before = band(&days[t.saturating_sub(FEWEST_DAYS)..t], rules);
    before.map_or(days[t].value, |[low, high]| days[t].value.clamp(low, high))
}

/// The same when the days behind it are known, too: a wild day is far from both sides.
fn tame_between(days: &[Day], t: usize, rules: Rules) -> f64 {
    let before = band(&days[t.saturating_sub(FEWEST_DAYS)..t], rules);
    let after = band(&days[t + 1..days.len().min(t + 1 + FEWEST_DAYS)], rules);
    match (before, after) {
        (Some(a), Some(b)) => days[t].value.clamp(a[0].min(b[0]), a[1].max(b[1])),
        (Some([low, high]), None) | (None, Some([low, high])) => days[t].value.clamp(low, high),
        (None, None) => days[t].value,
    }
}

/// Where days like these lie; `None` if they are too few to tell.
fn band(days: &[Day], rules: Rules) -> Option<[f64; 2]> {
    if days.len() < FEWEST_DAYS / 2 {
        return None;
    }
    let values: Vec<f64> = days.iter().map(|d| d.value).collect();
    let middle = median_sorted(&sorted(&values));
    let off: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let deviation = NORMAL_MAD * median_sorted(&sorted(&off));
    let most = WILD * deviation.max(rules.matters / QUARTER);
    Some([middle - most, middle + most])
}

/// A filter for each kind of noise, which think of a change at these days.
fn filters(thought_of: Range<usize>) -> Vec<Filter> {
    STABLE.iter().chain(&DRIFTING).map(|kind| Filter::new(*kind, thought_of.clone())).collect()
}

/// The weight of a filter's kind of noise.
fn weight(kind: usize) -> f64 {
    let [plain, fading, walks] = PLAINEST;
    match kind {
        0 => plain,
        _ if kind < STABLE.len() => fading / (STABLE.len() - 1) as f64,
        _ => walks / DRIFTING.len() as f64,
    }
}

/// Logarithms of the likelihoods of the days so far.
struct Look {
    /// Without a change, for each filter.
    still: Vec<f64>,
    /// With a slope.
    slope: f64,
    /// The best without a change, of those that stay and of those that move.
    stable: f64,
    moving: f64,
}

impl Look {
    fn of(filters: &[Filter], floor: f64) -> Look {
        let still: Vec<f64> = filters.iter().map(|f| f.still(floor)).collect();
        let slopes = SLOPES.iter().map(|g| filters[0].slope(*g, floor)).fold(NONE, log_sum);
        let slope = still[0] + slopes - libm::log(SLOPES.len() as f64);
        let (stay, move_) = still.split_at(STABLE.len());
        let stable = stay.iter().copied().fold(NONE, f64::max);
        let moving = move_.iter().copied().fold(slope, f64::max);
        Look { still, slope, stable, moving }
    }
    /// The evidence for a drift, against all that stays.
    fn drift(&self) -> f64 {
        let moving = &self.still[STABLE.len()..];
        moving.iter().copied().fold(self.slope, log_sum) - libm::log(moving.len() as f64 + 1.0) - self.stable
    }
    /// More than the likelihoods of [`Look::steps`] together.
    fn most(&self, filters: &[Filter], days: &[Day], floor: f64) -> f64 {
        let each = filters.iter().zip(&self.still).enumerate();
        let each = each.map(|(kind, (f, still))| still + f.most(days, floor) + libm::log(weight(kind)));
        each.fold(NONE, log_sum)
    }
    /// The likelihood of a change at each day, with the day's weight. A change has two days or more after it.
    fn steps(&self, filters: &[Filter], days: &[Day], floor: f64) -> Vec<f64> {
        let mut all = vec![NONE; days.len()];
        let weights: Vec<f64> = (0..filters.len()).map(weight).collect();
        let Range { start, end } = filters[0].steps();
        for (at, sum) in all.iter_mut().enumerate().take(end.min(days.len() - 1)).skip(start) {
            for ((filter, still), weight) in filters.iter().zip(&self.still).zip(&weights) {
                let weight = libm::log(days[at].year * weight / SIZES.len() as f64);
                for g in SIZES {
                    *sum = log_sum(*sum, still + filter.step(at, g, floor) + weight);
                }
            }
        }
        all
    }
}

fn likeliest(by_day: &[f64]) -> usize {
    (0..by_day.len()).max_by(|a, b| by_day[*a].total_cmp(&by_day[*b])).unwrap_or(0)
}

/// Day and size of the one change in these days, near day `about`.
fn measured(days: &[Day], about: usize, rules: Rules) -> Option<Step> {
    let floor = rules.floor();
    let filtered = |value: &dyn Fn(usize) -> f64, thought_of: Range<usize>| {
        let mut filters = filters(thought_of);
        (0..days.len()).for_each(|t| push(&mut filters, value(t) - days[0].value, 0));
        filters
    };
    let tamed = filtered(&|t| tame_between(days, t, rules), around(days, about));
    let by_day = Look::of(&tamed, floor).steps(&tamed, days, floor);
    if by_day.iter().all(|v| *v == NONE) {
        return None;
    }
    let at = likeliest(&by_day);
    // With a further change that is not yet beyond chance the likeliest day may be that one's.
    let at = if at.abs_diff(about) * 4 > days.len() { about } else { at };
    // Its size is that of the days as they were.
    let filters = filtered(&|t| days[t].value, at..at + 1);
    let fit = |f: &&Filter| f.still(floor) + SIZES.iter().map(|g| f.step(at, *g, floor)).fold(NONE, log_sum);
    let size = filters.iter().max_by(|a, b| fit(a).total_cmp(&fit(b)))?.size(at, floor);
    Some(Step { at, range: likely(&by_day, at), seen: at, size })
}

/// The days in sight of a day, before it and after it.
fn around(days: &[Day], about: usize) -> Range<usize> {
    let count = |all: &mut dyn Iterator<Item = &Day>| {
        let mut years = 0.0;
        let in_sight = |day: &&Day| {
            years += day.year;
            years <= IN_SIGHT
        };
        all.take_while(in_sight).count()
    };
    about - count(&mut days[..about].iter().rev())..about + 1 + count(&mut days[about + 1..].iter())
}

/// The days around `at` that hold 95 % of the evidence.
fn likely(by_day: &[f64], at: usize) -> [usize; 2] {
    let best = by_day.iter().copied().fold(NONE, f64::max);
    let share = |day: usize| libm::exp(by_day[day] - best);
    let all: f64 = (0..by_day.len()).map(share).sum();
    let [mut low, mut high] = [at, at];
    let mut held = share(at);
    while held < (1.0 - ALPHA) * all {
        let below = low.checked_sub(1).map_or(-1.0, share);
        let above = if high + 1 < by_day.len() { share(high + 1) } else { -1.0 };
        if below >= above {
            low -= 1;
            held += below;
        } else {
            high += 1;
            held += above;
        }
    }
    [low, high]
}

/// How far the level went: between the stretches of days at which it was lowest and highest.
fn drift_of(days: &[Day], [start, end]: [usize; 2], seen: usize) -> Option<Drift> {
    let few = ((end - start) / 3).clamp(1, END);
    let level = |part: &[Day]| part.iter().map(|d| d.value).sum::<f64>() / part.len() as f64;
    let levels: Vec<f64> = days[start..end].windows(few).map(level).collect();
    let by_level = |a: &usize, b: &usize| levels[*a].total_cmp(&levels[*b]);
    let (low, high) = ((0..levels.len()).min_by(by_level)?, (0..levels.len()).max_by(by_level)?);
    let (from, to) = (low.min(high), low.max(high));
    Some(Drift { days: [start + from, start + to + few - 1], seen, shift: levels[to] - levels[from] })
}

/// log(exp(a) + exp(b)).
fn log_sum(a: f64, b: f64) -> f64 {
    let (high, low) = if a > b { (a, b) } else { (b, a) };
    if high == NONE || high - low > 40.0 { high } else { high + libm::log1p(libm::exp(low - high)) }
}
