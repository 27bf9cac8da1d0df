//! Reads rt-app's logs: one file for each thread, one row for each repetition of a phase, times in us. The header,
//! which begins with `#idx`, names the columns; other lines that begin with `#` name the policy.
//!
//! Each thread is a load of its own ("thread 2", by rt-app's number), so that it is compared with the same thread.
//! Names and meanings are those of schedlab's own series for rt-app files, as far as a log has them. Slack and wakeup
//! latency belong to timers, summed over a repetition. A timer that was reached late did not sleep.

use super::text::{lines, missing, scaled, whole};
use super::tool::{BLANK, FigureRow, FigureValues, Reading, Tool};
use schedlab_base::Result;
use schedlab_record::Better::{Higher, Lower, Neither};

pub const TOOL: Tool = Tool {
    name: "rt-app",
    about: "logs of rt-app, a file for each thread; its descriptions are run by schedlab bench FILE.json",
    // It writes its results to files, which a run does not read.
    package: "rt-app",
    figures: &[
        FigureRow("period.mean", "ns", Neither, "mean length of a repetition of a phase"),
        FigureRow("period.p50", "ns", Neither, "median length of a repetition"),
        FigureRow("run.mean", "ns", Lower, "mean time that a repetition's run and runtime events took"),
        FigureRow("run.p50", "ns", Lower, "median of the same"),
        FigureRow("run.p99", "ns", Lower, "99th percentile of the same, from 1000 repetitions on"),
        FigureRow("run.max", "ns", Lower, "longest of the same"),
        FigureRow(
            "slack.mean",
            "ns",
            Higher,
            "mean time left when a repetition came to its timer; negative: late",
        ),
        FigureRow("slack.min", "ns", Higher, "least of the same"),
        FigureRow("late", "count", Lower, "repetitions that came to their timer late"),
        FigureRow("wakeup_latency.p50", "ns", Lower, "median delay of the wakeups by a repetition's timers"),
        FigureRow("wakeup_latency.p99", "ns", Lower, "99th percentile of the same, from 1000 repetitions on"),
        FigureRow("wakeup_latency.max", "ns", Lower, "longest of the same"),
        FigureRow("repetitions", "count", Neither, "repetitions of phases"),
    ],
    headline: &["period.mean", "run.mean", "slack.mean", "wakeup_latency.p50", "wakeup_latency.max"],
    knows: |text| lines(text).any(is_header),
    read,
    ..BLANK
};

/// The columns that are read, in the order of [`Repetition`].
const COLUMNS: [&str; 6] = ["idx", "run", "period", "slack", "c_period", "wu_lat"];

/// A row: thread, run, period, slack, the timers' periods, wakeup latency.
type Repetition = [f64; COLUMNS.len()];

fn is_header(line: &str) -> bool {
    columns(line).is_some()
}

/// The indices of the columns in a row, and the number of columns in a row.
fn columns(line: &str) -> Option<([usize; COLUMNS.len()], usize)> {
    let names: Vec<&str> = line.strip_prefix('#')?.split_whitespace().collect();
    let mut at = [0; COLUMNS.len()];
    for (place, wanted) in at.iter_mut().zip(COLUMNS) {
        *place = names.iter().position(|n| *n == wanted)?;
    }
    Some((at, names.len()))
}

fn read(text: &str) -> Result<Vec<Reading>> {
    let header = lines(text).find_map(columns);
    let (at, width) = header.ok_or_else(|| missing("rt-app", "line '#idx perf run period ...'"))?;
    let row = |line: &str| -> Option<Result<Repetition>> {
        let words: Vec<&str> = line.split_whitespace().collect();
        // A killed run leaves its last row cut off.
        let cells =
            (words.len() == width).then(|| words.into_iter().map(whole).collect::<Result<Vec<f64>>>());
        cells.map(|cells| cells.map(|cells| at.map(|i| cells[i])))
    };
    let rows = lines(text).filter(|l| !l.starts_with('#') && l.starts_with(|c: char| c.is_ascii_digit()));
    let all: Vec<Repetition> = rows.filter_map(row).collect::<Result<_>>()?;
    let first = all.first().ok_or_else(|| missing("rt-app", "repetition of a phase below its header"))?;
    let load = Some(format!("thread {}", first[0]));
    Ok(vec![Reading { load, values: values(&all), ..Reading::default() }])
}

fn values(all: &[Repetition]) -> FigureValues {
    let column =
        |i: usize, of: fn(&Repetition) -> bool| Sorted::of(all.iter().filter(|r| of(r)).map(|r| r[i]));
    let (run, period) = (column(1, |_| true), column(2, |_| true));
    let slack = column(3, |r| r[4] > 0.0);
    let latency = column(5, |r| r[5] > 0.0);
    let times = [
        ("period.mean", period.mean()),
        ("period.p50", period.percentile(50)),
        ("run.mean", run.mean()),
        ("run.p50", run.percentile(50)),
        ("run.p99", run.percentile(99)),
        ("run.max", run.0.last().copied()),
        ("slack.mean", slack.mean()),
        ("slack.min", slack.0.first().copied()),
        ("wakeup_latency.p50", latency.percentile(50)),
        ("wakeup_latency.p99", latency.percentile(99)),
        ("wakeup_latency.max", latency.0.last().copied()),
    ];
    let times = times.into_iter().filter_map(|(name, us)| Some((name.to_owned(), scaled(us?, 1e3))));
    let late = (!slack.0.is_empty()).then(|| slack.0.iter().filter(|s| **s < 0.0).count() as f64);
    let counts = [("late", late), ("repetitions", Some(all.len() as f64))];
    times.chain(counts.into_iter().filter_map(|(name, n)| Some((name.to_owned(), n?)))).collect()
}

struct Sorted(Vec<f64>);

/// A percentile with fewer values above it is left out.
const TAIL: usize = 10;

impl Sorted {
    fn of(values: impl Iterator<Item = f64>) -> Sorted {
        let mut values: Vec<f64> = values.collect();
        values.sort_by(f64::total_cmp);
        Sorted(values)
    }
    fn mean(&self) -> Option<f64> {
        (!self.0.is_empty()).then(|| self.0.iter().sum::<f64>() / self.0.len() as f64)
    }
    /// The smallest value that is not below `percent` of all values.
    fn percentile(&self, percent: usize) -> Option<f64> {
        let rank = (self.0.len() * percent).div_ceil(100);
        let enough = percent <= 50 || self.0.len() - rank >= TAIL;
        self.0.get(rank.checked_sub(1)?).copied().filter(|_| enough)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "#idx perf run period start end rel_st slack c_duration c_period wu_lat\n";

    fn value(text: &str, name: &str) -> Option<f64> {
        read(text).unwrap()[0].values.get(name).copied()
    }

    #[test]
    fn timer_figures_need_timers() {
        let text = format!(
            "# Policy : SCHED_OTHER priority : 0\n{HEADER}3 10 500 2500 0 0 0 0 500 0 0\n\
             3 10 700 9000 0 0 0 -40 500 9000 0\n3 10 600 9500 0 0 0 8000 500 9000 70\n3 10 6"
        );
        assert_eq!(read(&text).unwrap()[0].load.as_deref(), Some("thread 3"));
        for (name, want) in [
            ("repetitions", Some(3.0)),
            ("run.mean", Some(600e3)),
            ("period.p50", Some(9e6)),
            ("slack.mean", Some(3980e3)),
            ("slack.min", Some(-40e3)),
            ("late", Some(1.0)),
            ("wakeup_latency.p50", Some(70e3)),
            ("wakeup_latency.p99", None),
        ] {
            assert_eq!(value(&text, name), want, "{name}");
        }
        let plain = format!("{HEADER}0 1 5 6 0 0 0 0 5 0 0\n");
        assert_eq!((value(&plain, "late"), value(&plain, "slack.min")), (None, None));
    }

    #[test]
    fn a_tail_needs_values_above_it() {
        let rows = |n: usize| -> String {
            let row = |i: usize| format!("0 1 {i} 9 0 0 0 0 5 0 0\n");
            HEADER.to_owned() + &(1..=n).map(row).collect::<String>()
        };
        assert_eq!((value(&rows(999), "run.p99"), value(&rows(1000), "run.p99")), (None, Some(990e3)));
        assert_eq!(value(&rows(4), "run.p50"), Some(2e3));
    }

    #[test]
    fn texts_that_are_not_logs_are_refused() {
        for (text, wanted) in [("", "#idx perf run"), (HEADER, "no repetition"), ("#idx perf\n0 1\n", "#idx")]
        {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(wanted), "{text}: {message}");
        }
    }
}
