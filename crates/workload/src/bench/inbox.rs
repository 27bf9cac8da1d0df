//! A queue of empty messages from any task to one task: a count, and a wait while it is empty.

use crate::build::Builder;
use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

#[derive(Clone)]
pub struct Inbox {
    /// Number of messages put in, modulo 2^32. The taking task waits on this word.
    put: WordId,
    /// 1 while that task sleeps or is about to. The task that resets it to 0 must wake the sleeper, unless it is the
    /// sleeper.
    sleeps: SlotId,
}

impl Inbox {
    pub fn new(b: &mut Builder) -> Inbox {
        Inbox { put: b.word(), sleeps: b.slot() }
    }
    /// Puts a message in; returns a wake if the other task sleeps.
    pub fn put(&self, env: &mut dyn Env) -> Option<Op> {
        // Add first, then look. The other task does the reverse, so one of them sees the other.
        env.word(self.put).fetch_add(1, SeqCst);
        let owed = env.slot(self.sleeps).load(SeqCst) == 1 && env.slot(self.sleeps).swap(0, SeqCst) == 1;
        owed.then_some(Op::Wake { word: self.put, count: 1 })
    }
}

/// The receiving side.
pub struct Intake {
    inbox: Inbox,
    /// Number of messages taken, modulo 2^32.
    taken: u32,
}

impl Intake {
    /// For the one task that takes messages.
    pub fn new(inbox: Inbox) -> Intake {
        Intake { inbox, taken: 0 }
    }
    /// Takes a message. `None`: taken; else the wait after which to call again.
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
