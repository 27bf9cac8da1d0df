//! CPUs that take turns on one processor, like those of a guest whose clock counts instructions.
//!
//! An emulator may execute all CPUs of a guest in one thread, with a clock that counts instructions. All CPUs then
//! share one processor's time: each runs for a while, then the next in a ring, and the clock advances with each. Halted
//! CPUs are skipped; when all are halted, the clock jumps to the next timer. Times are ns; one instruction takes 1 ns.

use serde::{Deserialize, Serialize};

/// The rule that chooses the next CPU and the length of its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnRule {
    /// A turn is the time to the next timer of any CPU, divided by the number of CPUs (QEMU 8.1 and later,
    /// single-threaded TCG with `-icount`). A new timer that is the earliest of all ends the turn of the CPU that set
    /// it.
    DeadlineShare,
}

impl TurnRule {
    /// The names in machine files.
    pub const NAMES: &'static [(&'static str, TurnRule)] = &[("deadline-share", TurnRule::DeadlineShare)];
}

/// The rule by which a machine's CPUs take turns, and the costs of waiting in user mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turns {
    pub rule: TurnRule,
    /// One round of a loop that waits for the clock, ns. The loop reads the clock, compares, and executes a pause
    /// instruction, which ends the turn.
    pub spin_ns: u64,
    /// Reading a thread's CPU time from the kernel, ns. A program that computes for a stated time does so at its
    /// beginning and end.
    pub cpu_clock_ns: u64,
    /// Period of the emulator's own timer, ns; 0 for none. The guest does not wait for this timer, but it ends turns.
    pub alarm_ns: u64,
    /// The cost of a CPU's dearest newidle pass over a domain at the beginning of a run (`max_newidle_lb_cost`), ns.
    /// Each of the ten values holds for about a tenth of the domains. When a CPU loses its turn within a pass, the pass
    /// includes the other CPUs' turns. The kernel keeps the maximum and lets it decay by 1 % a second, so the values
    /// reflect the whole boot.
    #[serde(default)]
    pub newidle_ns: [u32; 10],
}
