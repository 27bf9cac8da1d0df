//! The Linux scheduler, simulated: the scheduling code of many releases, on any machine, in simulated time.
//!
//! # Problem
//!
//! A change to the scheduler shows its effect in decisions: on which CPU a task wakes up, which task runs next, what
//! a balance pass moves. On a real machine these decisions are hard to repeat and hard to observe, and a kernel has
//! to be built for each variant. This crate makes the same decisions by the same rules, in the order of time in which
//! CPUs would make them, and writes each one down as an event. [`simulate`] takes a machine, a kernel, a workload and
//! a seed ([`Setup`]), sends the events to a sink, and returns what events do not carry ([`SimReport`]).
//!
//! A simulator fits this problem because a decision depends on what other CPUs are doing at that nanosecond. A model
//! of averages would lose that. A real kernel has it, but does not repeat it.
//!
//! # Terms
//!
//! - *CPU*: a hardware thread of the simulated machine. Each has a runqueue, a clock, timers, and at most three
//!   frames of activity: task, softirq and hardirq context (`frame.rs`).
//! - *Task*: what the scheduler runs. A *program* (`schedlab_workload::Program`) decides what the task does next; the
//!   simulator asks it for an operation (compute, sleep, wait for a word, send) whenever the last one is done.
//! - *Entity*: what a fair queue holds: a task, or the queue of a task group on that CPU. Paths walk from an entity
//!   to its parents, as the kernel's do.
//! - *Runqueue*: the tasks of one CPU. The fair class keeps a `cfs_rq` for each group and CPU; other classes keep
//!   arrays. What other CPUs read of a runqueue is in dense vectors (`rq/`).
//! - *Rule*: a pure function, or state with methods, that decides something from facts. It never sees the machine.
//! - *Driver*: a file with `impl System`. It collects the facts, calls the rule, charges the time and applies the
//!   outcome.
//! - *Decision*: what a rule answers, with the reason. Reasons are data: records hold them (`schedlab_trace`).
//! - *Step*: a stretch of one CPU's activity with a cost, such as one probe of a search or the rest of a system call.
//!   It ends at an absolute time and takes effect then.
//! - *Turn*: on deterministic guests all CPUs share one processor, one after the other ([`turns`]). Elsewhere CPUs
//!   run at the same time.
//!
//! # Layers
//!
//! From below:
//!
//! 1. **Rules and state** do not import drivers, so that each can be read and tested without a machine
//!    (`tests/it/layers.rs` checks it). Examples: [`pelt`], `fair/eevdf/pick.rs`, `wakeup/first_idle.rs`,
//!    `balance/spare/busiest.rs`.
//! 2. **`System`** (`system.rs`) is one kernel as a value. Its state is in groups, each defined by the room that owns
//!    it.
//! 3. **Drivers** take rules through time. Folders and files have the kernel's names: `wakeup/drive.rs` is
//!    `try_to_wake_up`, `balance/drive/` is `load_balance`, `schedule.rs` is `schedule()`.
//! 4. **The run** (`run.rs`) sets tasks up, finds the CPU that acts next, and draws up the accounts at the end.
//!
//! Releases do not appear in the code. The `kernel` crate's chronology resolves a version to flags once, and a rule
//! asks `history.some_mechanism`. What can be switched at run time is a feature or a tunable.
//!
//! # One wakeup, file by file
//!
//! Task A, on CPU 3, wakes task B, which ran on CPU 7 last.
//!
//! 1. `board/src/calls.rs`: A's work is done. Its program answers with `Op::Wake`, and a system call begins.
//! 2. The same file: when the call has taken its time, `futex_wake` takes B off the word's waiters and puts it on the
//!    CPU's list `to_wake`. `on_board.rs` is where the board meets our rules.
//! 3. `wakeup/drive.rs`: `next_wakeup` begins with B and emits `Waking`. `wakeup_step` waits while B is still being
//!    switched out on CPU 7 (`settle`).
//! 4. `wakeup/target.rs`, `affine.rs`, `wide.rs`: `select_task_rq_fair` chooses CPU 3 or CPU 7 as the target.
//! 5. `wakeup/prelude.rs`: quick answers are tried first (is the target idle, is B's previous CPU).
//! 6. `wakeup/search.rs` and one file for each search: the search names one CPU after the other. The driver reads
//!    whether that CPU is idle, at the price of its cache line (`remote_reads.rs`), and time passes before the next
//!    one.
//! 7. `wakeup/drive.rs` again: `placed` emits the choice with its reason. Time passes; the chosen CPU may find other
//!    work meanwhile, as on a real machine. `wakeup_enqueue` puts B on the queue.
//! 8. `class.rs`, `fair/class.rs`, `fair/eevdf/`: B is placed on the timeline of each level, load averages are
//!    brought up to date, and `wakeup_preempt` decides whether B preempts.
//! 9. `schedule.rs`: if it does, the CPU is signalled (`resched`, `kick`). `interrupt.rs` receives the signal, and
//!    `schedule()` picks B there.
//!
//! # Rooms
//!
//! Rooms carry the kernel's names.
//!
//! - The core (`core.c`): `system.rs`, `fixed.rs`, `cpu.rs`, `task.rs` and `frame.rs` are the state; `run.rs`,
//!   `outside.rs`, `observe.rs` and `invariants.rs` the run; `schedule.rs`, `interrupt.rs`, `fork.rs` and `set_up.rs`
//!   the core's own paths; `rq/` the runqueue whatever the class; `preempt/` preemption models.
//! - `class.rs` is the seam to the classes (`SchedClass`, `sched.h`). `fair/` is the fair class: `early/`, `cfs/` and
//!   `eevdf/` hold the rules before 2.6.32, up to 6.5 and since 6.6 as equals, `rules.rs` what differs between them,
//!   `group/` task groups with quotas and idle groups. `rt/` has SCHED_FIFO and SCHED_RR with the fair server, `o1/`
//!   the scheduler before 2.6.23.
//! - `wakeup/`: `target` (waker's or previous CPU), `prelude` (quick answers), a file for each search.
//! - `balance/` (`load_balance`): `average/` and `spare/` (since 5.5) are two families of pure rules, `drive/` takes
//!   both through time: `pass`, `newidle`, `periodic`, `nohz`, `idlest_walk`.
//! - `idle/` (idle loop, menu), `timer.rs` (hrtimers), `pelt/`, `cpu_load.rs` and `util_est.rs` (load averages),
//!   `schedstat.rs`.
//! - `on_board.rs` makes a kernel of the board of it; `syscall.rs` has the calls that are the kernel's own. User mode,
//!   other calls, pipes and sockets, locks of user space and links are in [`schedlab_board`].
//! - Other machines: `nested/` has virtual machines, each a `System` whose CPUs are threads of another one; `net/`
//!   machines behind a link; `turns/` CPUs of a deterministic guest. Nothing in `System` is global, so a guest's kernel
//!   is of any release.
//! - `remote_reads.rs`, `costs.rs` and `cache_by_level/` price remote state and moves; `booted.rs` is the slow state of
//!   a machine that was up and idle.
//!
//! Tasks, entities and queues are separate arenas (`self.tasks[t]`, `self.entities[e]`, `self.queues[q]`).
//!
//! # Time and determinism
//!
//! Time is integer nanoseconds since the run began. Nothing reads a real clock, nothing decides by a float, and no hash
//! map is walked (`.ci/tidy` checks it). The main loop asks each CPU for its next event and lets the earliest act;
//! equal times are ordered by draws that are keyed by the seed ([`schedlab_board::engine`]). A CPU acts alone at its
//! instant, and may continue at once as long as no other CPU could come first (`System::at_once`). That merging of
//! steps changes no byte ([`simulate_unmerged`], `tests/it/merging.rs`).
//!
//! Three rules of time matter for whoever reads a driver. User mode is *work left and the time of the last account*: an
//! interrupt, a busy sibling or a refill may stretch it. `schedule()` has two instants: a task leaves `nr_running` at
//! its dequeue and stays current to the end of the switch. A scan is a resumable step: it reads each CPU's state at the
//! instant of its answer, so the choice of an idle CPU is no reservation.
//!
//! Random draws have a key (seed, purpose, number), so that one more draw in one place moves no other. The same
//! version, setup and seed give the same events, on any thread and any machine (`tests/it/determinism.rs`).
//!
//! # Costs
//!
//! Kernel paths cost what the machine's `costs` say. Remote state costs by distance, and only if it has changed since
//! this CPU read it last (`remote_reads.rs`). Moving a task costs its working set: by one private cache for each core
//! ([`schedlab_board::cache_by_core`]), or, where a machine lists its caches, by level, line and sharing
//! ([`cache_by_level`]).
//!
//! # What is checked
//!
//! Drivers assert cheap invariants in debug builds. Charged time is compared with elapsed time at the end of every
//! run, in release, too. `Setup::check` walks all queues after every step (`invariants.rs`), as tests do.
//!
//! # What is not modelled
//!
//! Headers of rooms and files end with "Not modelled". Changes to decisions in known releases that no profile has are
//! in the chronology's table (`kernel/src/history/unmodelled.rs`, docs/chronology.md). How far simulated figures
//! agree with real kernels is in docs/fidelity.md.

// The crate is not published: a comment says what its item does not.

mod affinity;
pub mod balance;
pub mod booted;
pub mod cache_by_level;
mod class;
pub mod costs;
mod cpu;
pub mod cpu_load;
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
mod on_board;
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
mod syscall;
mod system;
mod task;
mod timer;
pub mod turns;
pub mod util_est;
pub mod wakeup;

pub use nested::set_up::Guests;
pub use net::set_up::Unlinked;
pub use schedlab_board::report::{SimReport, TaskAccount};
pub use wakeup::Explainer;

#[cfg(test)]
mod upkeep_tests;

use schedlab_base::{Ns, Result};
use schedlab_kernel::Kernel;
use schedlab_machine::Machine;
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

/// Runs a simulation to its workload's end.
///
/// # Errors
/// When the workload asks for a CPU that the machine lacks.
pub fn simulate(setup: Setup<'_>, sink: &mut dyn Sink) -> Result<SimReport> {
    run::run(setup, true, None, sink)
}

/// Runs a simulation without merging steps: a CPU whose next step comes first again is still armed and found again.
/// Slower, with the same bytes; a test checks that.
///
/// # Errors
/// As [`simulate`].
pub fn simulate_unmerged(setup: Setup<'_>, sink: &mut dyn Sink) -> Result<SimReport> {
    run::run(setup, false, None, sink)
}

/// Runs a simulation and checks the expensive invariants every `every` steps (at most 4096); the bytes are the same.
/// Suited to long runs of large machines, where a check takes longer than thousands of steps.
///
/// # Errors
/// As [`simulate`], and an invariant that does not hold.
pub fn simulate_walking(setup: Setup<'_>, every: u64, sink: &mut dyn Sink) -> Result<SimReport> {
    run::run(setup, true, Some(every), sink)
}
