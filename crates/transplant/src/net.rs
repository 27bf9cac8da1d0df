//! Messages to and from machines behind a link, through time. What is on its way is `schedlab_world::net`'s; the
//! machines are [`Peer`](schedlab_world::net::Peer)s, which the caller of a run gives.
//!
//! A message leaves when its sender has copied it. It arrives as an interrupt of a CPU, enters its channel, and the
//! interrupt's handler wakes the readers. Times are ns since the run began.

use crate::board::Board;
use schedlab_base::{CpuId, TaskId};
use schedlab_workload::{Place, PortId};
use schedlab_world::channel::exchange::Wakes;
use schedlab_world::engine::NEVER;
use schedlab_world::nested::Direction;
use schedlab_world::net::{Packet, queue_cpu};

impl Board<'_> {
    /// The slot of a machine behind a link in the order of events: after the CPUs and the events from outside.
    fn slot_of_peer(&self, number: usize) -> CpuId {
        CpuId::from(self.nr_cpus() + 1 + number)
    }
    /// When a slot acts next: a CPU, or a machine behind a link.
    pub fn slot_event(&self, slot: CpuId) -> u64 {
        match slot.index().checked_sub(self.nr_cpus() + 1) {
            None => self.next_event(slot),
            Some(number) => self.peers[number].next_event(),
        }
    }
    /// A machine behind a link acts at `now`; the next event of others is at `horizon`.
    pub fn peer_acts(&mut self, number: usize, now: u64, horizon: u64) {
        self.now = now;
        let mut sent = std::mem::take(&mut self.nic.sent);
        let acted = self.peers[number].act(horizon, &mut sent, self.sink);
        self.steps += acted.steps;
        self.alive -= usize::from(acted.ended);
        if let Some(fault) = acted.fault {
            self.fail(fault);
        }
        let link = &self.peers[number];
        let (at, queues) = (now.saturating_add(link.delay_ns()), link.queues());
        for packet in sent.drain(..) {
            let cpu = queue_cpu(packet.to, queues, self.nr_cpus());
            self.nic.arrives(cpu, at, packet);
            let c = &mut self.cpus[cpu];
            c.device_at = c.device_at.min(at);
            self.touch(cpu);
        }
        self.nic.sent = sent;
    }

    /// A message continues from this kernel's network stack, in a call of the current task of `cpu`.
    pub fn route(&mut self, cpu: CpuId, packet: Packet) {
        match self.nic.place(packet.to) {
            Place::Inside(machine) => self.give_vhost(cpu, machine as usize, (Direction::In, packet)),
            Place::Remote(number) => {
                self.peers[number as usize].hears(self.now, packet);
                let slot = self.slot_of_peer(number as usize);
                self.touch(slot);
            }
            Place::Host => {
                if self.enters(cpu, packet) {
                    let wakes = self.cpus[cpu].wakes();
                    self.channels.arrived(packet.to, &self.history, wakes);
                }
            }
        }
    }

    /// The handler of the network interface: messages enter their channels, and their readers are woken.
    pub fn receive(&mut self, cpu: CpuId) {
        let mut readers: Vec<TaskId> = Vec::new();
        while let Some(packet) = self.nic.pop(cpu) {
            self.nic.received += 1;
            if let Place::Inside(machine) = self.nic.place(packet.to) {
                readers.extend(self.vhost_hears(machine as usize, packet));
            } else if self.enters(cpu, packet) {
                let wakes = Wakes { tasks: &mut readers, sync: &mut false };
                self.channels.arrived(packet.to, &self.history, wakes);
            }
        }
        self.cpus[cpu].device_at = self.nic.next(cpu).unwrap_or(NEVER);
        let pids: Vec<i32> = readers.iter().map(|task| self.tasks[*task].pid).collect();
        self.enter(cpu);
        self.kernel.image().irq_device(&pids);
        self.settle_after(cpu);
    }

    /// A message enters its channel. Returns whether nothing was lost.
    fn enters(&mut self, cpu: CpuId, packet: Packet) -> bool {
        self.nic.aside[packet.to.0 as usize] += u64::from(packet.bytes);
        self.fill(cpu, packet.to)
    }

    /// Bytes that were kept aside enter their channel as far as there is room. Returns whether nothing was lost.
    fn fill(&mut self, cpu: CpuId, end: PortId) -> bool {
        let at = end.0 as usize;
        let waits = self.nic.aside[at].min(u64::from(u32::MAX)) as u32;
        let taken = self.channels.take_in(end, waits, cpu);
        self.nic.aside[at] -= u64::from(taken.bytes);
        self.accounts.datagrams_lost += u64::from(taken.lost);
        !taken.lost
    }
    /// An end was read: there may be room for what was kept aside.
    #[inline]
    pub fn was_read(&mut self, cpu: CpuId, end: PortId) {
        if !self.nic.aside.is_empty() && self.nic.aside[end.0 as usize] > 0 {
            self.fill(cpu, end);
        }
    }
}
