//! Pipes and sockets. [`buffer`]: contents and their limits. [`lock`]: the lock and its waiters. [`state`]: the
//! channels of a run and an operation under way. [`exchange`]: bytes in and out, and whom that wakes. [`poll`]: a task
//! that waits on several ends. [`price`]: what calls cost.

pub mod buffer;
pub mod drive;
pub mod exchange;
pub mod lock;
pub mod poll;
pub mod price;
pub mod state;
