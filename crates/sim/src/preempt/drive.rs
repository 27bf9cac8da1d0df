//! Leaves a call in the middle, and continues it.

use crate::frame::{Frame, Step};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Context;
use schedlab_board::board::Kernel as _;
use schedlab_board::calls::Call;
use schedlab_board::preempt::{Point, gives_way};
use schedlab_board::thread::UserOp;
use schedlab_kernel::preempt::Preempt;

impl System<'_> {
    /// Whether the current task of `cpu` is switched out at `point`.
    fn gives_way(&self, cpu: CpuId, point: Point) -> bool {
        let c = &self.cpus[cpu];
        let urgent = c.need_resched.map(|_| !c.lazy);
        urgent.is_some() && gives_way(Preempt::of(&self.fixed.kernel), point, urgent)
    }

    /// An interrupt has ended within a system call of the current task: returns whether the task is switched out.
    pub fn preempted_in_call(&mut self, cpu: CpuId, call: Call, left_ns: u64) -> bool {
        let Some(curr) = self.cpus[cpu].curr else { return false };
        let parks = self.gives_way(cpu, Point::InterruptEnd) && self.may_leave(cpu, curr, call);
        if parks {
            self.park(cpu, curr, (Step::Syscall(call), left_ns));
        }
        parks
    }

    /// A wakeup of the current task's call is over: returns whether the task is switched out.
    pub fn preempted_by_wakeup(&mut self, cpu: CpuId, context: Context) -> bool {
        let is_locked = self.board.seats[cpu].wakes_for.is_some();
        if context != Context::Task || is_locked || !self.gives_way(cpu, Point::WakeupEnd) {
            return false;
        }
        let Some(curr) = self.cpus[cpu].curr.filter(|t| !self.is_vcpu(*t)) else { return false };
        self.park(cpu, curr, (Step::Syscall(Call::Wakeups), 0));
        true
    }

    /// The lock is free under which the current task's call has woken others: returns whether the task is switched out.
    pub fn preempted_at_unlock(&mut self, cpu: CpuId, left_ns: u64) -> bool {
        let Some(curr) = self.cpus[cpu].curr.filter(|_| self.gives_way(cpu, Point::WakeupEnd)) else {
            return false;
        };
        self.park(cpu, curr, (Step::Syscall(Call::End), left_ns));
        true
    }

    /// The next part of the current task's call may sleep: returns whether the task is switched out before it.
    pub fn preempted_before_sleep(&mut self, cpu: CpuId, curr: TaskId, call: Call) -> bool {
        let parks = self.gives_way(cpu, Point::MightSleep) && self.may_leave(cpu, curr, call);
        if parks {
            self.park(cpu, curr, (Step::Syscall(call), 0));
        }
        parks
    }

    /// Whether a call may be left in its current step.
    fn may_leave(&self, cpu: CpuId, curr: TaskId, call: Call) -> bool {
        match call {
            Call::VcpuKicks | Call::VcpuHalts | Call::VcpuPolls => false,
            Call::LockSleepers | Call::Wakeups if self.board.seats[cpu].wakes_for.is_some() => false,
            Call::Lock | Call::TryLock | Call::Copied | Call::Unlock => match self.board.threads[curr].user {
                UserOp::Transfer(t) => !self.board.channels.locks_out(curr, t),
                _ => true,
            },
            _ => !self.is_vcpu(curr),
        }
    }

    fn is_vcpu(&self, task: TaskId) -> bool {
        matches!(self.board.threads[task].user, UserOp::Vcpu { .. })
    }

    /// Leaves the call of the current task where it is, and switches.
    fn park(&mut self, cpu: CpuId, curr: TaskId, step: (Step, u64)) {
        let (seat, parked) = (&mut self.board.seats[cpu], &mut self.parked[curr]);
        let (other, listed) = (parked.step, parked.to_wake.len());
        debug_assert!(other.is_none(), "{curr:?} leaves {step:?} and has left {other:?}");
        debug_assert!(listed == 0, "{curr:?} leaves a call with {listed} tasks to wake from another one");
        parked.step = Some(step);
        std::mem::swap(&mut parked.to_wake, &mut seat.to_wake[Context::Task as usize]);
        parked.call_left_ns = std::mem::take(&mut seat.call_left_ns);
        parked.sync_wakes = std::mem::take(&mut seat.sync_wakes);
        let c = &mut self.cpus[cpu];
        // For this CPU the step is over.
        c.task = Frame::until(step.0, self.now);
        if let Some(why) = c.need_resched {
            self.schedule(cpu, why);
        }
    }

    /// Continues the task that was just switched to: with the call that it left in the middle, or in user mode.
    pub fn continue_task(&mut self, cpu: CpuId, curr: TaskId) {
        if self.parked[curr].step.is_none() {
            return self.returns(cpu);
        }
        // The loop of preempt_schedule: another request may have come meanwhile.
        if self.cpus[cpu].must_resched()
            && let Some(why) = self.cpus[cpu].need_resched
        {
            return self.schedule(cpu, why);
        }
        self.unpark(cpu, curr);
    }

    /// Continues the call that the current task left, if there is one.
    pub fn unpark(&mut self, cpu: CpuId, curr: TaskId) -> bool {
        let (seat, parked) = (&mut self.board.seats[cpu], &mut self.parked[curr]);
        let Some((step, left_ns)) = parked.step.take() else { return false };
        let listed = seat.to_wake[Context::Task as usize].len();
        debug_assert!(listed == 0, "{curr:?} continues a call on {cpu}, which is to wake {listed} tasks");
        std::mem::swap(&mut parked.to_wake, &mut seat.to_wake[Context::Task as usize]);
        seat.call_left_ns = parked.call_left_ns;
        seat.sync_wakes = parked.sync_wakes;
        self.begin(cpu, step, left_ns);
        true
    }
}
