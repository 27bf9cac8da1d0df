//! A machine behind a link: a kernel of its own, whose CPUs are many and never part of what is studied.
//!
//! It is driven by the same clock as the host. All its CPUs share one slot of the host's tree; within, its own tree
//! says which of them acts.

use crate::nested::Relay;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_world::engine::{NEVER, WinnerTree};
use schedlab_world::net::{Packet, queue_cpu};

/// A machine behind a link.
pub struct Remote<'s> {
    /// Its kernel.
    pub sys: Box<System<'s>>,
    /// The link's delay, one way, ns.
    pub delay_ns: u64,
    /// Queues of the network interface at the host's end.
    pub queues: u32,
    pub(super) tree: WinnerTree,
    pub(super) relay: Relay,
    /// Its tasks have all left.
    pub done: bool,
}

impl<'s> Remote<'s> {
    /// The time of its next event, ns.
    pub fn next_event(&self) -> u64 {
        self.tree.first().map_or(NEVER, |(_, at)| at)
    }
    /// A message was sent to it at `now`.
    pub fn hears(&mut self, now: u64, packet: Packet) {
        let cpu = queue_cpu(packet.to, u32::MAX, self.sys.nr_cpus());
        self.sys.arrives(cpu, now.saturating_add(self.delay_ns), packet);
        self.rearm();
    }
    fn rearm(&mut self) {
        while let Some(cpu) = self.sys.stepping.touched.pop() {
            self.tree.arm(cpu.index(), self.sys.next_event(cpu));
        }
    }
    /// The CPU whose event is next acts once.
    pub(super) fn act(&mut self, horizon: u64) {
        let Some((slot, at)) = self.tree.first() else { return };
        let cpu = CpuId::from(slot);
        self.tree.arm(slot, NEVER);
        self.sys.stepping.horizon = horizon.min(self.next_event());
        self.sys.stepping.steps += 1;
        self.sys.step(cpu, at);
        self.sys.stepping.touched.push(cpu);
        self.rearm();
    }
}
