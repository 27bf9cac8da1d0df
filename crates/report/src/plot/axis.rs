//! An axis, linear or (for values over more than two decades) logarithmic; its ticks; and units that fit its values.

/// If the ratio of largest to smallest value is above this, the axis is logarithmic.
const LOG_FROM: f64 = 100.0;

/// Maps values to a length of the drawing.
#[derive(Clone, Debug)]
pub struct Axis {
    low: f64,
    high: f64,
    log: bool,
    /// Positions of `low` and `high`.
    ends: (f64, f64),
}

impl Axis {
    /// An axis that shows all `values`; `from_zero` begins a linear one at 0.
    pub fn of(values: &[f64], from_zero: bool, ends: (f64, f64)) -> Axis {
        let least = values.iter().copied().fold(f64::INFINITY, f64::min);
        let most = values.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let (least, most) = if least.is_finite() && most.is_finite() { (least, most) } else { (0.0, 1.0) };
        if least > 0.0 && most / least > LOG_FROM {
            return Axis { low: least.log10() - 0.05, high: most.log10() + 0.05, log: true, ends };
        }
        let low = if from_zero { least.min(0.0) } else { least };
        let span = if most > low { most - low } else { low.abs().max(1.0) };
        let low = if from_zero && low == 0.0 { 0.0 } else { low - span * 0.05 };
        Axis { low, high: most.max(low) + span * 0.05, log: false, ends }
    }
    pub fn at(&self, value: f64) -> f64 {
        let value = if self.log { value.max(f64::MIN_POSITIVE).log10() } else { value };
        let share = ((value - self.low) / (self.high - self.low)).clamp(0.0, 1.0);
        self.ends.0 + share * (self.ends.1 - self.ends.0)
    }
    /// The values with a label.
    pub fn ticks(&self) -> Vec<f64> {
        if self.log {
            let decades = self.low.ceil() as i32..=self.high.floor() as i32;
            return decades.map(|d| 10f64.powi(d)).collect();
        }
        let raw = (self.high - self.low) / 5.0;
        let decade = 10f64.powf(raw.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].map(|m| m * decade).into_iter().find(|s| *s >= raw).unwrap_or(raw);
        let (first, last) = ((self.low / step).ceil() as i64, (self.high / step).floor() as i64);
        (first..=last).map(|i| i as f64 * step).collect()
    }
}

/// A number without needless zeroes, with at most four significant digits.
pub fn label(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    if !(1e-4..1e7).contains(&value.abs()) {
        return format!("{value:.0e}");
    }
    let places = (3 - value.abs().log10().floor() as i32).clamp(0, 6) as usize;
    let text = format!("{value:.places$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// The unit for showing values in `unit` up to `most`, and the factor to it.
pub fn unit(unit: &str, most: f64) -> (&str, f64) {
    match unit {
        "ns" if most >= 1e9 => ("s", 1e-9),
        "ns" if most >= 1e6 => ("ms", 1e-6),
        "ns" if most >= 1e3 => ("us", 1e-3),
        other => (other, 1.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_decades_where_values_span_many() {
        let linear = Axis::of(&[3.0, 47.0], true, (100.0, 0.0));
        assert_eq!(linear.ticks(), [0.0, 10.0, 20.0, 30.0, 40.0]);
        assert_eq!((linear.at(0.0), Axis::of(&[5.0], false, (0.0, 1.0)).at(5.0)), (100.0, 0.5));
        let log = Axis::of(&[1.0, 5000.0], true, (0.0, 100.0));
        assert_eq!(log.ticks(), [1.0, 10.0, 100.0, 1000.0]);
        assert!(log.at(10.0) - log.at(1.0) - (log.at(1000.0) - log.at(100.0)) < 1e-9);
    }

    #[test]
    fn labels_are_short_and_units_fit() {
        assert_eq!([0.0, 1500.0, 0.25, 12.0].map(label), ["0", "1500", "0.25", "12"]);
        assert_eq!((unit("ns", 2e6), unit("req/s", 2e6)), (("ms", 1e-6), ("req/s", 1.0)));
    }
}
