//! Holm's correction of many p-values: the probability of even one false alarm in a table stays at 5 %.
//!
//! With weights (Holm 1979, section 4) some rows get a larger part of the 5 %. The part of a row that is beyond chance
//! passes to the remaining rows.

/// The corrected p-values, in the order given (step-down: the smallest times n, the next times n - 1, ..., never
/// falling, never above 1).
pub fn holm(p: &[f64]) -> Vec<f64> {
    weighted(p, &vec![1.0; p.len()])
}

/// As [`holm`], where each row has a weight above 0: its part of the 5 % is its weight in the sum of all.
pub fn weighted(p: &[f64], weights: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| (p[*a] / weights[*a]).total_cmp(&(p[*b] / weights[*b])));
    let mut corrected = vec![1.0; p.len()];
    let mut left: f64 = weights.iter().sum();
    let mut floor = 0.0_f64;
    for i in order {
        floor = floor.max((p[i] * left.max(weights[i]) / weights[i]).min(1.0));
        corrected[i] = floor;
        left -= weights[i];
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::{holm, weighted};

    #[test]
    fn matches_a_worked_example() {
        // Holm (1979) steps on p = 0.01, 0.04, 0.03, 0.005: 4 x 0.005, 3 x 0.01, 2 x 0.03, then 0.04 lifted to 0.06.
        let c = holm(&[0.01, 0.04, 0.03, 0.005]);
        for (got, want) in c.iter().zip([0.03, 0.06, 0.06, 0.02]) {
            assert!((got - want).abs() < 1e-15, "{c:?}");
        }
        assert_eq!(holm(&[0.6, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }

    #[test]
    fn a_row_with_half_the_weight_of_all_is_doubled_and_what_it_does_not_need_passes_on() {
        let c = weighted(&[0.02, 0.015, 0.9], &[0.5, 0.25, 0.25]);
        // 0.02 x 1 / 0.5 = 0.04; then 0.015 x 0.5 / 0.25 = 0.03, lifted to 0.04.
        assert!(
            (c[0] - 0.04).abs() < 1e-12 && (c[1] - 0.04).abs() < 1e-12 && (c[2] - 0.9).abs() < 1e-12,
            "{c:?}"
        );
        let c = weighted(&[0.03, 0.01], &[0.5, 0.5]);
        assert!((c[0] - 0.03).abs() < 1e-12 && (c[1] - 0.02).abs() < 1e-12, "{c:?}");
    }
}
