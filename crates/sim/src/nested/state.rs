//! State: a virtual machine, its vCPUs, and the thread that moves its messages. Times are ns.

use crate::frame::Step;
use crate::system::System;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Event, Sink};
use schedlab_world::engine::NEVER;
use schedlab_world::net::Packet;
use schedlab_world::speed::Speed;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

/// A value that a program in a guest recorded: time, task, series, value.
type Sample = (Ns, TaskId, u16, u64);

/// The sink of a guest: its programs' values wait here for the host, its events are dropped.
#[derive(Clone, Default)]
pub struct Relay {
    samples: Rc<RefCell<Vec<Sample>>>,
}

impl Sink for Relay {
    fn event(&mut self, _: &Event) {}
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.samples.borrow_mut().push((at, task, series, value));
    }
}

impl Relay {
    /// Passes on what has come.
    pub fn pass_on(&self, sink: &mut dyn Sink) {
        for (at, task, series, value) in self.samples.borrow_mut().drain(..) {
            sink.sample(at, task, series, value);
        }
    }
}

/// The part of a guest's system that depends on its host.
pub struct Hosted {
    /// Whether each vCPU executes at this instant.
    pub(super) runs: Vec<bool>,
    /// The speed of the host's CPU below each vCPU.
    pub(super) speed: Vec<Speed>,
    /// The tick continues while a vCPU is idle.
    pub periodic_tick: bool,
}

impl Hosted {
    /// The state before the first entry.
    pub fn new(vcpus: usize, periodic_tick: bool) -> Hosted {
        Hosted { runs: vec![false; vcpus], speed: vec![Speed::FULL; vcpus], periodic_tick }
    }
    /// The same for the CPUs of a machine behind a link, which are not vCPUs.
    pub fn apart(cpus: usize) -> Hosted {
        Hosted { runs: vec![true; cpus], speed: vec![Speed::FULL; cpus], periodic_tick: false }
    }
    /// Whether a vCPU executes at this instant.
    pub fn runs(&self, cpu: CpuId) -> bool {
        self.runs[cpu.index()]
    }
    /// The speed of the host's CPU below a vCPU.
    pub fn speed(&self, cpu: CpuId) -> Speed {
        self.speed[cpu.index()]
    }
}

/// The host's view of a vCPU.
#[derive(Clone, Copy, Debug)]
pub(super) struct Vcpu {
    pub(super) thread: TaskId,
    /// The instant at which it last stood still, ns.
    pub(super) paused_at: u64,
    /// Its thread sleeps, or is about to, because the vCPU has halted; no one has signalled it yet.
    pub(super) asleep: bool,
    /// The host polls in its place, on that CPU.
    pub(super) polls_on: Option<CpuId>,
}

/// Counters of a virtual machine.
#[derive(Clone, Copy, Default, Debug)]
pub struct GuestCounts {
    /// Halts that reached the host.
    pub halts: u64,
    /// Halts that put the thread to sleep.
    pub sleeps: u64,
    /// Threads woken by a signal from another vCPU.
    pub kicks: u64,
    /// Time for which threads of vCPUs were runnable and did not run, ns (`run_delay`, which is KVM's steal time).
    pub steal_ns: u64,
}

/// A virtual machine.
pub struct Nested<'s> {
    /// The guest's kernel.
    pub sys: Box<System<'s>>,
    /// Counters since the warm-up ended.
    pub counted: GuestCounts,
    pub(super) vcpus: Vec<Vcpu>,
    pub(super) vhost: Vhost,
    pub(super) halt_poll_ns: u64,
    pub(super) relay: Relay,
    /// Its tasks have all left.
    pub(super) done: bool,
}

impl<'s> Nested<'s> {
    /// A machine whose vCPUs have not been entered yet. `threads`: its vCPUs' threads, and vhost's.
    pub fn new(sys: System<'s>, threads: (&[TaskId], TaskId), halt_poll_ns: u64, relay: Relay) -> Nested<'s> {
        let vcpu = |thread: &TaskId| Vcpu { thread: *thread, paused_at: 0, asleep: false, polls_on: None };
        Nested {
            sys: Box::new(sys),
            counted: GuestCounts::default(),
            vcpus: threads.0.iter().map(vcpu).collect(),
            vhost: Vhost::new(threads.1),
            halt_poll_ns,
            relay,
            done: false,
        }
    }
    /// The next event of a vCPU, ns: the next time at which it can act.
    pub(super) fn next_event(&self, vcpu: CpuId) -> u64 {
        self.sys.next_event(vcpu)
    }
    /// Whether a vCPU has halted and no interrupt is due.
    pub(super) fn idles(&self, vcpu: CpuId) -> bool {
        let c = &self.sys.cpus[vcpu];
        matches!(c.task.step, Step::Halted { .. })
            && c.task.ends == NEVER
            && !c.hard.active()
            && !c.soft.active()
            && c.irq_due() > self.sys.now
    }
    /// When a vCPU acts next after `now`, ns: at once if it has halted and the host does not know yet.
    pub(super) fn acts_at(&self, vcpu: CpuId, now: u64) -> u64 {
        if self.idles(vcpu) { now } else { self.next_event(vcpu).max(now) }
    }
    /// A vCPU is entered at `now`; returns when it acts next, ns.
    pub(super) fn enter(&mut self, vcpu: CpuId, now: u64, speed: Speed) -> u64 {
        self.sys.now = now;
        let state = &mut self.vcpus[vcpu.index()];
        state.asleep = false;
        state.polls_on = None;
        let stood_ns = now - state.paused_at;
        self.sys.resume(vcpu, stood_ns, speed);
        self.acts_at(vcpu, now)
    }
    /// A vCPU stands still from `now` on.
    pub(super) fn pause(&mut self, vcpu: CpuId, now: u64) {
        self.sys.now = now;
        self.sys.stand_still(vcpu);
        self.vcpus[vcpu.index()].paused_at = now;
    }
}

/// The way of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Direction {
    /// To the guest.
    In,
    /// From it.
    Out,
}

/// The thread's state.
pub struct Vhost {
    pub(super) thread: TaskId,
    pub(super) queue: VecDeque<(Direction, Packet)>,
    /// The message that it is working on.
    pub(super) current: Option<(Direction, Packet)>,
    /// It sleeps, or is about to, and nobody has woken it yet.
    pub(super) asleep: bool,
}

impl Vhost {
    /// A thread that has not run yet.
    pub fn new(thread: TaskId) -> Vhost {
        Vhost { thread, queue: VecDeque::new(), current: None, asleep: false }
    }
    pub(super) fn take(&mut self, way: Direction, packet: Packet) {
        self.queue.push_back((way, packet));
    }
}
