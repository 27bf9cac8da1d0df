//! Newidle balance: a CPU about to go idle looks for work, domain by domain, interrupts off (`idle_balance`).
//!
//! The leaving task is still current, so the CPU itself does not count as idle. Gates decide whether and how far up it
//! looks. Each domain's cost is recorded. The CPU's next periodic balance becomes earlier, because an idle CPU has
//! shorter intervals. Mirrors 3.4 and 4.5; 6.5 has its own gates, and later kernels also throw dice (`newidle_dice`).

use super::pass::PassProgress;
use crate::balance::era::PassKind;
use crate::balance::interval::NextBalance;
use crate::balance::newidle_dice;
use crate::balance::newidle_gate::{EnterFacts, Gates, NewidleArrivals, climb, enter, has_work};
use crate::balance::state::Newidle;
use crate::frame::Step;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_trace::{BalanceTrigger, SkipReason};

impl System<'_> {
    /// The last task of `cpu` was dequeued: balances if the gates are open, then switches.
    pub fn begin_newidle(&mut self, cpu: CpuId) {
        let gates = self.fixed.gates;
        let (now, clock) = (self.now, self.rq_clock(cpu));
        self.update_misfit(cpu, None);
        let migration_cost_ns = if self.fixed.history.skips_short_idle {
            self.fixed.kernel.tunables.migration_cost_ns
        } else {
            0
        };
        let c = &mut self.cpus[cpu];
        if gates == Gates::Cost && !c.wake_list.is_empty() {
            // A wakeup is on its way here: the CPU need not look for work, and no idle period begins.
            self.skip(cpu, 0, SkipReason::WakeupPending);
            return self.begin_pick(cpu, 0);
        }
        c.idle_stamp = clock.max(1);
        let facts = EnterFacts {
            avg_idle_ns: c.avg_idle_ns,
            migration_cost_ns,
            overload: self.balance.overload,
            lowest_cost_ns: c.levels.first().map_or(0, |l| l.cost.max_ns),
        };
        if c.levels.is_empty() {
            return self.begin_pick(cpu, 0);
        }
        let mut next = NextBalance::new(self.jiffies(), PassKind::Newidle, self.fixed.kernel.tunables.hz);
        if let Err(why) = enter(gates, &facts) {
            self.skip_newidle(cpu, why, &facts);
            // 3.4 does not change the CPU's next balance.
            if gates != Gates::Fixed {
                self.note_next(cpu, 0, &mut next);
                self.bring_forward(cpu, next, false);
            }
            self.note_blocked(cpu);
            return self.begin_pick(cpu, 0);
        }
        self.cpus[cpu].newidle = Newidle { began_ns: now, level_began_ns: now, next, ..Newidle::default() };
        self.update_blocked(cpu);
        self.begin(cpu, Step::Newidle, self.fixed.machine.costs.update_blocked_ns);
    }

    /// Continues the pass, or begins with the next domain or the switch.
    pub fn newidle_step(&mut self, cpu: CpuId) {
        let (at, pauses) = self.read_on(cpu, |c| &mut c.newidle.pass);
        if pauses {
            self.cpus[cpu].task.ends = at;
            return;
        }
        let mut n = self.cpus[cpu].newidle;
        if std::mem::take(&mut n.ending) {
            // If CPUs take turns, this last step may have spanned turns of others: the current time counts.
            self.level_over(cpu, &mut n, self.now);
        }
        if !n.pass.running() && !self.next_level(cpu, &mut n) {
            return self.end_newidle(cpu, &n);
        }
        let at = match self.pass_step(cpu, &mut n.pass, at) {
            PassProgress::Until(at) => at,
            PassProgress::Over(at) => {
                n.ending = true;
                at
            }
        };
        let c = &mut self.cpus[cpu];
        c.newidle = n;
        c.task.ends = at;
    }

    /// Starts the pass over the next domain that takes part; false if none is worth its cost, or if work has arrived.
    fn next_level(&mut self, cpu: CpuId, n: &mut Newidle) -> bool {
        let gates = self.fixed.gates;
        let c = &self.cpus[cpu];
        let arrived = NewidleArrivals {
            pulled: n.pulled,
            nr_running: self.rqs.nr_running(cpu),
            wakeup_pending: !c.wake_list.is_empty(),
        };
        if n.level > 0 && has_work(gates, &arrived) {
            return false;
        }
        let avg_idle_ns = c.avg_idle_ns;
        if n.level > 0 && self.o1_counts_as_busy(cpu, n.level - 1) {
            return false;
        }
        while let Some(level) = self.cpus[cpu].levels.get(n.level) {
            let cost_ns = level.cost.max_ns;
            let worth_it = climb(gates, avg_idle_ns, n.spent_ns, cost_ns);
            // Since 5.16 a domain's next time is noted before its pass, which may change its interval.
            if gates == Gates::Cost || !worth_it {
                self.note_next(cpu, n.level, &mut n.next);
            }
            if !worth_it {
                let compared = || (avg_idle_ns, n.spent_ns + cost_ns);
                self.skip_for(cpu, n.level, SkipReason::TooDear, compared);
                return false;
            }
            let balances = self.fixed.domains.of_cpu[cpu][n.level].params.balance_newidle;
            if balances && self.dice_let(cpu, n.level) {
                n.pass = self.begin_pass(cpu, n.level, BalanceTrigger::Newidle);
                return true;
            }
            self.skip(cpu, n.level, if balances { SkipReason::Dice } else { SkipReason::NoNewidle });
            if gates != Gates::Cost {
                self.note_next(cpu, n.level, &mut n.next);
            }
            n.level += 1;
        }
        false
    }

    /// Whether the dice allow a pass over the domain (NI_RANDOM); a refusal counts as a call without success.
    fn dice_let(&mut self, cpu: CpuId, level: usize) -> bool {
        if !self.has(Feature::NiRandom) || self.fixed.gates != Gates::Cost {
            return true;
        }
        let (rate, now) = (self.has(Feature::NiRate), self.now);
        let stream = self.fixed.stream.purpose("newidle").number(u64::from(cpu.0)).number(level as u64);
        let dice = &mut self.cpus[cpu].levels[level].dice;
        let lets = dice.lets(stream.below(dice.thrown, newidle_dice::SIDES));
        dice.thrown += 1;
        if !lets {
            dice.called(0, rate, now);
        }
        lets
    }

    /// Records the outcome of a pass that the dice had allowed.
    fn report_dice(&mut self, cpu: CpuId, level: usize, moved: bool) {
        let (rate, now) = (self.has(Feature::NiRate), self.now);
        let dice = &mut self.cpus[cpu].levels[level].dice;
        let weight = if self.fixed.kernel.features.has(Feature::NiRandom) { dice.weight() } else { 1 };
        dice.called(if moved { weight } else { 0 }, rate, now);
    }

    /// Notes when the domain of a level is due again, by an idle CPU's interval.
    fn note_next(&self, cpu: CpuId, level: usize, next: &mut NextBalance) {
        let level = &self.cpus[cpu].levels[level];
        next.consider(level.last_balance, self.balance_clock().interval(level.state.interval_ms, false, 1));
    }

    /// Makes the CPU's next balance earlier: it was set while the CPU was busy. Tasks were `pulled` or not.
    fn bring_forward(&mut self, cpu: CpuId, next: NextBalance, pulled: bool) {
        let (balancer, now) = (self.fixed.balancer, self.jiffies());
        let c = &mut self.cpus[cpu];
        c.next_balance = next.after_newidle(balancer, c.next_balance, now, pulled);
    }

    /// A domain's pass is over: records its cost; time continues at `at`.
    fn level_over(&mut self, cpu: CpuId, n: &mut Newidle, at: u64) {
        let (gates, tick) = (self.fixed.gates, self.now / self.fixed.tick_ns);
        let hz = self.fixed.kernel.tunables.hz;
        // 5.16+ counts update_blocked_averages in the first domain's cost; earlier kernels do not.
        let before = if gates == Gates::Cost { n.level_began_ns } else { n.pass.began_ns() };
        let cost = at - before;
        let known = &mut self.cpus[cpu].levels[n.level].cost;
        if self.fixed.history.newidle_failure_costs {
            let most_ns = self.fixed.kernel.tunables.migration_cost_ns + 200;
            let counted = known.counted(cost, n.pass.moved() > 0);
            known.passed_at_most(gates, counted, most_ns, tick, hz);
        } else {
            known.passed(gates, cost, tick, hz);
        }
        self.report_dice(cpu, n.level, n.pass.moved() > 0);
        n.spent_ns += cost;
        n.level_began_ns = at;
        n.pulled |= n.pass.moved() > 0;
        if gates != Gates::Cost {
            self.note_next(cpu, n.level, &mut n.next);
        }
        n.level += 1;
    }

    fn end_newidle(&mut self, cpu: CpuId, n: &Newidle) {
        self.accounts.stats.newidle_ns += self.now - n.began_ns.max(self.board.counted_from);
        self.bring_forward(cpu, n.next, n.pulled);
        let has_tasks = self.rqs.nr_running(cpu) > 0;
        let c = &mut self.cpus[cpu];
        c.max_idle_balance_cost_ns = c.max_idle_balance_cost_ns.max(n.spent_ns);
        if n.pulled || has_tasks {
            c.idle_stamp = 0;
        } else {
            self.note_blocked(cpu);
        }
        self.begin_pick(cpu, 0);
    }
}
