//! State: a virtual machine. Times are ns.

use crate::system::System;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_board::speed::Speed;
use schedlab_trace::{Event, Sink};
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

/// A virtual machine's kernel.
pub struct GuestKernel<'s> {
    pub(super) sys: Box<System<'s>>,
    /// The host's tasks that execute its vCPUs, and its vhost thread.
    pub(super) threads: (Vec<TaskId>, TaskId),
    /// The instant at which each vCPU last stood still.
    pub(super) paused_at: Vec<u64>,
    pub(super) halt_poll_ns: u64,
    pub(super) relay: Relay,
    /// Its tasks have all left.
    pub(super) done: bool,
}
