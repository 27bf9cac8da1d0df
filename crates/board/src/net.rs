//! Links between machines: messages to an end of a channel that is elsewhere, the interrupts that bring them, and
//! machines behind a link.
//!
//! A message leaves when its sender has copied it (the call costs as much as over loopback). It arrives as an interrupt
//! of the network interface (NAPI's poll is charged within the interrupt), is put into the channel, and wakes the
//! readers. On the host, a message to a virtual machine continues to that machine's vhost thread.
//!
//! Times are ns, sizes bytes. Not modelled: bandwidth, loss, windows, acknowledgements, interrupt moderation, and the
//! interrupts for messages that were sent. A full channel keeps arriving messages aside until it is read.
//!
//! This is state: the messages on their way to each CPU. Drivers take messages through time.

use crate::report::SimReport;
use schedlab_base::{CpuId, Error, Result};
use schedlab_trace::Sink;
use schedlab_workload::{Built, Place, PortId};
use std::collections::VecDeque;

/// A message on its way to an end of a channel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// The end that reads it.
    pub to: PortId,
    pub bytes: u32,
}

/// The network interface of one kernel.
#[derive(Default)]
pub struct Nic {
    /// The place of each end; empty if all are in the same.
    pub places: Vec<Place>,
    /// The place of this kernel.
    pub here: Place,
    /// Messages that arrive at each CPU, in order of time.
    arrivals: Vec<VecDeque<(u64, Packet)>>,
    /// How many of them the interrupt under way takes.
    taking: Vec<u32>,
    /// Bytes for each end that found no room in its channel.
    pub aside: Vec<u64>,
    /// Messages that a guest, or a machine behind a link, has sent.
    pub sent: Vec<Packet>,
    /// Messages received.
    pub received: u64,
}

impl Nic {
    /// The interface of the kernel at `here`, which has `cpus` CPUs.
    pub fn new(workload: &Built, here: Place, cpus: usize) -> Nic {
        if workload.ends.iter().all(|place| *place == here) {
            return Nic::default();
        }
        Nic {
            aside: vec![0; workload.ends.len()],
            places: workload.ends.clone(),
            here,
            arrivals: vec![VecDeque::new(); cpus],
            taking: vec![0; cpus],
            ..Nic::default()
        }
    }
    /// Whether the task that reads at that end is on another machine.
    #[inline]
    pub fn is_far(&self, end: PortId) -> bool {
        !self.places.is_empty() && self.places[end.0 as usize] != self.here
    }
    #[inline]
    pub fn place(&self, end: PortId) -> Place {
        self.places.get(end.0 as usize).copied().unwrap_or(self.here)
    }
    /// A message will arrive at a CPU.
    #[inline]
    pub fn arrives(&mut self, cpu: CpuId, at: u64, packet: Packet) {
        let queue = &mut self.arrivals[cpu.index()];
        let behind = queue.iter().rev().take_while(|(other, _)| *other > at).count();
        queue.insert(queue.len() - behind, (at, packet));
        debug_assert!(
            queue.iter().is_sorted_by_key(|(at, _)| *at),
            "messages for {cpu} are out of order: {queue:?}"
        );
    }
    /// When the next message arrives at a CPU.
    #[inline]
    pub fn next(&self, cpu: CpuId) -> Option<u64> {
        self.arrivals.get(cpu.index()).and_then(|queue| queue.front()).map(|(at, _)| *at)
    }
    /// An interrupt takes the messages that have arrived by `now`; returns how many.
    #[inline]
    pub fn take(&mut self, cpu: CpuId, now: u64) -> u64 {
        let Some(queue) = self.arrivals.get(cpu.index()) else { return 0 };
        let due = queue.iter().take_while(|(at, _)| *at <= now).count();
        let yet = self.taking[cpu.index()];
        debug_assert!(yet == 0, "{cpu} takes {due} messages amid {yet} others");
        self.taking[cpu.index()] = due as u32;
        due as u64
    }
    /// The next of the messages that the interrupt under way takes.
    #[inline]
    pub fn pop(&mut self, cpu: CpuId) -> Option<Packet> {
        let left = self.taking.get_mut(cpu.index()).filter(|left| **left > 0)?;
        *left -= 1;
        self.arrivals[cpu.index()].pop_front().map(|(_, packet)| packet)
    }
}

/// The outcome of a step of another machine, virtual or behind a link.
#[derive(Default)]
pub struct Acted {
    /// Steps of its CPUs.
    pub steps: u64,
    /// The last of its tasks has left.
    pub ended: bool,
    /// The error that ends the run.
    pub fault: Option<Error>,
}

/// A machine behind a link, as the host's driver sees it. All its CPUs' events share one slot of the host's tree.
pub trait Peer {
    /// The link's delay, one way, ns.
    fn delay_ns(&self) -> u64;
    /// Queues of the network interface at the host's end.
    fn queues(&self) -> u32;
    /// Whether its tasks have all left.
    fn is_done(&self) -> bool;
    /// The time of its next event, ns.
    fn next_event(&self) -> u64;
    /// A message was sent to it at `now`.
    fn hears(&mut self, now: u64, packet: Packet);
    /// Its next event happens; the host's next one is at `horizon`. Messages that it sends are added to `sent`, its
    /// programs' values go to `sink`.
    fn act(&mut self, horizon: u64, sent: &mut Vec<Packet>, sink: &mut dyn Sink) -> Acted;
    /// Whether its CPUs may take several steps at once.
    fn let_merge(&mut self, _merge: bool) {}
    /// Walks its invariants.
    ///
    /// # Errors
    /// The first one that does not hold.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }
    /// The warm-up is over at `now`.
    fn begin_measuring(&mut self, now: u64);
    /// Adds the accounts of its tasks at the end of the run.
    ///
    /// # Errors
    /// When they disagree.
    fn close(&mut self, end_ns: u64, report: &mut SimReport) -> Result<()>;
}

/// The CPU that takes the interrupts for a connection: the interface's queues belong to the first CPUs.
pub fn queue_cpu(end: PortId, queues: u32, cpus: usize) -> CpuId {
    let queues = (queues as usize).clamp(1, cpus);
    CpuId::from(end.channel() % queues)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn nic() -> Nic {
        Nic { arrivals: vec![VecDeque::new()], taking: vec![0], ..Nic::default() }
    }

    #[test]
    fn messages_arrive_in_order_of_time_and_in_order_of_sending_at_the_same_time() {
        let (mut nic, cpu) = (nic(), CpuId(0));
        for (at, to) in [(30, 1), (10, 2), (30, 3), (20, 4)] {
            nic.arrives(cpu, at, Packet { to: PortId(to), bytes: 1 });
        }
        assert_eq!(nic.next(cpu), Some(10));
        assert_eq!(nic.take(cpu, 25), 2);
        assert_eq!(
            [nic.pop(cpu), nic.pop(cpu), nic.pop(cpu)].map(|p| p.map(|p| p.to.0)),
            [Some(2), Some(4), None]
        );
        assert_eq!((nic.next(cpu), nic.take(cpu, 30)), (Some(30), 2));
        assert_eq!(nic.pop(cpu).map(|p| p.to.0), Some(1));
    }

    #[test]
    fn connections_are_spread_over_the_queues() {
        let cpu = |channel: u32, queues| queue_cpu(PortId(2 * channel), queues, 4).0;
        assert_eq!([cpu(0, 1), cpu(5, 1)], [0, 0]);
        assert_eq!([cpu(0, 2), cpu(1, 2), cpu(2, 2)], [0, 1, 0]);
        assert_eq!(cpu(7, 99), 3, "a machine has no more queues than CPUs");
        assert_eq!(queue_cpu(PortId(3), 2, 4), queue_cpu(PortId(2), 2, 4), "both ends of a channel");
    }
}
