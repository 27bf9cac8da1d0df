//! Virtual machines: the host driver's view of a guest's kernel, and the host's state of it.
//!
//! A guest's vCPU acts only while its thread is in user mode on a CPU of the host: the thread's stretch of user mode
//! ends at the vCPU's next event. While the thread is elsewhere the vCPU stands still. A halted vCPU exits to the host,
//! which polls for a while and then puts the thread to sleep. Modelled after arch/x86/kvm (`vcpu_enter_guest`,
//! `kvm_vcpu_block`, `kvm_vcpu_kick`) and drivers/vhost. Times are ns since the run began.

pub mod drive;

use crate::board::Board;
use crate::net::{Acted, Packet};
use crate::report::SimReport;
use crate::speed::Speed;
use crate::thread::UserOp;
use schedlab_base::{CpuId, Result, TaskId};
use schedlab_trace::Sink;
use std::collections::VecDeque;

/// The kernel of a virtual machine, as its host's driver sees it.
pub trait Guest {
    /// The host's tasks that execute its vCPUs, and its vhost thread.
    fn threads(&self) -> (Vec<TaskId>, TaskId);
    /// For how long the host polls for a halted vCPU.
    fn halt_poll_ns(&self) -> u64;
    /// Whether a vCPU does not execute at this instant.
    fn stands_still(&self, vcpu: CpuId) -> bool;
    /// Whether a vCPU has halted and no interrupt is due.
    fn idles(&self, vcpu: CpuId) -> bool;
    /// The next event of a vCPU.
    fn next_event(&self, vcpu: CpuId) -> u64;
    /// When a vCPU acts next after `now`: at once if it has halted and the host does not know yet.
    fn acts_at(&self, vcpu: CpuId, now: u64) -> u64;
    /// A vCPU is entered at `now`; returns when it acts next.
    fn enter(&mut self, vcpu: CpuId, now: u64, speed: Speed) -> u64;
    /// A vCPU stands still from `now` on.
    fn pause(&mut self, vcpu: CpuId, now: u64);
    /// A vCPU does its due work at the first of `times`, and stands still. It may merge its own steps up to the second,
    /// before which the host has no other event. Messages that its programs send are added to `sent`, their values go
    /// to `sink`.
    fn act(
        &mut self,
        vcpu: CpuId,
        times: (u64, u64),
        speed: Speed,
        sent: &mut Vec<Packet>,
        sink: &mut dyn Sink,
    ) -> Acted;
    /// A vCPU whose next event has changed since it was asked for.
    fn touched(&mut self) -> Option<CpuId>;
    /// Whether another CPU has signalled a vCPU that has not noticed yet.
    fn is_signalled(&self, vcpu: CpuId) -> bool;
    /// When the next interrupt of a vCPU is due. `now` is the present, for the guest's clock.
    fn irq_due(&mut self, vcpu: CpuId, now: u64) -> u64;
    /// A message arrives at its network interface.
    fn arrives(&mut self, now: u64, packet: Packet);
    /// Whether its CPUs may take several steps at once.
    fn let_merge(&mut self, _merge: bool) {}
    /// Walks its invariants.
    ///
    /// # Errors
    /// The first one that does not hold.
    fn check(&mut self) -> Result<()> {
        Ok(())
    }
    /// The warm-up is over.
    fn begin_measuring(&mut self, now: u64);
    /// Adds the guest's figures and the host's counts of it to the report.
    ///
    /// # Errors
    /// When the guest's accounts disagree.
    fn close(&mut self, end_ns: u64, counted: GuestCounts, report: &mut SimReport) -> Result<()>;
}

/// The vCPU that takes the network interface's interrupts.
pub const IRQ_VCPU: CpuId = CpuId(0);
/// The working set of a vCPU's thread, KB: the guest's part of a core's private cache.
pub const VCPU_FOOTPRINT_KB: u32 = 256;

/// The host's view of a vCPU.
#[derive(Clone, Copy, Debug)]
pub struct Vcpu {
    pub thread: TaskId,
    /// Its thread sleeps, or is about to, because the vCPU has halted; no one has signalled it yet.
    pub asleep: bool,
    /// The host polls in its place, on that CPU.
    pub polls_on: Option<CpuId>,
}

impl Vcpu {
    /// A vCPU that has not been entered yet.
    pub fn new(thread: TaskId) -> Vcpu {
        Vcpu { thread, asleep: false, polls_on: None }
    }
    /// Its thread executes it: the host neither sleeps nor polls in its place.
    pub fn executes(&mut self) {
        (self.asleep, self.polls_on) = (false, None);
    }
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

/// The way of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Direction {
    /// To the guest.
    In,
    /// From it.
    Out,
}

/// The thread that moves a machine's messages between its virtual network interface and the host (vhost-net).
pub struct Vhost {
    pub thread: TaskId,
    pub queue: VecDeque<(Direction, Packet)>,
    /// The message that it is working on.
    pub current: Option<(Direction, Packet)>,
    /// It sleeps, or is about to sleep, and nobody has woken it yet.
    pub asleep: bool,
}

impl Vhost {
    /// A thread that has not run yet.
    pub fn new(thread: TaskId) -> Vhost {
        Vhost { thread, queue: VecDeque::new(), current: None, asleep: false }
    }
    /// Adds a message for it. Returns the thread if it is to be woken.
    pub fn take(&mut self, way: Direction, packet: Packet) -> Option<TaskId> {
        let waits = self.queue.len();
        debug_assert!(!self.asleep || waits == 0, "{:?} sleeps beside {waits} messages", self.thread);
        self.queue.push_back((way, packet));
        std::mem::take(&mut self.asleep).then_some(self.thread)
    }
    /// Takes up the next message; without one it is about to sleep. Returns whether there is one.
    pub fn take_up(&mut self) -> bool {
        debug_assert!(self.current.is_none(), "{:?} takes up a message amid {:?}", self.thread, self.current);
        self.current = self.queue.pop_front();
        self.asleep = self.current.is_none();
        self.current.is_some()
    }
}

/// A virtual machine of a host.
pub struct Nested<'s> {
    pub guest: Box<dyn Guest + 's>,
    pub vcpus: Vec<Vcpu>,
    pub vhost: Vhost,
    /// Counters since the warm-up ended.
    pub counted: GuestCounts,
    /// Waits of its vCPUs' threads when measuring began.
    waited_before_ns: u64,
}

impl<'s> Board<'s> {
    /// Adds a guest, all of whose threads are declared: they execute vCPUs.
    pub fn add_guest(&mut self, guest: Box<dyn Guest + 's>) {
        let machine = self.nested.len() as u16;
        let (threads, vhost) = guest.threads();
        for (n, thread) in threads.iter().enumerate() {
            let thread = &mut self.threads[*thread];
            thread.user = UserOp::Vcpu { machine, vcpu: CpuId::from(n) };
            thread.footprint_kb = VCPU_FOOTPRINT_KB;
        }
        self.nested.push(Nested {
            guest,
            vcpus: threads.into_iter().map(Vcpu::new).collect(),
            vhost: Vhost::new(vhost),
            counted: GuestCounts::default(),
            waited_before_ns: 0,
        });
    }

    /// The thread of a vCPU was woken by its timer.
    pub fn vcpu_woke(&mut self, thread: TaskId) {
        if let Some((machine, vcpu)) = self.threads[thread].vcpu() {
            self.nested[machine].vcpus[vcpu.index()].asleep = false;
        }
    }
}
