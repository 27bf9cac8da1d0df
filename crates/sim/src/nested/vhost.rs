//! The thread that moves a machine's messages between its virtual network interface and the host (vhost-net).
//!
//! It takes one message after the other, in the order in which they came, and sleeps when there is none. A guest that
//! sends while the thread sleeps signals it (an exit); a message for the guest is an interrupt of vCPU 0. The thread
//! belongs to its machine's task group (`cgroup_attach_task_all`, 2.6.35). Times are ns.

use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_board::board::Context;
use schedlab_board::board::Kernel as _;
use schedlab_board::drivers::{Links, UserMode};
use schedlab_board::nested::{Direction, Guest};
use schedlab_board::thread::UserOp;

impl System<'_> {
    /// The virtual machine whose thread this is.
    pub fn vhost_of(&self, task: TaskId) -> Option<usize> {
        self.others.nested.iter().position(|own| own.vhost.thread == task)
    }
    /// The thread is done with a message, or has woken up: it takes the next one.
    pub fn vhost_continues(&mut self, cpu: CpuId, curr: TaskId, machine: usize) {
        if let Some((way, packet)) = self.others.nested[machine].vhost.current.take() {
            match way {
                Direction::Out => self.route(cpu, packet, Context::Task),
                Direction::In => {
                    let now = self.now;
                    self.others.nested[machine].arrives(now, packet);
                    self.signal(cpu, machine, None);
                }
            }
            if self.wakes_next(cpu, 0) {
                return;
            }
        }
        if !self.others.nested[machine].vhost.take_up() {
            return self.block(cpu, curr);
        }
        self.board.threads[curr].user = UserOp::Run { left_ns: self.fixed.machine.costs.vhost_ns.max(1) };
        self.start_user(cpu);
    }
}
