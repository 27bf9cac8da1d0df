//! Reads `perf bench`: a head line with the benchmark's name, then the total time; with `-f simple` only seconds, after
//! a head if several benchmarks are run. `sched messaging` and `pipe` have rows of their own because they are started
//! by name. Lines of futex, mem and numa are read in `perf_bench`.

use super::perf_bench;
use super::text::{count, lines, missing, number, scaled, whole};
use super::tool::{FigureRow, PERF, Reading, Tool};
use schedlab_base::{Error, Result};
use schedlab_record::Better::{Higher, Lower, Neither};

pub const MESSAGING: Tool = Tool {
    name: "perf-messaging",
    about: "perf bench sched messaging: perf's own hackbench",
    before: &["bench", "sched", "messaging"],
    load: &["-g", "{load}"],
    load_about: "groups",
    figures: &[FigureRow("time", "ns", Lower, "total time")],
    headline: &["time"],
    knows: |text| heads(text).is_some_and(|h| h.iter().all(|h| *h == "sched/messaging")),
    read: |text| read(text, Some("sched/messaging")),
    ..PERF
};

pub const PIPE: Tool = Tool {
    name: "perf-pipe",
    about: "perf bench sched pipe: two tasks that pass a word to and fro",
    before: &["bench", "sched", "pipe"],
    figures: &[
        FigureRow("per_op", "ns", Lower, "time of a round trip, which is two switches"),
        FigureRow("rate", "1/s", Higher, "round trips per second"),
        FigureRow("time", "ns", Lower, "total time"),
    ],
    headline: &["per_op", "rate"],
    knows: |text| heads(text).is_some_and(|h| h.iter().all(|h| *h == "sched/pipe")),
    read: |text| read(text, Some("sched/pipe")),
    ..PERF
};

/// Any of perf's benchmarks that print a total time.
pub const BENCH: Tool = Tool {
    name: "perf-bench",
    about: "any perf bench, or several; args = \"syscall basic\"",
    before: &["bench"],
    figures: &[
        FigureRow("time", "ns", Lower, "total time"),
        FigureRow("per_op", "ns", Lower, "time of an operation"),
        FigureRow("rate", "1/s", Higher, "operations per second; of futex and epoll a thread's"),
        FigureRow(
            "latency",
            "ns",
            Lower,
            "futex: time until all waiters were woken or moved, or a waking thread's",
        ),
        FigureRow("<function>.throughput", "B/s", Higher, "mem: bytes per second of a function"),
        FigureRow("<function>.cycles_per_byte", "", Lower, "mem -c: cycles for each byte"),
        FigureRow("runtime_max", "ns", Lower, "numa: longest time of a thread"),
        FigureRow("runtime_min", "ns", Lower, "numa: shortest time of a thread"),
        FigureRow("runtime_avg", "ns", Lower, "numa: mean time of a thread"),
        FigureRow("runtime_spread", "%", Lower, "numa: half the spread of the threads' times, by the mean"),
        FigureRow("data_per_thread", "GB", Neither, "numa: data that a thread went over"),
        FigureRow("data_total", "GB", Neither, "numa: data that all threads went over"),
        FigureRow("time_per_byte", "ns", Lower, "numa: a thread's time for each byte"),
        FigureRow("thread_speed", "GB/s", Higher, "numa: speed of a thread"),
        FigureRow("total_speed", "GB/s", Higher, "numa: speed of all threads"),
    ],
    headline: &["time", "per_op", "rate", "latency"],
    // Any number may have three decimals, so `-f simple` without heads is read only if perf is named.
    knows: |text| heads(text).is_some(),
    read: |text| read(text, None),
    ..PERF
};

/// The benchmark named by a head line: "# Running 'sched/pipe' benchmark:", or, of several, "# Running sched/pipe
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

/// The seconds in a line of `-f simple`, which has three decimals and nothing else.
fn simple(line: &str) -> Result<Option<f64>> {
    let digits = |s: &str| !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
    let shaped = line.split_once(['.', ',']).is_some_and(|(a, b)| digits(a) && digits(b) && b.len() == 3);
    if shaped { whole(line).map(Some) } else { Ok(None) }
}

/// The results of one benchmark, or of any: one from each head line to the next or, with `-f simple` without heads, one
/// from every line.
fn read(text: &str, which: Option<&str>) -> Result<Vec<Reading>> {
    let time = |line| Ok(simple(line)?.map(|v| ("time".to_owned(), scaled(v, 1e9))));
    let mut all: Vec<Reading> = Vec::new();
    let mut within = None;
    let mut unread = None;
    let mut function = String::new();
    if heads(text).is_none() {
        let times: Option<Vec<_>> = lines(text).map(time).collect::<Result<_>>()?;
        let one = |time| Reading { values: [time].into(), ..Reading::default() };
        all.extend(times.into_iter().flatten().map(one));
    }
    for line in lines(text) {
        if let Some(name) = head(line) {
            unread = unread.or(within.take().filter(|_| all.last().is_some_and(|r| r.values.is_empty())));
            within = Some(name).filter(|name| which.is_none_or(|w| w == *name));
            // If any benchmark is read, results are named after theirs.
            let load = which.is_none().then(|| name.replace(char::is_control, " "));
            all.extend(within.map(|_| Reading { load, ..Reading::default() }));
        } else if let Some(reading) = all.last_mut().filter(|_| within.is_some()) {
            if let Some(groups) = groups(line)? {
                reading.load = Some(
                    reading.load.take().map_or_else(|| groups.clone(), |name| format!("{name}, {groups}")),
                );
            }
            reading.values.extend(time(line)?);
            reading.values.extend(value(line)?.map(|(name, v)| (name.to_owned(), v)));
            perf_bench::line(line, &mut function, &mut all)?;
        }
    }
    unread = unread.or(within.filter(|_| all.last().is_some_and(|r| r.values.is_empty())));
    all.retain(|r| !r.values.is_empty());
    match unread {
        _ if !all.is_empty() => Ok(all),
        Some(name) => {
            Err(Error::input(format!("no result of perf bench: nothing in its output of {name} is known"))
                .help("--metric-regex 'NAME[UNIT]=REGEX' reads a figure out of any text"))
        }
        None => Err(missing("perf bench", "'Total time: SECONDS [sec]' behind its head")),
    }
}

/// "# 2 groups == 80 processes run"
fn groups(line: &str) -> Result<Option<String>> {
    let rest = line.strip_prefix("# ").filter(|rest| rest.contains(" groups == "));
    Ok(rest.map_or(Ok(None), count)?.map(|n| format!("{n} groups")))
}

fn value(line: &str) -> Result<Option<(&'static str, f64)>> {
    Ok(match line.strip_prefix("Total time:") {
        Some(rest) => number(rest)?.map(|v| ("time", scaled(v, 1e9))),
        None if line.ends_with("usecs/op") => number(line)?.map(|v| ("per_op", scaled(v, 1e3))),
        // perf prints a whole number, with the separators of its locale.
        None if line.ends_with("ops/sec") => count(line)?.map(|v| ("rate", v)),
        None => None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bare_numbers_are_read_only_if_perf_is_named() {
        let text = "0.123\n4.567\n";
        assert!(!(BENCH.knows)(text), "any file of numbers may look like that");
        let all = (BENCH.read)(text).unwrap();
        assert_eq!(all.iter().map(|r| r.values["time"]).collect::<Vec<_>>(), [123e6, 4567e6]);
        assert!((BENCH.knows)("# Running sched/pipe benchmark...\n0.123\n"));
    }
}
