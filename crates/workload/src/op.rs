//! Operations that a program may ask of the machine, and their outcomes.
//!
//! Times are absolute nanoseconds since the run began, or lengths where the name says so. A program is asked for its
//! next operation when its task is on a CPU again, never at the moment of wakeup, so that it reads the same clock and
//! words that a real thread would read there.

use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::Attr;
use std::sync::atomic::{AtomicU32, AtomicU64};

macro_rules! small_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub struct $name(pub u32);
        impl $name {
            /// The id as an array index.
            pub const fn index(self) -> usize { self.0 as usize }
        }
    };
}

small_id!(
    /// A futex word shared by the tasks of a workload.
    WordId
);
small_id!(
    /// A shared 64-bit cell that is not a futex.
    SlotId
);
small_id!(
    /// A series of values that a workload records.
    SeriesId
);
small_id!(
    /// A set of ends that one task waits on together.
    SetId
);
small_id!(
    /// One end of a channel: a pipe's read or write end, or one of two connected sockets. Ends 2n and 2n + 1 belong to
    /// channel n.
    PortId
);

impl PortId {
    /// The channel's number.
    pub const fn channel(self) -> usize {
        self.0 as usize / 2
    }
    /// The other end.
    pub const fn peer(self) -> PortId {
        PortId(self.0 ^ 1)
    }
}

/// One operation. Small and `Copy`; ids refer to what the builder handed out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Op {
    /// Compute: `work` nanoseconds of a CPU at full speed. Takes longer beside a busy sibling or when preempted.
    Run {
        /// CPU time at full speed.
        work: Ns,
    },
    /// Execute instructions for a length of time. Unlike [`Op::Run`], the simulated operation reads no clock meanwhile:
    /// where CPUs take turns it continues only in its own CPU's turns.
    Execute {
        /// CPU time at full speed.
        length: Ns,
    },
    /// Spin until the wall clock reads `at` or later; being preempted does not lengthen it.
    SpinTo {
        /// Absolute time.
        at: Ns,
    },
    /// Sleep for a length of time (nanosleep); ordinary tasks get the kernel's timer slack on top.
    Sleep { length: Ns },
    /// Sleep to an absolute time (clock_nanosleep TIMER_ABSTIME); returns at once when it is past.
    SleepTo {
        /// Absolute time.
        at: Ns,
    },
    /// futex wait: sleep while `word` holds `value`, until woken or until the absolute time `until`.
    Wait {
        word: WordId,
        /// The value that makes it wait.
        value: u32,
        /// Absolute time-out; [`Ns::MAX`] for none.
        until: Ns,
    },
    /// futex wake: wake up to `count` waiters of `word`, oldest first. `Outcome::Count` reports how many.
    Wake {
        word: WordId,
        /// At most this many.
        count: u32,
    },
    /// Take a lock of user space: spin until `word` is 0, and set it to 1. The task may be preempted while it spins,
    /// and while it holds the lock. Nobody sleeps; who of those that run gets a lock that is released is not specified.
    SpinLock { word: WordId },
    /// Release such a lock: `word` is 0 from now on.
    SpinUnlock { word: WordId },
    /// Write `bytes` into the channel and return when all of them are in; sleep while its buffer is full. On UDP this
    /// is one datagram.
    Send {
        /// The end written to.
        port: PortId,
        /// How many.
        bytes: u32,
    },
    /// Read until `bytes` have come; sleep while there are none. On UDP this is one datagram.
    Recv {
        /// The end read from.
        port: PortId,
        /// How many.
        bytes: u32,
    },
    /// Wait until an end of a set has something to read (epoll_wait). `Outcome::Ready` reports which: ends take turns
    /// in the order in which something came. Only one task may wait on a set or read its ends, and it reads before it
    /// asks again.
    Poll { set: SetId },
    /// Go over `kb` KB of the task's own memory, reading and changing each line, `rounds` times.
    Touch {
        /// How much; at most the task's footprint.
        kb: u32,
        /// How often.
        rounds: u32,
    },
    /// sched_yield.
    Yield,
    /// Start a task that was declared as spawned by this one.
    Spawn { task: TaskId },
    /// exec(2), as far as the scheduler has to do with it: the kernel opens a file and balances the task
    /// (`sched_exec`). The file has no known format, so the program continues afterwards.
    Exec,
    /// Change this task's scheduling attributes.
    SetAttr {
        /// New attributes.
        attr: Attr,
    },
    /// Change this task's allowed CPUs to mask number `mask` of the workload ([`crate::Built::masks`]).
    SetAffinity { mask: u32 },
    /// Read a task's usage so far, as /proc shows it. `Outcome::Used` has the result; for a task that is gone, the last
    /// one that was read.
    Usage { task: TaskId },
    /// End the task.
    Exit,
}

const _: () = assert!(std::mem::size_of::<Op>() <= 24);

/// A task's usage since it began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Usage {
    /// Time on a CPU, exact (`sum_exec_runtime`).
    pub cpu: Ns,
    /// User time as ticks see it: a tick's length for every tick that found the task in user mode (utime). On a live
    /// kernel it is utime as the kernel shows it, in hundredths of a second; kernels from 2.6.23 on scale it to the
    /// exact time.
    pub ticked: Ns,
    /// Switches at which it slept or ended (nvcsw).
    pub voluntary: u32,
    /// Switches at which it was still runnable (nivcsw).
    pub involuntary: u32,
}

/// The outcome of the last operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Outcome {
    /// It is done, or a wake ended the wait. This is also the value before the first operation.
    #[default]
    Done,
    /// How many tasks a wake woke.
    Count(u32),
    /// A wait ended by its time-out.
    TimedOut,
    /// A wait found another value in the word and did not sleep.
    WouldNotWait,
    /// A task's usage.
    Used(Usage),
    /// There is something to read at this end.
    Ready(PortId),
}

/// The surroundings that a program may look at while it decides. The simulator and the live agent implement it.
pub trait Env {
    /// The wall clock, ns since the run began. Live this is a clock read, so ask only when needed.
    fn now(&mut self) -> Ns;
    /// The outcome of the last operation.
    fn outcome(&self) -> Outcome;
    /// The CPU the task is on (getcpu); it may be another one by the time the answer is used.
    fn cpu(&mut self) -> CpuId;
    /// A shared futex word.
    fn word(&self, id: WordId) -> &AtomicU32;
    /// A shared cell.
    fn slot(&self, id: SlotId) -> &AtomicU64;
    /// Records one value of a series, in the series' unit.
    fn record(&mut self, series: SeriesId, value: u64);
    /// Records one value of each of several series for one stretch of time, which began at `start` and lasted `length`.
    /// The values go to their series, as by [`Env::record`], and the record also keeps the stretches in the order of
    /// time. A stretch that began in the warm-up is not measured.
    fn interval(&mut self, _start: Ns, _length: Ns, values: &[(SeriesId, u64)]) {
        values.iter().for_each(|(series, value)| self.record(*series, *value));
    }
}

pub trait Program: Send {
    /// The next operation; `env.outcome()` gives the outcome of the last one.
    fn next(&mut self, env: &mut dyn Env) -> Op;
}
