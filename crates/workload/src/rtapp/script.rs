//! Lowers the phases of a task to steps: names become futex words and cells. It follows which mutexes a task holds, so
//! that an `unlock` of a free mutex or a second `lock` is an error before the run.

use super::check::{Modes, is_unique};
use super::event::{Event, EventAction};
use super::json::Source;
use super::program::{Script, Step, Timer};
use super::schema::{self, Task};
use super::sync::{Barrier, Condition, Mutex};
use crate::build::Builder;
use crate::op::SlotId;
use schedlab_base::cpuset::MAX_CPUS;
use schedlab_base::{CpuSet, Ns, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Time that `iorun` waits per byte: a device that takes 1 GB/s.
const IO_NS_PER_BYTE: u64 = 1;

/// Words and cells that tasks share, by name; made at first use.
#[derive(Default)]
pub struct Shared {
    mutexes: BTreeMap<String, Mutex>,
    conditions: BTreeMap<String, Condition>,
    barriers: BTreeMap<String, Barrier>,
    timers: BTreeMap<String, SlotId>,
    /// Masks by list notation.
    masks: BTreeMap<String, u32>,
    /// Number of threads that use each barrier.
    users: BTreeMap<String, u64>,
}

impl Shared {
    /// Counts the users of each barrier; everything else is made at first use.
    pub fn new(tasks: &[Task]) -> Shared {
        let mut shared = Shared::default();
        for task in tasks {
            for event in task.phases.iter().flat_map(|p| &p.events) {
                if let EventAction::Barrier(name) = &event.what {
                    *shared.users.entry(name.clone()).or_default() += task.instances as u64;
                }
            }
        }
        shared
    }
    fn mutex(&mut self, name: &str, b: &mut Builder) -> Mutex {
        *self.mutexes.entry(name.to_owned()).or_insert_with(|| Mutex(b.word()))
    }
    fn condition(&mut self, name: &str, b: &mut Builder) -> Condition {
        let make = || Condition { word: b.word(), count: b.slot() };
        *self.conditions.entry(name.to_owned()).or_insert_with(make)
    }
    fn barrier(&mut self, name: &str, b: &mut Builder) -> Barrier {
        let users = self.users.get(name).copied().unwrap_or(0);
        let make = || Barrier { word: b.word(), arrived: b.slot(), users };
        *self.barriers.entry(name.to_owned()).or_insert_with(make)
    }
    fn timer(&mut self, name: &str, b: &mut Builder) -> SlotId {
        *self.timers.entry(name.to_owned()).or_insert_with(|| b.slot())
    }
    /// The mask of `cpus`; `None`: all possible CPUs.
    fn mask(&mut self, cpus: Option<&CpuSet>, b: &mut Builder) -> u32 {
        let cpus = cpus.cloned().unwrap_or_else(|| CpuSet::first(MAX_CPUS as usize));
        *self.masks.entry(cpus.to_string()).or_insert_with(|| b.mask(cpus))
    }
}

pub struct Lowering<'a> {
    /// For places in errors.
    pub source: Source<'a>,
    pub b: &'a mut Builder,
    pub shared: Shared,
    /// Bytes of each thread's buffer.
    pub buffer: u64,
    pub modes: &'a Modes,
    pub steps: Vec<Step>,
}

/// A task's state during lowering.
struct LoweredTask<'t> {
    number: usize,
    timers: BTreeMap<&'t str, u32>,
    held: BTreeSet<&'t str>,
    fork_sites: u32,
}

/// The passes over a buffer of `buffer` bytes that touch `bytes` bytes: whole passes, then the rest. A partial KB
/// counts as a whole one.
fn passes(bytes: u64, buffer: u64) -> impl Iterator<Item = Step> {
    let pass =
        |bytes: u64, rounds: u64| Step::Touch { kb: bytes.div_ceil(1024) as u32, rounds: rounds as u32 };
    let (whole, rest) = (bytes / buffer, bytes % buffer);
    let whole = (whole > 0).then(|| pass(buffer, whole));
    whole.into_iter().chain((rest > 0).then(|| pass(rest, 1)))
}

impl Lowering<'_> {
    /// Appends the steps of the file's task `number`, and returns its script.
    ///
    /// # Errors
    /// When a mutex is taken twice, is released or waited with while not held, or is held at the end of a loop.
    pub fn script(&mut self, number: usize, task: &Task) -> Result<Script> {
        let mut own = LoweredTask { number, timers: BTreeMap::new(), held: BTreeSet::new(), fork_sites: 0 };
        let moves = task.phases.iter().any(|p| p.cpus.is_some());
        let cpus = moves.then(|| self.shared.mask(task.cpus.as_ref().map(|c| &c.set), self.b));
        let first = self.next_step();
        for phase in &task.phases {
            let before = (phase.loops != Some(1)).then(|| own.held.clone());
            self.phase(task, phase, moves, &mut own)?;
            if let Some(before) = before {
                self.balanced(phase.at, "a repetition of this phase", &before, &own.held)?;
            }
        }
        self.balanced(task.at, &format!("task '{}'", task.name), &BTreeSet::new(), &own.held)?;
        self.steps.push(Step::Over { first, loops: task.loops });
        let touched = self.steps[first as usize..].iter().map(|step| match step {
            Step::Touch { kb, .. } => *kb,
            _ => 0,
        });
        let touched_kb = touched.max().unwrap_or(0);
        let (delay, attr) = (task.delay, task.attr);
        Ok(Script { first, delay, own_timers: own.timers.len(), cpus, attr, touched_kb })
    }

    fn next_step(&self) -> u32 {
        self.steps.len() as u32
    }

    /// Checks that the same mutexes are held before and after.
    fn balanced(&self, at: usize, what: &str, before: &BTreeSet<&str>, after: &BTreeSet<&str>) -> Result<()> {
        if let Some(kept) = after.difference(before).next() {
            return Err(self
                .source
                .error(at, format!("{what} ends holding mutex '{kept}'"))
                .help("unlock it"));
        }
        match before.difference(after).next() {
            Some(lost) => {
                let error =
                    self.source.error(at, format!("{what} releases mutex '{lost}' without taking it"));
                Err(error.help("lock it in the same phase"))
            }
            None => Ok(()),
        }
    }

    fn phase<'t>(
        &mut self,
        task: &'t Task,
        phase: &'t schema::Phase,
        moves: bool,
        own: &mut LoweredTask<'t>,
    ) -> Result<()> {
        let (first, mut steps) = (self.next_step(), Vec::new());
        if moves {
            let cpus = phase.cpus.as_ref().or(task.cpus.as_ref());
            steps.push(Step::Cpus(self.shared.mask(cpus.map(|c| &c.set), self.b)));
        }
        steps.extend(phase.attr.map(Step::Attr));
        for event in &phase.events {
            self.event(event, own, &mut steps)?;
        }
        let runs = steps.iter().any(|s| matches!(s, Step::Run(_) | Step::Spin(_)));
        self.steps.extend(steps);
        self.steps.push(Step::Again { first, loops: phase.loops, runs });
        Ok(())
    }

    fn event<'t>(
        &mut self,
        event: &'t Event,
        own: &mut LoweredTask<'t>,
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        match &event.what {
            EventAction::Run(work) => steps.push(Step::Run(*work)),
            EventAction::Runtime(length) => steps.push(Step::Spin(*length)),
            EventAction::Sleep(length) => steps.push(Step::Sleep(*length)),
            EventAction::Memory(bytes) => steps.extend(passes(*bytes, self.buffer)),
            EventAction::Io(bytes) => steps.push(Step::Sleep(Ns(bytes * IO_NS_PER_BYTE))),
            EventAction::Yield => steps.push(Step::Yield),
            EventAction::Timer { name, period, .. } => {
                let (timer, key) = self.timer(name, own);
                let mode = self.modes[&(key, name.clone())];
                steps.push(Step::Timer { timer, period: *period, mode });
            }
            EventAction::Lock(name) => steps.push(self.lock(event.at, name, own)?),
            EventAction::Unlock(name) => steps.push(self.unlock(event.at, name, own)?),
            EventAction::Wait(c) => {
                self.must_hold(event.at, &c.mutex, own)?;
                steps.push(Step::Wait(
                    self.shared.condition(&c.name, self.b),
                    self.shared.mutex(&c.mutex, self.b),
                ));
            }
            EventAction::Sync(c) => {
                let condition = self.shared.condition(&c.name, self.b);
                let wait =
                    [Step::Signal(condition), Step::Wait(condition, self.shared.mutex(&c.mutex, self.b))];
                self.holding(event.at, &c.mutex, wait, own, steps)?;
            }
            EventAction::Suspend(name) => {
                let wait = Step::Wait(self.shared.condition(name, self.b), self.shared.mutex(name, self.b));
                self.alone(event.at, name, wait, own, steps)?;
            }
            EventAction::Resume(name) => {
                let wake = Step::Broadcast(self.shared.condition(name, self.b));
                self.alone(event.at, name, wake, own, steps)?;
            }
            EventAction::Signal(name) => steps.push(Step::Signal(self.shared.condition(name, self.b))),
            EventAction::Broad(name) => steps.push(Step::Broadcast(self.shared.condition(name, self.b))),
            EventAction::Barrier(name) => steps.push(Step::Barrier(self.shared.barrier(name, self.b))),
            EventAction::Fork(_) => {
                steps.push(Step::Fork(own.fork_sites));
                own.fork_sites += 1;
            }
        }
        Ok(())
    }

    /// The timer with that name, and its owner.
    fn timer<'t>(&mut self, name: &'t str, own: &mut LoweredTask<'t>) -> (Timer, Option<usize>) {
        if !is_unique(name) {
            return (Timer::Shared(self.shared.timer(name, self.b)), None);
        }
        let next = own.timers.len() as u32;
        (Timer::LoweredTask(*own.timers.entry(name).or_insert(next)), Some(own.number))
    }

    fn lock<'t>(&mut self, at: usize, name: &'t str, own: &mut LoweredTask<'t>) -> Result<Step> {
        if !own.held.insert(name) {
            let error = self.source.error(at, format!("mutex '{name}' is held here already"));
            return Err(error.help("the task would wait for itself; unlock it first"));
        }
        Ok(Step::Lock(self.shared.mutex(name, self.b)))
    }

    fn must_hold(&self, at: usize, name: &str, own: &LoweredTask<'_>) -> Result<()> {
        if own.held.contains(name) {
            return Ok(());
        }
        let error = self.source.error(at, format!("mutex '{name}' is not held here"));
        Err(match schedlab_base::nearest::nearest(name, own.held.iter().copied()) {
            Some(near) => error.help(format!("did you mean '{near}'?")),
            None => error.help(format!("put \"lock\": \"{name}\" before it")),
        })
    }

    fn unlock(&mut self, at: usize, name: &str, own: &mut LoweredTask<'_>) -> Result<Step> {
        self.must_hold(at, name, own)?;
        own.held.remove(name);
        Ok(Step::Unlock(self.shared.mutex(name, self.b)))
    }

    /// Steps with a mutex held: it is taken and released around them, unless the task holds it already.
    fn holding<'t, const N: usize>(
        &mut self,
        at: usize,
        mutex: &'t str,
        inner: [Step; N],
        own: &mut LoweredTask<'t>,
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        let held = own.held.contains(mutex);
        if !held {
            steps.push(self.lock(at, mutex, own)?);
        }
        steps.extend(inner);
        if !held {
            steps.push(self.unlock(at, mutex, own)?);
        }
        Ok(())
    }

    /// A step between lock and unlock of a mutex that the task does not hold.
    fn alone<'t>(
        &mut self,
        at: usize,
        mutex: &'t str,
        inner: Step,
        own: &mut LoweredTask<'t>,
        steps: &mut Vec<Step>,
    ) -> Result<()> {
        steps.push(self.lock(at, mutex, own)?);
        steps.push(inner);
        steps.push(self.unlock(at, mutex, own)?);
        Ok(())
    }
}
