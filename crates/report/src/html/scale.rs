//! Maps values to positions on a chart; logarithmic, for times of several orders of magnitude.

use crate::number::duration;

/// Maps to positions from `ends.0` to `ends.1`.
#[derive(Clone, Debug)]
pub struct Log {
    low: f64,
    high: f64,
    ends: (f64, f64),
}

impl Log {
    /// A scale that covers all values; `None` if none is positive. Values that are not positive are at its low end.
    pub fn of(values: impl Iterator<Item = f64> + Clone, ends: (f64, f64)) -> Option<Log> {
        let positive = values.filter(|v| *v > 0.0);
        let low = positive.clone().reduce(f64::min)?.log10();
        let high = positive.reduce(f64::max)?.log10();
        let margin = ((high - low) * 0.04).max(0.05);
        Some(Log { low: low - margin, high: high + margin, ends })
    }
    pub fn at(&self, value: f64) -> f64 {
        let log = value.max(f64::MIN_POSITIVE).log10().clamp(self.low, self.high);
        self.ends.0 + (log - self.low) / (self.high - self.low) * (self.ends.1 - self.ends.0)
    }
    /// Values for ticks: powers of ten and, if these are few, 2 and 5 times them.
    pub fn ticks(&self) -> Vec<f64> {
        let steps: &[f64] = match self.high - self.low {
            span if span < 1.2 => &[1.0, 2.0, 3.0, 5.0, 7.0],
            span if span < 2.6 => &[1.0, 3.0],
            _ => &[1.0],
        };
        let decades = self.low.floor() as i32..=self.high.ceil() as i32;
        let all = decades.flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
        all.filter(|v| (self.low..=self.high).contains(&v.log10())).collect()
    }
}

/// A tick's label: "50us", "1.5ms"; plain numbers without a unit.
pub fn label(value: f64, unit: &str) -> String {
    if unit != "ns" {
        return crate::number::count(value);
    }
    let text = duration(value);
    let at = text.find(|c: char| c.is_ascii_alphabetic()).unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number =
        if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.') } else { number };
    format!("{number}{unit}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_within() {
        let s = Log::of([2e3, 5e8, 0.0].into_iter(), (100.0, 0.0)).unwrap();
        assert_eq!(s.ticks(), [1e4, 1e5, 1e6, 1e7, 1e8]);
        assert!(s.at(1e4) > s.at(1e5) && s.at(0.0) == 100.0);
        let near = Log::of([9e3, 4e4].into_iter(), (0.0, 1.0)).unwrap();
        assert_eq!(near.ticks(), [1e4, 2e4, 3e4]);
        assert!(Log::of([0.0].into_iter(), (0.0, 1.0)).is_none());
        assert_eq!([1e4, 1e6, 1.5e6, 500.0].map(|v| label(v, "ns")), ["10us", "1ms", "1.5ms", "500ns"]);
    }
}
