//! Periodic balance in softirq context: a CPU's own domains, then those of tickless idle CPUs
//! (`run_rebalance_domains`).
//!
//! Bottom up; a domain is due when its interval has passed; once it was not this CPU's turn, higher domains
//! are not looked at, nor their times. Later kernels serve the tickless CPUs first, so that what the
//! balancing CPU pulls for itself does not end their service. SD_SERIALIZE domains are balanced by one CPU at
//! a time, machine-wide; the lock is tried. Mirrors 3.4 and 4.5.

use super::pass::Progress;
use crate::balance::average::nohz::{KickFacts, kick_needed};
use crate::balance::era::Pass as Kind;
use crate::balance::interval::{Clock, NextBalance, is_due, ms_to_jiffies};
use crate::balance::newidle_gate::{Gates, longest_pass};
use crate::balance::nohz::{find_ilb, serves};
use crate::balance::spare::nohz as spare_nohz;
use crate::balance::state::Pass;
use crate::balance::state::Periodic;
use crate::frame::{Frame, Step};
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_trace::{BalanceTrigger, KickReason, SkipReason};

impl System<'_> {
    /// Now, in ticks.
    #[inline]
    pub(super) fn jiffies(&self) -> u64 {
        self.fixed.first_jiffy + self.now / self.fixed.tick_ns
    }

    pub(super) fn balance_clock(&self) -> Clock {
        Clock {
            busy_is_short: self.fixed.history.busy_interval_short,
            hz: self.fixed.kernel.tunables.hz,
            nr_cpus: self.nr_cpus() as u64,
        }
    }

    /// The tick: raise the softirq when a domain is due; ask a tickless CPU to balance when that is needed.
    pub fn trigger_load_balance(&mut self, cpu: CpuId) {
        let now = self.jiffies();
        let c = &mut self.cpus[cpu];
        if c.levels.is_empty() {
            return;
        }
        if now >= c.next_balance {
            c.softirq = true;
        }
        if !self.idle_at_tick(cpu) {
            self.leave_nohz(cpu);
        }
        if self.looks_at_spare() {
            return self.kick_for_spare(cpu, now);
        }
        let (why, asked) = if self.nohz.nr_tickless == 0 {
            (KickReason::NobodyTickless, None)
        } else {
            match kick_needed(&self.kick_facts(cpu, now)) {
                Ok(kick) => {
                    self.nohz.next_balance = now + 1;
                    self.kick_balancer(cpu, kick.into())
                }
                Err(why) => (why.into(), None),
            }
        };
        self.kick_decided(cpu, why, asked);
    }

    /// Whether a CPU balances as an idle one (`rq->idle_balance`): not if it is about to run what has just come. The
    /// latter is left out before 5.5.
    fn idle_at_tick(&self, cpu: CpuId) -> bool {
        if self.looks_at_spare() { self.idle[cpu] } else { self.cpus[cpu].curr.is_none() }
    }

    /// Asks a tickless CPU to balance, unless it has been asked and is still at it. What became of it, and who was
    /// asked.
    fn kick_balancer(&mut self, by: CpuId, why: KickReason) -> (KickReason, Option<CpuId>) {
        // A CPU stays in the mask up to its first busy tick.
        let skips_busy = self.fixed.history.kick_skips_busy;
        let candidate = |c: &CpuId| self.nohz.tickless[*c] && (!skips_busy || self.idle[*c]);
        let lowest = self.cpus.ids().find(candidate);
        let Some(ilb) = find_ilb(lowest, |c| self.idle[c]) else { return (KickReason::NobodyIdle, None) };
        if std::mem::replace(&mut self.cpus[ilb].nohz_kick, true) {
            return (KickReason::Asked, None);
        }
        self.kick(by, ilb);
        (why, Some(ilb))
    }

    /// The same since 5.5: also for averages alone.
    fn kick_for_spare(&mut self, cpu: CpuId, now: u64) {
        let old = self.kick_facts(cpu, now);
        let facts = spare_nohz::KickFacts {
            idle_at_tick: old.idle_at_tick,
            tickless: old.tickless,
            now,
            next_balance: old.next_balance,
            next_blocked: self.nohz.has_blocked.then_some(self.nohz.next_blocked),
            nr_running: old.nr_running,
            h_nr_running: old.h_nr_running,
            busy_nearby: old.busy_nearby,
            capacity: old.capacity,
            capacity_orig: old.capacity_orig,
            imbalance_pct: old.imbalance_pct,
        };
        let kick = match spare_nohz::kick(&facts) {
            Ok(kick) => kick,
            Err(why) => return self.kick_decided(cpu, why.into(), None),
        };
        if kick.balances() {
            self.nohz.next_balance = now + 1;
        }
        let tickless = self.cpus.ids().filter(|c| self.nohz.tickless[*c]);
        let Some(ilb) = spare_nohz::find_ilb(tickless, cpu, |c| self.idle[c]) else {
            return self.kick_decided(cpu, KickReason::NobodyIdle, None);
        };
        let c = &mut self.cpus[ilb];
        let asked = std::mem::replace(&mut c.nohz_kick, true);
        c.averages_only = !kick.balances() && (!asked || c.averages_only);
        if asked {
            return self.kick_decided(cpu, KickReason::Asked, None);
        }
        self.kick(cpu, ilb);
        self.kick_decided(cpu, kick.into(), Some(ilb));
    }

    fn kick_facts(&self, cpu: CpuId, now: u64) -> KickFacts {
        let capacity = self.capacity_of(cpu);
        let levels = &self.fixed.domains.of_cpu[cpu];
        KickFacts {
            balancer: self.fixed.balancer,
            idle_at_tick: self.idle_at_tick(cpu),
            tickless: self.nohz.nr_tickless,
            now,
            next_balance: self.nohz.next_balance,
            nr_running: self.nr_running[cpu],
            busy_nearby: self.busy_nearby(cpu),
            h_nr_running: self.h_nr_running(cpu),
            capacity,
            capacity_orig: self.fixed.cpu_capacity[cpu],
            imbalance_pct: levels.first().map_or(125, |d| d.params.imbalance_pct),
        }
    }

    /// Busy CPUs near by, as the era counts them: of the core, or of the cache, at first only where a domain
    /// lies above it.
    fn busy_nearby(&self, cpu: CpuId) -> Option<u32> {
        if !self.fixed.history.kick_by_cache {
            let siblings = self.fixed.siblings[cpu].iter();
            return Some(1 + siblings.filter(|s| !self.nohz.tickless[**s]).count() as u32);
        }
        let top = self.fixed.domains.of_cpu[cpu].len();
        let above = self.fixed.domains.llc[cpu].is_some_and(|llc| llc + 1 < top);
        let counted = above || self.fixed.history.kick_by_any_cache;
        counted.then(|| self.llc[self.llc_of(cpu)].nr_busy)
    }

    /// A CPU halts: its tick is stopped.
    pub fn enter_nohz(&mut self, cpu: CpuId) {
        if !std::mem::replace(&mut self.nohz.tickless[cpu], true) {
            self.nohz.nr_tickless += 1;
            self.nohz.has_blocked = true;
            let llc = self.llc_of(cpu);
            self.llc[llc].nr_busy -= 1;
        }
    }
    /// The first tick that finds the CPU busy: it is no longer one of the tickless.
    fn leave_nohz(&mut self, cpu: CpuId) {
        if std::mem::replace(&mut self.nohz.tickless[cpu], false) {
            self.nohz.nr_tickless -= 1;
            let llc = self.llc_of(cpu);
            self.llc[llc].nr_busy += 1;
        }
    }

    /// The softirq starts: the CPU's own domains, and those of tickless CPUs if it was asked to and is idle still.
    pub fn begin_softirq(&mut self, cpu: CpuId) {
        let idle = self.idle_at_tick(cpu);
        let c = &self.cpus[cpu];
        let tickless_from = (idle && c.nohz_kick).then_some(0);
        if tickless_from.is_some() && self.looks_at_spare() {
            self.nohz.has_blocked = false;
            self.nohz.next_blocked =
                self.jiffies() + ms_to_jiffies(BLOCKED_EVERY_MS, self.fixed.kernel.tunables.hz);
        }
        // Who was asked for averages only leaves its own domains alone, too.
        let own = (tickless_from.is_none() || !c.averages_only).then_some(idle);
        let mut p = Periodic { began_ns: self.now, tickless_from, own, ..Periodic::default() };
        self.next_cpu(cpu, &mut p);
        let cost = self.fixed.machine.costs.update_blocked_ns;
        let c = &mut self.cpus[cpu];
        c.periodic = p;
        c.soft = Frame::until(Step::Rebalance, self.now + cost);
    }

    /// Starts over the domains of `on_behalf`.
    fn rebalance(&mut self, on_behalf: CpuId, idle: bool, p: &mut Periodic) {
        let root = self.root(on_behalf);
        self.update_queue_load(root);
        let kind = if idle { Kind::Idle } else { Kind::Busy };
        let next = NextBalance::new(self.jiffies(), kind, self.fixed.kernel.tunables.hz);
        *p = Periodic {
            on_behalf,
            idle,
            climbing: true,
            next: Some(next),
            level: 0,
            pass: Pass::default(),
            ..*p
        };
        self.decay_costs(on_behalf);
    }

    /// Once a second the remembered costs of newidle passes shrink.
    fn decay_costs(&mut self, cpu: CpuId) {
        let (gates, now, hz) = (self.fixed.gates, self.jiffies(), self.fixed.kernel.tunables.hz);
        let floor = self.fixed.kernel.tunables.migration_cost_ns;
        let c = &mut self.cpus[cpu];
        let mut decayed = false;
        for level in &mut c.levels {
            let due = level.cost.decay(gates, now, hz);
            // Since 5.16 the highest domain decides for all whether the sum is refreshed.
            decayed = due || (decayed && gates != Gates::Cost);
        }
        if decayed {
            let sum = c.levels.iter().map(|l| l.cost.max_ns).sum();
            c.max_idle_balance_cost_ns = longest_pass(floor, sum);
        }
    }

    /// One step of the softirq.
    pub fn soft_step(&mut self, cpu: CpuId) {
        let mut p = self.cpus[cpu].periodic;
        let at = 'step: {
            let progress = if p.pass.running() || self.next_due(cpu, &mut p) {
                self.pass_step(cpu, &mut p.pass)
            } else if self.next_cpu(cpu, &mut p) {
                break 'step self.now + self.fixed.machine.costs.update_blocked_ns;
            } else {
                self.stats.periodic_ns += self.now - p.began_ns.max(self.counted_from);
                return self.leave_soft(cpu);
            };
            match progress {
                Progress::Until(at) => at,
                Progress::Over(at) => {
                    self.domain_over(cpu, &mut p);
                    at
                }
            }
        };
        let c = &mut self.cpus[cpu];
        c.periodic = p;
        c.soft.ends = at;
    }

    /// Finds the next domain that is due and starts its pass; false when the CPU's domains are through.
    fn next_due(&mut self, cpu: CpuId, p: &mut Periodic) -> bool {
        let (now, clock, spare) = (self.jiffies(), self.balance_clock(), self.looks_at_spare());
        let on = p.on_behalf;
        let Some(next) = p.next.as_mut() else { return false };
        while let Some(level) = self.cpus[on].levels.get(p.level).copied() {
            if !p.climbing {
                break;
            }
            let params = &self.fixed.domains.of_cpu[on][p.level].params;
            let interval = clock.interval(level.state.interval_ms, !p.idle, params.busy_factor);
            let serialize = params.serialize;
            let locked = serialize && self.nohz.serial.is_some_and(|holder| holder != cpu);
            let due = is_due(now, level.last_balance, interval);
            if !locked && due {
                if serialize {
                    self.nohz.serial = Some(cpu);
                }
                // After a pull the CPU served counts as busy; left out before 5.5.
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

    /// A domain's pass is over.
    fn domain_over(&mut self, cpu: CpuId, p: &mut Periodic) {
        let (now, clock) = (self.jiffies(), self.balance_clock());
        if self.nohz.serial == Some(cpu) {
            self.nohz.serial = None;
        }
        if p.pass.moved() > 0 {
            // Tasks came: the CPU is busy from here on, unless they have left again.
            p.idle = self.idle[p.on_behalf];
        }
        p.climbing &= !p.pass.not_our_turn;
        let params = &self.fixed.domains.of_cpu[p.on_behalf][p.level].params;
        let level = &mut self.cpus[p.on_behalf].levels[p.level];
        level.last_balance = now;
        let interval = clock.interval(level.state.interval_ms, !p.idle, params.busy_factor);
        if let Some(next) = p.next.as_mut() {
            next.consider(now, interval);
        }
        self.update_scan_depth(p);
        p.level += 1;
    }

    /// SIS_UTIL on a kernel older than it: a pass over the cache-sized domain sets how far wakeups may scan.
    /// Since 5.5 a pass does it where its statistics are complete.
    fn update_scan_depth(&mut self, p: &Periodic) {
        if self.looks_at_spare()
            || !self.has(Feature::SisUtil)
            || self.fixed.domains.llc[p.on_behalf] != Some(p.level)
        {
            return;
        }
        let domain = &self.fixed.domains.of_cpu[p.on_behalf][p.level];
        let sum_util = domain.cpus.iter().map(|c| self.queues[self.root(*c)].avg.util_avg.min(1024)).sum();
        let depth = crate::wakeup::llc::nr_idle_scan(
            domain.cpus.len() as u64,
            sum_util,
            u64::from(domain.params.imbalance_pct),
        );
        let llc = self.llc_of(p.on_behalf);
        self.llc[llc].nr_idle_scan = depth;
    }

    /// Starts over the next CPU's domains; false when there is none left.
    fn next_cpu(&mut self, cpu: CpuId, p: &mut Periodic) -> bool {
        let own_first = !self.fixed.history.tickless_first;
        if own_first && let Some(idle) = p.own.take() {
            self.rebalance(cpu, idle, p);
            return true;
        }
        if let Some(from) = p.tickless_from {
            if self.looks_at_spare() {
                if self.serve_next(cpu, from, p) {
                    return true;
                }
            } else if let Some(at) = self.next_tickless(cpu, from) {
                (p.tickless_from, p.serving) = (Some(at + 1), true);
                self.age_idle_load(CpuId::from(at));
                self.rebalance(CpuId::from(at), true, p);
                return true;
            }
            self.all_served(cpu);
            (p.tickless_from, p.serving) = (None, false);
        }
        let Some(idle) = p.own.take() else { return false };
        self.rebalance(cpu, idle, p);
        true
    }

    /// Since 5.5: the next tickless CPU in the ring that starts after the helper. Its averages are brought up
    /// to date; its domains are balanced if that is due and was asked for.
    fn serve_next(&mut self, cpu: CpuId, from: usize, p: &mut Periodic) -> bool {
        if self.nr_running[cpu] > 0 || self.cpus[cpu].need_resched.is_some() {
            // What is left undone, the CPU's own domains among it, is done at the next kick.
            self.nohz.has_blocked = true;
            p.own = None;
            self.skip(cpu, 0, SkipReason::HelperBusy);
            return false;
        }
        let n = self.nr_cpus();
        let of = |at: usize| spare_nohz::served_at(cpu, at, n);
        let serves = |at: &usize| self.nohz.tickless[of(*at)] && self.idle[of(*at)];
        let Some(at) = (from..n - 1).find(serves) else { return false };
        let served = of(at);
        (p.tickless_from, p.serving) = (Some(at + 1), true);
        let due = self.jiffies() >= self.cpus[served].next_balance;
        let averages_only = self.cpus[cpu].averages_only;
        if due && !averages_only {
            self.rebalance(served, true, p);
        } else {
            p.next = None;
            self.skip(served, 0, if averages_only { SkipReason::AveragesOnly } else { SkipReason::NotDue });
        }
        let root = self.root(served);
        self.update_queue_load(root);
        self.nohz.has_blocked |= self.queues[root].avg.load_sum > 0;
        true
    }

    /// The next tickless CPU to serve, from `from` on; none once the balancing CPU has work of its own.
    fn next_tickless(&mut self, cpu: CpuId, from: usize) -> Option<usize> {
        if self.nr_running[cpu] > 0 {
            self.skip(cpu, 0, SkipReason::HelperBusy);
            return None;
        }
        let (now, balancer) = (self.jiffies(), self.fixed.balancer);
        for at in from..self.nr_cpus() {
            let served = CpuId::from(at);
            if served == cpu || !self.nohz.tickless[served] || !self.idle[served] {
                continue;
            }
            if serves(balancer, true, now, self.cpus[served].next_balance) {
                return Some(at);
            }
            self.skip(served, 0, SkipReason::NotDue);
        }
        None
    }

    /// All that were due are served: when is the next one?
    fn all_served(&mut self, cpu: CpuId) {
        let now = self.jiffies();
        let earliest = self
            .cpus
            .ids()
            .filter(|c| self.nohz.tickless[*c])
            .map(|c| self.cpus[c].next_balance)
            .min()
            .unwrap_or(now + self.fixed.kernel.tunables.hz);
        self.nohz.next_balance = earliest.max(now + 1);
        self.cpus[cpu].nohz_kick = false;
        self.cpus[cpu].averages_only = false;
    }
}

/// How often averages of tickless CPUs are brought up to date, ms (`LOAD_AVG_PERIOD`).
const BLOCKED_EVERY_MS: u64 = 32;
