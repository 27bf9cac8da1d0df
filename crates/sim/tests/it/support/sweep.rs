//! Finds idle CPUs during waits the slow way: all events are kept, and for each instant between two of them every task
//! is compared with every CPU. Shares only the definitions with `analyse::conserve`.

use schedlab_base::{CpuId, CpuSet, Ns, TaskId};
use schedlab_trace::{Event, EventKind, Sink, SwitchReason};
use std::collections::{BTreeMap, BTreeSet};

/// Keeps all events, details included.
#[derive(Default)]
pub struct Detailed {
    /// The events in the order of arrival.
    pub events: Vec<Event>,
}

impl Sink for Detailed {
    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
    fn wants_details(&self) -> bool {
        true
    }
}

/// The result of a sweep, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Swept {
    /// Time in which at least one task waited while a CPU was free for it.
    pub covered_ns: u64,
    /// That time, summed over tasks.
    pub task_ns: u64,
}

#[derive(Default)]
struct State {
    runs: BTreeMap<CpuId, TaskId>,
    schedules: BTreeSet<CpuId>,
    carries: BTreeSet<CpuId>,
    queued: BTreeMap<TaskId, CpuId>,
    heads_for: BTreeMap<TaskId, CpuId>,
    allowed: Vec<Option<CpuSet>>,
}

impl State {
    fn apply(&mut self, e: &Event, masks: &[CpuSet]) {
        match e.kind {
            EventKind::Schedule { carries } => {
                self.schedules.insert(e.cpu);
                if carries {
                    self.carries.insert(e.cpu);
                }
            }
            EventKind::Stay => {
                self.schedules.remove(&e.cpu);
            }
            EventKind::Switch { prev, next, why } => {
                self.schedules.remove(&e.cpu);
                let carried = self.carries.remove(&e.cpu);
                self.runs.remove(&e.cpu);
                if let Some(next) = next {
                    self.queued.remove(&next);
                    self.runs.insert(e.cpu, next);
                }
                let leaves = carried || matches!(why, SwitchReason::Blocked | SwitchReason::Exited);
                if let Some(prev) = prev.filter(|_| !leaves) {
                    self.queued.insert(prev, e.cpu);
                }
            }
            EventKind::Placed { task, target, .. } => {
                self.heads_for.insert(task, target);
            }
            EventKind::Enqueued { task, .. } => {
                self.heads_for.remove(&task);
                self.queued.insert(task, e.cpu);
            }
            EventKind::Migrate { task, .. } => {
                if let Some(on) = self.queued.get_mut(&task) {
                    *on = e.cpu;
                }
            }
            EventKind::Allowed { task, mask } => {
                if task.index() >= self.allowed.len() {
                    self.allowed.resize(task.index() + 1, None);
                }
                self.allowed[task.index()] = Some(masks[mask as usize].clone());
            }
            _ => {}
        }
    }

    fn is_free(&self, cpu: CpuId) -> bool {
        !self.runs.contains_key(&cpu)
            && !self.queued.values().any(|on| *on == cpu)
            && !self.heads_for.values().any(|to| *to == cpu)
    }
    fn may_use(&self, task: TaskId, cpu: CpuId) -> bool {
        self.allowed.get(task.index()).and_then(|a| a.as_ref()).is_none_or(|a| a.contains(cpu))
    }
}

/// Whether the next switch of a queued task's CPU goes to another task.
fn is_passed_over(task: TaskId, on: CpuId, later: &[Event]) -> bool {
    for e in later {
        match e.kind {
            EventKind::Stay if e.cpu == on => return true,
            EventKind::Switch { next, .. } if e.cpu == on => return next != Some(task),
            EventKind::Migrate { task: moved, .. } if moved == task => return true,
            _ => {}
        }
    }
    false
}

/// Sweeps over the events of a run on `nr_cpus` CPUs from `from` to `end`.
pub fn sweep(
    events: &[Event],
    nr_cpus: usize,
    allowed: Vec<Option<CpuSet>>,
    masks: &[CpuSet],
    from: Ns,
    end: Ns,
) -> Swept {
    let mut state = State { allowed, ..State::default() };
    let mut swept = Swept::default();
    for (at, e) in events.iter().enumerate() {
        state.apply(e, masks);
        let later = &events[at + 1..];
        let until = later.first().map_or(end, |next| next.at).min(end).0;
        let span = until.saturating_sub(e.at.max(from).0);
        if span == 0 {
            continue;
        }
        let free: Vec<CpuId> = (0..nr_cpus).map(CpuId::from).filter(|c| state.is_free(*c)).collect();
        let waits = |(task, on): (&TaskId, &CpuId)| {
            let switches = state.schedules.contains(on) || !state.runs.contains_key(on);
            free.iter().any(|c| state.may_use(*task, *c)) && (!switches || is_passed_over(*task, *on, later))
        };
        let waiting = state.queued.iter().filter(|w| waits(*w)).count() as u64;
        swept.task_ns += waiting * span;
        swept.covered_ns += u64::from(waiting > 0) * span;
    }
    swept
}
