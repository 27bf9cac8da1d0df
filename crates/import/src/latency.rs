//! `schedlab latency`: each task's time on CPUs and its waits for a CPU, as in `perf sched latency`.
//!
//! A wait is a run delay: from the begin of a wakeup, from the first enqueue, or from an involuntary switch, to the
//! switch to the task.

use crate::task_table::Audience;
use schedlab_base::{CpuId, CpuSet, Ns, TaskId};
use schedlab_trace::{Actor, Event, EventKind, Sink, SwitchReason};
use std::collections::BTreeMap;

/// The figures of a task, or of all tasks with the same name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Row {
    pub name: String,
    pub tid: u32,
    /// Its process; 0 if it is not reported.
    pub process: u32,
    pub tasks: u64,
    pub run: Ns,
    pub switches: u64,
    pub waits: u64,
    pub delay: Ns,
    pub longest: Ns,
    /// Begin of the longest wait, since the recording's first record.
    pub from: Ns,
    pub to: Ns,
}

impl Row {
    /// Mean of the waits; `None` if there were none.
    pub fn mean(&self) -> Option<Ns> {
        self.delay.0.checked_div(self.waits).map(Ns)
    }
    /// Adds another row's figures.
    fn add(&mut self, o: &Row) {
        if o.longest > self.longest {
            (self.longest, self.from, self.to) = (o.longest, o.from, o.to);
        }
        self.tasks += o.tasks;
        self.run = self.run.plus(o.run);
        self.switches += o.switches;
        self.waits += o.waits;
        self.delay = self.delay.plus(o.delay);
    }
}

/// The current state of a task.
#[derive(Clone, Copy, Default)]
enum State {
    #[default]
    Off,
    /// Waits for a CPU since this time, on this runqueue if it is known.
    Waits(Ns, Option<CpuId>),
    /// Runs since this time on this CPU. The third is the time of a wakeup that came before it left.
    Runs(Ns, CpuId, Option<Ns>),
}

/// Sums up waits and run times from events.
#[derive(Default)]
pub struct Latency {
    states: Vec<State>,
    rows: Vec<Row>,
    current: Vec<Option<TaskId>>,
    /// Count only switches on these CPUs.
    pub only: Option<CpuSet>,
    /// The recording's first record by its own clock, ns.
    pub opened_ns: u64,
}

impl Latency {
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Rows of tasks with the same name summed up, sorted by name.
    pub fn by_name<'a>(rows: impl IntoIterator<Item = &'a Row>) -> Vec<Row> {
        let mut all: BTreeMap<&str, Row> = BTreeMap::new();
        for row in rows {
            match all.get_mut(row.name.as_str()) {
                Some(known) => known.add(row),
                None => drop(all.insert(&row.name, row.clone())),
            }
        }
        all.into_values().collect()
    }

    fn counts(&self, cpu: CpuId) -> bool {
        self.only.as_ref().is_none_or(|only| only.contains(cpu))
    }

    fn switch(&mut self, at: Ns, cpu: CpuId, prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason) {
        let before = std::mem::replace(&mut self.current[cpu.index()], next);
        if let Some(lost) = before.filter(|b| Some(*b) != prev) {
            self.states[lost.index()] = State::Off;
        }
        if let Some(prev) = prev {
            let mut early = None;
            if let State::Runs(since, there, woken) = self.states[prev.index()]
                && there == cpu
            {
                early = woken;
                if self.counts(cpu) {
                    let row = &mut self.rows[prev.index()];
                    row.run = row.run.plus(at.since(since));
                }
            }
            self.states[prev.index()] = match why {
                SwitchReason::Blocked => early.map_or(State::Off, |_| State::Waits(at, None)),
                SwitchReason::Exited => State::Off,
                _ => State::Waits(at, Some(cpu)),
            };
        }
        let Some(next) = next else { return };
        let counts = self.counts(cpu);
        let row = &mut self.rows[next.index()];
        row.switches += u64::from(counts);
        if let State::Waits(since, _) = self.states[next.index()]
            && counts
        {
            let wait = at.since(since);
            row.waits += 1;
            row.delay = row.delay.plus(wait);
            if wait > row.longest {
                (row.longest, row.from, row.to) = (wait, since, at);
            }
        }
        self.states[next.index()] = State::Runs(at, cpu, None);
    }

    fn lost(&mut self, cpu: CpuId) {
        if let Some(lost) = self.current[cpu.index()].take() {
            self.states[lost.index()] = State::Off;
        }
        for state in &mut self.states {
            if matches!(state, State::Waits(_, on) if on.is_none_or(|on| on == cpu)) {
                *state = State::Off;
            }
        }
    }
}

impl Sink for Latency {
    fn event(&mut self, e: &Event) {
        if e.cpu.index() >= self.current.len() {
            self.current.resize(e.cpu.index() + 1, None);
        }
        match e.kind {
            EventKind::Switch { prev, next, .. } if prev == next => {}
            EventKind::Switch { prev, next, why } => self.switch(e.at, e.cpu, prev, next, why),
            EventKind::Waking { task, .. } => match &mut self.states[task.index()] {
                state @ State::Off => *state = State::Waits(e.at, None),
                State::Runs(_, _, woken) => *woken = Some(e.at),
                State::Waits(..) => {}
            },
            EventKind::Enqueued { task, .. } => match &mut self.states[task.index()] {
                state @ State::Off => *state = State::Waits(e.at, Some(e.cpu)),
                State::Waits(_, on) => *on = Some(e.cpu),
                State::Runs(_, _, woken) => *woken = None,
            },
            EventKind::Migrate { task, .. } => {
                if let State::Waits(_, on @ Some(_)) = &mut self.states[task.index()] {
                    *on = Some(e.cpu);
                }
            }
            EventKind::Lost { .. } => self.lost(e.cpu),
            _ => {}
        }
    }
}

impl Audience for Latency {
    fn opens(&mut self, at_ns: u64) {
        self.opened_ns = at_ns;
    }
    fn meet(&mut self, _: TaskId, actor: &Actor) {
        self.states.push(State::Off);
        let Actor { name, tid, process, .. } = actor;
        self.rows.push(Row { name: name.clone(), tid: *tid, process: *process, tasks: 1, ..Row::default() });
    }
    fn changed(&mut self, task: TaskId, actor: &Actor) {
        let row = &mut self.rows[task.index()];
        row.name.clone_from(&actor.name);
        row.process = actor.process;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_known_from_the_beginning_is_kept() {
        let mut latency = Latency::default();
        let actor =
            Actor { name: "a".into(), tid: 21, process: 20, background: false, prio: 120, group: None };
        latency.meet(TaskId(0), &actor);
        assert_eq!((latency.rows()[0].tid, latency.rows()[0].process), (21, 20));
    }
}
