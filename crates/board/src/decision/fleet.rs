//! A whole machine: its CPUs, their tasks and averages, and the questions about wakeups and the balancer.

use schedlab_base::CpuId;
use schedlab_kernel::Policy;
use schedlab_trace::{BalanceTrigger, MigrationType};

/// Averages of a queue or a task.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedAverages {
    pub load: u64,
    pub runnable: u64,
    pub util: u64,
    pub util_est: u64,
}

/// A CPU of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedCpu {
    /// Averages of its queue.
    pub avg: AskedAverages,
    pub avg_idle_ns: u64,
    /// Hints of its cache; only those of the cache's first CPU count.
    pub nr_idle_scan: u32,
    pub has_idle_cores: bool,
    /// A wakeup is on its way to this CPU.
    pub wakeup_pending: bool,
    /// Exit latency of its present idle state, and the time at which it went idle (0: not recorded).
    pub idle_exit_us: Option<u32>,
    pub idle_since_ns: u64,
    /// The load of its running task if that task is a misfit.
    pub misfit: u64,
    /// Utilisation by real-time tasks, of 1024, and how many wait or run there.
    pub rt_util: u32,
    pub nr_rt: u32,
}

/// Where a task is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AskedPlace {
    /// It is its CPU's current task.
    Runs,
    Waits,
    /// It sleeps.
    Absent,
    /// It is its CPU's current task, and has left its queue.
    Leaves,
}

/// A task of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AskedTask {
    pub place: AskedPlace,
    /// The CPU on whose queue it is, or was last.
    pub cpu: CpuId,
    pub avg: AskedAverages,
    /// Time since its time was last accounted.
    pub ran_ago_ns: u64,
    /// Bits by CPU.
    pub allowed: u64,
    pub policy: Policy,
    pub nice: i8,
    /// How often it has woken another task than the last time.
    pub flips: u32,
    pub recent: CpuId,
    /// Its queue's next buddy.
    pub next: bool,
    /// Virtual ns; queues begin at 0.
    pub vruntime: i64,
}

/// A domain of the CPU that is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedLevel {
    pub newidle_cost_ns: u64,
    pub failed: u32,
    /// The group that holds the CPU is marked as hindered by affinity.
    pub imbalanced: bool,
}

/// A group, and its queue of the CPU that is asked about.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedGroup {
    pub shares: u64,
    pub load: u64,
    pub runnable: u64,
    pub queue_weight: u64,
    pub queue_load: u64,
    pub contribution: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FleetQuestion {
    /// Where `about` goes when it is woken by the CPU.
    Select,
    /// From which group the CPU pulls in a domain.
    Busiest,
    /// Which tasks leave `src` for the CPU.
    Detach,
    /// Which domains the CPU searches before it goes idle, and which tasks come.
    Newidle,
    /// The weight of a group's entity.
    Shares,
    /// Where a new task `about`, made by the CPU, goes.
    Fork,
    /// Where `about`, which runs on the CPU, goes at exec.
    Exec,
}

impl FleetQuestion {
    /// Whether it asks where one task goes.
    pub fn places(self) -> bool {
        matches!(self, FleetQuestion::Select | FleetQuestion::Fork | FleetQuestion::Exec)
    }
}

/// A machine's state, and the question about it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AskedFleet {
    /// All CPUs of the machine.
    pub cpus: Vec<AskedCpu>,
    /// In the order in which they were queued.
    pub tasks: Vec<AskedTask>,
    /// Domains of `cpu`, the lowest first.
    pub levels: Vec<AskedLevel>,
    pub group: AskedGroup,
    /// The CPU that wakes, or that pulls tasks.
    pub cpu: CpuId,
    pub src: CpuId,
    pub level: usize,
    /// The task to place.
    pub about: usize,
    pub trigger: BalanceTrigger,
    pub sync: bool,
    pub overload: bool,
    pub migration: MigrationType,
    pub imbalance: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum FleetAnswer {
    At(CpuId),
    /// The group by its first CPU, and how much is to move.
    Group(Option<(CpuId, MigrationType, u64)>),
    /// Tasks, in the order in which they left.
    Moved(Vec<usize>),
    /// The levels that were searched, and the tasks that came.
    Searched {
        levels: Vec<usize>,
        came: Vec<usize>,
    },
    Weight(u64),
}
