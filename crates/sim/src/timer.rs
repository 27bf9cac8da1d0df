//! hrtimers of one CPU: a sleep belongs to the CPU it was started on, as in the kernel.
//!
//! Ordered by hard expiry (soft expiry plus slack). An interrupt is programmed for the earliest hard expiry; when it
//! comes, timers are run from the front until one's soft expiry is still ahead. Times are ns.

use crate::engine::NEVER;
use schedlab_base::{GroupId, TaskId};

/// The purpose of a timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fires {
    /// A task sleeps on it.
    Wakes(TaskId),
    /// A period of real-time throttling ends (`rt_period_timer`).
    RtPeriod,
    /// A period of a group's quota ends (`period_timer`).
    Quota(GroupId),
    /// Quota that was given back is handed out (`slack_timer`).
    Slack(GroupId),
    /// The CPU's fair server is to step in, or has a runtime again (`dl_timer`).
    FairServer,
}

/// A pending timer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    hard: u64,
    number: u64,
    soft: u64,
    /// Its effect when it fires.
    pub fires: Fires,
}

/// The pending timers of a CPU, latest first.
#[derive(Clone, Debug)]
pub struct TimerQueue {
    /// The time of the interrupt: kept beside the queue, for every step reads it.
    due: u64,
    pending: Vec<Timer>,
    started: u64,
}

impl Default for TimerQueue {
    fn default() -> TimerQueue {
        TimerQueue { due: NEVER, pending: Vec::new(), started: 0 }
    }
}

impl TimerQueue {
    /// Starts a timer that may fire from `soft` on and must by `soft + slack_ns`; returns its number.
    pub fn start(&mut self, fires: Fires, soft: u64, slack_ns: u64) -> u64 {
        self.started += 1;
        let timer = Timer { hard: soft.saturating_add(slack_ns), number: self.started, soft, fires };
        let at = self.pending.partition_point(|t| (t.hard, t.number) > (timer.hard, timer.number));
        self.pending.insert(at, timer);
        self.look();
        timer.number
    }
    /// Cancels a timer that has not fired.
    pub fn cancel(&mut self, number: u64) {
        self.pending.retain(|t| t.number != number);
        self.look();
    }
    /// The time of the interrupt.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }
    fn look(&mut self) {
        self.due = self.pending.last().map_or(NEVER, |t| t.hard);
    }
    /// Takes the next timer that may fire at `now`.
    pub fn expire(&mut self, now: u64) -> Option<Timer> {
        let timer = self.pending.pop_if(|t| t.soft <= now);
        self.look();
        timer
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wakes(task: u32) -> Fires {
        Fires::Wakes(TaskId(task))
    }

    #[test]
    fn slack_lets_neighbours_fire_together() {
        let mut q = TimerQueue::default();
        q.start(wakes(1), 100, 50);
        q.start(wakes(2), 140, 50);
        q.start(wakes(3), 151, 50);
        assert_eq!(q.due(), 150, "an alone timer fires at the end of its slack");
        let fired: Vec<Fires> = std::iter::from_fn(|| q.expire(150)).map(|t| t.fires).collect();
        assert_eq!(fired, [wakes(1), wakes(2)], "the second's soft expiry had passed; the third's not");
        assert_eq!(q.due(), 201);
    }

    #[test]
    fn a_cancelled_timer_does_not_fire() {
        let mut q = TimerQueue::default();
        let n = q.start(wakes(1), 100, 0);
        q.cancel(n);
        assert_eq!((q.due(), q.expire(200)), (NEVER, None));
    }
}
