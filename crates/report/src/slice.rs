//! A run of the slice test, a line for each interval, as the original printed it in 2009 (D004), followed by exact
//! figures.
//!
//! `avg slice` is the mean over processes of whole milliseconds, with two decimals. `utime` is the mean user time of a
//! process by ticks, us, with six decimals. After the bar come the exact mean slice (CPU time over stays, `-` if no
//! stay ended), a process's user time per second of elapsed time, the interval's real length, and its end. A change
//! during the run has a line of its own, before the interval in which it happened.

use schedlab_base::{Error, Ns, Result};
use schedlab_record::{Interval, Record};

const PROGRAM: &str = "slice-test";

/// Whether runs of a workload can be printed in this layout.
pub fn prints(workload: &str) -> bool {
    workload == "slice"
}

/// The error for a run without slices.
pub fn none_in(workload: &str) -> Error {
    Error::input(format!("a run of {workload} has no slices to print by interval")).help(
        "--format slice is for the workload slice, with its sampler and a runtime beyond its first interval",
    )
}

/// A run's intervals.
///
/// # Errors
/// When it has none: it is not a slice test, had no sampler, or ended before its first interval.
pub fn text(record: &Record) -> Result<String> {
    let of_program = |i: &&Interval| value(i, "printed").is_some();
    let intervals: Vec<&Interval> = record.found.intervals.iter().filter(of_program).collect();
    if intervals.is_empty() {
        return Err(none_in(&record.workload));
    }
    let mut changes = record.variant.at.iter().peekable();
    let mut out = String::new();
    for i in intervals {
        let end = i.start.plus(i.length);
        while let Some(change) = changes.next_if(|c| c.time < end) {
            let tunables = change.tunables.iter().map(|(name, value)| format!("{name}={value}"));
            let all: Vec<String> = change.features.iter().cloned().chain(tunables).collect();
            out.push_str(&format!("-- at {}: {}\n", change.time, all.join(" ")));
        }
        out.push_str(&line(i, end));
    }
    Ok(out)
}

fn value(i: &Interval, name: &str) -> Option<u64> {
    i.values.get(&format!("{PROGRAM}.{name}")).copied()
}

fn line(i: &Interval, end: Ns) -> String {
    let of = |name: &str| value(i, name).unwrap_or(0) as f64;
    let exact = value(i, "exact").map_or_else(|| "-".to_owned(), |ns| format!("{:.2}ms", ns as f64 / 1e6));
    let seconds = |t: Ns| t.0 as f64 / 1e9;
    format!(
        "avg slice: {:.2} utime: {:.6} | {exact:>7} {:.1}ms/s {:.3}s to {:.2}s\n",
        of("printed") / 1e6,
        of("utime") / 1e3,
        of("utime_rate") / 1e6,
        seconds(i.length),
        seconds(end),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_the_originals_followed_by_ours() {
        let values =
            [("printed", 125_000), ("exact", 983_000), ("utime", 125_507_687), ("utime_rate", 125_250_000)];
        let values = values.map(|(name, v)| (format!("{PROGRAM}.{name}"), v));
        let i = Interval { start: Ns::ms(3_460), length: Ns::us(1_002_060), values: values.into() };
        let text = line(&i, i.start.plus(i.length));
        // Two sixteenths of a millisecond; halves are rounded to the even digit, as in the document.
        assert_eq!(text, "avg slice: 0.12 utime: 125507.687000 |  0.98ms 125.2ms/s 1.002s to 4.46s\n");
        let none = Interval { values: Default::default(), ..i };
        assert!(line(&none, Ns::ZERO).contains("|       - "), "no stay ended");
    }
}
