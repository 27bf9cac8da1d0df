//! Findings of a run: the part of a record that the backend measures. Simulator, live agent and guest return the same
//! struct. A record's JSON has its fields next to those that describe the run.
//!
//! Times are nanoseconds. A value that was not measured is absent, never 0. The order of the fields is their order in
//! stored records.

use crate::{Cycles, Delays, Figure, Interval, Schedstat, Series, Stays, TaskAccount, Wait};
use schedlab_base::{Ns, Warning};
use schedlab_trace::SwitchReason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The findings of one run. Maps are ordered, so that the same run gives the same bytes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Measured time: from the end of the warm-up to the end of the run.
    pub duration: Ns,
    /// Recorded and observed series by dotted name ("schbench.latency", "wakeup_delay", "slice").
    pub series: BTreeMap<String, Series>,
    /// Counts and sums by dotted name ("migrations", "placement.idle_core", "work" in ns).
    pub counters: BTreeMap<String, u64>,
    /// The scheduler's own counters, if available: simulated ones cover the measured time, live ones the whole run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub schedstat: Option<Schedstat>,
    /// Samples by function, where the kernel's own code is charged by what it executes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cycles: Option<Cycles>,
    /// Figures that a command printed, by dotted name ("hackbench.time").
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub figures: BTreeMap<String, Figure>,
    /// The account of each task of the workload, in the workload's order. Live tasks that were not measured
    /// are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub tasks: Vec<TaskAccount>,
    /// Stays of groups of tasks on each CPU, for the first [`MAX_GROUPS`](crate::accounts::MAX_GROUPS) groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stays: Vec<Stays>,
    /// Waits of groups of tasks, for the first [`MAX_GROUPS`](crate::accounts::MAX_GROUPS) groups that had any. Empty
    /// if the tasks are one group, whose waits are the run's.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub delays: Vec<Delays>,
    /// The programs' measurements by interval, in order of time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub intervals: Vec<Interval>,
    /// The longest waits, longest first.
    pub waits: Vec<Wait>,
    /// The environment of the run: sorted key and value.
    pub environment: BTreeMap<String, String>,
    pub warnings: Vec<Warning>,
}

impl Findings {
    /// Reduces the findings to those that tables need: drops waits and intervals, which are most of a record, and packs
    /// histograms. [`RunDir::outline`](crate::RunDir::outline) reads the same from a stored run.
    pub fn outline(&mut self) {
        (self.waits, self.intervals) = (Vec::new(), Vec::new());
        self.series.values_mut().for_each(Series::pack);
        self.delays.iter_mut().flat_map(|d| [&mut d.wakeup_delay, &mut d.run_delay]).for_each(Series::pack);
    }
    /// Adds the findings of another observer of the same run. If both have a value of one name, that of `more` is kept.
    /// Its lists replace ours unless they are empty. Its warnings follow ours.
    pub fn add(&mut self, more: Findings) {
        let Findings { duration, series, counters, schedstat, cycles, figures, .. } = more;
        let Findings { tasks, stays, delays, intervals, waits, environment, warnings, .. } = more;
        self.duration = self.duration.max(duration);
        self.series.extend(series);
        self.counters.extend(counters);
        self.schedstat = schedstat.or(self.schedstat.take());
        self.cycles = cycles.or(self.cycles.take());
        self.figures.extend(figures);
        replace(&mut self.tasks, tasks);
        replace(&mut self.stays, stays);
        replace(&mut self.delays, delays);
        replace(&mut self.intervals, intervals);
        replace(&mut self.waits, waits);
        self.environment.extend(environment);
        self.warnings.extend(warnings);
    }
}

impl Findings {
    /// Drops findings that a kernel's tracepoints do not show: why a CPU was chosen, why a running task yielded, which
    /// balancer moved a task.
    pub fn keep_what_tracepoints_show(&mut self) {
        self.series.retain(|name, _| tracepoints_show(name));
        self.counters.retain(|name, _| tracepoints_show(name));
        for always in ["slice.end.preempted", "migrations.moved"] {
            self.counters.entry(always.to_owned()).or_insert(0);
        }
    }
}

impl Findings {
    /// Drops findings that the kernel's own code does not give unless our rules are asked for reasons.
    pub fn keep_what_code_shows(&mut self) {
        self.series.retain(|name, _| !is_of_reasons(name));
        self.counters.retain(|name, _| !is_of_reasons(name));
        self.counters.entry("slice.end.preempted".to_owned()).or_insert(0);
    }
}

impl Findings {
    /// Drops findings that switches alone do not show: wakeups, and all waits, since those after a wakeup would be
    /// missing.
    pub fn keep_what_switches_show(&mut self) {
        self.series.retain(|name, _| switches_show(name));
        self.counters.retain(|name, _| switches_show(name));
        self.waits.clear();
        self.delays.clear();
    }
}

/// Whether the metric or series of a name gives reasons for decisions: a run of the kernel's own code has it only if
/// our rules were asked. That a task went to sleep, ended or was still runnable is always known.
pub fn is_of_reasons(name: &str) -> bool {
    let reason = name.strip_prefix("slice.end.").or_else(|| name.strip_prefix("slice."));
    let word = reason.and_then(|words| words.split('.').next());
    let is_reason = |word| SwitchReason::ALL.iter().any(|why| why.name() == word);
    ["placement.", "affine.", "rules.", "slice.preempted_by."].iter().any(|begin| name.starts_with(begin))
        || word.is_some_and(|word| is_reason(word) && !["blocked", "exited", "preempted"].contains(&word))
}

/// Whether the series is of times of a task group: of its busy periods, or of its tasks' waits.
pub fn is_of_task_group(series: &str) -> bool {
    series.starts_with("group./") && [".busy", ".run_delay"].iter().any(|end| series.ends_with(end))
}

/// Whether switches alone give the metric or series of a name.
fn switches_show(name: &str) -> bool {
    if is_of_task_group(name) {
        return false;
    }
    !["wakeup", "woken.", "run_delay", "migrations.wakeup"].iter().any(|begin| name.starts_with(begin))
}

/// Whether a kernel's tracepoints give the metric or series of a name.
fn tracepoints_show(name: &str) -> bool {
    let one_of = |before: &str, words: &[&str]| name.strip_prefix(before).is_none_or(|w| words.contains(&w));
    let ends = ["blocked", "exited", "preempted"];
    !name.starts_with("placement.")
        && !name.starts_with("slice.preempted_by.")
        && one_of("migrations.", &["wakeup", "fork", "moved"])
        && match name.strip_prefix("slice.end.") {
            Some(reason) => ends.contains(&reason),
            None => one_of("slice.", &ends),
        }
}

fn replace<T>(ours: &mut Vec<T>, more: Vec<T>) {
    if !more.is_empty() {
        *ours = more;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_later_observer_is_kept_and_an_empty_list_replaces_none() {
        let interval = |start| Interval { start: Ns(start), length: Ns(1), values: BTreeMap::new() };
        let of = |n: u64, intervals: Vec<Interval>| Findings {
            duration: Ns(10 - n),
            counters: [("both".to_owned(), n), (format!("only{n}"), n)].into(),
            intervals,
            warnings: vec![Warning::new("w", format!("{n}"))],
            ..Findings::default()
        };
        let mut found = of(1, vec![interval(1)]);
        found.add(of(2, Vec::new()));
        let counters: Vec<(&str, u64)> = found.counters.iter().map(|(n, v)| (n.as_str(), *v)).collect();
        assert_eq!(counters, [("both", 2), ("only1", 1), ("only2", 2)]);
        assert_eq!((found.duration, found.intervals.len()), (Ns(9), 1));
        assert_eq!(found.warnings.iter().map(|w| w.message.as_str()).collect::<Vec<_>>(), ["1", "2"]);
        found.add(of(3, vec![interval(3), interval(4)]));
        assert_eq!(found.intervals, [interval(3), interval(4)]);
    }

    #[test]
    fn findings_that_tracepoints_do_not_show_are_dropped() {
        for name in [
            "woken.prev",
            "migrations",
            "migrations.moved",
            "slice.end.blocked",
            "slice",
            "slice.exited",
            "idle_time",
        ] {
            assert!(tracepoints_show(name), "{name}");
        }
        for name in [
            "placement.probes",
            "migrations.newidle",
            "slice.end.slice",
            "slice.wakeup",
            "slice.preempted_by.a",
        ] {
            assert!(!tracepoints_show(name), "{name}");
        }
    }

    #[test]
    fn reasons_that_nobody_was_asked_for_are_not_measured() {
        let all = [
            "migrations.newidle",
            "placement.probes",
            "slice.end.arrived",
            "slice.end.blocked",
            "slice.end.wakeup",
            "slice.preempted_by.a",
        ];
        let mut found =
            Findings { counters: all.map(|name| (name.to_owned(), 0)).into(), ..Findings::default() };
        found.keep_what_code_shows();
        let left: Vec<&str> = found.counters.keys().map(String::as_str).collect();
        assert_eq!(left, ["migrations.newidle", "slice.end.blocked", "slice.end.preempted"]);
        for series in ["slice", "slice.blocked", "slice.preempted.p50", "slice.p50", "slice.mean"] {
            assert!(!is_of_reasons(series), "{series}");
        }
        assert!(is_of_reasons("slice.wakeup") && is_of_reasons("slice.slice.p99"));
    }
}
