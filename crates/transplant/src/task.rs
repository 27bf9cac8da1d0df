//! A task of the workload or of the machine's background, as the engine knows it. Its program belongs to the board
//! ([`schedlab_board::thread`]); the scheduler's knowledge of it belongs to the image.

use crate::cpu::Next;
use schedlab_base::{CpuId, CpuSet, GroupId, TaskId};
use schedlab_kernel::Attr;
use schedlab_trace::MoveReason;
use schedlab_workload::ROOT_GROUP;

/// Where a task is in its life.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Life {
    /// Declared, not started.
    Unborn,
    Alive,
    Dead,
}

/// How a task is asleep in a call of its own, since its way back differs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Slept {
    /// With a timer. `word`: it waits for one.
    Timed { word: Option<u32> },
    /// For a word.
    Waits,
}

/// A system call that a task has left in the middle: the next step, after how much time, and the tasks it still has to
/// wake.
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

#[derive(Clone, Copy, Debug)]
pub struct LastEvent {
    pub at: u64,
    pub cpu: CpuId,
    /// The tracepoint.
    pub name: &'static str,
}

pub struct Task {
    pub life: Life,
    /// The image's name for it; 0 before it is made.
    pub pid: i32,
    pub attr: Attr,
    pub allowed: Option<CpuSet>,
    pub group: GroupId,
    /// Its session, if the kernel is asked to group tasks by session (autogroup).
    pub session: Option<String>,
    /// It sleeps, or is back from a sleep.
    pub slept: Option<Slept>,
    /// A call that it has left in the middle.
    pub parked: Option<Box<Parked>>,
    /// Properties that it has yet to take on.
    pub own: Option<Box<Declared>>,
    /// Address space; 0 for the kernel's own.
    pub mm: u32,
    /// Why it asked to be moved: at exec, or by a change of its CPUs; `Moved` if it did not.
    pub asked: MoveReason,
    /// A vCPU's thread that sleeps with a timer, or is back from such a sleep.
    pub timed: bool,
    /// It is between its waking and its wakeup.
    pub waking: bool,
    /// It has left its CPU to sleep, and no event has said that it was woken.
    pub asleep: bool,
    /// Its CPU according to events; `None` before it exists.
    pub placed: Option<CpuId>,
    pub last: Option<LastEvent>,
}

impl Task {
    /// A task that has not begun.
    pub fn new(attr: Attr) -> Task {
        Task {
            life: Life::Unborn,
            pid: 0,
            attr,
            allowed: None,
            group: ROOT_GROUP,
            session: None,
            slept: None,
            parked: None,
            own: None,
            mm: 0,
            asked: MoveReason::Moved,
            timed: false,
            waking: false,
            asleep: false,
            placed: None,
            last: None,
        }
    }
    /// The key of its thread group: its address space and, since a process has one, its session.
    pub fn process(&self) -> (u32, Option<String>) {
        (self.mm, self.session.clone())
    }
}

/// The number of a task of the kernel's own: stoppers first, then ksoftirqd, by CPU, after all others.
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
