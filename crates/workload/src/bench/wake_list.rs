//! schbench's messages: workers put themselves on a lock-free list and post the message thread. It takes the whole
//! list, stamps it once, and wakes the workers one by one, the last arrival first.
//!
//! A futex word shows whether its thread may sleep or was posted; a poster makes the system call only if the thread may
//! sleep. Both versions of schbench use this.

use crate::build::Builder;
use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// Value of the futex word if its thread may sleep.
pub const BLOCKED: u32 = 0;
/// Value of the word if its thread was posted.
pub const POSTED: u32 = 1;
/// The empty list; otherwise a cell holds a worker's number plus one.
pub const NOBODY: u64 = 0;

/// State shared by a message thread and its workers.
#[derive(Clone)]
pub struct Hub {
    /// The word on which the message thread waits.
    pub word: WordId,
    /// Head of the list of waiting workers, last poster first.
    head: SlotId,
}

/// A worker's state, shared with its message thread.
#[derive(Clone)]
pub struct Seat {
    /// The word on which the worker waits.
    pub word: WordId,
    /// The next worker on the list.
    next: SlotId,
    /// Time at which the message thread took the list with this worker, ns.
    wake_time: SlotId,
}

/// Marks the thread of `word` as posted. Returns a wake if the thread may sleep.
pub fn post(word: WordId, env: &mut dyn Env) -> Option<Op> {
    (env.word(word).swap(POSTED, SeqCst) == BLOCKED).then_some(Op::Wake { word, count: 1 })
}

impl Hub {
    pub fn new(b: &mut Builder) -> Hub {
        Hub { word: b.word(), head: b.slot() }
    }
    /// Takes the list, stamps all its workers with one time, and returns its first cell.
    pub fn splice(&self, seats: &[Seat], env: &mut dyn Env) -> u64 {
        env.word(self.word).store(BLOCKED, SeqCst);
        let list = env.slot(self.head).swap(NOBODY, SeqCst);
        if list == NOBODY {
            return list;
        }
        let (now, mut cell) = (env.now(), list);
        while cell != NOBODY {
            let seat = &seats[cell as usize - 1];
            env.slot(seat.wake_time).store(now.0, SeqCst);
            cell = env.slot(seat.next).load(SeqCst);
        }
        list
    }
}

impl Seat {
    pub fn new(b: &mut Builder) -> Seat {
        Seat { word: b.word(), next: b.slot(), wake_time: b.slot() }
    }
    /// Puts worker `number` of the hub on the list; this seat is the worker's.
    pub fn enlist(&self, hub: &Hub, number: u64, env: &mut dyn Env) {
        env.word(self.word).store(BLOCKED, SeqCst);
        let head = env.slot(hub.head);
        let mut top = head.load(Acquire);
        loop {
            env.slot(self.next).store(top, Relaxed);
            match head.compare_exchange(top, number + 1, SeqCst, Acquire) {
                Ok(_) => return,
                Err(seen) => top = seen,
            }
        }
    }
    /// The next cell on the list. Read it before posting the worker: a running worker may enlist again.
    pub fn below(&self, env: &mut dyn Env) -> u64 {
        env.slot(self.next).load(SeqCst)
    }
    /// Whether the worker is not posted yet: a signal woke it, or the wakeup was spurious.
    pub fn blocked(&self, env: &mut dyn Env) -> bool {
        env.word(self.word).load(SeqCst) == BLOCKED
    }
    /// The time since the message thread took the list with the worker.
    pub fn waited(&self, now: Ns, env: &mut dyn Env) -> Ns {
        now.since(Ns(env.slot(self.wake_time).load(SeqCst)))
    }
}
