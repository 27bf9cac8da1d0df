//! A virtual machine's kernel, as the driver of its host sees it, whichever simulator that is. Times are ns.

use super::{GuestKernel, accounts};
use crate::frame::Step;
use crate::invariants;
use crate::run::begin_measuring;
use schedlab_base::{CpuId, Result, TaskId};
use schedlab_board::board::Kernel as _;
use schedlab_board::drivers::Links;
use schedlab_board::engine::NEVER;
use schedlab_board::nested::{Guest, GuestCounts, IRQ_VCPU};
use schedlab_board::net::{Acted, Packet};
use schedlab_board::report::SimReport;
use schedlab_board::speed::Speed;
use schedlab_trace::Sink;

impl Guest for GuestKernel<'_> {
    fn threads(&self) -> (Vec<TaskId>, TaskId) {
        self.threads.clone()
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
        let stood_ns = now - self.paused_at[vcpu.index()];
        self.sys.resume(vcpu, stood_ns, speed);
        self.acts_at(vcpu, now)
    }
    fn pause(&mut self, vcpu: CpuId, now: u64) {
        self.sys.now = now;
        self.sys.stand_still(vcpu);
        self.paused_at[vcpu.index()] = now;
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
        sent.append(&mut self.sys.board.nic.sent);
        self.relay.pass_on(sink);
        accounts::acted(&mut self.sys, &mut self.done)
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
    fn let_merge(&mut self, merge: bool) {
        self.sys.stepping.merge = merge;
    }
    fn check(&mut self) -> Result<()> {
        invariants::walk(&mut self.sys)
    }
    fn begin_measuring(&mut self, now: u64) {
        self.sys.now = now;
        begin_measuring(&mut self.sys);
    }
    fn close(&mut self, end_ns: u64, counted: GuestCounts, report: &mut SimReport) -> Result<()> {
        accounts::close(&mut self.sys, end_ns, counted, report)
    }
}
