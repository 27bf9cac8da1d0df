//! Drives `throttle`: charges to a CPU's share, borrowing, and the end of a period.

use crate::rt::throttle::*;
use crate::system::System;
use crate::timer::Fires;
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_trace::SwitchReason;

impl System<'_> {
    /// Whether this kernel throttles real-time tasks and is configured to. With a runtime of 0 they are not throttled
    /// (`sched_rt_runtime_exceeded`).
    fn throttles(&self) -> bool {
        let t = &self.fixed.kernel.tunables;
        self.fixed.history.rt_throttles && (1..t.rt_period_ns).contains(&t.rt_runtime_ns)
    }

    /// Whether a CPU borrows from others.
    fn borrows(&self) -> bool {
        self.fixed.history.rt_always_borrows || self.has(Feature::RtRuntimeShare)
    }

    /// Number of tasks that are queued but not counted, because their CPU's real-time tasks are throttled.
    pub(crate) fn throttled_tasks(&self) -> u32 {
        self.rt.rqs.iter().filter(|rt| rt.share.throttled).map(|rt| rt.array.len() as u32).sum()
    }

    /// Real-time tasks of `cpu` have run for `delta_ns`; returns whether they have exceeded their runtime.
    pub(in crate::rt) fn charge_share(&mut self, cpu: CpuId, delta_ns: u64) -> bool {
        if !self.throttles() {
            return false;
        }
        let t = &self.fixed.kernel.tunables;
        let (runtime_ns, period_ns) = (t.rt_runtime_ns, t.rt_period_ns);
        let share = &mut self.rt.rqs[cpu].share;
        share.used_ns += delta_ns;
        if share.throttled {
            return true;
        }
        if share.runtime(runtime_ns) >= period_ns {
            return false;
        }
        let exceeds = |sys: &Self| sys.rt.rqs[cpu].share.used_ns > sys.rt.rqs[cpu].share.runtime(runtime_ns);
        if exceeds(self) && self.borrows() {
            self.borrow_runtime(cpu);
        }
        let exceeded = exceeds(self);
        if exceeded {
            self.rt.rqs[cpu].share.throttled = true;
            let hidden = self.rt.rqs[cpu].array.len() as u32;
            self.rqs.hide(cpu, hidden, 0);
            self.refresh_idle(cpu);
            self.start_period();
        }
        exceeded
    }

    fn borrow_runtime(&mut self, cpu: CpuId) {
        let t = self.fixed.kernel.tunables;
        for other in self.cpus.ids().filter(|c| *c != cpu) {
            let lender = self.rt.rqs[other].share;
            let spare = lender.runtime(t.rt_runtime_ns).saturating_sub(lender.used_ns);
            let own = self.rt.rqs[cpu].share.runtime(t.rt_runtime_ns);
            let lent = borrowed(own, t.rt_period_ns, spare, self.nr_cpus() as u64) as i64;
            self.rt.rqs[other].share.borrowed_ns -= lent;
            self.rt.rqs[cpu].share.borrowed_ns += lent;
        }
    }

    /// A real-time task exists: starts the period timer, unless it runs already (`start_rt_bandwidth`).
    pub(in crate::rt) fn start_period(&mut self) {
        if self.throttles() && self.rt.shared.period_on.is_none() {
            let (on, at) = (self.stepping.acting, self.now + self.fixed.kernel.tunables.rt_period_ns);
            self.rt.shared.period_on = Some(on);
            self.cpus[on].timers.start(Fires::RtPeriod, at, 0);
        }
    }

    /// A period has ended (`do_sched_rt_period_timer`): updates every CPU's share.
    pub(crate) fn rt_period_ends(&mut self, on: CpuId) {
        self.rt.shared.period_on = None;
        let runtime_ns = self.fixed.kernel.tunables.rt_runtime_ns;
        let (throttles, borrows, mut goes_on) = (self.throttles(), self.borrows(), false);
        for cpu in self.cpus.ids() {
            let share = &mut self.rt.rqs[cpu].share;
            if !borrows {
                // RT_RUNTIME_SHARE was switched off: each CPU has its own runtime again. Kernels before 4.20 (from
                // memory) keep the loans; not modelled.
                share.borrowed_ns = 0;
            }
            let freed = match throttles {
                true => share.end_period(runtime_ns),
                // Throttling was switched off within the period.
                false => std::mem::take(share).throttled,
            };
            if freed {
                self.rqs.show(cpu, self.rt.rqs[cpu].array.len() as u32, 0);
                self.refresh_idle(cpu);
                if !self.rt.rqs[cpu].array.is_empty() {
                    self.resched(on, cpu, SwitchReason::WakeupPreempt);
                }
            }
            goes_on |= self.rt.rqs[cpu].share.used_ns > 0 || !self.rt.rqs[cpu].array.is_empty();
        }
        if goes_on {
            self.start_period();
        }
    }
}
