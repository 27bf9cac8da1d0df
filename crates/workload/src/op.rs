//! Operations that programs request, and their outcomes.
//!
//! Times are absolute nanoseconds since the run began, or lengths where the name says so. A program is asked for its
//! next operation when its task is on a CPU again, never at the wakeup, so that it reads the clock and words as a real
//! thread would.

use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::Attr;
use std::sync::atomic::{AtomicU32, AtomicU64};

macro_rules! small_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(pub u32);
        impl $name {
            pub const fn index(self) -> usize { self.0 as usize }
        }
    };
}

small_id!(
    /// A futex word shared by the tasks of a workload.
    WordId
);
small_id!(
    /// A shared 64-bit cell, not a futex.
    SlotId
);
small_id!(
    /// A series of values that a workload records.
    SeriesId
);
small_id!(
    /// A set of channel ends on which one task waits.
    SetId
);
small_id!(
    /// One end of a channel: a pipe's read or write end, or one of two connected sockets. Ends 2n and 2n + 1 belong to
    /// channel n.
    PortId
);

impl PortId {
    pub const fn channel(self) -> usize {
        self.0 as usize / 2
    }
    pub const fn peer(self) -> PortId {
        PortId(self.0 ^ 1)
    }
}

/// One operation. Small and `Copy`; ids come from the builder.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Compute: `work` nanoseconds of a CPU at full speed. Takes longer next to a busy sibling or when preempted.
    Run {
        /// CPU time at full speed.
        work: Ns,
    },
    /// Execute instructions for a length of time. Unlike [`Op::Run`], the simulated operation does not read a clock:
    /// where CPUs take turns it continues only in its own CPU's turns.
    Execute {
        /// CPU time at full speed.
        length: Ns,
    },
    /// Spin until the wall clock reads `at` or later; preemption does not lengthen it.
    SpinTo {
        /// Absolute time.
        at: Ns,
    },
    /// Sleep for a length of time (nanosleep); ordinary tasks get the kernel's timer slack in addition.
    Sleep { length: Ns },
    /// Sleep to an absolute time (clock_nanosleep TIMER_ABSTIME); returns at once if it is past.
    SleepTo {
        /// Absolute time.
        at: Ns,
    },
    /// futex wait: sleep while `word` holds `value`, until woken or until the absolute time `until`.
    Wait {
        word: WordId,
        /// The task waits while the word has this value.
        value: u32,
        /// Absolute time-out; [`Ns::MAX`]: none.
        until: Ns,
    },
    /// futex wake: wake up to `count` waiters of `word`, oldest first. `Outcome::Count` is the number woken.
    Wake { word: WordId, count: u32 },
    /// Take a lock of user space: spin until `word` is 0, and set it to 1. The task may be preempted while it spins,
    /// and while it holds the lock. Nobody sleeps. Which of several running spinners gets a released lock is not
    /// specified.
    SpinLock { word: WordId },
    /// Release such a lock: set `word` to 0.
    SpinUnlock { word: WordId },
    /// Write `bytes` into the channel, and return when all are in; sleep while its buffer is full. On UDP this is one
    /// datagram.
    Send { port: PortId, bytes: u32 },
    /// Read until `bytes` have arrived; sleep while there are none. On UDP this is one datagram.
    Recv { port: PortId, bytes: u32 },
    /// Wait until an end of a set has data (epoll_wait). `Outcome::Ready` names it; ends take turns in the order of
    /// arrival. Only one task may wait on a set and read its ends, and it must read before it waits again.
    Poll { set: SetId },
    /// Touch `kb` KB of the task's own memory, `rounds` times: read and change each line.
    Touch {
        /// At most the task's footprint.
        kb: u32,
        rounds: u32,
    },
    /// sched_yield.
    Yield,
    /// Start a task that was declared as spawned by this one.
    Spawn { task: TaskId },
    /// exec(2) as far as it concerns the scheduler: the kernel opens a file and balances the task (`sched_exec`). The
    /// file has no known format, so the program continues.
    Exec,
    /// Change this task's scheduling attributes.
    SetAttr { attr: Attr },
    /// Allow this task only the CPUs of the workload's mask number `mask` ([`crate::Built::masks`]).
    SetAffinity { mask: u32 },
    /// Read a task's usage so far, as in /proc. The result is `Outcome::Used`; for a task that ended, it is the last
    /// one that was read.
    Usage { task: TaskId },
    /// End the task.
    Exit,
}

const _: () = assert!(std::mem::size_of::<Op>() <= 24);

/// A task's usage since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Exact CPU time (`sum_exec_runtime`).
    pub cpu: Ns,
    /// User time by ticks: a tick's length for every tick in user mode (utime). On a live kernel it is utime as the
    /// kernel shows it, in hundredths of a second; kernels since 2.6.23 scale it to the exact time.
    pub ticked: Ns,
    /// Number of switches at which it slept or ended (nvcsw).
    pub voluntary: u32,
    /// Number of switches at which it was still runnable (nivcsw).
    pub involuntary: u32,
}

/// The outcome of the last operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// Done, or a wake ended the wait. Also the value before the first operation.
    #[default]
    Done,
    /// Number of tasks that a wake woke.
    Count(u32),
    TimedOut,
    /// A wait found another value in the word and did not sleep.
    WouldNotWait,
    Used(Usage),
    /// This end has data.
    Ready(PortId),
}

/// The environment of a program. The simulator and the live agent implement it.
pub trait Env {
    /// The wall clock, ns since the run began. In live runs it is a clock read, so call it only when needed.
    fn now(&mut self) -> Ns;
    /// The outcome of the last operation.
    fn outcome(&self) -> Outcome;
    /// The task's current CPU (getcpu); it may change before the answer is used.
    fn cpu(&mut self) -> CpuId;
    fn word(&self, id: WordId) -> &AtomicU32;
    fn slot(&self, id: SlotId) -> &AtomicU64;
    /// Records a value of a series, in its unit.
    fn record(&mut self, series: SeriesId, value: u64);
    /// Records one value for each of several series, for the interval that began at `start` and lasted `length`. The
    /// series get the values, as by [`Env::record`], and the record also keeps the intervals in order of time. An
    /// interval that began in the warm-up is not measured.
    fn interval(&mut self, _start: Ns, _length: Ns, values: &[(SeriesId, u64)]) {
        values.iter().for_each(|(series, value)| self.record(*series, *value));
    }
}

pub trait Program: Send {
    /// The next operation; `env.outcome()` is the outcome of the last one.
    fn next(&mut self, env: &mut dyn Env) -> Op;
}
