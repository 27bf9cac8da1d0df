//! A simulated CPU between two calls of kernel code: halted, in user mode, or on a kernel path that takes time.
//!
//! Kernel code takes no time while it runs. Its price passes before it (a system call, an interrupt's entry, the way to
//! `schedule()`), the price of its effects (a switch, a wakeup) after it. Times are ns since the run began.

use schedlab_base::TaskId;
use schedlab_board::calls::Call;
use schedlab_board::engine::NEVER;

/// An interrupt, by its source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Interrupt {
    /// The clock event device.
    Timer,
    /// A reschedule IPI.
    Resched,
    /// A call-function IPI.
    Call,
    /// The network interface's: messages from another machine.
    Device,
}

/// A CPU's step when its path's time is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next {
    /// It looks at its current task, and continues with that task.
    Settle,
    Schedule,
    Interrupt(Interrupt),
    IdleLeave,
    Halt,
    /// The stopper or ksoftirqd does its work.
    Kthread,
    Call(Call),
    /// The next of the tasks that the current call wakes.
    Wake,
    /// It halts, now that the way there has taken its time.
    Halted(Halt),
    /// The verb that was left in the middle continues, and then follows this.
    Proceed(After),
}

/// What follows a verb.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum After {
    /// The CPU looks at its current task.
    Settle,
    /// The idle loop has chosen a state, or has to switch.
    Halt,
    /// The way to `schedule()`.
    Schedule,
    /// The next of the tasks that the current call wakes.
    Wake,
}

/// How a CPU is idle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Halt {
    /// The driver's state: 0 is the loop that polls, then come the machine's states.
    pub state: u8,
    /// The latest end of polling; `None`: it halts.
    pub polls_until: Option<u64>,
}

/// The present occupation of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Activity {
    /// It waits for an interrupt, in one of the machine's idle states since `at`; `None`: it polls, or has no states.
    Halted {
        state: Option<u8>,
        at: u64,
    },
    User,
    /// A kernel path; with `irqs` an interrupt may come in between.
    Path {
        next: Next,
        irqs: bool,
    },
}

/// The current task of a CPU.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Current {
    Idle,
    Task(TaskId),
    /// One of the kernel's own tasks, which the image runs.
    Kthread(TaskId),
}

impl Current {
    /// The task whose program runs.
    pub fn program(self) -> Option<TaskId> {
        match self {
            Current::Task(id) => Some(id),
            Current::Idle | Current::Kthread(_) => None,
        }
    }
}

/// A CPU.
pub struct Cpu {
    pub activity: Activity,
    /// The end of user mode or of the path.
    pub ends: u64,
    pub current: Current,
    /// Since when it is current.
    pub since: u64,
    /// Time with a task, up to `since`.
    pub busy_ns: u64,
    /// When each interrupt is due; [`NEVER`] if it is not.
    pub timer_at: u64,
    pub resched_at: u64,
    pub call_at: u64,
    pub device_at: u64,
    /// The path that an interrupt has stopped, with the time that it still takes.
    pub left: Option<(Next, u64)>,
    /// How the last verb left it idle.
    pub halts: Option<Halt>,
    /// A sched_ext scheduler has taken it from its current task.
    pub kicked: bool,
}

impl Cpu {
    /// A CPU that is halted, with no interrupt due.
    pub fn halted() -> Cpu {
        Cpu {
            activity: Activity::Halted { state: None, at: 0 },
            ends: NEVER,
            current: Current::Idle,
            since: 0,
            busy_ns: 0,
            timer_at: NEVER,
            resched_at: NEVER,
            call_at: NEVER,
            device_at: NEVER,
            left: None,
            halts: None,
            kicked: false,
        }
    }
    /// Time with a task, up to `now`.
    pub fn busy_until(&self, now: u64) -> u64 {
        let stay = if self.current == Current::Idle { 0 } else { now.saturating_sub(self.since) };
        self.busy_ns + stay
    }
    /// When the next interrupt is due.
    #[inline]
    pub fn irq_due(&self) -> u64 {
        self.timer_at.min(self.resched_at).min(self.call_at).min(self.device_at)
    }
    /// The interrupt that is due first; at the same time the timer's, then calls, then reschedule IPIs.
    pub fn first_irq(&self) -> Interrupt {
        match self.irq_due() {
            at if at == self.timer_at => Interrupt::Timer,
            at if at == self.call_at => Interrupt::Call,
            at if at == self.resched_at => Interrupt::Resched,
            _ => Interrupt::Device,
        }
    }
    /// Time begins anew: `ns` have passed before it.
    pub fn shift(&mut self, ns: u64) {
        let irqs = [&mut self.timer_at, &mut self.resched_at, &mut self.call_at, &mut self.device_at];
        irqs.into_iter()
            .chain([&mut self.ends])
            .filter(|at| **at != NEVER)
            .for_each(|at| *at = at.saturating_sub(ns));
        (self.since, self.busy_ns) = (0, 0);
        if let Activity::Halted { at, .. } = &mut self.activity {
            *at = at.saturating_sub(ns);
        }
    }
    /// Whether an interrupt may come in.
    #[inline]
    pub fn takes_irqs(&self) -> bool {
        !matches!(self.activity, Activity::Path { irqs: false, .. })
    }
    /// When it acts next; `now` is the present.
    #[inline]
    pub fn next_event(&self, now: u64) -> u64 {
        if self.takes_irqs() { self.ends.min(self.irq_due().max(now)) } else { self.ends }
    }
    #[inline]
    pub fn in_user(&self) -> bool {
        self.activity == Activity::User
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupt_waits_for_the_end_of_a_path_with_interrupts_off() {
        let mut cpu = Cpu::halted();
        assert_eq!(cpu.next_event(5), NEVER);
        cpu.timer_at = 10;
        cpu.call_at = 10;
        assert_eq!((cpu.next_event(5), cpu.next_event(20), cpu.first_irq()), (10, 20, Interrupt::Timer));
        cpu.activity = Activity::Path { next: Next::Settle, irqs: false };
        cpu.ends = 30;
        assert_eq!(cpu.next_event(5), 30);
        cpu.activity = Activity::Path { next: Next::Schedule, irqs: true };
        assert_eq!(cpu.next_event(5), 10);
        cpu.timer_at = NEVER;
        assert_eq!(cpu.first_irq(), Interrupt::Call);
    }
}
