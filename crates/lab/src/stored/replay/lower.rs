//! Lowering: the events of a run become the schedule of a replay.
//!
//! For each task: a burst is the work of a CPU at full speed between two sleeps, even if the task lost its CPU in
//! between. While a thread of its core is busy a CPU does only part of the work (`smt_speed_pct`), and so does a CPU of
//! less capacity. A wakeup by a task that is on a CPU becomes a step of that task, after the part of its burst that it
//! has done. All other wakeups (timers, devices) end a sleep that lasts as long as in the recording. The time before a
//! task's first event is unknown: a task that is first seen running began when the events of its CPU do, one that is
//! first woken slept until then. If a switch is missing, the stay that it would have ended is left out.
//!
//! A sleep without a wakeup in the recording lasts until the task runs again, and nobody ends it: the wakeup was lost,
//! or the recording has none at all. In the latter case a task that is first seen running also slept until then.

use super::silent;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_machine::Machine;
use schedlab_machine::topology::FULL_CAPACITY;
use schedlab_trace::{Cast, Event, EventKind, Sink, SwitchReason};
use schedlab_workload::replay::{Part, Schedule, Start, Step};
use std::sync::atomic::AtomicBool;

/// Levels of groups that are replayed.
const LEVELS: usize = 4;
/// Speed of a fastest CPU alone on its core: 100 per cent of its capacity.
const FULL: u64 = 100 * FULL_CAPACITY as u64;

/// A step; for a sleep that another task ended, that task and the length of the sleep.
#[derive(Clone, Copy)]
pub enum Action {
    /// A step as it is replayed.
    Step(Step),
    /// A sleep that a task ended.
    Awaits {
        /// That task.
        waker: TaskId,
        /// How long it slept.
        slept: Ns,
    },
}

/// A step and its place, as the work of its task before it.
#[derive(Clone, Copy)]
pub struct Mark {
    /// Work before it, ns.
    pub work: u64,
    /// Its time.
    pub at: Ns,
    pub action: Action,
}

impl Mark {
    fn sleeps(&self) -> bool {
        matches!(self.action, Action::Awaits { .. } | Action::Step(Step::Sleep(_)))
    }
}

/// A time on a CPU at one speed.
#[derive(Clone, Copy)]
pub struct Stretch {
    /// Its beginning.
    pub from: Ns,
    /// Its end.
    pub to: Ns,
    /// Work of the task before it, ns.
    pub work: u64,
    /// The CPU's speed, in fractions of [`FULL`].
    speed: u64,
}

impl Stretch {
    /// Work of the task at that time, ns.
    pub fn work_at(&self, at: Ns) -> u64 {
        self.work + at.min(self.to).since(self.from).0 * self.speed / FULL
    }
    /// Work of the task after it, ns.
    pub fn end_work(&self) -> u64 {
        self.work_at(self.to)
    }
    /// When the task had done this much work.
    pub fn time_of(&self, work: u64) -> Ns {
        self.from.plus(Ns(work.saturating_sub(self.work) * FULL / self.speed.max(1))).min(self.to)
    }
}

/// A task while its events are read.
#[derive(Clone, Default)]
pub struct TaskSoFar {
    /// Its steps other than bursts, which are the work between them.
    pub marks: Vec<Mark>,
    /// When it ran.
    pub stretches: Vec<Stretch>,
    /// Work so far, ns.
    pub work: u64,
    start: Option<Start>,
    /// Its first event.
    first: Ns,
    /// It is on a CPU, and accounted up to this time.
    on_since: Option<Ns>,
    cpu: CpuId,
    /// The CPU's speed, in fractions of [`FULL`]: less while a thread of its core is busy, and by its capacity.
    speed: u64,
    /// It is asleep since this time.
    asleep_since: Option<Ns>,
    /// It was woken before it had left its CPU; the task that woke it, if one did.
    early: Option<Option<TaskId>>,
    /// When it came to a CPU, if that was its first event.
    came_first: Option<Ns>,
    ended: bool,
}

impl TaskSoFar {
    /// Adds the work up to `at`.
    fn account(&mut self, at: Ns) {
        if let Some(since) = self.on_since {
            if at > since {
                let stretch = Stretch { from: since, to: at, work: self.work, speed: self.speed };
                self.work = stretch.end_work();
                self.stretches.push(stretch);
            }
            self.on_since = Some(at);
        }
    }
    /// A step after the work up to `at`.
    fn mark(&mut self, at: Ns, action: Action) {
        self.account(at);
        self.marks.push(Mark { work: self.work, at, action });
    }
    fn begins(&mut self, start: Start, at: Ns) {
        if self.start.is_none() {
            (self.start, self.first) = (Some(start), at);
        }
    }
}

/// Reads events into a schedule.
#[derive(Default)]
pub struct Lower {
    seen: Vec<TaskSoFar>,
    last: Ns,
    running: Vec<Option<TaskId>>,
    /// The time since which each CPU's events are complete: the recording's beginning, or the last loss.
    whole_since: Vec<Ns>,
    siblings: Vec<Vec<usize>>,
    shared_pct: u64,
    /// Capacities of CPUs; empty where all are the fastest.
    capacities: Vec<u32>,
    /// Whether the recording has a wakeup, and a sleep.
    has_wakeups: bool,
    has_sleeps: bool,
}

impl Lower {
    /// For events on this machine. A thread does less work in the same time while its sibling is busy.
    pub fn on(machine: &Machine) -> Lower {
        let topology = &machine.topology;
        let cpus = || (0..topology.nr_cpus()).map(CpuId::from);
        let beside = |cpu: CpuId| {
            let same = |c: &CpuId| *c != cpu && topology.cpu(*c).core == topology.cpu(cpu).core;
            cpus().filter(same).map(CpuId::index).collect()
        };
        // CPUs that take turns never work at the same time.
        let shared_pct = if machine.turns.is_some() { 100 } else { machine.costs.smt_speed_pct };
        Lower {
            siblings: cpus().map(beside).collect(),
            shared_pct,
            capacities: topology.capacity.clone(),
            ..Lower::default()
        }
    }
    /// A CPU's speed, in fractions of [`FULL`].
    fn speed(&self, cpu: usize) -> u64 {
        let busy = |s: &usize| self.running.get(*s).copied().flatten().is_some();
        let shared = self.siblings.get(cpu).is_some_and(|all| all.iter().any(busy));
        let pct = if shared { self.shared_pct } else { 100 };
        pct * self.capacity(cpu)
    }
    /// A CPU's capacity; a recording may have CPUs that the machine lacks.
    fn capacity(&self, cpu: usize) -> u64 {
        u64::from(self.capacities.get(cpu).copied().unwrap_or(FULL_CAPACITY))
    }
    /// From now on, `next` is on the CPU, and its siblings run at the speed that this leaves them.
    fn runs(&mut self, at: Ns, cpu: CpuId, next: Option<TaskId>) {
        if self.running.len() <= cpu.index() {
            self.running.resize(cpu.index() + 1, None);
        }
        if let Some(next) = next {
            self.vanish(next);
        }
        let before = std::mem::replace(&mut self.running[cpu.index()], next);
        let speed = self.speed(cpu.index());
        if let Some(next) = next {
            let since = self.whole_since(cpu);
            let seen = self.task_so_far(next);
            if seen.start.is_none() {
                seen.came_first = Some(at);
            }
            seen.begins(Start::At(since), at);
            if let Some(asleep_since) = seen.asleep_since.take() {
                seen.mark(at, Action::Step(Step::Sleep(at.since(asleep_since))));
            }
            (seen.on_since, seen.speed) = (Some(at), speed);
            seen.cpu = cpu;
        }
        if before.is_some() == next.is_some() {
            return;
        }
        for at_sibling in 0..self.siblings.get(cpu.index()).map_or(0, Vec::len) {
            let sibling = self.siblings[cpu.index()][at_sibling];
            let Some(task) = self.running.get(sibling).copied().flatten() else { continue };
            let speed = self.speed(sibling);
            let seen = self.task_so_far(task);
            seen.account(at);
            seen.speed = speed;
        }
    }
    fn task_so_far(&mut self, task: TaskId) -> &mut TaskSoFar {
        if self.seen.len() <= task.index() {
            self.seen.resize_with(task.index() + 1, TaskSoFar::default);
        }
        &mut self.seen[task.index()]
    }

    fn whole_since(&self, cpu: CpuId) -> Ns {
        self.whole_since.get(cpu.index()).copied().unwrap_or(Ns::ZERO)
    }

    /// The task's switch away from its CPU is not in the recording, so the length of its stay is unknown.
    fn vanish(&mut self, task: TaskId) {
        let seen = self.task_so_far(task);
        if seen.on_since.take().is_some() {
            seen.early = None;
            let cpu = seen.cpu.index();
            if let Some(running) = self.running.get_mut(cpu).filter(|r| **r == Some(task)) {
                *running = None;
            }
        }
    }

    fn left(&mut self, at: Ns, cpu: CpuId, task: TaskId, why: SwitchReason) {
        if self.task_so_far(task).cpu != cpu {
            self.vanish(task);
        }
        let (since, whole) = (self.whole_since(cpu), 100 * self.capacity(cpu.index()));
        let seen = self.task_so_far(task);
        // A task that was on a CPU before its first event.
        if seen.on_since.is_none() && seen.start.is_none() {
            seen.begins(Start::At(since), since);
            (seen.on_since, seen.speed) = (Some(since), whole);
        }
        seen.account(at);
        seen.on_since = None;
        seen.ended |= why == SwitchReason::Exited;
        self.has_sleeps |= why == SwitchReason::Blocked;
        let seen = &mut self.seen[task.index()];
        if why == SwitchReason::Blocked {
            match seen.early.take() {
                Some(Some(waker)) => seen.mark(at, Action::Awaits { waker, slept: Ns::ZERO }),
                // A timer came before the sleep had begun.
                Some(None) => {}
                None => seen.asleep_since = Some(at),
            }
        }
    }

    fn woken(&mut self, at: Ns, task: TaskId, waker: Option<TaskId>) {
        self.has_wakeups = true;
        // If the waker is on no CPU, or a task wakes itself, an interrupt did it.
        let waker = waker.filter(|w| *w != task && self.task_so_far(*w).on_since.is_some());
        let seen = self.task_so_far(task);
        if seen.on_since.is_some() {
            seen.early = Some(waker);
        } else {
            let since = match seen.asleep_since.take() {
                Some(since) => since,
                None if seen.start.is_none() => Ns::ZERO,
                // It was woken before.
                None => return,
            };
            seen.begins(Start::At(Ns::ZERO), at);
            let slept = at.since(since);
            seen.mark(
                at,
                waker.map_or(Action::Step(Step::Sleep(slept)), |waker| Action::Awaits { waker, slept }),
            );
        }
        if let Some(waker) = waker {
            self.task_so_far(waker).mark(at, Action::Step(Step::Wake(task.index())));
        }
    }

    /// The task on the CPU is unknown until the next switch; a burst across the gap is not measured.
    fn lost(&mut self, at: Ns, cpu: CpuId) {
        if self.whole_since.len() <= cpu.index() {
            self.whole_since.resize(cpu.index() + 1, Ns::ZERO);
        }
        self.whole_since[cpu.index()] = at;
        self.vacate(cpu, None);
    }

    /// The task on the CPU has left it unseen, unless it is `but`.
    fn vacate(&mut self, cpu: CpuId, but: Option<TaskId>) {
        if let Some(task) = self.running.get(cpu.index()).copied().flatten().filter(|t| Some(*t) != but) {
            self.vanish(task);
        }
    }

    fn forked(&mut self, at: Ns, task: TaskId, parent: Option<TaskId>) {
        let parent = parent.filter(|p| self.task_so_far(*p).on_since.is_some());
        let seen = self.task_so_far(task);
        if seen.start.is_some() {
            return;
        }
        seen.begins(parent.map_or(Start::At(at), |p| Start::By(p.index())), at);
        if let Some(parent) = parent {
            self.task_so_far(parent).mark(at, Action::Step(Step::Start(task.index())));
        }
    }

    /// The schedule of the tasks that did anything. `keeps` chooses among them; wakeups by others then count as those
    /// of devices. `None`: `stop` ended it.
    pub fn finish(
        mut self,
        cast: &Cast,
        keeps: impl Fn(TaskId) -> bool,
        stop: &AtomicBool,
    ) -> Option<Lowered> {
        let end = cast.end.max(self.last);
        let lacks_wakeups = self.has_sleeps && !self.has_wakeups;
        for seen in &mut self.seen {
            seen.account(end);
            if let Some(at) = seen.came_first.filter(|at| lacks_wakeups && *at > Ns::ZERO) {
                let slept = Mark { work: 0, at, action: Action::Step(Step::Sleep(at)) };
                (seen.start, seen.first) = (Some(Start::At(Ns::ZERO)), Ns::ZERO);
                seen.marks.insert(0, slept);
            }
        }
        let kept: Vec<usize> = (0..self.seen.len())
            .filter(|at| self.seen[*at].start.is_some() && keeps(TaskId::from(*at)))
            .collect();
        let place = |task: usize| kept.binary_search(&task).ok();
        let coarse = silent::add(&mut self.seen, |task| place(task.index()).is_some(), stop)?;
        let parts = kept.iter().map(|at| part(&self.seen[*at], TaskId::from(*at), cast, place)).collect();
        Some(Lowered { schedule: Schedule { length: end, parts }, coarse, lacks_wakeups })
    }
}

/// A schedule, and its quality.
pub struct Lowered {
    pub schedule: Schedule,
    /// Bursts that are cut into fewer units than were given, because there are too many.
    pub coarse: u64,
    /// Tasks slept, but the recording has no wakeups.
    pub lacks_wakeups: bool,
}

/// A task's part of the schedule; `place` is the place of a kept task in it.
fn part(seen: &TaskSoFar, task: TaskId, cast: &Cast, place: impl Fn(usize) -> Option<usize>) -> Part {
    let actor = cast.of(task);
    let start = match seen.start {
        Some(Start::By(parent)) => place(parent).map_or(Start::At(seen.first), Start::By),
        Some(start) => start,
        None => Start::At(Ns::ZERO),
    };
    let background = actor.is_some_and(|a| a.background);
    let prio = actor.map_or(120, |a| a.prio);
    Part {
        name: cast.name(task),
        tid: actor.map_or(0, |a| a.tid),
        nice: if prio >= 100 { (prio - 120).clamp(-20, 19) as i8 } else { 0 },
        rt_priority: if prio < 100 { (99 - prio).clamp(1, 99) as u8 } else { 0 },
        background,
        group: actor.filter(|_| prio >= 100).and_then(|a| a.group.as_deref()).and_then(plain),
        start,
        steps: steps(seen, background, place),
    }
}

/// The steps of a task, with the work between them.
fn steps(seen: &TaskSoFar, background: bool, place: impl Fn(usize) -> Option<usize>) -> Vec<Step> {
    let step = |action: Action| match action {
        Action::Awaits { waker, slept } => {
            Some(place(waker.index()).map_or(Step::Sleep(slept), |_| Step::Await))
        }
        Action::Step(Step::Wake(task)) => place(task).map(Step::Wake),
        Action::Step(Step::Give(task)) => place(task).map(Step::Give),
        Action::Step(Step::Start(task)) => place(task).map(Step::Start),
        Action::Step(own) => Some(own),
    };
    let (mut steps, mut done) = (Vec::new(), 0);
    for mark in &seen.marks {
        let Some(step) = step(mark.action) else { continue };
        if mark.work > done {
            steps.push(Step::Run(Ns(mark.work - done)));
            done = mark.work;
        }
        steps.push(step);
    }
    // A task of the machine that has not ended its burst continues. For how long is unknown, so its work so far is
    // repeated.
    let goes_on = background && !seen.ended && seen.asleep_since.is_none();
    let slept = seen.marks.iter().rev().find(|m| m.sleeps()).map_or(0, |m| m.work);
    let rest = Ns(seen.work - done + if goes_on { seen.work - slept } else { 0 });
    if rest > Ns::ZERO {
        steps.push(Step::Run(rest));
    }
    steps
}

/// A group's path without the parts that workloads refuse: odd characters, and too many levels.
pub(super) fn plain(path: &str) -> Option<String> {
    let odd = |c: char| if c.is_ascii_alphanumeric() || "-_.:@".contains(c) { c } else { '-' };
    let names = path.split('/').filter(|n| !n.is_empty() && *n != "." && *n != "..").take(LEVELS);
    let names: Vec<String> = names.map(|n| n.chars().map(odd).collect()).collect();
    (!names.is_empty()).then(|| format!("/{}", names.join("/")))
}

impl Sink for Lower {
    fn event(&mut self, event: &Event) {
        let at = event.at;
        self.last = self.last.max(at);
        match event.kind {
            EventKind::Switch { prev, next, why } => {
                self.vacate(event.cpu, prev);
                if let Some(prev) = prev {
                    self.left(at, event.cpu, prev, why);
                }
                self.runs(at, event.cpu, next);
            }
            EventKind::Waking { task, waker } => self.woken(at, task, waker),
            EventKind::Forked { task, parent } => self.forked(at, task, parent),
            EventKind::Lost { .. } => self.lost(at, event.cpu),
            _ => {}
        }
    }
    fn sample(&mut self, _: Ns, _: TaskId, _: u16, _: u64) {}
}
