//! A series: all values of one quantity in a run, as exact count, min, max and sum, and a histogram.
//!
//! Values are integers in the series' unit (nanoseconds for times). The histogram has the HDR layout with three
//! significant digits: a value below 2048 is exact, a larger one is known to one part in a thousand. Percentiles are
//! nearest-rank. Nothing here is stored as a float, so that a record read back equals the one that was written.
//!
//! While values are added, the histogram is an array of all buckets, 16 KB and more. A histogram from a record stays
//! packed as it is stored, a few bytes for each bucket in use, and is unpacked when a value is added. A digest
//! ([`Series::digest`]) has no histogram, only the usual percentiles, for comparisons of thousands of runs
//! (a store's index).

use crate::packed_histogram::Packed;
use crate::value::{Better, Value};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::{Deserializer as HistReader, Serializer as HistWriter, V2Serializer};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;

/// Significant decimal digits of the histograms.
pub(crate) const DIGITS: u8 = 3;
/// A percentile above the median is missing if fewer samples than this lie beyond it.
pub const MIN_TAIL_SAMPLES: u64 = 10;

/// All values of one quantity in one run.
#[derive(Clone, Debug)]
pub struct Series {
    unit: String,
    better: Better,
    sum: u128,
    /// Exact smallest and largest value; meaningless for an empty histogram.
    range: (u64, u64),
    body: Body,
}

#[derive(Clone, Debug)]
enum Body {
    Whole(Histogram<u64>),
    /// The buckets in use, as they are stored.
    Packed(Packed),
    /// Percentiles only.
    Digest(Digest),
}

/// A digest's part of a histogram.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Digest {
    count: u64,
    /// The values at [`KEPT`]; empty if there are no values.
    points: Box<[u64]>,
    /// Almost certainly differs between different histograms.
    mark: u64,
}

/// The percentiles of a digest, in thousandths of a percent. A change of this list needs a new
/// schema of the store's index.
pub const KEPT: [u32; 15] = [
    1_000, 5_000, 10_000, 25_000, 50_000, 75_000, 80_000, 90_000, 95_000, 98_000, 99_000, 99_500, 99_900,
    99_990, 99_999,
];

impl Series {
    /// An empty series of values in `unit` ("ns"; "" for plain counts).
    pub fn new(unit: &str, better: Better) -> Series {
        let hist = Histogram::new(DIGITS).expect("three digits are within what the histogram allows");
        Series { unit: unit.to_owned(), better, sum: 0, range: (u64::MAX, 0), body: Body::Whole(hist) }
    }
    pub fn unit(&self) -> &str {
        &self.unit
    }
    pub fn better(&self) -> Better {
        self.better
    }

    /// The histogram, unpacked if it is packed.
    #[inline]
    fn hist(&mut self) -> &mut Histogram<u64> {
        if let Body::Packed(packed) = &self.body {
            self.body = Body::Whole(packed.unpack());
        }
        match &mut self.body {
            Body::Whole(hist) => hist,
            Body::Packed(_) | Body::Digest(_) => no_histogram(),
        }
    }

    /// Adds one value.
    ///
    /// # Panics
    /// On a digest, like all methods that need the histogram.
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
        self.count_in(value, n);
    }
    /// Adds a value to min, max and sum; [`counted`](Series::counted) adds it to the histogram later.
    #[inline]
    pub(crate) fn note(&mut self, value: u64) {
        self.range = (self.range.0.min(value), self.range.1.max(value));
        self.sum += u128::from(value);
    }
    /// Adds what another series has noted or recorded to min, max and sum.
    pub(crate) fn note_all(&mut self, other: &Series) {
        self.range = (self.range.0.min(other.range.0), self.range.1.max(other.range.1));
        self.sum += other.sum;
    }
    /// The series with a histogram of the values that were noted; `counts` are theirs, by bucket.
    pub(crate) fn counted(mut self, counts: &[u64]) -> Series {
        if self.range.0 <= self.range.1 {
            self.body = Body::Packed(Packed::of(counts, self.range.1));
        }
        self
    }
    /// Adds `n` noted values of one bucket to the histogram; `value` is any value of the bucket.
    #[inline]
    fn count_in(&mut self, value: u64, n: u64) {
        let hist = self.hist();
        // Growing fails only if the address space is too small. Then the value counts in the topmost bucket.
        if n > 0 && hist.record_n(value, n).is_err() {
            hist.saturating_record_n(value, n);
        }
    }
    /// Adds all values of another series of the same quantity.
    pub fn merge(&mut self, other: &Series) {
        if other.count() == 0 {
            return;
        }
        self.note_all(other);
        other.buckets_in_use().for_each(|(value, n)| self.count_in(value, n));
    }
    /// The series without its histogram: exact count, min, max, sum and mean, and the percentiles of [`KEPT`].
    pub fn digest(&self) -> Series {
        if let Body::Digest(_) = &self.body {
            return self.clone();
        }
        let digest = Digest { count: self.count(), points: self.points(), mark: self.mark() };
        Series { unit: self.unit.clone(), body: Body::Digest(digest), ..*self }
    }
    /// The values at [`KEPT`], in one pass.
    fn points(&self) -> Box<[u64]> {
        let mut points = Vec::with_capacity(KEPT.len());
        let mut seen = 0;
        for (value, n) in self.values() {
            seen += n;
            let reached = |kept: &&u32| self.rank(f64::from(**kept) / 1000.0) <= seen;
            points.extend(KEPT[points.len()..].iter().take_while(reached).map(|_| value));
        }
        points.into()
    }
    /// A hash of the histogram: equal ones have equal marks, different ones almost certainly different marks.
    fn mark(&self) -> u64 {
        if let Body::Digest(digest) = &self.body {
            return digest.mark;
        }
        let add = |mark: u64, word: u64| (mark.rotate_left(5) ^ word).wrapping_mul(0x517c_c1b7_2722_0a95);
        self.values().fold(0, |mark, (value, n)| add(add(mark, value), n))
    }

    pub fn count(&self) -> u64 {
        match &self.body {
            Body::Whole(hist) => hist.len(),
            Body::Packed(packed) => packed.count(),
            Body::Digest(digest) => digest.count,
        }
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
    /// The value at percentile `p` (0 to 100): nearest rank, the midpoint of its bucket, within min and max.
    ///
    /// Missing, with the reason, when there are no values, or when `p` is above 50 and fewer than [`MIN_TAIL_SAMPLES`]
    /// samples lie beyond it.
    pub fn percentile(&self, p: f64) -> Value {
        if self.count() == 0 {
            return Value::Missing("no samples".to_owned());
        }
        let above = self.tail_samples_above(p);
        if p > 50.0 && above < MIN_TAIL_SAMPLES {
            let n = self.count();
            return Value::Missing(format!(
                "{} {} {above} above p{p}; {MIN_TAIL_SAMPLES} are needed",
                schedlab_base::counted(n, "sample"),
                schedlab_base::one_or(n, "leaves", "leave")
            ));
        }
        if let Body::Digest(digest) = &self.body {
            let milli = (p * 1000.0).round() as u32;
            let at = KEPT.iter().position(|kept| *kept == milli).and_then(|i| digest.points.get(i));
            return at.map_or_else(
                || Value::Missing(format!("p{p} is in the record only")),
                |v| Value::Number(*v as f64),
            );
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
    /// The largest value that shares a bucket with this one.
    pub fn bucket_end(value: u64) -> u64 {
        // Buckets have 11 significant bits (DIGITS), which is exact below 2048.
        let width_bits = (u64::BITS - value.leading_zeros()).saturating_sub(11);
        value | ((1_u64 << width_bits) - 1)
    }
    /// Values in ascending order, each with its count: the midpoint of each bucket, within min and max.
    pub fn values(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.buckets_in_use().map(|(middle, n)| (middle.clamp(self.range.0, self.range.1), n))
    }
    /// The middle of each bucket in use, with its count, in ascending order.
    fn buckets_in_use(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let (whole, packed) = match &self.body {
            Body::Whole(hist) => (Some(hist), None),
            Body::Packed(packed) => (None, Some(packed)),
            Body::Digest(_) => no_histogram(),
        };
        let of_whole = whole.into_iter().flat_map(|hist| {
            let middle = |value| hist.median_equivalent(value);
            hist.iter_recorded().map(move |step| (middle(step.value_iterated_to()), step.count_at_value()))
        });
        of_whole.chain(packed.into_iter().flat_map(Packed::buckets))
    }

    /// Rank of percentile `p`, from 1 to count (0 if empty). Computed in thousandths of a percent, so that 99.9 % of
    /// 1000 is 999.
    fn rank(&self, p: f64) -> u64 {
        let milli = (p.clamp(0.0, 100.0) * 1000.0).round() as u128;
        let rank = (milli * u128::from(self.count())).div_ceil(100_000);
        (rank as u64).clamp(self.count().min(1), self.count())
    }
    fn rank_value(&self, rank: u64) -> u64 {
        if let Body::Packed(packed) = &self.body {
            return packed
                .at_rank(rank)
                .map_or(self.range.1, |middle| middle.clamp(self.range.0, self.range.1));
        }
        let mut seen = 0;
        for (value, n) in self.values() {
            seen += n;
            if seen >= rank {
                return value;
            }
        }
        self.range.1
    }
    /// Keeps only the buckets in use, a few bytes each; an array of all buckets takes 100 kB and more.
    pub fn pack(&mut self) {
        if let Body::Whole(_) = &self.body
            && let Some(packed) = self.bytes().ok().and_then(|bytes| Packed::new(&bytes))
        {
            self.body = Body::Packed(packed);
        }
    }
    fn encode(&self) -> Result<String, String> {
        Ok(STANDARD.encode(self.bytes()?))
    }
    /// The histogram as it is stored.
    fn bytes(&self) -> Result<Cow<'_, [u8]>, String> {
        let mut bytes = Vec::new();
        match &self.body {
            Body::Whole(hist) => {
                V2Serializer::new().serialize(hist, &mut bytes).map_err(|e| e.to_string())?;
                Ok(Cow::Owned(bytes))
            }
            Body::Packed(packed) => Ok(Cow::Borrowed(packed.bytes())),
            Body::Digest(_) => Err("a digest has no histogram".to_owned()),
        }
    }
}

impl PartialEq for Series {
    /// Whether the values are equal. The sizes of histograms do not matter.
    fn eq(&self, other: &Series) -> bool {
        (&self.unit, self.better, self.sum, self.min(), self.max())
            == (&other.unit, other.better, other.sum, other.min(), other.max())
            && match (&self.body, &other.body) {
                (Body::Digest(_), _) | (_, Body::Digest(_)) => {
                    (self.count(), self.mark()) == (other.count(), other.mark())
                }
                _ => self.values().eq(other.values()),
            }
    }
}

#[cold]
fn no_histogram() -> ! {
    panic!("a digest of a series was asked for its histogram")
}

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

/// A JSON integer if it fits 64 bits, else decimal text, because JSON readers would lose digits.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Sum {
    Number(u64),
    Text(String),
}

impl Sum {
    fn of(sum: u128) -> Sum {
        u64::try_from(sum).map_or_else(|_| Sum::Text(sum.to_string()), Sum::Number)
    }
    fn number(&self) -> Option<u128> {
        match self {
            Sum::Number(n) => Some(u128::from(*n)),
            Sum::Text(text) => text.parse().ok(),
        }
    }
}

impl Serialize for Series {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let sum = Sum::of(self.sum);
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
        let body = match Packed::new(&bytes) {
            Some(packed) => Body::Packed(packed),
            // Not as schedlab writes it: the format's crate decides.
            None => Body::Whole(read_histogram(&bytes)?),
        };
        let sum = wire.sum.number().ok_or_else(|| match &wire.sum {
            Sum::Number(n) => format!("'{n}' is not a sum"),
            Sum::Text(text) => format!("'{text}' is not a sum"),
        })?;
        let range = (wire.min.unwrap_or(u64::MAX), wire.max.unwrap_or(0));
        let series = Series { unit: wire.unit, better: wire.better, sum, range, body };
        if series.count() != wire.count || (wire.count > 0) != (wire.min.is_some() && wire.max.is_some()) {
            return Err("the histogram and its count, min and max do not agree".to_owned());
        }
        if wire.count > 0 && range.0 > range.1 {
            return Err("min is larger than max".to_owned());
        }
        Ok(series)
    }
}

/// Reads a stored histogram with all its buckets.
pub(crate) fn read_histogram(mut bytes: &[u8]) -> Result<Histogram<u64>, String> {
    let read = HistReader::new().deserialize(&mut bytes);
    let mut hist: Histogram<u64> = read.map_err(|e| format!("histogram can't be read: {e}"))?;
    hist.auto(true);
    Ok(hist)
}

#[derive(Serialize, Deserialize)]
/// A digest in JSON.
pub struct DigestWire(String, Better, Sum, u64, u64, Digest);

impl From<&Series> for DigestWire {
    fn from(series: &Series) -> DigestWire {
        let whole = series.digest();
        let Body::Digest(digest) = whole.body else { no_histogram() };
        DigestWire(whole.unit, whole.better, Sum::of(whole.sum), whole.range.0, whole.range.1, digest)
    }
}

impl DigestWire {
    /// The digest; `None` if it lacks a percentile that this version keeps.
    pub fn series(self) -> Option<Series> {
        let DigestWire(unit, better, sum, low, high, digest) = self;
        let points = if digest.count > 0 { KEPT.len() } else { 0 };
        let sum = sum.number()?;
        (digest.points.len() == points).then_some(Series {
            unit,
            better,
            sum,
            range: (low, high),
            body: Body::Digest(digest),
        })
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
    fn a_buckets_end_is_the_last_value_that_counts_with_another() {
        let hist = Histogram::<u64>::new_with_bounds(1, u64::MAX / 2, DIGITS).unwrap();
        for value in [1, 2047, 2048, 2049, 4095, 4096, 7_000_001, 123_456_789_012] {
            assert_eq!(Series::bucket_end(value), hist.highest_equivalent(value), "{value}");
        }
    }

    #[test]
    fn a_packed_series_has_the_same_values_and_the_same_text() {
        let mut whole = Series::new("ns", Better::Lower);
        (0..3000u64).for_each(|i| whole.record(i * i * 977));
        let mut packed = whole.clone();
        packed.pack();
        assert!(matches!(packed.body, Body::Packed(_)));
        assert_eq!(packed, whole);
        assert_eq!(packed.encode(), whole.encode());
        assert_eq!(
            [0.5, 50.0, 98.0].map(|p| packed.percentile(p)),
            [0.5, 50.0, 98.0].map(|p| whole.percentile(p))
        );
        packed.record(5);
        whole.record(5);
        assert_eq!(packed, whole, "it is unpacked where more is recorded");
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
