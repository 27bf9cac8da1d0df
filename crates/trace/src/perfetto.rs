//! A run as a Perfetto trace, for ui.perfetto.dev and all tools that read ftrace events from it.
//!
//! The scheduler's events are ftrace events, by CPU, as a recorder on a kernel writes them: switches, wakeups,
//! migrations, new tasks, idle states. So the reader's own views of CPUs and threads work, and its tables of the
//! scheduler. Beside them stand tracks for what a kernel does not report:
//! - each CPU's number of runnable tasks, a counter;
//! - the passes of each CPU's balancer, with level, reason, tasks moved and CPUs read;
//! - on each thread: why it was placed on a CPU, why it had to give one up, why it was moved, and arrows (flows) from
//!   the task that woke it.
//!
//! What readers of the format need (Perfetto v58): the system's name first, since the layout of `prev_state` depends on
//! the kernel's version; a switch away before the wakeup of the same thread ([`points`](crate::points)); a thread's
//! process before its first event. Times are of the clock "boottime", which here begins with the run. Packets may stand
//! in any order in the file; readers sort them by time.
//!
//! Two runs go into one file one after the other. The second one's CPUs and threads get numbers behind those of the
//! first ([`Side`]).

mod bundle;
pub mod message;
pub mod messages;
mod names;
mod pen;
mod run;
mod side;
#[cfg(test)]
mod tests;
mod track;
mod tracks;
mod wire;
mod write;

pub use run::Run;
pub use side::Side;
pub use write::Perfetto;

/// The most CPUs of a file: readers drop events of higher ones.
pub const MOST_CPUS: usize = 4096;
