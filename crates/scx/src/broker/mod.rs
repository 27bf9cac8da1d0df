//! Runs a scheduler's own program, unmodified, without root: its system calls that matter are answered here.
//!
//! # Problem
//!
//! A sched_ext scheduler is often a program: it reads the machine's topology, sets constants, sizes maps, loads its BPF
//! by bpf(2), attaches, and then prints statistics or even decides, until it is asked to end. All of that is to work on
//! a simulated machine with a simulated kernel, with nothing of the program guessed or left out.
//!
//! ```text
//! PROGRAM --seccomp notification--> session: dispatches a call  --> bpf/   maps, programs, links -> Scheduler
//!    ^                                                           --> files  a table of paths -> the machine's tree
//!    |                                                           --> time   clocks and sleeps -> Kernel::sleep
//!    +---------- answer, or a file put into its table -----------+-> calls  CPUs, names, random numbers
//! ```
//!
//! # Invariants
//!
//! The program never reaches the machine's own bpf(2). It opens no file for writing. While the far side ([`Kernel`])
//! runs, all its threads sleep; while one of them runs, simulated time stands still. This is not a sandbox for a
//! hostile program: it runs as the user who started it, with the rights that the user has, less those that the filter
//! takes.

mod bpf;
mod calls;
mod errno;
mod files;
mod filter;
mod kernel;
mod memory;
mod notify;
mod output;
mod paths;
mod process;
mod session;
mod sockets;
mod spawn;
pub mod sysfs;
mod time;

pub use errno::Errno;
pub use kernel::{Attach, Entry, Kernel, Wake};
pub use paths::Refusal;
pub use session::{Outcome, run};
pub use spawn::is_available;

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
    /// The simulated machine's files: `TREE/sys/devices/system/cpu` and so on ([`sysfs`]).
    pub tree: PathBuf,
    /// The simulated kernel's BTF as programs see it: kfuncs without their implicit arguments.
    pub btf: PathBuf,
    /// Possible CPUs of the simulated machine, from 0 on.
    pub cpus: u32,
    /// The simulated kernel's release, as uname(2) has it.
    pub release: String,
    /// The simulated time when the program starts.
    pub start_ns: u64,
    /// A program that does nothing for as long is ended.
    pub patience: Duration,
}

#[cfg(test)]
mod tests;
