//! The points of a percentile curve and the bars of a histogram, as numbers.

use schedlab_record::{Record, Series};

/// Percentiles of a curve's points, in thousandths of a percent.
const PERCENTILES: [u32; 17] = [
    1_000, 5_000, 10_000, 25_000, 50_000, 75_000, 90_000, 95_000, 98_000, 99_000, 99_500, 99_800, 99_900,
    99_950, 99_980, 99_990, 99_999,
];
/// A histogram of fewer values would show single values instead of their distribution.
pub const FEWEST: u64 = 20;
/// Bars of a histogram in each decade.
const A_DECADE: f64 = 8.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub struct CurvePoint {
    pub percentile: f64,
    /// The value at the percentile, in the series' unit.
    pub value: f64,
}

/// The series of all runs of a cell, merged; `None` if no run has it.
pub fn pooled(runs: &[Record], name: &str) -> Option<Series> {
    let mut all = runs.iter().filter_map(|r| r.found.series.get(name)).filter(|s| s.count() > 0);
    let mut sum = all.next()?.clone();
    all.for_each(|s| sum.merge(s));
    // Percentiles and bars walk its buckets.
    sum.pack();
    Some(sum)
}

/// The points of a series. Points with fewer than 10 samples above them are left out.
pub fn curve(series: &Series) -> Vec<CurvePoint> {
    let at = |milli: &u32| {
        let percentile = f64::from(*milli) / 1000.0;
        series.percentile(percentile).number().map(|value| CurvePoint { percentile, value })
    };
    PERCENTILES.iter().filter_map(at).collect()
}

/// The horizontal position of a percentile: the number of nines, 0 for 0 %, 2 for 99 %.
pub fn nines(percentile: f64) -> f64 {
    -(1.0 - percentile / 100.0).max(1e-9).log10()
}

/// A histogram: bars of equal width on a logarithmic scale, each with its lower bound and its share of all values.
/// Values below 1 count in the first bar.
pub fn bars(series: &Series) -> Vec<(f64, f64)> {
    let mut bars: Vec<(i32, u64)> = Vec::new();
    for (value, n) in series.values() {
        let at = (A_DECADE * (value.max(1) as f64).log10()).floor() as i32;
        match bars.last_mut() {
            Some((last, sum)) if *last == at => *sum += n,
            _ => bars.push((at, n)),
        }
    }
    let count = series.count().max(1) as f64;
    bars.into_iter().map(|(at, n)| (bound(at), n as f64 / count)).collect()
}

/// The lower bound of the next bar.
pub fn next(lower: f64) -> f64 {
    bound((A_DECADE * lower.log10()).round() as i32 + 1)
}

fn bound(at: i32) -> f64 {
    10f64.powf(f64::from(at) / A_DECADE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_record::Better;

    fn series(values: impl Iterator<Item = u64>) -> Series {
        let mut s = Series::new("ns", Better::Lower);
        values.for_each(|v| s.record(v));
        s
    }

    #[test]
    fn a_curve_ends_where_the_tail_is_thin() {
        let points = curve(&series(1..=2000));
        let last = points.last().unwrap();
        assert_eq!((last.percentile, last.value), (99.5, 1990.0), "99.8 has 4 samples above it");
        let median = points.iter().find(|p| p.percentile == 50.0).unwrap();
        assert_eq!(median.value, 1000.0);
        assert!(points.windows(2).all(|w| w[0].value <= w[1].value && w[0].percentile < w[1].percentile));
        assert!((nines(99.9) - 3.0).abs() < 1e-9 && nines(0.0) == 0.0);
    }

    #[test]
    fn shares_of_bars_add_up() {
        let all = bars(&series((0..5000).map(|i| i * i)));
        assert!((all.iter().map(|(_, share)| share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(all.windows(2).all(|w| next(w[0].0) <= w[1].0 * 1.000_001));
        assert_eq!(bars(&series([1000, 1000, 100_000].into_iter())).len(), 2);
    }
}
