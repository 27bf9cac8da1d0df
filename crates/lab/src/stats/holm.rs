//! Holm's correction of many p-values: the chance of even one false alarm in a table stays at 5 %.

/// The corrected p-values, in the order given (step-down: the smallest times n, the next times n - 1, ..., never
/// falling, never above 1).
pub fn holm(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| p[*a].total_cmp(&p[*b]));
    let mut corrected = vec![1.0; p.len()];
    let mut floor = 0.0_f64;
    for (step, &i) in order.iter().enumerate() {
        floor = floor.max((p[i] * (p.len() - step) as f64).min(1.0));
        corrected[i] = floor;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::holm;

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
}
