//! Throttling: real-time tasks of a CPU run for 950 ms of each second at most (`sched_rt_runtime_us`, before 6.12).
//!
//! What they run is charged to the CPU's share; beyond its runtime they are throttled, and are not counted as runnable,
//! until a period's end takes a runtime off what they have had. One timer serves all CPUs; it runs while there is
//! anything to do for it. With RT_RUNTIME_SHARE a CPU first borrows what the others have not used, so that one CPU's
//! task is hardly ever throttled on a large machine. What is borrowed is not given back.
//!
//! Since 6.12 only groups of real-time tasks are throttled, and the fair server takes this one's place.

use crate::system::System;
use crate::timer::Fires;
use schedlab_base::CpuId;
use schedlab_trace::SwitchReason;

/// A CPU's share of a period.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Share {
    /// What real-time tasks have had (`rt_time`), ns.
    pub used_ns: u64,
    /// What is lent to it by others, less what it has lent, ns: `rt_runtime` is the tunable and this.
    pub borrowed_ns: i64,
    /// They have had too much (`rt_throttled`).
    pub throttled: bool,
}

impl Share {
    /// `rt_runtime`, ns.
    fn runtime(&self, runtime_ns: u64) -> u64 {
        runtime_ns.saturating_add_signed(self.borrowed_ns)
    }

    /// A period has ended: a runtime is taken off what they have had. Whether they are no longer throttled.
    pub fn end_period(&mut self, runtime_ns: u64) -> bool {
        let runtime = self.runtime(runtime_ns);
        self.used_ns -= self.used_ns.min(runtime);
        let freed = self.throttled && self.used_ns < runtime;
        self.throttled &= !freed;
        freed
    }
}

/// What a CPU that has `own_ns` may borrow of one that has not used `spare_ns`: an equal part, up to the period
/// (`do_balance_runtime`).
pub fn borrowed(own_ns: u64, period_ns: u64, spare_ns: u64, nr_cpus: u64) -> u64 {
    (spare_ns / nr_cpus).min(period_ns.saturating_sub(own_ns))
}

impl System<'_> {
    /// Whether this kernel throttles real-time tasks, and is set to. Where nothing is assigned to them at all they
    /// are not throttled (`sched_rt_runtime_exceeded`).
    fn throttles(&self) -> bool {
        let t = &self.fixed.kernel.tunables;
        self.fixed.history.rt_throttles && (1..t.rt_period_ns).contains(&t.rt_runtime_ns)
    }

    /// Tasks that are queued and not counted, for their CPU's real-time tasks are throttled.
    pub(crate) fn throttled_tasks(&self) -> u32 {
        self.rt.iter().filter(|rt| rt.share.throttled).map(|rt| rt.array.len() as u32).sum()
    }

    /// Real-time tasks of `cpu` have run for so long; whether they have had too much.
    pub(super) fn charge_share(&mut self, cpu: CpuId, delta_ns: u64) -> bool {
        if !self.throttles() {
            return false;
        }
        let t = &self.fixed.kernel.tunables;
        let (runtime_ns, period_ns) = (t.rt_runtime_ns, t.rt_period_ns);
        let share = &mut self.rt[cpu].share;
        share.used_ns += delta_ns;
        if share.throttled {
            return true;
        }
        if share.runtime(runtime_ns) >= period_ns {
            return false;
        }
        let exceeds = |sys: &Self| sys.rt[cpu].share.used_ns > sys.rt[cpu].share.runtime(runtime_ns);
        if exceeds(self) && self.fixed.history.rt_borrows {
            self.borrow_runtime(cpu);
        }
        let exceeded = exceeds(self);
        if exceeded {
            self.rt[cpu].share.throttled = true;
            let hidden = self.rt[cpu].array.len() as u32;
            self.nr_running[cpu] -= hidden;
            self.refresh_idle(cpu);
            self.start_period();
        }
        exceeded
    }

    fn borrow_runtime(&mut self, cpu: CpuId) {
        let t = self.fixed.kernel.tunables;
        for other in self.cpus.ids().filter(|c| *c != cpu) {
            let lender = self.rt[other].share;
            let spare = lender.runtime(t.rt_runtime_ns).saturating_sub(lender.used_ns);
            let own = self.rt[cpu].share.runtime(t.rt_runtime_ns);
            let lent = borrowed(own, t.rt_period_ns, spare, self.nr_cpus() as u64) as i64;
            self.rt[other].share.borrowed_ns -= lent;
            self.rt[cpu].share.borrowed_ns += lent;
        }
    }

    /// There is a real-time task: periods begin to count, unless they do already (`start_rt_bandwidth`).
    pub(super) fn start_period(&mut self) {
        if self.throttles() && self.rt_shared.period_on.is_none() {
            let (on, at) = (self.acting, self.now + self.fixed.kernel.tunables.rt_period_ns);
            self.rt_shared.period_on = Some(on);
            self.cpus[on].timers.start(Fires::RtPeriod, at, 0);
        }
    }

    /// A period has ended (`do_sched_rt_period_timer`): every CPU's share is seen to.
    pub(crate) fn rt_period_ends(&mut self, on: CpuId) {
        self.rt_shared.period_on = None;
        let runtime_ns = self.fixed.kernel.tunables.rt_runtime_ns;
        let (throttles, mut goes_on) = (self.throttles(), false);
        for cpu in self.cpus.ids() {
            let share = &mut self.rt[cpu].share;
            let freed = match throttles {
                true => share.end_period(runtime_ns),
                // It was switched off within the period.
                false => std::mem::take(share).throttled,
            };
            if freed {
                self.nr_running[cpu] += self.rt[cpu].array.len() as u32;
                self.refresh_idle(cpu);
                if !self.rt[cpu].array.is_empty() {
                    self.resched(on, cpu, SwitchReason::WakeupPreempt);
                }
            }
            goes_on |= self.rt[cpu].share.used_ns > 0 || !self.rt[cpu].array.is_empty();
        }
        if goes_on {
            self.start_period();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn a_period_s_end_takes_a_runtime_off() {
        let mut s = Share { used_ns: 952 * MS, throttled: true, ..Share::default() };
        assert!(s.end_period(950 * MS));
        assert_eq!((s.used_ns, s.throttled), (2 * MS, false));
        let mut debtor = Share { used_ns: 2000 * MS, throttled: true, ..Share::default() };
        assert!(!debtor.end_period(950 * MS), "it has had more than a runtime still");
        assert!(debtor.end_period(950 * MS));
    }

    #[test]
    fn a_cpu_borrows_an_equal_part_and_no_more_than_the_period() {
        assert_eq!(borrowed(950 * MS, 1000 * MS, 950 * MS, 4), 50 * MS, "the whole second is had");
        assert_eq!(borrowed(950 * MS, 1000 * MS, 100 * MS, 4), 25 * MS);
        assert_eq!(borrowed(1000 * MS, 1000 * MS, 950 * MS, 4), 0);
    }
}
