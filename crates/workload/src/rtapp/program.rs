//! A thread of an rt-app task: walks through the steps of its phases.
//!
//! The steps of all tasks of a file lie one behind the other in one [`Code`]; a [`Script`] says where a task's begin. A
//! [`Thread`] holds its place among them, its own timers, and the sub-machine it is in. With thousands of tasks hardly
//! anything of a thread is in a cache when it is asked for its next operation, so the answer reads few cache lines: the
//! first one of the thread, and that of the step. Times are ns since the run's start, which is also the start of
//! timers, as in rt-app: a timer's first activation is one period after the run's start (plus the task's delay), for
//! forked threads too.
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
    LoweredTask(u32),
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
    Run(Ns),
    /// Spin for a length of wall time.
    Spin(Ns),
    /// Sleep for a length of time.
    Sleep(Ns),
    /// Sleep to the next activation.
    Timer {
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
    Fork(u32),
    /// The end of a repetition of a phase: back to its first step, or on to the next phase.
    Again {
        /// The phase's first step.
        first: u32,
        /// How often it is repeated (`None`: for ever).
        loops: Option<u32>,
        /// Whether any step of it is a run, so that the time of runs is recorded.
        runs: bool,
    },
    /// The end of the last phase: back to the first one, or the end of the task.
    Over {
        /// The first phase's first step.
        first: u32,
        /// How often all phases are repeated (`None`: for ever).
        loops: Option<u32>,
    },
}

// A periodic task has three steps, which fill little more than one cache line.
const _: () = assert!(std::mem::size_of::<Step>() <= 24);

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

/// The steps of all tasks of a file.
#[derive(Debug)]
pub struct Code {
    /// Task by task, and phase by phase.
    pub steps: Vec<Step>,
    /// The series that values are recorded to.
    pub series: Series,
}

/// A task: the place of its steps, and the state in which its threads begin.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub first: u32,
    /// When to start.
    pub delay: Ns,
    /// How many timers a thread has of its own.
    pub own_timers: usize,
    /// Mask of the CPUs it starts on, if its phases ever change them.
    pub cpus: Option<u32>,
    /// Attributes it starts with.
    pub attr: Attr,
    /// The most KB that any of its steps goes over.
    pub touched_kb: u32,
}

/// What a thread is doing.
#[derive(Debug)]
enum Busy {
    /// It has not begun.
    New,
    /// It waits for its start.
    Delayed,
    /// Between two steps.
    Free,
    /// Within a step of [`Thread::sync`].
    Synced,
    /// Running since this time.
    Running(Ns),
    /// Sleeping until this time.
    Sleeping(Ns),
    /// Its script is over.
    Done,
}

/// A step that takes several operations.
#[derive(Debug)]
enum Sync {
    Locking(Locking),
    Waiting(Waiting),
    Arriving(Arriving),
}

/// A thread of an rt-app task.
///
/// The order of the fields is the order in memory: a task that runs and waits for its timer needs the first line only.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Thread {
    code: Arc<Code>,
    /// The next step.
    at: u32,
    repetition: u32,
    busy: Busy,
    /// When the repetition began.
    began: Ns,
    /// Wall time of its runs.
    ran: Ns,
    /// Its own timer number 0.
    timer: Ns,
    delay: Ns,
    // Rarely read from here on.
    pass: u32,
    cpus: Option<u32>,
    attr: Attr,
    sync: Option<Sync>,
    /// Its own timers from number 1 on.
    timers: Vec<Ns>,
    /// Threads to start, per fork site, and how many of them were started.
    forks: Vec<(Vec<TaskId>, usize)>,
}

const _: () = assert!(std::mem::offset_of!(Thread, pass) <= 64);

impl Thread {
    /// A thread at the beginning of the script. At fork site n it starts the threads `forks[n]` in turn.
    pub fn new(code: Arc<Code>, script: &Script, forks: Vec<Vec<TaskId>>) -> Thread {
        Thread {
            code,
            at: script.first,
            repetition: 0,
            busy: Busy::New,
            began: Ns::ZERO,
            ran: Ns::ZERO,
            timer: Ns::ZERO,
            delay: script.delay,
            pass: 0,
            cpus: script.cpus,
            attr: script.attr,
            sync: None,
            timers: vec![Ns::ZERO; script.own_timers.saturating_sub(1)],
            forks: forks.into_iter().map(|f| (f, 0)).collect(),
        }
    }

    /// Continues with the last step; `None` once it is done.
    fn resume(&mut self, env: &mut dyn Env) -> Option<Op> {
        match self.busy {
            Busy::Free => return None,
            Busy::Running(since) => self.ran += env.now().since(since),
            Busy::Sleeping(until) => {
                let late = env.now().since(until);
                env.record(self.code.series.wakeup_latency, late.0);
            }
            Busy::Synced => {
                let op = match &mut self.sync {
                    Some(Sync::Locking(l)) => l.poll(env),
                    Some(Sync::Waiting(w)) => w.poll(env),
                    Some(Sync::Arriving(a)) => a.poll(env),
                    None => None,
                };
                if op.is_some() {
                    return op;
                }
                self.sync = None;
            }
            Busy::New => {
                self.busy = Busy::Delayed;
                if self.delay > Ns::ZERO {
                    return Some(Op::SleepTo { at: self.delay });
                }
                self.began = env.now();
            }
            Busy::Delayed => self.began = env.now(),
            Busy::Done => return Some(Op::Exit),
        }
        self.busy = Busy::Free;
        None
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
            Step::Lock(mutex) => self.enter(Sync::Locking(mutex.lock())),
            Step::Unlock(mutex) => mutex.unlock(env),
            Step::Wait(condition, mutex) => self.enter(Sync::Waiting(condition.wait(mutex))),
            Step::Signal(condition) => condition.signal(env),
            Step::Broadcast(condition) => condition.broadcast(env),
            Step::Barrier(barrier) => self.enter(Sync::Arriving(barrier.arrive())),
            Step::Yield => Some(Op::Yield),
            Step::Fork(site) => {
                let (threads, started) = &mut self.forks[site as usize];
                *started += 1;
                Some(Op::Spawn { task: threads[*started - 1] })
            }
            Step::Again { first, loops, runs } => {
                self.end_repetition(first, loops, runs, env);
                None
            }
            Step::Over { first, loops } => {
                self.pass = self.pass.wrapping_add(1);
                match loops == Some(self.pass) {
                    true => self.busy = Busy::Done,
                    false => self.at = first,
                }
                None
            }
        }
    }

    fn enter(&mut self, sync: Sync) -> Option<Op> {
        (self.busy, self.sync) = (Busy::Synced, Some(sync));
        None
    }

    /// The thread's own timer number `n`.
    fn own(&mut self, n: u32) -> &mut Ns {
        match n {
            0 => &mut self.timer,
            n => &mut self.timers[n as usize - 1],
        }
    }

    fn timer(&mut self, timer: Timer, period: Ns, mode: Mode, env: &mut dyn Env) -> Option<Op> {
        let first = self.delay;
        let next = |last: Ns| if last == Ns::ZERO { first + period } else { last + period };
        let due = match timer {
            Timer::LoweredTask(n) => {
                let own = self.own(n);
                *own = next(*own);
                *own
            }
            Timer::Shared(slot) => {
                let advance = |last| Some(next(Ns(last)).0);
                let (Ok(last) | Err(last)) = env.slot(slot).fetch_update(SeqCst, SeqCst, advance);
                next(Ns(last))
            }
        };
        let now = env.now();
        if now < due {
            env.record(self.code.series.slack, due.since(now).0);
            self.busy = Busy::Sleeping(due);
            return Some(Op::SleepTo { at: due });
        }
        env.record(self.code.series.lateness, now.since(due).0);
        if mode == Mode::Relative {
            match timer {
                Timer::LoweredTask(n) => *self.own(n) = now,
                Timer::Shared(slot) => env.slot(slot).store(now.0, SeqCst),
            }
        }
        None
    }

    /// Ends a repetition of a phase; the next one begins at `first` unless it was the last.
    fn end_repetition(&mut self, first: u32, loops: Option<u32>, runs: bool, env: &mut dyn Env) {
        let now = env.now();
        env.record(self.code.series.period, now.since(self.began).0);
        if runs {
            env.record(self.code.series.run, self.ran.0);
        }
        (self.began, self.ran) = (now, Ns::ZERO);
        self.repetition = self.repetition.wrapping_add(1);
        match loops == Some(self.repetition) {
            true => self.repetition = 0,
            false => self.at = first,
        }
    }
}

impl Program for Thread {
    fn next(&mut self, env: &mut dyn Env) -> Op {
        loop {
            if let Some(op) = self.resume(env) {
                return op;
            }
            let step = self.code.steps[self.at as usize];
            self.at += 1;
            if let Some(op) = self.begin(step, env) {
                return op;
            }
        }
    }
}
