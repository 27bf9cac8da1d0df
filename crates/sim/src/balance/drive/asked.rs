//! Single questions to the balancer that looks at spare capacity (5.5 and later), about the state at one instant.

use crate::balance::spare::detach::Detach;
use crate::balance::spare::imbalance::Amount;
use crate::balance::state::{Descent, Groups, Pass, PassStage, Why};
use crate::frame::Step;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_trace::BalanceTrigger;

impl System<'_> {
    /// The group from which a pass would pull, by its first CPU, with the amount.
    pub(crate) fn ask_busiest(
        &mut self,
        dst: CpuId,
        level: usize,
        trigger: BalanceTrigger,
    ) -> Option<(CpuId, Amount)> {
        let mut pass = Pass::begin(dst, level, trigger, self.now);
        pass.stage = PassStage::Groups(Groups::new());
        let mut at = self.now;
        self.read_spare_groups(dst, &mut pass, &mut at);
        let PassStage::Queues(found) = pass.stage else { return None };
        let first = self.fixed.domains.groups[found.group as usize].cpus.iter().min().copied();
        first.map(|cpu| (cpu, found.amount))
    }

    /// Where the slow path takes a task of `by`, whether it may run there or not; and the choices on its way.
    pub(crate) fn ask_idlest(&mut self, by: CpuId, task: TaskId, why: Why) -> (CpuId, Vec<String>) {
        let to_gap = self.fixed.history.fork_stops_at_gap;
        let mut walk = Descent::begin(&self.fixed.domains, by, why, to_gap);
        let mut steps = Vec::new();
        while let Some(level) = walk.level {
            let before = walk.at;
            // The walk ends only when no level is left.
            let _ = self.walk_on(by, task, &mut walk);
            steps.push(format!("level {level} of {before}: {}", walk.at));
        }
        (walk.at, steps)
    }

    /// Marks a group as one in which affinity hinders balance, or removes the mark.
    pub(crate) fn mark_imbalanced(&mut self, group: u32, is: bool) {
        self.balance.imbalanced[group as usize] = is;
    }

    /// Moves the tasks that a pass would take from a queue for this CPU (`detach_tasks`).
    pub(crate) fn ask_detach(
        &mut self,
        dst: CpuId,
        level: usize,
        trigger: BalanceTrigger,
        src: CpuId,
        amount: Amount,
    ) {
        let mut pass = Pass::begin(dst, level, trigger, self.now);
        pass.src = Some(src);
        let nr = self.rqs.nr_running(src);
        if nr > 1 {
            let mut walk = Detach::new(amount, self.fixed.kernel.tunables.nr_migrate, nr);
            self.walk_for(dst, &mut pass, src, amount, &mut walk, &mut (None, None));
        }
    }

    /// Makes the newidle passes of a CPU whose current task has left. Returns the levels that were searched.
    pub(crate) fn ask_newidle(&mut self, cpu: CpuId) -> Vec<usize> {
        let all = 0..self.cpus[cpu].levels.len();
        let passes = |sys: &mut System<'_>, level: usize| {
            let pass = Pass::begin(cpu, level, BalanceTrigger::Newidle, sys.now);
            sys.lb(&pass).lb_count
        };
        let before: Vec<_> = all.clone().map(|level| passes(self, level)).collect();
        self.begin_newidle(cpu);
        while self.cpus[cpu].task.step == Step::Newidle {
            self.newidle_step(cpu);
        }
        all.filter(|level| passes(self, *level) > before[*level]).collect()
    }
}
