//! The thread that moves a machine's messages between its virtual network interface and the host (vhost-net).
//!
//! It takes one message after the other, in the order in which they came, and sleeps when there is none. A guest that
//! sends while the thread sleeps signals it (an exit); a message for the guest is an interrupt of vCPU 0. The thread
//! belongs to its machine's task group (`cgroup_attach_task_all`, 2.6.35). Times are ns.

use super::state::Direction;
use crate::system::{Context, System};
use crate::task::UserOp;
use schedlab_base::{CpuId, TaskId};
use schedlab_world::net::Packet;

/// The vCPU that takes the interface's interrupts.
const IRQ_VCPU: CpuId = CpuId(0);

impl System<'_> {
    /// The virtual machine whose thread this is.
    pub fn vhost_of(&self, task: TaskId) -> Option<usize> {
        self.others.nested.iter().position(|own| own.vhost.thread == task)
    }
    /// A message for a virtual machine has reached the host, on `cpu`.
    pub fn give_vhost(&mut self, cpu: CpuId, machine: usize, packet: Packet, context: Context) {
        self.others.nested[machine].vhost.take(Direction::In, packet);
        self.rouse_vhost(cpu, machine, context);
    }
    /// The guest's programs have sent messages, in the step of a vCPU on `cpu`.
    pub fn collect_sent(&mut self, cpu: CpuId, machine: usize) {
        let own = &mut self.others.nested[machine];
        if own.sys.others.nic.sent.is_empty() {
            return;
        }
        for packet in own.sys.others.nic.sent.drain(..) {
            own.vhost.take(Direction::Out, packet);
        }
        self.rouse_vhost(cpu, machine, Context::Task);
    }
    fn rouse_vhost(&mut self, cpu: CpuId, machine: usize, context: Context) {
        let vhost = &mut self.others.nested[machine].vhost;
        if std::mem::take(&mut vhost.asleep) {
            let thread = vhost.thread;
            self.cpus[cpu].to_wake[context as usize].push(thread);
        }
    }

    /// The thread is done with a message, or has woken up: it takes the next one.
    pub fn vhost_goes_on(&mut self, cpu: CpuId, curr: TaskId, machine: usize) {
        if let Some((way, packet)) = self.others.nested[machine].vhost.current.take() {
            match way {
                Direction::Out => self.route(cpu, packet, Context::Task),
                Direction::In => {
                    let now = self.now;
                    let guest = &mut self.others.nested[machine].sys;
                    guest.now = now;
                    guest.arrives(IRQ_VCPU, now, packet);
                    self.signal(cpu, machine, None);
                }
            }
            if self.wakes_next(cpu, 0) {
                return;
            }
        }
        let vhost = &mut self.others.nested[machine].vhost;
        vhost.current = vhost.queue.pop_front();
        if vhost.current.is_none() {
            vhost.asleep = true;
            return self.block(cpu, curr);
        }
        self.tasks[curr].user = UserOp::Run { left_ns: self.fixed.machine.costs.vhost_ns.max(1) };
        self.start_user(cpu);
    }
}
