//! Estimates of a shift with their 95 % intervals: trimmed means with t, and Hodges-Lehmann from the rank tests.
//!
//! The functions take numbers on a scale where a change is a shift (logarithms, or multiples of the baseline): a list
//! of paired differences, or two groups. A rank interval needs a rank test that can reject: from 6 pairs, or from 4
//! runs in each of two groups.

use super::describe::{mean, median_sorted, sorted};
use super::rank::{EXACT_GROUPS, EXACT_PAIRS, group_sums, subset_sums};
use super::special::{normal_quantile, root, t_quantile, t_two_sided};

/// Chance outside each end of a 95 % interval, for the intervals from ranks.
const TAIL: f64 = 0.025;
/// The trimmed mean cuts one run in this many from each end, and at least one ...
const TRIM_ONE_IN: usize = 10;
/// ... from this many runs on. With fewer, only the verdict "same" is possible, and the plain mean is used.
const TRIM_FROM: usize = 6;

/// A shift and its 95 % interval.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Shift {
    pub estimate: f64,
    /// Lower and upper end.
    pub interval: [f64; 2],
}

/// Estimate, standard error and degrees of freedom of a (trimmed) mean or difference of means.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TEstimate {
    pub estimate: f64,
    /// Its standard error.
    pub error: f64,
    /// Degrees of freedom.
    pub df: f64,
}

impl TEstimate {
    /// Two-sided p-value of "no shift".
    pub fn p(&self) -> f64 {
        if self.error > 0.0 {
            t_two_sided(self.estimate / self.error, self.df)
        } else if self.estimate == 0.0 {
            1.0
        } else {
            0.0
        }
    }
    /// The interval that misses the true shift with probability `alpha`.
    pub fn shift(&self, alpha: f64) -> Shift {
        let half = if self.error > 0.0 { t_quantile(1.0 - alpha / 2.0, self.df) * self.error } else { 0.0 };
        Shift { estimate: self.estimate, interval: [self.estimate - half, self.estimate + half] }
    }
    /// The smallest shift that data of this spread shows with 80 % power at the two-sided level `alpha`.
    pub fn detectable(&self, alpha: f64) -> f64 {
        if self.error > 0.0 {
            (t_quantile(1.0 - alpha / 2.0, self.df) + t_quantile(0.8, self.df)) * self.error
        } else {
            0.0
        }
    }
}

/// The trimmed mean of paired differences (Tukey & McLaughlin 1963); `None` below two pairs.
pub fn paired_t(differences: &[f64]) -> Option<TEstimate> {
    one_sample(differences, cut(differences.len()))
}

/// The difference of two groups' trimmed means (Yuen 1974; Welch's t if no run is cut); `None` if a group has
/// fewer than two runs.
pub fn group_t(base: &[f64], variant: &[f64]) -> Option<TEstimate> {
    two_sample(base, variant, cut(base.len()), cut(variant.len()))
}

fn cut(n: usize) -> usize {
    if n < TRIM_FROM { 0 } else { (n / TRIM_ONE_IN).max(1) }
}

/// Trimmed mean, its squared standard error from the winsorised spread, and the number of values kept.
fn trimmed(values: &[f64], g: usize) -> Option<(f64, f64, f64)> {
    let s = sorted(values);
    let kept = s.len().checked_sub(2 * g).filter(|k| *k >= 2)?;
    let (low, high) = (s[g], s[s.len() - 1 - g]);
    let winsorised: Vec<f64> = s.iter().map(|v| v.clamp(low, high)).collect();
    let centre = mean(&winsorised);
    let squares: f64 = winsorised.iter().map(|v| (v - centre) * (v - centre)).sum();
    let h = kept as f64;
    Some((mean(&s[g..s.len() - g]), squares / (h * (h - 1.0)), h))
}

fn one_sample(values: &[f64], g: usize) -> Option<TEstimate> {
    let (estimate, error2, h) = trimmed(values, g)?;
    Some(TEstimate { estimate, error: root(error2), df: h - 1.0 })
}

fn two_sample(base: &[f64], variant: &[f64], gb: usize, gv: usize) -> Option<TEstimate> {
    let ((mb, eb, hb), (mv, ev, hv)) = (trimmed(base, gb)?, trimmed(variant, gv)?);
    let all = eb + ev;
    let df =
        if all > 0.0 { all * all / (eb * eb / (hb - 1.0) + ev * ev / (hv - 1.0)) } else { hb + hv - 2.0 };
    Some(TEstimate { estimate: mv - mb, error: root(all), df })
}

/// Hodges-Lehmann for pairs: the median of all pairwise means of differences, with the interval that the signed-rank
/// test does not reject; `None` below 6 pairs.
pub fn paired_rank(differences: &[f64]) -> Option<Shift> {
    let n = differences.len();
    let mut walsh = Vec::with_capacity(n * (n + 1) / 2);
    for (i, a) in differences.iter().enumerate() {
        walsh.extend(differences[i..].iter().map(|b| 0.5 * (a + b)));
    }
    let k = if n <= EXACT_PAIRS {
        critical(&subset_sums(&(1..=n as u64).collect::<Vec<_>>()), TAIL)?
    } else {
        let n = n as f64;
        normal_critical(n * (n + 1.0) / 4.0, n * (n + 1.0) * (2.0 * n + 1.0) / 24.0, TAIL)?
    };
    between(&sorted(&walsh), k)
}

/// Hodges-Lehmann for two groups: the median of all differences between a run of each, with the interval that the U
/// test does not reject; `None` when the groups are too small for one (3 and 3).
pub fn group_rank(base: &[f64], variant: &[f64]) -> Option<Shift> {
    group_rank_at(base, variant, TAIL)
}

/// As [`group_rank`], with the chance `tail` outside each end of the interval.
pub fn group_rank_at(base: &[f64], variant: &[f64], tail: f64) -> Option<Shift> {
    let (n, m) = (base.len(), variant.len());
    let all: Vec<f64> = variant.iter().flat_map(|v| base.iter().map(move |b| v - b)).collect();
    let k = if n + m <= EXACT_GROUPS {
        let ways = group_sums(&(1..=(n + m) as u64).collect::<Vec<_>>(), n);
        critical(&ways[n * (n + 1) / 2..], tail)?
    } else {
        let (n, m) = (n as f64, m as f64);
        normal_critical(n * m / 2.0, n * m * (n + m + 1.0) / 12.0, tail)?
    };
    between(&sorted(&all), k)
}

/// The largest statistic that the test rejects on the low side at `tail`.
fn critical(ways: &[f64], tail: f64) -> Option<usize> {
    let all: f64 = ways.iter().sum();
    let mut below = 0.0;
    let rejected = ways.iter().take_while(|w| {
        below += **w;
        below / all <= tail
    });
    rejected.count().checked_sub(1)
}

fn normal_critical(centre: f64, variance: f64, tail: f64) -> Option<usize> {
    let k = centre - normal_quantile(1.0 - tail) * root(variance) - 0.5;
    (k >= 0.0).then_some(k as usize)
}

fn between(ordered: &[f64], k: usize) -> Option<Shift> {
    let high = ordered.len().checked_sub(1 + k).filter(|h| *h >= k)?;
    Some(Shift { estimate: median_sorted(ordered), interval: [ordered[k], ordered[high]] })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Student's sleep data (Cushny & Peebles 1905; Student 1908): extra hours of ten patients under two drugs.
    const DRUG_1: [f64; 10] = [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0];
    const DRUG_2: [f64; 10] = [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4];

    fn near(got: f64, want: f64, tolerance: f64) {
        assert!((got - want).abs() <= tolerance, "{got} is not {want}");
    }

    #[test]
    fn t_tests_match_students_sleep_data() {
        let d: Vec<f64> = DRUG_2.iter().zip(DRUG_1).map(|(b, a)| b - a).collect();
        let paired = one_sample(&d, 0).unwrap();
        // Published many times, e.g. R's ?sleep: t = 4.0621, df = 9, p = 0.002833, interval 0.7001 to 2.4599.
        near(paired.estimate / paired.error, 4.0621, 5e-5);
        near(paired.p(), 0.002_833, 5e-7);
        near(paired.shift(0.05).interval[0], 0.700_114_2, 5e-7);
        near(paired.shift(0.05).interval[1], 2.459_885_8, 5e-7);
        // Welch on the same data as two groups: t = 1.8608, df = 17.776, p = 0.07939, interval -0.2055 to 3.3655.
        let welch = two_sample(&DRUG_1, &DRUG_2, 0, 0).unwrap();
        near(welch.df, 17.776, 5e-4);
        near(welch.p(), 0.079_39, 5e-6);
        near(welch.shift(0.05).interval[0], -0.205_483_2, 5e-7);
    }

    #[test]
    #[allow(clippy::approx_constant)] // 3.14 is a patient's score
    fn hodges_lehmann_matches_hollander_and_wolfe() {
        // Hollander & Wolfe, Nonparametric Statistical Methods (1973), p. 29: depression scale factor of nine patients
        // before and after; estimate -0.46, 96.1 % interval -0.786 to -0.010 (the widest below 97.5 % a side: k = 5).
        let before = [1.83, 0.50, 1.62, 2.48, 1.68, 1.88, 1.55, 3.06, 1.30];
        let after = [0.878, 0.647, 0.598, 2.05, 1.06, 1.29, 1.06, 3.14, 1.29];
        let d: Vec<f64> = after.iter().zip(before).map(|(a, b)| a - b).collect();
        let s = paired_rank(&d).unwrap();
        near(s.estimate, -0.46, 1e-3);
        near(s.interval[0], -0.786, 1e-9);
        near(s.interval[1], -0.010, 1e-9);
    }

    #[test]
    fn rank_intervals_exist_from_six_pairs_or_four_and_four() {
        let d: Vec<f64> = (0..6).map(|i| 1.0 + f64::from(i)).collect();
        assert_eq!(paired_rank(&d[..5]), None);
        assert_eq!(paired_rank(&d).unwrap().interval, [1.0, 6.0]);
        assert_eq!(group_rank(&d[..3], &d[3..]), None);
        let s = group_rank(&[1.0, 2.0, 3.0, 4.0], &[11.0, 12.0, 13.0, 14.0]).unwrap();
        assert_eq!((s.estimate, s.interval), (10.0, [7.0, 13.0]));
    }

    #[test]
    fn trimming_matches_a_sum_done_by_hand() {
        // 0..9 with one value cut at each end: mean of 1..8; winsorised 1,1,2,...,8,8: squares about 4.5 are 66.5.
        let d: Vec<f64> = (0..10).map(f64::from).collect();
        let t = paired_t(&d).unwrap();
        assert_eq!((t.estimate, t.df), (4.5, 7.0));
        near(t.error * t.error, 66.5 / 56.0, 1e-12);
    }

    #[test]
    fn one_wild_run_does_not_carry_the_trimmed_mean_away() {
        let mut d = [-0.10, -0.11, -0.09, -0.10, -0.12, -0.10, -0.08, -0.11, -0.10, -0.09];
        d[3] = 50.0;
        let trimmed = paired_t(&d).unwrap();
        assert!(trimmed.p() < 0.001 && (trimmed.estimate + 0.1).abs() < 0.01, "{trimmed:?}");
        assert!(one_sample(&d, 0).unwrap().p() > 0.3);
    }

    #[test]
    fn equal_values_have_no_spread_and_no_nan() {
        let same = paired_t(&[0.0; 10]).unwrap();
        assert_eq!((same.p(), same.detectable(0.05), same.shift(0.05).interval), (1.0, 0.0, [0.0, 0.0]));
        assert_eq!(paired_t(&[0.5; 4]).unwrap().p(), 0.0);
        assert_eq!(group_t(&[1.0; 5], &[1.0; 5]).unwrap().p(), 1.0);
        assert_eq!(paired_t(&[1.0]), None);
    }
}
