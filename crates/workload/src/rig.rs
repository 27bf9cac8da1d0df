//! A small deterministic executor for tests. Every task has its own CPU, so that tests see the program's logic without
//! scheduling. It models futex waits and wakes, sleeps, spawns, channels and the clock. Costs are constants; touching a
//! KB once costs a nanosecond.

mod channel;

use crate::op::{Env, Op, Outcome, SeriesId, SlotId, Usage, WordId};
use crate::{Built, TaskDecl};
use channel::Channels;
use schedlab_base::{CpuId, Ns, TaskId};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU32, AtomicU64};

#[derive(Clone, Copy)]
pub struct Costs {
    /// Cost of each operation for its task.
    pub op: Ns,
    /// Time from a wake, an expiry or a spawn until the task runs.
    pub wakeup: Ns,
    /// Added to a sleep's length (timer slack).
    pub slack: Ns,
}

/// A recorded value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sample {
    pub series: SeriesId,
    pub task: TaskId,
    pub at: Ns,
    pub value: u64,
}

/// An operation with its task and time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    pub task: TaskId,
    pub at: Ns,
    pub op: Op,
}

pub struct Log {
    pub steps: Vec<Step>,
    pub samples: Vec<Sample>,
    /// Outcomes of waits: task, end, outcome.
    pub waits: Vec<(TaskId, Ns, Outcome)>,
    /// Tasks that did not end and that nothing can wake.
    pub stuck: Vec<TaskId>,
    /// Tasks that ended, with the time.
    pub left: Vec<(TaskId, Ns)>,
    pub names: Vec<String>,
    series: Vec<String>,
}

struct Shared {
    now: Ns,
    current: TaskId,
    outcome: Outcome,
    words: Vec<AtomicU32>,
    slots: Vec<AtomicU64>,
    samples: Vec<Sample>,
    cpu_of: CpuOf,
    cpu_reads: u64,
}

/// Chooses the CPU that a task sees; the number counts all tasks' calls.
pub type CpuOf = fn(TaskId, u64) -> CpuId;

impl Env for Shared {
    fn now(&mut self) -> Ns {
        self.now
    }
    fn outcome(&self) -> Outcome {
        self.outcome
    }
    fn cpu(&mut self) -> CpuId {
        self.cpu_reads += 1;
        (self.cpu_of)(self.current, self.cpu_reads)
    }
    fn word(&self, id: WordId) -> &AtomicU32 {
        &self.words[id.index()]
    }
    fn slot(&self, id: SlotId) -> &AtomicU64 {
        &self.slots[id.index()]
    }
    fn record(&mut self, series: SeriesId, value: u64) {
        self.samples.push(Sample { series, task: self.current, at: self.now, value });
    }
}

/// Why a task runs again, and the number of its sleep, so that an old time-out wakes no task.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Due {
    at: Ns,
    order: u64,
    task: usize,
    sleep: u64,
    timed_out: bool,
}

struct State {
    decl: TaskDecl,
    sleep: u64,
    waiting_on: Option<WordId>,
    alive: bool,
    outcome: Outcome,
    used: Usage,
    /// Since when it spins, if it does.
    spins: Option<Ns>,
    /// The lock for which it spins.
    wants: Option<WordId>,
}

/// A run with more operations counts as endless.
const LIMIT: usize = 2_000_000;

pub fn run(built: Built, costs: Costs) -> Log {
    run_on(built, costs, |task, _| CpuId(task.0))
}

/// As [`run`], but tasks see the CPUs of `cpu_of`.
pub fn run_on(built: Built, costs: Costs, cpu_of: CpuOf) -> Log {
    Rig::new(built, costs, cpu_of).run()
}

struct Rig {
    costs: Costs,
    shared: Shared,
    tasks: Vec<State>,
    queues: Vec<VecDeque<usize>>,
    channels: Channels,
    due: BinaryHeap<Reverse<Due>>,
    orders: u64,
    end: Ns,
    log: Log,
}

impl Rig {
    fn new(built: Built, costs: Costs, cpu_of: CpuOf) -> Rig {
        let log = Log {
            steps: Vec::new(),
            samples: Vec::new(),
            waits: Vec::new(),
            stuck: Vec::new(),
            left: Vec::new(),
            names: built.tasks.iter().map(|t| t.name.clone()).collect(),
            series: built.series.iter().map(|s| s.name.clone()).collect(),
        };
        let state = |decl| State {
            decl,
            sleep: 0,
            waiting_on: None,
            alive: false,
            outcome: Outcome::Done,
            used: Usage::default(),
            spins: None,
            wants: None,
        };
        let shared = Shared {
            now: Ns::ZERO,
            current: TaskId(0),
            outcome: Outcome::Done,
            words: (0..built.words).map(|_| AtomicU32::new(0)).collect(),
            slots: (0..built.slots).map(|_| AtomicU64::new(0)).collect(),
            samples: Vec::new(),
            cpu_of,
            cpu_reads: 0,
        };
        let channels = Channels::new(&built.channels, built.sets);
        let queues = vec![VecDeque::new(); built.words];
        let tasks = built.tasks.into_iter().map(state).collect();
        let (due, end) = (BinaryHeap::new(), built.duration);
        Rig { costs, shared, tasks, queues, channels, due, orders: 0, end, log }
    }

    fn run(mut self) -> Log {
        for task in 0..self.tasks.len() {
            if self.tasks[task].decl.spawned_by.is_none() {
                self.start(task, Ns::ZERO);
            }
        }
        while let Some(Reverse(due)) = self.due.pop() {
            if due.at >= self.end {
                self.due.push(Reverse(due));
                break;
            }
            if self.tasks[due.task].sleep == due.sleep && self.tasks[due.task].alive {
                self.step(due);
            }
        }
        let pending: Vec<usize> = self.due.iter().map(|Reverse(d)| d.task).collect();
        let stuck = (0..self.tasks.len()).filter(|t| self.tasks[*t].alive && !pending.contains(t));
        self.log.stuck = stuck.map(TaskId::from).collect();
        self.log.samples = self.shared.samples;
        self.log
    }

    fn start(&mut self, task: usize, at: Ns) {
        assert!(!self.tasks[task].alive, "{} is started twice", self.log.names[task]);
        self.tasks[task].alive = true;
        self.at(at, task, false);
    }

    /// Makes `task` continue at `at`.
    fn at(&mut self, at: Ns, task: usize, timed_out: bool) {
        self.orders += 1;
        let (order, sleep) = (self.orders, self.tasks[task].sleep);
        self.due.push(Reverse(Due { at, order, task, sleep, timed_out }));
    }

    fn step(&mut self, due: Due) {
        let (task, id) = (due.task, TaskId::from(due.task));
        if let Some(word) = self.tasks[task].waiting_on.take() {
            if due.timed_out {
                self.queues[word.index()].retain(|t| *t != task);
                self.tasks[task].outcome = Outcome::TimedOut;
            }
            self.log.waits.push((id, due.at, self.tasks[task].outcome));
        }
        self.tasks[task].sleep += 1;
        (self.shared.now, self.shared.current) = (due.at, id);
        self.shared.outcome = std::mem::take(&mut self.tasks[task].outcome);
        let op = self.tasks[task].decl.program.next(&mut self.shared);
        self.log.steps.push(Step { task: id, at: due.at, op });
        assert!(self.log.steps.len() < LIMIT, "{} runs away", self.log.names[task]);
        self.perform(task, due.at, op);
    }

    fn perform(&mut self, task: usize, now: Ns, op: Op) {
        let Costs { op: cost, wakeup, slack } = self.costs;
        let done = now + cost;
        if let Some(since) = self.tasks[task].spins.take() {
            let (used, spun) = (&mut self.tasks[task].used, now.since(since));
            (used.cpu, used.ticked) = (used.cpu + spun, used.ticked + spun);
        }
        match op {
            Op::Run { work } | Op::Execute { length: work } => {
                // Counted at the start of the work: a task has its own CPU and is never preempted.
                let used = &mut self.tasks[task].used;
                (used.cpu, used.ticked) = (used.cpu + work, used.ticked + work);
                self.at(done + work, task, false);
            }
            Op::SpinTo { at } => {
                self.tasks[task].spins = Some(now);
                self.at(done.max(at), task, false);
            }
            Op::Sleep { length } => self.at(done + length + slack + wakeup, task, false),
            Op::SleepTo { at } if at <= now => self.at(done, task, false),
            Op::SleepTo { at } => self.at(done.max(at + slack + wakeup), task, false),
            Op::Wait { word, value, until } => self.wait(task, done, word, value, until),
            Op::Wake { word, count } => {
                let queue = &mut self.queues[word.index()];
                let woken: Vec<usize> = queue.drain(..queue.len().min(count as usize)).collect();
                self.tasks[task].outcome = Outcome::Count(woken.len() as u32);
                for waiter in woken {
                    self.at(done + wakeup, waiter, false);
                }
                self.at(done, task, false);
            }
            Op::SpinLock { word } => {
                self.tasks[task].spins = Some(now);
                match self.shared.words[word.index()].swap(1, SeqCst) {
                    0 => self.at(done, task, false),
                    _ => self.tasks[task].wants = Some(word),
                }
            }
            Op::SpinUnlock { word } => {
                let next = self.tasks.iter().position(|t| t.wants == Some(word));
                self.shared.words[word.index()].store(u32::from(next.is_some()), SeqCst);
                if let Some(next) = next {
                    self.tasks[next].wants = None;
                    self.at(done, next, false);
                }
                self.at(done, task, false);
            }
            Op::Send { port, bytes } => {
                let through = self.channels.send(task, port, bytes);
                self.moved(task, done, through);
                if let Some((waiter, port)) = self.channels.came(port.peer()) {
                    self.tasks[waiter].outcome = Outcome::Ready(port);
                    self.at(done + wakeup, waiter, false);
                }
            }
            Op::Recv { port, bytes } => {
                let through = self.channels.recv(task, port, bytes);
                self.moved(task, done, through);
            }
            Op::Poll { set } => {
                if let Some(port) = self.channels.poll(task, set) {
                    self.tasks[task].outcome = Outcome::Ready(port);
                    self.at(done, task, false);
                }
            }
            Op::Touch { kb, rounds } => {
                assert!(kb <= self.tasks[task].decl.footprint_kb, "{kb} KB are more than the footprint");
                self.at(done + Ns(u64::from(kb) * u64::from(rounds)), task, false);
            }
            Op::Yield | Op::Exec | Op::SetAttr { .. } | Op::SetAffinity { .. } => self.at(done, task, false),
            Op::Usage { task: of } => {
                let State { mut used, spins, .. } = self.tasks[of.index()];
                let spun = spins.map_or(Ns::ZERO, |since| now.since(since));
                (used.cpu, used.ticked) = (used.cpu + spun, used.ticked + spun);
                self.tasks[task].outcome = Outcome::Used(used);
                self.at(done, task, false);
            }
            Op::Spawn { task: child } => {
                assert_eq!(self.tasks[child.index()].decl.spawned_by, Some(TaskId::from(task)));
                self.start(child.index(), done + wakeup);
                self.at(done, task, false);
            }
            Op::Exit => {
                self.tasks[task].alive = false;
                self.log.left.push((TaskId::from(task), now));
            }
        }
    }

    /// Lets the tasks in `through` continue: their reads or writes are complete because `task` read or wrote.
    fn moved(&mut self, task: usize, done: Ns, through: Vec<usize>) {
        for other in through {
            let wakeup = if other == task { Ns::ZERO } else { self.costs.wakeup };
            self.at(done + wakeup, other, false);
        }
    }

    fn wait(&mut self, task: usize, done: Ns, word: WordId, value: u32, until: Ns) {
        let found = self.shared.words[word.index()].load(SeqCst);
        if found != value {
            self.tasks[task].outcome = Outcome::WouldNotWait;
            return self.at(done, task, false);
        }
        self.tasks[task].waiting_on = Some(word);
        self.queues[word.index()].push_back(task);
        if until != Ns::MAX {
            self.at(done.max(until + self.costs.wakeup), task, true);
        }
    }
}

impl Log {
    /// Values of a series, in the order of recording.
    pub fn values(&self, series: &str) -> Vec<u64> {
        self.of(series).map(|s| s.value).collect()
    }
    pub fn of<'a>(&'a self, series: &'a str) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |s| self.series[s.series.index()] == series)
    }
    pub fn steps_of(&self, name: &str) -> Vec<Step> {
        self.steps.iter().filter(|s| self.names[s.task.index()] == name).copied().collect()
    }
    /// Times at which that task asked for operations that `pick` accepts.
    pub fn times(&self, name: &str, pick: impl Fn(&Op) -> bool) -> Vec<Ns> {
        self.steps_of(name).iter().filter(|s| pick(&s.op)).map(|s| s.at).collect()
    }
    pub fn end_of(&self, name: &str) -> Option<Ns> {
        self.left.iter().find(|(t, _)| self.names[t.index()] == name).map(|(_, at)| *at)
    }
}

/// Runs a benchmark with these parameters and otherwise defaults.
pub fn bench(name: &str, given: &[(&str, u64)], seed: u64, costs: Costs) -> Log {
    run(spec(name, given).build(seed).unwrap(), costs)
}

/// A benchmark with these parameters and otherwise defaults.
pub fn spec(name: &str, given: &[(&str, u64)]) -> crate::Spec {
    crate::Spec::bench(name, &params(given)).unwrap()
}

/// The error that these parameters cause.
pub fn refused(name: &str, given: &[(&str, u64)]) -> String {
    crate::Spec::bench(name, &params(given)).expect_err("refused").to_string()
}

fn params(given: &[(&str, u64)]) -> crate::Params {
    crate::Params(given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect())
}
