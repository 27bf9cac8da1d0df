//! The longest waits so far: a heap of limited size whose top is the shortest wait kept.
//!
//! Ties are broken by time and task, earlier first, so that the waits kept do not depend on the order of the heap.

use super::queues::Steps;
use super::state::Pending;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::SwitchReason;
use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

/// A wait that may be among the longest.
#[derive(Clone, Copy, Debug)]
pub(super) struct LongWait {
    pub length_ns: u64,
    pub woken_at: Ns,
    pub task: TaskId,
    pub pending: Pending,
    pub ran_on: CpuId,
    pub ended_by: Option<TaskId>,
    pub ended_why: SwitchReason,
    pub idle_exit_ns: u32,
    pub steps: Steps,
}

type Rank = (u64, Reverse<Ns>, Reverse<TaskId>);

impl LongWait {
    fn rank(&self) -> Rank {
        (self.length_ns, Reverse(self.woken_at), Reverse(self.task))
    }
}

impl PartialEq for LongWait {
    fn eq(&self, other: &LongWait) -> bool {
        self.rank() == other.rank()
    }
}
impl Eq for LongWait {}
impl PartialOrd for LongWait {
    fn partial_cmp(&self, other: &LongWait) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for LongWait {
    fn cmp(&self, other: &LongWait) -> Ordering {
        self.rank().cmp(&other.rank())
    }
}

/// The longest waits, up to a fixed number.
pub(super) struct Worst {
    heap: BinaryHeap<Reverse<LongWait>>,
    limit: usize,
}

impl Worst {
    pub fn new(limit: usize) -> Worst {
        Worst { heap: BinaryHeap::with_capacity(limit), limit }
    }
    /// Keeps the wait if it is among the longest. `wait` is called only then.
    #[inline]
    pub fn offer(&mut self, length_ns: u64, woken_at: Ns, task: TaskId, wait: impl FnOnce() -> LongWait) {
        if self.heap.len() < self.limit {
            self.heap.push(Reverse(wait()));
        } else if let Some(Reverse(shortest)) = self.heap.peek()
            && (length_ns, Reverse(woken_at), Reverse(task)) > shortest.rank()
            && let Some(mut top) = self.heap.peek_mut()
        {
            *top = Reverse(wait());
        }
    }
    /// The waits, longest first.
    pub fn into_sorted(self) -> Vec<LongWait> {
        self.heap.into_sorted_vec().into_iter().map(|Reverse(w)| w).collect()
    }
}
