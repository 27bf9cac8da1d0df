//! Pipes and sockets: contents, waiters and lock are rules ([`buffer`], `lock`); `drive` takes calls through time.

pub mod buffer;
mod drive;
mod lock;
pub mod state;
