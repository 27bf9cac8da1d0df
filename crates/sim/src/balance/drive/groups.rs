//! Drives through time a pass of the balancer that looks at spare capacity (5.5 and later): from the first group's
//! statistics to the queue from which tasks are taken. `pass` has the part common to all kernels, `spare` the rules.
//!
//! Every CPU visited costs time, and a group's statistics have the values of its CPUs at the instants they were read.
//! D001's shortcuts end the loop over groups early; then the totals are those stored by a periodic pass. `ring` has the
//! loop that most groups take.

use super::ring::AfterReading;
use crate::balance::capacity::{GroupFacts, is_reduced};
use crate::balance::era::PassKind;
use crate::balance::fits::is_greater;
use crate::balance::spare::busiest::{Decision, DomainStats};
use crate::balance::spare::newidle_scan::{GroupLoop, Shortcuts};
use crate::balance::spare::queue::{BusiestQueue, QueueSample};
use crate::balance::spare::stats::Tally;
use crate::balance::spare::{Cores, DomainFacts, turn};
use crate::balance::state::{Groups, Pass, PassStage, Queues};
use crate::costs::rq_lock_ns;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_trace::{BalanceReason, BalanceTrigger};

/// Tasks of a group that should leave their CPU whatever the group's load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Misfits {
    /// Not searched.
    None,
    /// Tasks too large for their CPU; if `counts` is not set, they only make the machine overloaded.
    OfCapacity { counts: bool },
    /// The only tasks of CPUs whose time other classes take.
    OfDisturbed { imbalance_pct: u32 },
}

impl System<'_> {
    /// A newidle pass gives up at once if work has arrived (6.0). Returns whether the pass may continue.
    pub(super) fn newidle_turn(&mut self, p: &mut Pass, at: u64) -> bool {
        if p.trigger != BalanceTrigger::Newidle || !self.fixed.history.newidle_gives_up {
            return true;
        }
        let pending = !self.cpus[p.dst].wake_list.is_empty();
        let turn = turn::newidle_may_begin(self.rqs.nr_running(p.dst), pending);
        if turn.is_err() {
            p.not_our_turn = true;
            self.end_balanced(p, at, BalanceReason::WorkCame);
        }
        turn.is_ok()
    }

    /// Reads groups until time must pass; decides after the last group.
    pub(super) fn read_spare_groups(&mut self, by: CpuId, p: &mut Pass, at: &mut u64) {
        let mut facts = self.fixed.spare_facts[p.dst][p.level];
        facts.asym = self.asymmetry(p.dst, p.level);
        let began = *at;
        let over = self.read_groups_on(by, p, &facts, at);
        let mut seen = None;
        if over && let PassStage::Groups(Groups { seen: Some((all, scan)), .. }) = &mut p.stage {
            scan.finish(all);
            seen = Some(*all);
        }
        if let Some(seen) = &seen {
            self.leave_hints(by, p, seen, at);
        }
        self.accounts.stats.stats_ns += *at - began;
        match seen {
            Some(seen) => self.decide_spare(p, &facts, &seen, *at),
            None if over => self.end_balanced(p, *at, BalanceReason::NoBusiest),
            None => {}
        }
    }

    /// The loop over groups; false if time must pass first.
    fn read_groups_on(&mut self, by: CpuId, p: &mut Pass, facts: &DomainFacts, at: &mut u64) -> bool {
        loop {
            let next =
                if self.plain_groups() { self.sight().read_ring(by, p, at) } else { AfterReading::Group };
            let next = if next == AfterReading::Group { self.read_group(by, p, facts, at) } else { next };
            match next {
                AfterReading::Pause => return false,
                AfterReading::Complete => return true,
                AfterReading::Group => {}
            }
        }
    }

    /// Reads the next group, whatever its kind.
    pub(super) fn read_group(
        &mut self,
        by: CpuId,
        p: &mut Pass,
        facts: &DomainFacts,
        at: &mut u64,
    ) -> AfterReading {
        let Pass { stage, dst, level, trigger, visited, groups_read, again, .. } = p;
        let (dst, level, trigger, again) = (*dst, *level, *trigger, *again);
        let PassStage::Groups(g) = stage else { return AfterReading::Complete };
        let groups = &self.fixed.domains.of_cpu[dst][level].groups;
        let (nr_groups, Some(index)) = (groups.len(), groups.get(g.group).copied()) else {
            return AfterReading::Complete;
        };
        let (local, shares) = (g.group == 0, self.has(Feature::IlbShare));
        let takes = shares && trigger == BalanceTrigger::Newidle && !local && g.read == 0;
        let found = if takes { self.gathered(by, dst, level, index, *at) } else { None };
        let stats = if let Some((stats, cost)) = found {
            *at += cost;
            stats
        } else {
            let misfits =
                if local { Misfits::None } else { self.misfits(facts, index, PassKind::from(trigger)) };
            let Some(sums) = self.sum_group((by, again), g, index, misfits, visited, at) else {
                return AfterReading::Pause;
            };
            let is_core = self.fixed.domains.groups[index as usize].flags.share_capacity;
            let to_idle = is_core && !local && facts.gives_to_idle(PassKind::from(trigger));
            let mut stats = sums.close(&self.spare_group(index), facts.imbalance_pct, to_idle);
            if facts.asym.marked {
                stats.kinds = self.kinds(index, 0);
            }
            stats.kinds.misfit_load = sums.misfit();
            stats.kinds.is_core = is_core && (local || facts.some_are_cores);
            if shares && !local {
                *at += self.leave_gathered(by, index, *at, stats);
            }
            stats
        };
        (g.group, g.read) = (g.group + 1, 0);
        if let Some((seen, scan)) = &mut g.seen {
            *groups_read = groups_read.saturating_add(1);
            if !scan.take(seen, facts, index, &stats) {
                return AfterReading::Complete;
            }
        } else {
            let (hints, cost) = self.read_hints(by, dst, level, trigger);
            *at += cost;
            let on = Shortcuts::of(self.fixed.kernel.features);
            let scan = GroupLoop::new(on, PassKind::from(trigger), hints.as_ref());
            g.seen = Some((DomainStats::new(stats), scan));
        }
        if *at >= self.stepping.horizon && g.group < nr_groups {
            AfterReading::Pause
        } else {
            AfterReading::Group
        }
    }

    /// Sums over the CPUs of the loop's current group, without those that a repeated pass (`again`) leaves out; `None`
    /// if time must pass before the next CPU.
    #[inline]
    fn sum_group(
        &mut self,
        (by, again): (CpuId, bool),
        g: &mut Groups,
        index: u32,
        misfits: Misfits,
        visited: &mut u16,
        at: &mut u64,
    ) -> Option<Tally> {
        let (from, nr) = (g.read, self.fixed.domains.groups[index as usize].cpus.len());
        let batch = self.fixed.at_once();
        let (mut read, mut left_out, mut tally) =
            (from, 0, if from == 0 { Tally::default() } else { g.tally });
        while read < nr {
            let cpu = self.fixed.domains.groups[index as usize].cpus[read];
            read += 1;
            if again && self.balance.left_out[by].contains(cpu) {
                left_out += 1;
                continue;
            }
            *at += self.visit_ns(by, cpu);
            let sample = self.sight().sample(cpu);
            tally.add(&sample);
            match misfits {
                Misfits::None => {}
                Misfits::OfCapacity { counts } => tally.add_misfit(&sample, counts),
                Misfits::OfDisturbed { imbalance_pct } => {
                    let (left, whole) = (self.capacity_of(cpu), self.fixed.cpu_capacity[cpu]);
                    if sample.h_nr_running == 1 && is_reduced(left, whole, imbalance_pct) {
                        tally.add_disturbed(&sample);
                    }
                }
            }
            if read - from >= batch && read < nr && *at >= self.stepping.horizon {
                break;
            }
        }
        *visited = visited.saturating_add((read - from - left_out) as u16);
        if read < nr {
            (g.read, g.tally) = (read, tally);
            return None;
        }
        Some(tally)
    }

    /// The misfits that a pass looks for in a group other than its own.
    fn misfits(&self, facts: &DomainFacts, group: u32, pass: PassKind) -> Misfits {
        let history = &self.fixed.history;
        if facts.asym.marked {
            let helps = || is_greater(facts.asym.dst_capacity, self.kinds(group, 0).max_capacity);
            return Misfits::OfCapacity { counts: !history.misfit_counts_if_helped || helps() };
        }
        // Without real-time tasks no CPU is disturbed.
        if history.disturbed_is_misfit && self.rt.shared.any && pass != PassKind::Busy {
            return Misfits::OfDisturbed { imbalance_pct: facts.imbalance_pct };
        }
        Misfits::None
    }

    #[inline]
    fn spare_group(&self, index: u32) -> GroupFacts {
        let (at, weight) = (index as usize, self.fixed.domains.groups[index as usize].cpus.len());
        GroupFacts {
            imbalanced: self.balance.imbalanced[at],
            capacity: self.group_capacity(index),
            ..GroupFacts::of(weight as u32, self.fixed.group_capacity[at])
        }
    }

    /// Stores a pass's hints for other CPUs: the overload flag (at the top domain), and scan depths and totals in the
    /// shared state.
    fn leave_hints(&mut self, by: CpuId, p: &Pass, seen: &DomainStats, at: &mut u64) {
        if p.level + 1 == self.fixed.domains.of_cpu[p.dst].len() {
            self.balance.overload = seen.overload;
        }
        let kind = PassKind::from(p.trigger);
        if kind == PassKind::Newidle {
            return;
        }
        self.set_scan_depth(p, seen.sum_util);
        let on = Shortcuts::of(self.fixed.kernel.features);
        *at += self.write_hints(by, p, |hints, span| hints.store(on, kind, span, seen));
    }

    /// SIS_UTIL: a periodic pass over the last-level cache's domain sets how far wakeups may scan (6.0+).
    fn set_scan_depth(&mut self, p: &Pass, sum_util: u64) {
        if !self.has(Feature::SisUtil) || self.fixed.domains.llc[p.dst] != Some(p.level) {
            return;
        }
        let domain = &self.fixed.domains.of_cpu[p.dst][p.level];
        let (weight, pct) = (domain.cpus.len() as u64, u64::from(domain.params.imbalance_pct));
        let llc = self.llc_of(p.dst);
        self.llc[llc].nr_idle_scan = crate::wakeup::llc::nr_idle_scan(weight, sum_util, pct);
    }

    fn decide_spare(&mut self, p: &mut Pass, facts: &DomainFacts, seen: &DomainStats, at: u64) {
        let mut facts = DomainFacts { cores: self.unlike_cores(p, seen), ..*facts };
        if let Some((busiest, _)) = seen.busiest.filter(|_| self.fixed.history.busiest_prefers_siblings) {
            facts.prefer_sibling = self.fixed.domains.groups[busiest as usize].flags.prefer_sibling;
        }
        let facts = &facts;
        match seen.decide(facts, PassKind::from(p.trigger)) {
            Decision::Balanced(why) => {
                self.lb(p).lb_nobusyg += 1;
                self.end_balanced(p, at, why.into());
            }
            Decision::Pull { group, amount, .. } => {
                let queue = BusiestQueue::new(
                    amount,
                    facts.imbalance_pct,
                    self.fixed.history.boosts_by_runnable,
                    facts.asym,
                );
                p.stage = PassStage::Queues(Queues { group, read: 0, queue, amount });
            }
        }
    }

    /// Numbers of cores of the busiest and the local group, if they differ and this kernel asks for them.
    fn unlike_cores(&self, p: &Pass, seen: &DomainStats) -> Option<Cores> {
        let busiest = seen.busiest.filter(|_| self.fixed.history.siblings_by_cores)?.0;
        let local = self.fixed.domains.of_cpu[p.dst][p.level].groups[0];
        let of = |group: u32| self.fixed.group_cores[group as usize];
        let cores = Cores { busiest: of(busiest), local: of(local) };
        (cores.busiest != cores.local).then_some(cores)
    }

    /// Whether a CPU gives its only task to one that is no faster (7.3): because a busy thread of its core slows it
    /// down, or because both are equal and in different clusters.
    fn gives_its_only_task(&self, dst: CpuId, cpu: CpuId) -> bool {
        let alike = self.fixed.cpu_capacity[dst] == self.fixed.cpu_capacity[cpu];
        self.fixed.history.slowed_thread_gives
            && (!self.core_is_idle_beside(cpu) || self.fixed.clusters && alike)
    }

    /// Reads the busiest group again, for its busiest queue.
    pub(super) fn read_spare_queues(&mut self, by: CpuId, p: &mut Pass, mut q: Queues, at: &mut u64) {
        let nr = self.fixed.domains.groups[q.group as usize].cpus.len();
        let asym = self.fixed.domains.of_cpu[p.dst][p.level].params.asym_capacity;
        while q.read < nr {
            let cpu = self.fixed.domains.groups[q.group as usize].cpus[q.read];
            q.read += 1;
            if p.again && self.balance.left_out[by].contains(cpu) {
                continue;
            }
            *at += self.visit_ns(by, cpu);
            let capacity = self.capacity_of(cpu);
            q.queue.add(&QueueSample {
                cpu,
                load: self.load_now(cpu),
                util: self.cfs_util(cpu),
                runnable: self.fair.queues[self.root(cpu)].avg.runnable_avg,
                h_nr_running: self.h_nr_balanced(cpu),
                capacity,
                capacity_orig: self.fixed.cpu_capacity[cpu],
                misfit: self.balance.misfit[cpu],
                gives: asym && self.gives_its_only_task(p.dst, cpu),
            });
            if q.read < nr && *at >= self.stepping.horizon {
                p.stage = PassStage::Queues(q);
                return;
            }
        }
        let Some(src) = q.queue.result() else {
            self.lb(p).lb_nobusyq += 1;
            return self.end_balanced(p, *at, BalanceReason::NoQueue);
        };
        let costs = &self.fixed.machine.costs;
        // A queue that has become short is not even locked: the source's length was just read.
        if self.rqs.nr_running(src) > 1 {
            *at += rq_lock_ns(costs, self.remote_reads.distance(by, src)) + costs.move_task_ns;
            // Taking the lock writes the line that others read.
            self.remote_reads.dirty(src);
            self.remote_reads.read(by, src);
        }
        p.src = Some(src);
        p.stage = PassStage::Take { src, amount: q.amount };
    }
}
