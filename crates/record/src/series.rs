//! A series: all values of one quantity in a run, as exact count, min, max and sum, and a histogram for the
//! rest.
//!
//! Values are integers in the series' unit (nanoseconds for times). The histogram is the HDR layout with
//! three significant digits: a value below 2048 is exact, a larger one is known to one part in a thousand.
//! Percentiles are nearest-rank. Nothing here is stored as a float, so that a record read back equals the one
//! that was written.

use crate::metric::{Better, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HistReader, Serializer as HistWriter, V2Serializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Significant decimal digits of the histograms.
const DIGITS: u8 = 3;
/// A percentile above the median is missing if fewer samples than this lie beyond it.
pub const MIN_TAIL_SAMPLES: u64 = 10;

/// All values of one quantity in one run.
#[derive(Clone, Debug)]
pub struct Series {
    unit: String,
    better: Better,
    sum: u128,
    /// Exact smallest and largest value; without meaning while the histogram is empty.
    range: (u64, u64),
    hist: Histogram<u64>,
}

impl Series {
    /// An empty series of values in `unit` ("ns"; "" for plain counts).
    pub fn new(unit: &str, better: Better) -> Series {
        let hist = Histogram::new(DIGITS).expect("three digits are within what the histogram allows");
        Series { unit: unit.to_owned(), better, sum: 0, range: (u64::MAX, 0), hist }
    }
    /// Unit of the values.
    pub fn unit(&self) -> &str {
        &self.unit
    }
    /// Which direction is good.
    pub fn better(&self) -> Better {
        self.better
    }

    /// Adds one value.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.record_n(value, 1);
    }
    /// Adds a value `n` times.
    #[inline]
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n == 0 {
            return;
        }
        self.range = (self.range.0.min(value), self.range.1.max(value));
        self.sum += u128::from(value) * u128::from(n);
        // Growing fails only if the address space is too small; the value then counts in the topmost bucket.
        if self.hist.record_n(value, n).is_err() {
            self.hist.saturating_record_n(value, n);
        }
    }
    /// Number of the histogram's buckets so far.
    pub(crate) fn buckets(&self) -> usize {
        self.hist.distinct_values()
    }
    /// Adds a value to everything except the histogram; [`count_in`](Series::count_in) adds it there.
    #[inline]
    pub(crate) fn note(&mut self, value: u64) {
        self.range = (self.range.0.min(value), self.range.1.max(value));
        self.sum += u128::from(value);
    }
    /// The smallest and largest value noted or recorded.
    pub(crate) fn noted(&self) -> Option<(u64, u64)> {
        (self.range.0 <= self.range.1).then_some(self.range)
    }
    /// Adds values noted before to the histogram, by any value of their bucket.
    pub(crate) fn count_in(&mut self, value: u64, n: u64) {
        if n > 0 && self.hist.record_n(value, n).is_err() {
            self.hist.saturating_record_n(value, n);
        }
    }
    /// Adds all values of another series of the same quantity.
    pub fn merge(&mut self, other: &Series) {
        if other.count() == 0 {
            return;
        }
        self.range = (self.range.0.min(other.range.0), self.range.1.max(other.range.1));
        self.sum += other.sum;
        for step in other.hist.iter_recorded() {
            let (value, n) = (step.value_iterated_to(), step.count_at_value());
            if self.hist.record_n(value, n).is_err() {
                self.hist.saturating_record_n(value, n);
            }
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.hist.len()
    }
    /// The exact sum.
    pub fn sum(&self) -> u128 {
        self.sum
    }
    /// The exact smallest value.
    pub fn min(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.range.0)
    }
    /// The exact largest value.
    pub fn max(&self) -> Option<u64> {
        (self.count() > 0).then_some(self.range.1)
    }
    /// The exact mean.
    pub fn mean(&self) -> Option<f64> {
        (self.count() > 0).then(|| self.sum as f64 / self.count() as f64)
    }
    /// The value at percentile `p` (0 to 100): nearest rank, midpoint of its bucket, within min and max.
    ///
    /// Missing, with the reason, when there are no values, or when `p` is above 50 and fewer than
    /// [`MIN_TAIL_SAMPLES`] samples lie beyond it.
    pub fn percentile(&self, p: f64) -> Value {
        if self.count() == 0 {
            return Value::Missing("no samples".to_owned());
        }
        let above = self.tail_samples_above(p);
        if p > 50.0 && above < MIN_TAIL_SAMPLES {
            let n = self.count();
            return Value::Missing(format!(
                "{n} samples leave {above} above p{p}; {MIN_TAIL_SAMPLES} are needed"
            ));
        }
        Value::Number(self.rank_value(self.rank(p)) as f64)
    }
    /// Number of values that rank above percentile `p`.
    pub fn tail_samples_above(&self, p: f64) -> u64 {
        self.count() - self.rank(p)
    }
    /// Number of values larger than `cut`, to the histogram's resolution.
    pub fn count_above(&self, cut: u64) -> u64 {
        self.values().filter(|(v, _)| *v > cut).map(|(_, n)| n).sum()
    }
    /// Values in ascending order, each with its count: the midpoint of each bucket, within min and max.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.hist.iter_recorded().map(|step| (self.shown(step.value_iterated_to()), step.count_at_value()))
    }

    /// Rank of percentile `p`, from 1 to count (0 when empty). Thousandths of a per cent, so that 99.9 % of
    /// 1000 is 999.
    fn rank(&self, p: f64) -> u64 {
        let milli = (p.clamp(0.0, 100.0) * 1000.0).round() as u128;
        let rank = (milli * u128::from(self.count())).div_ceil(100_000);
        (rank as u64).clamp(self.count().min(1), self.count())
    }
    fn rank_value(&self, rank: u64) -> u64 {
        let mut seen = 0;
        for (value, n) in self.values() {
            seen += n;
            if seen >= rank {
                return value;
            }
        }
        self.range.1
    }
    fn shown(&self, bucket: u64) -> u64 {
        self.hist.median_equivalent(bucket).clamp(self.range.0, self.range.1)
    }
    fn encode(&self) -> Result<String, String> {
        let mut bytes = Vec::new();
        V2Serializer::new().serialize(&self.hist, &mut bytes).map_err(|e| e.to_string())?;
        Ok(STANDARD.encode(bytes))
    }
}

impl PartialEq for Series {
    /// Same values; the histograms' sizes do not matter.
    fn eq(&self, other: &Series) -> bool {
        (&self.unit, self.better, self.sum, self.min(), self.max())
            == (&other.unit, other.better, other.sum, other.min(), other.max())
            && self.values().eq(other.values())
    }
}

/// A series as JSON has it.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Wire {
    unit: String,
    better: Better,
    count: u64,
    min: Option<u64>,
    max: Option<u64>,
    sum: Sum,
    /// Base64 of the HDR histogram's V2 encoding, not deflated.
    hist: String,
}

/// A JSON integer if it fits 64 bits, else decimal text, since readers of JSON lose digits there.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Sum {
    Number(u64),
    Text(String),
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let sum = u64::try_from(self.sum).map_or_else(|_| Sum::Text(self.sum.to_string()), Sum::Number);
        let hist = self.encode().map_err(serde::ser::Error::custom)?;
        let unit = self.unit.clone();
        let wire = Wire {
            unit,
            better: self.better,
            count: self.count(),
            min: self.min(),
            max: self.max(),
            sum,
            hist,
        };
        wire.serialize(s)
    }
}

impl<'de> Deserialize<'de> for Series {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Series, D::Error> {
        Series::from_wire(Wire::deserialize(d)?).map_err(serde::de::Error::custom)
    }
}

impl Series {
    fn from_wire(wire: Wire) -> Result<Series, String> {
        let bytes = STANDARD.decode(&wire.hist).map_err(|e| format!("histogram is not base64: {e}"))?;
        let mut hist: Histogram<u64> = HistReader::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|e| format!("histogram can't be read: {e}"))?;
        hist.auto(true);
        let sum = match wire.sum {
            Sum::Number(n) => u128::from(n),
            Sum::Text(t) => t.parse().map_err(|_| format!("'{t}' is not a sum"))?,
        };
        if hist.len() != wire.count || (wire.count > 0) != (wire.min.is_some() && wire.max.is_some()) {
            return Err("the histogram and its count, min and max do not agree".to_owned());
        }
        let range = (wire.min.unwrap_or(u64::MAX), wire.max.unwrap_or(0));
        if wire.count > 0 && range.0 > range.1 {
            return Err("min is larger than max".to_owned());
        }
        Ok(Series { unit: wire.unit, better: wire.better, sum, range, hist })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn of(values: impl IntoIterator<Item = u64>) -> Series {
        let mut s = Series::new("ns", Better::Lower);
        values.into_iter().for_each(|v| s.record(v));
        s
    }

    #[test]
    fn percentiles_are_nearest_rank() {
        let s = of(1..=1000);
        assert_eq!(s.percentile(50.0), Value::Number(500.0));
        assert_eq!(s.percentile(99.0), Value::Number(990.0));
        assert_eq!((s.min(), s.max(), s.mean()), (Some(1), Some(1000), Some(500.5)));
        assert_eq!(s.count_above(990), 10);
    }

    #[test]
    fn a_thin_tail_is_missing_and_says_why() {
        let s = of(1..=1000);
        assert_eq!(s.tail_samples_above(99.9), 1, "999.0 must not become 1000 by rounding");
        assert_eq!(
            s.percentile(99.9),
            Value::Missing("1000 samples leave 1 above p99.9; 10 are needed".into())
        );
        assert_eq!(of([7]).percentile(50.0), Value::Number(7.0), "the median needs no tail");
        assert_eq!(of([]).percentile(50.0), Value::Missing("no samples".into()));
        assert_eq!((of([]).min(), of([]).mean()), (None, None));
    }

    #[test]
    fn sums_beyond_64_bits_survive_json() {
        let mut s = of([0, u64::MAX]);
        s.record_n(u64::MAX, 3);
        let text = serde_json::to_string(&s).unwrap();
        assert!(text.contains(r#""sum":"73786976294838206460""#), "{text}");
        assert_eq!(serde_json::from_str::<Series>(&text).unwrap(), s);
    }

    #[test]
    fn json_that_contradicts_itself_is_refused() {
        let text = serde_json::to_string(&of([5, 6])).unwrap();
        for (from, to) in
            [("\"count\":2", "\"count\":3"), ("\"min\":5", "\"min\":null"), ("\"min\":5", "\"min\":7")]
        {
            assert!(text.contains(from), "{text}");
            assert!(serde_json::from_str::<Series>(&text.replace(from, to)).is_err(), "{from} as {to}");
        }
        let broken = text.replace("\"hist\":\"", "\"hist\":\"!");
        assert!(serde_json::from_str::<Series>(&broken).unwrap_err().to_string().contains("base64"));
    }

    proptest! {
        #[test]
        fn json_and_merge_lose_nothing(a in prop::collection::vec(any::<u64>(), 0..80),
                                       b in prop::collection::vec(0u64..100_000, 0..80)) {
            let whole = of(a.iter().chain(&b).copied());
            let mut merged = of(b.iter().copied());
            merged.merge(&of(a.iter().copied()));
            prop_assert_eq!(&merged, &whole);
            let text = serde_json::to_string(&whole).unwrap();
            let mut back: Series = serde_json::from_str(&text).unwrap();
            prop_assert_eq!(&back, &whole);
            back.record(u64::MAX);
            prop_assert_eq!(back.count(), whole.count() + 1);
        }

        #[test]
        fn a_percentile_is_within_a_thousandth(
            mut v in prop::collection::vec(0u64..10_000_000_000, 40..200),
            p in 1u32..50,
        ) {
            let s = of(v.iter().copied());
            v.sort_unstable();
            let rank = (p as usize * v.len()).div_ceil(100);
            let exact = v[rank - 1] as f64;
            let got = s.percentile(f64::from(p)).number().unwrap();
            prop_assert!((got - exact).abs() <= exact / 1000.0 + 0.5, "{got} for {exact}");
        }
    }
}
