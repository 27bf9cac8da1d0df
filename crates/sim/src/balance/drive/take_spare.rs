//! Takes tasks in 5.5 and later: the end of a pass that found a busiest queue (`detach_tasks`, active balance).

use crate::balance::average::active::parent_flag;
use crate::balance::can_migrate::{Offer, Refusal, Stop, WalkStep};
use crate::balance::era::Balancer;
use crate::balance::interval::Election;
use crate::balance::reasons::walked_in_vain;
use crate::balance::settle::{Active, PassOutcome};
use crate::balance::spare::active::needs_active;
use crate::balance::spare::detach::{Detach, DetachRules, SizedTask};
use crate::balance::spare::imbalance::{Amount, MigrationType};
use crate::balance::state::{Pass, PassStage};
use crate::balance::walk::Pinned;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::Feature;

impl System<'_> {
    fn spare_rules(&self, p: &Pass, wanted: MigrationType) -> DetachRules {
        let history = &self.fixed.history;
        let mut common = self.rules(p);
        common.delayed_stay = history.delayed_set_apart && wanted != MigrationType::Load;
        common.ineligible_stay = history.ineligible_stay
            && self.has(Feature::PlaceLag)
            && common.nr_balance_failed == 0
            && self.fair.queues[self.root(p.gainer)].h_nr_queued > 0;
        DetachRules {
            common,
            share_capacity: self.fixed.domains.of_cpu[p.dst][p.level].params.share_capacity,
            active: false,
            util_shrinks: history.util_shrinks,
            walks_past_pinned: history.walks_past_pinned,
            emptied_unwalked: history.emptied_unwalked,
        }
    }

    /// The facts about a task that the rules use.
    fn spare_task(&mut self, by: CpuId, task: TaskId, p: &Pass, wanted: MigrationType) -> SizedTask {
        let facts = self.task_facts(by, task, p);
        let fits_source = wanted == MigrationType::Misfit && self.task_fits(task, self.tasks[task].cpu);
        let entity = self.entity(task);
        SizedTask { facts, util: entity.est.task_util(entity.avg.util_avg), fits_source }
    }

    /// The queue is locked and the step's time is over: moves the tasks that may move, the longest waiting first.
    pub(super) fn take_tasks(&mut self, by: CpuId, p: &mut Pass, src: CpuId, amount: Amount, at: &mut u64) {
        let nr = self.rqs.nr_running(src);
        let lb = self.lb(p);
        *match amount.migration {
            MigrationType::Load => &mut lb.lb_imbalance_load,
            MigrationType::Util => &mut lb.lb_imbalance_util,
            MigrationType::Task => &mut lb.lb_imbalance_task,
            MigrationType::Misfit => &mut lb.lb_imbalance_misfit,
        } += amount.amount;
        let mut in_vain = (None, None);
        let walked = (nr > 1).then(|| self.walk_source(by, p, src, amount, &mut in_vain));
        let pinned = walked.map(|w| Pinned { some: p.some_pinned && w.walk.left > 0, ..w.walk.pinned() });
        if pinned.is_some_and(|p| p.all) && self.search_again(by, p, src, pinned) {
            return;
        }
        if self.walk_over(p, pinned, Balancer::V4_5, at) {
            return;
        }
        self.lb(p).lb_failed += 1;
        p.walked = walked.is_some();
        let active = self.push_running(by, p, src, amount.migration);
        let (refused, ended) = in_vain;
        self.end_pass(p, *at, PassOutcome::Failed(active), walked_in_vain(refused, ended));
    }

    /// Affinity pins all tasks of the busiest queue: repeats the pass without that CPU, if the domain has others
    /// outside of the destination's group.
    fn search_again(&mut self, by: CpuId, p: &mut Pass, src: CpuId, pinned: Option<Pinned>) -> bool {
        self.leave_out(by, p, src);
        let domain = &self.fixed.domains.of_cpu[p.dst][p.level];
        let local = self.reached(&self.fixed.domains.groups[domain.groups[0] as usize]);
        let left_out = &self.balance.left_out[by];
        if !domain.cpus.iter().any(|cpu| !left_out.contains(*cpu) && !local.contains(cpu)) {
            return false;
        }
        if let Some(flag) = parent_flag(Balancer::V4_5, pinned.map(|p| p.some), false) {
            self.flag_parent(p, flag);
        }
        p.src = None;
        p.stage = PassStage::Elect { at: 0, election: Election::default() };
        true
    }

    /// Excludes a CPU from the rest of the pass.
    fn leave_out(&mut self, by: CpuId, p: &mut Pass, cpu: CpuId) {
        let left_out = &mut self.balance.left_out[by];
        if !std::mem::replace(&mut p.again, true) {
            left_out.clear();
        }
        left_out.insert(cpu);
    }

    /// Walks the source's tasks, and again for each other CPU of the destination's group to which affinity may let them
    /// go (`LBF_DST_PINNED`). `in_vain` gets the refusal closest to a move, and the reason why the walk ended.
    fn walk_source(
        &mut self,
        by: CpuId,
        p: &mut Pass,
        src: CpuId,
        amount: Amount,
        in_vain: &mut (Option<Refusal>, Option<Stop>),
    ) -> Detach {
        let nr = self.rqs.nr_running(src);
        let mut walk = Detach::new(amount, self.fixed.kernel.tunables.nr_migrate, nr);
        self.walk_for(by, p, src, amount, &mut walk, in_vain);
        while let Some(nearby) = walk.walk.nearby() {
            self.leave_out(by, p, p.gainer);
            p.gainer = nearby;
            walk.redirect();
            self.walk_for(by, p, src, amount, &mut walk, in_vain);
        }
        p.some_pinned |= walk.walk.some_pinned;
        walk
    }

    /// Walks the source's tasks for one destination.
    pub(super) fn walk_for(
        &mut self,
        by: CpuId,
        p: &mut Pass,
        src: CpuId,
        amount: Amount,
        walk: &mut Detach,
        in_vain: &mut (Option<Refusal>, Option<Stop>),
    ) {
        let rules = &self.spare_rules(p, amount.migration);
        loop {
            let oldest = self.cpus[src].list.first().copied();
            match walk.step(rules, self.rqs.nr_running(src), oldest.is_none()) {
                WalkStep::Stop(why) => {
                    in_vain.1 = Some(why);
                    break;
                }
                WalkStep::Pause => continue,
                WalkStep::Offer => {}
            }
            let Some(task) = oldest else { break };
            match walk.offer(rules, &self.spare_task(by, task, p, amount.migration)) {
                Offer::Take { hot, then } => {
                    self.detach_gained(p, task, hot);
                    if then.is_some() {
                        break;
                    }
                }
                Offer::Refuse(why) => {
                    if let Refusal::TooHeavy { hot: true } = why {
                        self.lb(p).lb_hot_gained += 1;
                    }
                    in_vain.0 = in_vain.0.max(Some(why));
                    // A refused task becomes the last one.
                    self.cpus[src].list.rotate_left(1);
                }
            }
        }
        self.attach_gained(by);
    }

    /// No task could be moved: pushes the source's running task if the rules say so.
    fn push_running(&mut self, by: CpuId, p: &Pass, src: CpuId, migration: MigrationType) -> Active {
        let facts = self.count_failure(p, src, self.h_nr_balanced(src));
        let Some(why) = needs_active(&facts, migration) else { return Active::NotDue };
        self.count_push(why);
        // The source has become idle: the idle task may run nowhere else.
        self.start_push(by, src, p.dst, Active::Pinned)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::spare::imbalance::AmountRule;
    use crate::run::{NewTask, add};
    use crate::upkeep_tests::new_hog;
    use schedlab_kernel::Kernel;
    use schedlab_machine::Machine;
    use schedlab_trace::{BalanceTrigger, Discard};

    /// Calls a test with a system of two nodes without tasks, the level at which they are groups, a CPU of one node and
    /// two of the other.
    fn with_nodes(test: impl FnOnce(&mut System<'_>, usize, [CpuId; 3])) {
        let machine = Machine::load("spr-2x4").expect("a machine");
        let mut sink = Discard;
        let kernel = Kernel::profile("v6.12").expect("a profile");
        let mut sys = System::new(&machine, kernel, 1, &mut sink);
        sys.now = 1_000_000_000;
        let level = sys.fixed.domains.of_cpu[CpuId(0)].len() - 1;
        let groups = &sys.fixed.domains.of_cpu[CpuId(0)][level].groups;
        let of = |at: usize, n: usize| sys.fixed.domains.groups[groups[at] as usize].cpus[n];
        let cpus = [of(1, 0), of(0, 0), of(0, 1)];
        test(&mut sys, level, cpus);
    }

    /// A task on a CPU with an affinity mask.
    fn on(sys: &mut System<'_>, cpu: CpuId, allowed: &[CpuId]) -> TaskId {
        let task = add(sys, NewTask { allowed: Some(allowed.iter().copied().collect()), ..new_hog() });
        sys.new_task(cpu, task, cpu);
        task
    }

    /// A pass of `dst` that wants a task of `src`.
    fn take(sys: &mut System<'_>, level: usize, trigger: BalanceTrigger, src: CpuId, dst: CpuId) -> Pass {
        let wanted = Amount { migration: MigrationType::Task, amount: 1, how: AmountRule::EvenTasks };
        let mut pass = Pass::begin(dst, level, trigger, sys.now);
        let mut at = sys.now;
        sys.take_tasks(dst, &mut pass, src, wanted, &mut at);
        pass
    }

    #[test]
    fn a_pass_searches_again_without_the_cpu_whose_tasks_are_pinned() {
        with_nodes(|sys, level, [src, dst, _]| {
            for _ in 0..2 {
                on(sys, src, &[src]);
            }
            let mut pass = take(sys, level, BalanceTrigger::Newidle, src, dst);
            assert!(pass.running() && pass.again, "{pass:?}");
            let mut at = sys.now;
            sys.pass_step(dst, &mut pass, at);
            while pass.running() {
                at = at.max(sys.stepping.horizon) + 1;
                sys.pass_step(dst, &mut pass, at);
            }
            let seen = &sys.accounts.schedstat.cpus[dst.index()].domains[level].lb[2];
            assert_eq!((seen.lb_nobusyg, seen.lb_balanced), (1, 1), "no other queue has tasks to give");
        });
    }

    #[test]
    fn the_task_that_left_last_is_attached_first() {
        with_nodes(|sys, level, [src, dst, _]| {
            for _ in 0..6 {
                on(sys, src, &[src, dst]);
            }
            let wanted = Amount { migration: MigrationType::Task, amount: 3, how: AmountRule::EvenTasks };
            let mut pass = Pass::begin(dst, level, BalanceTrigger::Idle, sys.now);
            let oldest: Vec<TaskId> = sys.cpus[src].list[..3].to_vec();
            let mut at = sys.now;
            sys.take_tasks(dst, &mut pass, src, wanted, &mut at);
            assert_eq!(pass.moved, 3);
            let arrived: Vec<TaskId> = oldest.into_iter().rev().collect();
            assert_eq!(sys.cpus[dst].list[..], arrived, "the longest waiting first");
        });
    }

    #[test]
    fn a_task_that_may_not_run_here_goes_to_another_cpu_of_the_group() {
        with_nodes(|sys, level, [src, dst, nearby]| {
            let tasks = [(); 3].map(|()| on(sys, src, &[src, nearby]));
            let pass = take(sys, level, BalanceTrigger::Newidle, src, dst);
            assert_eq!((pass.moved, pass.again), (0, true), "newidle balance serves its own CPU");
            let pass = take(sys, level, BalanceTrigger::Idle, src, dst);
            assert_eq!((pass.moved, pass.gainer), (1, nearby));
            let moved = tasks.iter().filter(|t| sys.tasks[**t].cpu == nearby).count();
            assert_eq!(moved, 1);
        });
    }
}
