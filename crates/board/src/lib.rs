//! The simulated machine without its kernel: programs in user mode, their system calls, pipes and sockets, links,
//! caches, the queue of events.
//!
//! Two crates are kernels of it: `sim` by our rules, `transplant` by the kernel's own code. Programs, channels, words
//! of user space and private caches do not belong to the scheduler. There is one version of each, here: rules in plain
//! state, and drivers that take them through time ([`drivers`]). A kernel that implements [`board::Kernel`] gets the
//! drivers. So the same program takes the same steps at the same prices under both, and only the scheduler can make two
//! runs differ.
//!
//! # One operation
//!
//! 1. A stretch of user mode ends: the kernel calls [`user_done`](user::UserMode::user_done).
//! 2. [`ask`](calls::Calls::ask) gets the program's next operation; [`perform`](calls::Calls::perform) turns it into
//!    work or a [`Call`](calls::Call), and prices that.
//! 3. The kernel lets the price pass ([`call_after`](board::Kernel::call_after)) and calls
//!    [`effect`](calls::Calls::effect). Words, channels and sets of ends are changed here. Timers, forks, attributes
//!    and exits are the kernel's ([`kernel_call`](board::Kernel::kernel_call)).
//! 4. Tasks that the call wakes are in its CPU's [`Seat`](board::Seat). The kernel wakes them one after another, and
//!    [`end_call`](calls::Calls::end_call) follows.
//!
//! States of single decisions, for questions to both kernels, are in [`decision`].
//!
//! Terms:
//!
//! - *Slot*: a thing that can act next: a CPU, a machine behind a link, the writer from outside ([`engine`]).
//! - *Word*, *cell*: user memory that tasks share ([`words`]).
//! - *Channel*: a pipe or a pair of sockets. A *transfer* is a task's unfinished call on it ([`channel`]).
//! - *Object*: what the kernel keeps of a channel, a word or a task, as cache lines ([`objects`]).
//! - *Work*: time on a fastest CPU alone on its core; [`speed`] converts it to time and back.
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
pub mod objects;
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

/// A seed with this bit: the kernel draws nothing, and has 0 where it would draw. This makes two sides with dice of
/// their own comparable.
pub const NO_DICE: u64 = 1 << 62;

/// The kernel's clock when a run begins, ns: a tick at any HZ, and the beginning of a period of load averages (2^20
/// ns), like time 0 of our rules. Otherwise the averages of both would differ by a part of a period.
pub const BEGINS_AT: u64 = 81_920_000_000;
const _: () = assert!(BEGINS_AT.is_multiple_of(1 << 20) && BEGINS_AT.is_multiple_of(10_000_000));
