//! Reads schbench: the text of 2016 (one block), today's text (blocks for wakeups, requests and RPS), and today's JSON.
//!
//! With an interval schbench prints its blocks repeatedly, each covering the whole time so far: the last ones of a run
//! count. [`Runs`] separates several runs in a text.

use super::text::{after, jsons, lines, missing, number, scaled, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower};
use std::collections::BTreeMap;

pub const TOOL: Tool = Tool {
    name: "schbench",
    about: "wakeup latencies under message threads and workers (no package: built from its source)",
    program: "schbench",
    load: &["-t", "{load}"],
    load_about: "workers of each message thread",
    figures: &[
        FigureRow("wakeup.<stat>", "ns", Lower, "from the waker's time stamp until the worker runs"),
        FigureRow("request.<stat>", "ns", Lower, "from the start of the think time until the work is done"),
        FigureRow("rps.<stat>", "1/s", Higher, "requests of each second"),
        FigureRow("rps.mean", "1/s", Higher, "requests per second over the whole run"),
        FigureRow("delay.message", "ns", Lower, "mean wait of message threads for a CPU"),
        FigureRow("delay.worker", "ns", Lower, "mean wait of workers for a CPU"),
        FigureRow("transfer.rate", "1/s", Higher, "pipe mode: messages per second of a worker"),
    ],
    headline: &["wakeup.p50", "wakeup.p99", "request.p50", "request.p99", "rps.mean"],
    knows: |text| is_json(text) || lines(text).any(|l| block(l).is_some_and(|(name, _)| name != OLD)),
    read,
    ..BLANK
};

pub const TOOL_2016: Tool = Tool {
    name: "schbench-2016",
    about: "schbench before its rewrite of 2023: one block of wakeup latencies",
    figures: &[FigureRow(
        "latency.<stat>",
        "ns",
        Lower,
        "from the start of the wake list until the worker runs",
    )],
    headline: &["latency.p50", "latency.p99", "latency.p99.9"],
    knows: |text| lines(text).any(|l| block(l).is_some_and(|(name, _)| name == OLD)),
    ..TOOL
};

/// The figure of the single block that schbench of 2016 prints.
const OLD: &str = "latency";

fn is_json(text: &str) -> bool {
    text.contains("\"wakeup_latency_pct") && text.contains("\"int\"")
}

/// The figure's first word and the factor to its unit, by the title of a block.
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
    let runs = if is_json(text) {
        jsons("schbench", text)?.iter().map(of_json).filter(|values| !values.is_empty()).collect()
    } else {
        Runs::of(text)?
    };
    if runs.is_empty() {
        return Err(missing("schbench", "block of percentiles"));
    }
    Ok(runs.into_iter().map(|values| Reading { values, ..Reading::default() }).collect())
}

/// A block while it is read.
struct Block {
    name: &'static str,
    factor: f64,
    /// Seconds of its run; early versions do not print them.
    runtime: Option<f64>,
    samples: Option<f64>,
}

/// Collects runs while their lines are read.
///
/// Each block of an interval covers the whole run so far, so a block replaces the last one of its name. A block begins
/// another run in four cases: its time does not grow; it has no time (versions without it print a run's blocks once);
/// it has fewer samples although none were discarded (`warmup done, zeroing stats`); the run's last line, "average
/// rps", was already read.
#[derive(Default)]
struct Runs {
    all: Vec<FigureValues>,
    /// The last block of each name in this run: run time and samples.
    seen: BTreeMap<&'static str, (Option<f64>, Option<f64>)>,
    open: Option<Block>,
    over: bool,
}

impl Runs {
    fn of(text: &str) -> Result<Vec<FigureValues>> {
        let mut runs = Runs::default();
        for line in lines(text) {
            runs.line(line)?;
        }
        runs.all.retain(|values| !values.is_empty());
        Ok(runs.all)
    }

    fn line(&mut self, line: &str) -> Result<()> {
        if let Some((name, factor)) = block(line) {
            let block =
                Block { name, factor, runtime: after(line, "runtime ")?, samples: after(line, "(s) (")? };
            self.begin(block);
            return Ok(());
        }
        if line.contains("zeroing stats") {
            self.seen.values_mut().for_each(|(_, samples)| *samples = None);
        }
        let found = match &self.open {
            Some(open) => row(line, (open.name, open.factor))?,
            None => None,
        };
        let found = match found {
            Some(found) => found,
            None => single(line)?,
        };
        self.over |= found.iter().any(|(name, _)| name == LAST);
        if !found.is_empty() {
            self.run().extend(found);
        }
        Ok(())
    }

    fn begin(&mut self, block: Block) {
        let again = self.seen.get(block.name).is_some_and(|(runtime, samples)| {
            let shorter = block.runtime.zip(*runtime).is_none_or(|(now, before)| now <= before);
            shorter || block.samples.zip(*samples).is_some_and(|(now, before)| now < before)
        });
        if again || self.over {
            self.all.push(FigureValues::new());
            self.seen.clear();
            self.over = false;
        }
        let prefix = format!("{}.", block.name);
        self.run().retain(|name, _| !name.starts_with(&prefix));
        self.seen.insert(block.name, (block.runtime, block.samples));
        self.open = Some(block);
    }

    fn run(&mut self) -> &mut FigureValues {
        if self.all.is_empty() {
            self.all.push(FigureValues::new());
        }
        let last = self.all.len() - 1;
        &mut self.all[last]
    }
}

/// The figure in the last line but one of a run.
const LAST: &str = "rps.mean";

/// "* 99.0th: 12         (1200 samples)", "*99.0000th: 12", "min=1, max=30"
fn row(line: &str, (name, factor): (&str, f64)) -> Result<Option<Vec<(String, f64)>>> {
    if let Some((min, max)) = after(line, "min=")?.zip(after(line, "max=")?) {
        let pair = [("min", min), ("max", max)];
        return Ok(Some(pair.map(|(stat, v)| (format!("{name}.{stat}"), scaled(v, factor))).to_vec()));
    }
    let Some((percentile, value)) = line.trim_start_matches(['*', ' ']).split_once("th:") else {
        return Ok(None);
    };
    if !percentile.starts_with(|c: char| c.is_ascii_digit()) {
        return Ok(None);
    }
    let (percentile, value) = (whole(percentile)?, number(value)?);
    Ok(value.map(|v| vec![(format!("{name}.p{percentile}"), scaled(v, factor))]))
}

/// Reads lines outside of blocks.
fn single(line: &str) -> Result<Vec<(String, f64)>> {
    const LINES: &[(&str, &str, &str, f64)] = &[
        ("average rps:", "average rps:", LAST, 1.0),
        ("sched delay:", "message ", "delay.message", 1e3),
        ("sched delay:", "worker ", "delay.worker", 1e3),
        ("avg worker transfer:", "transfer:", "transfer.rate", 1.0),
    ];
    let mut all = Vec::new();
    for (_, word, name, factor) in LINES.iter().filter(|(begin, ..)| line.starts_with(begin)) {
        all.extend(after(line, word)?.map(|v| ((*name).to_owned(), scaled(v, *factor))));
    }
    Ok(all)
}

/// Reads the object `int`: `wakeup_latency_pct99.0`, `wakeup_latency_min`, and the same for `request_latency` and
/// `rps`.
fn of_json(value: &serde_json::Value) -> FigureValues {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn wakeups(text: &str) -> Vec<f64> {
        read(text)
            .unwrap()
            .iter()
            .map(|r| r.values.get("wakeup.p50").or(r.values.get("latency.p50")).copied().unwrap())
            .collect()
    }

    #[test]
    fn runs_are_separated_and_intervals_are_not() {
        let block = |time: u32, samples: u32, p50: u32| {
            format!(
                "Wakeup Latencies percentiles (usec) runtime {time} (s) ({samples} total samples)\n  50.0th: {p50} (1 samples)\n"
            )
        };
        let end = "average rps: 5.00\n";
        let intervals = block(10, 100, 1) + &block(20, 200, 2) + end;
        assert_eq!(wakeups(&intervals), [2e3]);
        assert_eq!(wakeups(&(intervals.clone() + &block(10, 100, 3) + &block(20, 200, 4) + end)), [2e3, 4e3]);
        assert_eq!(wakeups(&(block(10, 100, 1) + &block(30, 200, 2))), [2e3], "one run with an interval");
        assert_eq!(
            wakeups(&(block(10, 100, 1) + end + &block(30, 200, 2) + end)),
            [1e3, 2e3],
            "a longer run"
        );
        assert_eq!(wakeups(&(block(10, 100, 1) + &block(10, 120, 2))), [1e3, 2e3]);
        assert_eq!(wakeups(&(block(10, 100, 1) + &block(20, 90, 2))), [1e3, 2e3], "fewer samples");
        assert_eq!(wakeups(&(block(10, 100, 1) + "warmup done, zeroing stats\n" + &block(20, 90, 2))), [2e3]);
        let old = |p50: u32| format!("Latency percentiles (usec)\n  50.0000th: {p50}\n  min=0, max=9\n");
        assert_eq!(wakeups(&(old(7) + &old(6) + &old(8))), [7e3, 6e3, 8e3]);
        let json = |p50: u32| format!("{{\"int\": {{\"wakeup_latency_pct50.0\": {p50}}}}}\n");
        assert_eq!(wakeups(&(json(1) + &json(2))), [1e3, 2e3]);
    }
}
