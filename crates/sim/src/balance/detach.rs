//! Which tasks of the chosen queue move, and when to stop.
//!
//! Mirrors `can_migrate_task`, `task_hot`, `move_tasks` (3.4) and `detach_tasks` (4.5). The caller walks the source
//! queue's list of tasks from its front (the task enqueued last) and asks [`Detach::step`] before each and
//! [`Detach::offer`] with each; a task that is refused goes to the back of that list. The amount left is in weight,
//! times in ns. Left out: LB_MIN (off by default), throttled groups, NUMA locality.

use super::era::{Balancer, Pass};

/// Tasks looked at between two releases of the queue's lock (`sched_nr_migrate_break`).
pub(super) const BREAK: u32 = 32;

/// What one pass applies to every task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rules {
    /// Which rules.
    pub balancer: Balancer,
    /// The kind of pass.
    pub pass: Pass,
    /// Whether the kernel is preemptible (CONFIG_PREEMPT): then newidle takes one task a pass.
    pub preemptible: bool,
    /// A task that ran less long ago is hot, ns; 0: none is.
    pub migration_cost_ns: u64,
    /// CACHE_HOT_BUDDY.
    pub cache_hot_buddy: bool,
    /// Whether the destination has runnable tasks; without, buddies are not spared.
    pub dst_has_tasks: bool,
    /// The domain's failed passes in a row.
    pub nr_balance_failed: u32,
    /// Failures after which hot tasks move.
    pub cache_nice_tries: u32,
}

/// One task of the source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TaskFacts {
    /// Whether it may run on the destination.
    pub allowed: bool,
    /// Whether it may run on another CPU of the destination's group (4.5 tries that one next).
    pub allowed_nearby: bool,
    /// Whether it is running.
    pub running: bool,
    /// SCHED_IDLE.
    pub sched_idle: bool,
    /// Whether it is its queue's next or last buddy.
    pub buddy: bool,
    /// Time since it last began to run or was accounted, ns (source clock minus `exec_start`). Since 3.18 a migration
    /// at wakeup clears `exec_start`, so that this becomes very long.
    pub ran_ago_ns: u64,
    /// Its share of the queue's load (`task_h_load`).
    pub load: u64,
}

/// Why a task stays; the later, the nearer it came to moving.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refusal {
    /// It is running.
    Running,
    /// Its affinity excludes the destination.
    NotAllowed,
    /// It ran too recently, or is a buddy.
    Hot,
    /// More than half of it would exceed what should move.
    TooHeavy {
        /// It had passed although hot. 4.5 counts it in `lb_hot_gained` all the same.
        hot: bool,
    },
}

/// A task that may move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Movable {
    /// It is hot and moves all the same (counted as `lb_hot_gained`).
    pub hot: bool,
}

/// Whether a task may move, but for its load. Active balance asks this alone.
///
/// # Errors
/// With the reason why it may not.
pub fn can_migrate(rules: &Rules, task: &TaskFacts) -> std::result::Result<Movable, Refusal> {
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

fn is_hot(rules: &Rules, task: &TaskFacts) -> bool {
    if task.sched_idle {
        return false;
    }
    (rules.cache_hot_buddy && rules.dst_has_tasks && task.buddy) || task.ran_ago_ns < rules.migration_cost_ns
}

/// What to do before looking at the next task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Offer the task at the front of the list.
    Offer,
    /// Let go of the lock, attach what was detached, come back.
    Pause,
    /// The walk is over.
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
    /// As many tasks as the queue had, or as `nr_migrate` allows, were looked at.
    LoopMax,
    /// An idle CPU leaves the source its last task (4.5).
    LastTask,
    /// The list is empty.
    NoTasks,
    /// Others have emptied the source before its lock was taken (5.5+).
    Emptied,
}

/// The answer to an offered task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Offer {
    /// It moves; `hot`: although hot. With `then`, the walk is over.
    Take {
        /// Counted as `lb_hot_gained`.
        hot: bool,
        /// Why no further task is looked at.
        then: Option<Stop>,
    },
    /// It stays, and goes to the back of the list.
    Refuse(Refusal),
}

/// The walk over one source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detach {
    left: i64,
    looked_at: u32,
    next_break: u32,
    max: u32,
    moved: u32,
    all_pinned: bool,
    some_pinned: bool,
    nearby: bool,
}

impl Detach {
    /// A walk for `imbalance` over a queue of `src_nr_running` (at least 2: shorter ones are not walked).
    pub fn new(imbalance: u64, nr_migrate: u64, src_nr_running: u32) -> Detach {
        Detach {
            left: i64::try_from(imbalance).unwrap_or(i64::MAX),
            looked_at: 0,
            next_break: BREAK,
            max: u32::try_from(nr_migrate).map_or(src_nr_running, |n| n.min(src_nr_running)),
            moved: 0,
            all_pinned: true,
            some_pinned: false,
            nearby: false,
        }
    }

    /// What to do next; `src_nr_running` is the source's length now.
    pub fn step(&mut self, rules: &Rules, src_nr_running: u32, list_empty: bool) -> Step {
        if self.left <= 0 {
            return Step::Stop(if self.moved == 0 { Stop::NothingWanted } else { Stop::Enough });
        }
        if list_empty {
            return Step::Stop(Stop::NoTasks);
        }
        if rules.balancer >= Balancer::V4_5 && rules.pass != Pass::Busy && src_nr_running <= 1 {
            return Step::Stop(Stop::LastTask);
        }
        self.looked_at += 1;
        if self.looked_at > self.max {
            return Step::Stop(Stop::LoopMax);
        }
        if self.looked_at > self.next_break {
            self.next_break += BREAK;
            return Step::Pause;
        }
        Step::Offer
    }

    /// Judges the task at the front of the list.
    pub fn offer(&mut self, rules: &Rules, task: &TaskFacts) -> Offer {
        let too_heavy = i64::try_from(task.load / 2).is_ok_and(|half| half > self.left);
        // 3.4 looks at the load first, so a queue of nothing but heavy tasks counts as pinned.
        if rules.balancer <= Balancer::V3_4 && too_heavy {
            return Offer::Refuse(Refusal::TooHeavy { hot: false });
        }
        let verdict = can_migrate(rules, task);
        if verdict == Err(Refusal::NotAllowed) {
            self.some_pinned = true;
            self.nearby |=
                rules.balancer >= Balancer::V4_5 && rules.pass != Pass::Newidle && task.allowed_nearby;
        } else {
            self.all_pinned = false;
        }
        match verdict {
            Err(why) => Offer::Refuse(why),
            Ok(Movable { hot }) if too_heavy => Offer::Refuse(Refusal::TooHeavy { hot }),
            Ok(Movable { hot }) => {
                self.moved += 1;
                self.left = self.left.saturating_sub(i64::try_from(task.load).unwrap_or(i64::MAX));
                let then = match () {
                    () if rules.preemptible && rules.pass == Pass::Newidle => Some(Stop::OneForNewidle),
                    () if self.left <= 0 => Some(Stop::Enough),
                    () => None,
                };
                Offer::Take { hot, then }
            }
        }
    }

    /// Starts over for another destination of the same group, as 4.5 does when [`Detach::nearby`] holds.
    pub fn redirect(&mut self) {
        (self.looked_at, self.next_break, self.nearby) = (0, BREAK, false);
    }

    /// Load still wanted; 0 or less when enough moved.
    pub fn left(&self) -> i64 {
        self.left
    }
    /// Tasks moved so far.
    pub fn moved(&self) -> u32 {
        self.moved
    }
    /// No task seen could run on the destination. Also true when none was looked at, as when nothing was wanted: the
    /// kernel then takes the source out of consideration and looks for another group and queue.
    pub fn all_pinned(&self) -> bool {
        self.all_pinned
    }
    /// Some task could not run on the destination.
    pub fn some_pinned(&self) -> bool {
        self.some_pinned
    }
    /// Some task could run on another CPU of the destination's group, and load is still wanted (4.5, not newidle).
    pub fn nearby(&self) -> bool {
        self.nearby && self.left > 0
    }
}

#[cfg(test)]
#[path = "detach_tests.rs"]
mod tests;
