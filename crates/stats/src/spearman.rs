//! Spearman's rank correlation: whether one quantity rises or falls with another, in whatever shape.

use super::describe::correlation;
use super::rank::doubled_ranks;
use super::special::{root, t_two_sided};

/// A rank correlation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spearman {
    /// From -1 (one falls as the other rises) to 1.
    pub rho: f64,
    /// Two-sided p-value of "no relation".
    pub p: f64,
}

/// The rank correlation of pairs, ties with mid-ranks; `None` when there are fewer than three or one side
/// does not vary.
///
/// The p-value uses Student's t with n - 2 degrees of freedom. It is never below 2/n!, the probability of a perfect
/// order, which is all that few pairs can show.
pub fn spearman(x: &[f64], y: &[f64]) -> Option<Spearman> {
    let ranks = |values: &[f64]| doubled_ranks(values).into_iter().map(|r| r as f64).collect::<Vec<_>>();
    let rho = correlation(&ranks(x), &ranks(y))?;
    let df = x.len() as f64 - 2.0;
    let left = 1.0 - rho * rho;
    // Rounding may miss a perfect order by a hair.
    let by_t = if left < 1e-12 { 0.0 } else { t_two_sided(rho * root(df / left), df) };
    let orders: f64 = (1..=x.len()).map(|k| k as f64).product();
    Some(Spearman { rho, p: by_t.max(2.0 / orders).min(1.0) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_published_example_comes_out() {
        // Hours of television and IQ of ten people, a textbook's example without ties: rho = -29/165, p = 0.627.
        let iq = [106.0, 86.0, 100.0, 101.0, 99.0, 103.0, 97.0, 113.0, 112.0, 110.0];
        let hours = [7.0, 0.0, 27.0, 50.0, 28.0, 29.0, 20.0, 12.0, 6.0, 17.0];
        let s = spearman(&iq, &hours).unwrap();
        assert!((s.rho + 29.0 / 165.0).abs() < 1e-12 && (s.p - 0.627_188).abs() < 1e-5, "{s:?}");
    }

    #[test]
    fn any_rising_curve_is_one_and_few_pairs_show_little() {
        let x: Vec<f64> = (1..=20).map(f64::from).collect();
        let curve: Vec<f64> = x.iter().map(|v| v * v * v).collect();
        let s = spearman(&x, &curve).unwrap();
        assert!((s.rho - 1.0).abs() < 1e-12 && s.p < 1e-15, "{s:?}");
        let few = spearman(&x[..4], &curve[..4]).unwrap();
        assert!((few.p - 2.0 / 24.0).abs() < 1e-12, "{few:?}");
    }

    #[test]
    fn what_does_not_vary_has_none() {
        assert_eq!(spearman(&[1.0; 5], &[1.0, 2.0, 3.0, 4.0, 5.0]), None);
        assert_eq!(spearman(&[1.0, 2.0], &[1.0, 2.0]), None);
        // Ties: ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4 give sqrt(0.9).
        let tied = spearman(&[1.0, 2.0, 2.0, 3.0], &[1.0, 2.0, 3.0, 4.0]).unwrap();
        assert!((tied.rho * tied.rho - 0.9).abs() < 1e-12, "{tied:?}");
    }
}
