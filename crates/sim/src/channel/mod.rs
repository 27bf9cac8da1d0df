//! Pipes and sockets. Rules: contents and their limits ([`buffer`]), the lock and its waiters (`lock`). [`state`]: the
//! channels of a run and an operation under way. `drive` takes a task's calls through time, `poll` a task that waits on
//! several ends.

pub mod buffer;
mod drive;
mod lock;
mod poll;
pub mod state;
