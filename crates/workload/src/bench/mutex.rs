//! A mutex in one futex word, for use in programs: free, held, or held while tasks may sleep on it.
//!
//! Without contention no system call is made. A task that has slept takes the mutex in the third state, because others
//! may still sleep. That may cost a needless wake, but no wake is ever lost.

use crate::op::{Env, Op, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WANTED: u32 = 2;

/// One task's handle of a mutex.
pub struct Mutex {
    word: WordId,
    /// Whether it has slept since it began to take it.
    slept: bool,
}

impl Mutex {
    /// The mutex in `word`, which is free when 0.
    pub fn new(word: WordId) -> Mutex {
        Mutex { word, slept: false }
    }
    /// Tries to take it: `None` when the task now holds it, else the wait after which to call again.
    pub fn take(&mut self, env: &mut dyn Env) -> Option<Op> {
        let word = env.word(self.word);
        if !self.slept && word.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_ok() {
            return None;
        }
        self.slept = word.swap(WANTED, SeqCst) != FREE;
        self.slept.then_some(Op::Wait { word: self.word, value: WANTED, until: Ns::MAX })
    }
    /// Releases it; gives the wake when a task may sleep on it.
    pub fn release(&self, env: &mut dyn Env) -> Option<Op> {
        let found = env.word(self.word).swap(FREE, SeqCst);
        debug_assert_ne!(found, FREE, "released by one who does not hold it");
        (found == WANTED).then_some(Op::Wake { word: self.word, count: 1 })
    }
}

#[cfg(test)]
#[path = "mutex_tests.rs"]
mod tests;
