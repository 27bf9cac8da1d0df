//! CPUs that share one processor's time in turns, as the CPUs of a guest do that counts instructions.
//!
//! An emulator that executes all CPUs of a guest in one thread, and whose clock counts instructions, has one CPU's worth
//! of time for all of them: one runs for a while, then the next in a ring, and the clock goes on with each. A halted
//! CPU is passed over; when all are, the clock leaps to the next timer. Times are ns, of which one instruction takes one.

use serde::{Deserialize, Serialize};

/// Who is next, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TurnRule {
    /// A turn is the time to the next timer of any CPU, divided by the number of CPUs (QEMU 8.1 and later, single-threaded
    /// TCG with `-icount`). A timer that becomes the earliest of all ends the turn of whoever set it.
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
    /// Whose turn it is, and until when.
    pub rule: TurnRule,
    /// One round of a loop that waits for the clock, ns: it reads it, compares, and says by a pause instruction that it
    /// waits, which ends the turn.
    pub spin_ns: u64,
    /// Asking the kernel how much CPU time a thread has used, ns: what computes for a stated time begins and ends so.
    pub cpu_clock_ns: u64,
    /// The emulator's own timer that nobody in the guest waits for, but that ends turns: its period, ns; 0 for none.
    pub alarm_ns: u64,
    /// What the dearest newidle pass of a CPU over a domain has cost when a run begins (`max_newidle_lb_cost`), ns: of ten
    /// domains one each has about as much. A pass whose CPU loses its turn has taken the others' turns, too, and is remembered,
    /// 1 % less a second: whole boots are in it.
    #[serde(default)]
    pub newidle_ns: [u32; 10],
}
