//! The clock and the queue: which CPU acts next. This module knows nothing of scheduling.
//!
//! Each CPU has one armed time (the earliest of its frame's end, tick, timers, arriving IPI); a winner tree finds the
//! earliest. Re-arming is a leaf write with early exit: no tombstones, no allocation, no heap.

mod tree;

pub use tree::WinnerTree;

/// A time that never comes.
pub const NEVER: u64 = u64::MAX;
