//! A program's view of a simulated machine, and its measurements by interval.

use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_record::accounts::{Interval, MAX_INTERVALS};
use schedlab_trace::Sink;
use schedlab_workload::{Env, Outcome, SeriesId, SlotId, WordId};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// A program's view of the simulation.
pub struct SimEnv<'a> {
    pub now: u64,
    pub cpu: CpuId,
    pub outcome: Outcome,
    pub words: &'a [AtomicU32],
    pub slots: &'a [AtomicU64],
    pub sink: &'a mut dyn Sink,
    pub task: TaskId,
    pub recording: bool,
    pub measure_from: u64,
    pub intervals: &'a mut Intervals,
}

impl Env for SimEnv<'_> {
    fn now(&mut self) -> Ns {
        Ns(self.now)
    }
    fn outcome(&self) -> Outcome {
        self.outcome
    }
    fn cpu(&mut self) -> CpuId {
        self.cpu
    }
    fn word(&self, id: WordId) -> &AtomicU32 {
        &self.words[id.index()]
    }
    fn slot(&self, id: SlotId) -> &AtomicU64 {
        &self.slots[id.index()]
    }
    fn record(&mut self, series: SeriesId, value: u64) {
        if self.recording {
            self.sink.sample(Ns(self.now), self.task, series.0 as u16, value);
        }
    }
    fn interval(&mut self, start: Ns, length: Ns, values: &[(SeriesId, u64)]) {
        if !self.recording || start.0 < self.measure_from {
            return;
        }
        values.iter().for_each(|(series, value)| self.record(*series, *value));
        self.intervals.keep(start.since(Ns(self.measure_from)), length, values);
    }
}

/// Stretches of time that programs measured, in the order in which they ended.
#[derive(Default)]
pub struct Intervals {
    /// Names of the workload's series.
    pub names: Vec<String>,
    pub kept: Vec<Interval>,
    /// Number of stretches dropped for lack of room.
    pub dropped: u64,
}

impl Intervals {
    /// Keeps a stretch that began at `start`, counted from the end of the warm-up.
    pub fn keep(&mut self, start: Ns, length: Ns, values: &[(SeriesId, u64)]) {
        if self.kept.len() == MAX_INTERVALS {
            self.dropped += 1;
            return;
        }
        let named =
            |(series, value): &(SeriesId, u64)| Some((self.names.get(series.index())?.clone(), *value));
        let values = values.iter().filter_map(named).collect();
        self.kept.push(Interval { start, length, values });
    }
}
