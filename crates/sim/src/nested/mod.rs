//! A virtual machine: a kernel of its own whose CPUs are threads of the host.
//!
//! A [`Nested`] owns the guest's [`System`]. Both kernels read one clock, in ns since the run began. A vCPU acts only
//! while its thread is in user mode on a host's CPU: the thread's stretch of user mode ends at the vCPU's next event.
//! While the thread is elsewhere (preempted, in an interrupt, in an exit) the vCPU stands still: steps under way are
//! put off by that time, work is kept as work left, and timers keep their times and are late.
//!
//! A halted vCPU exits to the host. The host polls for a while (`halt_poll_ns`) and then puts the thread to sleep until
//! the vCPU's next timer. A signal to a vCPU whose thread sleeps is a wakeup by the host, in the sender's thread.
//! Modelled after arch/x86/kvm: `vcpu_enter_guest`, `kvm_vcpu_block`, `kvm_vcpu_kick`; no release is told apart.
//!
//! A vCPU never stands still with a spinlock held: the preemption of lock holders is not modelled.
//!
//! The guest has no steal clock: it charges stolen time to the task that is current. Its CPUs are cores that share one
//! cache. `machine`: the guest's machine. `drive`: the host's side. `vhost`: its messages.

pub mod accounts;
mod drive;
pub mod machine;
pub mod set_up;
mod vhost;

use crate::engine::NEVER;
use crate::frame::Step;
use crate::system::{Context, System};
use crate::task::UserOp;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Event, Sink};
use std::cell::RefCell;
use std::rc::Rc;
use vhost::Vhost;

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
    runs: Vec<bool>,
    /// The speed of the host's CPU below each vCPU, per cent.
    speed_pct: Vec<u64>,
    /// The tick goes on while a vCPU is idle.
    pub periodic_tick: bool,
}

impl Hosted {
    /// The state before the first entry.
    pub fn new(vcpus: usize, periodic_tick: bool) -> Hosted {
        Hosted { runs: vec![false; vcpus], speed_pct: vec![100; vcpus], periodic_tick }
    }
    /// The same for CPUs that are not vCPUs, but those of a machine behind a link.
    pub fn apart(cpus: usize) -> Hosted {
        Hosted { runs: vec![true; cpus], speed_pct: vec![100; cpus], periodic_tick: false }
    }
    /// Whether a vCPU executes at this instant.
    pub fn runs(&self, cpu: CpuId) -> bool {
        self.runs[cpu.index()]
    }
    /// The speed of the host's CPU below a vCPU, per cent.
    pub fn speed_pct(&self, cpu: CpuId) -> u64 {
        self.speed_pct[cpu.index()]
    }
}

/// The host's view of a vCPU.
#[derive(Clone, Copy, Debug)]
struct Vcpu {
    /// Its thread.
    thread: TaskId,
    /// The instant at which it last stood still, ns.
    paused_at: u64,
    /// Its thread sleeps, or is about to, because the vCPU has halted; no one has signalled it yet.
    asleep: bool,
    /// The host polls in its place, on that CPU.
    polls_on: Option<CpuId>,
}

/// Counters of a virtual machine.
#[derive(Clone, Copy, Default, Debug)]
pub struct Counted {
    /// Halts that reached the host.
    pub halts: u64,
    /// Halts that put the thread to sleep.
    pub sleeps: u64,
    /// Threads woken by a signal from another vCPU.
    pub kicks: u64,
    /// Time for which a vCPU that had not halted stood still, ns.
    pub steal_ns: u64,
}

/// A virtual machine.
pub struct Nested<'s> {
    /// The guest's kernel.
    pub sys: Box<System<'s>>,
    /// Counters since the warm-up ended.
    pub counted: Counted,
    vcpus: Vec<Vcpu>,
    vhost: Vhost,
    halt_poll_ns: u64,
    relay: Relay,
    /// Its tasks have all left.
    done: bool,
}

impl<'s> Nested<'s> {
    /// A machine whose vCPUs have not been entered yet. `threads`: those of its vCPUs, and vhost's.
    pub fn new(sys: System<'s>, threads: (&[TaskId], TaskId), halt_poll_ns: u64, relay: Relay) -> Nested<'s> {
        let vcpu = |thread: &TaskId| Vcpu { thread: *thread, paused_at: 0, asleep: false, polls_on: None };
        Nested {
            sys: Box::new(sys),
            counted: Counted::default(),
            vcpus: threads.0.iter().map(vcpu).collect(),
            vhost: Vhost::new(threads.1),
            halt_poll_ns,
            relay,
            done: false,
        }
    }
    /// The next event of a vCPU, ns: the next time at which it can act.
    fn next_event(&self, vcpu: CpuId) -> u64 {
        self.sys.next_event(vcpu)
    }
    /// Whether a vCPU has halted and no interrupt is due.
    fn idles(&self, vcpu: CpuId) -> bool {
        let c = &self.sys.cpus[vcpu];
        matches!(c.task.step, Step::Halted { .. })
            && c.task.ends == NEVER
            && !c.hard.active()
            && !c.soft.active()
            && c.irq_due() > self.sys.now
    }
    /// A vCPU is entered at `now`; returns when it acts next, ns.
    fn enter(&mut self, vcpu: CpuId, now: u64, speed_pct: u64) -> u64 {
        let state = &mut self.vcpus[vcpu.index()];
        let slept = std::mem::take(&mut state.asleep);
        state.polls_on = None;
        let stood_ns = now - state.paused_at;
        if !slept && !self.idles(vcpu) {
            self.counted.steal_ns += stood_ns;
        }
        self.sys.now = now;
        self.sys.resume(vcpu, stood_ns, speed_pct);
        if self.idles(vcpu) { now } else { self.next_event(vcpu).max(now) }
    }
    /// A vCPU stands still from `now` on.
    fn pause(&mut self, vcpu: CpuId, now: u64) {
        self.sys.now = now;
        self.sys.stand_still(vcpu);
        self.vcpus[vcpu.index()].paused_at = now;
    }
}

impl System<'_> {
    /// The vCPU goes on after `stood_ns`: what it was doing takes that much longer.
    fn resume(&mut self, vcpu: CpuId, stood_ns: u64, speed_pct: u64) {
        if let Some(hosted) = &mut self.hosted {
            hosted.runs[vcpu.index()] = true;
            hosted.speed_pct[vcpu.index()] = speed_pct;
        }
        let c = &mut self.cpus[vcpu];
        let frame = match (c.hard.active(), c.soft.active()) {
            (true, _) => &mut c.hard,
            (false, true) => &mut c.soft,
            (false, false) => &mut c.task,
        };
        match frame.step {
            Step::User => self.start_user(vcpu),
            // Its timers have gone on.
            Step::Halted { .. } => {}
            _ if frame.ends != NEVER => frame.ends += stood_ns,
            _ => {}
        }
        for context in [Context::Task, Context::Hard] {
            // A vCPU is taken off before it takes a lock, not while it has one.
            self.cpus[vcpu].waking[context as usize].put_off(stood_ns);
        }
    }
    /// The vCPU stands still from this instant on.
    fn stand_still(&mut self, vcpu: CpuId) {
        self.account_user(vcpu);
        if let Some(hosted) = &mut self.hosted {
            hosted.runs[vcpu.index()] = false;
        }
    }
    /// Whether a guest's vCPU does not execute at this instant.
    #[inline]
    pub fn stands_still(&self, cpu: CpuId) -> bool {
        self.hosted.as_ref().is_some_and(|h| !h.runs(cpu))
    }
    /// The machine and the vCPU whose thread this task is.
    #[inline]
    pub fn vcpu_of(&self, task: TaskId) -> Option<(usize, CpuId)> {
        match self.tasks[task].user {
            UserOp::Vcpu { machine, vcpu } => Some((usize::from(machine), vcpu)),
            _ => None,
        }
    }
}
