//! `perf bench sched messaging` and `pipe`: a head line with the benchmark's name, then the total time.

use super::text::{lines, missing, number, scaled};
use super::{Reading, Row, Tool, Values};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower};

/// `perf bench sched messaging`.
pub const MESSAGING: Tool = Tool {
    name: "perf-messaging",
    about: "perf bench sched messaging: perf's own hackbench",
    program: "perf",
    package: "linux-perf",
    before: &["bench", "sched", "messaging"],
    load: &["-g", "{load}"],
    after: &[],
    load_about: "groups",
    default_load: "",
    server: &[],
    figures: &[Row("time", "ns", Lower, "total time")],
    headline: &["time"],
    knows: |text| lines(text).any(|l| is_head(l, "messaging")),
    read: |text| read(text, "messaging"),
};

/// `perf bench sched pipe`.
pub const PIPE: Tool = Tool {
    name: "perf-pipe",
    about: "perf bench sched pipe: two tasks that pass a word to and fro",
    program: "perf",
    package: "linux-perf",
    before: &["bench", "sched", "pipe"],
    load: &[],
    after: &[],
    load_about: "",
    default_load: "",
    server: &[],
    figures: &[
        Row("per_op", "ns", Lower, "time of a round trip, which is two switches"),
        Row("rate", "1/s", Higher, "round trips per second"),
        Row("time", "ns", Lower, "total time"),
    ],
    headline: &["per_op", "rate"],
    knows: |text| lines(text).any(|l| is_head(l, "pipe")),
    read: |text| read(text, "pipe"),
};

fn is_head(line: &str, which: &str) -> bool {
    line.strip_prefix("# Running 'sched/").is_some_and(|l| l.starts_with(&format!("{which}'")))
}

/// Every stretch of text from a head line to the next.
fn read(text: &str, which: &str) -> Result<Vec<Reading>> {
    let mut all: Vec<Reading> = Vec::new();
    let mut within = false;
    for line in lines(text) {
        if line.starts_with("# Running '") {
            within = is_head(line, which);
            all.extend(within.then(Reading::default));
        } else if let Some(reading) = all.last_mut().filter(|_| within) {
            if let Some(groups) = groups(line) {
                reading.load = Some(groups);
            }
            reading.values.extend(value(line).map(|(name, v)| (name.to_owned(), v)));
        }
    }
    all.retain(|r| has_time(&r.values));
    if all.is_empty() {
        Err(missing("perf bench", "'Total time: SECONDS [sec]' behind its head"))
    } else {
        Ok(all)
    }
}

fn has_time(values: &Values) -> bool {
    values.contains_key("time")
}

/// "# 2 groups == 80 processes run"
fn groups(line: &str) -> Option<String> {
    let rest = line.strip_prefix("# ")?;
    rest.contains(" groups == ").then(|| number(rest).map(|n| format!("{n} groups"))).flatten()
}

fn value(line: &str) -> Option<(&'static str, f64)> {
    match line.strip_prefix("Total time:") {
        Some(rest) => Some(("time", scaled(number(rest)?, 1e9))),
        None if line.ends_with("usecs/op") => Some(("per_op", scaled(number(line)?, 1e3))),
        None if line.ends_with("ops/sec") => Some(("rate", number(&line.replace(',', ""))?)),
        None => None,
    }
}
