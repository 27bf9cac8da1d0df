//! The tasks of the chosen queue that move, and the end of the walk.
//!
//! Mirrors `move_tasks` (3.4) and `detach_tasks` (4.5). The caller walks the source queue's list of tasks from its
//! front (the task enqueued last), since 4.15 from its back (the task that has waited longest). It calls
//! [`Detach::step`] before each task and [`Detach::offer`] with each; a refused task goes to the other end of that
//! list. The amount left is in weight. Not modelled: LB_MIN (off by default).

use crate::balance::can_migrate::{
    BREAK, Movable, Offer, Refusal, Rules, Step, Stop, TaskFacts, can_migrate,
};
use crate::balance::era::{Balancer, Pass};
use crate::balance::walk::Progress;

/// The walk over one source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detach {
    pub walk: Progress,
}

impl Detach {
    /// A walk for `imbalance` over a queue of `src_nr_running` (at least 2: shorter ones are not walked).
    pub fn new(imbalance: u64, nr_migrate: u64, src_nr_running: u32) -> Detach {
        Detach { walk: Progress::new(imbalance, nr_migrate, src_nr_running) }
    }

    /// The next action; `src_nr_running` is the source's length now.
    pub fn step(&mut self, rules: &Rules, src_nr_running: u32, list_empty: bool) -> Step {
        let walk = &mut self.walk;
        if let Some(why) = walk.stop_when_satisfied() {
            return Step::Stop(why);
        }
        if list_empty {
            return Step::Stop(Stop::NoTasks);
        }
        if rules.balancer >= Balancer::V4_5 && rules.pass != Pass::Busy && src_nr_running <= 1 {
            return Step::Stop(Stop::LastTask);
        }
        walk.looked_at += 1;
        if walk.looked_at > walk.max {
            return Step::Stop(Stop::LoopMax);
        }
        if walk.looked_at > walk.next_break {
            walk.next_break += BREAK;
            return Step::Pause;
        }
        Step::Offer
    }

    /// Judges the task at the front of the list.
    pub fn offer(&mut self, rules: &Rules, task: &TaskFacts) -> Offer {
        let too_heavy = i64::try_from(task.load / 2).is_ok_and(|half| half > self.walk.left);
        // 3.4 compares the load first, so a queue of only heavy tasks counts as pinned.
        if rules.balancer <= Balancer::V3_4 && too_heavy {
            return Offer::Refuse(Refusal::TooHeavy { hot: false });
        }
        let judged = can_migrate(rules, task);
        let nearby = rules.balancer >= Balancer::V4_5 && rules.pass != Pass::Newidle && task.allowed_nearby;
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
