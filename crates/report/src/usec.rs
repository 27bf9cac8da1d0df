//! schbench's own histogram, so that figures are comparable with the original's output: whole microseconds, exact up to
//! 511, then 256 buckets to an octave. The middle of a bucket is printed (761, 4680, 10160 are such middles; D000).

use schedlab_base::{Error, Result};
use schedlab_record::{Record, Series};

/// The series that both layouts print.
const LATENCY: &str = "schbench.latency";
/// Values below this are exact, us.
const EXACT_US: u64 = 512;
/// log2 of the buckets to an octave.
const BITS: u32 = 8;

/// Latencies of a run in schbench's buckets, ascending.
pub struct Usec {
    buckets: Vec<(u64, u64)>,
    pub samples: u64,
    /// Smallest value, us.
    pub min: u64,
    /// Largest value, us, exact.
    pub max: u64,
}

/// The error for a run without latencies.
pub fn none_in(workload: &str) -> Error {
    Error::input(format!("a run of {workload} has no schbench latencies to print"))
        .help("--format schbench is for schbench and schbench-modern, schbench-2016 for schbench")
}

impl Usec {
    /// The latencies of a record.
    ///
    /// # Errors
    /// When the run has none, because it is not of schbench.
    pub fn of(record: &Record) -> Result<Usec> {
        let series = record.found.series.get(LATENCY).ok_or_else(|| none_in(&record.workload))?;
        Ok(Usec::from_series(series, 1000))
    }
    /// The series in units of the histogram; one unit is `scale` units of the series.
    pub fn from_series(series: &Series, scale: u64) -> Usec {
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for (ns, n) in series.values() {
            let us = bucket(ns / scale);
            match buckets.last_mut() {
                Some((last, count)) if *last == us => *count += n,
                _ => buckets.push((us, n)),
            }
        }
        let us = |ns: Option<u64>| ns.unwrap_or(0) / scale;
        Usec { buckets, samples: series.count(), min: us(series.min()), max: us(series.max()) }
    }
    /// The bucket where the cumulative count reaches `milli` thousandths of a percent, and that count.
    pub fn percentile(&self, milli: u64) -> (u64, u64) {
        let wanted = (u128::from(self.samples) * u128::from(milli)).div_ceil(100_000) as u64;
        let mut sum = 0;
        for (us, n) in &self.buckets {
            sum += n;
            if sum >= wanted {
                return (*us, sum);
            }
        }
        (0, sum)
    }
    /// Samples above a number of microseconds.
    pub fn above(&self, us: u64) -> u64 {
        self.buckets.iter().filter(|(v, _)| *v > us).map(|(_, n)| n).sum()
    }
}

/// The value printed for the bucket that `us` falls into.
fn bucket(us: u64) -> u64 {
    if us < EXACT_US {
        return us;
    }
    let shift = us.ilog2() - BITS;
    ((us >> shift) << shift) + (1 << (shift - 1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_record::Better;

    #[test]
    fn buckets_have_the_printed_middles() {
        // The values in the published tables (D000, 5 Apr 2016) are middles of buckets.
        for us in [50, 99, 511, 761, 4680, 10160, 10192, 10928] {
            assert_eq!(bucket(us), us);
        }
        assert_eq!((bucket(512), bucket(513), bucket(514)), (513, 513, 515), "two wide from 512");
        assert_eq!((bucket(4672), bucket(4687), bucket(4688)), (4680, 4680, 4696), "16 wide from 4096");
    }

    #[test]
    fn percentiles_are_first_to_reach() {
        let mut s = Series::new("ns", Better::Lower);
        (1..=100).for_each(|us| s.record(us * 1000 + 500)); // mid-us, clear of the histogram's own rounding
        let u = Usec::from_series(&s, 1000);
        assert_eq!((u.percentile(50_000), u.percentile(99_900)), ((50, 50), (100, 100)));
        assert_eq!((u.min, u.max, u.above(90)), (1, 100, 10));
        assert_eq!(Usec::from_series(&Series::new("ns", Better::Lower), 1000).percentile(50_000), (0, 0));
    }
}
