//! Finds all stretches of a run, as a sink: their sum, their sums by cause, and the longest.
//!
//! While a CPU is in `schedule()` it is not known which task it will pick. Changes to the tasks queued there are kept
//! apart until it has picked: the picked task has not waited since then, the others have.

use super::cause::{Attempt, Cause, CauseKind};
use super::union::Union;
use super::world::{Change, Queued, World};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_machine::Domains;
use schedlab_trace::{BalanceTrigger, Event, EventKind, MoveReason, Sink};
use std::collections::BTreeMap;

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum StretchEnd {
    /// The task's own CPU picked it.
    Ran,
    Moved(MoveReason),
    /// The last free CPU that it may use got other work.
    Taken,
    RunOver,
}

/// The whole time in which one task waited on one CPU while another was free.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub task: TaskId,
    pub on: CpuId,
    /// Its begin, ns.
    pub from: u64,
    /// Its end, ns.
    pub until: u64,
    /// The event that began it.
    pub cause: Cause,
    pub end: StretchEnd,
}

impl Stretch {
    pub fn length(&self) -> u64 {
        self.until - self.from
    }
}

/// The stretches of a run, summed up.
#[derive(Clone, Debug, Default)]
pub struct IdleWhileWaitingTimes {
    /// Time covered by at least one stretch, ns.
    pub covered_ns: u64,
    /// Number and summed time (ns) of stretches, by cause.
    pub causes: BTreeMap<Cause, (u64, u64)>,
    /// The longest stretches, longest first; of equal ones the earlier first.
    pub longest: Vec<Stretch>,
    /// The covered time in each bin, ns; empty unless [`Stretches::in_bins`] was called.
    pub by_bin: Vec<u64>,
}

#[derive(Clone, Copy, Debug)]
struct OpenStretch {
    from: u64,
    cause: Cause,
}

#[derive(Clone, Debug, Default)]
struct TaskWait {
    on: Option<CpuId>,
    open: Option<OpenStretch>,
    /// When its CPU entered `schedule()`, ns; `None` outside of it.
    held: Option<u64>,
    /// Stretches that have ended since then. If the task is picked, those end then.
    ended: Vec<Stretch>,
}

/// Finds the stretches of a run.
pub struct Stretches {
    world: World,
    domains: Domains,
    measure_from: u64,
    keep: usize,
    waits: Vec<TaskWait>,
    waiting: Vec<TaskId>,
    /// By CPU: its attempts since it entered `schedule()`.
    attempts: Vec<Vec<Attempt>>,
    /// Whether the source reports attempts.
    has_reasons: bool,
    union: Union,
    found: IdleWhileWaitingTimes,
    now: u64,
}

impl Stretches {
    /// For a run on these CPUs. The `keep` longest stretches are listed. Time before `measure_from` does not count.
    pub fn new(world: World, domains: Domains, measure_from: Ns, keep: usize) -> Stretches {
        let attempts = vec![Vec::new(); domains.of_cpu.len()];
        let (waits, waiting, union, found) =
            (Vec::new(), Vec::new(), Union::default(), IdleWhileWaitingTimes::default());
        let measure_from = measure_from.0;
        let has_reasons = true;
        Stretches {
            world,
            domains,
            measure_from,
            keep,
            waits,
            waiting,
            attempts,
            has_reasons,
            union,
            found,
            now: 0,
        }
    }

    /// Also sums up the covered time in bins of `width` ns from the run's begin.
    #[must_use]
    pub fn in_bins(mut self, width: u64) -> Stretches {
        self.union.set_bins(width);
        self
    }
    /// For a source that does not report attempts.
    #[must_use]
    pub fn without_reasons(self) -> Stretches {
        Stretches { has_reasons: false, ..self }
    }
    pub fn world(&self) -> &World {
        &self.world
    }

    /// The sums until `end`.
    pub fn finish(mut self, end: Ns) -> IdleWhileWaitingTimes {
        self.now = end.0;
        for task in std::mem::take(&mut self.waiting) {
            // It is unknown which task a CPU in `schedule()` would have picked.
            match self.wait(task).held {
                Some(_) => self.drop_held(task, StretchEnd::RunOver),
                None => self.close(task, StretchEnd::RunOver),
            }
        }
        self.found.longest.sort_by_key(order);
        self.found.longest.truncate(self.keep);
        let (covered_ns, by_bin) = self.union.finish();
        IdleWhileWaitingTimes { covered_ns, by_bin, ..self.found }
    }

    fn wait(&mut self, task: TaskId) -> &mut TaskWait {
        if task.index() >= self.waits.len() {
            self.waits.resize(task.index() + 1, TaskWait::default());
        }
        &mut self.waits[task.index()]
    }

    fn change(&mut self, change: Change) {
        match change {
            Change::Queued(task, cpu, how) => self.queued(task, cpu, how),
            Change::Ran(task) => self.left(task, StretchEnd::Ran),
            Change::Moved(task, why) => {
                self.keep_held(task);
                self.left(task, StretchEnd::Moved(why));
            }
            Change::Held(cpu) => {
                let now = self.now;
                for task in self.world.queue(cpu).to_vec() {
                    self.wait(task).held.get_or_insert(now);
                }
            }
            Change::Released(cpu, picked) => {
                if let Some(task) = picked {
                    self.drop_held(task, StretchEnd::Ran);
                }
                for task in self.world.queue(cpu).to_vec() {
                    self.keep_held(task);
                }
            }
            Change::Freed(cpu, how) => {
                for at in 0..self.waiting.len() {
                    let task = self.waiting[at];
                    let TaskWait { on: Some(on), open: None, .. } = self.waits[task.index()] else {
                        continue;
                    };
                    if self.world.may_use(task, cpu) {
                        let levels = self.domains.of_cpu.get(cpu.index());
                        let spans = |level: u8, on: CpuId| {
                            levels
                                .and_then(|l| l.get(usize::from(level)))
                                .is_some_and(|d| d.span.contains(on))
                        };
                        let tried = self.attempts.get(cpu.index()).map_or(&[][..], |a| a);
                        let attempts = self.has_reasons.then_some(tried);
                        let cause = match self.world.shared(task) {
                            Some(queue) => Cause::shared(CauseKind::LeftInDsq, queue),
                            None => Cause::freed(how, attempts, on, spans),
                        };
                        self.waits[task.index()].open = Some(OpenStretch { from: self.now, cause });
                    }
                }
            }
            Change::Taken(_) => {
                for at in 0..self.waiting.len() {
                    let task = self.waiting[at];
                    if self.waits[task.index()].open.is_some() && !self.world.has_free(task) {
                        self.close(task, StretchEnd::Taken);
                    }
                }
            }
        }
    }

    fn queued(&mut self, task: TaskId, cpu: CpuId, how: Queued) {
        if self.wait(task).on.is_some() {
            self.left(task, StretchEnd::Moved(MoveReason::Moved));
        }
        let (now, held) = (self.now, self.world.is_held_for(task, cpu));
        let cause = match self.world.shared(task) {
            Some(queue) => Cause::shared(CauseKind::IntoDsq, queue),
            None => Cause::queued(how),
        };
        let open = self.world.has_free(task).then_some(OpenStretch { from: now, cause });
        *self.wait(task) = TaskWait { on: Some(cpu), open, held: held.then_some(now), ended: Vec::new() };
        self.waiting.push(task);
    }

    fn left(&mut self, task: TaskId, end: StretchEnd) {
        self.close(task, end);
        *self.wait(task) = TaskWait::default();
        self.waiting.retain(|t| *t != task);
    }

    fn close(&mut self, task: TaskId, end: StretchEnd) {
        let now = self.now;
        let wait = self.wait(task);
        let (Some(OpenStretch { from, cause }), Some(on)) = (wait.open.take(), wait.on) else { return };
        let stretch = Stretch { task, on, from, until: now, cause, end };
        match wait.held {
            Some(_) => wait.ended.push(stretch),
            None => self.report(stretch),
        }
    }

    /// The task was picked: it has not waited since its CPU entered `schedule()`.
    fn drop_held(&mut self, task: TaskId, end: StretchEnd) {
        let Some(held) = self.wait(task).held.take() else { return };
        let wait = self.wait(task);
        let mut ended = std::mem::take(&mut wait.ended);
        if let (Some(OpenStretch { from, cause }), Some(on)) = (wait.open.take(), wait.on) {
            ended.push(Stretch { task, on, from, until: held, cause, end });
        }
        for stretch in ended.into_iter().filter(|s| s.from < held) {
            let cut = stretch.until > held;
            let end = if cut { end } else { stretch.end };
            self.report(Stretch { until: stretch.until.min(held), end, ..stretch });
        }
    }

    /// Another task was picked: this one has waited.
    fn keep_held(&mut self, task: TaskId) {
        let wait = self.wait(task);
        wait.held = None;
        for stretch in std::mem::take(&mut wait.ended) {
            self.report(stretch);
        }
    }

    fn report(&mut self, stretch: Stretch) {
        let stretch = Stretch { from: stretch.from.max(self.measure_from), ..stretch };
        if stretch.until <= stretch.from {
            return;
        }
        let (count, time_ns) = self.found.causes.entry(stretch.cause).or_default();
        (*count, *time_ns) = (*count + 1, *time_ns + stretch.length());
        self.found.longest.push(stretch);
        if self.found.longest.len() >= 2 * self.keep + 64 {
            self.found.longest.sort_by_key(order);
            self.found.longest.truncate(self.keep);
        }
        self.union.add(stretch.from, stretch.until);
        if self.union.is_full() {
            let begun = |t: &TaskId| {
                let wait = &self.waits[t.index()];
                wait.open.map(|o| o.from).into_iter().chain(wait.ended.iter().map(|s| s.from)).min()
            };
            let horizon = self.waiting.iter().filter_map(begun).min().unwrap_or(self.now).min(stretch.from);
            self.union.settle(horizon);
        }
    }

    /// Notes a CPU's attempts before it goes idle.
    fn note(&mut self, e: &Event) {
        let Some(attempts) = self.attempts.get_mut(e.cpu.index()) else { return };
        match e.kind {
            EventKind::Schedule { .. } => attempts.clear(),
            EventKind::Balance { level, trigger: BalanceTrigger::Newidle, why, .. } => {
                attempts.push(Attempt::Pass(level, why));
            }
            EventKind::Skip { why, .. } if why.of_newidle() => attempts.push(Attempt::Skip(why)),
            _ => {}
        }
    }
}

/// Longest first; of equal ones the earlier, then the lower task id.
fn order(s: &Stretch) -> (std::cmp::Reverse<u64>, u64, TaskId) {
    (std::cmp::Reverse(s.length()), s.from, s.task)
}

impl Sink for Stretches {
    fn event(&mut self, e: &Event) {
        self.now = e.at.0;
        self.note(e);
        let changes = self.world.apply(e);
        changes.iter().for_each(|change| self.change(*change));
        self.world.recycle(changes);
    }
    fn wants_details(&self) -> bool {
        true
    }
}
