//! CPUs that share one processor's time in turns, like the CPUs of a guest whose clock counts instructions.
//!
//! An emulator may execute all CPUs of a guest in one thread, with a clock that counts instructions. All CPUs then
//! share the time of one: each runs for a while, then the next in a ring, and the clock continues with each. A halted
//! CPU is passed over; when all are halted, the clock leaps to the next timer. Times are ns; one instruction takes 1
//! ns.

use serde::{Deserialize, Serialize};

/// The rule that decides which CPU is next and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnRule {
    /// A turn is the time to the next timer of any CPU, divided by the number of CPUs (QEMU 8.1 and later,
    /// single-threaded TCG with `-icount`). A timer that becomes the earliest of all ends the turn of the CPU that set
    /// it.
    DeadlineShare,
}

impl TurnRule {
    /// Every rule and its name in machine files.
    pub const NAMES: &'static [(&'static str, TurnRule)] = &[("deadline-share", TurnRule::DeadlineShare)];
}

/// How the CPUs of a machine take turns, and what waiting in user mode takes on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    pub rule: TurnRule,
    /// One round of a loop that waits for the clock, ns. The loop reads the clock, compares, and executes a pause
    /// instruction, which ends the turn.
    pub spin_ns: u64,
    /// Reading a thread's CPU time from the kernel, ns. A program that computes for a stated time begins and ends with
    /// it.
    pub cpu_clock_ns: u64,
    /// Period of the emulator's own timer, ns; 0 for none. Nothing in the guest waits for this timer, but it ends
    /// turns.
    pub alarm_ns: u64,
    /// The cost of a CPU's dearest newidle pass over a domain when a run begins (`max_newidle_lb_cost`), ns. Each of
    /// the ten values holds for about a tenth of the domains. When a CPU loses its turn within a pass, the pass lasts
    /// through the other CPUs' turns as well. The kernel keeps the maximum and lets it decay by 1 % a second, so the
    /// values reflect the whole boot.
    #[serde(default)]
    pub newidle_ns: [u32; 10],
}
