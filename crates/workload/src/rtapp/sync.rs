//! Mutexes, conditions and barriers as sub-machines. They use only futex waits and wakes, so engines need not know
//! them.
//!
//! A sub-machine is polled whenever its task is on a CPU again: it returns the next operation, or `None` once it is
//! done. The mutex is the three-state futex lock of C libraries (0 free, 1 held, 2 held with possible waiters), so an
//! uncontended lock or unlock needs no operation. A waker does not hand the mutex over: the first task to run gets it.
//!
//! rt-app treats every return from a condition wait as a signal, so a spurious return would be an additional event.
//! Conditions here count waiters and permits: a signal without a waiter is lost, each signal releases one waiter, and a
//! waiter without a permit sleeps again. Barriers are cyclic, with a generation in the word; in rt-app's own, a fast
//! thread can pass twice before the others have left.

use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::atomic::Ordering::SeqCst;

/// "All waiters" in a futex call.
const ALL: u32 = i32::MAX as u32;

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;

#[derive(Clone, Copy, Debug)]
pub struct Mutex(pub WordId);

impl Mutex {
    pub fn lock(self) -> Locking {
        Locking { mutex: self, contended: false }
    }
    /// Releases it; returns a wake if a task may be waiting.
    pub fn unlock(self, env: &mut dyn Env) -> Option<Op> {
        let waited_for = env.word(self.0).swap(FREE, SeqCst) == CONTENDED;
        waited_for.then_some(Op::Wake { word: self.0, count: 1 })
    }
}

/// The state of taking a mutex.
#[derive(Debug)]
pub struct Locking {
    mutex: Mutex,
    contended: bool,
}

impl Locking {
    /// The next operation; `None`: the mutex is held.
    pub fn poll(&mut self, env: &mut dyn Env) -> Option<Op> {
        let word = env.word(self.mutex.0);
        if !self.contended && word.compare_exchange(FREE, HELD, SeqCst, SeqCst).is_ok() {
            return None;
        }
        // A task that had to wait can't know whether others still wait, so it takes the lock as contended.
        self.contended = true;
        let was = word.swap(CONTENDED, SeqCst);
        (was != FREE).then_some(Op::Wait { word: self.mutex.0, value: CONTENDED, until: Ns::MAX })
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// Counts signals; waiters sleep on this word.
    pub word: WordId,
    /// Waiters (high half) and permits not yet taken (low half). There are never more permits than waiters.
    pub count: SlotId,
}

const ONE_WAITER: u64 = 1 << 32;

impl Condition {
    /// Begins to wait; the mutex must be held, and is released while waiting.
    pub fn wait(self, mutex: Mutex) -> Waiting {
        Waiting { condition: self, mutex, state: WaitState::Enter }
    }
    /// Releases one waiter.
    pub fn signal(self, env: &mut dyn Env) -> Option<Op> {
        self.permit(env, 1, 1)
    }
    /// Releases all waiters.
    pub fn broadcast(self, env: &mut dyn Env) -> Option<Op> {
        self.permit(env, u64::from(u32::MAX), ALL)
    }
    /// Adds up to `more` permits, one per waiter without one; returns a wake if it added any.
    fn permit(self, env: &mut dyn Env, more: u64, count: u32) -> Option<Op> {
        let add = |c: u64| {
            let (waiters, permits) = (c >> 32, c & (ONE_WAITER - 1));
            (waiters > permits).then(|| c + more.min(waiters - permits))
        };
        env.slot(self.count).fetch_update(SeqCst, SeqCst, add).ok()?;
        env.word(self.word).fetch_add(1, SeqCst);
        Some(Op::Wake { word: self.word, count })
    }
    /// Takes a permit and leaves, if there is one.
    fn leave(self, env: &mut dyn Env) -> bool {
        let take = |c: u64| (c & (ONE_WAITER - 1) > 0).then(|| c - ONE_WAITER - 1);
        env.slot(self.count).fetch_update(SeqCst, SeqCst, take).is_ok()
    }
}

#[derive(Debug)]
pub struct Waiting {
    condition: Condition,
    mutex: Mutex,
    state: WaitState,
}

#[derive(Debug)]
enum WaitState {
    /// Holds the mutex; not counted yet.
    Enter,
    /// Will sleep while the word has this value.
    Sleep(u32),
    /// Back from sleep.
    Woken,
    /// Has a permit: takes the mutex again.
    Relock(Locking),
}

impl Waiting {
    /// The next operation; `None`: signalled, and the mutex is held again.
    pub fn poll(&mut self, env: &mut dyn Env) -> Option<Op> {
        loop {
            match &mut self.state {
                WaitState::Enter => {
                    env.slot(self.condition.count).fetch_add(ONE_WAITER, SeqCst);
                    self.state = WaitState::Sleep(env.word(self.condition.word).load(SeqCst));
                    if let Some(wake) = self.mutex.unlock(env) {
                        return Some(wake);
                    }
                }
                WaitState::Sleep(value) => {
                    let wait = Op::Wait { word: self.condition.word, value: *value, until: Ns::MAX };
                    self.state = WaitState::Woken;
                    return Some(wait);
                }
                WaitState::Woken => {
                    // Read the word first: a later permit changes it, so that the sleep ends at once.
                    let value = env.word(self.condition.word).load(SeqCst);
                    self.state = match self.condition.leave(env) {
                        true => WaitState::Relock(self.mutex.lock()),
                        false => WaitState::Sleep(value),
                    };
                }
                WaitState::Relock(locking) => return locking.poll(env),
            }
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Barrier {
    /// Generation; early threads sleep on this word.
    pub word: WordId,
    /// Number of threads that have arrived in this generation.
    pub arrived: SlotId,
    /// Number of threads that must arrive.
    pub users: u64,
}

impl Barrier {
    pub fn arrive(self) -> Arriving {
        Arriving { barrier: self, state: ArriveState::Coming }
    }
}

/// The state of passing a barrier.
#[derive(Debug)]
pub struct Arriving {
    barrier: Barrier,
    state: ArriveState,
}

#[derive(Debug)]
enum ArriveState {
    Coming,
    /// Waits for the end of this generation.
    Early(u32),
    Through,
}

impl Arriving {
    /// The next operation; `None`: all have arrived.
    pub fn poll(&mut self, env: &mut dyn Env) -> Option<Op> {
        let Barrier { word, arrived, users } = self.barrier;
        if let ArriveState::Coming = self.state {
            // Read the generation first: it can't end before this thread is counted.
            let generation = env.word(word).load(SeqCst);
            if env.slot(arrived).fetch_add(1, SeqCst) + 1 == users {
                env.slot(arrived).store(0, SeqCst);
                env.word(word).fetch_add(1, SeqCst);
                self.state = ArriveState::Through;
                return Some(Op::Wake { word, count: ALL });
            }
            self.state = ArriveState::Early(generation);
        }
        match self.state {
            ArriveState::Early(generation) if env.word(word).load(SeqCst) == generation => {
                Some(Op::Wait { word, value: generation, until: Ns::MAX })
            }
            _ => None,
        }
    }
}
