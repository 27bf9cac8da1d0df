//! A thread of an rt-app task: walks through the steps of its phases.
//!
//! All threads of a task share one [`Script`]; a [`Thread`] holds its place in it, its own timers, and the sub-machine
//! it is in. Times are ns since the run's start, which is also the start of timers, as in rt-app: a timer's first
//! activation is one period after the run's start (plus the task's delay), for forked threads too.
//!
//! Each thread records how late a sleep or a timer woke it, how early (slack) or late (lateness) it came to a timer,
//! and per repetition of a phase its length and the wall time its run events took.

use super::event::Mode;
use super::sync::{Arriving, Barrier, Condition, Locking, Mutex, Waiting};
use crate::op::{Env, Op, Program, SeriesId, SlotId};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::Attr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// A timer. Its value is the time of the next activation, and 0 before the first use (periods are never 0, so no
/// activation is at 0).
#[derive(Clone, Copy, Debug)]
pub enum Timer {
    /// Number n of the thread's own ("unique").
    Own(usize),
    /// Shared by all that name it.
    Shared(SlotId),
}

/// One step of a phase.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Set attributes, unless the thread has them already.
    Attr(Attr),
    /// Set the allowed CPUs, unless the thread has them already.
    Cpus(u32),
    /// Work.
    Run(Ns),
    /// Spin for a length of wall time.
    Spin(Ns),
    /// Sleep for a length of time.
    Sleep(Ns),
    /// Sleep to the next activation.
    Timer {
        /// The timer.
        timer: Timer,
        /// Time between activations.
        period: Ns,
        /// The next activation of a late timer.
        mode: Mode,
    },
    /// Go over the first `kb` KB of the thread's memory, `rounds` times.
    Touch {
        /// How much.
        kb: u32,
        /// How often.
        rounds: u32,
    },
    /// Take a mutex.
    Lock(Mutex),
    /// Release a mutex.
    Unlock(Mutex),
    /// Wait on a condition, with the mutex held.
    Wait(Condition, Mutex),
    /// Wake one waiter.
    Signal(Condition),
    /// Wake all waiters.
    Broadcast(Condition),
    /// Wait for all others.
    Barrier(Barrier),
    /// sched_yield.
    Yield,
    /// Start the next thread of fork site n.
    Fork(usize),
}

/// A phase: steps and repetitions (`None`: for ever).
#[derive(Debug)]
pub struct Phase {
    /// The steps of each repetition.
    pub steps: Vec<Step>,
    /// How often.
    pub loops: Option<u32>,
    /// Whether any step is a run, so that the time of runs is recorded.
    pub runs: bool,
}

/// Series of an rt-app workload.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// From a sleep's or timer's expiry to running.
    pub wakeup_latency: SeriesId,
    /// Time left to the activation when coming to a timer in time.
    pub slack: SeriesId,
    /// Time past the activation when coming late.
    pub lateness: SeriesId,
    /// Wall time of the runs of one repetition.
    pub run: SeriesId,
    /// Length of one repetition.
    pub period: SeriesId,
}

/// The steps of all threads of a task.
#[derive(Debug)]
pub struct Script {
    /// Phases in order.
    pub phases: Vec<Phase>,
    /// How often all phases are repeated (`None`: for ever).
    pub loops: Option<u32>,
    /// When to start.
    pub delay: Ns,
    /// How many timers a thread has of its own.
    pub own_timers: usize,
    /// Mask of the CPUs it starts on, if its phases ever change them.
    pub cpus: Option<u32>,
    /// Attributes it starts with.
    pub attr: Attr,
    /// The series that values are recorded to.
    pub series: Series,
}

impl Script {
    /// The most KB that any of its steps goes over.
    pub fn touched_kb(&self) -> u32 {
        let touched = self.phases.iter().flat_map(|p| &p.steps).map(|step| match step {
            Step::Touch { kb, .. } => *kb,
            _ => 0,
        });
        touched.max().unwrap_or(0)
    }
}

/// The state of a step that is not done yet.
#[derive(Debug)]
enum Busy {
    Free,
    Locking(Locking),
    Waiting(Waiting),
    Arriving(Arriving),
    /// Running since this time.
    Running(Ns),
    /// Sleeping until this time.
    Sleeping(Ns),
}

#[derive(PartialEq, Eq, Debug)]
enum Stage {
    New,
    Delayed,
    Going,
    Done,
}

/// A thread of an rt-app task.
#[derive(Debug)]
pub struct Thread {
    script: Arc<Script>,
    /// Threads to start, per fork site, and how many of them were started.
    forks: Vec<(Vec<TaskId>, usize)>,
    timers: Vec<Ns>,
    attr: Attr,
    cpus: Option<u32>,
    stage: Stage,
    pass: u32,
    phase: usize,
    repetition: u32,
    step: usize,
    busy: Busy,
    began: Ns,
    ran: Ns,
}

impl Thread {
    /// A thread at the beginning of the script. At fork site n it starts the threads `forks[n]` in turn.
    pub fn new(script: Arc<Script>, forks: Vec<Vec<TaskId>>) -> Thread {
        Thread {
            timers: vec![Ns::ZERO; script.own_timers],
            attr: script.attr,
            cpus: script.cpus,
            forks: forks.into_iter().map(|f| (f, 0)).collect(),
            script,
            stage: Stage::New,
            pass: 0,
            phase: 0,
            repetition: 0,
            step: 0,
            busy: Busy::Free,
            began: Ns::ZERO,
            ran: Ns::ZERO,
        }
    }

    /// Goes on with the last step; `None` once it is done.
    fn resume(&mut self, env: &mut dyn Env) -> Option<Op> {
        let op = match &mut self.busy {
            Busy::Free => return None,
            Busy::Locking(l) => l.poll(env),
            Busy::Waiting(w) => w.poll(env),
            Busy::Arriving(a) => a.poll(env),
            Busy::Running(since) => {
                self.ran += env.now().since(*since);
                None
            }
            Busy::Sleeping(until) => {
                let late = env.now().since(*until);
                env.record(self.script.series.wakeup_latency, late.0);
                None
            }
        };
        if op.is_none() {
            self.busy = Busy::Free;
        }
        op
    }

    /// Begins a step and gives its operation. `None` when the step has none, or when only `resume` will give it.
    fn begin(&mut self, step: Step, env: &mut dyn Env) -> Option<Op> {
        match step {
            Step::Attr(attr) => {
                (std::mem::replace(&mut self.attr, attr) != attr).then_some(Op::SetAttr { attr })
            }
            Step::Cpus(mask) => (self.cpus.replace(mask) != Some(mask)).then_some(Op::SetAffinity { mask }),
            Step::Run(work) => {
                self.busy = Busy::Running(env.now());
                Some(Op::Run { work })
            }
            Step::Spin(length) => {
                let now = env.now();
                self.busy = Busy::Running(now);
                Some(Op::SpinTo { at: now.plus(length) })
            }
            Step::Sleep(length) => {
                self.busy = Busy::Sleeping(env.now().plus(length));
                Some(Op::Sleep { length })
            }
            Step::Touch { kb, rounds } => Some(Op::Touch { kb, rounds }),
            Step::Timer { timer, period, mode } => self.timer(timer, period, mode, env),
            Step::Lock(mutex) => self.enter(Busy::Locking(mutex.lock())),
            Step::Unlock(mutex) => mutex.unlock(env),
            Step::Wait(condition, mutex) => self.enter(Busy::Waiting(condition.wait(mutex))),
            Step::Signal(condition) => condition.signal(env),
            Step::Broadcast(condition) => condition.broadcast(env),
            Step::Barrier(barrier) => self.enter(Busy::Arriving(barrier.arrive())),
            Step::Yield => Some(Op::Yield),
            Step::Fork(site) => {
                let (threads, started) = &mut self.forks[site];
                *started += 1;
                Some(Op::Spawn { task: threads[*started - 1] })
            }
        }
    }

    fn enter(&mut self, busy: Busy) -> Option<Op> {
        self.busy = busy;
        None
    }

    fn timer(&mut self, timer: Timer, period: Ns, mode: Mode, env: &mut dyn Env) -> Option<Op> {
        let first = self.script.delay;
        let next = |last: Ns| if last == Ns::ZERO { first + period } else { last + period };
        let due = match timer {
            Timer::Own(n) => {
                self.timers[n] = next(self.timers[n]);
                self.timers[n]
            }
            Timer::Shared(slot) => {
                let advance = |last| Some(next(Ns(last)).0);
                let (Ok(last) | Err(last)) = env.slot(slot).fetch_update(SeqCst, SeqCst, advance);
                next(Ns(last))
            }
        };
        let now = env.now();
        if now < due {
            env.record(self.script.series.slack, due.since(now).0);
            self.busy = Busy::Sleeping(due);
            return Some(Op::SleepTo { at: due });
        }
        env.record(self.script.series.lateness, now.since(due).0);
        if mode == Mode::Relative {
            match timer {
                Timer::Own(n) => self.timers[n] = now,
                Timer::Shared(slot) => env.slot(slot).store(now.0, SeqCst),
            }
        }
        None
    }

    /// Ends a repetition of the current phase and finds the next one.
    fn end_repetition(&mut self, env: &mut dyn Env) {
        let (series, phase) = (self.script.series, &self.script.phases[self.phase]);
        let now = env.now();
        env.record(series.period, now.since(self.began).0);
        if phase.runs {
            env.record(series.run, self.ran.0);
        }
        (self.began, self.ran, self.step) = (now, Ns::ZERO, 0);
        self.repetition = self.repetition.wrapping_add(1);
        if phase.loops != Some(self.repetition) {
            return;
        }
        (self.repetition, self.phase) = (0, self.phase + 1);
        if self.phase == self.script.phases.len() {
            (self.phase, self.pass) = (0, self.pass.wrapping_add(1));
            if self.script.loops == Some(self.pass) {
                self.stage = Stage::Done;
            }
        }
    }
}

impl Program for Thread {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            match self.stage {
                Stage::New => {
                    self.stage = Stage::Delayed;
                    if self.script.delay > Ns::ZERO {
                        return Op::SleepTo { at: self.script.delay };
                    }
                }
                Stage::Delayed => {
                    self.stage = Stage::Going;
                    self.began = env.now();
                }
                Stage::Done => return Op::Exit,
                Stage::Going => {
                    if let Some(op) = self.resume(env) {
                        return op;
                    }
                    let Some(step) = self.script.phases[self.phase].steps.get(self.step).copied() else {
                        self.end_repetition(env);
                        continue;
                    };
                    self.step += 1;
                    if let Some(op) = self.begin(step, env) {
                        return op;
                    }
                }
            }
        }
    }
}
