//! schbench: the text of 2016 (one block), today's text (blocks for wakeups, requests and RPS), and today's JSON.
//!
//! With an interval today's schbench prints its blocks again and again, each over the whole time so far: the
//! last count.

use super::text::{after, json, lines, missing, number, scaled};
use super::{Reading, Row, Tool, Values};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower};

/// The row.
pub const TOOL: Tool = Tool {
    name: "schbench",
    about: "wakeup latencies under message threads and workers (no package: built from its source)",
    program: "schbench",
    package: "",
    before: &[],
    load: &["-t", "{load}"],
    after: &[],
    load_about: "workers of each message thread",
    default_load: "",
    server: &[],
    stage: None,
    figures: &[
        Row("wakeup.<stat>", "ns", Lower, "from the waker's time stamp until the worker runs"),
        Row("request.<stat>", "ns", Lower, "from the start of the think time until the work is done"),
        Row("rps.<stat>", "1/s", Higher, "requests of each second"),
        Row("rps.mean", "1/s", Higher, "requests per second over the whole run"),
        Row("delay.message", "ns", Lower, "mean wait of message threads for a CPU"),
        Row("delay.worker", "ns", Lower, "mean wait of workers for a CPU"),
        Row("transfer.rate", "1/s", Higher, "pipe mode: messages per second of a worker"),
    ],
    headline: &["wakeup.p50", "wakeup.p99", "request.p50", "request.p99", "rps.mean"],
    knows: |text| is_json(text) || lines(text).any(|l| block(l).is_some_and(|(name, _)| name != OLD)),
    read,
};

/// schbench before its rewrite of 2023.
pub const TOOL_2016: Tool = Tool {
    name: "schbench-2016",
    about: "schbench before its rewrite of 2023: one block of wakeup latencies",
    figures: &[Row("latency.<stat>", "ns", Lower, "from the start of the wake list until the worker runs")],
    headline: &["latency.p50", "latency.p99", "latency.p99.9"],
    knows: |text| lines(text).any(|l| block(l).is_some_and(|(name, _)| name == OLD)),
    ..TOOL
};

/// The figure of the block that schbench of 2016 prints.
const OLD: &str = "latency";

fn is_json(text: &str) -> bool {
    text.contains("\"wakeup_latency_pct") && text.contains("\"int\"")
}

/// The figure's first word and the factor to its unit, of a block's title.
fn block(line: &str) -> Option<(&'static str, f64)> {
    const TITLES: &[(&str, &str, f64)] = &[
        ("Wakeup Latencies percentiles (usec)", "wakeup", 1e3),
        ("Request Latencies percentiles (usec)", "request", 1e3),
        ("RPS percentiles (requests)", "rps", 1.0),
        ("Latency percentiles (usec)", OLD, 1e3),
    ];
    TITLES.iter().find(|(title, ..)| line.starts_with(title)).map(|(_, name, factor)| (*name, *factor))
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let mut values = if is_json(text) { of_json(&json("schbench", text)?) } else { Values::new() };
    let mut within = None;
    for line in lines(text) {
        if let Some(title) = block(line) {
            within = Some(title);
            let prefix = format!("{}.", title.0);
            values.retain(|name, _| !name.starts_with(&prefix));
        } else if let Some(value) = within.and_then(|title| row(line, title)) {
            values.extend(value);
        } else {
            values.extend(single(line));
        }
    }
    if values.is_empty() {
        return Err(missing("schbench", "block of percentiles"));
    }
    Ok(vec![Reading { load: None, values, ..Reading::default() }])
}

/// "* 99.0th: 12         (1200 samples)", "*99.0000th: 12", "min=1, max=30"
fn row(line: &str, (name, factor): (&str, f64)) -> Option<Vec<(String, f64)>> {
    if let (Some(min), Some(max)) = (after(line, "min="), after(line, "max=")) {
        let pair = [("min", min), ("max", max)];
        return Some(pair.map(|(stat, v)| (format!("{name}.{stat}"), scaled(v, factor))).to_vec());
    }
    let (percentile, value) = line.trim_start_matches(['*', ' ']).split_once("th:")?;
    let percentile: f64 = percentile.trim().parse().ok()?;
    Some(vec![(format!("{name}.p{percentile}"), scaled(number(value)?, factor))])
}

/// Lines that stand by themselves.
fn single(line: &str) -> Vec<(String, f64)> {
    let mut all = Vec::new();
    let mut add = |name: &str, v: Option<f64>| all.extend(v.map(|v| (name.to_owned(), v)));
    match line {
        l if l.starts_with("average rps:") => add("rps.mean", after(l, "average rps:")),
        l if l.starts_with("sched delay:") => {
            add("delay.message", after(l, "message ").map(|us| scaled(us, 1e3)));
            add("delay.worker", after(l, "worker ").map(|us| scaled(us, 1e3)));
        }
        l if l.starts_with("avg worker transfer:") => add("transfer.rate", after(l, "transfer:")),
        _ => {}
    }
    all
}

/// The object `int`: `wakeup_latency_pct99.0`, `wakeup_latency_min`, and the same of `request_latency` and `rps`.
fn of_json(value: &serde_json::Value) -> Values {
    let numbers = value.get("int").and_then(|v| v.as_object()).into_iter().flatten();
    let one = |(key, v): (&String, &serde_json::Value)| {
        let (from, name, factor) =
            [("wakeup_latency_", "wakeup", 1e3), ("request_latency_", "request", 1e3), ("rps_", "rps", 1.0)]
                .into_iter()
                .find(|(from, ..)| key.starts_with(from))?;
        let stat = match key.strip_prefix(from)? {
            stat @ ("min" | "max") => stat.to_owned(),
            stat => format!("p{}", stat.strip_prefix("pct")?.parse::<f64>().ok()?),
        };
        Some((format!("{name}.{stat}"), scaled(v.as_f64()?, factor)))
    };
    numbers.filter_map(one).collect()
}
