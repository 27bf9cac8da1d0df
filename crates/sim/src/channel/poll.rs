//! A task that waits on several ends together, through time: the call, the look, the sleep.

use crate::frame::{Step, Sys};
use crate::system::System;
use crate::task::UserOp;
use schedlab_base::{CpuId, TaskId};
use schedlab_workload::{Outcome, SetId};

impl System<'_> {
    /// The current task waits for an end of the set. It makes no call if the last one found another end, too.
    pub fn begin_poll(&mut self, cpu: CpuId, set: SetId) {
        if self.channels.sets[set.index()].found.is_empty() {
            return self.begin_syscall(cpu, Sys::Poll { set }, 0);
        }
        self.begin(cpu, Step::Syscall(Sys::Poll { set }), self.fixed.machine.costs.program_ns);
    }

    /// The call looks for ends, or the program gets the next of those that it had found.
    pub fn sys_poll(&mut self, cpu: CpuId, curr: TaskId, set: SetId) {
        let Some(end) = self.channels.next_found(set, curr) else {
            self.tasks[curr].user = UserOp::Poll(set);
            return self.block(cpu, curr);
        };
        self.tasks[curr].user = UserOp::Ask;
        self.tasks[curr].outcome = Outcome::Ready(end);
        self.return_to_user(cpu);
    }

    /// The task was woken: it looks again, in the same call.
    pub fn poll_on(&mut self, cpu: CpuId, set: SetId) {
        self.begin(cpu, Step::Syscall(Sys::Poll { set }), self.fixed.machine.costs.socket_wait_ns);
    }
}
