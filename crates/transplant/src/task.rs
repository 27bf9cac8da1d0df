//! A task of the workload or of the machine's background: its program and what it does in user mode. What the scheduler
//! knows of it is the image's.

use crate::cpu::Next;
use schedlab_base::{CpuId, CpuSet, GroupId, TaskId};
use schedlab_kernel::Attr;
use schedlab_trace::MoveReason;
use schedlab_workload::{Outcome, Program, SetId, WordId};
use schedlab_world::cache_by_core::Reuse;
use schedlab_world::channel::state::Transfer;

/// Where a task is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Declared, not started.
    Unborn,
    Alive,
    Dead,
}

/// What a task does when it is on a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserOp {
    /// Its program is asked.
    Ask,
    /// Computing: work left, ns at full speed.
    Run { left_ns: u64 },
    /// Going over memory: the KB that count as warm since it began; work left, ns at full speed.
    Touch { left_ns: u64, kb: u32 },
    /// Spinning until a time.
    Spin { until: u64 },
    /// Spinning for a lock of user space.
    SpinLock { word: WordId },
    /// Asleep in a timed call, or back from it. `word`: it waits for one.
    Timed { word: Option<u32> },
    /// Asleep for a word, or back.
    Waits { word: u32 },
    /// An unfinished operation on a channel.
    Transfer(Transfer),
    /// Waiting for an end of a set.
    Poll(SetId),
    /// Executing a virtual machine's CPU.
    Vcpu { machine: u16, vcpu: CpuId },
}

/// A system call that a task has left in the middle: what follows, after how much time, and whom it has yet to wake.
pub struct Parked {
    pub next: Next,
    pub left_ns: u64,
    pub to_wake: Vec<TaskId>,
    pub sync_wakes: bool,
    pub call_left_ns: u64,
}

/// The properties that a new task has yet to give itself.
#[derive(Clone, Debug)]
pub struct Declared {
    pub attr: Option<Attr>,
    /// Its CPUs, if it has yet to take them; `Some(None)`: all.
    pub allowed: Option<Option<CpuSet>>,
    pub group: Option<GroupId>,
}

/// An event of a task.
#[derive(Clone, Copy, Debug)]
pub struct LastEvent {
    pub at: u64,
    pub cpu: CpuId,
    /// The tracepoint.
    pub name: &'static str,
}

/// A task.
pub struct Task {
    pub name: String,
    pub program: Box<dyn Program>,
    pub life: Life,
    /// The image's name for it; 0 before it is made.
    pub pid: i32,
    pub user: UserOp,
    pub outcome: Outcome,
    pub background: bool,
    /// The run lasts as long as it and others that count.
    pub counts: bool,
    /// Goes to sleep when its program ends, and exits after the run.
    pub waits_at_end: bool,
    pub attr: Attr,
    pub allowed: Option<CpuSet>,
    pub group: GroupId,
    /// Its session, if the kernel is asked to group tasks by session (autogroup).
    pub session: Option<String>,
    /// A call that it has left in the middle.
    pub parked: Option<Box<Parked>>,
    /// Properties that it has yet to take on.
    pub own: Option<Box<Declared>>,
    pub slack_ns: u64,
    /// Address space; 0 for the kernel's own.
    pub mm: u32,
    pub footprint_kb: u32,
    pub warm_kb: u32,
    pub refill_ns: u64,
    pub reuse: Reuse,
    /// The CPU where it ran last.
    pub ran_on: CpuId,
    /// Why it asked to be moved: at exec, or by a change of its CPUs; `Moved` if it did not.
    pub asked: MoveReason,
    /// A vCPU's thread that sleeps with a timer, or is back from such a sleep.
    pub timed: bool,
    /// It is between its waking and its wakeup.
    pub waking: bool,
    /// It has left its CPU to sleep, and no event has said that it was woken.
    pub asleep: bool,
    /// The CPU that events have it on; `None`: it is not there yet.
    pub placed: Option<CpuId>,
    /// The last event of it.
    pub last: Option<LastEvent>,
    pub work_ns: u64,
    pub ended: u64,
    /// Work and CPU time when measuring began.
    pub before: (u64, u64),
}

impl Task {
    /// What its thread group is known by: its address space and, since a process has one, its session.
    pub fn process(&self) -> (u32, Option<String>) {
        (self.mm, self.session.clone())
    }
}

/// The number of a task that the kernel has for itself: stoppers first, then ksoftirqd, by CPU, behind all others.
pub fn kthread_id(nr_tasks: usize, nr_cpus: usize, ksoftirqd: bool, cpu: CpuId) -> TaskId {
    TaskId::from(nr_tasks + usize::from(ksoftirqd) * nr_cpus + cpu.index())
}

/// The names of these tasks, in the order of their numbers.
pub fn kthread_names(nr_cpus: usize) -> Vec<String> {
    ["migration", "ksoftirqd"]
        .iter()
        .flat_map(|name| (0..nr_cpus).map(move |c| format!("{name}/{c}")))
        .collect()
}
