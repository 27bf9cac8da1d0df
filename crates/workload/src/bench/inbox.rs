//! A queue of messages without content, put in by any task and taken out by one: a count, and a wait when it is empty.

use crate::build::Builder;
use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

/// The state that a queue's tasks share.
#[derive(Clone)]
pub struct Inbox {
    /// Messages put in, modulo 2^32. The task that takes them waits on this word.
    put: WordId,
    /// 1 while that task sleeps or is about to. The task that sets it back to 0 owes the wake, unless it is the
    /// sleeper.
    sleeps: SlotId,
}

impl Inbox {
    pub fn new(b: &mut Builder) -> Inbox {
        Inbox { put: b.word(), sleeps: b.slot() }
    }
    /// Puts a message in; gives the wake if the other task sleeps.
    pub fn put(&self, env: &mut dyn Env) -> Option<Op> {
        // Add first and look then. The other task does it in the other order, so that one of them sees the other.
        env.word(self.put).fetch_add(1, SeqCst);
        let owed = env.slot(self.sleeps).load(SeqCst) == 1 && env.slot(self.sleeps).swap(0, SeqCst) == 1;
        owed.then_some(Op::Wake { word: self.put, count: 1 })
    }
}

/// The side that takes messages out.
pub struct Intake {
    inbox: Inbox,
    /// Messages taken, modulo 2^32.
    taken: u32,
}

impl Intake {
    /// The one task that takes messages out of `inbox`.
    pub fn new(inbox: Inbox) -> Intake {
        Intake { inbox, taken: 0 }
    }
    /// Takes a message: `None` when it has one, else the wait after which to call again.
    pub fn take(&mut self, env: &mut dyn Env) -> Option<Op> {
        let Inbox { put, sleeps } = self.inbox;
        if env.word(put).load(SeqCst) == self.taken {
            env.slot(sleeps).store(1, SeqCst);
            return Some(Op::Wait { word: put, value: self.taken, until: Ns::MAX });
        }
        env.slot(sleeps).store(0, SeqCst);
        self.taken = self.taken.wrapping_add(1);
        None
    }
}
