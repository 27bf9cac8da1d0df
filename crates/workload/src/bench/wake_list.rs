//! schbench's messages: workers put themselves on a lock-free list and post the message thread, which takes the whole
//! list, stamps it once, and wakes one worker after the other. The worker that came last is woken first.
//!
//! A futex word shows whether its thread may sleep or was posted; a poster makes the system call only if the thread may
//! sleep. Both forms of schbench use this.

use crate::build::Builder;
use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// The value of a futex word whose thread may sleep.
pub const BLOCKED: u32 = 0;
/// The value of the word of a thread that was posted.
pub const POSTED: u32 = 1;
/// The empty list; otherwise a cell holds a worker's number plus one.
pub const NOBODY: u64 = 0;

/// The state that a message thread shares with its workers.
#[derive(Clone)]
pub struct Hub {
    /// The word it waits on.
    pub word: WordId,
    /// Head of the list of waiting workers, last poster first.
    head: SlotId,
}

/// The state that a worker shares with its message thread.
#[derive(Clone)]
pub struct Seat {
    /// The word it waits on.
    pub word: WordId,
    /// The worker below on the list.
    next: SlotId,
    /// The time at which the message thread took the list that held this worker, ns.
    wake_time: SlotId,
}

/// Marks the thread behind `word` as posted. Gives the call that wakes it if it may sleep.
pub fn post(word: WordId, env: &mut dyn Env) -> Option<Op> {
    (env.word(word).swap(POSTED, SeqCst) == BLOCKED).then_some(Op::Wake { word, count: 1 })
}

impl Hub {
    /// A message thread's.
    pub fn new(b: &mut Builder) -> Hub {
        Hub { word: b.word(), head: b.slot() }
    }
    /// Takes the list, with one time stamp for all workers on it, and gives its first cell.
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
    /// Puts worker `number` of the hub, whose seat this is, on the list.
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
    /// The cell below on the list. Read it before the worker is posted: a running worker may enlist again.
    pub fn below(&self, env: &mut dyn Env) -> u64 {
        env.slot(self.next).load(SeqCst)
    }
    /// Whether the worker is not posted yet: then a signal woke it, or it woke spuriously.
    pub fn blocked(&self, env: &mut dyn Env) -> bool {
        env.word(self.word).load(SeqCst) == BLOCKED
    }
    /// The time since the message thread took the list that held the worker.
    pub fn waited(&self, now: Ns, env: &mut dyn Env) -> Ns {
        now.since(Ns(env.slot(self.wake_time).load(SeqCst)))
    }
}
