//! The lock of a channel's buffer, and who waits for it.
//!
//! A pipe has a mutex (`fs/pipe.c`), held while bytes are copied, a UNIX socket a spinlock
//! (`net/unix/af_unix.c`), held while a message is linked into the queue or out of it. Who waits for either
//! spins, as a mutex's waiters do while its owner runs (`mutex_spin_on_owner`, `osq_lock`), and they have it
//! in the order in which they came; but one who comes to a mutex while it is free goes past them. Left out:
//! that a waiter sleeps, because the owner does not run (no call is preempted in the kernel here) or somebody
//! else wants its CPU, that one who has waited long is handed the mutex, and the mutex of a socket's readers
//! (`iolock`), which matters where several read one socket. Nothing here takes time: [`crate::transfer`]
//! does.

use schedlab_base::TaskId;
use schedlab_workload::ChannelKind;
use std::collections::VecDeque;

/// One round of waiting for a lock, ns: a load, a comparison, a pause.
pub const POLL_NS: u64 = 30;

/// The lock of one direction of a channel.
#[derive(Debug)]
pub struct Lock {
    held: Option<TaskId>,
    /// Who waits, oldest first.
    spinners: VecDeque<TaskId>,
    /// Who comes while it is free has it, whoever waits.
    mutex: bool,
}

impl Lock {
    /// One that is free; so many wait for it without a need for memory.
    pub fn new(kind: ChannelKind, waiters: usize) -> Lock {
        Lock { held: None, spinners: VecDeque::with_capacity(waiters), mutex: kind == ChannelKind::Pipe }
    }

    /// Whether `task` has it now; if not it waits for it from now on, and asks again.
    pub fn take(&mut self, task: TaskId) -> bool {
        let waits = self.spinners.contains(&task);
        let next = self.spinners.front().is_none_or(|first| *first == task);
        if self.held.is_some() || !(next || self.mutex && !waits) {
            if !waits {
                self.spinners.push_back(task);
            }
            return false;
        }
        if waits {
            self.spinners.pop_front();
        }
        self.held = Some(task);
        true
    }

    /// `task` gives it back, if it has it.
    pub fn release(&mut self, task: TaskId) {
        debug_assert!(self.held.is_none_or(|owner| owner == task), "given back by one who has not got it");
        if self.held == Some(task) {
            self.held = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_go_to_who_came_first_and_a_mutex_that_is_free_to_who_comes() {
        let (a, b, c) = (TaskId(0), TaskId(1), TaskId(2));
        for (kind, steals) in [(ChannelKind::Pipe, true), (ChannelKind::Unix, false)] {
            let mut lock = Lock::new(kind, 3);
            assert!(lock.take(a));
            assert!(!lock.take(b) && !lock.take(b) && !lock.take(c));
            lock.release(a);
            assert!(!lock.take(c), "b has waited longer");
            assert_eq!(lock.take(a), steals, "{kind:?}: a comes while it is free");
            lock.release(a);
            lock.spinners.retain(|t| *t != a);
            assert!(lock.take(b), "{kind:?}");
            assert!(!lock.take(c));
            lock.release(b);
            assert!(lock.take(c), "{kind:?}");
        }
    }
}
