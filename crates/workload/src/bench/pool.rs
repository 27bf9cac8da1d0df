//! A pool of connections for programs: a task borrows one, and waits if all are lent.
//!
//! The most recently returned connection is lent first, because its tasks are warm. A waiting task has no priority: any
//! task that finds a free connection gets it.

use super::mutex::Mutex;
use crate::build::Builder;
use crate::op::{Env, Op, SlotId, WordId};
use schedlab_base::Ns;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;

/// The state that a pool's tasks share.
#[derive(Clone)]
pub struct Pool {
    lock: WordId,
    lent: SlotId,
    /// Returned connections, as a stack from the bottom up, followed by those never lent. A cell has the connection's
    /// number plus one; 0 means that its connection has the number of the cell.
    stack: Arc<[SlotId]>,
    /// Number of waiting tasks.
    waiting: SlotId,
    /// Number of returns to waiting tasks, modulo 2^32. They wait on this word.
    returned: WordId,
}

impl Pool {
    pub fn new(connections: usize, b: &mut Builder) -> Pool {
        Pool {
            lock: b.word(),
            lent: b.slot(),
            stack: (0..connections).map(|_| b.slot()).collect(),
            waiting: b.slot(),
            returned: b.word(),
        }
    }
    pub fn loan(&self) -> Loan {
        Loan { pool: self.clone(), lock: Mutex::new(self.lock), state: State::Outside, connection: 0 }
    }
}

enum State {
    Outside,
    /// Counted as waiting: waits or has just stopped waiting.
    Waiting,
    /// About to wait: releases the lock first.
    Sleep(u32),
    /// Has a connection; must still release the lock.
    Got,
    Has,
    /// Has returned the connection; wakes a waiting task.
    Wake,
}

/// One task's borrowing and returning.
pub struct Loan {
    pool: Pool,
    lock: Mutex,
    state: State,
    connection: usize,
}

impl Loan {
    pub fn connection(&self) -> usize {
        self.connection
    }
    /// The next operation to borrow a connection; `None`: the task has it.
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
    /// With the lock held: takes a connection, or decides to sleep.
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
    /// The next operation to return the connection; `None`: done.
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
