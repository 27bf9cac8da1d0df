//! Messages through time: sending, the interface's interrupt, and what it does with each message.

use crate::system::{Context, System};
use schedlab_base::CpuId;
use schedlab_workload::Place;
use schedlab_world::engine::NEVER;
use schedlab_world::nested::Direction;
use schedlab_world::net::{Packet, Peer, queue_cpu};

impl System<'_> {
    /// A message will arrive at `cpu` at `at`, ns.
    pub fn arrives(&mut self, cpu: CpuId, at: u64, packet: Packet) {
        self.others.nic.arrives(cpu, at, packet);
        let c = &mut self.cpus[cpu];
        c.ipi_at = c.ipi_at.min(at);
        self.touch(cpu);
    }
    /// The time of the next message to arrive at `cpu`, ns; NEVER if none is on its way.
    #[inline]
    pub fn next_ipi(&self, cpu: CpuId) -> u64 {
        self.others.nic.next(cpu).unwrap_or(NEVER)
    }

    /// The current task of `cpu` has copied a message to an end that is elsewhere.
    pub fn send_away(&mut self, cpu: CpuId, packet: Packet) {
        match self.others.hosted {
            Some(_) => self.others.nic.sent.push(packet),
            None => self.route(cpu, packet, Context::Task),
        }
    }

    /// The interrupt's messages reach their channels, or continue to virtual machines. The tasks that they wake are
    /// noted in hardirq context.
    pub fn receive(&mut self, cpu: CpuId) {
        while let Some(packet) = self.others.nic.pop(cpu) {
            self.others.nic.received += 1;
            self.route(cpu, packet, Context::Hard);
        }
        let next = self.next_ipi(cpu);
        let c = &mut self.cpus[cpu];
        c.ipi_at = c.ipi_at.min(next);
    }

    /// A message continues from this kernel's network stack, on `cpu`.
    pub fn route(&mut self, cpu: CpuId, packet: Packet, context: Context) {
        match self.others.nic.place(packet.to) {
            place if place == self.others.nic.here => self.deliver(cpu, packet, context),
            Place::Inside(machine) => {
                self.give_vhost(cpu, machine as usize, (Direction::In, packet), context);
            }
            Place::Remote(number) => {
                let link = &mut self.others.remotes[number as usize];
                link.hears(self.now, packet);
                let slot = self.slot_of_remote(number as usize);
                self.touch(slot);
            }
            Place::Host => self.others.nic.sent.push(packet),
        }
    }

    /// A message from the machine behind the link of that number, sent at this instant.
    pub fn remote_sends(&mut self, number: usize, packet: Packet) {
        let link = &self.others.remotes[number];
        let at = self.now.saturating_add(link.delay_ns());
        let cpu = queue_cpu(packet.to, link.queues(), self.nr_cpus());
        self.arrives(cpu, at, packet);
    }

    /// A message enters its channel and wakes the readers.
    fn deliver(&mut self, cpu: CpuId, packet: Packet, context: Context) {
        let end = packet.to.0 as usize;
        self.others.nic.aside[end] += u64::from(packet.bytes);
        if self.fill(cpu, packet.to) {
            self.wake_readers(cpu, packet.to, context);
        }
    }

    /// Bytes that were kept aside enter their channel as far as there is room. Returns whether nothing was lost.
    fn fill(&mut self, cpu: CpuId, end: schedlab_workload::PortId) -> bool {
        let at = end.0 as usize;
        let waits = self.others.nic.aside[at].min(u64::from(u32::MAX)) as u32;
        let taken = self.channels.take_in(end, waits, cpu);
        self.others.nic.aside[at] -= u64::from(taken.bytes);
        self.accounts.stats.datagrams_lost += u64::from(taken.lost);
        !taken.lost
    }

    /// An end was read: there may be room for what was kept aside.
    #[inline]
    pub fn was_read(&mut self, cpu: CpuId, end: schedlab_workload::PortId) {
        if !self.others.nic.aside.is_empty() && self.others.nic.aside[end.0 as usize] > 0 {
            self.fill(cpu, end);
        }
    }
}

impl System<'_> {
    /// The slot of a machine behind a link, in the order of the tree: after the CPUs and the events from outside.
    pub fn slot_of_remote(&self, number: usize) -> CpuId {
        CpuId::from(self.nr_cpus() + 1 + number)
    }
    /// The time of a slot's next event: of a CPU, or of a machine behind a link.
    #[inline]
    pub fn slot_event(&self, slot: CpuId) -> u64 {
        match slot.index().checked_sub(self.nr_cpus() + 1) {
            None => self.next_event(slot),
            Some(number) => self.others.remotes[number].next_event(),
        }
    }
    /// A machine behind a link acts at `now`, ns.
    pub fn remote_acts(&mut self, number: usize, now: u64, horizon: u64) {
        self.now = now;
        let mut sent = std::mem::take(&mut self.others.nic.sent);
        let acted = self.others.remotes[number].act(horizon, &mut sent, self.out.sink());
        self.stepping.steps += acted.steps;
        self.run.alive -= usize::from(acted.ended);
        if let Some(fault) = acted.fault {
            self.run.fault = Some(fault);
        }
        for packet in sent.drain(..) {
            self.remote_sends(number, packet);
        }
        self.others.nic.sent = sent;
    }
}
