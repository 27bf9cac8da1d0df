//! Reads runqlat and runqslower of bcc and libbpf-tools, and bpftrace's runqlat.bt: how long runnable tasks waited for
//! a CPU.
//!
//! runqlat prints histograms whose buckets are powers of two: a percentile is the end of its bucket, so it is an upper
//! bound. All histograms of a run, for intervals and for processes, are added up. runqslower prints a line for each
//! wait beyond its bound.

use super::text::{lines, missing, scaled, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use super::units::canonical;
use schedlab_base::{Error, Result};
use schedlab_record::Better::{Lower, Neither};
use std::collections::BTreeMap;

/// Only its saved outputs are read: it needs root, and a kernel for which it can be compiled.
pub const RUNQLAT: Tool = Tool {
    name: "runqlat",
    about: "histograms of runqlat (bcc, libbpf-tools, bpftrace): waits for a CPU, to powers of two",
    figures: &[
        FigureRow("waits", "", Neither, "waits in all histograms"),
        FigureRow("delay.p50", "ns", Lower, "end of the bucket that holds the median"),
        FigureRow("delay.p90", "ns", Lower, "end of the bucket that holds p90"),
        FigureRow("delay.p99", "ns", Lower, "end of the bucket that holds p99"),
        FigureRow("delay.p99.9", "ns", Lower, "end of the bucket that holds p99.9"),
        FigureRow("delay.max", "ns", Lower, "end of the last bucket that is not empty"),
    ],
    headline: &["delay.p50", "delay.p99", "delay.max", "waits"],
    knows: |text| lines(text).any(|l| l.starts_with("Tracing run queue latency...")) || of_bpftrace(text),
    read: read_histograms,
    ..BLANK
};

/// Only its saved outputs are read.
pub const RUNQSLOWER: Tool = Tool {
    name: "runqslower",
    about: "lines of runqslower (bcc, libbpf-tools): waits for a CPU beyond a bound",
    figures: &[
        FigureRow("slow", "", Lower, "waits beyond the bound"),
        FigureRow("delay.avg", "ns", Lower, "mean of these"),
        FigureRow("delay.max", "ns", Lower, "the longest"),
    ],
    headline: &["slow", "delay.max"],
    knows: |text| lines(text).any(|l| bound(l).is_some()),
    read: read_slow,
    ..BLANK
};

/// runqlat.bt's head is not unique, but its histogram has this name and no key.
fn of_bpftrace(text: &str) -> bool {
    let is_head = |l: &str| l.starts_with("Tracing CPU scheduler...");
    lines(text).any(is_head) && lines(text).any(|l| l == "@usecs:")
}

/// The waits of a run: their number, by the end of their bucket in ns.
type Buckets = BTreeMap<u64, u64>;

fn read_histograms(text: &str) -> Result<Vec<Reading>> {
    let mut runs: Vec<Buckets> = vec![Buckets::new()];
    let mut unit = None;
    for line in lines(text) {
        if line.starts_with("Tracing ") {
            runs.push(Buckets::new());
            unit = None;
        } else if line.starts_with('@') || unit_of(line).is_some() {
            unit = unit_of(line);
        } else if let Some((end, count)) = unit.map_or(Ok(None), |factor| bucket(line, factor))? {
            let last = runs.last_mut().into_iter();
            last.for_each(|run| *run.entry(end).or_default() += count);
        }
    }
    runs.retain(|run| run.values().any(|n| *n > 0));
    if runs.is_empty() {
        return Err(missing(
            "runqlat",
            "bucket of a histogram, below a head such as 'usecs : count distribution'",
        ));
    }
    Ok(runs.iter().map(|run| Reading { values: percentiles(run), ..Reading::default() }).collect())
}

/// The factor to ns, by the head of a histogram: "usecs : count distribution", "@usecs:".
fn unit_of(line: &str) -> Option<f64> {
    let word = match line.strip_prefix('@') {
        Some(name) => name.split([':', '[']).next()?,
        None => line.split_once(':').filter(|(_, rest)| rest.trim_start().starts_with("count"))?.0,
    };
    match canonical(word.trim()) {
        ("ns", factor) => Some(factor),
        _ => None,
    }
}

/// The end of a bucket in ns and its count: "  8 -> 15   : 203  |**  |", "[8, 16)  203 |@@ |", "[0]  3 |".
fn bucket(line: &str, factor: f64) -> Result<Option<(u64, u64)>> {
    let (range, rest) = if let Some(inner) = line.strip_prefix('[') {
        let Some((range, rest)) = inner.split_once([')', ']']) else { return Ok(None) };
        (range.split(',').next_back().unwrap_or_default().trim(), rest)
    } else {
        let Some((range, rest)) = line.split_once(':') else { return Ok(None) };
        let Some((_, end)) = range.split_once("->") else { return Ok(None) };
        (end.trim(), rest)
    };
    let count = rest.split_whitespace().next().unwrap_or_default();
    let powers = [('K', 10), ('M', 20), ('G', 30), ('T', 40)];
    let power = powers.iter().find(|(letter, _)| range.ends_with(*letter));
    let digits = range.trim_end_matches(|c: char| c.is_ascii_uppercase());
    let end = whole(digits)? * power.map_or(1.0, |(_, bits)| f64::from(2_u32).powi(*bits));
    let ns = end * factor;
    let count: u64 =
        count.parse().map_err(|_| Error::input(format!("'{count}' is not a number of waits")))?;
    if !(0.0..=1e18).contains(&ns) || count > 1 << 53 {
        return Err(Error::input(format!("a bucket that ends at {range} with {count} waits can't be")));
    }
    Ok(Some((ns as u64, count)))
}

fn percentiles(run: &Buckets) -> FigureValues {
    let all: u128 = run.values().map(|n| u128::from(*n)).sum();
    let at = |milli: u128| {
        let rank = (all * milli).div_ceil(100_000);
        let mut seen = 0;
        run.iter().find(|(_, n)| {
            seen += u128::from(**n);
            seen >= rank && **n > 0
        })
    };
    let mut values = FigureValues::from([("waits".to_owned(), all as f64)]);
    for (name, milli) in
        [("p50", 50_000), ("p90", 90_000), ("p99", 99_000), ("p99.9", 99_900), ("max", 100_000)]
    {
        values.extend(at(milli).map(|(end, _)| (format!("delay.{name}"), *end as f64)));
    }
    values
}

/// The bound in "Tracing run queue latency higher than 10000 us", and its unit.
fn bound(line: &str) -> Option<&str> {
    line.strip_prefix("Tracing run queue latency higher than ")
}

fn read_slow(text: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let mut waits: Vec<Vec<f64>> = Vec::new();
    // A stopped tool may have written only a part of its last line.
    let text =
        if text.ends_with('\n') { text } else { text.rsplit_once('\n').map_or(text, |(whole, _)| whole) };
    for line in lines(text) {
        if let Some(bound) = bound(line) {
            if !bound.split_whitespace().next().is_some_and(|w| w.bytes().all(|b| b.is_ascii_digit())) {
                return Err(Error::input(format!("'{bound}' is not a bound in us")));
            }
            all.push(Reading { load: Some(format!("beyond {}", bound.trim())), ..Reading::default() });
            waits.push(Vec::new());
        } else if let (Some(waits), Some(us)) = (waits.last_mut(), slow_wait(line)?) {
            waits.push(scaled(us, 1e3));
        }
    }
    if all.is_empty() {
        return Err(missing("runqslower", "line 'Tracing run queue latency higher than N us'"));
    }
    for (reading, waits) in all.iter_mut().zip(waits) {
        // No wait is a result, too: the tool prints only its head.
        reading.values.insert("slow".to_owned(), waits.len() as f64);
        if !waits.is_empty() {
            let mean = scaled(waits.iter().sum::<f64>() / waits.len() as f64, 1.0);
            let longest = waits.iter().copied().fold(0.0, f64::max);
            reading.values.extend([("delay.avg".to_owned(), mean), ("delay.max".to_owned(), longest)]);
        }
    }
    Ok(all)
}

/// The wait in "04:16:32 name of task 12924 12739": after the 16 columns of the name and a thread's number. The task
/// before it may follow.
fn slow_wait(line: &str) -> Result<Option<f64>> {
    let time = line.split_whitespace().next().unwrap_or_default();
    if time.matches(':').count() != 2 || !time.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let behind = String::from_utf8_lossy(line.as_bytes().get(25..).unwrap_or_default());
    let mut words = behind.split_whitespace();
    let digits = |w: &&str| w.bytes().all(|b| b.is_ascii_digit());
    match (words.next().filter(digits), words.next().filter(digits)) {
        (Some(_), Some(us)) if time.len() == 8 => whole(us).map(Some),
        _ => Err(Error::input(format!("'{line}' has not the columns TIME, COMM, TID and LAT(us)"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_ends_of_their_buckets() {
        let text = "Tracing run queue latency... Hit Ctrl-C to end.\n^C\n     usecs               : count     distribution\n\
            \x20        0 -> 1          : 90       |****|\n         2 -> 3          : 0        |    |\n\
            \x20        4 -> 7          : 9        |*   |\n      1024 -> 2047       : 1        |    |\n";
        let all = (RUNQLAT.read)(text).unwrap();
        let v = &all[0].values;
        let of = |name: &str| v[name];
        assert_eq!((of("waits"), of("delay.p50"), of("delay.p90"), of("delay.p99")), (100.0, 1e3, 1e3, 7e3));
        assert_eq!((of("delay.p99.9"), of("delay.max")), (2047e3, 2047e3));
        // Two processes and two intervals are one run; another head begins another.
        let more = text.replace("     usecs", "pid = 7 a b\n     usecs");
        assert_eq!((RUNQLAT.read)(&format!("{more}{}", &more[50..])).unwrap()[0].values["waits"], 200.0);
        assert_eq!((RUNQLAT.read)(&format!("{text}{text}")).unwrap().len(), 2);
        assert_eq!((RUNQLAT.read)(&text.replace("usecs", "msecs")).unwrap()[0].values["delay.p50"], 1e6);
    }

    #[test]
    fn bpftrace_counts_in_powers_of_1024() {
        let text = "Attaching 5 probes...\nTracing CPU scheduler... Hit Ctrl-C to end.\n^C\n\n@usecs: \n\
            [0]                  5 |@@  |\n[1]                  4 |@@  |\n[2, 4)               0 |    |\n[1K, 2K)             1 |@   |\n";
        assert!((RUNQLAT.knows)(text));
        let v = &(RUNQLAT.read)(text).unwrap()[0].values;
        assert_eq!((v["waits"], v["delay.p50"], v["delay.max"]), (10.0, 0.0, 2048e3));
    }

    #[test]
    fn lines_of_runqslower_are_counted() {
        let text = "Tracing run queue latency higher than 10000 us\nTIME     COMM             TID           LAT(us) PREV COMM        PREV TID\n\
            04:16:32 a b 2            12924           12739 swapper/1        0\n\
            04:16:33 c1               7               20001 x 3              9\n";
        let all = (RUNQSLOWER.read)(text).unwrap();
        assert_eq!(all[0].load.as_deref(), Some("beyond 10000 us"));
        assert_eq!((all[0].values["slow"], all[0].values["delay.max"]), (2.0, 20_001e3));
        let none = (RUNQSLOWER.read)("Tracing run queue latency higher than 10 us\n").unwrap();
        assert_eq!(none[0].values.len(), 1);
    }
}
