//! Takes tasks: the end of a pass that found a busiest queue (`detach_tasks`, `need_active_balance`; 3.4 and 4.5).

use crate::balance::active::ActiveFacts;
use crate::balance::average::active::{needs_active, parent_flag};
use crate::balance::average::detach::Detach;
use crate::balance::can_migrate::{MigrateRules, Offer, Refusal, TaskFacts, WalkStep};
use crate::balance::era::{Balancer, PassKind};
use crate::balance::reasons::walked_in_vain;
use crate::balance::settle::{Active, PassOutcome};
use crate::balance::state::Pass;
use crate::balance::walk::Pinned;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::preempt::Preempt;
use schedlab_kernel::{Feature, Policy};
use schedlab_machine::Group;
use schedlab_trace::{BalanceReason, BalanceTrigger, MoveReason};

impl System<'_> {
    pub(super) fn rules(&self, p: &Pass) -> MigrateRules {
        let level = &self.cpus[p.dst].levels[p.level];
        let by_domain = self.has(Feature::SdCacheHot);
        let cutoff_ns = by_domain.then(|| self.fixed.cutoff_ns(p.dst, p.level)).flatten();
        MigrateRules {
            balancer: self.fixed.balancer,
            pass: PassKind::from(p.trigger),
            preemptible: Preempt::is_built_in(&self.fixed.kernel),
            migration_cost_ns: cutoff_ns.unwrap_or(self.fixed.kernel.tunables.migration_cost_ns),
            cache_hot_buddy: self.has(Feature::CacheHotBuddy),
            dst_has_tasks: self.rqs.nr_running(p.gainer) > 0,
            nr_balance_failed: level.state.nr_balance_failed,
            cache_nice_tries: level.bounds.cache_nice_tries,
            delayed_stay: false,
            ineligible_stay: false,
            kthreads_set_apart: self.fixed.history.kthreads_set_apart,
        }
    }

    /// The CPUs of the destination's group to which a pass may give a task instead (`dst_grpmask`).
    pub(super) fn reached<'g>(&self, local: &'g Group) -> &'g [CpuId] {
        if self.fixed.history.hands_to_balancers { local.balancers() } else { &local.cpus }
    }

    /// The facts about a task for the detaching rules. Newest tasks are offered first, as 3.4 and 4.5 walk the list.
    pub(super) fn task_facts(&mut self, by: CpuId, task: TaskId, p: &Pass) -> TaskFacts {
        let dst = p.gainer;
        let load = self.task_h_load(task);
        let t = &self.tasks[task];
        let e = &self.fair.entities[t.entity];
        let q = &self.fair.queues[e.cfs_rq];
        let domain = &self.fixed.domains.of_cpu[p.dst][p.level];
        let local = self.reached(&self.fixed.domains.groups[domain.groups[0] as usize]);
        let allowed = t.may_run_on(dst);
        let searched = |cpu: CpuId| !p.again || !self.balance.left_out[by].contains(cpu);
        let nearby = || local.iter().copied().filter(|c| t.may_run_on(*c) && searched(*c)).min();
        TaskFacts {
            allowed,
            throttled: self.fair.any_quota && self.stays_for_quota(t.group, t.cpu, dst),
            allowed_nearby: if allowed { None } else { nearby() },
            delayed: e.delayed,
            ineligible: self.fixed.history.ineligible_stay && self.is_ineligible(task),
            per_cpu_kthread: t.allowed.as_ref().is_some_and(|a| a.len() == 1)
                && self.board.threads[task].background,
            running: t.on_cpu,
            sched_idle: t.attr.policy == Policy::Idle,
            buddy: q.next == Some(t.entity) || q.last == Some(t.entity),
            ran_ago_ns: match e.exec_start {
                // It has not run since it arrived. The machine was up for a long time before the run began.
                0 if self.fixed.history.unrun_is_cold => u64::MAX,
                start => self.now - start,
            },
            load,
        }
    }

    /// The queues are locked and the step's time is over: moves the tasks that may move. The step's time includes the
    /// first task's; each further task takes its own.
    pub(super) fn move_tasks(&mut self, by: CpuId, p: &mut Pass, src: CpuId, imbalance: u64, at: &mut u64) {
        let rules = self.rules(p);
        let nr = self.rqs.nr_running(src);
        self.lb(p).lb_imbalance_load += imbalance;
        let oldest_first = self.fixed.history.picked_is_newest;
        let (mut walked, mut refused, mut ended) = (None, None, None);
        if nr > 1 {
            let mut walk = Detach::new(imbalance, self.fixed.kernel.tunables.nr_migrate, nr);
            loop {
                let list = &self.cpus[src].list;
                let next = if oldest_first { list.first() } else { list.last() }.copied();
                match walk.step(&rules, self.rqs.nr_running(src), next.is_none()) {
                    WalkStep::Stop(why) => {
                        ended = Some(why);
                        break;
                    }
                    WalkStep::Pause => continue,
                    WalkStep::Offer => {}
                }
                let Some(task) = next else { break };
                let facts = self.task_facts(by, task, p);
                match walk.offer(&rules, &facts) {
                    Offer::Take { hot, then } => {
                        self.gain(by, p, task, hot);
                        if then.is_some() {
                            break;
                        }
                    }
                    // A refused task goes to the other end of the list.
                    Offer::Refuse(why) => {
                        if why == (Refusal::TooHeavy { hot: true }) && rules.balancer == Balancer::V4_5 {
                            self.lb(p).lb_hot_gained += 1;
                        }
                        refused = refused.max(Some(why));
                        if oldest_first {
                            self.cpus[src].list.rotate_left(1)
                        } else {
                            self.cpus[src].list.rotate_right(1)
                        }
                    }
                }
            }
            walked = Some(walk);
        }
        let pinned = walked.map(|w| w.walk.pinned());
        if self.walk_over(p, pinned, rules.balancer, at) {
            return;
        }
        self.lb(p).lb_failed += 1;
        let active = self.try_active(by, p, src);
        self.end_pass(p, *at, PassOutcome::Failed(active), walked_in_vain(refused, ended));
    }

    /// The end of a walk, common to all kernels: sets the flag for the level above, and ends the pass if tasks moved or
    /// all were pinned. Returns whether the pass has ended. `pinned` is `None` if no task was examined.
    pub(super) fn walk_over(
        &mut self,
        p: &mut Pass,
        pinned: Option<Pinned>,
        balancer: Balancer,
        at: &mut u64,
    ) -> bool {
        if let Some(flag) = parent_flag(balancer, pinned.map(|p| p.some), false) {
            self.flag_parent(p, flag);
        }
        if p.moved > 0 {
            *at += u64::from(p.moved - 1) * self.fixed.machine.costs.move_task_ns;
            self.end_pass(p, *at, PassOutcome::Moved, BalanceReason::Moved);
            return true;
        }
        let all = pinned.is_some_and(|p| p.all);
        if all {
            self.end_pass(p, *at, PassOutcome::Balanced { all_pinned: true }, BalanceReason::Pinned);
        }
        all
    }

    /// Moves a task to the destination, and counts it.
    pub(crate) fn gain(&mut self, by: CpuId, p: &mut Pass, task: TaskId, hot: bool) {
        self.detach_gained(p, task, hot);
        self.attach_gained(by);
    }

    /// Takes a task off its queue for the destination, and counts it; [`Self::attach_gained`] follows.
    pub(super) fn detach_gained(&mut self, p: &mut Pass, task: TaskId, hot: bool) {
        let was = self.detach_task(task, p.gainer, move_reason(p.trigger));
        self.balance.detached.push((task, was));
        p.moved += 1;
        let lb = self.lb(p);
        lb.lb_gained += 1;
        lb.lb_hot_gained += u64::from(hot);
    }

    /// Puts the detached tasks on the destination's queue, the last one first (`attach_tasks`).
    pub(super) fn attach_gained(&mut self, by: CpuId) {
        while let Some((task, was)) = self.balance.detached.pop() {
            self.attach_task(by, task, was);
        }
    }

    /// Sets or clears the flag of the destination's group one level up: affinity hinders balancing below.
    pub(super) fn flag_parent(&mut self, p: &Pass, flag: bool) {
        if let Some(parent) = self.fixed.domains.of_cpu[p.dst].get(p.level + 1) {
            self.balance.imbalanced[parent.groups[0] as usize] = flag;
        }
    }

    /// No task could be moved: pushes the source's running task if the rules say so.
    fn try_active(&mut self, by: CpuId, p: &Pass, src: CpuId) -> Active {
        let facts = self.count_failure(p, src, self.h_nr_running(src));
        let Some(why) = needs_active(self.fixed.balancer, &facts, p.misfit) else { return Active::NotDue };
        self.count_push(why);
        self.start_push(by, src, p.dst, Active::NotDue)
    }

    /// Counts a pass that moved nothing, and returns the facts for the decision on a push.
    pub(super) fn count_failure(&mut self, p: &Pass, src: CpuId, src_h_nr_running: u32) -> ActiveFacts {
        let pass = PassKind::from(p.trigger);
        let level = &mut self.cpus[p.dst].levels[p.level];
        level.state.count_failure(pass);
        let (nr_balance_failed, cache_nice_tries) =
            (level.state.nr_balance_failed, level.bounds.cache_nice_tries);
        ActiveFacts {
            pass,
            nr_balance_failed,
            cache_nice_tries,
            imbalance_pct: self.fixed.domains.of_cpu[p.dst][p.level].params.imbalance_pct,
            src_h_nr_running,
            src_capacity: self.capacity_of(src),
            src_capacity_orig: self.fixed.cpu_capacity[src],
            dst_capacity: self.capacity_of(p.gainer),
        }
    }
}

fn move_reason(trigger: BalanceTrigger) -> MoveReason {
    match trigger {
        BalanceTrigger::Newidle => MoveReason::Newidle,
        BalanceTrigger::Idle => MoveReason::Idle,
        BalanceTrigger::Busy => MoveReason::Periodic,
        BalanceTrigger::Nohz => MoveReason::NohzIdle,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep_tests::{born, with_system};

    #[test]
    fn a_refused_task_goes_to_the_back_and_each_task_taken_costs_its_time() {
        with_system("v4.5", |sys| {
            sys.now = 1_000_000_000;
            let src = CpuId(0);
            let [a, b, c, d] = [(); 4].map(|()| born(sys, src));
            let hot = sys.tasks[d].entity;
            sys.fair.entities[hot].exec_start = sys.now;
            let mut p = Pass::begin(CpuId(1), 0, BalanceTrigger::Idle, sys.now);
            let mut at = sys.now;
            sys.move_tasks(CpuId(1), &mut p, src, 2 * 1024, &mut at);
            assert_eq!(p.moved, 2, "{b:?} and {c:?}");
            assert_eq!(sys.cpus[CpuId(0)].list, [d, a], "the newest was looked at first, and is now last");
            assert_eq!(at - sys.now, sys.fixed.machine.costs.move_task_ns);
        });
    }

    #[test]
    fn since_4_15_the_oldest_task_is_examined_first() {
        for profile in ["v4.19", "v5.4"] {
            with_system(profile, |sys| {
                sys.now = 1_000_000_000;
                let [a, b, c, d] = [(); 4].map(|()| born(sys, CpuId(0)));
                let hot = sys.tasks[a].entity;
                sys.fair.entities[hot].exec_start = sys.now;
                let mut p = Pass::begin(CpuId(1), 0, BalanceTrigger::Idle, sys.now);
                let mut at = sys.now;
                sys.move_tasks(CpuId(1), &mut p, CpuId(0), 2 * 1024, &mut at);
                assert_eq!(sys.cpus[CpuId(0)].list, [d, a], "{profile}: {b:?} and {c:?} have moved");
            });
        }
    }
}
