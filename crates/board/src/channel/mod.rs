//! Pipes and sockets. [`buffer`]: contents and their limits. [`lock`]: the lock and its waiters. [`state`]: the
//! channels of a run and an operation under way. [`exchange`]: bytes in and out, and the tasks that they wake.
//! [`poll`]: a task that waits on several ends. [`price`]: the cost of calls.

pub mod buffer;
pub mod drive;
pub mod exchange;
pub mod lock;
pub mod poll;
pub mod price;
pub mod state;
