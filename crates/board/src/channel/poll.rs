//! A task that waits on several ends together: `epoll_wait` on sockets, level-triggered (`fs/eventpoll.c`).
//!
//! Each set keeps a list of ends that received something, in the order of arrival. A call takes the first of them, up
//! to [`BATCH`], and drops those that were read empty meanwhile; the others go back to the end of the list. The program
//! gets them one by one and makes the next call when all are dealt with, as event loops do. A write to an end of a set
//! wakes the task that sleeps on it; such a wakeup is not WF_SYNC. The newest kernels pass WF_SYNC on here, which is
//! not modelled.
//!
//! Costs: the call is a system call without a price of its own, and a sleep costs as much as one at a socket. The
//! writer's callback is not charged.

use super::state::{BATCH, Channels, PollSet};
use schedlab_base::TaskId;
use schedlab_workload::{PortId, SetId};

impl Channels {
    /// Something came for `end`; returns the task that sleeps on its set.
    #[inline]
    pub fn came(&mut self, end: PortId) -> Option<TaskId> {
        let set = &mut self.sets[self.set_of.get(end.index()).copied().flatten()?.index()];
        if !std::mem::replace(&mut self.listed[end.index()], true) {
            debug_assert!(!set.came.contains(&end), "end {} is on its set's list unnoticed", end.0);
            set.came.push_back(end);
        }
        set.sleeper.take()
    }
    /// A task that sleeps on a set, and an end of it with something to read. There must be none; for tests.
    #[inline]
    pub fn slept_on(&self) -> Option<(TaskId, PortId)> {
        let has_news = |end: &&PortId| !self.buffers[end.index()].is_empty();
        self.sets.iter().find_map(|set| Some((set.sleeper?, *set.came.iter().find(has_news)?)))
    }
    /// The next end with something to read, among those that the set has found or finds now. `None`: the task sleeps
    /// from now on.
    #[inline]
    pub fn next_found(&mut self, set: SetId, task: TaskId) -> Option<PortId> {
        if self.sets[set.index()].found.is_empty() {
            self.find(set);
        }
        let own = &mut self.sets[set.index()];
        let end = own.found.pop_front();
        if end.is_none() {
            let other = own.sleeper.filter(|other| *other != task);
            debug_assert!(other.is_none(), "{task:?} and {other:?} sleep on one set");
            own.sleeper = Some(task);
        }
        end
    }
    /// Finds the ends with something to read.
    #[inline]
    pub fn find(&mut self, set: SetId) {
        let PollSet { came, found, .. } = &mut self.sets[set.index()];
        for _ in 0..came.len() {
            if found.len() == BATCH {
                break;
            }
            let Some(end) = came.pop_front() else { break };
            if self.buffers[end.index()].is_empty() {
                self.listed[end.index()] = false;
            } else {
                came.push_back(end);
                found.push_back(end);
            }
        }
    }
}
