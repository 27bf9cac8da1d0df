//! One runqueue: its entities, and the questions to a fair class about it.

use schedlab_kernel::Policy;

/// An entity of a state, by the values that its queue orders it by. Times are virtual ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedEntity {
    pub vruntime: i64,
    /// A distance while `relative`.
    pub deadline: i64,
    /// The lag that it kept while it was on no queue.
    pub lag: i64,
    /// The vruntime at which its protection ends, while it runs.
    pub protected_until: i64,
    /// The slice it has asked for, ns; 0: none.
    pub slice_ns: u32,
    pub policy: Policy,
    pub nice: i8,
    pub relative: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueQuestion {
    /// Which entity runs next.
    Pick,
    /// Where an entity that is on no queue starts.
    Place,
    /// Whether an entity that has just been queued preempts the current one.
    Preempt,
}

/// A queue's state, and the question about it. Entities are named by their place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AskedQueue {
    /// In the order in which they were queued.
    pub entities: Vec<AskedEntity>,
    pub current: Option<usize>,
    /// The entity that is on no queue.
    pub absent: Option<usize>,
    pub next: Option<usize>,
    pub last: Option<usize>,
    pub skip: Option<usize>,
    /// The queue's floor; under EEVDF its virtual time while it is empty.
    pub min_vruntime: i64,
    /// Time for which the current entity has run since it was charged, ns.
    pub ran_ns: u64,
    /// The entity to place, or the one that may preempt.
    pub about: usize,
    pub is_new: bool,
    /// Its waker is about to sleep.
    pub sync: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueAnswer {
    Picked(Option<usize>),
    /// Virtual ns; the deadline is 0 where entities have none.
    Placed {
        vruntime: i64,
        deadline: i64,
    },
    /// Whether the current entity is to give way, and the buddy then.
    Judged {
        preempts: bool,
        next: Option<usize>,
    },
}
