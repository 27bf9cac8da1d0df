//! A mutex in one futex word for programs: free, held, or held with possible sleepers.
//!
//! Without contention there is no system call. A task that has slept takes the mutex in the third state, because others
//! may still sleep. That may cause a needless wake, but never loses one.

use crate::op::{Env, Op, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

const FREE: u32 = 0;
const HELD: u32 = 1;
const WANTED: u32 = 2;

pub struct Mutex {
    word: WordId,
    /// Whether it has slept while taking the mutex.
    slept: bool,
}

impl Mutex {
    /// A mutex in `word`; 0 means free.
    pub fn new(word: WordId) -> Mutex {
        Mutex { word, slept: false }
    }
    /// Tries to take it. `None`: the task holds it; else the wait after which to call again.
    pub fn take(&mut self, env: &mut dyn Env) -> Option<Op> {
        let word = env.word(self.word);
        if !self.slept && word.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_ok() {
            return None;
        }
        self.slept = word.swap(WANTED, SeqCst) != FREE;
        self.slept.then_some(Op::Wait { word: self.word, value: WANTED, until: Ns::MAX })
    }
    /// Releases it; returns a wake if a task may sleep on it.
    pub fn release(&self, env: &mut dyn Env) -> Option<Op> {
        let found = env.word(self.word).swap(FREE, SeqCst);
        debug_assert_ne!(found, FREE, "released by one who does not hold it");
        (found == WANTED).then_some(Op::Wake { word: self.word, count: 1 })
    }
}

#[cfg(test)]
#[path = "mutex_tests.rs"]
mod tests;
