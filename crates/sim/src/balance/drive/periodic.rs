//! Periodic balance in softirq context: a CPU's own domains, then the domains of tickless idle CPUs
//! (`run_rebalance_domains`).
//!
//! The walk goes bottom up, and a domain is due when its interval has passed. If a domain is not this CPU's turn to
//! balance, higher domains are not visited, and their times do not count. Later kernels serve the tickless CPUs first,
//! so that a pull for the balancing CPU itself does not end their service. SD_SERIALIZE domains are balanced by one CPU
//! at a time, machine-wide, with a trylock. Mirrors 3.4 and 4.5.

use super::pass::PassProgress;
use crate::balance::era::PassKind;
use crate::balance::interval::{IntervalFacts, NextBalance, is_due};
use crate::balance::newidle_gate::{Gates, longest_pass};
use crate::balance::state::Pass;
use crate::balance::state::Periodic;
use crate::frame::{Frame, Step};
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_trace::{BalanceTrigger, SkipReason};

impl System<'_> {
    /// The current time, in ticks.
    #[inline]
    pub(crate) fn jiffies(&self) -> u64 {
        self.fixed.first_jiffy + self.now / self.fixed.tick_ns
    }

    pub(super) fn balance_clock(&self) -> IntervalFacts {
        IntervalFacts {
            busy_is_short: self.fixed.history.busy_interval_short,
            hz: self.fixed.kernel.tunables.hz,
            nr_cpus: self.nr_cpus() as u64,
        }
    }

    /// The softirq starts: the CPU's own domains, and the domains of tickless CPUs if it was asked and is still idle.
    pub fn begin_softirq(&mut self, cpu: CpuId) {
        // A timer of the same interrupt may have woken a task since.
        let idle = self.cpus[cpu].ticked_idle.take().unwrap_or_else(|| self.idle_at_tick(cpu));
        let spare = self.looks_at_spare();
        let (now, hz) = (self.jiffies(), self.fixed.kernel.tunables.hz);
        let c = &mut self.cpus[cpu];
        let flags = if spare { std::mem::take(&mut c.nohz_serves) } else { c.nohz_asked };
        let helps = idle && flags.kicked();
        let mut p = Periodic {
            began_ns: self.now,
            tickless_from: helps.then_some(0),
            // Since 5.5 the ring of a helping CPU ends with its own domains.
            own: (!helps || !spare).then_some(idle),
            flags,
            began_tick: now,
            earliest: now + 60 * hz,
            ..Periodic::default()
        };
        if helps && spare {
            self.balance.nohz.has_blocked &= !flags.averages;
            self.balance.nohz.needs_update &= !flags.next_balance;
        }
        let cost = self.next_cpu(cpu, &mut p).unwrap_or(0);
        let c = &mut self.cpus[cpu];
        c.periodic = p;
        c.soft = Frame::until(Step::Rebalance, self.now + cost);
    }

    /// Starts the walk over the domains of `on_behalf`.
    pub(super) fn rebalance(&mut self, on_behalf: CpuId, idle: bool, p: &mut Periodic) {
        self.update_blocked(on_behalf);
        let kind = if idle { PassKind::Idle } else { PassKind::Busy };
        let next = NextBalance::new(self.jiffies(), kind, self.fixed.kernel.tunables.hz);
        *p = Periodic {
            on_behalf,
            idle,
            busy: self.balances_as_busy(on_behalf, idle),
            climbing: true,
            next: Some(next),
            level: 0,
            pass: Pass::default(),
            ..*p
        };
        self.decay_costs(on_behalf);
    }

    /// Reduces the recorded costs of newidle passes once a second.
    fn decay_costs(&mut self, cpu: CpuId) {
        let (gates, now, hz) = (self.fixed.gates, self.jiffies(), self.fixed.kernel.tunables.hz);
        let floor = self.fixed.kernel.tunables.migration_cost_ns;
        let c = &mut self.cpus[cpu];
        let mut decayed = false;
        for level in &mut c.levels {
            let due = level.cost.decay(gates, now, hz);
            // Since 5.16 the highest domain alone decides whether the sum is refreshed.
            decayed = due || (decayed && gates != Gates::Cost);
        }
        if decayed {
            let sum = c.levels.iter().map(|l| l.cost.max_ns).sum();
            c.max_idle_balance_cost_ns = longest_pass(floor, sum);
        }
    }

    pub fn soft_step(&mut self, cpu: CpuId) {
        let (at, pauses) = self.read_on(cpu, |c| &mut c.periodic.pass);
        if pauses {
            self.cpus[cpu].soft.ends = at;
            return;
        }
        let mut p = self.cpus[cpu].periodic;
        let at = 'step: {
            let progress = if p.pass.running() || self.next_due(cpu, &mut p) {
                self.pass_step(cpu, &mut p.pass, at)
            } else if let Some(cost) = self.next_cpu(cpu, &mut p) {
                break 'step self.now + cost;
            } else {
                self.accounts.stats.periodic_ns += self.now - p.began_ns.max(self.board.counted_from);
                return self.leave_soft(cpu);
            };
            match progress {
                PassProgress::Until(at) => at,
                PassProgress::Over(at) => {
                    self.domain_over(cpu, &mut p);
                    at
                }
            }
        };
        let c = &mut self.cpus[cpu];
        c.periodic = p;
        c.soft.ends = at;
    }

    /// Finds the next domain that is due and starts its pass; false after the CPU's last domain.
    fn next_due(&mut self, cpu: CpuId, p: &mut Periodic) -> bool {
        let (now, clock, spare) = (self.jiffies(), self.balance_clock(), self.looks_at_spare());
        let on = p.on_behalf;
        let Some(next) = p.next.as_mut() else { return false };
        while let Some(level) = self.cpus[on].levels.get(p.level).copied() {
            if !p.climbing {
                break;
            }
            let params = &self.fixed.domains.of_cpu[on][p.level].params;
            let interval = clock.interval(level.state.interval_ms, p.busy, params.busy_factor);
            let serialize = params.serialize && !self.fixed.history.serializes_passes;
            let locked = serialize && self.balance.nohz.serial.is_some_and(|holder| holder != cpu);
            let due = if self.fixed.history.o1 {
                self.o1_takes_turn(on, p.level, p.idle)
            } else {
                is_due(now, level.last_balance, interval)
            };
            if !locked && due {
                if serialize {
                    self.balance.nohz.serial = Some(cpu);
                }
                // After a pull the served CPU counts as busy; not modelled before 5.5.
                let trigger = match (p.serving, p.idle) {
                    (true, idle) if idle || !spare => BalanceTrigger::Nohz,
                    (_, true) => BalanceTrigger::Idle,
                    (_, false) => BalanceTrigger::Busy,
                };
                p.pass = self.begin_pass(p.on_behalf, p.level, trigger);
                return true;
            }
            next.consider(level.last_balance, interval);
            self.skip(on, p.level, if due { SkipReason::Locked } else { SkipReason::NotDue });
            p.level += 1;
        }
        self.cpus[on].next_balance = next.at();
        p.next = None;
        false
    }

    /// Ends a domain's pass.
    fn domain_over(&mut self, cpu: CpuId, p: &mut Periodic) {
        let (now, clock) = (self.jiffies(), self.balance_clock());
        if self.balance.nohz.serial == Some(cpu) && !self.fixed.history.serializes_passes {
            self.balance.nohz.serial = None;
        }
        if p.pass.moved() > 0 {
            // Tasks were pulled: the CPU is busy from now on, unless they have left again.
            p.idle = self.rqs.is_idle(p.on_behalf);
            p.busy = self.balances_as_busy(p.on_behalf, p.idle);
        }
        p.climbing &= !p.pass.not_our_turn;
        let params = &self.fixed.domains.of_cpu[p.on_behalf][p.level].params;
        if self.o1_counts_as_busy(p.on_behalf, p.level) {
            (p.idle, p.busy) = (false, true);
        }
        let level = &mut self.cpus[p.on_behalf].levels[p.level];
        if !self.fixed.history.o1 {
            level.last_balance = now;
        }
        let interval = clock.interval(level.state.interval_ms, p.busy, params.busy_factor);
        if let Some(next) = p.next.as_mut() {
            next.consider(now, interval);
        }
        self.update_scan_depth(p);
        p.level += 1;
    }

    /// SIS_UTIL on a kernel before it: a pass over the last-level cache's domain sets how far wakeups may scan. Since
    /// 5.5 a pass does it when its statistics are complete.
    fn update_scan_depth(&mut self, p: &Periodic) {
        if self.looks_at_spare()
            || !self.has(Feature::SisUtil)
            || self.fixed.domains.llc[p.on_behalf] != Some(p.level)
        {
            return;
        }
        let domain = &self.fixed.domains.of_cpu[p.on_behalf][p.level];
        let sum_util =
            domain.cpus.iter().map(|c| self.fair.queues[self.root(*c)].avg.util_avg.min(1024)).sum();
        let depth = crate::wakeup::llc::nr_idle_scan(
            domain.cpus.len() as u64,
            sum_util,
            u64::from(domain.params.imbalance_pct),
        );
        let llc = self.llc_of(p.on_behalf);
        self.llc[llc].nr_idle_scan = depth;
    }

    /// Starts the walk over the next CPU's domains. Returns the time before the first of them, ns; `None` if no CPU is
    /// left.
    fn next_cpu(&mut self, cpu: CpuId, p: &mut Periodic) -> Option<u64> {
        let update_ns = self.fixed.machine.costs.update_blocked_ns;
        let own_first = !self.fixed.history.tickless_first;
        if own_first && let Some(idle) = p.own.take() {
            self.rebalance(cpu, idle, p);
            return Some(update_ns);
        }
        if let Some(from) = p.tickless_from {
            if self.looks_at_spare() {
                if let Some(cost) = self.serve_next(cpu, from, p) {
                    return Some(cost);
                }
            } else if let Some(at) = self.next_tickless(cpu, from) {
                (p.tickless_from, p.serving) = (Some(at + 1), true);
                self.age_idle_load(CpuId::from(at));
                self.rebalance(CpuId::from(at), true, p);
                return Some(update_ns);
            } else {
                self.all_served(cpu);
            }
            (p.tickless_from, p.serving) = (None, false);
        }
        let idle = p.own.take()?;
        self.rebalance(cpu, idle, p);
        Some(update_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep_tests::{born, with_system};
    use schedlab_kernel::{Attr, Policy};

    #[test]
    fn sched_idle_tasks_leave_the_intervals_of_an_idle_cpu_since_5_6() {
        for (version, busy) in [("v5.4", true), ("v6.5", false)] {
            with_system(version, |sys| {
                let cpu = CpuId(0);
                let task = born(sys, cpu);
                sys.pick_next_task(cpu, None);
                sys.cpus[cpu].curr = Some(task);
                sys.set_attr(cpu, task, Attr { policy: Policy::Idle, ..Attr::default() });
                let mut p = Periodic::default();
                sys.rebalance(cpu, false, &mut p);
                assert_eq!(p.busy, busy, "{version}");
                assert!(!p.idle, "{version}: the passes are those of a busy CPU");
            });
        }
    }
}
