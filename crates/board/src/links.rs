//! Messages between machines through time: sending, the interface's interrupt, and the way of each message.
//! [`crate::net`] holds the messages that are on their way.

use crate::board::{Context, Kernel};
use crate::engine::NEVER;
use crate::nested::Direction;
use crate::nested::drive::VirtualMachines;
use crate::net::{Packet, queue_cpu};
use schedlab_base::CpuId;
use schedlab_workload::{Place, PortId};

/// The links of a board.
pub trait Links<'s>: Kernel<'s> {
    /// A message will arrive at `cpu` at `at`.
    fn arrives(&mut self, cpu: CpuId, at: u64, packet: Packet) {
        debug_assert!(at >= self.now(), "a message for {cpu} arrives at {at}, and it is {}", self.now());
        self.board_mut().nic.arrives(cpu, at, packet);
        self.interrupt_at(cpu, at);
        self.touch(cpu);
    }

    /// The current task of `cpu` has copied a message to an end that is elsewhere.
    fn send_away(&mut self, cpu: CpuId, packet: Packet) {
        if self.host_speed(cpu).is_some() {
            self.board_mut().nic.sent.push(packet);
        } else {
            self.route(cpu, packet, Context::Task);
        }
    }

    /// The interrupt's messages reach their channels, or continue to virtual machines. Tasks to wake are noted in
    /// hardirq context.
    fn receive(&mut self, cpu: CpuId) {
        while let Some(packet) = self.board_mut().nic.pop(cpu) {
            self.board_mut().nic.received += 1;
            self.route(cpu, packet, Context::Hard);
        }
        let next = self.board().nic.next(cpu).unwrap_or(NEVER);
        self.interrupt_at(cpu, next);
        self.wake_heard(cpu);
    }

    /// A message continues from this kernel's network stack, on `cpu`.
    fn route(&mut self, cpu: CpuId, packet: Packet, context: Context) {
        let (now, board) = (self.now(), self.board_mut());
        match board.nic.place(packet.to) {
            place if place == board.nic.here => self.deliver(cpu, packet, context),
            Place::Inside(machine) => {
                self.give_vhost(cpu, machine as usize, (Direction::In, packet), context);
            }
            Place::Remote(number) => {
                board.peers[number as usize].hears(now, packet);
                let slot = self.slot_of_peer(number as usize);
                self.touch(slot);
            }
            Place::Host => board.nic.sent.push(packet),
        }
    }

    /// A message enters its channel and wakes the readers.
    fn deliver(&mut self, cpu: CpuId, packet: Packet, context: Context) {
        let nic = &mut self.board_mut().nic;
        debug_assert!(nic.place(packet.to) == nic.here, "{packet:?} comes in, and its reader is elsewhere");
        nic.aside[packet.to.0 as usize] += u64::from(packet.bytes);
        if self.fill(cpu, packet.to) {
            let board = self.board_mut();
            let wakes = board.seats[cpu].wakes(context);
            board.channels.arrived(packet.to, &board.history, wakes);
        }
    }

    /// Bytes that were kept aside enter their channel as far as there is room. Returns whether all of them were kept.
    fn fill(&mut self, cpu: CpuId, end: PortId) -> bool {
        let board = self.board_mut();
        let at = end.0 as usize;
        let waits = board.nic.aside[at].min(u64::from(u32::MAX)) as u32;
        let taken = board.channels.take_in(end, waits, cpu);
        debug_assert!(taken.bytes <= waits, "{} bytes come in at end {at}, and {waits} wait", taken.bytes);
        board.nic.aside[at] -= u64::from(taken.bytes);
        board.counts.datagrams_lost += u64::from(taken.lost);
        !taken.lost
    }

    /// An end was read: there may be room for what was kept aside.
    #[inline]
    fn was_read(&mut self, cpu: CpuId, end: PortId) {
        let aside = &self.board().nic.aside;
        if !aside.is_empty() && aside[end.0 as usize] > 0 {
            self.fill(cpu, end);
        }
    }

    /// The slot of a machine behind a link in the order of events: after the CPUs and the events from outside.
    fn slot_of_peer(&self, number: usize) -> CpuId {
        CpuId::from(self.board().nr_cpus() + 1 + number)
    }

    /// A machine behind a link acts at this instant; the next event of others is at `horizon`.
    fn peer_acts(&mut self, number: usize, horizon: u64) {
        let now = self.now();
        let mut sent = std::mem::take(&mut self.board_mut().nic.sent);
        let (board, sink) = self.board_and_sink();
        let acted = board.peers[number].act(horizon, &mut sent, sink);
        self.others_acted(acted.steps, acted.ended.into());
        if let Some(fault) = acted.fault {
            self.fail(fault);
        }
        let link = &self.board().peers[number];
        let (at, queues) = (now.saturating_add(link.delay_ns()), link.queues());
        for packet in sent.drain(..) {
            let cpu = queue_cpu(packet.to, queues, self.board().nr_cpus());
            self.arrives(cpu, at, packet);
        }
        self.board_mut().nic.sent = sent;
    }
}

impl<'s, K: Kernel<'s>> Links<'s> for K {}
