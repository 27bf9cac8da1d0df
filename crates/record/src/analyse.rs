//! The analyser (being built).

use crate::series::Series;
use crate::wait::Wait;
use schedlab_base::{Ns, TaskId, Warning};
use schedlab_trace::{Event, Sink};
use std::collections::BTreeMap;

/// A task as the analyser knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskName {
    /// Its name.
    pub name: String,
    /// Whether it belongs to the machine and not to the workload.
    pub background: bool,
}

/// What the analyser found.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Distributions by metric name.
    pub series: BTreeMap<String, Series>,
    /// Counts and sums by metric name.
    pub counters: BTreeMap<String, u64>,
    /// The longest waits, longest first.
    pub waits: Vec<Wait>,
    /// What the reader must know.
    pub warnings: Vec<Warning>,
}

/// Turns events into metrics, as they come.
pub struct Analyser {
    series: Vec<(String, Series)>,
    measure_from: Ns,
}

impl Analyser {
    /// An analyser of a run on CPUs `0..nr_cpus`.
    ///
    /// `tasks` by task id; `series` by the index [`Sink::sample`] is given, each with its (empty) series; what comes
    /// before `measure_from` is followed but not counted.
    pub fn new(
        _nr_cpus: usize,
        _tasks: Vec<TaskName>,
        series: Vec<(String, Series)>,
        measure_from: Ns,
    ) -> Analyser {
        Analyser { series, measure_from }
    }
    /// What was seen until `end`.
    pub fn finish(self, _end: Ns) -> Observed {
        Observed { series: self.series.into_iter().collect(), ..Observed::default() }
    }
}

impl Sink for Analyser {
    fn event(&mut self, _event: &Event) {}
    fn sample(&mut self, at: Ns, _task: TaskId, series: u16, value: u64) {
        if at >= self.measure_from
            && let Some((_, s)) = self.series.get_mut(usize::from(series))
        {
            s.record(value);
        }
    }
}
