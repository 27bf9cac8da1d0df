//! A thread of an rt-app task: executes the steps of its phases.
//!
//! The steps of all tasks of a file are concatenated in one [`Code`]; a [`Script`] has the start of a task's steps. A
//! [`Thread`] has its position, its own timers, and the current sub-machine. With thousands of tasks, almost no data of
//! a thread are cached when its next operation is due. So the code reads few cache lines: the thread's first one, and
//! the step's. Times are ns since the run's start, which is also the start of timers, as in rt-app: a timer's first
//! activation is one period after the run's start (plus the task's delay), also in forked threads.
//!
//! Each thread records how late a sleep or timer woke it, and how early (slack) or late (lateness) it came to a timer.
//! For each repetition of a phase it records the length and the wall time of run events.

use super::event::Mode;
use super::sync::{Arriving, Barrier, Condition, Locking, Mutex, Waiting};
use crate::op::{Env, Op, Program, SeriesId, SlotId};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::Attr;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// A timer. Its value is the time of the next activation, 0 before the first use (periods are never 0, so no activation
/// is at 0).
#[derive(Clone, Copy, Debug)]
pub enum Timer {
    /// The thread's own timer number n ("unique").
    LoweredTask(u32),
    /// Shared by all tasks that name it.
    Shared(SlotId),
}

#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// Set attributes, unless they are set already.
    Attr(Attr),
    /// Set the allowed CPUs, unless they are set already.
    Cpus(u32),
    Run(Ns),
    /// Spin for this wall time.
    Spin(Ns),
    Sleep(Ns),
    /// Sleep to the next activation.
    Timer {
        timer: Timer,
        /// Time between activations.
        period: Ns,
        /// The rule for a late timer.
        mode: Mode,
    },
    /// Touch the first `kb` KB of the thread's memory, `rounds` times.
    Touch {
        kb: u32,
        rounds: u32,
    },
    Lock(Mutex),
    Unlock(Mutex),
    /// Wait on a condition; the mutex must be held.
    Wait(Condition, Mutex),
    /// Wake one waiter.
    Signal(Condition),
    /// Wake all waiters.
    Broadcast(Condition),
    /// Wait for all other users.
    Barrier(Barrier),
    /// sched_yield.
    Yield,
    /// Start the next thread of fork number n.
    Fork(u32),
    /// The end of a repetition of a phase: continue at its first step, or with the next phase.
    Again {
        first: u32,
        /// Number of repetitions; `None`: endless.
        loops: Option<u32>,
        /// Whether a step of the phase is a run, so that the time of runs is recorded.
        runs: bool,
    },
    /// The end of the last phase: continue with the first one, or end the task.
    Over {
        first: u32,
        /// Number of repetitions of all phases; `None`: endless.
        loops: Option<u32>,
    },
}

// A periodic task has three steps, which need little more than one cache line.
const _: () = assert!(std::mem::size_of::<Step>() <= 24);

/// Series of an rt-app workload.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// Time from the expiry of a sleep or timer until the thread runs.
    pub wakeup_latency: SeriesId,
    /// Time left until the activation, if the thread comes in time.
    pub slack: SeriesId,
    /// Time since the activation, if the thread comes late.
    pub lateness: SeriesId,
    /// Wall time of one repetition's runs.
    pub run: SeriesId,
    /// Length of one repetition.
    pub period: SeriesId,
}

/// The steps of all tasks of a file.
#[derive(Debug)]
pub struct Code {
    /// Sorted by task and phase.
    pub steps: Vec<Step>,
    pub series: Series,
}

/// A task: the position of its steps, and the initial state of its threads.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub first: u32,
    pub delay: Ns,
    /// Number of timers of each thread.
    pub own_timers: usize,
    /// Mask of its initial CPUs, if its phases ever change them.
    pub cpus: Option<u32>,
    pub attr: Attr,
    /// The most KB that a step touches.
    pub touched_kb: u32,
}

/// A thread's state.
#[derive(Debug)]
enum Busy {
    /// Before its beginning.
    New,
    /// Waits for its start.
    Delayed,
    /// Between two steps.
    Free,
    /// In a step of [`Thread::sync`].
    Synced,
    /// Running since this time.
    Running(Ns),
    /// Sleeping until this time.
    Sleeping(Ns),
    /// After the end of its script.
    Done,
}

/// A step with several operations.
#[derive(Debug)]
enum Sync {
    Locking(Locking),
    Waiting(Waiting),
    Arriving(Arriving),
}

/// A thread of an rt-app task.
///
/// The fields' order is their order in memory: a task that runs and waits for its timer needs only the first line.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Thread {
    code: Arc<Code>,
    /// Index of the next step.
    at: u32,
    repetition: u32,
    busy: Busy,
    /// Start of the repetition.
    began: Ns,
    /// Wall time of its runs.
    ran: Ns,
    /// Its own timer number 0.
    timer: Ns,
    delay: Ns,
    // Fields from here on are rarely read.
    pass: u32,
    cpus: Option<u32>,
    attr: Attr,
    sync: Option<Sync>,
    /// Its own timers from number 1 on.
    timers: Vec<Ns>,
    /// For each fork, the threads to start, and the number already started.
    forks: Vec<(Vec<TaskId>, usize)>,
}

const _: () = assert!(std::mem::offset_of!(Thread, pass) <= 64);

impl Thread {
    /// A thread at the beginning of the script. Fork number n starts the threads `forks[n]` in turn.
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

    /// Continues the last step; `None`: it is done.
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

    /// Begins a step and returns its operation. `None` if the step has none, or if only `resume` will return it.
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

    /// Ends a repetition of a phase; the next one begins at `first`, unless it was the last.
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
