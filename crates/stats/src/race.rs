//! A race of many settings against a default: which of them is best, by far fewer runs than all of them need for a
//! verdict.
//!
//! All begin with a run or two. After each round the worse two thirds leave and the rest have twice as many runs
//! (successive halving: Karnin, Koren and Somekh 2013; Jamieson and Talwalkar 2016). All that race have the same seeds,
//! so what is common to the runs of a seed does not decide. The race only orders: whoever leads after many looks at
//! noise looks better than it is. So its finalists are confirmed by fresh seeds, as few rows of an ordinary comparison,
//! and the chance that a confirmed winner is none is that of the comparison, 5 %, however many raced.

use crate::describe::mean;
use crate::value::Better;

/// Of those that race, one in so many stays after a round.
const PART: usize = 3;
/// Nobody leaves when so few are left: they are confirmed.
pub const FINALISTS: usize = 3;

/// A round of a race.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Round {
    /// Settings that run in it.
    pub settings: usize,
    /// Runs that each of them has at its end, with those of earlier rounds.
    pub runs: u64,
}

/// The rounds of a race, if each setting begins with `first` runs. None for [`FINALISTS`] settings or fewer.
pub fn rounds(settings: usize, first: u64) -> Vec<Round> {
    let (mut left, mut runs, mut rounds) = (settings, first.max(1), Vec::new());
    while left > FINALISTS {
        rounds.push(Round { settings: left, runs });
        left = left.div_ceil(PART).max(FINALISTS);
        runs *= 2;
    }
    rounds
}

/// The runs of a race's rounds, with those of the default, which runs in each.
pub fn cost(rounds: &[Round]) -> u64 {
    let mut before = 0;
    let mut all = 0;
    for round in rounds {
        all += (round.runs - before) * (round.settings as u64 + 1);
        before = round.runs;
    }
    all
}

/// How much larger a setting's values are than the default's of the same seeds: a mean of logarithms, negative where
/// the setting is better. `None` if they are not pairs, or none.
pub fn score(default: &[f64], setting: &[f64], better: Better) -> Option<f64> {
    /// Below all that is measured, so that a zero has a logarithm.
    const LEAST: f64 = 1e-9;
    if default.is_empty() || default.len() != setting.len() {
        return None;
    }
    let log = |value: f64| libm::log(value.max(LEAST));
    let logs: Vec<f64> =
        default.iter().zip(setting).map(|(default, own)| log(*own) - log(*default)).collect();
    Some(if better == Better::Higher { -mean(&logs) } else { mean(&logs) })
}

/// The places of the settings, best first, by scores of one or several metrics: those that no other dominates come
/// first, then those that only these dominate, and so on; within such a front by the sum of scores. Without a score, a
/// setting is last.
pub fn order(scores: &[Vec<Option<f64>>]) -> Vec<usize> {
    let known =
        |of: &[Option<f64>]| of.iter().copied().collect::<Option<Vec<f64>>>().filter(|s| !s.is_empty());
    let (mut left, unknown): (Vec<usize>, Vec<usize>) =
        (0..scores.len()).partition(|at| known(&scores[*at]).is_some());
    let value = |at: usize| known(&scores[at]).unwrap_or_default();
    let mut ordered = Vec::new();
    while !left.is_empty() {
        let is_first = |at: &usize| !left.iter().any(|other| dominates(&value(*other), &value(*at)));
        let (mut front, rest): (Vec<usize>, Vec<usize>) = left.iter().partition(|at| is_first(at));
        let sum = |at: usize| value(at).iter().sum::<f64>();
        front.sort_by(|a, b| sum(*a).total_cmp(&sum(*b)).then(a.cmp(b)));
        ordered.extend(front);
        left = rest;
    }
    ordered.extend(unknown);
    ordered
}

/// Whether `a` is better in one metric and worse in none.
fn dominates(a: &[f64], b: &[f64]) -> bool {
    let pairs = || a.iter().zip(b);
    pairs().all(|(a, b)| a <= b) && pairs().any(|(a, b)| a < b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::special::normal_quantile;
    use crate::{Corrected, Direction, Limits, RunValue, Verdict, change, holm, verdict};
    use proptest::prelude::*;
    use schedlab_base::Stream;

    const SETTINGS: usize = 200;
    /// Runs of each setting that a grid needs: with 200 rows no exact test can decide with fewer than 13, and 24 are
    /// those of the last look of a budget.
    const GRID_RUNS: u64 = 24;
    const CONFIRM: u64 = 24;

    /// A run's value: a setting's effect, what is common to a seed, and noise.
    fn run(trial: u64, setting: usize, seed: u64, effect: f64, noise: f64) -> f64 {
        let root = Stream::new(trial).purpose("race");
        let draw =
            |of: Stream| normal_quantile((of.below(seed, 1 << 32) as f64 + 0.5) / (1_u64 << 32) as f64);
        let (common, own) = (draw(root.purpose("common")), draw(root.number(setting as u64)));
        (effect + 0.05 * common + noise * own).exp()
    }

    struct Raced {
        winner: Option<usize>,
        runs: u64,
    }

    /// A whole race with its confirmation.
    fn race(trial: u64, effects: &[f64], noise: f64) -> Raced {
        let value = |setting: usize, seed: u64| run(trial, setting, seed, effects[setting], noise);
        let default = |seed: u64| run(trial, usize::MAX, seed, 0.0, noise);
        let mut left: Vec<usize> = (0..effects.len()).collect();
        let all = rounds(effects.len(), 1);
        for (at, round) in all.iter().enumerate() {
            let base: Vec<_> = (0..round.runs).map(default).collect();
            let scores: Vec<_> = left
                .iter()
                .map(|s| {
                    let own: Vec<_> = (0..round.runs).map(|seed| value(*s, seed)).collect();
                    vec![score(&base, &own, Better::Lower)]
                })
                .collect();
            let keep = all.get(at + 1).map_or(FINALISTS, |next| next.settings);
            left = order(&scores).into_iter().take(keep).map(|place| left[place]).collect();
        }
        let fresh = 1_000..1_000 + CONFIRM;
        let winner = confirmed(&left, fresh, &default, &value);
        Raced { winner, runs: cost(&all) + CONFIRM * (left.len() as u64 + 1) }
    }

    /// The first of them that is better beyond chance.
    fn confirmed(
        finalists: &[usize],
        seeds: std::ops::Range<u64>,
        default: &dyn Fn(u64) -> f64,
        value: &dyn Fn(usize, u64) -> f64,
    ) -> Option<usize> {
        let of = |f: &dyn Fn(u64) -> f64| -> Vec<RunValue> {
            seeds.clone().map(|seed| RunValue { seed, value: f(seed) }).collect()
        };
        let base = of(default);
        let changes: Vec<_> = finalists.iter().map(|s| change(&base, &of(&|seed| value(*s, seed)))).collect();
        let p: Vec<f64> = changes.iter().map(|c| c.p).collect();
        let corrected = holm(&p);
        let won = |(at, c): (usize, &crate::Change)| {
            let (said, _) = verdict(c, Corrected::alone(corrected[at]), Direction::Lower, Limits::both(2.0));
            (said == Verdict::Better).then_some(finalists[at])
        };
        changes.iter().enumerate().find_map(won)
    }

    /// The rule of thumb: the best mean of a grid is the winner if it is 2 % better.
    fn by_hand(trial: u64, effects: &[f64], noise: f64, runs: u64) -> Option<usize> {
        let mean_of = |setting: usize, effect: f64| {
            mean(&(0..runs).map(|seed| run(trial, setting, seed, effect, noise)).collect::<Vec<_>>())
        };
        let means: Vec<f64> = effects.iter().enumerate().map(|(s, e)| mean_of(s, *e)).collect();
        let best = (0..means.len()).min_by(|a, b| means[*a].total_cmp(&means[*b]))?;
        (means[best] < 0.98 * mean_of(usize::MAX, 0.0)).then_some(best)
    }

    #[test]
    fn a_planted_best_of_two_hundred_is_found_by_a_tenth_of_the_grid_s_runs() {
        let (trials, noise) = (200, 0.03);
        let mut found = 0;
        for trial in 0..trials {
            // The others are up to 3 % better or worse.
            let drawn = Stream::new(trial).purpose("effects");
            let mut effects: Vec<f64> =
                (0..SETTINGS as u64).map(|s| 0.06 * (drawn.below(s, 1_001) as f64 / 1_000.0 - 0.5)).collect();
            let planted = drawn.purpose("planted").below(0, SETTINGS as u64) as usize;
            effects[planted] = -0.12;
            let raced = race(trial, &effects, noise);
            assert!(raced.runs * 10 <= GRID_RUNS * SETTINGS as u64, "{} runs", raced.runs);
            found += u64::from(raced.winner == Some(planted));
        }
        println!("planted best found in {found} of {trials} races");
        assert!(found * 100 >= trials * 95, "{found} of {trials}");
    }

    #[test]
    fn where_nothing_differs_few_races_have_a_winner() {
        let (trials, noise) = (400, 0.03);
        let effects = vec![0.0; SETTINGS];
        let won = (0..trials).filter(|trial| race(*trial, &effects, noise).winner.is_some()).count();
        let by_hand = (0..trials).filter(|trial| by_hand(*trial, &effects, noise, 3).is_some()).count();
        println!("A/A: {won} of {trials} races have a winner, by the best mean of three runs {by_hand}");
        assert!(won as u64 * 20 <= trials, "{won} of {trials}");
        assert!(by_hand as u64 * 2 > trials, "the rule of thumb: {by_hand} of {trials}");
    }

    #[test]
    fn rounds_thin_out_and_lengthen() {
        let all = rounds(200, 1);
        let of = |settings, runs| Round { settings, runs };
        assert_eq!(all, [of(200, 1), of(67, 2), of(23, 4), of(8, 8)]);
        assert_eq!(cost(&all), 201 + 68 + 2 * 24 + 4 * 9);
        assert_eq!(rounds(3, 1), []);
        assert_eq!(rounds(4, 2), [of(4, 2)]);
    }

    #[test]
    fn a_score_is_below_zero_where_the_setting_is_better() {
        let (base, half) = ([2.0, 4.0], [1.0, 2.0]);
        assert!((score(&base, &half, Better::Lower).unwrap() + 2_f64.ln()).abs() < 1e-12);
        assert!((score(&base, &half, Better::Higher).unwrap() - 2_f64.ln()).abs() < 1e-12);
        assert_eq!(score(&base, &[1.0], Better::Lower), None);
        assert_eq!(score(&[], &[], Better::Lower), None);
    }

    #[test]
    fn fronts_come_before_sums() {
        let scores = [[0.0, 0.0], [-1.0, 0.5], [0.5, -1.0], [0.1, 0.1]].map(|s| s.map(Some).to_vec());
        assert_eq!(order(&scores), [1, 2, 0, 3]);
        assert_eq!(order(&[vec![None], vec![Some(3.0)], vec![Some(-1.0)]]), [2, 1, 0]);
    }

    proptest! {
        #[test]
        fn an_order_has_everybody_once_and_nobody_behind_one_it_dominates(
            scores in prop::collection::vec(prop::collection::vec(prop::option::weighted(0.9, -1.0..1.0), 2), 1..30)
        ) {
            let ordered = order(&scores);
            let mut all = ordered.clone();
            all.sort_unstable();
            prop_assert_eq!(all, (0..scores.len()).collect::<Vec<_>>());
            let whole = |at: usize| scores[at].iter().copied().collect::<Option<Vec<f64>>>();
            for (place, early) in ordered.iter().enumerate() {
                for late in &ordered[place..] {
                    if let (Some(early), Some(late)) = (whole(*early), whole(*late)) {
                        prop_assert!(!dominates(&late, &early));
                    }
                }
            }
        }
    }
}
