//! Chooses the tasks of the chosen queue that move, and the end of the walk.
//!
//! Mirrors `move_tasks` (3.4) and `detach_tasks` (4.5). The caller walks the source queue's list of tasks from its
//! front (the task enqueued last), since 4.15 from its back (the task that has waited longest). It calls
//! [`Detach::step`] before each task and [`Detach::offer`] with each; a refused task goes to the other end of that
//! list. The remaining amount is in weight. Not modelled: LB_MIN (off by default).

use crate::balance::can_migrate::{
    BREAK, MigrateRules, Movable, Offer, Refusal, Stop, TaskFacts, WalkStep, can_migrate,
};
use crate::balance::era::{Balancer, PassKind};
use crate::balance::walk::WalkProgress;

/// The walk over one source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detach {
    pub walk: WalkProgress,
}

impl Detach {
    /// A walk for `imbalance` over a queue of `src_nr_running` (at least 2: shorter ones are not walked).
    pub fn new(imbalance: u64, nr_migrate: u64, src_nr_running: u32) -> Detach {
        Detach { walk: WalkProgress::new(imbalance, nr_migrate, src_nr_running) }
    }

    /// The next action; `src_nr_running` is the current length of the source.
    pub fn step(&mut self, rules: &MigrateRules, src_nr_running: u32, list_empty: bool) -> WalkStep {
        let walk = &mut self.walk;
        if let Some(why) = walk.stop_when_satisfied() {
            return WalkStep::Stop(why);
        }
        if list_empty {
            return WalkStep::Stop(Stop::NoTasks);
        }
        if rules.balancer >= Balancer::V4_5 && rules.pass != PassKind::Busy && src_nr_running <= 1 {
            return WalkStep::Stop(Stop::LastTask);
        }
        walk.looked_at += 1;
        if walk.looked_at > walk.max {
            return WalkStep::Stop(Stop::LoopMax);
        }
        if walk.looked_at > walk.next_break {
            walk.next_break += BREAK;
            return WalkStep::Pause;
        }
        WalkStep::Offer
    }

    /// Judges the task at the front of the list.
    pub fn offer(&mut self, rules: &MigrateRules, task: &TaskFacts) -> Offer {
        let too_heavy = i64::try_from(task.load / 2).is_ok_and(|half| half > self.walk.left);
        // 3.4 compares the load first, so a queue with only heavy tasks counts as pinned.
        if rules.balancer <= Balancer::V3_4 && too_heavy {
            return Offer::Refuse(Refusal::TooHeavy { hot: false });
        }
        let judged = can_migrate(rules, task);
        let retries = rules.balancer >= Balancer::V4_5 && rules.pass != PassKind::Newidle;
        let nearby = task.allowed_nearby.filter(|_| retries);
        self.walk.note_affinity(judged, nearby);
        match judged {
            Err(why) => Offer::Refuse(why),
            Ok(Movable { hot }) if too_heavy => Offer::Refuse(Refusal::TooHeavy { hot }),
            Ok(Movable { hot }) => self.walk.take(rules, task.load, hot),
        }
    }
}

#[cfg(test)]
#[path = "detach_tests.rs"]
mod tests;
