//! One balance pass over one domain (`load_balance`), as steps in time.
//!
//! Statistics are gathered CPU by CPU in ring order, and each visit takes time. So a pass does not see a snapshot: a
//! queue that was long may be short when the pass reads it again. Simulated time advances after each group (tunable
//! `probe_batch`; 1 for after each CPU). A pass runs in task context (newidle, interrupts off) or in softirq context.
//! Mirrors 3.4 and 4.5. Not modelled before 5.5: the search for another queue after one whose tasks were all pinned.

use crate::balance::average::active::parent_flag;
use crate::balance::average::busiest::{Decision, DomainStats, Pull};
use crate::balance::average::queue::{BusiestQueue, QueueSample};
use crate::balance::average::stats::{CpuSample, Tally};
use crate::balance::capacity::{AverageLater, DomainFacts, GroupFacts, capped_util};
use crate::balance::era::PassKind;
use crate::balance::interval::Reads;
use crate::balance::settle::{Bounds, PassOutcome};
use crate::balance::spare::active;
use crate::balance::state::{Groups, Pass, PassStage};
use crate::costs::rq_lock_ns;
use crate::o1;
use crate::remote_reads::visit_ns;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_trace::{BalanceReason, BalanceTrigger, EventKind};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PassProgress {
    /// It continues at this time.
    Until(u64),
    /// It ended at this time.
    Over(u64),
}

impl System<'_> {
    /// Whether this kernel's balancer looks at spare capacity rather than at average load.
    #[inline]
    pub fn looks_at_spare(&self) -> bool {
        self.fixed.history.spare_capacity
    }

    pub(super) fn begin_pass(&mut self, dst: CpuId, level: usize, trigger: BalanceTrigger) -> Pass {
        let mut p = Pass::begin(dst, level, trigger, self.now);
        // Before 2.6.23 every CPU balances its own domains.
        let elects = trigger != BalanceTrigger::Newidle && !self.fixed.history.o1;
        if !elects && !self.looks_at_spare() {
            p.stage = self.first_group();
        }
        p
    }

    fn first_group(&self) -> PassStage {
        if self.fixed.history.o1 {
            let (sums, seen) = Default::default();
            return PassStage::O1Groups { group: 0, at: 0, sums, seen };
        }
        if self.looks_at_spare() {
            return PassStage::Groups(Groups::new());
        }
        PassStage::Stats { group: 0, at: 0, tally: Tally::default(), stats: None }
    }

    /// Continues a pass by `by` when its next step is due; the pass has already reached the time `at`.
    pub fn pass_step(&mut self, by: CpuId, p: &mut Pass, mut at: u64) -> PassProgress {
        loop {
            match p.stage {
                PassStage::Idle => return PassProgress::Over(at),
                PassStage::Elect { .. } => self.elect(by, p, &mut at),
                PassStage::Stats { .. } => self.read_groups(by, p, &mut at),
                PassStage::Queue { .. } => self.read_queues(by, p, &mut at),
                PassStage::Move { src, imbalance } => self.move_tasks(by, p, src, imbalance, &mut at),
                PassStage::Groups(_) => self.read_spare_groups(by, p, &mut at),
                PassStage::Queues(queues) => self.read_spare_queues(by, p, queues, &mut at),
                PassStage::Take { src, amount } => self.take_tasks(by, p, src, amount, &mut at),
                PassStage::O1Groups { .. } => self.o1_read_groups(by, p, &mut at),
                PassStage::O1Queue { pull } => self.o1_read_queues(by, p, pull, &mut at),
                PassStage::O1Move { src, load } => self.o1_move_tasks(by, p, src, load, &mut at),
            }
            if !p.running() {
                return PassProgress::Over(at);
            }
            let locked =
                matches!(p.stage, PassStage::Move { .. } | PassStage::Take { .. } | PassStage::O1Move { .. });
            if at >= self.stepping.horizon || locked {
                return PassProgress::Until(at);
            }
        }
    }

    /// Reads the local group to find the CPU that should balance.
    fn elect(&mut self, by: CpuId, p: &mut Pass, at: &mut u64) {
        let PassStage::Elect { at: mut i, mut election } = p.stage else { return };
        if p.trigger == BalanceTrigger::Newidle {
            // A newidle pass serves its own CPU; since 6.0 (here 5.5) it gives up if work has come.
            if self.newidle_turn(p, *at) && self.lock_domain(p, *at) {
                p.stage = self.first_group();
            }
            return;
        }
        let domain = &self.fixed.domains.of_cpu[p.dst][p.level];
        let local = &self.fixed.domains.groups[domain.groups[0] as usize];
        let costs = &self.fixed.machine.costs;
        let cores_first = self.fixed.history.prefers_idle_core && !domain.params.share_capacity;
        while let Some(cpu) = local.balancers().get(i).copied() {
            i += 1;
            let siblings = &self.board.siblings[cpu];
            // A core with an idle thread counts once: its other threads are skipped.
            let passed = |s: &CpuId| *s < cpu && self.rqs.is_idle(*s) && local.balancers().contains(s);
            if cores_first && siblings.iter().any(passed) {
                continue;
            }
            *at += visit_ns(costs, self.remote_reads.read(by, cpu));
            let reads = match self.rqs.is_idle(cpu) {
                false => Reads::Busy,
                true if cores_first && !siblings.iter().all(|s| self.rqs.is_idle(*s)) => Reads::IdleThread,
                true => Reads::Idle,
            };
            if election.probe(cpu, reads) {
                break;
            }
        }
        if election.should_balance(p.dst, PassKind::from(p.trigger)) {
            if self.lock_domain(p, *at) {
                p.stage = self.first_group();
            }
        } else {
            p.not_our_turn = true;
            self.end_balanced(p, *at, BalanceReason::NotOurTurn);
        }
    }

    /// SD_SERIALIZE since 6.19: the pass takes the machine-wide lock, or ends as balanced if another pass holds it.
    fn lock_domain(&mut self, p: &mut Pass, at: u64) -> bool {
        let serialize = self.fixed.domains.of_cpu[p.dst][p.level].params.serialize;
        if !serialize || !self.fixed.history.serializes_passes || p.serial {
            return true;
        }
        let free = self.balance.nohz.serial.is_none();
        if free {
            (self.balance.nohz.serial, p.serial) = (Some(p.dst), true);
        } else {
            self.end_balanced(p, at, BalanceReason::Locked);
        }
        free
    }

    /// The facts about the domain that the rules need.
    fn domain_facts(&self, p: &Pass) -> DomainFacts {
        let levels = &self.fixed.domains.of_cpu[p.dst];
        let params = &levels[p.level].params;
        DomainFacts {
            balancer: self.fixed.balancer,
            imbalance_pct: params.imbalance_pct,
            share_capacity: params.share_capacity,
            prefer_sibling: p.level > 0 && levels[p.level - 1].params.prefer_sibling,
            later: AverageLater {
                asym: self.asymmetry(p.dst, p.level),
                ..AverageLater::of(&self.fixed.history)
            },
        }
    }

    /// Reads groups until time must pass; decides after the last group.
    fn read_groups(&mut self, by: CpuId, p: &mut Pass, at: &mut u64) {
        let PassStage::Stats { mut group, at: mut i, mut tally, mut stats } = p.stage else { return };
        let facts = self.domain_facts(p);
        let batch = self.fixed.kernel.tunables.probe_batch as usize;
        let domain = &self.fixed.domains.of_cpu[p.dst][p.level];
        let load_idx = PassKind::from(p.trigger).load_idx(&domain.params);
        let (nr_groups, mut since) = (domain.groups.len(), 0);
        while group < nr_groups {
            let index = self.fixed.domains.of_cpu[p.dst][p.level].groups[group];
            let nr = self.fixed.domains.groups[index as usize].cpus.len();
            let local = group == 0 || self.fixed.overlaps(index, p.dst, p.level);
            while i < nr {
                let cpu = self.fixed.domains.groups[index as usize].cpus[i];
                self.visit_for_stats(by, cpu, p, at);
                let sample = self.sample(cpu, local, load_idx);
                let misfit = if facts.later.asym.marked { self.balance.misfit[cpu] } else { 0 };
                tally.add(&CpuSample { misfit, ..sample });
                i += 1;
                since += 1;
                if batch != 0 && since >= batch && *at >= self.stepping.horizon {
                    p.stage = PassStage::Stats { group, at: i, tally, stats };
                    return;
                }
            }
            let mut of_group = self.group_facts(index);
            if facts.later.asym.marked {
                of_group.kinds = self.kinds(index, 0);
            }
            let summed = tally.close(&facts, &of_group, local);
            match &mut stats {
                None => stats = Some(DomainStats::new(summed)),
                Some(s) if local => s.push_local(summed),
                Some(s) => {
                    s.push(&facts, index, summed);
                    p.groups_read = p.groups_read.saturating_add(1);
                }
            }
            (group, i, tally) = (group + 1, 0, Tally::default());
            if *at >= self.stepping.horizon && group < nr_groups {
                p.stage = PassStage::Stats { group, at: i, tally, stats };
                return;
            }
        }
        match stats {
            Some(stats) => self.decide(p, &facts, &stats, *at),
            None => self.end_balanced(p, *at, BalanceReason::NoBusiest),
        }
    }

    fn sample(&self, cpu: CpuId, local: bool, load_idx: u8) -> CpuSample {
        let util = self.fair.queues[self.root(cpu)].avg.util_avg;
        CpuSample {
            cpu,
            load: if local { self.target_load(cpu, load_idx) } else { self.source_load(cpu, load_idx) },
            weight_sum: self.load_now(cpu),
            util: capped_util(util, self.fixed.cpu_capacity[cpu]),
            nr_running: self.rqs.nr_running(cpu),
            h_nr_running: self.h_nr_running(cpu),
            idle: self.rqs.is_idle(cpu),
            misfit: 0,
        }
    }

    fn group_facts(&self, index: u32) -> GroupFacts {
        let at = index as usize;
        let weight = self.fixed.domains.groups[at].cpus.len() as u32;
        let imbalanced = self.balance.imbalanced[at];
        GroupFacts {
            imbalanced,
            capacity: self.group_capacity(index),
            ..GroupFacts::of(weight, self.fixed.group_capacity[at])
        }
    }

    /// All groups are read: decides whether to pull, and from which group.
    fn decide(&mut self, p: &mut Pass, facts: &DomainFacts, stats: &DomainStats, at: u64) {
        let top = p.level + 1 == self.fixed.domains.of_cpu[p.dst].len();
        if top && self.fixed.history.overload_by_pass {
            self.balance.overload = stats.overload();
        }
        let own = self.load_now(p.dst).checked_div(u64::from(self.rqs.nr_running(p.dst))).unwrap_or(0);
        match stats.decide(facts, PassKind::from(p.trigger), own) {
            Decision::Balanced(why) => {
                self.lb(p).lb_nobusyg += 1;
                self.end_balanced(p, at, why.into());
            }
            Decision::Pull { group, amount, why } => {
                p.misfit = why == Pull::Misfit;
                let queue =
                    BusiestQueue::new(facts.balancer, amount.load, facts.imbalance_pct, facts.share_capacity);
                p.stage = PassStage::Queue { group, at: 0, queue, imbalance: amount.load };
            }
        }
    }

    /// Reads the busiest group again, for its busiest queue.
    fn read_queues(&mut self, by: CpuId, p: &mut Pass, at: &mut u64) {
        let PassStage::Queue { group, at: mut i, mut queue, imbalance } = p.stage else { return };
        let nr = self.fixed.domains.groups[group as usize].cpus.len();
        let asym = self.asymmetry(p.dst, p.level);
        while i < nr {
            let cpu = self.fixed.domains.groups[group as usize].cpus[i];
            *at += self.visit_ns(by, cpu);
            let capacity = self.capacity_of(cpu);
            i += 1;
            if self.rqs.nr_running(cpu) == 1 && asym.spares(capacity) {
                continue;
            }
            if p.misfit {
                queue.add_misfit(cpu, self.balance.misfit[cpu]);
                continue;
            }
            queue.add(&QueueSample {
                cpu,
                load: self.load_now(cpu),
                nr_running: self.rqs.nr_running(cpu),
                capacity,
                capacity_orig: self.fixed.cpu_capacity[cpu],
            });
        }
        match queue.result() {
            Some(src) if src != p.dst => {
                let costs = &self.fixed.machine.costs;
                *at += rq_lock_ns(costs, self.remote_reads.distance(by, src)) + costs.move_task_ns;
                p.src = Some(src);
                p.stage = PassStage::Move { src, imbalance };
            }
            _ => {
                self.lb(p).lb_nobusyq += 1;
                self.end_balanced(p, *at, BalanceReason::NoQueue);
            }
        }
    }

    pub(crate) fn end_balanced(&mut self, p: &mut Pass, at: u64, why: BalanceReason) {
        // A pass that searched again ends like one whose tasks were all pinned.
        self.end_pass(p, at, PassOutcome::Balanced { all_pinned: p.again }, why);
    }

    /// Ends the pass: updates the domain's interval and failure count, and emits the event.
    pub(crate) fn end_pass(&mut self, p: &mut Pass, at: u64, outcome: PassOutcome, why: BalanceReason) {
        p.stage = PassStage::Idle;
        if std::mem::take(&mut p.serial) {
            self.balance.nohz.serial = None;
        }
        self.count_pass(p, outcome);
        // Kernels before 5.5 also clear it if it was another CPU's turn; not modelled.
        if outcome == (PassOutcome::Balanced { all_pinned: false })
            && (!p.not_our_turn || self.looks_at_spare())
            && let Some(flag) = parent_flag(self.fixed.balancer, None, true)
        {
            self.flag_parent(p, flag);
        }
        let spare = self.looks_at_spare();
        let level = &mut self.cpus[p.dst].levels[p.level];
        let bounds: Bounds = level.bounds;
        if self.fixed.history.o1 {
            let newidle = p.trigger == BalanceTrigger::Newidle;
            o1::settle::settle(
                &mut level.state,
                &bounds,
                outcome,
                newidle,
                self.fixed.history.idle_pulls_hot,
            );
        } else if spare {
            active::settle(&mut level.state, &bounds, PassKind::from(p.trigger), outcome, !p.walked);
        } else {
            level.state.settle(&bounds, outcome);
        }
        let kind = EventKind::Balance {
            level: p.level as u8,
            trigger: p.trigger,
            why,
            moved: p.moved,
            visited: p.visited,
            took_ns: (at - p.began_ns).min(u64::from(u32::MAX)) as u32,
            src: p.src,
        };
        self.emit(p.dst, kind);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;
    use schedlab_trace::Discard;

    #[test]
    fn since_6_19_newidle_passes_over_serialized_domains_do_not_wait() {
        for (profile, ends) in [("v6.18", false), ("v7.3", true)] {
            let machine = Machine::load("nodes-2x4").expect("a machine");
            let mut sink = Discard;
            let kernel = Kernel::profile(profile).expect("a profile");
            let mut sys = System::new(&machine, kernel, 1, &mut sink);
            let levels: Vec<bool> =
                sys.fixed.domains.of_cpu[CpuId(0)].iter().map(|d| d.params.serialize).collect();
            let level = levels.iter().position(|s| *s).expect("a domain of nodes");
            sys.balance.nohz.serial = Some(CpuId(5));
            let mut p = sys.begin_pass(CpuId(0), level, BalanceTrigger::Newidle);
            let mut at = 0;
            sys.elect(CpuId(0), &mut p, &mut at);
            assert_eq!(!p.running(), ends, "{profile}");
            assert_eq!(sys.balance.nohz.serial, Some(CpuId(5)), "{profile}: the holder keeps it");
        }
    }
}
