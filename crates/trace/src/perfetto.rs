//! A run as a Perfetto trace, for ui.perfetto.dev and all tools that read ftrace events from it.
//!
//! The scheduler's events are ftrace events by CPU, as a recorder on a kernel writes them: switches, wakeups,
//! migrations, new tasks, idle states. So a reader's usual views of CPUs and threads work, and its scheduler tables.
//! Additional tracks show facts that a kernel does not report:
//! - each CPU's number of runnable tasks, a counter;
//! - the balancer's passes on each CPU, with level, reason, moved tasks and read CPUs;
//! - on each thread: the reasons why it was placed on a CPU, had to leave one, or was moved, and arrows (flows) from
//!   the task that woke it.
//!
//! Readers of the format (Perfetto v58) need the system's name first, since the layout of `prev_state` depends on the
//! kernel's version; a switch away before the wakeup of the same thread ([`points`](crate::points)); and a thread's
//! process before its first event. Times are of the clock "boottime", which here begins with the run. Packets may have
//! any order in the file; readers sort them by time.
//!
//! Two runs are written into a file one after the other. The second one's CPUs and threads get higher numbers than the
//! first one's ([`Side`]).

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

/// The maximal number of CPUs in a file: readers drop events of higher ones.
pub const MOST_CPUS: usize = 4096;
