//! A group's quota of CPU time: the pool that a period fills, the slices that CPUs take of it, and the list of queues
//! that found it empty (`struct cfs_bandwidth`; read in 6.1.192, 6.12.117, 7.2.12 and 7.3.4).
//!
//! Times are ns. A CPU's queue takes a slice of 5 ms at a time and charges it with the time that its tasks run. When it
//! leaves its queue empty, it gives back all but 1 ms. A queue that has used up its slice and finds the pool empty is
//! throttled until the pool has time for it again: at the end of the period or, if other CPUs have given time back,
//! 5 ms after that. The timer of the periods stops after a period in which no CPU took a slice.
//!
//! A CPU learns that its slice is used up only when it charges the running task, mostly at a tick. So a group may run
//! beyond its quota, by a tick on each CPU; it owes that time to the next period.
//!
//! Invariants: after a refill the pool has at most quota plus burst; a queue is on the list while it is throttled.

use crate::fair::runqueue::CfsRqId;
use schedlab_base::{CpuId, Ns};
use schedlab_kernel::History;
use schedlab_workload::GroupDecl;
use std::collections::VecDeque;

/// A queue keeps this much of its slice when its last task leaves (`min_cfs_rq_runtime`).
pub const KEPT_NS: i64 = 1_000_000;
/// Time that has been given back is not handed out if the period ends within this time (`min_bandwidth_expiration`).
const TOO_LATE_NS: u64 = 2_000_000;
/// How long the pool gathers what is given back before it is handed out (`cfs_bandwidth_slack_period`).
pub const GATHERED_NS: u64 = 5_000_000;

/// Counts of a group (`cpu.stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Periods that ended while its timer ran (`nr_periods`).
    pub periods: u64,
    /// Those at whose end a queue was throttled (`nr_throttled`).
    pub throttled: u64,
    /// How long its queues were throttled, of all CPUs together, ns (`throttled_time`).
    pub throttled_ns: u64,
    /// Periods in which it used saved quota (`nr_bursts`).
    pub bursts: u64,
    /// CPU time that it used beyond its quota in such periods, ns (`burst_time`).
    pub burst_ns: u64,
}

/// A group's quota and what is left of it.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    /// CPU time for each period.
    pub quota_ns: u64,
    /// Length of a period.
    pub period_ns: u64,
    /// Unused quota that may be saved up.
    pub burst_ns: u64,
    /// The pool: what no CPU has taken (`runtime`).
    pub pool_ns: u64,
    /// The pool after the last refill (`runtime_snap`).
    filled_ns: u64,
    /// No CPU has taken a slice in this period (`idle`).
    pub idle: bool,
    /// The CPU whose timer ends the period; `None` while it is stopped (`period_active`).
    pub timer_on: Option<CpuId>,
    /// When the period ends, or has ended.
    pub ends_ns: u64,
    /// Periods begun: tells a slice of an earlier period apart (`expires_seq`).
    pub period: u64,
    /// The group has no limit any more.
    ended: bool,
    /// A timer will hand out what was given back (`slack_started`).
    pub slack_started: bool,
    /// Throttled queues, in the order in which they get time.
    pub throttled: VecDeque<CfsRqId>,
    /// The same while they get time, else empty; kept for its memory.
    pub in_turn: Vec<CfsRqId>,
    /// Its counts since the end of the warm-up.
    pub counts: Counts,
}

impl Bandwidth {
    /// The limit of a declared group, if it has one; its first period ends by `phase_ns`, modulo its length.
    pub fn of(decl: &GroupDecl, phase_ns: u64) -> Option<Bandwidth> {
        let Ns(quota_ns) = decl.quota?;
        Some(Bandwidth {
            quota_ns,
            period_ns: decl.period.0,
            burst_ns: decl.burst.0,
            pool_ns: quota_ns,
            filled_ns: quota_ns,
            idle: false,
            timer_on: None,
            ends_ns: phase_ns % decl.period.0,
            period: 0,
            ended: false,
            slack_started: false,
            throttled: VecDeque::new(),
            in_turn: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// The limit changes, or ends. Throttled queues stay on the list until they are unthrottled; a timer that runs goes
    /// on, and stops by itself.
    pub fn become_limited(&mut self, new: Option<Bandwidth>) {
        match new {
            Some(new) => {
                (self.quota_ns, self.period_ns, self.burst_ns) = (new.quota_ns, new.period_ns, new.burst_ns);
                (self.pool_ns, self.filled_ns) = (new.quota_ns, new.quota_ns);
                (self.period, self.ended) = (self.period + 1, false);
            }
            None => self.ended = true,
        }
    }

    /// The timer starts on `cpu` if it does not run: the end of the running period, if it has to be started
    /// (`start_cfs_bandwidth`).
    pub fn start(&mut self, cpu: CpuId, now: u64) -> Option<u64> {
        if self.timer_on.is_some() {
            return None;
        }
        self.timer_on = Some(cpu);
        self.forward(now);
        Some(self.ends_ns)
    }

    /// Moves the end of the period beyond `now`; returns the number of ends that were passed (`hrtimer_forward`).
    pub fn forward(&mut self, now: u64) -> u64 {
        if self.ends_ns > now {
            return 0;
        }
        let passed = (now - self.ends_ns) / self.period_ns + 1;
        self.ends_ns += passed * self.period_ns;
        passed
    }

    /// The pool is filled for the next period (`__refill_cfs_bandwidth_runtime`).
    fn refill(&mut self) {
        self.pool_ns += self.quota_ns;
        let beyond = self.filled_ns.saturating_sub(self.pool_ns);
        if beyond > 0 {
            self.counts.bursts += 1;
            self.counts.burst_ns += beyond;
        }
        self.pool_ns = self.pool_ns.min(self.quota_ns + self.burst_ns);
        self.filled_ns = self.pool_ns;
        self.period += 1;
    }

    /// So many periods have ended. Returns whether the timer goes on; throttled queues are then to be given time
    /// (`do_sched_cfs_period_timer`).
    pub fn end_period(&mut self, passed: u64) -> bool {
        if self.ended {
            self.timer_on = None;
            return false;
        }
        let throttled = !self.throttled.is_empty();
        self.counts.periods += passed;
        self.refill();
        if self.idle && !throttled {
            self.timer_on = None;
            return false;
        }
        self.idle = !throttled;
        self.counts.throttled += if throttled { passed } else { 0 };
        true
    }

    /// A queue that has `left_ns` takes as much of the pool as it needs to have `target_ns`. Returns what it takes
    /// (`__assign_cfs_rq_runtime`).
    pub fn assign(&mut self, left_ns: i64, target_ns: u64) -> u64 {
        let wanted = (target_ns as i64 - left_ns).max(0) as u64;
        if self.pool_ns == 0 {
            return 0;
        }
        let taken = wanted.min(self.pool_ns);
        self.pool_ns -= taken;
        self.idle = false;
        taken
    }

    /// A throttled queue that owes time gets enough to pay it and to go on, if the pool has it
    /// (`distribute_cfs_runtime`).
    pub fn pay(&mut self, left_ns: i64) -> u64 {
        let taken = ((1 - left_ns).max(0) as u64).min(self.pool_ns);
        self.pool_ns -= taken;
        taken
    }

    /// A queue whose last task has left gives back what it does not keep. Returns whether the time is to be handed out
    /// to throttled queues soon (`__return_cfs_rq_runtime`, `start_cfs_slack_bandwidth`).
    pub fn take_back(&mut self, slack_ns: u64, slice_ns: u64, now: u64) -> bool {
        self.pool_ns += slack_ns;
        let worth_it = self.pool_ns > slice_ns && !self.throttled.is_empty();
        if !worth_it || self.ends_within(now, GATHERED_NS + TOO_LATE_NS) || self.slack_started {
            return false;
        }
        self.slack_started = true;
        true
    }

    /// The time for what was given back has come. Returns whether it is handed out (`do_sched_cfs_slack_timer`).
    pub fn slack_ends(&mut self, slice_ns: u64, now: u64) -> bool {
        self.slack_started = false;
        !self.ends_within(now, TOO_LATE_NS) && self.pool_ns > slice_ns
    }

    fn ends_within(&self, now: u64, ns: u64) -> bool {
        self.ends_ns.saturating_sub(now) < ns
    }

    /// A queue joins the list of throttled ones.
    pub fn join(&mut self, queue: CfsRqId, history: &History) {
        debug_assert!(!self.throttled.contains(&queue), "{queue:?} is throttled twice");
        match history.bandwidth_newest_first {
            true => self.throttled.push_front(queue),
            false => self.throttled.push_back(queue),
        }
    }
    /// A queue leaves that list.
    pub fn leave(&mut self, queue: CfsRqId) {
        self.throttled.retain(|q| *q != queue);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::Strategy;
    use schedlab_base::Version;

    const MS: u64 = 1_000_000;

    fn pool(quota_ms: u64, burst_ms: u64) -> Bandwidth {
        let (quota, burst) = (Some(Ns::ms(quota_ms)), Ns::ms(burst_ms));
        Bandwidth::of(&GroupDecl { quota, burst, ..GroupDecl::root() }, 0).unwrap()
    }

    #[test]
    fn a_group_without_a_quota_has_no_pool() {
        assert!(Bandwidth::of(&GroupDecl::root(), 0).is_none());
    }

    #[test]
    fn a_slice_is_what_is_wanted_or_what_there_is() {
        let mut b = pool(12, 0);
        assert_eq!(b.assign(-(MS as i64), 5 * MS), 6 * MS, "the debt and a slice");
        assert_eq!(b.assign(0, 5 * MS), 5 * MS);
        assert_eq!((b.assign(0, 5 * MS), b.assign(0, 1)), (MS, 0));
    }

    #[test]
    fn a_refill_saves_up_no_more_than_the_burst() {
        let mut b = pool(10, 4);
        b.end_period(1);
        assert_eq!(b.pool_ns, 14 * MS, "nothing was used");
        b.end_period(1);
        assert_eq!(b.pool_ns, 14 * MS);
        b.assign(0, 13 * MS);
        b.end_period(1);
        assert_eq!((b.counts.bursts, b.counts.burst_ns), (1, 3 * MS), "3 ms more than the quota were used");
        let mut without = pool(10, 0);
        without.end_period(1);
        assert_eq!(without.pool_ns, 10 * MS);
    }

    #[test]
    fn the_timer_stops_after_a_period_in_which_nobody_took_a_slice() {
        let mut b = pool(10, 0);
        assert_eq!(b.start(CpuId(1), 30 * MS), Some(100 * MS));
        assert_eq!(b.start(CpuId(1), 30 * MS), None, "it runs already");
        b.assign(0, 5 * MS);
        assert!(b.end_period(1), "a slice was taken");
        assert!(!b.end_period(1) && b.timer_on.is_none());
        let queue = CfsRqId(3);
        b.join(queue, &History::of(Version::new(6, 1)));
        assert!(b.end_period(2), "a debtor keeps it running");
        assert_eq!(b.counts, Counts { periods: 4, throttled: 2, ..Counts::default() });
    }

    #[test]
    fn a_debtor_gets_what_it_owes_and_a_nanosecond() {
        let mut b = pool(10, 0);
        assert_eq!(b.pay(-(3 * MS as i64)), 3 * MS + 1);
        assert_eq!(b.pay(-(30 * MS as i64)), 7 * MS - 1, "or what there is");
    }

    #[test]
    fn slack_is_handed_out_after_5_ms_unless_the_period_ends_soon() {
        let given_back = |at_ms: u64| {
            let mut b = pool(10, 0);
            b.start(CpuId(0), 0);
            b.assign(0, 10 * MS);
            b.join(CfsRqId(3), &History::of(Version::new(6, 1)));
            let few = b.take_back(5 * MS, 5 * MS, at_ms * MS);
            let enough = b.take_back(1, 5 * MS, at_ms * MS);
            let again = b.take_back(1, 5 * MS, at_ms * MS);
            (few, enough, again, b.slack_ends(5 * MS, (at_ms + 5) * MS))
        };
        assert_eq!(given_back(50), (false, true, false, true));
        assert!(!given_back(94).1, "a refill comes within 7 ms");
        let mut late = pool(10, 0);
        late.start(CpuId(0), 0);
        assert!(!late.slack_ends(5 * MS, 98 * MS + 1), "within 2 ms");
    }

    #[test]
    fn the_newest_queue_was_first_from_3_16_to_4_19() {
        for (version, first) in [((3, 2), 1), ((3, 16), 2), ((4, 19), 2), ((4, 20), 1)] {
            let mut b = pool(10, 0);
            let history = History::of(Version::new(version.0, version.1));
            b.join(CfsRqId(1), &history);
            b.join(CfsRqId(2), &history);
            assert_eq!(b.throttled[0], CfsRqId(first), "{version:?}");
        }
    }

    #[test]
    fn a_late_timer_counts_the_periods_that_it_missed() {
        let mut b = pool(10, 0);
        b.start(CpuId(0), 0);
        assert_eq!(b.forward(99 * MS), 0);
        assert_eq!((b.forward(305 * MS), b.ends_ns), (3, 400 * MS));
    }

    proptest::proptest! {
        #[test]
        fn a_pool_gives_no_more_than_its_quotas_and_one_burst(
            (quota_ms, burst_ms) in (1u64..50).prop_flat_map(|q| (proptest::prelude::Just(q), 0..=q)),
            steps in proptest::collection::vec((0u8..4, 1u64..20 * MS), 1..200),
        ) {
            let mut b = pool(quota_ms, burst_ms);
            let (mut out, mut periods) = (0_u64, 1);
            for (kind, ns) in steps {
                match kind {
                    0 => out += b.assign(0, ns),
                    1 => out += b.pay(-(ns as i64)),
                    // No more comes back than was given.
                    2 => {
                        let back = ns.min(out);
                        b.take_back(back, 5 * MS, 0);
                        out -= back;
                    }
                    _ => {
                        b.end_period(1);
                        periods += 1;
                    }
                }
                proptest::prop_assert!(out <= (periods * quota_ms + burst_ms) * MS, "{out} in {periods} periods");
            }
        }
    }
}
