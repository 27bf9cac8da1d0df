//! A machine behind a link, as the driver of its host sees it. Times are ns.

use super::remote::Remote;
use crate::invariants;
use crate::nested::accounts;
use crate::run::begin_measuring;
use schedlab_base::{CpuId, Result};
use schedlab_board::drivers::Links;
use schedlab_board::engine::NEVER;
use schedlab_board::net::{Acted, Packet, Peer, queue_cpu};
use schedlab_board::report::SimReport;
use schedlab_trace::Sink;

impl Peer for Remote<'_> {
    fn delay_ns(&self) -> u64 {
        self.delay_ns
    }
    fn queues(&self) -> u32 {
        self.queues
    }
    fn is_done(&self) -> bool {
        self.done
    }
    fn next_event(&self) -> u64 {
        self.tree.first().map_or(NEVER, |(_, at)| at)
    }
    fn hears(&mut self, now: u64, packet: Packet) {
        let cpu = queue_cpu(packet.to, u32::MAX, self.sys.nr_cpus());
        self.sys.arrives(cpu, now.saturating_add(self.delay_ns), packet);
        self.rearm();
    }
    fn act(&mut self, horizon: u64, sent: &mut Vec<Packet>, sink: &mut dyn Sink) -> Acted {
        let Some((slot, at)) = self.tree.first() else { return Acted::default() };
        let cpu = CpuId::from(slot);
        self.tree.arm(slot, NEVER);
        self.sys.stepping.horizon = horizon.min(self.next_event());
        self.sys.stepping.steps += 1;
        self.sys.step(cpu, at);
        self.sys.stepping.touched.push(cpu);
        self.rearm();
        sent.append(&mut self.sys.board.nic.sent);
        self.relay.pass_on(sink);
        accounts::acted(&mut self.sys, &mut self.done)
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
    fn close(&mut self, end_ns: u64, report: &mut SimReport) -> Result<()> {
        accounts::close_kernel(&mut self.sys, end_ns, report)
    }
}
