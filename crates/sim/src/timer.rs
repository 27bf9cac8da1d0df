//! hrtimers of one CPU: a sleep belongs to the CPU on which it was started, as in the kernel.
//!
//! They are ordered by hard expiry (soft expiry plus slack). An interrupt is programmed for the earliest hard expiry;
//! when it comes, timers are run from the front until one's soft expiry is still in the future. Ticks are timers
//! without slack in the same order (`tick_runs_timers`). Times are ns.
//!
//! Before 2.6.21 ticks run timers (`timers_on_ticks`): [`at_tick`] is the tick that runs one.

use schedlab_base::{GroupId, TaskId};
use schedlab_board::engine::NEVER;
use std::cmp::Ordering;
use std::collections::BinaryHeap;

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
    /// The CPU's fair server must intervene, or has a runtime again (`dl_timer`).
    FairServer,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Timer {
    hard: u64,
    number: u64,
    soft: u64,
    /// Its effect when it fires.
    pub fires: Fires,
}

impl Ord for Timer {
    /// The timer that is run first compares as the greatest. Numbers are unique, so the order is total.
    fn cmp(&self, other: &Timer) -> Ordering {
        (other.hard, other.number).cmp(&(self.hard, self.number))
    }
}
impl PartialOrd for Timer {
    fn partial_cmp(&self, other: &Timer) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// The pending timers of a CPU. A heap, because a CPU may have hundreds: in a sorted list every start would move half
/// of them.
#[derive(Clone, Debug)]
pub struct TimerQueue {
    /// The time of the interrupt, kept separately because every step reads it.
    due: u64,
    pending: BinaryHeap<Timer>,
    started: u64,
}

impl Default for TimerQueue {
    fn default() -> TimerQueue {
        TimerQueue { due: NEVER, pending: BinaryHeap::new(), started: 0 }
    }
}

impl TimerQueue {
    /// Starts a timer that may fire from `soft` on and must fire by `soft + slack_ns`; returns its number.
    pub fn start(&mut self, fires: Fires, soft: u64, slack_ns: u64) -> u64 {
        self.started += 1;
        let timer = Timer { hard: soft.saturating_add(slack_ns), number: self.started, soft, fires };
        self.pending.push(timer);
        self.due = self.due.min(timer.hard);
        timer.number
    }
    /// Cancels a timer that has not fired.
    pub fn cancel(&mut self, number: u64) {
        let before = self.pending.len();
        self.pending.retain(|t| t.number != number);
        let gone = before - self.pending.len();
        debug_assert!(gone == 1, "{gone} of {before} timers have number {number}, which is cancelled");
        self.look();
    }
    /// The time of the interrupt.
    #[inline]
    pub fn due(&self) -> u64 {
        self.due
    }
    fn look(&mut self) {
        self.due = self.first();
    }
    /// When the first timer is due.
    pub fn first(&self) -> u64 {
        self.pending.peek().map_or(NEVER, |t| t.hard)
    }
    /// The effect of a timer that has not fired yet; for walks.
    pub fn pending(&self, number: u64) -> Option<Fires> {
        self.pending.iter().find(|t| t.number == number).map(|t| t.fires)
    }
    /// Takes the next timer that may fire at `now`. Another timer of the CPU, such as its tick, is due at `ahead`:
    /// timers later in the order wait for it.
    pub fn expire_before(&mut self, now: u64, ahead: u64) -> Option<Timer> {
        let (first, due) = (self.first(), self.due);
        debug_assert!(due == first, "the first timer is due at {first}, and {due} is noted");
        let fires = self.pending.peek().is_some_and(|t| t.soft <= now && (t.hard <= now || t.hard < ahead));
        let timer = fires.then(|| self.pending.pop()).flatten();
        self.look();
        timer
    }
}

/// The tick that runs a timer due at `soft`. `next`: the CPU's next tick; others follow every `tick_ns`.
///
/// A time-out is counted in whole ticks, rounded up. With `a_tick_more` the current tick does not count, so that the
/// timer is never early; otherwise the first tick at or after `soft` runs it.
pub fn at_tick(now: u64, soft: u64, next: u64, tick_ns: u64, a_tick_more: bool) -> u64 {
    let ticks = if a_tick_more {
        soft.saturating_sub(now).div_ceil(tick_ns)
    } else {
        soft.saturating_sub(next).div_ceil(tick_ns)
    };
    next.saturating_add(ticks.saturating_mul(tick_ns))
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
        let fired: Vec<Fires> = std::iter::from_fn(|| q.expire_before(150, NEVER)).map(|t| t.fires).collect();
        assert_eq!(fired, [wakes(1), wakes(2)], "the second's soft expiry had passed; the third's not");
        assert_eq!(q.due(), 201);
    }

    #[test]
    fn a_timer_behind_the_tick_waits_for_it() {
        let mut q = TimerQueue::default();
        q.start(wakes(1), 3_927, 50);
        q.start(wakes(2), 3_965, 50);
        let fired = |timer: Option<Timer>| timer.map(|t| t.fires);
        assert_eq!(fired(q.expire_before(3_977, 4_000)), Some(wakes(1)));
        assert_eq!(
            fired(q.expire_before(3_977, 4_000)),
            None,
            "its slack has begun, and the tick is due first"
        );
        assert_eq!(fired(q.expire_before(4_000, 8_000)), Some(wakes(2)), "the tick runs it");
    }

    #[test]
    fn a_timer_of_ticks_is_run_by_the_first_after_it_or_by_the_one_after() {
        // Ticks at 1000, 2000, ...; it is 300.
        let at = |soft, more| at_tick(300, soft, 1_000, 1_000, more);
        assert_eq!([500, 1_000, 1_001, 2_300].map(|soft| at(soft, false)), [1_000, 1_000, 2_000, 3_000]);
        assert_eq!([500, 1_300, 1_301, 2_300].map(|soft| at(soft, true)), [2_000, 2_000, 3_000, 3_000]);
        assert_eq!(at(u64::MAX, true), u64::MAX);
    }

    #[test]
    fn timers_fire_in_the_order_of_their_hard_expiry_the_older_first() {
        let mut q = TimerQueue::default();
        for t in 0..100u32 {
            q.start(wakes(t), u64::from(t * 37 % 10), u64::from(t % 3));
        }
        q.cancel(51);
        let mut want: Vec<u32> = (0..100).filter(|t| *t != 50).collect();
        want.sort_by_key(|t| t * 37 % 10 + t % 3);
        let fired: Vec<Fires> = std::iter::from_fn(|| q.expire_before(20, NEVER)).map(|t| t.fires).collect();
        assert_eq!(fired, want.into_iter().map(wakes).collect::<Vec<_>>());
    }

    #[test]
    fn a_cancelled_timer_does_not_fire() {
        let mut q = TimerQueue::default();
        let n = q.start(wakes(1), 100, 0);
        q.cancel(n);
        assert_eq!((q.due(), q.expire_before(200, NEVER)), (NEVER, None));
    }
}
