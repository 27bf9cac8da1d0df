//! Rank tests: Wilcoxon's signed ranks for pairs, Mann-Whitney's U for two groups.
//!
//! Small samples get the exact distribution under all sign flips (or all splits into groups) of the observed ranks,
//! ties included: mid-ranks are doubled to integers, and sums are counted by dynamic programming. Larger samples get
//! the normal approximation with the correction for ties. All p-values are two-sided.

use super::special::{normal_cdf, root};

/// Up to this many pairs the signed-rank distribution is exact.
pub const EXACT_PAIRS: usize = 25;
/// Up to this many runs in both groups together the U distribution is exact.
pub const EXACT_GROUPS: usize = 50;

/// Twice the mid-rank of every value (ties share the mean of their ranks), in the order of `values`.
pub fn doubled_ranks(values: &[f64]) -> Vec<u64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|a, b| values[*a].total_cmp(&values[*b]));
    let mut ranks = vec![0; values.len()];
    let mut i = 0;
    while i < order.len() {
        let mut j = i;
        while j + 1 < order.len() && values[order[j + 1]] == values[order[i]] {
            j += 1;
        }
        // Ranks i+1 ..= j+1 have the mean (i + j + 2) / 2.
        for &k in &order[i..=j] {
            ranks[k] = (i + j + 2) as u64;
        }
        i = j + 1;
    }
    ranks
}

/// p-value of Wilcoxon's signed-rank test that differences are symmetric about 0. Zero differences are dropped, as
/// Wilcoxon did; with none left the answer is 1.
pub fn signed_rank_p(differences: &[f64]) -> f64 {
    let kept: Vec<f64> = differences.iter().copied().filter(|d| *d != 0.0).collect();
    if kept.is_empty() {
        return 1.0;
    }
    let sizes: Vec<f64> = kept.iter().map(|d| d.abs()).collect();
    let ranks = doubled_ranks(&sizes);
    let plus: u64 = ranks.iter().zip(&kept).filter(|(_, d)| **d > 0.0).map(|(r, _)| r).sum();
    if kept.len() <= EXACT_PAIRS {
        return two_sided(&subset_sums(&ranks), plus);
    }
    let total: u64 = ranks.iter().sum();
    let variance: f64 = ranks.iter().map(|r| (*r as f64) * (*r as f64)).sum::<f64>() / 4.0;
    normal_two_sided(plus as f64, total as f64 / 2.0, variance)
}

/// p-value of the sign test that the median difference is 0; zero differences are dropped.
pub fn sign_p(differences: &[f64]) -> f64 {
    let plus = differences.iter().filter(|d| **d > 0.0).count();
    let n = plus + differences.iter().filter(|d| **d < 0.0).count();
    let (mut term, mut sum) = (1.0, 0.0); // binomial coefficients over 2^n, halved step by step
    for k in 0..=plus.min(n - plus) {
        sum += term;
        term *= (n - k) as f64 / (k + 1) as f64;
    }
    (2.0 * sum / libm::exp2(n as f64)).min(1.0)
}

/// p-value of the Mann-Whitney U test that two groups come from one distribution; 1 when a group is empty.
pub fn mann_whitney_p(a: &[f64], b: &[f64]) -> f64 {
    let (n, m) = (a.len(), b.len());
    if n == 0 || m == 0 {
        return 1.0;
    }
    let pooled: Vec<f64> = a.iter().chain(b).copied().collect();
    let ranks = doubled_ranks(&pooled);
    let sum_a: u64 = ranks[..n].iter().sum();
    if n + m <= EXACT_GROUPS {
        return two_sided(&group_sums(&ranks, n), sum_a);
    }
    let total = (n + m) as f64;
    let centre = n as f64 * (total + 1.0); // doubled ranks: twice n (N + 1) / 2
    let mean_square =
        ranks.iter().map(|r| (*r as f64 - (total + 1.0)) * (*r as f64 - (total + 1.0))).sum::<f64>() / total;
    let variance = n as f64 * m as f64 / (total - 1.0) * mean_square;
    normal_two_sided(sum_a as f64, centre, variance)
}

/// Number of sign choices for every sum of the chosen ranks.
pub fn subset_sums(ranks: &[u64]) -> Vec<f64> {
    let mut ways = vec![0.0; ranks.iter().sum::<u64>() as usize + 1];
    ways[0] = 1.0;
    let mut top = 0;
    for r in ranks.iter().map(|r| *r as usize) {
        for s in (0..=top).rev() {
            ways[s + r] += ways[s];
        }
        top += r;
    }
    ways
}

/// Number of ways to choose `n` of the ranks for every sum of the chosen.
pub fn group_sums(ranks: &[u64], n: usize) -> Vec<f64> {
    let top = ranks.iter().sum::<u64>() as usize;
    let mut ways = vec![vec![0.0; top + 1]; n + 1];
    ways[0][0] = 1.0;
    for r in ranks.iter().map(|r| *r as usize) {
        for k in (0..n).rev() {
            let (below, above) = ways.split_at_mut(k + 1);
            for s in 0..=(top - r) {
                above[0][s + r] += below[k][s];
            }
        }
    }
    ways.swap_remove(n)
}

fn two_sided(ways: &[f64], seen: u64) -> f64 {
    let all: f64 = ways.iter().sum();
    let low: f64 = ways[..=seen as usize].iter().sum();
    let high: f64 = ways[seen as usize..].iter().sum();
    (2.0 * low.min(high) / all).min(1.0)
}

/// Doubled ranks move in steps of 2 at most, so the continuity correction is 1.
fn normal_two_sided(seen: f64, centre: f64, variance: f64) -> f64 {
    if variance <= 0.0 {
        return 1.0;
    }
    let z = ((seen - centre).abs() - 1.0).max(0.0) / root(variance);
    (2.0 * normal_cdf(-z)).min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_share_their_mean_rank() {
        assert_eq!(doubled_ranks(&[3.0, 1.0, 3.0, 9.0]), [5, 2, 5, 8]);
    }

    #[test]
    fn signed_rank_matches_darwins_maize() {
        // Darwin's cross- and self-fertilised maize, differences in 1/8 inch (Fisher, Design of Experiments, 1935,
        // ch. III). W- = 24 of 120; two-sided p = 0.04126 exactly.
        let d = [49.0, -67.0, 8.0, 16.0, 6.0, 23.0, 28.0, 41.0, 14.0, 29.0, 56.0, 24.0, 75.0, 60.0, -48.0];
        let p = signed_rank_p(&d);
        assert!((p - 0.041_259_765_625).abs() < 1e-12, "{p}");
    }

    #[test]
    fn signed_rank_smallest_p_is_two_in_two_to_the_n() {
        for n in 1..=10 {
            let d: Vec<f64> = (1..=n).map(f64::from).collect();
            assert_eq!(signed_rank_p(&d), (2.0 / f64::from(1 << n)).min(1.0));
        }
        assert_eq!(signed_rank_p(&[0.0; 8]), 1.0);
    }

    #[test]
    fn signs_follow_the_binomial() {
        let nine_of_ten = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, -99.0, 0.0];
        assert_eq!(sign_p(&nine_of_ten), 22.0 / 1024.0);
        assert_eq!((sign_p(&[]), sign_p(&[0.0; 5]), sign_p(&[1.0, -1.0])), (1.0, 1.0, 1.0));
        // Ranks are carried away by the wild one: 10 of 55 is not below the critical 8.
        assert!(signed_rank_p(&nine_of_ten) > 0.05);
    }

    #[test]
    fn mann_whitney_matches_the_tables() {
        // Mann & Whitney (1947), table I: n = m = 4, P(U <= 1) = 0.029, P(U <= 0) = 0.014.
        assert!((mann_whitney_p(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0, 7.0, 8.0]) - 2.0 / 70.0).abs() < 1e-15);
        assert!((mann_whitney_p(&[1.0, 2.0, 3.0, 5.0], &[4.0, 6.0, 7.0, 8.0]) - 4.0 / 70.0).abs() < 1e-15);
        assert_eq!(mann_whitney_p(&[5.0; 6], &[5.0; 6]), 1.0);
    }

    #[test]
    fn approximations_meet_the_exact_values() {
        // Exact counts by the same recursion at a size where the normal form is used, as an independent check.
        let d: Vec<f64> = (1..=30).map(|i| if i % 3 == 0 { -f64::from(i) } else { f64::from(i) }).collect();
        let ranks = doubled_ranks(&d.iter().map(|x| x.abs()).collect::<Vec<_>>());
        let plus = ranks.iter().zip(&d).filter(|(_, x)| **x > 0.0).map(|(r, _)| r).sum();
        let exact = two_sided(&subset_sums(&ranks), plus);
        assert!((signed_rank_p(&d) - exact).abs() < 0.004, "{} {exact}", signed_rank_p(&d));
        let (a, b): (Vec<f64>, Vec<f64>) =
            ((0..26).map(f64::from).collect(), (0..26).map(|i| f64::from(i) + 5.5).collect());
        let pooled: Vec<f64> = a.iter().chain(&b).copied().collect();
        let ranks = doubled_ranks(&pooled);
        let exact = two_sided(&group_sums(&ranks, 26), ranks[..26].iter().sum());
        assert!((mann_whitney_p(&a, &b) - exact).abs() < 0.002, "{} {exact}", mann_whitney_p(&a, &b));
    }
}
