//! A machine behind a link: a kernel of its own, whose CPUs are many and never part of what is studied.
//!
//! It is driven by the same clock as the host. All its CPUs share one slot of the host's tree; within, its own tree
//! tells which of them acts.

use super::{Nic, Packet};
use crate::engine::{NEVER, WinnerTree};
use crate::nested::{Hosted, Relay};
use crate::run::load_workload;
use crate::system::System;
use schedlab_base::{CpuId, Ns, Result, Stream};
use schedlab_machine::shape::Shape;
use schedlab_machine::{IdleGovernor, IdleState, Machine};
use schedlab_workload::{Built, Place, RemoteDecl};

/// A machine behind a link.
pub struct Remote<'s> {
    /// Its kernel.
    pub sys: Box<System<'s>>,
    /// The link's delay, one way, ns.
    pub delay_ns: u64,
    /// Queues of the network interface at the host's end.
    pub queues: u32,
    tree: WinnerTree,
    relay: Relay,
    /// Its tasks have all left.
    pub done: bool,
}

/// The machine with a CPU for each task: the host's costs, and no idle states.
///
/// # Errors
/// For a number of CPUs that no topology has.
pub fn machine(host: &Machine, decl: &RemoteDecl) -> Result<Machine> {
    let awake = |name: &str| IdleState {
        name: name.to_owned(),
        exit: Ns::ZERO,
        residency: Ns::ZERO,
        typical: Ns::ZERO,
    };
    Ok(Machine {
        name: decl.name.clone(),
        about: "a machine behind a link".to_owned(),
        topology: Shape::flat(decl.cpus, 1).topology()?,
        costs: host.costs,
        kernels: Vec::new(),
        idle_states: vec![awake("POLL"), awake("HLT")],
        idle_governor: IdleGovernor::Halt,
        background: Vec::new(),
        background_from: None,
        turns: None,
        unfit: None,
        provenance: Vec::new(),
        os_cpu: Vec::new(),
    })
}

/// Boots the machine: its tasks are there.
pub fn boot<'s>(
    machine: &'s Machine,
    (decl, number): (&RemoteDecl, usize),
    part: Built,
    seed: u64,
    (relay, sink): (Relay, &'s mut Relay),
) -> Remote<'s> {
    let own = Stream::new(seed).purpose("remote").number(number as u64);
    let mut sys = System::new(machine, decl.kernel, own.below(0, u64::MAX), sink);
    let (cpus, place) = (sys.nr_cpus(), Place::Remote(number as u32));
    sys.measure_from = part.warmup.0;
    sys.hosted = Some(Hosted::apart(cpus));
    sys.nic = Nic::new(&part, place, cpus);
    for task in load_workload(&mut sys, part, place) {
        sys.start_task(task);
        let cpu = sys.tasks[task].cpu;
        sys.kick(CpuId(0), cpu);
    }
    let mut tree = WinnerTree::new(cpus, own.purpose("ties"));
    (0..cpus).for_each(|c| tree.arm(c, sys.next_event(CpuId::from(c))));
    sys.touched.clear();
    let (delay_ns, queues) = (decl.delay.0, decl.queues);
    Remote { sys: Box::new(sys), delay_ns, queues, tree, relay, done: false }
}

impl<'s> Remote<'s> {
    /// The time of its next event, ns.
    pub fn next_event(&self) -> u64 {
        self.tree.first().map_or(NEVER, |(_, at)| at)
    }
    /// A message was sent to it at `now`.
    pub fn hears(&mut self, now: u64, packet: Packet) {
        let cpu = super::queue_cpu(packet.to, u32::MAX, self.sys.nr_cpus());
        self.sys.arrives(cpu, now.saturating_add(self.delay_ns), packet);
        self.rearm();
    }
    fn rearm(&mut self) {
        while let Some(cpu) = self.sys.touched.pop() {
            self.tree.arm(cpu.index(), self.sys.next_event(cpu));
        }
    }
    /// The CPU whose event is next acts once.
    fn act(&mut self, horizon: u64) {
        let Some((slot, at)) = self.tree.first() else { return };
        let cpu = CpuId::from(slot);
        self.tree.arm(slot, NEVER);
        self.sys.horizon = horizon.min(self.next_event());
        self.sys.steps += 1;
        self.sys.step(cpu, at);
        self.sys.touched.push(cpu);
        self.rearm();
    }
}

impl System<'_> {
    /// The slot of a machine behind a link, in the order of the tree: after the CPUs and the events from outside.
    pub fn slot_of_remote(&self, number: usize) -> CpuId {
        CpuId::from(self.nr_cpus() + 1 + number)
    }
    /// The time of a slot's next event: a CPU's, or that of a machine behind a link.
    #[inline]
    pub fn slot_event(&self, slot: CpuId) -> u64 {
        match slot.index().checked_sub(self.nr_cpus() + 1) {
            None => self.next_event(slot),
            Some(number) => self.remotes[number].next_event(),
        }
    }
    /// A machine behind a link acts at `now`, ns.
    pub fn remote_acts(&mut self, number: usize, now: u64, horizon: u64) {
        self.now = now;
        let link = &mut self.remotes[number];
        link.act(horizon);
        self.steps += std::mem::take(&mut link.sys.steps);
        let ends = link.sys.alive == 0 && !std::mem::replace(&mut link.done, link.sys.alive == 0);
        self.alive -= usize::from(ends);
        if let Some(fault) = link.sys.fault.take() {
            self.fault = Some(fault);
        }
        let mut sent = std::mem::take(&mut link.sys.nic.sent);
        let relay = link.relay.clone();
        for packet in sent.drain(..) {
            self.from_remote(number, packet);
        }
        self.remotes[number].sys.nic.sent = sent;
        relay.pass_on(&mut *self.sink);
    }
}
