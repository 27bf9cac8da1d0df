//! One CPU whose tasks are in groups, some of them delayed, and the questions to a fair class about it.

use super::AskedEntity;

/// The groups of a state, each with its parent. They are always the same; a state uses some of them.
pub const TREE_GROUPS: [Option<usize>; 5] = [None, None, Some(0), Some(0), Some(2)];
/// Tasks of a state at most.
pub const TREE_TASKS: usize = 10;

/// Whether and how an entity is queued.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Presence {
    /// On no queue.
    Absent,
    Queued,
    /// Asleep, and still queued.
    Delayed,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedLeaf {
    pub entity: AskedEntity,
    pub group: Option<usize>,
    pub presence: Presence,
    /// Its weight among all tasks of the CPU, in units of 1/1024, where groups divide it (7.3).
    pub line_weight: u64,
}

/// A group, with its entity and queue on the CPU. Its entity is on a queue if it has queued tasks, or is delayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedBranch {
    pub entity: AskedEntity,
    /// The weight that it was last given, in units of 1/1024.
    pub weight: u64,
    pub delayed: bool,
    pub idle: bool,
    pub shares: u64,
    /// Load averages of its queue here and of its queues elsewhere.
    pub load: u64,
    pub load_elsewhere: u64,
    /// Its runnable tasks, averaged, times 1024.
    pub runnable: u64,
}

/// A queue's next buddy; groups above it are buddies, too.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Buddy {
    Task(usize),
    Group(usize),
}

/// A CPU's tasks and groups, and the question about them. Tasks and groups are named by their places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedTree {
    /// In the order in which they were queued.
    pub tasks: Vec<AskedLeaf>,
    /// One for each of [`TREE_GROUPS`].
    pub groups: Vec<AskedBranch>,
    pub current: Option<usize>,
    pub next: Option<Buddy>,
    /// The floor of all queues; under EEVDF the virtual time of those that are empty.
    pub min_vruntime: i64,
    /// Time for which the current task has run since it was charged, ns.
    pub ran_ns: u64,
    /// The task that wakes up, falls asleep or may preempt.
    pub about: usize,
    pub is_new: bool,
    /// Its waker is about to sleep.
    pub sync: bool,
}

impl AskedTree {
    /// The groups above a task or group, the lowest first.
    pub fn above(group: Option<usize>) -> impl Iterator<Item = usize> {
        std::iter::successors(group, |g| TREE_GROUPS[*g])
    }
    /// Whether a group's entity is on a queue.
    pub fn is_queued(&self, group: usize) -> bool {
        let within = |g: Option<usize>| AskedTree::above(g).any(|above| above == group);
        let tasks = self.tasks.iter().any(|t| t.presence != Presence::Absent && within(t.group));
        // A delayed group keeps the groups above it queued.
        tasks || (0..self.groups.len()).any(|g| self.groups[g].delayed && within(Some(g)))
    }
    /// Whether one of a group's tasks runs.
    pub fn runs_below(&self, group: usize) -> bool {
        self.current.is_some_and(|c| AskedTree::above(self.tasks[c].group).any(|above| above == group))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeQuestion {
    /// Which task runs next.
    Pick,
    /// A task that is absent or delayed wakes up.
    Wake,
    /// A queued task falls asleep.
    Sleep,
    /// Whether a task that has just been queued preempts the current one.
    Preempt,
    /// A tick finds the current task running.
    Tick,
}

/// An entity's state after the question.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct After {
    pub on_rq: bool,
    pub delayed: bool,
    /// It is its queue's next buddy.
    pub next: bool,
    /// Its deadline is a distance.
    pub relative: bool,
    pub vruntime: i64,
    pub deadline: i64,
    /// Its lag; while it runs, its protection: the length, or before 6.17 whether it has one.
    pub keeps: i64,
    pub weight: u64,
    pub line_weight: u64,
}

impl After {
    /// The part that counts when answers are compared. `competes`: it is on a timeline when it is queued; `runs`: it
    /// was current; `deadlines`: its class has deadlines; `debts`: a delayed entity has kept its lag (7.1+).
    #[must_use]
    pub fn that_counts(mut self, competes: bool, runs: bool, deadlines: bool, debts: bool) -> After {
        if !competes {
            self.line_weight = 0;
            (self.vruntime, self.deadline, self.keeps, self.next, self.relative) = (0, 0, 0, false, false);
        }
        // A distance that an enqueue has left in place does not count until the entity leaves.
        self.relative &= !self.on_rq;
        if !deadlines {
            (self.deadline, self.keeps) = (0, 0);
        } else if !self.on_rq {
            // An entity that left keeps its lag and, if it was moved, the distance to its deadline.
            (self.vruntime, self.deadline) = (0, if self.relative { self.deadline } else { 0 });
        } else if if self.delayed { !debts } else { !runs } {
            self.keeps = 0;
        }
        self
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TreeAnswer {
    pub picked: Option<usize>,
    /// The current task is to give way.
    pub gives_way: bool,
    pub nr_running: u32,
    pub tasks: Vec<After>,
    pub groups: Vec<After>,
}
