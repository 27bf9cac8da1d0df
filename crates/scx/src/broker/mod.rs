//! Runs a scheduler's own program, unmodified, without root: its system calls that matter are answered here.
//!
//! # Problem
//!
//! A sched_ext scheduler is often a program: it reads the machine's topology, sets constants, sizes maps, loads its BPF
//! by bpf(2), attaches, and then prints statistics or even decides, until it is asked to end. All of that is to work on
//! a simulated machine with a simulated kernel, with nothing of the program guessed or left out.
//!
//! ```text
//! PROGRAM --seccomp notification--> session: dispatches a call  --> bpf/      maps, programs, links -> Scheduler
//!    ^      (filter, call_table)                                 --> files     a table of paths -> the machine's tree
//!    |                                                           --> time      clocks and sleeps -> Kernel::sleep
//!    |                                                           --> timers    files of timers, SIGALRM
//!    |                                                           --> identity  process and threads, signals
//!    +---------- answer, or a file put into its table -----------+-> calls     CPUs, names, random numbers
//! ```
//!
//! # Invariants
//!
//! The program gets what [`call_table`] and the table of [`paths`] permit, and nothing else: what it asked for in vain
//! is in the [`Outcome`]. It is one process, with threads; it opens no file for writing, reaches no bpf(2), no network
//! and no other process, and ends with its broker. No path and no struct of its memory is read again by this machine's
//! kernel after the broker has looked at it. While the far side
//! ([`Kernel`]) runs, all its threads sleep; while one of them runs, simulated time stands still. Instructions of the
//! processor (`rdtsc`, `cpuid`) are this machine's.

mod bpf;
mod call_table;
mod calls;
mod errno;
mod files;
mod filter;
mod identity;
mod kernel;
mod memory;
mod notify;
mod output;
mod paths;
mod process;
mod session;
mod sockets;
mod spawn;
mod stat;
pub mod sysfs;
mod time;
mod timers;
mod tree;
mod waits;

pub use errno::Errno;
pub use kernel::{Attach, Entry, Kernel, Wake};
pub use paths::Refusal;
pub use session::{BTF, Outcome, run};
pub use spawn::is_available;
pub use tree::{Node, Tree};

use std::path::PathBuf;
use std::time::Duration;

/// What to start, and what it sees.
#[derive(Clone, Debug)]
pub struct Request {
    pub program: PathBuf,
    pub arguments: Vec<String>,
    /// All of its environment.
    pub environment: Vec<(String, String)>,
    /// Files and folders that it may read, beside what the table of paths gives.
    pub readable: Vec<PathBuf>,
    /// The simulated machine's files ([`sysfs::files`]), with the simulated kernel's BTF at [`BTF`], as programs see
    /// it: kfuncs without their implicit arguments.
    pub tree: Tree,
    /// Possible CPUs of the simulated machine, from 0 on.
    pub cpus: u32,
    /// Memory of the simulated machine.
    pub memory_bytes: u64,
    /// The simulated kernel's release, as uname(2) has it.
    pub release: String,
    /// The simulated time when the program starts.
    pub start_ns: u64,
    /// A program that lets no simulated time pass for as long is ended.
    pub patience: Duration,
}

#[cfg(test)]
mod tests;
