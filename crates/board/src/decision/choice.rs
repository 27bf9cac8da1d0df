//! A wakeup's choice of a CPU: the state that a kernel's own code read for it, and the rules that explain it.

use super::AskedQueue;
use schedlab_base::{CpuId, CpuSet};
use schedlab_trace::{AffineReason, PlaceReason};

/// A CPU as a choice reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AskedChoiceCpu {
    /// Load average of its queue.
    pub load: u64,
    /// Capacity that is left to fair tasks.
    pub capacity: u64,
    pub nr_running: u32,
    /// Of these, tasks that sleep and are still queued, and SCHED_IDLE tasks.
    pub nr_delayed: u32,
    pub nr_sched_idle: u32,
    /// Hints of the domain that a search near it scans.
    pub nr_idle_scan: u32,
    pub has_idle_cores: bool,
    pub is_idle: bool,
}

/// The state that a fair task's wakeup reads, at one instant.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AskedChoice {
    /// All CPUs of the machine.
    pub cpus: Vec<AskedChoiceCpu>,
    /// Where the task may run; `None`: everywhere.
    pub allowed: Option<CpuSet>,
    /// The CPU that wakes.
    pub cpu: CpuId,
    /// The task's CPU, and the one before it.
    pub prev: CpuId,
    pub recent: CpuId,
    /// The task is SCHED_IDLE.
    pub sched_idle: bool,
    /// Its waker is about to sleep.
    pub sync: bool,
    /// Its waker is a kernel thread that may run on the choosing CPU only, and no interrupt.
    pub by_cpu_thread: bool,
    /// How often the choosing CPU's current task has woken another task than the last time, this wakeup included, and
    /// how often the woken task has.
    pub waker_flips: u32,
    pub wakee_flips: u32,
    /// Loads as the root sees them; the first is that of the choosing CPU's current task, of whichever class.
    pub waker_load: u64,
    pub wakee_load: u64,
    /// Estimated utilisation of the task.
    pub util: u64,
    /// Of the waking CPU: average idle time, the same as aged by SIS_PROP, and the average cost of a scan, ns.
    pub avg_idle_ns: u64,
    pub wake_avg_idle_ns: u64,
    pub avg_scan_cost_ns: u64,
}

/// A choice, with its reasons.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    pub cpu: CpuId,
    pub reason: PlaceReason,
    /// The answer of `wake_affine`, if it was asked.
    pub affine: Option<AffineReason>,
    /// CPUs whose idle state was read.
    pub probes: u16,
}

/// Weight and state of a queue's entity, which may be a group's or a task's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bearing {
    /// In units of 1/1024.
    pub weight: u64,
    /// It sleeps, and is still queued.
    pub delayed: bool,
}

/// Rules that are asked about the decisions of a kernel's own code.
pub trait Rules {
    /// The kernel has switched a feature of its own table. `false`: they do not know it.
    fn switch(&mut self, feature: &str, on: bool) -> bool;
    /// The kernel's tunable of that name in its own tree has this value. `false`: they do not know it.
    fn tune(&mut self, tunable: &str, value: &str) -> bool;
    /// The CPU that they would have chosen.
    ///
    /// # Errors
    /// The reason why the rules can't be asked.
    fn choose(&mut self, state: &AskedChoice) -> Result<Choice, &'static str>;
    /// Whether the current entity gives way to the one that has just been queued. Each entity has a bearing.
    fn gives_way(&mut self, queue: &AskedQueue, bearings: &[Bearing]) -> bool;
    /// The entity that they would pick, by its place in the queue's list. There is a bearing for each entity.
    fn pick(&mut self, queue: &AskedQueue, bearings: &[Bearing]) -> Option<usize>;
}
