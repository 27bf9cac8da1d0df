//! cyclictest of rt-tests: a line for each thread, or the comments under its histogram, or its JSON. Values
//! are in us unless it was started with `-N`; only JSON tells that, not the text.

use super::text::{after, json, lines, missing, number, scaled};
use super::{Reading, Row, Tool, Values};
use schedlab_base::Result;
use schedlab_record::Better::Lower;

/// The row.
pub const TOOL: Tool = Tool {
    name: "cyclictest",
    about: "how late timers wake threads (10 s unless told: -D); not with -N",
    program: "cyclictest",
    package: "rt-tests",
    before: &["-q", "-D", "10"],
    load: &["-t", "{load}"],
    after: &[],
    load_about: "threads",
    default_load: "",
    server: &[],
    stage: None,
    figures: &[
        Row("latency.min", "ns", Lower, "least delay of a wakeup, of any thread"),
        Row("latency.avg", "ns", Lower, "mean delay of all wakeups"),
        Row("latency.max", "ns", Lower, "longest delay of a wakeup, of any thread"),
    ],
    headline: &["latency.avg", "latency.max"],
    knows: |text| {
        lines(text).any(|l| thread(l).is_some() || l.starts_with("# Max Latencies:")) || is_json(text)
    },
    read,
};

/// The figures of a thread: samples, min, avg, max.
type Thread = [f64; 4];

fn is_json(text: &str) -> bool {
    text.contains("\"rt_test_version") && text.contains("\"thread\"")
}

/// "T: 0 (15281) P: 0 I:1000 C:    300 Min:     53 Act:   82 Avg:  278 Max:   17900"
fn thread(line: &str) -> Option<(u64, Thread)> {
    let rest = line.strip_prefix("T:")?;
    let of = |word: &str| after(rest, word);
    Some((number(rest)? as u64, [of(" C:")?, of("Min:")?, of("Avg:")?, of("Max:")?]))
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let (threads, factor) = if is_json(text) {
        of_json(&json("cyclictest", text)?)
    } else {
        // Without -q the lines come again and again: the last of each thread counts.
        let last: std::collections::BTreeMap<u64, Thread> = lines(text).filter_map(thread).collect();
        (if last.is_empty() { of_histogram(text) } else { last.into_values().collect() }, 1e3)
    };
    let samples: f64 = threads.iter().map(|t| t[0]).sum();
    if threads.is_empty() || samples <= 0.0 {
        return Err(missing("cyclictest", "thread with its Min, Avg and Max"));
    }
    let min = threads.iter().map(|t| t[1]).fold(f64::INFINITY, f64::min);
    let avg = threads.iter().map(|t| t[0] * t[2]).sum::<f64>() / samples;
    let max = threads.iter().map(|t| t[3]).fold(0.0, f64::max);
    let all = [("latency.min", min), ("latency.avg", avg), ("latency.max", max)];
    let values: Values = all.into_iter().map(|(n, v)| (n.to_owned(), scaled(v, factor))).collect();
    let load = Some(format!("{} threads", threads.len()));
    Ok(vec![Reading { load, values, ..Reading::default() }])
}

/// The comments under a histogram: "# Total: 300 300", "# Min Latencies: 00053 00046".
fn of_histogram(text: &str) -> Vec<Thread> {
    let column = |name: &str| -> Vec<f64> {
        let line = lines(text).find_map(|l| l.strip_prefix(name));
        line.into_iter().flat_map(str::split_whitespace).filter_map(|w| w.parse().ok()).collect()
    };
    let (total, min) = (column("# Total:"), column("# Min Latencies:"));
    let (avg, max) = (column("# Avg Latencies:"), column("# Max Latencies:"));
    let rows = total.iter().zip(&min).zip(avg.iter().zip(&max));
    rows.map(|((total, min), (avg, max))| [*total, *min, *avg, *max]).collect()
}

/// Threads and the factor to ns: `resolution_in_ns` tells the unit.
fn of_json(value: &serde_json::Value) -> (Vec<Thread>, f64) {
    let in_ns = value.get("resolution_in_ns").and_then(serde_json::Value::as_u64) == Some(1);
    let threads = value.get("thread").and_then(|t| t.as_object()).into_iter().flatten();
    let one = |(_, t): (&String, &serde_json::Value)| {
        let of = |key: &str| t.get(key)?.as_f64();
        Some([of("cycles")?, of("min")?, of("avg")?, of("max")?])
    };
    (threads.filter_map(one).collect(), if in_ns { 1.0 } else { 1e3 })
}
