//! Frames: the activity of each CPU in task, softirq and hardirq context, as resumable steps.
//!
//! A step with a cost ends at an absolute time while its context is the active one; when an interrupt suspends it, the
//! frame keeps the rest of its cost. The task keeps its progress in user mode (work left), never as an end time.

use schedlab_base::TaskId;
use schedlab_board::calls::Call;
use schedlab_board::engine::NEVER;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// Nothing: the context is not active.
    None,
    Halted {
        state: u8,
    },
    /// Leaving an idle state.
    IdleExit,
    /// In the idle loop: look for work or halt.
    IdleLoop,
    /// Idle, before the halt: bringing averages of tickless CPUs up to date, from place `at` of the ring on.
    BeforeIdle {
        at: u32,
    },
    /// User mode of the current task.
    User,
    /// In the kernel for the current task.
    Syscall(Call),
    /// Waking tasks (`try_to_wake_up`); the wakeup's state is the context's `Waking`.
    Wakeup,
    /// Choosing a CPU for a new task.
    Fork {
        task: TaskId,
    },
    /// Choosing a CPU for the current task, at exec.
    Exec,
    /// Newidle balance inside `schedule()`: interrupts off, the departing task still current.
    Newidle,
    /// The rest of `schedule()` before the next task is picked, interrupts off, the departing task still current.
    Pick,
    /// Switching from `prev` to the current task.
    Switch {
        prev: Option<TaskId>,
    },
    /// Periodic or nohz balance in softirq context.
    Rebalance,
    Tick,
    /// Timer interrupt, up to the expiry of timers.
    Timer,
    /// Timer interrupt, after its wakeups.
    TimerExit,
    /// Reschedule, wake-list or balance-kick IPI.
    Ipi,
}

impl Step {
    /// Whether it is a part of `schedule()`.
    pub fn schedules(self) -> bool {
        matches!(self, Step::Newidle | Step::Pick | Step::Switch { .. })
    }
    /// Whether interrupts wait until the step is over.
    #[inline]
    pub fn irqs_off(self) -> bool {
        matches!(
            self,
            Step::IdleExit
                | Step::Wakeup
                | Step::Newidle
                | Step::Pick
                | Step::Switch { .. }
                | Step::Fork { .. }
                | Step::Exec
        )
    }
}

/// One context of a CPU.
#[derive(Clone, Copy, Debug)]
pub struct Frame {
    pub step: Step,
    /// When the step ends, ns; [`NEVER`] while suspended or open-ended.
    pub ends: u64,
    /// Rest of the step when it was suspended, ns.
    pub left: u64,
}

impl Frame {
    /// An inactive context.
    pub const NONE: Frame = Frame { step: Step::None, ends: NEVER, left: 0 };

    pub fn until(step: Step, ends: u64) -> Frame {
        Frame { step, ends, left: 0 }
    }
    /// Whether the context is in use.
    #[inline]
    pub fn active(&self) -> bool {
        // Not `!=`: the derived comparison is a call, and this test runs several times an event.
        !matches!(self.step, Step::None)
    }
}
