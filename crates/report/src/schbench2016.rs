//! A run as schbench printed it in 2016 (D000): percentiles of wakeup latency in whole microseconds.
//!
//! The original's minimum starts at zero and is only lowered, so it always prints `min=0`. This form does the same,
//! because parsers of that time expect it. `Over` counts samples above 50 ms.

use crate::usec::Usec;
use schedlab_base::Result;
use schedlab_record::Record;

/// Samples above this, us, count as over.
const OVER_US: u64 = 50_000;
/// Percentiles in thousandths of a percent; the starred one is the headline.
const PERCENTILES: &[u64] = &[50_000, 75_000, 90_000, 95_000, 99_000, 99_500, 99_900];
const HEADLINE: u64 = 99_000;

/// Whether runs of a workload can be printed in this layout.
pub fn prints(workload: &str) -> bool {
    workload == "schbench"
}

/// A run in the layout of 2016.
///
/// # Errors
/// When the run is not of schbench.
pub fn text(record: &Record) -> Result<String> {
    let u = Usec::of(record)?;
    let mut out = "Latency percentiles (usec)\n".to_owned();
    for milli in PERCENTILES {
        let star = if *milli == HEADLINE { "*" } else { "" };
        let (whole, part) = (milli / 1000, milli % 1000);
        out.push_str(&format!("\t{star}{whole}.{part:03}0th: {}\n", u.percentile(*milli).0));
    }
    out.push_str(&format!("\tOver={}, min=0, max={}\n", u.above(OVER_US), u.max));
    Ok(out)
}
