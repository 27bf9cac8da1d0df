//! Description of a few runs: mean, sample standard deviation, median, correlation of pairs.

use super::special::root;

/// Summary of the values of one metric over the runs of a cell.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of runs.
    pub n: usize,
    pub mean: f64,
    /// Sample standard deviation (divides by n - 1); `None` for a single run.
    pub std: Option<f64>,
    pub median: f64,
    /// Smallest value.
    pub min: f64,
    /// Largest value.
    pub max: f64,
}

impl Summary {
    /// The summary; `None` if there are no values.
    pub fn of(values: &[f64]) -> Option<Summary> {
        let sorted = sorted(values);
        let (min, max) = (*sorted.first()?, *sorted.last()?);
        let m = mean(values);
        Some(Summary { n: values.len(), mean: m, std: std(values), median: median_sorted(&sorted), min, max })
    }
    /// The standard deviation in percent of the mean; `None` for a single run or a mean of 0 with spread.
    pub fn std_pct(&self) -> Option<f64> {
        match self.std? {
            0.0 => Some(0.0),
            _ if self.mean == 0.0 => None,
            s => Some(100.0 * s / self.mean.abs()),
        }
    }
}

/// The arithmetic mean, summed in the given order; 0 for no values. It is computed relative to the first value, so that
/// the mean of equal values is exactly that value.
pub fn mean(values: &[f64]) -> f64 {
    match values {
        [] => 0.0,
        [first, ..] => first + values.iter().map(|v| v - first).sum::<f64>() / values.len() as f64,
    }
}

/// The sample standard deviation; `None` for fewer than two values.
pub fn std(values: &[f64]) -> Option<f64> {
    if values.len() < 2 {
        return None;
    }
    let m = mean(values);
    let squares: f64 = values.iter().map(|v| (v - m) * (v - m)).sum();
    Some(root(squares / (values.len() - 1) as f64))
}

/// The values in ascending order.
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut v = values.to_vec();
    v.sort_by(f64::total_cmp);
    v
}

/// The median of values in ascending order; 0 for none.
pub fn median_sorted(sorted: &[f64]) -> f64 {
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[n / 2],
        n => 0.5 * (sorted[n / 2 - 1] + sorted[n / 2]),
    }
}

/// Pearson's correlation of pairs; `None` if there are fewer than three or one side does not vary.
pub fn correlation(a: &[f64], b: &[f64]) -> Option<f64> {
    if a.len() != b.len() || a.len() < 3 {
        return None;
    }
    let (ma, mb) = (mean(a), mean(b));
    let sum = |f: &dyn Fn(f64, f64) -> f64| a.iter().zip(b).map(|(x, y)| f(x - ma, y - mb)).sum::<f64>();
    let (saa, sbb, sab) = (sum(&|x, _| x * x), sum(&|_, y| y * y), sum(&|x, y| x * y));
    (saa > 0.0 && sbb > 0.0).then(|| (sab / (root(saa) * root(sbb))).clamp(-1.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_spread_divides_by_n_minus_one() {
        let s = Summary::of(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]).unwrap();
        assert_eq!((s.mean, s.median, s.min, s.max), (5.0, 4.5, 2.0, 9.0));
        // Sum of squares 32: sqrt(32/7), not the population's 2.
        assert!((s.std.unwrap() - 2.138_089_935_299_395).abs() < 1e-14);
        assert!((s.std_pct().unwrap() - 42.761_798_705_987_9).abs() < 1e-10);
    }

    #[test]
    fn small_and_constant_cells_give_no_nan() {
        assert_eq!(Summary::of(&[]), None);
        assert_eq!(Summary::of(&[3.0]).unwrap().std_pct(), None);
        assert_eq!(Summary::of(&[0.1; 7]).unwrap().std, Some(0.0));
        assert_eq!(Summary::of(&[0.0; 3]).unwrap().std_pct(), Some(0.0));
        assert_eq!(Summary::of(&[-1.0, 1.0]).unwrap().std_pct(), None);
    }

    #[test]
    fn correlation_of_a_line_is_one() {
        let line = |b: &[f64]| correlation(&[1.0, 2.0, 3.0], b).unwrap();
        assert!(
            (line(&[10.0, 20.0, 30.0]) - 1.0).abs() < 1e-12 && (line(&[3.0, 2.0, 1.0]) + 1.0).abs() < 1e-12
        );
        assert_eq!(correlation(&[1.0, 1.0, 1.0], &[3.0, 2.0, 1.0]), None);
        // Anscombe (1973), first data set: r = 0.816.
        let x = [10.0, 8.0, 13.0, 9.0, 11.0, 14.0, 6.0, 4.0, 12.0, 7.0, 5.0];
        let y = [8.04, 6.95, 7.58, 8.81, 8.33, 9.96, 7.24, 4.26, 10.84, 4.82, 5.68];
        assert!((correlation(&x, &y).unwrap() - 0.816_420_516_345).abs() < 1e-9);
    }
}
