//! A group's quota of CPU time: the pool that is filled each period, the slices that CPUs take from it, and the list of
//! queues that found it empty (`struct cfs_bandwidth`; read in 4.4, 4.15, 4.19, 5.4, 6.1.192, 6.12.117, 7.2.12 and
//! 7.3.4).
//!
//! Times are ns. A CPU's queue takes slices of 5 ms and charges them with the time that its tasks run. When it becomes
//! empty, it gives back all but 1 ms. A queue that has used up its slice and finds the pool empty is throttled until
//! the pool has time for it again: at the end of the period or, if other CPUs have given time back, 5 ms after that.
//! The period timer stops after a period in which no CPU took a slice.
//!
//! A CPU learns that its slice is used up only when it charges the running task, mostly at a tick. So a group may run
//! beyond its quota, by a tick on each CPU; it owes that time to the next period.
//!
//! Up to 5.3 a slice ends with the period in which it was taken ([`Slice`]). The rest of a CPU's earlier slice does not
//! go back to the pool, and in most of these releases it is lost.
//!
//! Invariants: after a refill the pool has at most quota plus burst; a queue is on the list while it is throttled.

use crate::fair::runqueue::CfsRqId;
use schedlab_base::{CpuId, Ns};
use schedlab_kernel::History;
use schedlab_workload::GroupDecl;
use std::collections::VecDeque;

/// A queue keeps this much of its slice when its last task leaves (`min_cfs_rq_runtime`).
pub const KEPT_NS: i64 = 1_000_000;
/// Returned time is not handed out if the period ends within this time (`min_bandwidth_expiration`).
const TOO_LATE_NS: u64 = 2_000_000;
/// How long the pool collects returned time before it hands it out (`cfs_bandwidth_slack_period`).
pub const GATHERED_NS: u64 = 5_000_000;

/// Counts of a group (`cpu.stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Counts {
    /// Periods that ended while its timer ran (`nr_periods`).
    pub periods: u64,
    /// Number of those at whose end a queue was throttled (`nr_throttled`).
    pub throttled: u64,
    /// How long its queues were throttled, summed over all CPUs, ns (`throttled_time`).
    pub throttled_ns: u64,
    /// Number of periods in which it used saved quota (`nr_bursts`).
    pub bursts: u64,
    /// CPU time that it used beyond its quota in such periods, ns (`burst_time`).
    pub burst_ns: u64,
}

/// A CPU queue's slice of its group's quota.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Slice {
    /// Time left, ns; negative if time is owed (`runtime_remaining`).
    pub left_ns: i64,
    /// The period in which it was taken (`expires_seq`).
    period: u64,
    /// When it ends, by the CPU's clock (`runtime_expires`).
    ends_ns: u64,
}

/// A group's quota and the rest of it.
#[derive(Clone, Debug)]
pub struct Bandwidth {
    /// CPU time for each period.
    pub quota_ns: u64,
    pub period_ns: u64,
    /// Unused quota that may be saved up.
    pub burst_ns: u64,
    /// The pool: time that no CPU has taken (`runtime`).
    pub pool_ns: u64,
    /// The pool after the last refill (`runtime_snap`).
    filled_ns: u64,
    /// Whether no CPU has taken a slice in this period (`idle`).
    pub idle: bool,
    /// The CPU whose timer ends the period; `None` while the timer is stopped (`period_active`).
    pub timer_on: Option<CpuId>,
    /// When the period ends, or has ended.
    pub ends_ns: u64,
    /// Number of periods begun, by which slices of earlier periods are recognised (`expires_seq`).
    pub period: u64,
    /// Whether the group no longer has a limit.
    ended: bool,
    /// When slices taken now will end (`runtime_expires`).
    slices_end_ns: u64,
    /// The timer that will hand out returned time: its CPU and number (`slack_started`).
    pub slack_timer: Option<(CpuId, u64)>,
    /// Until when the current hand-out lasts, ns (`distribute_running`).
    pub hands_out_until_ns: u64,
    /// Throttled queues, in the order in which they get time.
    pub throttled: VecDeque<CfsRqId>,
    /// The queues of the current hand-out, else empty; kept for its memory.
    pub in_turn: Vec<CfsRqId>,
    pub counts: Counts,
}

impl Bandwidth {
    /// The limit of a declared group, if it has one; its first period ends at `phase_ns`, modulo its length.
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
            slices_end_ns: decl.period.0,
            slack_timer: None,
            hands_out_until_ns: 0,
            ended: false,
            throttled: VecDeque::new(),
            in_turn: Vec::new(),
            counts: Counts::default(),
        })
    }

    /// Changes or ends the limit. Throttled queues stay on the list until they are unthrottled; a running timer
    /// continues, and stops by itself.
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

    /// Slices taken from now on end one period from now (`__refill_cfs_bandwidth_runtime`).
    pub fn renew(&mut self, now: u64) {
        self.slices_end_ns = now + self.period_ns;
    }

    /// Starts the timer on `cpu` if it does not run. Returns the end of the current period if the timer must be started
    /// (`start_cfs_bandwidth`).
    pub fn start(&mut self, cpu: CpuId, now: u64, history: &History) -> Option<u64> {
        if self.timer_on.is_some() {
            return None;
        }
        self.timer_on = Some(cpu);
        self.forward(now);
        if !history.bandwidth_rests_stay {
            self.period += 1;
            self.slices_end_ns = self.ends_ns;
        }
        Some(self.ends_ns)
    }

    /// Moves the end of the period beyond `now`; returns the number of periods that have ended (`hrtimer_forward`).
    pub fn forward(&mut self, now: u64) -> u64 {
        if self.ends_ns > now {
            return 0;
        }
        let passed = (now - self.ends_ns) / self.period_ns + 1;
        self.ends_ns += passed * self.period_ns;
        debug_assert!(
            self.ends_ns > now,
            "{passed} periods have passed at {now}, and one ends at {}",
            self.ends_ns
        );
        passed
    }

    /// Fills the pool for the next period (`__refill_cfs_bandwidth_runtime`).
    fn refill(&mut self, now: u64) {
        self.pool_ns += self.quota_ns;
        let beyond = self.filled_ns.saturating_sub(self.pool_ns);
        if beyond > 0 {
            self.counts.bursts += 1;
            self.counts.burst_ns += beyond;
        }
        self.pool_ns = self.pool_ns.min(self.quota_ns + self.burst_ns);
        self.filled_ns = self.pool_ns;
        self.period += 1;
        self.slices_end_ns = now + self.period_ns;
    }

    /// `passed` periods have ended. Returns whether the timer continues; then throttled queues must be given time
    /// (`do_sched_cfs_period_timer`).
    pub fn end_period(&mut self, passed: u64, now: u64, history: &History) -> bool {
        if self.ended {
            self.timer_on = None;
            return false;
        }
        let throttled = !self.throttled.is_empty();
        let stops = self.idle && !throttled;
        self.counts.periods += passed;
        // Without bursts the pool of a group that took nothing stays as it is.
        if !stops || history.bandwidth_bursts {
            self.refill(now);
        }
        if stops {
            self.timer_on = None;
            return false;
        }
        self.idle = !throttled;
        self.counts.throttled += if throttled { passed } else { 0 };
        true
    }

    /// Gives a queue as much of the pool as it needs to have `target_ns` (`__assign_cfs_rq_runtime`).
    pub fn assign(&mut self, slice: &mut Slice, target_ns: u64, history: &History) {
        let wanted = (target_ns as i64 - slice.left_ns).max(0) as u64;
        let taken = wanted.min(self.pool_ns);
        if self.pool_ns > 0 {
            self.pool_ns -= taken;
            self.idle = false;
        }
        slice.left_ns += taken as i64;
        // A queue whose clock is ahead may have postponed its own end.
        if !history.bandwidth_rests_stay && slice.period != self.period {
            (slice.period, slice.ends_ns) = (self.period, self.slices_end_ns);
        } else if history.bandwidth_rests_stay {
            slice.ends_ns = slice.ends_ns.max(self.slices_end_ns);
        }
    }

    /// Gives a throttled queue enough to pay its debt and to continue, if the pool has it (`distribute_cfs_runtime`).
    pub fn pay(&mut self, slice: &mut Slice) {
        debug_assert!(slice.left_ns <= 0, "a throttled queue has {} ns left", slice.left_ns);
        let taken = ((1 - slice.left_ns).max(0) as u64).min(self.pool_ns);
        self.pool_ns -= taken;
        slice.left_ns += taken as i64;
        slice.ends_ns = self.slices_end_ns;
        slice.period = self.period;
    }

    /// If slices have an end in this kernel, the rest of a slice may be lost at `clock` (`expire_cfs_rq_runtime`).
    ///
    /// A queue's clock may be ahead of the one by which the pool was filled, so a slice that seems to have ended gets
    /// another tick if it may be the pool's newest. From 3.16 to 4.17 that test is inverted: only the newest slice is
    /// lost, which happens after the pool's timer was stopped.
    pub fn expire(&self, slice: &mut Slice, clock: u64, tick_ns: u64, history: &History) {
        if !history.bandwidth_expires || clock < slice.ends_ns || slice.left_ns < 0 {
            return;
        }
        let stays = if history.bandwidth_rests_stay {
            slice.ends_ns != self.slices_end_ns
        } else {
            slice.period == self.period
        };
        if stays { slice.ends_ns += tick_ns } else { slice.left_ns = 0 }
    }

    /// A queue whose last task has left gives back its time except for the part that it keeps, unless the slice has
    /// ended. Returns whether to set (or restart) the timer that hands the time out to throttled queues
    /// (`__return_cfs_rq_runtime`, `start_cfs_slack_bandwidth`).
    pub fn take_back(&mut self, slice: &mut Slice, slice_ns: u64, now: u64, history: &History) -> bool {
        let slack_ns = slice.left_ns - KEPT_NS;
        if slack_ns <= 0 {
            return false;
        }
        slice.left_ns -= slack_ns;
        if history.bandwidth_expires && slice.ends_ns != self.slices_end_ns {
            return false;
        }
        self.pool_ns += slack_ns as u64;
        let worth_it = self.pool_ns > slice_ns && !self.throttled.is_empty();
        let soon = self.slack_timer.is_some() && !history.bandwidth_slack_waits;
        worth_it && !soon && !self.ends_within(now, GATHERED_NS + TOO_LATE_NS)
    }

    /// The slack timer has fired. Returns whether returned time is handed out (`do_sched_cfs_slack_timer`).
    pub fn slack_ends(&mut self, slice_ns: u64, now: u64) -> bool {
        self.slack_timer = None;
        !self.ends_within(now, TOO_LATE_NS) && self.pool_ns > slice_ns
    }

    fn ends_within(&self, now: u64, ns: u64) -> bool {
        self.ends_ns.saturating_sub(now) < ns
    }

    /// Adds a queue to the list of throttled ones.
    pub fn join(&mut self, queue: CfsRqId, now: u64, history: &History) {
        debug_assert!(!self.throttled.contains(&queue), "{queue:?} is throttled twice");
        let meanwhile = history.bandwidth_newest_meanwhile && now < self.hands_out_until_ns;
        if history.bandwidth_newest_first || meanwhile {
            self.throttled.push_front(queue)
        } else {
            self.throttled.push_back(queue)
        }
    }
    /// Removes a queue from that list.
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
    const M: i64 = 1_000_000;

    fn history(version: &str) -> History {
        History::of(Version::parse(version).unwrap())
    }
    fn slice(left_ns: i64) -> Slice {
        Slice { left_ns, ..Slice::default() }
    }
    /// The time that a queue with `left_ns` takes to have `target_ns`.
    fn taken(b: &mut Bandwidth, left_ns: i64, target_ns: u64) -> i64 {
        let mut slice = slice(left_ns);
        b.assign(&mut slice, target_ns, &history("6.1"));
        slice.left_ns - left_ns
    }
    fn paid(b: &mut Bandwidth, left_ns: i64) -> i64 {
        let mut slice = slice(left_ns);
        b.pay(&mut slice);
        slice.left_ns - left_ns
    }
    /// Ends a period at its regular time.
    fn end(b: &mut Bandwidth, passed: u64) -> bool {
        let now = b.ends_ns;
        b.ends_ns += passed * b.period_ns;
        b.end_period(passed, now, &history("6.1"))
    }

    fn pool(quota_ms: u64, burst_ms: u64) -> Bandwidth {
        let (quota, burst) = (Some(Ns::ms(quota_ms)), Ns::ms(burst_ms));
        Bandwidth::of(&GroupDecl { quota, burst, ..GroupDecl::root() }, 0).unwrap()
    }

    #[test]
    fn a_group_without_a_quota_has_no_pool() {
        assert!(Bandwidth::of(&GroupDecl::root(), 0).is_none());
    }

    #[test]
    fn a_slice_is_the_wanted_time_or_the_rest_of_the_pool() {
        let mut b = pool(12, 0);
        assert_eq!(taken(&mut b, -M, 5 * MS), 6 * M, "the debt and a slice");
        assert_eq!(taken(&mut b, 0, 5 * MS), 5 * M);
        assert_eq!((taken(&mut b, 0, 5 * MS), taken(&mut b, 0, 1)), (M, 0));
    }

    #[test]
    fn a_refill_saves_up_no_more_than_the_burst() {
        let mut b = pool(10, 4);
        end(&mut b, 1);
        assert_eq!(b.pool_ns, 14 * MS, "nothing was used");
        end(&mut b, 1);
        assert_eq!(b.pool_ns, 14 * MS);
        taken(&mut b, 0, 13 * MS);
        end(&mut b, 1);
        assert_eq!((b.counts.bursts, b.counts.burst_ns), (1, 3 * MS), "3 ms more than the quota were used");
        let mut without = pool(10, 0);
        end(&mut without, 1);
        assert_eq!(without.pool_ns, 10 * MS);
    }

    #[test]
    fn the_timer_stops_after_a_period_without_slices() {
        let mut b = pool(10, 0);
        assert_eq!(b.start(CpuId(1), 30 * MS, &history("6.1")), Some(100 * MS));
        assert_eq!(b.start(CpuId(1), 30 * MS, &history("6.1")), None, "it runs already");
        taken(&mut b, 0, 5 * MS);
        assert!(end(&mut b, 1), "a slice was taken");
        assert!(!end(&mut b, 1) && b.timer_on.is_none());
        let queue = CfsRqId(3);
        b.join(queue, 0, &history("6.1"));
        assert!(end(&mut b, 2), "a debtor keeps it running");
        assert_eq!(b.counts, Counts { periods: 4, throttled: 2, ..Counts::default() });
    }

    #[test]
    fn a_queue_in_debt_gets_its_debt_and_a_nanosecond() {
        let mut b = pool(10, 0);
        assert_eq!(paid(&mut b, -3 * M), 3 * M + 1);
        assert_eq!(paid(&mut b, -30 * M), 7 * M - 1, "or what there is");
    }

    /// Whether a timer is set when a queue gives back `ms` milliseconds at that time.
    fn gives_back(b: &mut Bandwidth, ms: i64, at_ms: u64, version: &str) -> bool {
        let mut slice = slice((ms + 1) * M);
        slice.ends_ns = b.slices_end_ns;
        let starts = b.take_back(&mut slice, 5 * MS, at_ms * MS, &history(version));
        assert_eq!(slice.left_ns, KEPT_NS);
        if starts {
            b.slack_timer = Some((CpuId(0), 1));
        }
        starts
    }
    /// A pool whose time is all taken, with a throttled queue.
    fn exhausted() -> Bandwidth {
        let mut b = pool(10, 0);
        b.start(CpuId(0), 0, &history("6.1"));
        taken(&mut b, 0, 10 * MS);
        b.join(CfsRqId(3), 0, &history("6.1"));
        b
    }

    #[test]
    fn slack_is_handed_out_after_5_ms_unless_the_period_ends_soon() {
        let given_back = |at_ms: u64| {
            let mut b = exhausted();
            let times = [5, 1, 1].map(|ms| gives_back(&mut b, ms, at_ms, "6.1"));
            (times, b.slack_ends(5 * MS, (at_ms + 5) * MS))
        };
        assert_eq!(given_back(50), ([false, true, false], true));
        assert!(!given_back(94).0[1], "a refill comes within 7 ms");
        let mut late = pool(10, 0);
        late.start(CpuId(0), 0, &history("6.1"));
        assert!(!late.slack_ends(5 * MS, 98 * MS + 1), "within 2 ms");
    }

    #[test]
    fn until_5_2_giving_time_back_postpones_the_hand_out() {
        for (version, puts_off) in [("3.4", true), ("4.19", true), ("5.3", false), ("5.4", false)] {
            let mut b = exhausted();
            assert!(gives_back(&mut b, 6, 50, version));
            assert_eq!(gives_back(&mut b, 1, 52, version), puts_off, "{version}");
        }
    }

    /// After a slice of which 3 ms are left, 4 ms after the end of its period: how much a queue keeps, and gives back.
    fn after_its_period(version: &str) -> (i64, u64) {
        let (h, mut b, mut slice) = (history(version), pool(20, 0), Slice::default());
        b.start(CpuId(0), 0, &h);
        b.assign(&mut slice, 3 * MS, &h);
        b.forward(100 * MS);
        b.end_period(1, 100 * MS, &h);
        left(&mut b, slice, 104, &h)
    }
    /// The same 4 ms after the slice was taken, which started the timer after it had stopped.
    fn after_a_start(version: &str) -> (i64, u64) {
        let (h, mut b, mut slice) = (history(version), pool(20, 0), Slice::default());
        b.start(CpuId(0), 0, &h);
        for ends in [100, 200] {
            b.forward(ends * MS);
            b.end_period(1, ends * MS, &h);
        }
        assert_eq!(b.start(CpuId(0), 350 * MS, &h), Some(400 * MS), "it stood still");
        b.assign(&mut slice, 3 * MS, &h);
        left(&mut b, slice, 354, &h)
    }
    fn left(b: &mut Bandwidth, mut slice: Slice, at_ms: u64, h: &History) -> (i64, u64) {
        b.expire(&mut slice, at_ms * MS, 4 * MS, h);
        let (left, before) = (slice.left_ns, b.pool_ns);
        b.take_back(&mut slice, 5 * MS, at_ms * MS, h);
        (left / M, (b.pool_ns - before) / MS)
    }

    #[test]
    fn the_rest_of_a_slice_is_lost_kept_or_given_back() {
        for (version, of_an_earlier_period, of_a_started_one) in [
            ("3.4", (0, 0), (3, 2)),
            ("3.16", (3, 0), (0, 0)),
            ("4.5", (3, 0), (0, 0)),
            ("4.14", (3, 0), (0, 0)),
            ("4.19", (0, 0), (3, 2)),
            ("5.3", (0, 0), (3, 2)),
            ("5.4", (3, 2), (3, 2)),
            ("6.1", (3, 2), (3, 2)),
        ] {
            assert_eq!(after_its_period(version), of_an_earlier_period, "{version}");
            assert_eq!(after_a_start(version), of_a_started_one, "{version}");
        }
    }

    #[test]
    fn the_newest_queue_was_first_from_3_17_to_4_18_and_during_a_hand_out_up_to_5_7() {
        for (version, first, meanwhile) in [
            ("3.2", 1, 1),
            ("3.16", 1, 1),
            ("3.17", 2, 2),
            ("4.18", 2, 2),
            ("4.19", 1, 2),
            ("5.7", 1, 2),
            ("5.8", 1, 1),
        ] {
            for (until_ns, first) in [(0, first), (MS, meanwhile)] {
                let mut b = pool(10, 0);
                b.hands_out_until_ns = until_ns;
                b.join(CfsRqId(1), 0, &history(version));
                b.join(CfsRqId(2), 0, &history(version));
                assert_eq!(b.throttled[0], CfsRqId(first), "{version}");
            }
        }
    }

    #[test]
    fn a_late_timer_counts_the_periods_that_it_missed() {
        let mut b = pool(10, 0);
        b.start(CpuId(0), 0, &history("6.1"));
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
                    0 => out += taken(&mut b, 0, ns) as u64,
                    1 => out += paid(&mut b, -(ns as i64)) as u64,
                    // No more comes back than was given.
                    2 => {
                        let back = ns.min(out);
                        b.take_back(&mut slice(KEPT_NS + back as i64), 5 * MS, 0, &history("6.1"));
                        out -= back;
                    }
                    _ => {
                        end(&mut b, 1);
                        periods += 1;
                    }
                }
                proptest::prop_assert!(out <= (periods * quota_ms + burst_ms) * MS, "{out} in {periods} periods");
            }
        }
    }
}
