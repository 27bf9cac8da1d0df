//! What surrounds the scheduler on a simulated machine: the clock's queue, what programs share and call, speed, caches.
//!
//! Two crates simulate kernels: `sim` by our rules, `transplant` by the kernel's own code. Programs, pipes, sockets,
//! words of user space and private caches are not the scheduler's, and there is one model of each, here. Everything is
//! state with pure rules. Nothing here takes time and nothing knows a runqueue: the drivers of both crates take these
//! rules through time. Both answer questions about single decisions, whose states are here, too ([`decision`]).
//!
//! Terms:
//!
//! - *Slot*: what can act next: a CPU, a machine behind a link, the writer from outside ([`engine`]).
//! - *Word*, *cell*: user memory that tasks share ([`words`]).
//! - *Channel*: a pipe or a pair of sockets. A *transfer* is a task's unfinished call on it ([`channel`]).
//! - *Work*: time of a fastest CPU alone on its core; [`speed`] converts it to time and back.
//!
//! Times are ns since the run began, sizes bytes or KB as the names say. Draws are keyed, never taken in turn.

#![allow(missing_docs)]

pub mod arrivals;
pub mod board;
pub mod cache_by_core;
pub mod cache_by_level;
pub mod calls;
pub mod channel;
pub mod decision;
pub mod engine;
pub mod env;
pub mod links;
pub mod masks;
pub mod nested;
pub mod net;
pub mod preempt;
pub mod report;
pub mod ring;
pub mod speed;
pub mod spin;
pub mod thread;
pub mod turns;
pub mod user;
pub mod words;

/// The drivers that a kernel has by its board.
pub mod drivers {
    pub use crate::calls::Calls;
    pub use crate::channel::drive::Transfers;
    pub use crate::links::Links;
    pub use crate::spin::Spins;
    pub use crate::user::UserMode;
}

/// A seed with this bit: the kernel draws nothing, and has 0 where it would draw. Two sides with dice of their own can
/// be compared so.
pub const NO_DICE: u64 = 1 << 62;

/// The kernel's clock when a run begins, ns: a tick at any HZ, and the beginning of a period of load averages (2^20
/// ns), as time 0 is by our rules. Else the averages of both would differ by a part of a period.
pub const BEGINS_AT: u64 = 81_920_000_000;
const _: () = assert!(BEGINS_AT.is_multiple_of(1 << 20) && BEGINS_AT.is_multiple_of(10_000_000));
