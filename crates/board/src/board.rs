//! The board: one simulated machine without its kernel, and the trait of a kernel for it.
//!
//! Two kernels run on it: our rules (`sim`) and a kernel's own code (`transplant`). A [`Kernel`] owns a board, which
//! gives it the board's drivers: user mode ([`UserMode`](crate::user::UserMode)), system calls
//! ([`Calls`](crate::calls::Calls)), channels ([`Transfers`](crate::channel::drive::Transfers)), locks of user space
//! ([`Spins`](crate::spin::Spins)), messages between machines ([`Links`](crate::links::Links)). So a program has the
//! same steps at the same prices on both. Only the scheduler's decisions differ.
//!
//! Times are ns since the run began. A board has no clock and no queue: the kernel supplies the time, and lets the
//! price of each step pass.

use crate::cache_by_core::Caches;
use crate::cache_by_level::Sets;
use crate::calls::Call;
use crate::channel::exchange::Wakes;
use crate::channel::state::{Channels, Transfer};
use crate::env::Intervals;
use crate::nested::Nested;
use crate::net::{Nic, Peer};
use crate::objects::{Objects, Touched};
use crate::speed::Speed;
use crate::thread::Thread;
use crate::turns::Sharing;
use crate::words::UserMemory;
use schedlab_base::{Arena, CpuId, CpuSet, Error, Ns, TaskId};
use schedlab_kernel::History;
use schedlab_machine::{Distance, Machine};
use schedlab_trace::Sink;
use schedlab_workload::Usage;
use std::collections::BTreeMap;

/// The context in which a CPU wakes tasks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Context {
    /// A system call of the current task.
    Task = 0,
    /// An interrupt.
    Hard = 1,
}

/// A CPU's part of its current task's call and of its stretch of user mode.
#[derive(Debug, Default)]
pub struct Seat {
    /// The stretch of user mode was accounted up to here.
    pub user_since: u64,
    /// Tasks to wake one after another, by context (futex wake list; expired timers).
    pub to_wake: [Vec<TaskId>; 2],
    /// The wakeups in task context come from a waker that is about to sleep (WF_SYNC).
    pub sync_wakes: bool,
    /// Time that the call under way still takes after its wakeups, ns.
    pub call_left_ns: u64,
    /// The transfer that wakes the sleepers of its socket under their lock, or waits for that lock.
    pub wakes_for: Option<Transfer>,
}

impl Seat {
    /// The list of tasks that `context` is to wake.
    #[inline]
    pub fn wakes(&mut self, context: Context) -> Wakes<'_> {
        Wakes { tasks: &mut self.to_wake[context as usize], sync: &mut self.sync_wakes }
    }
}

/// Sums since the end of the warm-up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Work repeated to warm a new cache after a move, or the task's own cache after other tasks used it, ns.
    pub refill_ns: u64,
    /// User time while a sibling was busy, ns.
    pub smt_shared_ns: u64,
    /// Datagrams lost for lack of room.
    pub datagrams_lost: u64,
}

pub struct Board<'s> {
    pub machine: &'s Machine,
    /// The rules of channels in the kernel's release.
    pub history: History,
    /// Hardware threads of the same core, the CPU itself excluded.
    pub siblings: Arena<CpuId, Vec<CpuId>>,
    /// Speed of each CPU: its capacity as the machine states it, 1024 for a fastest one.
    pub speed: Arena<CpuId, u64>,
    /// CPUs that are not halted; they slow their siblings down.
    pub active: Arena<CpuId, bool>,
    pub seats: Arena<CpuId, Seat>,
    pub threads: Arena<TaskId, Thread>,
    /// Allowed-CPU masks of the workload.
    pub masks: Vec<CpuSet>,
    pub user: UserMemory,
    pub channels: Channels,
    /// The kernel's objects as cache lines, where lines have owners; `None` elsewhere.
    pub objects: Option<Objects>,
    /// Contents of the cores' private caches, by task.
    pub by_core: Caches,
    /// Working sets in the machine's caches; `None` on a machine without `[[cache]]`, where `by_core` is used.
    pub by_level: Option<Sets>,
    /// The network interface.
    pub nic: Nic,
    /// Machines behind a link.
    pub peers: Vec<Box<dyn Peer + 's>>,
    /// Virtual machines whose vCPUs are tasks of this kernel.
    pub nested: Vec<Nested<'s>>,
    /// State of turns, if the CPUs take turns.
    pub turns: Option<Sharing>,
    pub intervals: Intervals,
    /// Values before this time are not recorded.
    pub measure_from: u64,
    /// Waits and work that began earlier count from here: the end of the warm-up once it is over.
    pub counted_from: u64,
    pub counts: Counts,
}

impl<'s> Board<'s> {
    /// A machine without tasks. All its CPUs are halted.
    pub fn new(machine: &'s Machine, history: History) -> Board<'s> {
        let topology = &machine.topology;
        let n = topology.nr_cpus();
        let cpus = || (0..n).map(CpuId::from);
        let mut cores = BTreeMap::<u32, Vec<CpuId>>::new();
        cpus().for_each(|c| cores.entry(topology.cpu(c).core).or_default().push(c));
        let siblings = |c| cores[&topology.cpu(c).core].iter().copied().filter(|s| *s != c).collect();
        Board {
            machine,
            history,
            siblings: cpus().map(siblings).collect(),
            speed: cpus().map(|c| u64::from(topology.capacity_of(c))).collect(),
            active: Arena::filled(false, n),
            seats: cpus().map(|_| Seat::default()).collect(),
            threads: Arena::new(),
            masks: Vec::new(),
            user: UserMemory::default(),
            channels: Channels::default(),
            objects: None,
            by_core: Caches::new(topology, &machine.costs),
            by_level: None,
            nic: Nic::default(),
            peers: Vec::new(),
            nested: Vec::new(),
            turns: machine.turns.map(|spec| Sharing::new(spec, n)),
            intervals: Intervals::default(),
            measure_from: 0,
            counted_from: 0,
            counts: Counts::default(),
        }
    }
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.seats.len()
    }
    /// Gives all declared tasks their blocks, if the machine's caches are known. CPUs that take turns have no caches of
    /// their own.
    pub fn lay_out_memory(&mut self) {
        if self.turns.is_none() {
            // A vCPU's thread pays for its moves as a whole.
            let kb = |t: &Thread| if t.vcpu().is_some() { 0 } else { t.footprint_kb };
            self.by_level = Sets::new(self.machine, self.threads.iter().map(kb));
        }
    }
}

/// A kernel that runs on a board.
pub trait Kernel<'s>: Sized {
    fn now(&self) -> u64;
    fn board(&self) -> &Board<'s>;
    fn board_mut(&mut self) -> &mut Board<'s>;
    /// The board, and the sink of the programs' values.
    fn board_and_sink(&mut self) -> (&mut Board<'s>, &mut dyn Sink);
    /// Ends the run with this error, unless it ends with another one already.
    fn fail(&mut self, error: Error);
    /// When the CPU acts next; [`NEVER`](crate::engine::NEVER) if it waits for others.
    fn next_event(&self, cpu: CpuId) -> u64;
    /// Notes that another CPU's next event has changed.
    fn touch(&mut self, cpu: CpuId);
    /// Takes a CPU whose next event has changed.
    fn pop_touched(&mut self) -> Option<CpuId>;

    /// The current task of a CPU, if a program is current there.
    fn running(&self, cpu: CpuId) -> Option<TaskId>;
    /// Whether the CPU executes user mode at this instant.
    fn in_user(&self, cpu: CpuId) -> bool;
    /// Since when the CPU has its current task.
    fn since(&self, cpu: CpuId) -> u64;
    /// The CPU that executes this task in user mode at this instant.
    fn executes(&self, task: TaskId) -> Option<CpuId>;
    fn distance(&self, a: CpuId, b: CpuId) -> Distance;
    /// The CPU is in user mode from now on, up to `ends`.
    fn user_until(&mut self, cpu: CpuId, ends: u64);

    /// The current task is in the kernel for `cost_ns`; then `call` has its effect.
    fn call_after(&mut self, cpu: CpuId, call: Call, cost_ns: u64);
    /// The current task's call wakes the tasks of its list one after another, and then [`ends`](crate::calls::Calls).
    fn wake_listed(&mut self, cpu: CpuId);
    /// The network interface's handler wakes the tasks of its list.
    fn wake_heard(&mut self, cpu: CpuId);
    /// The current task sleeps until it is woken.
    fn block(&mut self, cpu: CpuId, curr: TaskId);
    /// The current task's call returns to user mode.
    fn returns(&mut self, cpu: CpuId);
    /// The current task begins to sleep for a time.
    fn begin_sleep(&mut self, cpu: CpuId, curr: TaskId, length: Ns);
    /// The time it takes the current task to start a timer, ns.
    fn timer_ns(&self, cpu: CpuId, curr: TaskId, until: u64) -> u64;
    /// The current task, which is in the word's queue, sleeps until it is woken, or until `until` unless that is
    /// `u64::MAX`.
    fn sleep_on(&mut self, cpu: CpuId, curr: TaskId, word: u32, until: u64);
    /// The current task sleeps until it is woken or, unless that is `u64::MAX`, `until`, to the nanosecond.
    fn sleep_until(&mut self, cpu: CpuId, curr: TaskId, until: u64);
    /// A sleeping task is about to be woken: it has left the queue of its word, and its timer is over.
    fn stops_waiting(&mut self, sleeper: TaskId);
    /// CPU time and switches of a task; `None` before it is there.
    fn usage(&mut self, cpu: CpuId, of: TaskId) -> Option<Usage>;
    /// The effect of a call that the kernel handles: timers, forks, attributes, exits, halts of vCPUs.
    fn kernel_call(&mut self, cpu: CpuId, curr: TaskId, call: Call);
    /// The current task gives itself the next of its own properties, if any is left.
    fn sets_up(&mut self, cpu: CpuId, curr: TaskId) -> bool;

    /// The current task's call touches these lines. Returns what the lines cost that other CPUs have, ns.
    fn touch_lines(&mut self, _cpu: CpuId, _touched: &[Touched]) -> u64 {
        0
    }
    /// During a call on `cpu` another CPU, which spins, touches these lines.
    fn touch_elsewhere(&mut self, _cpu: CpuId, _other: CpuId, _touched: &[Touched]) {}
    /// The speed of the host's CPU below a vCPU; `None` on a real machine.
    fn host_speed(&self, _cpu: CpuId) -> Option<Speed> {
        None
    }
    /// Whether a vCPU does not execute at this instant.
    fn stands_still(&self, _cpu: CpuId) -> bool {
        false
    }
    /// Nothing but the vCPU that `cpu` executes acts before this time, as far as the kernel knows.
    fn guest_horizon(&self, _cpu: CpuId) -> u64 {
        self.now()
    }
    /// Whether nothing else is to run on `cpu` (`single_task_running`).
    fn runs_alone(&mut self, cpu: CpuId) -> bool;
    /// The timer of a vCPU's sleeping thread is set anew. `false`: the kernel can't, and the thread is to be woken.
    fn sets_timer_anew(&mut self, _thread: TaskId, _at: u64) -> bool {
        false
    }
    /// What the current task of another CPU waits for in `call` comes at `at`: the wait ends then.
    fn end_wait(&mut self, cpu: CpuId, call: Call, at: u64);
    /// How long a vCPU's thread has waited for a CPU so far; 0 if the kernel counts the machine's stolen time itself.
    fn run_delay_ns(&mut self, _thread: TaskId) -> u64 {
        0
    }
    /// A message will arrive at `cpu` at `at`: the interface's interrupt comes then.
    fn interrupt_at(&mut self, cpu: CpuId, at: u64);
    /// Another machine has made so many steps, and so many that count as tasks of this one have left.
    fn others_acted(&mut self, steps: u64, left: usize);
}
