//! The simulated machine without its kernel: programs in user mode, their system calls, pipes and sockets, links,
//! caches, the queue of events.
//!
//! Two crates are kernels of it: `sim` by our rules, `transplant` by the kernel's own code. Programs, channels, words
//! of user space and private caches are not the scheduler's, and there is one of each, here: rules in plain state, and
//! drivers that take them through time ([`drivers`]). A kernel implements [`board::Kernel`] and has the drivers by
//! that. So the same program takes the same steps at the same prices under both, and a difference between two runs is
//! the scheduler's.
//!
//! # One operation
//!
//! 1. A stretch of user mode ends: the kernel calls [`user_done`](user::UserMode::user_done).
//! 2. [`ask`](calls::Calls::ask) gets the program's next operation; [`perform`](calls::Calls::perform) makes work or a
//!    [`Call`](calls::Call) of it, and prices that.
//! 3. The kernel lets the price pass ([`call_after`](board::Kernel::call_after)) and calls
//!    [`effect`](calls::Calls::effect). Words, channels and sets of ends are changed here. Timers, forks, attributes
//!    and exits are the kernel's ([`kernel_call`](board::Kernel::kernel_call)).
//! 4. Tasks that the call wakes are in its CPU's [`Seat`](board::Seat). The kernel wakes them one after another, and
//!    [`end_call`](calls::Calls::end_call) follows.
//!
//! States of single decisions, which both kernels are asked about, are in [`decision`]. Cheap invariants are asserted
//! in debug builds; those that take a look at everything are in [`walk`].
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
pub mod run;
pub mod speed;
pub mod spin;
pub mod thread;
pub mod turns;
pub mod user;
pub mod walk;
pub mod words;

/// The drivers that a kernel has by its board.
pub mod drivers {
    pub use crate::calls::Calls;
    pub use crate::channel::drive::Transfers;
    pub use crate::links::Links;
    pub use crate::nested::drive::VirtualMachines;
    pub use crate::run::Runs;
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
