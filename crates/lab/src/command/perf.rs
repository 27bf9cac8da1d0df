//! `perf bench`: a head line with the benchmark's name, then the total time; with `-f simple` seconds alone,
//! behind a head where several benchmarks are run. `sched messaging` and `pipe` have rows of their own, as
//! they are started by name.

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
    stage: None,
    figures: &[Row("time", "ns", Lower, "total time")],
    headline: &["time"],
    knows: |text| heads(text).is_some_and(|h| h.iter().all(|h| *h == "sched/messaging")),
    read: |text| read(text, Some("sched/messaging")),
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
    stage: None,
    figures: &[
        Row("per_op", "ns", Lower, "time of a round trip, which is two switches"),
        Row("rate", "1/s", Higher, "round trips per second"),
        Row("time", "ns", Lower, "total time"),
    ],
    headline: &["per_op", "rate"],
    knows: |text| heads(text).is_some_and(|h| h.iter().all(|h| *h == "sched/pipe")),
    read: |text| read(text, Some("sched/pipe")),
};

/// Any of perf's benchmarks that print a total time.
pub const BENCH: Tool = Tool {
    name: "perf-bench",
    about: "any perf bench, or several; args = \"syscall basic\"",
    program: "perf",
    package: "linux-perf",
    before: &["bench"],
    load: &[],
    after: &[],
    load_about: "",
    default_load: "",
    server: &[],
    stage: None,
    figures: &[
        Row("time", "ns", Lower, "total time"),
        Row("per_op", "ns", Lower, "time of an operation"),
        Row("rate", "1/s", Higher, "operations per second"),
    ],
    headline: &["time", "per_op"],
    // Numbers with three decimals may be anything, so `-f simple` without heads is only read if perf is
    // named.
    knows: |text| heads(text).is_some() && read(text, None).is_ok(),
    read: |text| read(text, None),
};

/// The benchmark that a head line names: "# Running 'sched/pipe' benchmark:", or with several "# Running sched/pipe
/// benchmark...".
fn head(line: &str) -> Option<&str> {
    let rest = line.strip_prefix("# Running ")?;
    let name = rest.split_once(" benchmark").map(|(name, _)| name.trim_matches('\''))?;
    name.contains('/').then_some(name)
}

/// The names of all heads; `None` without any.
fn heads(text: &str) -> Option<Vec<&str>> {
    let all: Vec<&str> = lines(text).filter_map(head).collect();
    (!all.is_empty()).then_some(all)
}

/// The seconds in a line of `-f simple`, which has three decimals.
fn simple(line: &str) -> Option<f64> {
    let (seconds, thousandths) = line.split_once('.')?;
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    (digits(seconds) && digits(thousandths) && thousandths.len() == 3).then(|| line.parse().ok()).flatten()
}

/// The results of one benchmark or of any: one from each head line to the next, or, with `-f simple` without
/// heads, one from every line.
fn read(text: &str, which: Option<&str>) -> Result<Vec<Reading>> {
    let time = |line| simple(line).map(|v| ("time".to_owned(), scaled(v, 1e9)));
    let mut all: Vec<Reading> = Vec::new();
    let mut within = false;
    if heads(text).is_none() {
        let times: Option<Vec<_>> = lines(text).map(time).collect();
        let one = |time| Reading { values: [time].into(), ..Reading::default() };
        all.extend(times.into_iter().flatten().map(one));
    }
    for line in lines(text) {
        if let Some(name) = head(line) {
            within = which.is_none_or(|w| w == name);
            // If any benchmark is read, its name tells results apart.
            let load = which.is_none().then(|| name.replace(char::is_control, " "));
            all.extend(within.then(|| Reading { load, ..Reading::default() }));
        } else if let Some(reading) = all.last_mut().filter(|_| within) {
            if let Some(groups) = groups(line) {
                reading.load = Some(
                    reading.load.take().map_or_else(|| groups.clone(), |name| format!("{name}, {groups}")),
                );
            }
            reading.values.extend(time(line));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_are_read_when_named_and_not_taken_for_it() {
        let text = "0.123\n4.567\n";
        assert!(!(BENCH.knows)(text), "any file of numbers may look like that");
        let all = (BENCH.read)(text).unwrap();
        assert_eq!(all.iter().map(|r| r.values["time"]).collect::<Vec<_>>(), [123e6, 4567e6]);
        assert!((BENCH.knows)("# Running sched/pipe benchmark...\n0.123\n"));
    }
}
