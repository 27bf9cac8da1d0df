//! Task groups (control groups): their busy periods, the waits of their tasks, and the CPU time that they used.
//!
//! A group is *busy* while a thread of it, or of a group below it, is awake: running, or runnable and waiting for a
//! CPU, also because the group is throttled. A busy period begins with the wakeup (or the first enqueue) of the first
//! thread, while no other was awake, and ends when the last one sleeps or ends. In a service that handles one request
//! at a time that is the request; requests that overlap are one period.
//!
//! A period whose begin or end is not known is not counted: a thread was awake before the events begin, or events were
//! lost. A task counts for the group in which it began.

use super::state::{Phase, Task};
use schedlab_base::{Ns, TaskId};
use schedlab_record::{Better, Series, Tally};
use std::collections::BTreeMap;

/// A task in no group, or in the root group.
pub(super) const NO_TASK_GROUP: u16 = u16::MAX;

/// Values by metric name.
type Named<T> = Vec<(String, T)>;

/// What a change of a task's phase means for its group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Turn {
    Wakes,
    Sleeps,
    /// It was awake, and nobody knows since when.
    WasAwake,
    /// It was awake until now, and is asleep.
    WasAwakeUntilNow,
    /// Its events were lost.
    Vanishes,
}

#[derive(Default)]
struct TaskGroup {
    path: String,
    above: Option<u16>,
    /// Its awake threads, and groups right below it that have some.
    awake: u32,
    /// Begin of the open period.
    since: Ns,
    /// Whether the begin is known, and no event was lost since.
    whole: bool,
    busy: Option<Box<Tally>>,
    waits: Option<Box<Tally>>,
    cpu_ns: u64,
}

/// The groups, each behind the one above it.
#[derive(Default)]
pub(super) struct TaskGroups {
    all: Vec<TaskGroup>,
    known: BTreeMap<String, u16>,
}

fn tally(place: &mut Option<Box<Tally>>) -> &mut Tally {
    place.get_or_insert_with(|| Box::new(Tally::new(Series::new("ns", Better::Lower))))
}

impl TaskGroups {
    /// The number of the group with that path, and of those above it; a new one if needed.
    pub fn of(&mut self, path: &str) -> u16 {
        let path = path.trim_end_matches('/');
        if path.is_empty() || !path.starts_with('/') {
            return NO_TASK_GROUP;
        }
        if let Some(known) = self.known.get(path) {
            return *known;
        }
        let above = path.rsplit_once('/').map_or(NO_TASK_GROUP, |(above, _)| self.of(above));
        let number = u16::try_from(self.all.len()).unwrap_or(NO_TASK_GROUP);
        if number != NO_TASK_GROUP {
            let above = Some(above).filter(|above| *above != NO_TASK_GROUP);
            self.all.push(TaskGroup { path: path.to_owned(), above, ..TaskGroup::default() });
            self.known.insert(path.to_owned(), number);
        }
        number
    }

    /// The group, and those above it.
    fn upwards(&mut self, group: u16, mut each: impl FnMut(&mut TaskGroup)) {
        let mut next = Some(group);
        while let Some(own) = next.and_then(|at| self.all.get_mut(usize::from(at))) {
            each(own);
            next = own.above;
        }
    }
    fn doubt(&mut self, group: u16) {
        self.upwards(group, |own| own.whole = false);
    }
    fn wakes(&mut self, group: u16, at: Ns, known: bool) {
        let mut next = Some(group);
        while let Some(own) = next.and_then(|at| self.all.get_mut(usize::from(at))) {
            own.awake += 1;
            if own.awake > 1 {
                break;
            }
            (own.since, own.whole) = (at, known);
            next = own.above;
        }
        if !known {
            self.doubt(group);
        }
    }
    fn sleeps(&mut self, group: u16, at: Ns, counts: bool) {
        let mut next = Some(group);
        while let Some(own) = next.and_then(|at| self.all.get_mut(usize::from(at))) {
            own.awake = own.awake.saturating_sub(1);
            if own.awake > 0 {
                return;
            }
            if own.whole && counts {
                tally(&mut own.busy).record(at.since(own.since).0);
            }
            next = own.above;
        }
    }
    fn turned(&mut self, group: u16, at: Ns, turn: Turn, counts: bool) {
        match turn {
            Turn::Wakes => self.wakes(group, at, true),
            Turn::WasAwake => self.wakes(group, at, false),
            Turn::Sleeps => self.sleeps(group, at, counts),
            Turn::WasAwakeUntilNow => self.doubt(group),
            Turn::Vanishes => {
                self.doubt(group);
                self.sleeps(group, at, counts);
            }
        }
    }
    /// Counts a wait for a CPU of `length_ns` by a task of the group.
    #[inline]
    pub fn waited(&mut self, group: u16, length_ns: u64) {
        if group != NO_TASK_GROUP {
            self.upwards(group, |own| tally(&mut own.waits).record(length_ns));
        }
    }
    pub fn used(&mut self, group: u16, cpu_ns: u64) {
        if group != NO_TASK_GROUP {
            self.upwards(group, |own| own.cpu_ns += cpu_ns);
        }
    }
    #[cfg(test)]
    pub fn is_busy(&self, path: &str) -> bool {
        self.known.get(path).is_some_and(|at| self.all[usize::from(*at)].awake > 0)
    }
    /// What was counted, by metric name: times, and CPU time.
    pub fn finish(self) -> (Named<Series>, Named<u64>) {
        let (mut series, mut counters) = (Vec::new(), Vec::new());
        for group in self.all {
            let TaskGroup { path, busy, waits, cpu_ns, .. } = group;
            let all = [("busy", busy), ("run_delay", waits)];
            let named = |(word, own): (&str, Option<Box<Tally>>)| {
                Some((format!("group.{path}.{word}"), own?.into_series()))
            };
            series.extend(all.into_iter().filter_map(named));
            counters.push((format!("group.{path}.cpu_time"), cpu_ns));
        }
        (series, counters)
    }
}

/// What a change of phase means; `begins`: it is the task's wakeup or its first enqueue.
fn turn(was: Phase, is: Phase, begins: bool) -> Option<Turn> {
    match (was.is_awake(), is.is_awake()) {
        (false, true) if begins => Some(Turn::Wakes),
        (false, true) => Some(Turn::WasAwake),
        (true, false) if is == Phase::Unknown => Some(Turn::Vanishes),
        (true, false) => Some(Turn::Sleeps),
        (false, false) if is != Phase::Unknown => Some(Turn::WasAwakeUntilNow),
        _ => None,
    }
}

impl super::Analyser {
    /// Puts the task, which has not had an event yet, into the task group with that path.
    pub fn in_group(&mut self, id: TaskId, path: Option<&str>) {
        let group = path.map_or(NO_TASK_GROUP, |path| self.task_groups.of(path));
        self.task(id).task_group = group;
    }
    /// The same for all tasks, by task id.
    #[must_use]
    pub fn in_groups<'p>(mut self, paths: impl IntoIterator<Item = Option<&'p str>>) -> Self {
        paths.into_iter().enumerate().for_each(|(at, path)| self.in_group(TaskId::from(at), path));
        self
    }
    /// Before the task is the workload's, or the machine's: an awake one is no longer counted, or from now on, and the
    /// open period of its group has no length.
    pub(super) fn recast(&mut self, id: TaskId, is_other: bool, background: bool) {
        let Task { task_group, phase, .. } = *self.task(id);
        if is_other && task_group != NO_TASK_GROUP && phase.is_awake() {
            let turn = if background { Turn::Vanishes } else { Turn::WasAwake };
            self.task_groups.turned(task_group, Ns::ZERO, turn, false);
        }
    }
    /// The task was in another phase before; `begins`: it is woken, or queued for the first time.
    #[inline]
    pub(super) fn turned(&mut self, at: Ns, id: TaskId, was: Phase, begins: bool) {
        let Some(task) = self.tasks.get(id.index()) else { return };
        if task.task_group == NO_TASK_GROUP || task.background {
            return;
        }
        if let Some(turn) = turn(was, task.phase, begins) {
            self.task_groups.turned(task.task_group, at, turn, at >= self.measure_from);
        }
    }
}
