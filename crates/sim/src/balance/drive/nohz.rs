//! Balancing for CPUs whose tick is stopped: the tick that asks for it, the CPU that is asked, and the CPUs that it
//! serves.
//!
//! Since 5.5 a busy tick may also ask only for an update of averages, or (5.15) for the time at which the next tickless
//! CPU is due. A CPU that goes idle updates averages without a request (5.13). Times are jiffies.

use crate::balance::average::nohz::kick_needed;
use crate::balance::interval::ms_to_jiffies;
use crate::balance::nohz::{KickFacts, find_ilb, serves};
use crate::balance::spare::nohz as spare_nohz;
use crate::balance::state::Periodic;
use crate::frame::Step;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_trace::{KickReason, SkipReason};

/// How often averages of tickless CPUs are updated, ms (`LOAD_AVG_PERIOD`).
const BLOCKED_EVERY_MS: u64 = 32;

impl System<'_> {
    /// The tick raises the softirq if a domain is due, and asks a tickless CPU to balance if that is needed.
    pub fn trigger_load_balance(&mut self, cpu: CpuId) {
        if self.fixed.history.o1 {
            return self.o1_rebalance_tick(cpu);
        }
        let (now, idle) = (self.jiffies(), self.idle_at_tick(cpu));
        let c = &mut self.cpus[cpu];
        if c.levels.is_empty() {
            return;
        }
        if now >= c.next_balance {
            c.softirq = true;
        }
        c.ticked_idle = c.softirq.then_some(idle);
        if !idle {
            self.leave_nohz(cpu);
        }
        if self.looks_at_spare() {
            return self.kick_for_spare(cpu, now);
        }
        let (why, asked) = if self.balance.nohz.nr_tickless == 0 {
            (KickReason::NobodyTickless, None)
        } else {
            match kick_needed(self.fixed.balancer, &self.kick_facts(cpu, now)) {
                Ok(kick) => {
                    self.balance.nohz.next_balance = now + 1;
                    self.kick_balancer(cpu, kick.into())
                }
                Err(why) => (why.into(), None),
            }
        };
        self.kick_decided(cpu, why, asked);
    }

    /// Whether a CPU balances as an idle one (`rq->idle_balance`): not if it is about to run a task that has just
    /// arrived. That exception is not modelled before 5.5.
    pub(super) fn idle_at_tick(&self, cpu: CpuId) -> bool {
        if self.looks_at_spare() { self.rqs.is_idle(cpu) } else { self.cpus[cpu].curr.is_none() }
    }

    /// Asks a tickless CPU to balance, unless it was asked and has not finished. Returns the decision and the CPU that
    /// was asked.
    fn kick_balancer(&mut self, by: CpuId, why: KickReason) -> (KickReason, Option<CpuId>) {
        // A CPU stays in the mask until its first busy tick.
        let skips_busy = self.fixed.history.kick_skips_busy;
        let candidate = |c: &CpuId| self.balance.nohz.tickless[*c] && (!skips_busy || self.rqs.is_idle(*c));
        let lowest = self.cpus.ids().find(candidate);
        let Some(ilb) = find_ilb(lowest, |c| self.rqs.is_idle(c)) else {
            return (KickReason::NobodyIdle, None);
        };
        if std::mem::replace(&mut self.cpus[ilb].nohz_asked.balance, true) {
            return (KickReason::Asked, None);
        }
        self.kick(by, ilb);
        (why, Some(ilb))
    }

    /// The same since 5.5: the kick may ask only for averages, or for the time at which balancing is due next.
    fn kick_for_spare(&mut self, cpu: CpuId, now: u64) {
        let asks = match spare_nohz::kick(&self.kick_facts(cpu, now)) {
            Ok(asks) => asks,
            Err(why) => return self.kick_decided(cpu, why.into(), None),
        };
        if asks.flags.balance {
            self.balance.nohz.next_balance = now + 1;
        }
        let tickless = self.cpus.ids().filter(|c| self.balance.nohz.tickless[*c]);
        let cores = self.fixed.history.ilb_on_idle_core;
        let core_idles = |c: CpuId| !cores || self.board.siblings[c].iter().all(|s| self.rqs.is_idle(*s));
        let Some(ilb) = spare_nohz::find_ilb(tickless, cpu, |c| self.rqs.is_idle(c), core_idles) else {
            return self.kick_decided(cpu, KickReason::NobodyIdle, None);
        };
        let c = &mut self.cpus[ilb];
        let asked = c.nohz_asked.kicked();
        c.nohz_asked.add(asks.flags);
        if asked {
            return self.kick_decided(cpu, KickReason::Asked, None);
        }
        self.kick(cpu, ilb);
        self.kick_decided(cpu, asks.why.into(), Some(ilb));
    }

    fn kick_facts(&self, cpu: CpuId, now: u64) -> KickFacts {
        let capacity = self.capacity_of(cpu);
        let levels = &self.fixed.domains.of_cpu[cpu];
        KickFacts {
            idle_at_tick: self.idle_at_tick(cpu),
            tickless: self.balance.nohz.nr_tickless,
            now,
            next_balance: self.balance.nohz.next_balance,
            next_blocked: self.balance.nohz.has_blocked.then_some(self.balance.nohz.next_blocked),
            needs_update: self.balance.nohz.needs_update,
            nr_running: self.rqs.nr_running(cpu),
            busy_nearby: self.busy_nearby(cpu),
            h_nr_running: self.h_nr_balanced(cpu),
            capacity,
            capacity_orig: self.fixed.cpu_capacity[cpu],
            imbalance_pct: levels.first().map_or(125, |d| d.params.imbalance_pct),
            misfit: self.fixed.domains.asym[cpu].map(|at| {
                let domain = &self.fixed.domains.of_cpu[cpu][at];
                self.misfit_kicks(cpu, domain.params.imbalance_pct)
            }),
        }
    }

    /// Busy CPUs nearby, as the kernel counts them: of the core, or of the cache. The first kernels count the cache's
    /// only if there is a domain above it.
    fn busy_nearby(&self, cpu: CpuId) -> Option<u32> {
        if !self.fixed.history.kick_by_cache {
            let siblings = self.board.siblings[cpu].iter();
            return Some(1 + siblings.filter(|s| !self.balance.nohz.tickless[**s]).count() as u32);
        }
        let top = self.fixed.domains.of_cpu[cpu].len();
        let above = self.fixed.domains.llc[cpu].is_some_and(|llc| llc + 1 < top);
        let counted = above || self.fixed.history.kick_by_any_cache;
        counted.then(|| self.llc[self.llc_of(cpu)].nr_busy)
    }

    /// A CPU halts: its tick is stopped.
    pub fn enter_nohz(&mut self, cpu: CpuId) {
        if !std::mem::replace(&mut self.balance.nohz.tickless[cpu], true) {
            self.balance.nohz.nr_tickless += 1;
            self.balance.nohz.needs_update = self.fixed.history.kicks_for_next_balance;
            let llc = self.llc_of(cpu);
            self.llc[llc].nr_busy -= 1;
        }
        // Also set for a CPU without a busy tick since its last halt: the load of tasks since then has to decay.
        self.balance.nohz.has_blocked = true;
    }

    /// The first tick that finds the CPU busy makes it no longer tickless.
    fn leave_nohz(&mut self, cpu: CpuId) {
        if std::mem::replace(&mut self.balance.nohz.tickless[cpu], false) {
            self.balance.nohz.nr_tickless -= 1;
            let llc = self.llc_of(cpu);
            self.llc[llc].nr_busy += 1;
        }
    }

    /// Since 5.5: serves the next tickless CPU in the ring, which starts after the helper and ends with it: updates its
    /// averages and balances its domains, as far as the request says and they are due. Returns the time before its
    /// domains, ns; `None` at the end.
    pub(super) fn serve_next(&mut self, cpu: CpuId, from: usize, p: &mut Periodic) -> Option<u64> {
        if p.serving {
            p.earliest = p.earliest.min(self.cpus[p.on_behalf].next_balance);
        }
        if self.rqs.nr_running(cpu) > 0 || self.cpus[cpu].need_resched.is_some() {
            // The next kick, at the next busy tick, does the rest.
            self.balance.nohz.has_blocked |= p.flags.averages;
            self.balance.nohz.needs_update |= p.flags.next_balance;
            self.skip(cpu, 0, SkipReason::HelperBusy);
            return None;
        }
        let n = self.nr_cpus();
        let of = |at: usize| spare_nohz::served_at(cpu, at, n);
        let serves = |at: &usize| self.balance.nohz.tickless[of(*at)] && self.rqs.is_idle(of(*at));
        let Some(at) = (from..n).find(serves) else {
            self.all_looked_at(p);
            return None;
        };
        let served = of(at);
        (p.tickless_from, p.serving, p.on_behalf, p.next) = (Some(at + 1), true, served, None);
        let mut cost = self.visit_ns(cpu, served);
        if p.flags.averages {
            cost += self.decay_blocked(served);
        }
        let due = self.jiffies() >= self.cpus[served].next_balance;
        if due && p.flags.balance {
            self.rebalance(served, true, p);
        } else {
            self.skip(served, 0, if due { SkipReason::AveragesOnly } else { SkipReason::NotDue });
        }
        Some(cost)
    }

    /// The whole ring was visited: sets when the next CPU is due, and when averages are.
    fn all_looked_at(&mut self, p: &Periodic) {
        let hz = self.fixed.kernel.tunables.hz;
        if p.earliest < p.began_tick + 60 * hz {
            self.balance.nohz.next_balance = p.earliest;
        }
        if p.flags.averages {
            self.balance.nohz.next_blocked = p.began_tick + ms_to_jiffies(BLOCKED_EVERY_MS, hz);
        }
    }

    /// Updates the averages of a tickless CPU, unless they are zero. Returns the time needed, ns.
    fn decay_blocked(&mut self, served: CpuId) -> u64 {
        let root = self.root(served);
        if self.fair.queues[root].avg.load_sum == 0 {
            return 0;
        }
        self.update_blocked(served);
        self.balance.nohz.has_blocked |= self.fair.queues[root].avg.load_sum > 0;
        self.fixed.machine.costs.update_blocked_ns
    }

    /// Requests made to an idle CPU by IPI become the work of its softirq; a CPU that has found work meanwhile drops
    /// them. Returns whether there is anything to do.
    pub fn take_nohz_flags(&mut self, cpu: CpuId) -> bool {
        let (idle, spare) = (self.rqs.is_idle(cpu), self.looks_at_spare());
        let c = &mut self.cpus[cpu];
        if !spare {
            c.nohz_asked.balance &= idle;
            return c.nohz_asked.balance;
        }
        if c.nohz_asked.kicked() {
            let asked = std::mem::take(&mut c.nohz_asked);
            if idle {
                c.nohz_serves.add(asked);
            }
        }
        c.nohz_serves.kicked()
    }

    /// After a newidle balance without success: if averages of tickless CPUs are due, this CPU updates them before it
    /// halts, unless its idle periods are short (`nohz_newidle_balance`, 5.13).
    pub(super) fn note_blocked(&mut self, cpu: CpuId) {
        let due = self.balance.nohz.has_blocked && self.jiffies() >= self.balance.nohz.next_blocked;
        let c = &mut self.cpus[cpu];
        if due
            && self.fixed.history.updates_before_idle
            && c.avg_idle_ns >= self.fixed.kernel.tunables.migration_cost_ns
        {
            c.nohz_asked.before_idle = true;
        }
    }

    /// The idle loop begins with an update of the averages of tickless CPUs (`nohz_run_idle_balance`), interrupts
    /// enabled.
    pub fn begin_update_before_idle(&mut self, cpu: CpuId) {
        self.balance.nohz.has_blocked = false;
        self.begin(cpu, Step::BeforeIdle { at: 0 }, 0);
    }

    /// Updates the next CPU of the ring. The idle loop follows after the last one, or at once if this CPU has work.
    pub fn update_before_idle(&mut self, cpu: CpuId, at: u32) {
        let c = &self.cpus[cpu];
        if self.rqs.nr_running(cpu) > 0 || !c.wake_list.is_empty() || c.need_resched.is_some() {
            self.balance.nohz.has_blocked = true;
            return self.begin_idle_loop(cpu);
        }
        let n = self.nr_cpus();
        let of = |at: usize| spare_nohz::served_at(cpu, at, n);
        let serves = |at: &usize| self.balance.nohz.tickless[of(*at)] && self.rqs.is_idle(of(*at));
        let Some(next) = (at as usize..n).find(serves) else {
            let every = ms_to_jiffies(BLOCKED_EVERY_MS, self.fixed.kernel.tunables.hz);
            self.balance.nohz.next_blocked = self.jiffies() + every;
            return self.begin_idle_loop(cpu);
        };
        let visit_ns = self.visit_ns(cpu, of(next));
        let cost = visit_ns + self.decay_blocked(of(next));
        self.begin(cpu, Step::BeforeIdle { at: next as u32 + 1 }, cost);
    }

    /// The next tickless CPU to serve, from `from` on; `None` once the balancing CPU has work of its own.
    pub(super) fn next_tickless(&mut self, cpu: CpuId, from: usize) -> Option<usize> {
        if self.rqs.nr_running(cpu) > 0 {
            self.skip(cpu, 0, SkipReason::HelperBusy);
            return None;
        }
        let (now, balancer) = (self.jiffies(), self.fixed.balancer);
        for at in from..self.nr_cpus() {
            let served = CpuId::from(at);
            if served == cpu || !self.balance.nohz.tickless[served] || !self.rqs.is_idle(served) {
                continue;
            }
            if serves(balancer, true, now, self.cpus[served].next_balance) {
                return Some(at);
            }
            self.skip(served, 0, SkipReason::NotDue);
        }
        None
    }

    /// All due CPUs are served: computes when the next one is due.
    pub(super) fn all_served(&mut self, cpu: CpuId) {
        let now = self.jiffies();
        let earliest = self
            .cpus
            .ids()
            .filter(|c| self.balance.nohz.tickless[*c])
            .map(|c| self.cpus[c].next_balance)
            .min()
            .unwrap_or(now + self.fixed.kernel.tunables.hz);
        self.balance.nohz.next_balance = earliest.max(now + 1);
        self.cpus[cpu].nohz_asked.balance = false;
    }
}

#[cfg(test)]
mod tests {
    use crate::balance::state::NohzFlags;
    use crate::frame::Step;
    use crate::upkeep_tests::{born, with_system};
    use schedlab_base::CpuId;

    const BUSY: CpuId = CpuId(0);
    const IDLE: CpuId = CpuId(1);

    #[test]
    fn after_a_tick_stops_the_next_balance_is_computed_since_5_15() {
        for (version, asks) in [("v5.10", false), ("v6.5", true)] {
            with_system(version, |sys| {
                let task = born(sys, BUSY);
                sys.cpus[BUSY].curr = Some(task);
                sys.refresh_idle(BUSY);
                sys.leave_nohz(BUSY);
                sys.leave_nohz(IDLE);
                sys.enter_nohz(IDLE);
                sys.balance.nohz.next_balance = u64::MAX;
                sys.balance.nohz.next_blocked = u64::MAX;
                sys.trigger_load_balance(BUSY);
                let expected = NohzFlags { next_balance: asks, ..NohzFlags::default() };
                assert_eq!(sys.cpus[IDLE].nohz_asked, expected, "{version}");

                // Its interrupt takes over the request, and the softirq computes the earliest time of the CPUs it
                // visits.
                sys.cpus[IDLE].next_balance = sys.jiffies() + 3;
                let expected_at = if asks { sys.jiffies() + 3 } else { u64::MAX };
                assert_eq!(sys.take_nohz_flags(IDLE), asks, "{version}");
                sys.begin_softirq(IDLE);
                while asks && sys.cpus[IDLE].soft.active() {
                    sys.soft_step(IDLE);
                }
                assert_eq!(
                    (sys.balance.nohz.next_balance, sys.balance.nohz.needs_update),
                    (expected_at, false),
                    "{version}"
                );
            });
        }
    }

    #[test]
    fn a_cpu_that_goes_idle_for_long_ages_averages_before_it_halts_since_5_13() {
        for (version, idle_ns, ages) in
            [("v5.10", 600_000, false), ("v6.5", 600_000, true), ("v6.5", 400_000, false)]
        {
            with_system(version, |sys| {
                sys.cpus[BUSY].avg_idle_ns = idle_ns;
                (sys.balance.nohz.has_blocked, sys.balance.nohz.next_blocked) = (true, sys.jiffies());
                sys.note_blocked(BUSY);
                sys.begin_idle_loop(BUSY);
                let step = sys.cpus[BUSY].task.step;
                assert_eq!(matches!(step, Step::BeforeIdle { .. }), ages, "{version} {idle_ns}: {step:?}");
                while let Step::BeforeIdle { at } = sys.cpus[BUSY].task.step {
                    sys.update_before_idle(BUSY, at);
                }
                let moved = sys.balance.nohz.next_blocked > sys.jiffies();
                assert_eq!((moved, sys.balance.nohz.has_blocked), (ages, !ages), "{version} {idle_ns}");
            });
        }
    }
}
