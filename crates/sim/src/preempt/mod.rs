//! Preemption in the kernel: a task is switched out in the middle of a system call, and continues there when it runs
//! again (`preempt_schedule`, `preempt_schedule_irq`, `might_resched`).
//!
//! Under every model a task can be switched out at its return to user mode (`returns`). The earlier points are
//! here, and `drive` takes tasks through them. A call that is left in the middle is parked with its task: the step, its
//! remaining time, and the wakeups that it has yet to make.
//!
//! A task that holds the lock of a channel, or waits for it, is switched out only after that. This, and the point of
//! the voluntary model at a pipe's mutex, need a machine that states how long a call holds the lock (`pipe_lock_ns`,
//! `unix_lock_ns`): on others a writer may be left in the middle of its copy, and the voluntary model has points only
//! at fork and exec.
//!
//! Not modelled: a vCPU's thread is switched out only at its return; `cond_resched` in long loops.

use crate::frame::Step;
use schedlab_base::TaskId;

mod drive;

/// A system call that a task has left in the middle.
#[derive(Debug, Default)]
pub struct Parked {
    /// The step it is in, and the rest of the step, ns; `None` if the task is not in a call.
    step: Option<(Step, u64)>,
    /// The tasks that the call has yet to wake.
    pub to_wake: Vec<TaskId>,
    call_left_ns: u64,
    sync_wakes: bool,
}

impl Parked {
    /// Whether the task has left a call in the middle.
    pub fn is_left(&self) -> bool {
        self.step.is_some()
    }
}
