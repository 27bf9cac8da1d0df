//! State: the words and cells of user space, and the tasks that wait or spin for them.

use schedlab_base::TaskId;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Memory that programs share, and the tasks that wait for it.
#[derive(Default)]
pub struct UserMemory {
    /// Futex words.
    pub words: Vec<AtomicU32>,
    /// Shared cells.
    pub slots: Vec<AtomicU64>,
    /// Waiters of each word, oldest first.
    pub waiters: Vec<VecDeque<TaskId>>,
    /// Tasks that spin for a lock, by its word, those that came first at the front.
    pub spinners: Vec<VecDeque<TaskId>>,
}

impl UserMemory {
    /// All words and cells are 0 from now on.
    pub fn lay_out(&mut self, words: usize, slots: usize) {
        self.words = (0..words).map(|_| AtomicU32::new(0)).collect();
        self.slots = (0..slots).map(|_| AtomicU64::new(0)).collect();
        self.waiters = vec![VecDeque::new(); words];
        self.spinners = vec![VecDeque::new(); words];
    }
}
