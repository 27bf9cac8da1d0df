//! The locks of a channel, and the tasks that wait for them.
//!
//! A pipe has a mutex (`fs/pipe.c`), held while bytes are copied. A UNIX socket has a spinlock (`net/unix/af_unix.c`),
//! held while a message is linked into the queue or out of it. Waiters for either spin, as a mutex's waiters do while
//! its owner runs (`mutex_spin_on_owner`, `osq_lock`), and get the lock in their order of arrival. A task that comes to
//! a free mutex goes ahead of its waiters. Where lines have owners, a mutex is free for anybody until the line of the
//! first that tries has come.
//!
//! A socket's sleepers have a spinlock, too (`sk_wq`). Who finds one that sleeps takes it, and holds it while
//! `try_to_wake_up()` works: others that bring messages meanwhile still see the sleeper, and wait for the lock.
//!
//! Not modelled: a waiter sleeps if the owner does not run (here no owner is preempted) or another task needs its CPU;
//! a task that has waited long is handed the mutex; the mutex of a socket's readers (`iolock`), which matters where
//! several tasks read one socket. Nothing here takes time; the driver adds that.

use schedlab_base::TaskId;
use schedlab_workload::ChannelKind;
use std::collections::VecDeque;

/// One round of waiting for a lock, ns: a load, a comparison, a pause.
pub const POLL_NS: u64 = 30;

/// The lock of one direction of a channel.
#[derive(Debug)]
pub struct Lock {
    held: Option<TaskId>,
    /// The waiters, oldest first.
    spinners: VecDeque<TaskId>,
    /// A mutex: a task that comes while it is free gets it, ahead of the waiters.
    mutex: bool,
}

impl Lock {
    /// A free lock; up to `waiters` tasks wait for it without an allocation.
    pub fn new(kind: ChannelKind, waiters: usize) -> Lock {
        Lock { held: None, spinners: VecDeque::with_capacity(waiters), mutex: kind == ChannelKind::Pipe }
    }

    /// Takes the lock for `task`; `false` if it has to wait. A waiter is queued and asks again.
    #[inline]
    pub fn take(&mut self, task: TaskId) -> bool {
        debug_assert!(self.held != Some(task), "{task:?} takes a lock that it holds");
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
        debug_assert!(!self.spinners.contains(&task), "{task:?} holds a lock and waits for it");
        true
    }

    /// Whether a task holds the lock.
    #[inline]
    pub fn is_held(&self) -> bool {
        self.held.is_some()
    }

    /// The task that has waited longest.
    #[inline]
    pub fn first(&self) -> Option<TaskId> {
        self.spinners.front().copied()
    }

    /// Whether `task` holds the lock or waits for it.
    #[inline]
    pub fn concerns(&self, task: TaskId) -> bool {
        self.held == Some(task) || self.spinners.contains(&task)
    }

    /// The tasks that hold the lock, or wait for it.
    pub fn concerned(&self) -> impl Iterator<Item = TaskId> + '_ {
        self.held.into_iter().chain(self.spinners.iter().copied())
    }

    /// Releases the lock if `task` holds it. Returns the task that has waited longest.
    #[inline]
    pub fn release(&mut self, task: TaskId) -> Option<TaskId> {
        debug_assert!(
            self.held.is_none_or(|owner| owner == task),
            "{task:?} releases the lock of {:?}",
            self.held
        );
        if self.held == Some(task) {
            self.held = None;
        }
        self.first()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_go_to_the_oldest_waiter_and_a_free_mutex_to_a_newcomer() {
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
