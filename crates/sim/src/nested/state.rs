//! State: a virtual machine, and what the driver of its host sees of it ([`Guest`]). Times are ns.

use super::accounts;
use crate::frame::Step;
use crate::run::begin_measuring;
use crate::system::System;
use schedlab_base::{CpuId, Ns, Result, TaskId};
use schedlab_trace::{Event, Sink};
use schedlab_world::engine::NEVER;
use schedlab_world::nested::{Guest, GuestCounts, IRQ_VCPU, Vcpu, Vhost};
use schedlab_world::net::{Acted, Packet};
use schedlab_world::report::SimReport;
use schedlab_world::speed::Speed;
use std::cell::RefCell;
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

/// A virtual machine.
pub struct Nested<'s> {
    /// The guest's kernel.
    pub(crate) sys: Box<System<'s>>,
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
    pub(super) fn new(
        sys: System<'s>,
        threads: (&[TaskId], TaskId),
        halt_poll_ns: u64,
        relay: Relay,
    ) -> Nested<'s> {
        Nested {
            sys: Box::new(sys),
            counted: GuestCounts::default(),
            vcpus: threads.0.iter().map(|thread| Vcpu::new(*thread)).collect(),
            vhost: Vhost::new(threads.1),
            halt_poll_ns,
            relay,
            done: false,
        }
    }
}

impl Guest for Nested<'_> {
    fn threads(&self) -> (Vec<TaskId>, TaskId) {
        (self.vcpus.iter().map(|v| v.thread).collect(), self.vhost.thread)
    }
    fn halt_poll_ns(&self) -> u64 {
        self.halt_poll_ns
    }
    fn stands_still(&self, vcpu: CpuId) -> bool {
        self.sys.stands_still(vcpu)
    }
    fn idles(&self, vcpu: CpuId) -> bool {
        let c = &self.sys.cpus[vcpu];
        matches!(c.task.step, Step::Halted { .. })
            && c.task.ends == NEVER
            && !c.hard.active()
            && !c.soft.active()
            && c.irq_due() > self.sys.now
    }
    fn next_event(&self, vcpu: CpuId) -> u64 {
        self.sys.next_event(vcpu)
    }
    fn acts_at(&self, vcpu: CpuId, now: u64) -> u64 {
        if self.idles(vcpu) { now } else { self.next_event(vcpu).max(now) }
    }
    fn enter(&mut self, vcpu: CpuId, now: u64, speed: Speed) -> u64 {
        self.sys.now = now;
        let state = &mut self.vcpus[vcpu.index()];
        state.asleep = false;
        state.polls_on = None;
        let stood_ns = now - state.paused_at;
        self.sys.resume(vcpu, stood_ns, speed);
        self.acts_at(vcpu, now)
    }
    fn pause(&mut self, vcpu: CpuId, now: u64) {
        self.sys.now = now;
        self.sys.stand_still(vcpu);
        self.vcpus[vcpu.index()].paused_at = now;
    }
    fn act(
        &mut self,
        vcpu: CpuId,
        (now, horizon): (u64, u64),
        speed: Speed,
        sent: &mut Vec<Packet>,
        sink: &mut dyn Sink,
    ) -> Acted {
        self.enter(vcpu, now, speed);
        self.sys.stepping.horizon = horizon;
        while self.sys.run.fault.is_none() && self.next_event(vcpu) <= now {
            self.sys.stepping.steps += 1;
            self.sys.step(vcpu, now);
        }
        self.pause(vcpu, now);
        sent.append(&mut self.sys.others.nic.sent);
        self.relay.pass_on(sink);
        let left = self.sys.run.alive == 0;
        Acted {
            steps: std::mem::take(&mut self.sys.stepping.steps),
            ended: left && !std::mem::replace(&mut self.done, left),
            fault: self.sys.run.fault.take(),
        }
    }
    fn touched(&mut self) -> Option<CpuId> {
        self.sys.stepping.touched.pop()
    }
    fn is_signalled(&self, vcpu: CpuId) -> bool {
        self.sys.cpus[vcpu].ipi_at != NEVER
    }
    fn irq_due(&mut self, vcpu: CpuId, now: u64) -> u64 {
        self.sys.now = now;
        self.sys.cpus[vcpu].irq_due()
    }
    fn arrives(&mut self, now: u64, packet: Packet) {
        self.sys.now = now;
        self.sys.arrives(IRQ_VCPU, now, packet);
    }
    fn begin_measuring(&mut self, now: u64) {
        self.sys.now = now;
        self.counted = GuestCounts::default();
        begin_measuring(&mut self.sys);
    }
    fn close(&mut self, end_ns: u64, counted: GuestCounts, report: &mut SimReport) -> Result<()> {
        accounts::close(&mut self.sys, end_ns, counted, report)
    }
}
