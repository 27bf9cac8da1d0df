//! Chooses the tasks that a pass takes from a queue, and their order (`move_tasks`, `can_migrate_task`).
//!
//! Expired tasks come before active ones, since their caches are probably cold; the best priority comes first, and each
//! list is read from its end. The running task stays. Tasks move until the wanted number, or since 2.6.18 the load, is
//! reached.

use super::state::O1Rq;
use schedlab_base::TaskId;

/// Facts about a walk that apply to every task.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct O1DetachRules {
    /// Whether hot tasks move because the destination and all threads of its core are idle (before 2.6.13).
    pub takes_hot: bool,
    /// Failed passes over the domain in a row.
    pub nr_balance_failed: u32,
    /// Number of failures after which hot tasks move.
    pub cache_nice_tries: u32,
}

/// One task of the source.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct O1TaskFacts {
    pub running: bool,
    /// Whether it may run on the destination.
    pub allowed: bool,
    /// Whether it was switched out less than the domain's `cache_hot_time` before the source's last tick.
    pub hot: bool,
}

/// Why a task stays. Later reasons are closer to a move.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum O1Refusal {
    Running,
    /// Its affinity excludes the destination.
    NotAllowed,
    /// It ran too recently.
    Hot,
    /// It is heavier than the rest of the amount.
    TooHeavy,
}

/// Whether a task may move; `Ok(true)` for one that is hot.
///
/// # Errors
/// Why it may not.
pub fn can_migrate(rules: &O1DetachRules, task: &O1TaskFacts) -> Result<bool, O1Refusal> {
    if !task.allowed {
        return Err(O1Refusal::NotAllowed);
    }
    if task.running {
        return Err(O1Refusal::Running);
    }
    let moves = rules.takes_hot || rules.nr_balance_failed > rules.cache_nice_tries || !task.hot;
    if moves { Ok(task.hot) } else { Err(O1Refusal::Hot) }
}

/// Whether a task is cache hot (`task_hot`): switched out less than `hot_ns` before the last tick of its CPU, or after
/// it.
pub fn is_hot(last_tick_ns: u64, last_ran_ns: u64, hot_ns: u64) -> bool {
    last_tick_ns < last_ran_ns.saturating_add(hot_ns)
}

/// Lets the best task of a queue move to a destination with none as good, even if it is too heavy (2.6.18): so
/// good tasks spread over CPUs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Best {
    /// The best priority of the destination.
    pub this: u8,
    /// The best priority of the source.
    pub busiest: u8,
    /// Whether a task of that priority was seen, including the running one.
    pub seen: bool,
}

impl Best {
    /// Whether a task of this priority that is too heavy is skipped.
    pub fn skips(&self, prio: u8) -> bool {
        prio >= self.this || (!self.seen && prio == self.busiest)
    }
    pub fn stays(&mut self, prio: u8) {
        self.seen |= prio == self.busiest;
    }
    pub fn moves(&mut self, prio: u8) {
        self.this = self.this.min(prio);
    }
}

/// A walk over the tasks of a queue. Tasks that it has passed may leave meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct O1Walk {
    expired: bool,
    prio: u8,
    /// Tasks of the list not yet passed; `None` before the list is begun.
    left: Option<usize>,
}

impl Default for O1Walk {
    fn default() -> O1Walk {
        O1Walk { expired: true, prio: 0, left: None }
    }
}

impl O1Walk {
    /// The next task, with its priority.
    pub fn next(&mut self, rq: &O1Rq) -> Option<(u8, TaskId)> {
        loop {
            let array = rq.array(self.expired);
            let Some(prio) = array.first_from(self.prio) else {
                if !self.expired {
                    return None;
                }
                *self = O1Walk { expired: false, ..O1Walk::default() };
                continue;
            };
            if prio != self.prio {
                (self.prio, self.left) = (prio, None);
            }
            let list = array.list(prio);
            match self.left.unwrap_or(list.len()).min(list.len()).checked_sub(1) {
                Some(at) => {
                    self.left = Some(at);
                    return list.get(at).map(|task| (prio, *task));
                }
                None => (self.prio, self.left) = (prio + 1, None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: O1DetachRules =
        O1DetachRules { takes_hot: false, nr_balance_failed: 0, cache_nice_tries: 1 };
    const COLD: O1TaskFacts = O1TaskFacts { running: false, allowed: true, hot: false };

    #[test]
    fn hot_tasks_move_after_failures_or_to_an_idle_core() {
        let hot = O1TaskFacts { hot: true, ..COLD };
        assert_eq!(can_migrate(&RULES, &COLD), Ok(false));
        assert_eq!(can_migrate(&RULES, &hot), Err(O1Refusal::Hot));
        assert_eq!(can_migrate(&O1DetachRules { nr_balance_failed: 2, ..RULES }, &hot), Ok(true));
        assert_eq!(can_migrate(&O1DetachRules { takes_hot: true, ..RULES }, &hot), Ok(true));
        assert_eq!(can_migrate(&RULES, &O1TaskFacts { running: true, ..COLD }), Err(O1Refusal::Running));
        assert_eq!(can_migrate(&RULES, &O1TaskFacts { allowed: false, ..COLD }), Err(O1Refusal::NotAllowed));
    }

    #[test]
    fn heat_is_measured_at_the_last_tick() {
        assert!(is_hot(1_000, 400, 601) && !is_hot(1_000, 400, 600));
        assert!(is_hot(1_000, 1_500, 0), "it ran since that tick");
        assert!(!is_hot(1_000, 1_000, 0));
    }

    #[test]
    fn expired_tasks_come_first_and_lists_are_read_from_their_ends() {
        let mut rq = O1Rq::default();
        for (expired, prio, task) in [
            (false, 115, 1),
            (false, 120, 2),
            (true, 125, 3),
            (true, 125, 4),
            (true, 121, 5),
            (false, 120, 6),
        ] {
            rq.array_mut(expired).push(prio, TaskId(task));
        }
        let mut walk = O1Walk::default();
        let mut order = Vec::new();
        while let Some((prio, task)) = walk.next(&rq) {
            order.push(task.0);
            if task.0 == 4 || task.0 == 5 {
                rq.array_mut(true).remove(prio, task);
            }
        }
        assert_eq!(order, [5, 4, 3, 1, 6, 2], "a task that leaves hides no other");
    }

    #[test]
    fn the_best_task_goes_where_none_is_as_good() {
        let best = Best { this: 120, busiest: 116, seen: false };
        assert!(best.skips(120) && best.skips(125), "the destination has as good ones");
        assert!(best.skips(116), "the source keeps its best one");
        assert!(!best.skips(118));
        let mut seen = best;
        seen.stays(116);
        assert!(!seen.skips(116), "it keeps the first of two");
        seen.moves(116);
        assert!(seen.skips(118));
    }
}
