//! Drives [`bandwidth`](super::bandwidth): the slices that CPUs take from a group's quota and give back, and its
//! timers.

use super::bandwidth::{Bandwidth, Counts, GATHERED_NS, Slice};
use crate::fair::runqueue::CfsRqId;
use crate::system::System;
use crate::timer::Fires;
use schedlab_base::{CpuId, GroupId};
use schedlab_trace::SwitchReason;

impl System<'_> {
    /// Whether a queue's group has a quota.
    #[inline]
    pub(in crate::fair) fn is_limited(&self, queue: CfsRqId) -> bool {
        self.fair.any_quota && self.fair.group_rqs[queue].limited
    }
    /// Whether a queue is throttled (`cfs_rq_throttled`).
    #[inline]
    pub(in crate::fair) fn is_throttled(&self, queue: CfsRqId) -> bool {
        self.fair.any_quota && self.fair.group_rqs[queue].throttled
    }
    /// Whether queues above a queue do not count its tasks, because it was throttled as a whole.
    #[inline]
    pub(in crate::fair) fn ends_counts(&self, queue: CfsRqId) -> bool {
        self.fair.any_quota && self.fair.group_rqs[queue].throttled && !self.fixed.history.bandwidth_of_tasks
    }
    /// Whether a queue or one above it is throttled (`throttled_hierarchy`).
    #[inline]
    pub(in crate::fair) fn is_below_throttled(&self, queue: CfsRqId) -> bool {
        self.fair.any_quota && self.fair.group_rqs[queue].throttle_count > 0
    }
    /// Whether a balancer must leave a task of a group on its CPU. Since 6.18 only the destination counts, because
    /// tasks without quota are not queued (`throttled_lb_pair`, `lb_throttled_hierarchy`).
    pub(crate) fn stays_for_quota(&self, group: GroupId, src: CpuId, dst: CpuId) -> bool {
        let below = |cpu| self.is_below_throttled(self.group_queue(group, cpu));
        below(dst) || !self.fixed.history.bandwidth_of_tasks && below(src)
    }
    /// The clock of a queue's load averages, ns; it stops while the queue is throttled (`cfs_rq_clock_pelt`).
    #[inline]
    pub(in crate::fair) fn pelt_clock(&self, queue: CfsRqId) -> u64 {
        let now = self.cpu_pelt_clock(self.fair.queues[queue].cpu);
        if !self.fair.any_quota {
            return now;
        }
        let own = &self.fair.group_rqs[queue];
        own.frozen_at.unwrap_or(now) - own.frozen_ns
    }
    /// Stops the clock of a queue's load averages.
    pub(super) fn freeze(&mut self, queue: CfsRqId) {
        let now = self.cpu_pelt_clock(self.fair.queues[queue].cpu);
        self.fair.group_rqs[queue].frozen_at.get_or_insert(now);
    }
    /// Restarts the clock.
    pub(super) fn thaw(&mut self, queue: CfsRqId) {
        let now = self.cpu_pelt_clock(self.fair.queues[queue].cpu);
        let own = &mut self.fair.group_rqs[queue];
        own.frozen_ns += own.frozen_at.take().map_or(0, |at| now - at);
    }

    /// The quota of a queue's group, which must be limited.
    pub(super) fn bandwidth(&mut self, queue: CfsRqId) -> &mut Bandwidth {
        let group = self.group_of(queue);
        self.bandwidth_of(group)
    }
    fn bandwidth_of(&mut self, group: GroupId) -> &mut Bandwidth {
        match &mut self.fair.groups[group].bandwidth {
            Some(b) => b,
            None => unreachable!("{group:?} has no quota"),
        }
    }

    /// Starts a group's period timer on the acting CPU, unless it runs (`start_cfs_bandwidth`).
    pub(super) fn start_period_of(&mut self, group: GroupId) {
        let (on, now, history) = (self.stepping.acting, self.now, self.fixed.history);
        if let Some(at) = self.bandwidth_of(group).start(on, now, &history) {
            self.cpus[on].timers.start(Fires::Quota(group), at, 0);
        }
    }

    /// Gives a queue the time from its group's pool that it needs to have `target_ns`. Returns whether it then has any
    /// time (`__assign_cfs_rq_runtime`).
    pub(super) fn assign(&mut self, queue: CfsRqId, target_ns: u64) -> bool {
        self.start_period_of(self.group_of(queue));
        let history = self.fixed.history;
        self.with_slice(queue, |b, slice| {
            b.assign(slice, target_ns, &history);
            slice.left_ns > 0
        })
    }
    /// Calls with the quota of a queue's group and the queue's slice of it.
    fn with_slice<T>(&mut self, queue: CfsRqId, call: impl FnOnce(&mut Bandwidth, &mut Slice) -> T) -> T {
        let mut slice = self.fair.group_rqs[queue].slice;
        let answer = call(self.bandwidth(queue), &mut slice);
        self.fair.group_rqs[queue].slice = slice;
        answer
    }

    /// A queue was charged: takes another slice if its own is used up. If there is none, a switch is requested, which
    /// throttles the queue; since 6.18 it is throttled at once, and the running task continues to its return to user
    /// mode. Returns whether the queue is throttled (`account_cfs_rq_runtime`).
    pub(in crate::fair) fn account_quota(&mut self, queue: CfsRqId) -> bool {
        if !self.is_limited(queue) {
            return false;
        }
        self.expire_slice(queue);
        if self.fair.group_rqs[queue].slice.left_ns > 0 {
            return false;
        }
        if self.fair.group_rqs[queue].throttled {
            return true;
        }
        if self.fixed.history.bandwidth_of_tasks {
            return self.throttle_tasks_of(queue);
        }
        let slice_ns = self.fixed.kernel.tunables.cfs_bandwidth_slice_ns;
        if !self.assign(queue, slice_ns) && self.fair.queues[queue].curr.is_some() {
            let cpu = self.fair.queues[queue].cpu;
            self.resched(self.stepping.acting, cpu, SwitchReason::Throttled);
        }
        false
    }

    /// In some kernels the rest of a slice is lost at the end of the period.
    fn expire_slice(&mut self, queue: CfsRqId) {
        let history = self.fixed.history;
        if !history.bandwidth_expires {
            return;
        }
        let clock = self.rq_clock(self.fair.queues[queue].cpu);
        let tick_ns = 1_000_000_000 / self.fixed.kernel.tunables.hz;
        self.with_slice(queue, |b, slice| b.expire(slice, clock, tick_ns, &history));
    }

    /// The last entity has left a queue: it gives back the rest of its slice, except for a little
    /// (`return_cfs_rq_runtime`).
    pub(in crate::fair) fn return_quota(&mut self, queue: CfsRqId) {
        if !self.fair.any_quota || self.fair.queues[queue].nr_running > 0 {
            return;
        }
        if self.fixed.history.bandwidth_of_tasks && self.is_below_throttled(queue) {
            self.freeze(queue);
        }
        if !self.fair.group_rqs[queue].limited {
            return;
        }
        let (on, now, history) = (self.stepping.acting, self.now, self.fixed.history);
        let slice_ns = self.fixed.kernel.tunables.cfs_bandwidth_slice_ns;
        if self.with_slice(queue, |b, slice| b.take_back(slice, slice_ns, now, &history)) {
            let group = self.group_of(queue);
            if let Some((cpu, number)) = self.bandwidth_of(group).slack_timer {
                self.cpus[cpu].timers.cancel(number);
            }
            let number = self.cpus[on].timers.start(Fires::Slack(group), now + GATHERED_NS, 0);
            self.bandwidth_of(group).slack_timer = Some((on, number));
        }
    }

    /// A group's period timer has fired on `cpu` (`sched_cfs_period_timer`).
    pub(crate) fn period_ends(&mut self, cpu: CpuId, group: GroupId) {
        let (now, history) = (self.now, self.fixed.history);
        let b = self.bandwidth_of(group);
        let passed = b.forward(now);
        if b.end_period(passed.max(1), now, &history) {
            self.hand_out(cpu, group);
            let at = self.bandwidth_of(group).ends_ns;
            self.cpus[cpu].timers.start(Fires::Quota(group), at, 0);
        }
    }

    /// Hands out the quota that was given back (`sched_cfs_slack_timer`).
    pub(crate) fn slack_ends(&mut self, cpu: CpuId, group: GroupId) {
        let (now, slice_ns) = (self.now, self.fixed.kernel.tunables.cfs_bandwidth_slice_ns);
        if self.bandwidth_of(group).slack_ends(slice_ns, now) {
            self.hand_out(cpu, group);
        }
    }

    /// Throttled queues pay their debts, in turn, and are unthrottled, as far as the pool suffices
    /// (`distribute_cfs_runtime`).
    fn hand_out(&mut self, by: CpuId, group: GroupId) {
        let mut own = None;
        let each_ns = self.fixed.machine.costs.rq_lock_near_ns + self.fixed.machine.costs.enqueue_ns;
        self.bandwidth_of(group).hands_out_until_ns = self.now;
        // Queues that are throttled again meanwhile wait for the next hand-out.
        let b = self.bandwidth_of(group);
        let mut in_turn = std::mem::take(&mut b.in_turn);
        in_turn.extend(&b.throttled);
        for queue in in_turn.drain(..) {
            if self.bandwidth_of(group).pool_ns == 0 {
                break;
            }
            if self.fair.group_rqs[queue].freed {
                continue;
            }
            let cpu = self.fair.queues[queue].cpu;
            if self.fixed.history.bandwidth_of_tasks {
                self.update_fair_curr(queue);
            }
            self.with_slice(queue, |b, slice| {
                b.pay(slice);
                b.hands_out_until_ns += each_ns;
            });
            if self.fair.group_rqs[queue].slice.left_ns <= 0 {
                break;
            }
            if !self.fixed.history.bandwidth_by_ipi {
                self.unthrottle(queue);
            } else if cpu == by {
                own = Some(queue);
            } else {
                self.free_on(by, cpu, queue);
            }
        }
        self.bandwidth_of(group).in_turn = in_turn;
        // The CPU's own queue comes last.
        if let Some(queue) = own {
            self.unthrottle(queue);
        }
    }

    /// Asks another CPU to unthrottle its queue.
    fn free_on(&mut self, by: CpuId, cpu: CpuId, queue: CfsRqId) {
        self.fair.group_rqs[queue].freed = true;
        self.cpus[cpu].freed.push(queue);
        if self.cpus[cpu].freed.len() == 1 {
            self.kick(by, cpu);
        }
    }

    /// Unthrottles the queues to which other CPUs have given time (`__cfsb_csd_unthrottle`).
    #[inline]
    pub(crate) fn unthrottle_freed(&mut self, cpu: CpuId) {
        if self.cpus[cpu].freed.is_empty() {
            return;
        }
        let mut freed = std::mem::take(&mut self.cpus[cpu].freed);
        for queue in freed.drain(..) {
            self.fair.group_rqs[queue].freed = false;
            if self.fair.group_rqs[queue].throttled {
                self.unthrottle(queue);
            }
        }
        if self.cpus[cpu].freed.is_empty() {
            // The list's memory is reused.
            self.cpus[cpu].freed = freed;
        }
    }

    /// The warm-up is over: counting of quotas begins.
    pub(crate) fn begin_counting_quotas(&mut self) {
        if !self.fair.any_quota {
            return;
        }
        let now = self.now;
        self.fair
            .groups
            .iter_mut()
            .filter_map(|g| g.bandwidth.as_mut())
            .for_each(|b| b.counts = Counts::default());
        for own in self.fair.group_rqs.iter_mut() {
            own.throttled_since = own.throttled_since.map(|_| now);
        }
    }

    /// The counts of groups with a quota, by metric name. A queue that is throttled at the end counts until then.
    pub(crate) fn quota_counts(&self) -> Vec<(String, u64)> {
        let mut all = Vec::new();
        for group in self.fair.groups.ids() {
            let Some(b) = &self.fair.groups[group].bandwidth else { continue };
            let queues = self.cpus.ids().map(|cpu| &self.fair.group_rqs[self.group_queue(group, cpu)]);
            let open_ns: u64 = queues.filter_map(|q| q.throttled_since).map(|at| self.now - at).sum();
            let c = b.counts;
            let counts = [
                ("nr_periods", c.periods),
                ("nr_throttled", c.throttled),
                ("throttled_time", c.throttled_ns + open_ns),
                ("nr_bursts", c.bursts),
                ("burst_time", c.burst_ns),
            ];
            let path = &self.fair.groups[group].path;
            all.extend(counts.map(|(name, n)| (format!("group.{path}.{name}"), n)));
        }
        all
    }
}
