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

/// The walk over one source queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Detach {
    left: i64,
    looked_at: u32,
    next_break: u32,
    max: u32,
    moved: u32,
    all_pinned: bool,
    some_pinned: bool,
    nearby: bool,
}

impl Detach {
    /// A walk for `imbalance` over a queue of `src_nr_running` (at least 2: shorter ones are not walked).
    pub fn new(imbalance: u64, nr_migrate: u64, src_nr_running: u32) -> Detach {
        Detach {
            left: i64::try_from(imbalance).unwrap_or(i64::MAX),
            looked_at: 0,
            next_break: BREAK,
            max: u32::try_from(nr_migrate).map_or(src_nr_running, |n| n.min(src_nr_running)),
            moved: 0,
            all_pinned: true,
            some_pinned: false,
            nearby: false,
        }
    }

    /// The next action; `src_nr_running` is the source's length now.
    pub fn step(&mut self, rules: &Rules, src_nr_running: u32, list_empty: bool) -> Step {
        if self.left <= 0 {
            return Step::Stop(if self.moved == 0 { Stop::NothingWanted } else { Stop::Enough });
        }
        if list_empty {
            return Step::Stop(Stop::NoTasks);
        }
        if rules.balancer >= Balancer::V4_5 && rules.pass != Pass::Busy && src_nr_running <= 1 {
            return Step::Stop(Stop::LastTask);
        }
        self.looked_at += 1;
        if self.looked_at > self.max {
            return Step::Stop(Stop::LoopMax);
        }
        if self.looked_at > self.next_break {
            self.next_break += BREAK;
            return Step::Pause;
        }
        Step::Offer
    }

    /// Judges the task at the front of the list.
    pub fn offer(&mut self, rules: &Rules, task: &TaskFacts) -> Offer {
        let too_heavy = i64::try_from(task.load / 2).is_ok_and(|half| half > self.left);
        // 3.4 compares the load first, so a queue of only heavy tasks counts as pinned.
        if rules.balancer <= Balancer::V3_4 && too_heavy {
            return Offer::Refuse(Refusal::TooHeavy { hot: false });
        }
        let verdict = can_migrate(rules, task);
        if verdict == Err(Refusal::NotAllowed) {
            self.some_pinned = true;
            self.nearby |=
                rules.balancer >= Balancer::V4_5 && rules.pass != Pass::Newidle && task.allowed_nearby;
        } else if !verdict.is_err_and(Refusal::comes_before_affinity) {
            self.all_pinned = false;
        }
        match verdict {
            Err(why) => Offer::Refuse(why),
            Ok(Movable { hot }) if too_heavy => Offer::Refuse(Refusal::TooHeavy { hot }),
            Ok(Movable { hot }) => {
                self.moved += 1;
                self.left = self.left.saturating_sub(i64::try_from(task.load).unwrap_or(i64::MAX));
                let then = match () {
                    () if rules.preemptible && rules.pass == Pass::Newidle => Some(Stop::OneForNewidle),
                    () if self.left <= 0 => Some(Stop::Enough),
                    () => None,
                };
                Offer::Take { hot, then }
            }
        }
    }

    /// Starts over for another destination of the same group, as 4.5 does when [`Detach::nearby`] holds.
    pub fn redirect(&mut self) {
        (self.looked_at, self.next_break, self.nearby) = (0, BREAK, false);
    }

    /// Load still wanted; 0 or less when enough moved.
    pub fn left(&self) -> i64 {
        self.left
    }
    /// Tasks moved so far.
    pub fn moved(&self) -> u32 {
        self.moved
    }
    /// No task seen could run on the destination. Also true when none was looked at, as when nothing was wanted: the
    /// kernel then excludes the source and looks for another group and queue.
    pub fn all_pinned(&self) -> bool {
        self.all_pinned
    }
    /// Some task could not run on the destination.
    pub fn some_pinned(&self) -> bool {
        self.some_pinned
    }
    /// Some task could run on another CPU of the destination's group, and load is still wanted (4.5, not newidle).
    pub fn nearby(&self) -> bool {
        self.nearby && self.left > 0
    }
}

#[cfg(test)]
#[path = "detach_tests.rs"]
mod tests;
