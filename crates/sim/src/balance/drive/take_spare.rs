//! Taking tasks in 5.5 and later: the end of a pass that found a busiest queue (`detach_tasks`, active balance).

use crate::balance::can_migrate::{Offer, Refusal, Stop, WalkStep};
use crate::balance::era::Balancer;
use crate::balance::reasons::walked_in_vain;
use crate::balance::settle::{Active, PassOutcome};
use crate::balance::spare::active::needs_active;
use crate::balance::spare::detach::{Detach, DetachRules, SizedTask};
use crate::balance::spare::imbalance::{Amount, MigrationType};
use crate::balance::state::Pass;
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
            && self.fair.queues[self.root(p.dst)].h_nr_queued > 0;
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
    fn spare_task(&mut self, task: TaskId, p: &Pass, wanted: MigrationType) -> SizedTask {
        let facts = self.task_facts(task, p.dst, p.level);
        let fits_source = wanted == MigrationType::Misfit && self.task_fits(task, self.tasks[task].cpu);
        let entity = self.entity(task);
        SizedTask { facts, util: entity.est.task_util(entity.avg.util_avg), fits_source }
    }

    /// The queue is locked and the step's time is over: tasks that may move do so, the longest waiting first.
    pub(super) fn take_tasks(&mut self, by: CpuId, p: &mut Pass, src: CpuId, amount: Amount, at: &mut u64) {
        let rules = self.spare_rules(p, amount.migration);
        let nr = self.rqs.nr_running(src);
        let lb = self.lb(p);
        *match amount.migration {
            MigrationType::Load => &mut lb.lb_imbalance_load,
            MigrationType::Util => &mut lb.lb_imbalance_util,
            MigrationType::Task => &mut lb.lb_imbalance_task,
            MigrationType::Misfit => &mut lb.lb_imbalance_misfit,
        } += amount.amount;
        let mut in_vain = (None, None);
        let walked = (nr > 1).then(|| self.walk_source(by, p, src, amount, &rules, &mut in_vain));
        let pinned = walked.map(|w| w.walk.pinned());
        if self.walk_over(p, pinned, Balancer::V4_5, at) {
            return;
        }
        self.lb(p).lb_failed += 1;
        p.walked = walked.is_some();
        let active = self.push_running(by, p, src, amount.migration);
        let (refused, ended) = in_vain;
        self.end_pass(p, *at, PassOutcome::Failed(active), walked_in_vain(refused, ended));
    }

    /// Walks the source's tasks. `in_vain` gets the refusal nearest to a move, and the reason why the walk ended.
    fn walk_source(
        &mut self,
        by: CpuId,
        p: &mut Pass,
        src: CpuId,
        amount: Amount,
        rules: &DetachRules,
        in_vain: &mut (Option<Refusal>, Option<Stop>),
    ) -> Detach {
        let nr = self.rqs.nr_running(src);
        let mut walk = Detach::new(amount, self.fixed.kernel.tunables.nr_migrate, nr);
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
            match walk.offer(rules, &self.spare_task(task, p, amount.migration)) {
                Offer::Take { hot, then } => {
                    self.gain(by, p, task, hot);
                    if then.is_some() {
                        break;
                    }
                }
                Offer::Refuse(why) => {
                    if let Refusal::TooHeavy { hot: true } = why {
                        self.lb(p).lb_hot_gained += 1;
                    }
                    in_vain.0 = in_vain.0.max(Some(why));
                    // A refused task comes last from now on.
                    self.cpus[src].list.rotate_left(1);
                }
            }
        }
        walk
    }

    /// No task could be moved: pushes the source's running task if that is due.
    fn push_running(&mut self, by: CpuId, p: &Pass, src: CpuId, migration: MigrationType) -> Active {
        let facts = self.count_failure(p, src, self.h_nr_balanced(src));
        let Some(why) = needs_active(&facts, migration) else { return Active::NotDue };
        self.count_push(why);
        // If the source is idle by now: the idle task may run nowhere else.
        self.start_push(by, src, p.dst, Active::Pinned)
    }
}
