//! The Linux scheduler's own code on simulated machines: `kernel/sched` of any tree, compiled unchanged.
//!
//! # Problem
//!
//! A model of a scheduler is as good as its author's reading of the code, and it does not know this morning's patch. A
//! guest runs the real code, but only on topologies that QEMU builds, and as fast as the host emulates them. This crate
//! takes the code itself. `kernel/sched` of a tree, with patches, decides where a task wakes up, who runs and for how
//! long, and which tasks a balance pass moves. Everything around it is simulated: CPUs, time, programs, system calls.
//! So one executable runs a patch on 224 CPUs without QEMU, and the same seed gives the same bytes.
//!
//! [`Rested::of`] boots a machine, and [`simulate`] runs a [`Setup`] on it. It sends the same events to a sink as the
//! crate `sim` does.
//!
//! # Picture
//!
//! ```text
//! lab/src/make/exec/code/process.rs starts a process for each machine at rest, and reads the records of its runs
//!   the process             holds one image, for good: the kernel's code has global state; its copies make the runs
//!     engine                this crate: the clock, interrupts, user mode, system calls, prices
//!       |  enters a CPU, sets the clock, calls a verb     ^  reads the view and the notes
//!     image (image.so)      kernel/sched of the tree, with hrtimers, ticks, softirqs, cpuidle
//!       shim/image/         C files of ours that stand for the rest of the kernel
//!       shim/include/asm/   an architecture, `arch/sim`, without hardware
//! ```
//!
//! `kernels/src/code/` builds the image: it lays `shim/` over the tree, finds by compiling which forms the tree has
//! (`shim/image/probes.c`; versions are never compared), and links a shared object. The image never calls the engine,
//! so nothing of the engine is borrowed while kernel code runs. `shim/abi.h` and `abi.rs` are the two sides of the
//! interface; the loader compares version and sizes.
//!
//! # Who owns what
//!
//! - *The tree's*: `kernel/sched` whole (classes, groups, quotas, domains, balancing, load averages), hrtimers, ticks,
//!   timer wheel, softirqs, stoppers, IPI queues, the idle loop with cpuidle's governors, `/proc/schedstat`, features
//!   and tunables, group files, tracepoints.
//! - *Ours*: topology, distances, capacities and idle states; each CPU's clock event device and the way of an
//!   interrupt; programs, memory and caches; system calls, channels and futexes by the models of `sim`, around
//!   `try_to_wake_up`.
//!
//! docs/code.md has this as a table, and names the limits of such a run.
//!
//! # Terms
//!
//! - *Verb*: a function of the image that the engine calls, such as "wake this task" (`img_wake`) or "the timer fires".
//!   It runs kernel code of the entered CPU to the end, at one instant of the kernel's clock.
//! - *View*: flags of the entered CPU after a verb: the idle task is current, a switch is due, the verb was left.
//! - *Note*: one action of kernel code during a verb: a switch, a wakeup, a timer that was set, an interrupt that
//!   was sent. Probes on the tree's own tracepoints write most notes. Switches, wakeups and moves of a run come from
//!   notes alone.
//! - *Price*: the simulated time of a verb. At level `free` it comes from the machine's costs, by note. At the other
//!   levels the image counts instructions and cache lines while it executes (`charge.rs`, `shim/image/cost.c`,
//!   `shim/image/lines.c`). The board says which lines of other objects a call touches (`shim/image/objects.c`).
//! - *Woven*: at levels `woven` and `exact` a verb may be *left* in the middle, where another CPU could have acted
//!   meanwhile. Each CPU has a stack for that (`shim/image/weave.c`). The engine lets the price pass and continues the
//!   verb at the CPU's next turn.
//! - *Horizon*: when another CPU acts next. A woven verb is left only once its own time has passed the horizon.
//! - *Visit*: one execution of a chosen place of the code, counted by a breakpoint (`visits.rs`); `try` counts visits
//!   to a patch's lines.
//!
//! # One wakeup, file by file
//!
//! Task A, on CPU 3, wakes task B by a futex.
//!
//! 1. `board/src/calls.rs`: A's work is done. `ask` gets `Op::Wake` from A's program, `price_ns` prices the call
//!    (`futex_wake_ns`), and `begin_call` adds the entry. Time passes.
//! 2. `engine.rs`: the path ends, and `act` comes to `Next::Call`. The board's `futex_wake` takes B off the word's
//!    waiters; `calls.rs`: `wake_next` enters the CPU and calls the verb.
//! 3. `verbs.rs`: `Image::wake` calls `img_do`. `shim/image/weave.c`: `img_do` runs `img_wake`, on the engine's stack
//!    or, where CPUs are woven, on one of the CPU's own. `img_wake` (`shim/image/verbs.c`) calls the tree's
//!    `try_to_wake_up`.
//! 4. The tree chooses a CPU, queues B there and sends an interrupt. Its tracepoints and `arch_smp_send_reschedule`
//!    leave notes (`shim/image/notes.c`).
//! 5. `engine.rs`: `follow` calls `take_notes`. `note.rs` decodes a note, and in `notes.rs` it becomes an event and a
//!    price: `sched_waking` is `EventKind::Waking`; `sched_wakeup` is `EventKind::Enqueued`, and costs `enqueue_ns` and
//!    a lock by distance; the reschedule note makes an interrupt due on B's CPU.
//! 6. `follow` lets the price pass. `wake_next` then takes the next waiter, or the call ends.
//! 7. On B's CPU `begin_interrupt` and `interrupt` call the verb `irq_resched`. `settle` looks at the view: an idle CPU
//!    leaves its idle loop (`Next::IdleLeave`), a busy one gives way on its return to user mode (`Next::Schedule`).
//!    Both are the tree's `schedule()`, whose switch note makes B current (`switched`). The board runs B's program.
//!
//! # When kernel code fails
//!
//! Faults that no kernel survives end the process: BUG, a wild access, a missing function (its stub is a page that
//! faults), an endless loop (`watchdog.rs`). `fault.rs` prints the reason and the calls, by function and line, and
//! exits with code 4; `lab/src/make/exec/image_process.rs` makes an error of it. Faults that a kernel survives are
//! warnings of the record: WARN and messages of errors by `kernel.rs`; broken invariants of tasks and queues, for which
//! `shim/image/audit.c` looks, by `findings.rs`. A lost task ends the run, by `Engine::fail`. A verb that refuses
//! returns an errno, which `kernel.rs` puts into words.
//!
//! # Invariants and files
//!
//! Times are ns; the engine's count from the run's begin, the image's are ahead by the time since its boot. A look
//! (view, audit, counters) changes nothing that a run computes. `load.rs`, `verbs.rs`, `fault.rs`, `symbols.rs`,
//! `watchdog.rs`, `visits.rs` and `charge.rs` are unsafe; all others are plain Rust. `rest.rs` boots and rests,
//! `run.rs` drives the clock, `turns.rs` does so for CPUs that take turns, `engine.rs`, `cpu.rs` and `task.rs` hold one
//! machine.
//! `ext.rs` puts a sched_ext scheduler into the image, `ext_program.rs` runs its program beside it, `ext_hook.rs` leads
//! functions to programs of BPF; in the image, `ext.c` has what the class asks of the rest of a kernel, and `bpf_*.c`
//! stand for BPF.
//! `oracle.rs`, `fleet.rs` and `tree.rs` ask an image about single decisions (`validate --rules`). Kernels behind links
//! and in virtual machines are `sim`'s: `lab` boots them, and the board sees traits.

#![allow(missing_docs)]

pub mod abi;
mod blocks;
mod calls;
mod charge;
mod choices;
mod cpu;
mod engine;
mod ext;
mod ext_abi;
mod ext_account;
mod ext_hook;
mod ext_maps;
mod ext_parts;
mod ext_place;
mod ext_program;
mod ext_setup;
mod ext_trace;
pub mod fault;
mod findings;
mod fleet;
mod judged;
mod kernel;
pub mod load;
mod loader;
pub mod note;
mod notes;
mod on_board;
mod oracle;
mod properties;
mod quotas;
mod rest;
mod run;
mod setting;
pub mod shim;
mod symbols;
mod task;
mod tree;
mod turns;
mod verbs;
pub mod visits;
pub mod watchdog;

pub use charge::Prices;
pub use ext::Ext;
pub use ext_account::Account;
pub use ext_program::Program;
pub use kernel::{Debug, Kernel};
pub use rest::{Ground, Rested};
pub use run::{Scx, Setup, simulate};
pub use setting::Setting;
pub use task::kthread_names;
pub use verbs::Verb;
