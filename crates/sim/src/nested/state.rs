//! State: a virtual machine. Times are ns.

use crate::system::System;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_board::nested::{GuestCounts, Vcpu, Vhost};
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

/// A virtual machine.
pub struct Nested<'s> {
    /// The guest's kernel.
    pub(crate) sys: Box<System<'s>>,
    /// Counters since the warm-up ended.
    pub counted: GuestCounts,
    pub(super) vcpus: Vec<Vcpu>,
    pub(crate) vhost: Vhost,
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
