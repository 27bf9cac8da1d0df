//! A balance pass through time: reads groups, then the queues of the busiest one; then tasks move, or the running one
//! is pushed. As in [`crate::balance`], each CPU is read at its own instant.

use crate::balance::era::PassKind;
use crate::balance::settle::{Active, PassOutcome};
use crate::balance::state::{Pass, PassStage};
use crate::costs::rq_lock_ns;
use crate::o1::busiest::{BusiestQueue, O1BusiestRules, Pull, SCALE, Sums};
use crate::o1::detach::{self, Best, O1Refusal, O1TaskFacts, O1Walk, can_migrate, is_hot};
use crate::o1::prio::{MAX_PRIO, ONE_TASK};
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::{ActiveReason, BalanceReason, BalanceTrigger};

impl System<'_> {
    fn o1_rules(&self, p: &Pass) -> O1BusiestRules {
        let history = &self.fixed.history;
        let params = &self.fixed.domains.of_cpu[p.dst][p.level].params;
        O1BusiestRules {
            counts_tasks: history.tasks_are_load,
            tries_anyway: history.idle_pulls_hot,
            imbalance_pct: u64::from(params.imbalance_pct),
        }
    }

    /// Reads groups until time must pass; decides after the last one.
    pub(crate) fn o1_read_groups(&mut self, by: CpuId, p: &mut Pass, at: &mut u64) {
        let PassStage::O1Groups { mut group, at: mut i, mut sums, mut seen } = p.stage else { return };
        let rules = self.o1_rules(p);
        let params = self.fixed.domains.of_cpu[p.dst][p.level].params;
        let load_idx = PassKind::from(p.trigger).load_idx(&params);
        let batch = self.fixed.kernel.tunables.probe_batch as usize;
        let mut since = 0;
        while let Some(index) = self.fixed.domains.of_cpu[p.dst][p.level].groups.get(group).copied() {
            let nr = self.fixed.domains.groups[index as usize].cpus.len();
            while i < nr {
                let cpu = self.fixed.domains.groups[index as usize].cpus[i];
                self.visit_for_stats(by, cpu, p, at);
                let local = group == 0;
                let load =
                    if local { self.target_load(cpu, load_idx) } else { self.source_load(cpu, load_idx) };
                sums.load += load;
                sums.load_now += self.o1_load(cpu);
                sums.nr_running += u64::from(self.rqs.nr_running(cpu));
                (i, since) = (i + 1, since + 1);
                if batch != 0 && since >= batch && *at >= self.stepping.horizon {
                    p.stage = PassStage::O1Groups { group, at: i, sums, seen };
                    return;
                }
            }
            // Within a core, its threads count as whole CPUs.
            sums.power = if params.share_capacity {
                nr as u64 * SCALE
            } else {
                self.fixed.group_capacity[index as usize]
            };
            if group == 0 {
                seen.local(sums);
            } else {
                seen.other(&rules, index, sums);
                p.groups_read = p.groups_read.saturating_add(1);
            }
            (group, i, sums) = (group + 1, 0, Sums::default());
            if *at >= self.stepping.horizon && group < self.fixed.domains.of_cpu[p.dst][p.level].groups.len()
            {
                p.stage = PassStage::O1Groups { group, at: i, sums, seen };
                return;
            }
        }
        match seen.decide(&rules, PassKind::from(p.trigger)) {
            Ok(pull) => p.stage = PassStage::O1Queue { pull },
            Err(why) => {
                self.lb(p).lb_nobusyg += 1;
                self.end_balanced(p, *at, why.into());
            }
        }
    }

    /// Reads the busiest group again, for its busiest queue.
    pub(crate) fn o1_read_queues(&mut self, by: CpuId, p: &mut Pass, pull: Pull, at: &mut u64) {
        let rules = self.o1_rules(p);
        let params = &self.fixed.domains.of_cpu[p.dst][p.level].params;
        let load_idx = PassKind::from(p.trigger).load_idx(params);
        let mut queue = BusiestQueue::default();
        for i in 0..self.fixed.domains.groups[pull.group as usize].cpus.len() {
            let cpu = self.fixed.domains.groups[pull.group as usize].cpus[i];
            *at += self.visit_ns(by, cpu);
            let load = if rules.counts_tasks { self.source_load(cpu, load_idx) } else { self.o1_load(cpu) };
            queue.add(&rules, cpu, load, self.rqs.nr_running(cpu), pull.load);
        }
        match queue.result().filter(|src| *src != p.dst) {
            Some(src) => {
                let costs = &self.fixed.machine.costs;
                *at += rq_lock_ns(costs, self.remote_reads.distance(by, src)) + costs.move_task_ns;
                p.src = Some(src);
                p.stage = PassStage::O1Move { src, load: pull.load };
            }
            None => {
                self.lb(p).lb_nobusyq += 1;
                self.end_balanced(p, *at, BalanceReason::NoQueue);
            }
        }
    }

    /// Both queues are locked and the step's time is over: moves the tasks that may move (`move_tasks`).
    pub(crate) fn o1_move_tasks(&mut self, by: CpuId, p: &mut Pass, src: CpuId, load: u64, at: &mut u64) {
        self.lb(p).lb_imbalance_load += load;
        let mut refused = None;
        let mut all_pinned = self.rqs.nr_running(src) > 1;
        if all_pinned {
            (refused, all_pinned) = self.o1_walk(by, p, src, load);
        }
        if p.moved > 0 {
            *at += u64::from(p.moved - 1) * self.fixed.machine.costs.move_task_ns;
            return self.end_pass(p, *at, PassOutcome::Moved, BalanceReason::Moved);
        }
        // A newidle pass does not check whether all tasks are pinned.
        let asks = !self.fixed.history.idle_pulls_hot && p.trigger != BalanceTrigger::Newidle;
        if all_pinned && asks {
            return self.end_pass(p, *at, PassOutcome::Balanced { all_pinned: true }, BalanceReason::Pinned);
        }
        self.lb(p).lb_failed += 1;
        let active = self.o1_try_active(by, p, src);
        let why = match refused {
            None => BalanceReason::Emptied,
            Some(O1Refusal::Running) => BalanceReason::Running,
            Some(O1Refusal::NotAllowed) => BalanceReason::Pinned,
            Some(O1Refusal::Hot) => BalanceReason::Hot,
            Some(O1Refusal::TooHeavy) => BalanceReason::TooHeavy,
        };
        self.end_pass(p, *at, PassOutcome::Failed(active), why);
    }

    /// Walks the source's arrays. Returns the refusal closest to a move, and whether affinity held back every task.
    fn o1_walk(&mut self, by: CpuId, p: &mut Pass, src: CpuId, load: u64) -> (Option<O1Refusal>, bool) {
        let counts_tasks = self.fixed.history.tasks_are_load;
        let level = &self.cpus[p.dst].levels[p.level];
        let rules = detach::O1DetachRules {
            takes_hot: self.fixed.history.idle_pulls_hot && self.core_idles(p.dst),
            nr_balance_failed: level.state.nr_balance_failed,
            cache_nice_tries: level.bounds.cache_nice_tries,
        };
        let hot_ns = self.cache_hot_ns(p.dst, p.level);
        let most = if counts_tasks { load / ONE_TASK } else { u64::from(self.rqs.nr_running(src)) - 1 };
        let busiest = self.o1_best(src);
        let mut best = Best {
            this: self.o1_best(p.dst),
            busiest,
            seen: self.cpus[src].curr.map_or(MAX_PRIO, |c| self.tasks[c].o1.prio) == busiest,
        };
        let (mut walk, mut left) = (O1Walk::default(), load);
        let (mut refused, mut all_pinned) = (None, true);
        while u64::from(p.moved) < most && left > 0 {
            let Some((prio, task)) = walk.next(&self.o1[src]) else { break };
            let own = self.tasks[task].o1;
            let skipped = !counts_tasks && own.weight > left && best.skips(prio);
            let facts = O1TaskFacts {
                running: self.tasks[task].on_cpu,
                allowed: self.tasks[task].may_run_on(p.dst),
                hot: is_hot(self.o1[src].last_tick_ns, own.last_ran_ns, hot_ns),
            };
            // A task that is skipped for its weight is not tested for affinity.
            all_pinned &= skipped || !facts.allowed;
            let judged = if skipped { Err(O1Refusal::TooHeavy) } else { can_migrate(&rules, &facts) };
            match judged {
                Ok(hot) => {
                    best.moves(prio);
                    left = if counts_tasks { left } else { left.saturating_sub(own.weight) };
                    self.gain(by, p, task, hot);
                }
                Err(why) => {
                    best.stays(prio);
                    refused = refused.max(Some(why));
                }
            }
        }
        (refused, all_pinned)
    }

    /// The best priority of a CPU: its running task's, or that of an expired task (`rq_best_prio`).
    fn o1_best(&self, cpu: CpuId) -> u8 {
        let runs = self.cpus[cpu].curr.map_or(MAX_PRIO, |c| match self.class(c) {
            Class::O1 => self.tasks[c].o1.prio,
            _ => 0,
        });
        runs.min(self.o1[cpu].best_expired)
    }

    /// Whether all threads of a core run their idle tasks (`cpu_and_siblings_are_idle`).
    fn core_idles(&self, cpu: CpuId) -> bool {
        let idles = |c: CpuId| self.cpus[c].curr.is_none();
        idles(cpu) && self.board.siblings[cpu].iter().all(|s| idles(*s))
    }

    /// No task could be moved: after too many failures the migration thread pushes the running one.
    fn o1_try_active(&mut self, by: CpuId, p: &Pass, src: CpuId) -> Active {
        if p.trigger == BalanceTrigger::Newidle {
            return Active::NotDue;
        }
        let level = &mut self.cpus[p.dst].levels[p.level];
        level.state.nr_balance_failed += 1;
        if level.state.nr_balance_failed <= level.bounds.cache_nice_tries + 2 {
            return Active::NotDue;
        }
        self.count_push(ActiveReason::Failures);
        let to = if self.fixed.history.idle_pulls_hot { self.o1_push_to(src) } else { Some(p.dst) };
        to.map_or(Active::Pinned, |to| self.start_push(by, src, to, Active::UnderWay))
    }

    /// The CPU to which a running task of `src` is pushed in 2.6.12, whichever CPU asked: the first one whose core is
    /// idle, searching the domains of `src` from the lowest up (`active_load_balance`).
    fn o1_push_to(&self, src: CpuId) -> Option<CpuId> {
        let runs: Option<TaskId> = self.cpus[src].curr;
        let allowed = |c: CpuId| runs.is_none_or(|t| self.tasks[t].may_run_on(c));
        let groups = self.fixed.domains.of_cpu[src].iter().flat_map(|d| d.groups.iter());
        groups
            .flat_map(|g| self.fixed.domains.groups[*g as usize].cpus.iter().copied())
            .find(|c| *c != src && self.core_idles(*c) && allowed(*c))
    }
}
