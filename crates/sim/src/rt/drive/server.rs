//! Drives `server`: fair tasks that arrive and run, and the server's timer.

use crate::rt::RtShared;
use crate::rt::server::*;
use crate::system::System;
use crate::timer::Fires;
use schedlab_base::CpuId;
use schedlab_board::board::Kernel as _;
use schedlab_trace::SwitchReason;

impl System<'_> {
    fn reserved(&self) -> Reserved {
        let t = &self.fixed.kernel.tunables;
        Reserved { runtime_ns: t.fair_server_runtime_ns, period_ns: t.fair_server_period_ns }
    }

    /// Whether the server must follow the fair tasks. It need not in kernels without one, and while there is no
    /// real-time task.
    #[inline]
    fn has_server(&self) -> bool {
        self.rt.shared.any && self.fixed.history.fair_server && self.reserved().runtime_ns > 0
    }

    /// Whether fair tasks run before real-time ones on `cpu`.
    pub(in crate::rt) fn fair_goes_first(&self, cpu: CpuId) -> bool {
        self.has_server() && self.rt.rqs[cpu].server.stage == ServerStage::Runs
    }

    /// A fair task has arrived on `cpu`.
    #[inline]
    pub(crate) fn fair_comes(&mut self, cpu: CpuId) {
        if self.has_server() && self.rt.rqs[cpu].server.stage == ServerStage::Stopped {
            let (now, reserved) = (self.now, self.reserved());
            let turned = self.rt.rqs[cpu].server.start(now, reserved);
            self.server_turned(cpu, turned);
        }
    }

    /// A pick begins on `cpu`: a server whose turn it is stops if there is no fair task.
    pub(crate) fn stop_idle_server(&mut self, cpu: CpuId) {
        if self.fair_goes_first(cpu) && self.h_nr_running(cpu) == 0 {
            self.rt.rqs[cpu].server.stop();
            self.server_turned(cpu, Turned { timer_at: None, resched: false });
        }
    }

    /// Fair tasks of `cpu` have run for `delta_ns`.
    #[inline]
    pub(crate) fn charge_server(&mut self, cpu: CpuId, delta_ns: u64) {
        if !self.has_server() {
            return;
        }
        let (now, reserved) = (self.now, self.reserved());
        // If a real-time task is runnable, fair tasks continue only while the server runs.
        let gives_way = self.rt.rqs[cpu].is_runnable();
        if let Some(turned) = self.rt.rqs[cpu].server.charge(now, delta_ns, gives_way, reserved) {
            self.server_turned(cpu, turned);
        }
    }

    /// The server's timer has fired on `cpu`.
    pub(crate) fn server_expires(&mut self, cpu: CpuId) {
        self.rt.rqs[cpu].server.timer = None;
        // The running task's time since its last charge counts, too.
        self.charge_curr(cpu);
        if !self.has_server() {
            // The server was switched off meanwhile.
            return self.rt.rqs[cpu].server.stop();
        }
        let (now, reserved) = (self.now, self.reserved());
        if let Some(turned) = self.rt.rqs[cpu].server.expire(now, reserved) {
            self.server_turned(cpu, turned);
        }
    }

    fn server_turned(&mut self, cpu: CpuId, turned: Turned) {
        if let Some(number) = self.rt.rqs[cpu].server.timer.take() {
            self.cpus[cpu].timers.cancel(number);
        }
        if let Some(at) = turned.timer_at {
            self.rt.rqs[cpu].server.timer = Some(self.cpus[cpu].timers.start(Fires::FairServer, at, 0));
        }
        if cpu != self.stepping.acting {
            self.touch(cpu);
        }
        // Without a runnable real-time task the order does not matter.
        if turned.resched && self.rt.rqs[cpu].is_runnable() {
            self.resched(self.stepping.acting, cpu, SwitchReason::FairServer);
        }
    }
}

impl RtShared {
    /// The first real-time task has arrived: from now on the servers follow the fair tasks. Servers of CPUs with fair
    /// tasks start.
    pub(crate) fn first_comes(sys: &mut System<'_>) {
        if std::mem::replace(&mut sys.rt.shared.any, true) {
            return;
        }
        for cpu in sys.cpus.ids() {
            if sys.h_nr_running(cpu) > 0 {
                sys.fair_comes(cpu);
            }
        }
    }
}
