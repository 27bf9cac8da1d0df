//! Chooses the tasks of the chosen queue that move, and the end of the walk.
//!
//! Mirrors `can_migrate_task`, `task_hot` and `detach_tasks` of 6.5. The caller walks the source queue's list of tasks
//! from its *end*: the task that has waited longest since it was enqueued or last picked (a pick brings a task to the
//! front). A refused task goes to the front. [`can_migrate`](crate::balance::can_migrate) holds the rules common to all
//! kernels.

use super::imbalance::{Amount, MigrationType};
use crate::balance::can_migrate::{
    self as common, BREAK, Movable, Offer, Refusal, Stop, TaskFacts, WalkStep,
};
use crate::balance::era::PassKind;
use crate::balance::walk::WalkProgress;

/// Facts about a pass that apply to every task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DetachRules {
    /// The rules common with earlier kernels.
    pub common: common::MigrateRules,
    /// SD_SHARE_CPUCAPACITY of the domain: source and destination are threads of one core and share its caches.
    pub share_capacity: bool,
    /// Whether the stopper makes an active balance: then no task is hot.
    pub active: bool,
    /// Whether failed passes make the utilisation of a task count less (6.8; 6.1.192).
    pub util_shrinks: bool,
    /// Whether a walk over only pinned tasks continues past `nr_migrate` (6.1 to 6.9 as released).
    pub walks_past_pinned: bool,
    /// Whether a queue that others have emptied before it is locked is not walked (5.12).
    pub emptied_unwalked: bool,
}

/// One task of the source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct SizedTask {
    /// The facts common with earlier kernels; `load` is the task's share of the queue's load (`task_h_load`).
    pub facts: TaskFacts,
    /// Its utilisation or the estimate of it, whichever is larger (`task_util_est`).
    pub util: u64,
    /// Whether it fits the source; computed only if a misfit is to move.
    pub fits_source: bool,
}

/// Whether a task may move, regardless of its size. Active balance uses this rule alone.
///
/// # Errors
/// With the reason why the task may not move.
pub fn can_migrate(rules: &DetachRules, task: &TaskFacts) -> std::result::Result<Movable, Refusal> {
    if rules.active || rules.share_capacity {
        // No task is hot: of the common rules only affinity and running remain.
        let cold = TaskFacts { buddy: false, ran_ago_ns: u64::MAX, ..*task };
        return common::can_migrate(&rules.common, &cold);
    }
    common::can_migrate(&rules.common, task)
}

/// The walk over one source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detach {
    pub walk: WalkProgress,
    migration: MigrationType,
    /// The lock was just taken, so the source may have changed.
    entering: bool,
}

impl Detach {
    /// A walk for `wanted` over a queue of `src_nr_running` (at least 2: shorter ones are not walked).
    pub fn new(wanted: Amount, nr_migrate: u64, src_nr_running: u32) -> Detach {
        let walk = WalkProgress::new(wanted.amount, nr_migrate, src_nr_running);
        Detach { walk, migration: wanted.migration, entering: true }
    }

    /// The next action; `src_nr_running` is the current length of the source.
    pub fn step(&mut self, rules: &DetachRules, src_nr_running: u32, list_empty: bool) -> WalkStep {
        if std::mem::take(&mut self.entering) && rules.emptied_unwalked && src_nr_running <= 1 {
            // Other CPUs have emptied the queue. No task was tested, so none counts as pinned.
            self.walk.all_pinned = false;
            return WalkStep::Stop(Stop::Emptied);
        }
        let walk = &mut self.walk;
        if let Some(why) = walk.stop_when_satisfied() {
            return WalkStep::Stop(why);
        }
        if list_empty {
            return WalkStep::Stop(Stop::NoTasks);
        }
        if rules.common.pass != PassKind::Busy && src_nr_running <= 1 {
            return WalkStep::Stop(Stop::LastTask);
        }
        walk.looked_at += 1;
        // A walk past pinned tasks ends at the queue's length and a break.
        let past_pinned = rules.walks_past_pinned && walk.all_pinned;
        if walk.looked_at > walk.max && !past_pinned {
            return WalkStep::Stop(Stop::LoopMax);
        }
        if walk.looked_at > walk.next_break {
            walk.next_break += BREAK;
            if rules.walks_past_pinned && walk.looked_at >= src_nr_running {
                return WalkStep::Stop(Stop::LoopMax);
            }
            self.entering = true;
            return WalkStep::Pause;
        }
        WalkStep::Offer
    }

    /// Judges the task at the end of the list.
    pub fn offer(&mut self, rules: &DetachRules, task: &SizedTask) -> Offer {
        let judged = can_migrate(rules, &task.facts);
        let nearby = task.facts.allowed_nearby.filter(|_| rules.common.pass != PassKind::Newidle);
        self.walk.note_affinity(judged, nearby);
        let hot = match judged {
            Err(why) => return Offer::Refuse(why),
            Ok(Movable { hot }) => hot,
        };
        if self.migration == MigrationType::Misfit && task.fits_source {
            return Offer::Refuse(Refusal::TooHeavy { hot });
        }
        let (size, compared) = self.size(rules, task);
        if i64::try_from(compared).is_ok_and(|size| size > self.walk.left) {
            return Offer::Refuse(Refusal::TooHeavy { hot });
        }
        self.walk.take(&rules.common, size, hot)
    }

    /// The task's size, and the part of it that must not exceed the remaining amount. The limit for load, and in later
    /// kernels utilisation, becomes milder with each failed pass.
    fn size(&self, rules: &DetachRules, task: &SizedTask) -> (u64, u64) {
        match self.migration {
            MigrationType::Load => {
                let load = task.facts.load.max(1);
                (load, load >> rules.common.nr_balance_failed.min(63))
            }
            MigrationType::Util if rules.util_shrinks => {
                (task.util, task.util >> rules.common.nr_balance_failed.min(63))
            }
            MigrationType::Util => (task.util, task.util),
            MigrationType::Task => (1, 0),
            // One task is enough.
            MigrationType::Misfit => (self.walk.left.max(1) as u64, 0),
        }
    }

    /// Starts over for another destination of the same group, which [`WalkProgress::nearby`] has named.
    pub fn redirect(&mut self) {
        self.walk.redirect();
        self.entering = true;
    }
}

#[cfg(test)]
#[path = "detach_tests.rs"]
mod tests;
