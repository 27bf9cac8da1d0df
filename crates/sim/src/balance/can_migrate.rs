//! Decides whether a task of the chosen queue may move, apart from its size; also the types of a walk over that queue.
//!
//! Mirrors `can_migrate_task` and `task_hot` of 3.4 to 6.5. Each generation walks the queue in its own way:
//! `average/detach.rs` and `spare/detach.rs`. Times are ns. Not modelled: NUMA locality.

use super::era::{Balancer, PassKind};
use schedlab_base::CpuId;

/// Number of tasks examined between two releases of the queue's lock (`sched_nr_migrate_break`).
pub const BREAK: u32 = 32;

/// Facts about a pass that apply to every task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MigrateRules {
    pub balancer: Balancer,
    pub pass: PassKind,
    /// Whether the kernel is preemptible (CONFIG_PREEMPTION): a newidle pass then takes only one task.
    pub preemptible: bool,
    /// A task that ran less than this ago is hot, ns; 0 means that no task is.
    pub migration_cost_ns: u64,
    pub cache_hot_buddy: bool,
    /// Whether the destination has runnable tasks; otherwise buddies may move, too.
    pub dst_has_tasks: bool,
    /// The domain's failed passes in a row.
    pub nr_balance_failed: u32,
    /// Number of failures after which hot tasks move.
    pub cache_nice_tries: u32,
    /// Whether tasks that sleep while queued stay (6.14, unless load is to move).
    pub delayed_stay: bool,
    /// Whether ineligible tasks stay (6.14, while no pass has failed and the destination has fair tasks queued).
    pub ineligible_stay: bool,
    /// Whether kernel threads of one CPU are distinguished from tasks with an affinity (5.11).
    pub kthreads_set_apart: bool,
}

/// One task of the source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskFacts {
    /// Whether it may run on the destination.
    pub allowed: bool,
    /// Whether its group has no quota left, here or on the destination (`throttled_lb_pair`).
    pub throttled: bool,
    /// If it may not: the first other CPU of the destination's group on which it may run (4.5 tries that one next).
    pub allowed_nearby: Option<CpuId>,
    /// Whether it sleeps but is still queued (DELAY_DEQUEUE).
    pub delayed: bool,
    /// Whether it has had more than its share on its queue (EEVDF).
    pub ineligible: bool,
    /// Whether it is a kernel thread that belongs to one CPU.
    pub per_cpu_kthread: bool,
    pub running: bool,
    pub sched_idle: bool,
    /// Whether it is its queue's next or last buddy.
    pub buddy: bool,
    /// Time since it last began to run or was accounted, ns (source clock minus `exec_start`). Since 3.18 a migration
    /// at wakeup clears `exec_start`, so that this becomes very long.
    pub ran_ago_ns: u64,
    /// Its share of the queue's load (`task_h_load`).
    pub load: u64,
}

/// Why a task stays. Later reasons are closer to a move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refusal {
    Running,
    /// It is a kernel thread of its CPU.
    KernelThread,
    /// Its group has no quota left.
    Throttled,
    /// It sleeps while queued; only its load counts.
    Delayed,
    /// Its affinity excludes the destination.
    NotAllowed,
    /// It has had more than its share here, and would have to wait on the destination.
    Ineligible,
    /// It ran too recently, or is a buddy.
    Hot,
    /// More than half of its load would exceed the amount wanted.
    TooHeavy {
        /// It was hot and might still have moved. 4.5 counts it in `lb_hot_gained` even so.
        hot: bool,
    },
}

impl Refusal {
    /// Whether the task was refused before its affinity was tested; then it does not count for pinning.
    pub fn comes_before_affinity(self) -> bool {
        matches!(self, Refusal::Throttled | Refusal::Delayed | Refusal::KernelThread | Refusal::Ineligible)
    }
}

/// The answer for a task that may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movable {
    /// Whether it is hot and still moves (counted as `lb_hot_gained`).
    pub hot: bool,
}

/// Whether a task may move, regardless of its load. Active balance uses this rule alone.
///
/// # Errors
/// With the reason why the task may not move.
pub fn can_migrate(rules: &MigrateRules, task: &TaskFacts) -> std::result::Result<Movable, Refusal> {
    if task.throttled {
        return Err(Refusal::Throttled);
    }
    if task.delayed && rules.delayed_stay {
        return Err(Refusal::Delayed);
    }
    if task.ineligible && rules.ineligible_stay {
        return Err(Refusal::Ineligible);
    }
    if task.per_cpu_kthread && rules.kthreads_set_apart {
        return Err(Refusal::KernelThread);
    }
    if !task.allowed {
        return Err(Refusal::NotAllowed);
    }
    if task.running {
        return Err(Refusal::Running);
    }
    let hot = is_hot(rules, task);
    if hot && rules.nr_balance_failed <= rules.cache_nice_tries {
        return Err(Refusal::Hot);
    }
    Ok(Movable { hot })
}

fn is_hot(rules: &MigrateRules, task: &TaskFacts) -> bool {
    if task.sched_idle {
        return false;
    }
    (rules.cache_hot_buddy && rules.dst_has_tasks && task.buddy) || task.ran_ago_ns < rules.migration_cost_ns
}

/// The next action of a walk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WalkStep {
    /// Offer the task at the front of the list.
    Offer,
    /// Release the lock, attach the detached tasks, take the lock again.
    Pause,
    Stop(Stop),
}

/// Why a walk ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Stop {
    /// There was nothing to move.
    NothingWanted,
    /// Enough load was moved.
    Enough,
    /// A newidle pass of a preemptible kernel takes one task.
    OneForNewidle,
    /// As many tasks were examined as the queue had, or as `nr_migrate` allows.
    LoopMax,
    /// An idle CPU leaves the source its last task (4.5).
    LastTask,
    /// The list is empty.
    NoTasks,
    /// Other CPUs have emptied the source before its lock was taken (5.5+).
    Emptied,
}

/// The answer to an offered task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// The task moves. With `then`, the walk is over.
    Take {
        /// Whether it moves although it is hot (counted as `lb_hot_gained`).
        hot: bool,
        /// Why no further task is examined.
        then: Option<Stop>,
    },
    /// The task stays, and goes to the back of the list.
    Refuse(Refusal),
}
