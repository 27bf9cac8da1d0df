//! How far a share that was sampled may be off.

use super::special::{normal_quantile, root};

/// The 95 % interval of a share, `hits` of `all` samples, in per cent: Wilson's for a binomial, which is never empty
/// and stays within 0 to 100. `None` without samples.
pub fn wilson95(hits: u64, all: u64) -> Option<[f64; 2]> {
    (all > 0).then(|| {
        let (n, p, z) = (all as f64, hits.min(all) as f64 / all as f64, normal_quantile(0.975));
        let scale = 1.0 + z * z / n;
        let centre = (p + z * z / (2.0 * n)) / scale;
        let half = z * root(p * (1.0 - p) / n + z * z / (4.0 * n * n)) / scale;
        [100.0 * (centre - half).max(0.0), 100.0 * (centre + half).min(1.0)]
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Newcombe (1998), table I: 81 of 263, 15 of 148, 0 of 20, 1 of 29.
    #[test]
    fn published_intervals_come_out() {
        for (hits, all, low, high) in
            [(81, 263, 25.53, 36.62), (15, 148, 6.24, 16.05), (0, 20, 0.0, 16.11), (1, 29, 0.61, 17.18)]
        {
            let [a, b] = wilson95(hits, all).unwrap();
            assert!((a - low).abs() < 0.006 && (b - high).abs() < 0.006, "{hits}/{all}: {a} {b}");
        }
        assert_eq!(wilson95(0, 0), None);
    }
}
