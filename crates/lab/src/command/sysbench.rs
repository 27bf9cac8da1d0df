//! sysbench 1.0: the tests cpu and threads. Latencies are printed in ms, the percentile is chosen by `--percentile`.

use super::text::{after, first, lines, missing, number, scaled};
use super::{Reading, Row, Tool, Values};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};

const FIGURES: &[Row] = &[
    Row("rate", "1/s", Higher, "events per second"),
    Row("events", "", Neither, "number of events"),
    Row("time", "ns", Neither, "total time"),
    Row("latency.min", "ns", Lower, "shortest event"),
    Row("latency.avg", "ns", Lower, "mean length of an event"),
    Row("latency.max", "ns", Lower, "longest event"),
    Row("latency.p<percentile>", "ns", Lower, "the percentile sysbench was asked for: 95 unless told"),
    Row("fairness.events_std", "", Lower, "standard deviation of the events of each thread"),
];

/// `sysbench cpu`: prime numbers, in threads that share nothing.
pub const CPU: Tool = Tool {
    name: "sysbench-cpu",
    about: "sysbench cpu: threads that look for prime numbers",
    program: "sysbench",
    package: "sysbench",
    before: &["cpu"],
    load: &["--threads={load}"],
    after: &["run"],
    load_about: "threads",
    default_load: "",
    server: &[],
    figures: FIGURES,
    headline: &["rate", "latency.p95"],
    knows: |text| is_sysbench(text) && text.contains("Prime numbers limit"),
    read,
};

/// `sysbench threads`: threads that fight for mutexes and yield.
pub const THREADS: Tool = Tool {
    name: "sysbench-threads",
    about: "sysbench threads: threads that fight for mutexes and yield",
    before: &["threads"],
    knows: is_sysbench,
    ..CPU
};

fn is_sysbench(text: &str) -> bool {
    lines(text).any(|l| l.starts_with("sysbench 1.") || l.starts_with("sysbench 0."))
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let head = |l: &&str| l.starts_with("sysbench ");
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for line in lines(text) {
        if head(&line) || runs.is_empty() {
            runs.push(Vec::new());
        }
        runs.last_mut().into_iter().for_each(|run| run.push(line));
    }
    let all: Vec<Reading> = runs.iter().filter_map(|run| one(&run.join("\n"))).collect();
    if all.is_empty() {
        Err(missing("sysbench", "'total number of events:' with 'total time:'"))
    } else {
        Ok(all)
    }
}

fn one(text: &str) -> Option<Reading> {
    let events = first(text, "total number of events:")?;
    let time = first(text, "total time:")?;
    let rate = first(text, "events per second:").or((time > 0.0).then(|| events / time));
    let mut values = Values::from([("events".to_owned(), events), ("time".to_owned(), scaled(time, 1e9))]);
    values.extend(rate.map(|r| ("rate".to_owned(), r)));
    let latencies = lines(text)
        .skip_while(|l| !l.starts_with("Latency (ms)"))
        .take_while(|l| !l.starts_with("Threads fairness"));
    values.extend(latencies.filter_map(latency));
    let spread = lines(text).find_map(|l| l.strip_prefix("events (avg/stddev):")?.split_once('/'));
    values.extend(spread.and_then(|(_, std)| Some(("fairness.events_std".to_owned(), number(std)?))));
    let load = first(text, "Number of threads:").map(|n| format!("{n} threads"));
    Some(Reading { load, values, ..Reading::default() })
}

/// "min: 0.20", "95th percentile: 19.29"
fn latency(line: &str) -> Option<(String, f64)> {
    let name = match line.split_once(':')?.0 {
        "min" | "avg" | "max" => line.split_once(':')?.0.to_owned(),
        other => format!("p{}", number(other.strip_suffix("th percentile")?)?),
    };
    Some((format!("latency.{name}"), scaled(after(line, ":")?, 1e6)))
}
