//! A pool of connections, for use in programs: a task borrows one, and waits while all are lent.
//!
//! The connection that came back last is lent first, so that its tasks are warm. A task that waited is not preferred: a
//! task that comes while a connection is free gets it.

use super::mutex::Mutex;
use crate::build::Builder;
use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The state that the tasks of a pool share.
#[derive(Clone)]
pub struct Pool {
    lock: WordId,
    lent: SlotId,
    /// Numbers of the connections that came back, as a stack from its bottom; those that were never lent yet follow
    /// from their own numbers. A cell holds a number plus one, 0 for the connection of the cell's own place.
    stack: Arc<[SlotId]>,
    /// Tasks that wait.
    waiting: SlotId,
    /// Counts returns to waiting tasks, modulo 2^32. They wait on this word.
    returned: WordId,
}

impl Pool {
    /// A pool of this many connections, numbered from 0.
    pub fn new(connections: usize, b: &mut Builder) -> Pool {
        Pool {
            lock: b.word(),
            lent: b.slot(),
            stack: (0..connections).map(|_| b.slot()).collect(),
            waiting: b.slot(),
            returned: b.word(),
        }
    }
    /// A task's handle.
    pub fn loan(&self) -> Loan {
        Loan { pool: self.clone(), lock: Mutex::new(self.lock), state: State::Outside, connection: 0 }
    }
}

enum State {
    Outside,
    /// It waits, or is back from it, and is counted among the waiting.
    Waiting,
    /// It is to wait: the lock is released.
    Sleep(u32),
    /// It has a connection; the lock is still to be released.
    Got,
    Has,
    /// It has given the connection back; wake a waiting task.
    Wake,
}

/// One task's borrowing and giving back.
pub struct Loan {
    pool: Pool,
    lock: Mutex,
    state: State,
    connection: usize,
}

impl Loan {
    /// The connection that the task has.
    pub fn connection(&self) -> usize {
        self.connection
    }
    /// The next operation to borrow a connection; `None` when the task has it.
    pub fn borrow(&mut self, env: &mut dyn Env) -> Option<Op> {
        loop {
            match self.state {
                State::Outside | State::Waiting => {
                    if let Some(wait) = self.lock.take(env) {
                        return Some(wait);
                    }
                    self.look(env);
                    if let Some(wake) = self.lock.release(env) {
                        return Some(wake);
                    }
                }
                State::Sleep(value) => {
                    self.state = State::Waiting;
                    return Some(Op::Wait { word: self.pool.returned, value, until: Ns::MAX });
                }
                State::Got | State::Has | State::Wake => {
                    debug_assert!(!matches!(self.state, State::Wake), "it has not been given back in full");
                    self.state = State::Has;
                    return None;
                }
            }
        }
    }
    /// Under the lock: takes a connection, or is to sleep.
    fn look(&mut self, env: &mut dyn Env) {
        let Pool { lent, stack, waiting, returned, .. } = &self.pool;
        if let State::Waiting = self.state {
            env.slot(*waiting).fetch_sub(1, SeqCst);
        }
        let out = env.slot(*lent).load(SeqCst) as usize;
        if out == stack.len() {
            env.slot(*waiting).fetch_add(1, SeqCst);
            self.state = State::Sleep(env.word(*returned).load(SeqCst));
            return;
        }
        let cell = env.slot(stack[out]).load(SeqCst) as usize;
        self.connection = if cell == 0 { out } else { cell - 1 };
        env.slot(*lent).store(out as u64 + 1, SeqCst);
        self.state = State::Got;
    }
    /// The next operation to give the connection back; `None` when it is done.
    pub fn give_back(&mut self, env: &mut dyn Env) -> Option<Op> {
        if let State::Has = self.state {
            if let Some(wait) = self.lock.take(env) {
                return Some(wait);
            }
            let Pool { lent, stack, waiting, returned, .. } = &self.pool;
            let out = env.slot(*lent).load(SeqCst) - 1;
            env.slot(*lent).store(out, SeqCst);
            env.slot(stack[out as usize]).store(self.connection as u64 + 1, SeqCst);
            let wanted = env.slot(*waiting).load(SeqCst) > 0;
            if wanted {
                env.word(*returned).fetch_add(1, SeqCst);
            }
            self.state = if wanted { State::Wake } else { State::Outside };
            if let Some(wake) = self.lock.release(env) {
                return Some(wake);
            }
        }
        if let State::Wake = self.state {
            self.state = State::Outside;
            return Some(Op::Wake { word: self.pool.returned, count: 1 });
        }
        None
    }
}

#[cfg(test)]
#[path = "pool_tests.rs"]
mod tests;
