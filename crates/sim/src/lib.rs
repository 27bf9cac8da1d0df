//! The kernel, simulated: fair and real-time classes by version, on any machine, deterministic.

// The crate is not published: a comment says what its item does not.
#![allow(missing_docs)]

mod affinity;
mod background;
pub mod balance;
pub mod booted;
mod cache_by_core;
pub mod cache_by_level;
pub mod channel;
mod class;
pub mod costs;
mod cpu;
pub mod cpu_load;
pub mod engine;
pub mod fair;
mod fixed;
mod fork;
mod frame;
pub mod idle;
mod interrupt;
mod invariants;
mod nested;
mod net;
pub mod o1;
mod observe;
mod outside;
pub mod pelt;
mod preempt;
mod remote_reads;
mod rq;
mod rt;
mod run;
mod schedstat;
mod schedule;
mod set_up;
mod speed;
mod spinlock;
mod syscall;
mod system;
mod task;
mod timer;
pub mod turns;
mod user;
mod user_memory;
pub mod util_est;
pub mod wakeup;

#[cfg(test)]
mod upkeep_tests;

use schedlab_base::{Ns, Result};
use schedlab_kernel::Kernel;
use schedlab_machine::Machine;
use schedlab_record::Findings;
use schedlab_trace::Sink;
use schedlab_workload::Built;
use std::sync::atomic::{AtomicBool, AtomicU64};

/// The full input of a simulation.
pub struct Setup<'a> {
    pub machine: &'a Machine,
    pub kernel: Kernel,
    /// Other features and tunables of the same kernel, each from its time on, ns since the run began, in order of time.
    /// HZ and state that is built at the start do not change.
    pub changes: Vec<(Ns, Kernel)>,
    /// The workload, built with the same seed.
    pub workload: Built,
    /// Seed of the run.
    pub seed: u64,
    /// Whether the machine's background tasks run.
    pub background: bool,
    /// Whether the expensive invariants are checked (tests); the cheap ones always are.
    pub check: bool,
    /// Ends the run early when it becomes true.
    pub stop: Option<&'a AtomicBool>,
    /// The run stores its progress here from time to time, simulated ns.
    pub clock: Option<&'a AtomicU64>,
}

/// CPU time and work of one task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TaskAccount {
    pub name: String,
    /// Whether it belongs to the machine and not to the workload.
    pub background: bool,
    /// Simulated time of its end: `None` if it never began, `u64::MAX` if it was there at the end of the run.
    pub ended: Option<Ns>,
    /// Time on a CPU, ns, since the warm-up ended.
    pub cpu_time_ns: u64,
    /// Work done, ns of a CPU at full speed, since the warm-up ended.
    pub work_ns: u64,
}

/// The results of a simulation beside the events that went to its sink.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SimReport {
    /// Simulated time at the end.
    pub end: Ns,
    /// Figures that events do not carry: counters by dotted metric name ("work", "smt.shared_time",
    /// "balance.newidle_time"), the counters of /proc/schedstat since the warm-up ended, the programs' measurements by
    /// interval. An analyser adds the rest.
    pub found: Findings,
    /// Tasks by id: workload tasks first.
    pub tasks: Vec<TaskAccount>,
    /// Events processed.
    pub events: u64,
    pub wakeups: u64,
    /// The time, from the end of the warm-up, of the first change that was not made: the run was over before it.
    pub missed: Option<Ns>,
    /// Whether `stop` ended it early.
    pub stopped: bool,
}

/// Runs a simulation to its workload's end.
///
/// # Errors
/// When the workload asks for a CPU that the machine lacks.
pub fn simulate<S: Sink>(setup: Setup<'_>, sink: &mut S) -> Result<SimReport> {
    run::run(setup, true, None, sink)
}

/// Runs a simulation without merging steps: a CPU whose next step comes first again is still armed and found again.
/// Slower, with the same bytes; a test checks that.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_unmerged<S: Sink>(setup: Setup<'_>, sink: &mut S) -> Result<SimReport> {
    run::run(setup, false, None, sink)
}

/// Runs a simulation and checks the expensive invariants every `every` steps (at most 4096); the bytes are the same.
/// Suited to long runs of large machines, where a check takes longer than thousands of steps.
///
/// # Errors
/// As [`simulate`], and an invariant that does not hold.
pub fn simulate_walking<S: Sink>(setup: Setup<'_>, every: u64, sink: &mut S) -> Result<SimReport> {
    run::run(setup, true, Some(every), sink)
}
