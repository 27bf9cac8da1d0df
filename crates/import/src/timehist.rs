//! `schedlab timehist`: one row for each stay of a task on a CPU, as in `perf sched timehist`.
//!
//! A row is reported when the stay ends. `wait` is the time off the CPU before the stay, `delay` the part of it from
//! the begin of the wakeup, `run` the stay. A time that is not known (the task was first seen within the stay, events
//! were lost) is `None`. perf's wait and delay mean the same; a task that was preempted has a wait and no delay.

use crate::task_table::Audience;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Actor, Event, EventKind, Sink, SwitchReason};

/// A stay of a task on a CPU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// Its end, ns of the recording's own clock.
    pub at_ns: u64,
    pub cpu: CpuId,
    pub task: &'a Actor,
    /// Time off the CPU before the stay.
    pub wait: Option<Ns>,
    /// The part of `wait` from the begin of the wakeup.
    pub delay: Option<Ns>,
    pub run: Option<Ns>,
    pub why: SwitchReason,
}

/// A task between its stays.
#[derive(Clone, Copy, Default)]
struct Task {
    left: Option<Ns>,
    woken: Option<Ns>,
    came: Option<Ns>,
    runs: bool,
}

/// Sums over all rows of a task.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub struct Sums {
    /// Stays whose length is known.
    pub stays: u64,
    pub run: Ns,
    pub least: Ns,
    pub most: Ns,
    /// Sum of the squares, ns², for the deviation.
    pub squares: u128,
    /// Number of moves to another CPU between stays.
    pub migrations: u64,
}

impl Sums {
    pub fn mean(&self) -> Option<Ns> {
        self.run.0.checked_div(self.stays).map(Ns)
    }
    /// The sample standard deviation of the stays; `None` for fewer than two.
    pub fn deviation(&self) -> Option<Ns> {
        let more = self.stays.checked_sub(1).filter(|n| *n > 0)?;
        let (run, n) = (self.run.0 as f64, self.stays as f64);
        let around = (self.squares as f64 - run * run / n).max(0.0);
        Some(Ns((around / more as f64).sqrt() as u64))
    }
}

/// Makes rows and passes them on.
pub struct Timehist<'a, F> {
    only: Option<&'a dyn Fn(CpuId) -> bool>,
    tasks: Vec<Task>,
    last_cpu: Vec<Option<CpuId>>,
    actors: Vec<Actor>,
    sums: Vec<Sums>,
    /// The task on each CPU, if known.
    current: Vec<Option<TaskId>>,
    /// Idle time of each CPU, and since when it has been idle.
    idle: Vec<(Ns, Option<Ns>)>,
    opened_ns: u64,
    give: F,
}

impl<'a, F: FnMut(Row<'_>)> Timehist<'a, F> {
    /// Passes rows to `give`, in the order of their ends.
    pub fn new(give: F) -> Timehist<'a, F> {
        Timehist {
            only: None,
            tasks: Vec::new(),
            last_cpu: Vec::new(),
            actors: Vec::new(),
            sums: Vec::new(),
            current: Vec::new(),
            idle: Vec::new(),
            opened_ns: 0,
            give,
        }
    }

    /// Restricts rows and sums to some CPUs.
    #[must_use]
    pub fn only(mut self, cpus: &'a dyn Fn(CpuId) -> bool) -> Timehist<'a, F> {
        self.only = Some(cpus);
        self
    }

    /// All tasks with the sums of their rows.
    pub fn sums(&self) -> impl Iterator<Item = (&Actor, &Sums)> {
        self.actors.iter().zip(&self.sums)
    }
    /// Idle time of each CPU, as far as known from switches.
    pub fn idle(&self) -> impl Iterator<Item = (CpuId, Ns)> + '_ {
        self.idle.iter().enumerate().map(|(cpu, (idle, _))| (CpuId::from(cpu), *idle))
    }

    fn cpu(&mut self, cpu: CpuId) -> usize {
        if cpu.index() >= self.current.len() {
            self.current.resize(cpu.index() + 1, None);
            self.idle.resize(cpu.index() + 1, (Ns::ZERO, None));
        }
        cpu.index()
    }

    fn leave(&mut self, at: Ns, cpu: CpuId, id: TaskId, why: SwitchReason) {
        let here = self.current[cpu.index()] == Some(id);
        let task = &mut self.tasks[id.index()];
        let came = task.came.take().filter(|_| here && task.runs);
        let off = task.left.zip(came).map(|(left, came)| came.since(left));
        let delay =
            task.woken.zip(came).filter(|(woken, came)| woken <= came).map(|(woken, came)| came.since(woken));
        let run = came.map(|came| at.since(came));
        *task = Task { left: Some(at), ..Task::default() };
        if self.only.is_some_and(|only| !only(cpu)) {
            return;
        }
        if let Some(run) = run {
            let sums = &mut self.sums[id.index()];
            sums.least = if sums.stays == 0 { run } else { sums.least.min(run) };
            sums.most = sums.most.max(run);
            sums.stays += 1;
            sums.run = sums.run.plus(run);
            sums.squares = sums.squares.saturating_add(u128::from(run.0) * u128::from(run.0));
        }
        let at_ns = self.opened_ns + at.0;
        (self.give)(Row { at_ns, cpu, task: &self.actors[id.index()], wait: off, delay, run, why });
    }

    fn enter(&mut self, at: Ns, cpu: CpuId, id: TaskId) {
        let task = &mut self.tasks[id.index()];
        (task.came, task.runs) = (Some(at), true);
        if self.last_cpu[id.index()].replace(cpu).is_some_and(|last| last != cpu) {
            self.sums[id.index()].migrations += 1;
        }
    }
}

impl<F: FnMut(Row<'_>)> Sink for Timehist<'_, F> {
    fn event(&mut self, e: &Event) {
        let cpu = self.cpu(e.cpu);
        match e.kind {
            EventKind::Switch { prev, next, .. } if prev == next => {}
            EventKind::Switch { prev, next, why } => {
                match prev {
                    Some(prev) => self.leave(e.at, e.cpu, prev, why),
                    None => {
                        let (idle, since) = &mut self.idle[cpu];
                        *idle = idle.plus(since.take().map_or(Ns::ZERO, |since| e.at.since(since)));
                    }
                }
                if let Some(lost) = self.current[cpu].filter(|c| Some(*c) != prev) {
                    self.tasks[lost.index()] = Task::default();
                }
                self.current[cpu] = next;
                match next {
                    Some(next) => self.enter(e.at, e.cpu, next),
                    None => self.idle[cpu].1 = Some(e.at),
                }
            }
            EventKind::Waking { task, .. } | EventKind::Enqueued { task, .. } => {
                let task = &mut self.tasks[task.index()];
                if !task.runs {
                    task.woken.get_or_insert(e.at);
                }
            }
            EventKind::Lost { .. } => {
                if let Some(lost) = self.current[cpu].take() {
                    self.tasks[lost.index()] = Task::default();
                }
                self.idle[cpu].1 = None;
                // Any waiting task may have run here in the lost time.
                self.tasks.iter_mut().filter(|t| !t.runs).for_each(|t| *t = Task::default());
            }
            _ => {}
        }
    }
}

impl<F: FnMut(Row<'_>)> Audience for Timehist<'_, F> {
    fn opens(&mut self, at_ns: u64) {
        self.opened_ns = at_ns;
    }
    fn meet(&mut self, _: TaskId, actor: &Actor) {
        self.tasks.push(Task::default());
        self.last_cpu.push(None);
        self.sums.push(Sums::default());
        self.actors.push(actor.clone());
    }
    fn changed(&mut self, task: TaskId, actor: &Actor) {
        self.actors[task.index()] = actor.clone();
    }
}
