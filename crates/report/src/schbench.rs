//! The text that schbench prints today (2023 and later): blocks of percentiles with the samples behind each.
//!
//! Our schbench is the program of 2016, which has wakeup latencies and no requests: the blocks it has no figures for
//! are left out, and named, so that the caller can say so.

use crate::usec::Usec;
use schedlab_base::Result;
use schedlab_record::Record;

/// Blocks of the original that a run of ours has no figures for.
pub const LEFT_OUT: &[&str] = &["Request Latencies", "RPS", "average rps", "sched delay"];

/// Percentiles in thousandths of a percent: the internal list, of which the first is counted but not printed.
const PERCENTILES: &[u64] = &[20_000, 50_000, 90_000, 99_000, 99_900];
const PRINTED_FROM: u64 = 50_000;
const HEADLINE: u64 = 99_000;

/// A run in today's layout. A percentile's samples are those since the one before it in the original's internal list.
///
/// # Errors
/// When the run was no schbench.
pub fn text(record: &Record) -> Result<String> {
    let u = Usec::of(record)?;
    let seconds = record.duration.0 / 1_000_000_000;
    let mut out =
        format!("Wakeup Latencies percentiles (usec) runtime {seconds} (s) ({} total samples)\n", u.samples);
    let mut before = 0;
    for milli in PERCENTILES {
        let (us, reached) = u.percentile(*milli);
        if *milli >= PRINTED_FROM {
            let mark = if *milli == HEADLINE { "* " } else { "  " };
            let name = format!("{}.{}th", milli / 1000, milli % 1000 / 100);
            out.push_str(&format!("\t{mark}{name}: {us:<10} ({} samples)\n", reached - before));
        }
        before = reached;
    }
    out.push_str(&format!("\t  min={}, max={}\n", u.min, u.max));
    Ok(out)
}
