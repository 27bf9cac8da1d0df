//! One task's measurements: its own series and counters, without locks while it runs.
//!
//! The first values of a series go to a small buffer, touched in advance: a task with few values never has a histogram,
//! which matters with 10,000 tasks. When the buffer is full, the task makes its own counts and moves the values there;
//! later values go directly to the counts. Repeatedly emptying the buffer into a growing histogram would cost a task 10
//! us at times, and 200 us the first time (page faults), during the measured time: sleepers in a guest of 6.1 migrated
//! 444 times a second with it and 376 times without.

use crate::sys;
use crate::tasks::column::Column;
use crate::tasks::intervals::Intervals;
use schedlab_base::Ns;
use schedlab_record::{Series, Tally, TaskAccount};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const BUFFERED: usize = 256;

struct Values {
    buffer: Vec<u64>,
    counts: Option<Tally>,
}

pub struct Recorder {
    values: Vec<Values>,
    /// Intervals that the program measured.
    pub intervals: Intervals,
    /// Whether values are recorded.
    pub on: bool,
}

impl Recorder {
    /// A recorder for `series` series, switched off.
    pub fn new(series: usize) -> Recorder {
        let touched = || {
            let mut buffer = vec![u64::MAX; BUFFERED];
            buffer.clear();
            Values { buffer, counts: None }
        };
        Recorder {
            values: (0..series).map(|_| touched()).collect(),
            intervals: Intervals::default(),
            on: false,
        }
    }
    /// Records a value if the recorder is on.
    #[inline]
    pub fn record(&mut self, series: usize, value: u64, columns: &[Column]) {
        if !self.on {
            return;
        }
        let at = &mut self.values[series];
        if let Some(counts) = &mut at.counts {
            return counts.record(value);
        }
        at.buffer.push(value);
        if at.buffer.len() == BUFFERED {
            let counts = at.counts.insert(Tally::with_room(columns[series].empty()));
            at.buffer.drain(..).for_each(|v| counts.record(v));
        }
    }
    /// Adds everything to `all`, which has one series per column.
    pub fn merge_into(self, all: &mut [Series]) {
        for (mine, all) in self.values.into_iter().zip(all) {
            if let Some(counts) = mine.counts {
                all.merge(&counts.into_series());
            }
            mine.buffer.into_iter().for_each(|v| all.record(v));
        }
    }
}

/// The kernel's counts of a task. `None`: this kernel lacks the count.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Counters {
    cpu_ns: u64,
    voluntary: u64,
    involuntary: u64,
    migrations: Option<u64>,
    run_delay_ns: Option<u64>,
}

/// The counts that are read from files. This takes as long as many system calls: 60 us in /proc of a guest.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Filed {
    migrations: Option<u64>,
    run_delay_ns: Option<u64>,
}

impl Filed {
    /// The calling thread's counts since its start.
    pub fn read() -> Filed {
        let text = |file| std::fs::read_to_string(file).unwrap_or_default();
        Filed {
            migrations: migrations(&text("/proc/thread-self/sched")),
            run_delay_ns: run_delay(&text("/proc/thread-self/schedstat")),
        }
    }
}

impl Counters {
    /// The counts of a task that has not run yet.
    pub const ZERO: Counters =
        Counters { cpu_ns: 0, voluntary: 0, involuntary: 0, migrations: Some(0), run_delay_ns: Some(0) };
    /// The calling thread's counts since its start. `filed`: its counts from files, if wanted.
    pub fn read(filed: Filed) -> Counters {
        let (usage, cpu_ns) = (sys::thread_usage(), sys::thread_cpu_ns());
        let Filed { migrations, run_delay_ns } = filed;
        Counters {
            cpu_ns,
            voluntary: usage.voluntary,
            involuntary: usage.involuntary,
            migrations,
            run_delay_ns,
        }
    }
    /// The same counts, with the CPU time at the end of the task's work.
    pub fn worked(self, cpu_ns: u64) -> Counters {
        Counters { cpu_ns, ..self }
    }
    pub fn since(self, before: Counters) -> Counters {
        let minus = |a: Option<u64>, b: Option<u64>| Some(a?.saturating_sub(b?));
        Counters {
            cpu_ns: self.cpu_ns.saturating_sub(before.cpu_ns),
            voluntary: self.voluntary.saturating_sub(before.voluntary),
            involuntary: self.involuntary.saturating_sub(before.involuntary),
            migrations: minus(self.migrations, before.migrations),
            run_delay_ns: minus(self.run_delay_ns, before.run_delay_ns),
        }
    }
    /// The sum; a count that one of them lacks is `None`.
    pub fn plus(self, other: Counters) -> Counters {
        let plus = |a: Option<u64>, b: Option<u64>| Some(a? + b?);
        Counters {
            cpu_ns: self.cpu_ns + other.cpu_ns,
            voluntary: self.voluntary + other.voluntary,
            involuntary: self.involuntary + other.involuntary,
            migrations: plus(self.migrations, other.migrations),
            run_delay_ns: plus(self.run_delay_ns, other.run_delay_ns),
        }
    }
    pub fn account(self, name: &str) -> TaskAccount {
        TaskAccount {
            name: name.to_owned(),
            cpu_time: Ns(self.cpu_ns),
            voluntary: self.voluntary,
            involuntary: self.involuntary,
            migrations: self.migrations,
        }
    }
    /// Counts by dotted metric name, without missing ones.
    pub fn named(self) -> BTreeMap<String, u64> {
        [
            ("cpu_time", Some(self.cpu_ns)),
            ("switches.voluntary", Some(self.voluntary)),
            ("switches.involuntary", Some(self.involuntary)),
            ("migrations", self.migrations),
            ("run_delay.total", self.run_delay_ns),
        ]
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)))
        .collect()
    }
}

/// `se.nr_migrations` of a /proc/TID/sched text.
fn migrations(text: &str) -> Option<u64> {
    let line = text.lines().find(|l| l.starts_with("se.nr_migrations"))?;
    line.rsplit(':').next()?.trim().parse().ok()
}

/// Time spent runnable but not running, ns: second number of /proc/TID/schedstat. A kernel without accounting leaves
/// all three numbers 0; the third counts how often the task was put on a CPU.
fn run_delay(text: &str) -> Option<u64> {
    let mut numbers = text.split_whitespace().map(str::parse::<u64>);
    let (_, delay, times) = (numbers.next()?.ok()?, numbers.next()?.ok()?, numbers.next()?.ok()?);
    (times > 0).then_some(delay)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_workload::SeriesDecl;

    fn column() -> Column {
        let decl = SeriesDecl { name: "x".into(), unit: "ns".into(), better: "lower".into() };
        Column::of(&decl).unwrap()
    }

    #[test]
    fn every_value_arrives_once_whether_buffered_or_drained() {
        let columns = [column()];
        let mut all = [columns[0].empty()];
        for values in [3, 1000] {
            let mut r = Recorder::new(1);
            r.record(0, 999_999, &columns);
            r.on = true;
            (0..values).for_each(|v| r.record(0, v, &columns));
            r.merge_into(&mut all);
        }
        assert_eq!((all[0].count(), all[0].max()), (1003, Some(999)));
        assert_eq!(all[0].sum(), 3 + 999 * 1000 / 2);
    }

    #[test]
    fn once_the_buffer_is_full_every_value_is_counted_as_it_comes() {
        let columns = [column()];
        let mut r = Recorder::new(1);
        r.on = true;
        (0..BUFFERED as u64 - 1).for_each(|v| r.record(0, v, &columns));
        assert!(r.values[0].counts.is_none(), "few values own no counts");
        r.record(0, 1 << 30, &columns);
        let counted = |r: &Recorder| r.values[0].counts.as_ref().map(Tally::sum);
        let first = (BUFFERED as u128 - 1) * (BUFFERED as u128 - 2) / 2 + (1 << 30);
        assert_eq!(counted(&r), Some(first));
        r.record(0, 7, &columns);
        assert_eq!(
            (counted(&r), r.values[0].buffer.len()),
            (Some(first + 7), 0),
            "and none waits in a buffer"
        );
    }

    #[test]
    fn counts_that_the_kernel_lacks_are_absent() {
        assert_eq!(migrations("se.exec_start   :  12.5\nse.nr_migrations         :     42\n"), Some(42));
        assert_eq!(migrations("no such line"), None);
        assert_eq!(run_delay("100 250 7\n"), Some(250));
        assert_eq!(run_delay("0 0 0\n"), None);
        let blind = Counters { migrations: None, ..Counters::ZERO };
        let named = Counters::ZERO.plus(blind).named();
        assert!(!named.contains_key("migrations") && named.contains_key("run_delay.total"));
    }

    #[test]
    fn a_thread_that_ran_has_used_the_cpu() {
        let before = Counters::read(Filed::read());
        let end = sys::thread_cpu_ns() + 2_000_000;
        while sys::thread_cpu_ns() < end {}
        sys::sleep_for(1_000_000);
        let used = Counters::read(Filed::read()).since(before);
        assert!(used.cpu_ns >= 2_000_000 && used.voluntary >= 1, "{used:?}");
    }
}
