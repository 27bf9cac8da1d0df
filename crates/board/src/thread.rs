//! A task as user space knows it: its program, its activity in user mode, and its memory. The scheduler's knowledge of
//! a task belongs to the kernel.

use crate::cache_by_core::Reuse;
use crate::channel::state::Transfer;
use schedlab_base::CpuId;
use schedlab_workload::{Outcome, Program, SetId, TaskDecl, WordId};

/// A task's activity in user mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum UserOp {
    /// None: its program must be asked.
    Ask,
    /// Computing: work left, ns at full speed.
    Run { left_ns: u64 },
    /// Going over memory: the KB that count as warm since it began; work left, ns at full speed.
    Touch { left_ns: u64, kb: u32 },
    /// Spinning until the wall clock reads this, ns.
    Spin { until: u64 },
    /// Spinning for a lock of user space.
    SpinLock { word: WordId },
    /// Executing a vCPU of a virtual machine.
    Vcpu { machine: u16, vcpu: CpuId },
    /// An unfinished operation on a channel; in user mode only for the instant before it continues.
    Transfer(Transfer),
    /// Waiting for an end of a set to have something to read; in user mode only for the instant before it looks again.
    Poll(SetId),
}

/// A task of the workload or of the machine's background.
///
/// The order of the fields is the order in memory: the fields that every operation needs come first.
#[repr(C)]
pub struct Thread {
    pub user: UserOp,
    pub program: Box<dyn Program>,
    /// The outcome of its last operation.
    pub outcome: Outcome,
    /// The CPU where it ran last: its warm data are in reach of that CPU's core and cache.
    pub ran_on: CpuId,
    /// It belongs to the machine, not to the workload.
    pub background: bool,
    /// The run lasts as long as any task that counts.
    pub counts: bool,
    /// It goes to sleep when its program ends, and exits after the run.
    pub waits_at_end: bool,
    /// Refill it still has to pay, ns at full speed.
    pub refill_ns: u64,
    /// Work done, ns at full speed.
    pub work_ns: u64,
    /// Warm working set, KB.
    pub warm_kb: u32,
    /// Its whole working set, KB.
    pub footprint_kb: u32,
    /// Its part of its core's private cache.
    pub reuse: Reuse,
    /// How much later than asked its timers may fire, ns.
    pub slack_ns: u64,
    /// The time of its end, ns; `u64::MAX` before it.
    pub ended: u64,
    /// `work_ns` and CPU time when measuring began.
    pub before: (u64, u64),
    pub name: String,
}

impl Thread {
    /// A task that has not begun.
    pub fn new(name: String, program: Box<dyn Program>, footprint_kb: u32, slack_ns: u64) -> Thread {
        Thread {
            user: UserOp::Ask,
            program,
            outcome: Outcome::Done,
            ran_on: CpuId(0),
            background: false,
            counts: false,
            waits_at_end: false,
            refill_ns: 0,
            work_ns: 0,
            warm_kb: 0,
            footprint_kb,
            reuse: Reuse::default(),
            slack_ns,
            ended: u64::MAX,
            before: (0, 0),
            name,
        }
    }
    /// A task of a workload. A timer may fire `slack_ns` later than asked, unless the task says otherwise.
    pub fn of(task: TaskDecl, slack_ns: u64) -> Thread {
        let (background, counts, waits_at_end) = (task.background, task.counts(), task.waits_at_end);
        let slack_ns = task.timer_slack.map_or(slack_ns, |s| s.0);
        let thread = Thread::new(task.name, task.program, task.footprint_kb, slack_ns);
        Thread { background, counts, waits_at_end, ..thread }
    }
    /// The machine and the vCPU that it executes.
    #[inline]
    pub fn vcpu(&self) -> Option<(usize, CpuId)> {
        match self.user {
            UserOp::Vcpu { machine, vcpu } => Some((usize::from(machine), vcpu)),
            _ => None,
        }
    }
}
