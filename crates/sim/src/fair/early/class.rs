//! Applies the early rules to the arenas: wakeup preemption, pick, yield, and the tasks' records of their wakeups.

use super::{Early, pick, preempt};
use crate::class::{Arrival, Dequeue, Enqueue};
use crate::fair::cfs::pick::Candidate;
use crate::fair::cfs::preempt::{Behind, ByPolicy, by_distance};
use crate::fair::cfs::{Cfs, Ordered};
use crate::fair::entity::EntityId;
use crate::fair::rules::FairRules;
use crate::fair::runqueue::{CfsRq, CfsRqId};
use crate::system::System;
use crate::task::TaskState;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::{Feature, Policy};
use schedlab_trace::SwitchReason;

impl FairRules for Early {
    fn update_curr(sys: &mut System<'_>, queue: CfsRqId) {
        Cfs::update_curr(sys, queue);
    }
    fn charge(sys: &mut System<'_>, queue: CfsRqId) {
        Cfs::charge(sys, queue);
    }
    fn enqueue_entity(sys: &mut System<'_>, entity: EntityId, why: Enqueue) -> bool {
        sys.cfs_enqueue_entity::<Early>(entity, why);
        false
    }
    fn dequeue_entity(sys: &mut System<'_>, entity: EntityId, why: Dequeue) -> bool {
        Cfs::dequeue_entity(sys, entity, why)
    }
    fn put_entity(sys: &mut System<'_>, entity: EntityId) {
        Cfs::put_entity(sys, entity);
    }
    fn set_next_entity(sys: &mut System<'_>, entity: EntityId) {
        Cfs::set_next_entity(sys, entity);
    }
    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        sys.ordered_pick::<Early>(cpu, prev)
    }
    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason> {
        Cfs::task_tick(sys, task)
    }
    fn yield_task(sys: &mut System<'_>, task: TaskId) {
        if sys.fair.queues[sys.entity(task).cfs_rq].nr_running > 1 {
            sys.yield_early(task);
        }
    }
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool {
        sys.check_preempt_early(cpu, curr, wakee)
    }
    fn place_new(sys: &mut System<'_>, entity: EntityId) {
        Cfs::place_new(sys, entity);
    }
    fn leave_for_good(sys: &mut System<'_>, entity: EntityId) {
        Cfs::leave_for_good(sys, entity);
    }
    fn queued(sys: &System<'_>, queue: &CfsRq) -> Result<Vec<(EntityId, i64)>, String> {
        Cfs::queued(sys, queue)
    }
    fn note_sleep(sys: &mut System<'_>, task: TaskId, sleeps: bool) {
        if sys.fixed.history.overlap_averages {
            sys.note_sleep(task, sleeps);
        }
    }
    fn note_put(sys: &mut System<'_>, task: TaskId) {
        sys.note_preempted(task);
    }
}

impl Ordered for Early {
    const NORMALIZES: bool = true;

    fn pick_entity(sys: &mut System<'_>, queue: CfsRqId, left: EntityId) -> EntityId {
        sys.pick_early(queue, sys.candidate(left))
    }
}

impl System<'_> {
    /// Whether a task just enqueued on `cpu` preempts `curr`; both become buddies.
    fn check_preempt_early(&mut self, cpu: CpuId, curr: TaskId, arrival: Arrival) -> bool {
        let Arrival { task: wakee, sync, .. } = arrival;
        let (ce, we) = (self.tasks[curr].entity, self.tasks[wakee].entity);
        let queue = self.fair.entities[ce].cfs_rq;
        Cfs::update_curr(self, queue);
        self.make_buddies(curr, wakee);
        if self.cpus[cpu].need_resched.is_some() {
            return false;
        }
        let policy = |t: TaskId| self.tasks[t].attr.policy;
        let features = self.fixed.kernel.features;
        match preempt::by_policy(policy(curr), policy(wakee), features, self.fixed.history.next_buddy_only) {
            ByPolicy::Preempt => return true,
            ByPolicy::Refuse => return false,
            ByPolicy::Compare => {}
        }
        if self.has(Feature::WakeupOverlap) {
            let overlaps = [curr, wakee].map(|t| self.tasks[t].overlap.avg_overlap_ns);
            if preempt::by_overlap(sync, overlaps, self.fixed.kernel.tunables.migration_cost_ns) {
                return true;
            }
        }
        let mut level = self.matching_level(ce, we);
        while let Some((c, w)) = level {
            if self.is_behind_early(c, w) {
                return true;
            }
            // One level up the two may be the same entity, and an entity is not ahead of itself.
            let parent = |e: EntityId| self.fair.entities[e].parent;
            level = parent(c).zip(parent(w));
        }
        false
    }

    /// On every level the running task becomes `last` and the wakee `next`, before the decision (2.6.30). Idle tasks
    /// never become buddies.
    fn make_buddies(&mut self, curr: TaskId, wakee: TaskId) {
        let next_only = self.fixed.history.next_buddy_only;
        let favoured = |s: &Self, t: TaskId| next_only || s.tasks[t].attr.policy != Policy::Idle;
        let ce = self.tasks[curr].entity;
        let stays = self.fair.entities[ce].on_rq;
        if self.has(Feature::LastBuddy) && !next_only && stays && favoured(self, curr) {
            self.for_each_level(ce, |q, e| q.last = Some(e));
        }
        if favoured(self, wakee) {
            self.for_each_level(self.tasks[wakee].entity, |q, e| q.next = Some(e));
        }
    }

    /// Whether `wakee` is further behind `curr` than the granularity allows.
    fn is_behind_early(&self, curr: EntityId, wakee: EntityId) -> bool {
        let (c, w) = (&self.fair.entities[curr], &self.fair.entities[wakee]);
        let queue = &self.fair.queues[c.cfs_rq];
        let adaptive = (queue.curr.is_some() && self.has(Feature::AdaptiveGran)).then(|| preempt::Adaptive {
            avg_wakeup_ns: w.task.map_or(0, |t| self.tasks[t].overlap.avg_wakeup_ns),
            nr_running: u64::from(queue.nr_running),
            this_run_ns: c.ran_since_pick(),
        });
        let granularity = preempt::granularity(&preempt::PreemptFacts {
            wakeup_granularity_ns: self.fixed.gran.wakeup_ns,
            adaptive,
            asym: self.has(Feature::AsymGran),
            curr_weight: c.weight,
            wakee_weight: w.weight,
            by_runner: self.fixed.history.granularity_by_runner,
            unit: self.weight_unit(c.cfs_rq, 0),
        });
        by_distance(c.vruntime, w.vruntime, granularity) == Behind::Yes
    }

    /// The next entity to run on a queue; `left` is the leftmost.
    fn pick_early(&mut self, queue: CfsRqId, left: Candidate) -> EntityId {
        let q = &self.fair.queues[queue];
        let (next, last) = (q.next, q.last);
        if !self.fixed.history.next_buddy_only {
            let of = |e: EntityId| self.candidate(e);
            return pick::pick(&pick::PickFacts {
                left,
                next: next.map(of),
                last: last.map(of),
                wakeup_granularity_ns: self.fixed.gran.wakeup_ns,
                asym: self.has(Feature::AsymGran),
            });
        }
        let clock = self.cpus[q.cpu].clock.read(self.now);
        let pair_ran = clock - q.pair_since;
        if let Some(next) = next.filter(|n| pick::pair_goes_on(pair_ran, self.slice_ns(*n))) {
            return next;
        }
        self.fair.queues[queue].pair_since = clock;
        left.entity
    }

    /// sched_yield before 2.6.39: the task is charged for the time it has run and keeps its place. With compat_yield,
    /// or under SCHED_BATCH, it goes behind all others.
    fn yield_early(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        let queue = self.fair.entities[entity].cfs_rq;
        self.for_each_level(entity, CfsRq::clear_buddies);
        let behind =
            self.fixed.kernel.tunables.compat_yield == 1 || self.tasks[task].attr.policy == Policy::Batch;
        if !behind {
            return Cfs::update_curr(self, queue);
        }
        if let Some((_, right)) = self.fair.queues[queue].rightmost() {
            let e = &mut self.fair.entities[entity];
            // A task that is already behind all others keeps its place.
            if right >= e.vruntime {
                e.vruntime = right + 1;
            }
        }
    }

    /// The current task of `by` wakes another, which will be on `to`.
    pub fn note_waking(&mut self, by: CpuId, to: CpuId) {
        let Some(waker) = self.cpus[by].curr else { return };
        if by == to {
            // The enqueue charges the waker at this instant.
            self.charge_curr(by);
        }
        let sum_exec = self.entity(waker).sum_exec;
        self.tasks[waker].overlap.wakes(sum_exec);
    }

    /// A task was woken, or goes to sleep.
    fn note_sleep(&mut self, task: TaskId, sleeps: bool) {
        let sum_exec = self.entity(task).sum_exec;
        let overlap = &mut self.tasks[task].overlap;
        if sleeps {
            overlap.sleeps(sum_exec, self.fixed.gran.wakeup_ns);
        } else {
            overlap.woken(sum_exec);
        }
    }

    /// A running task is put back, or moved by the stopper, while it still has work: it has continued to run since its
    /// last wakeup of another task, and there is no sleep at which that time would be averaged (2.6.30).
    fn note_preempted(&mut self, task: TaskId) {
        let (t, history) = (&self.tasks[task], &self.fixed.history);
        if !history.overlap_grows || t.state != TaskState::Runnable {
            return;
        }
        // A task that changes its class is taken off and put back without it.
        let carried = self.cpus[t.cpu].carried.is_some_and(|(carried, ..)| carried == task);
        if t.on_rq || carried {
            let ran_ns = self.entity(task).ran_since_pick();
            let cost_ns = self.fixed.kernel.tunables.migration_cost_ns;
            self.tasks[task].overlap.preempted(ran_ns, cost_ns);
        }
    }

    /// Whether the kernel believes a waker that says it is about to sleep. It does not if the waker, or the wakee,
    /// usually runs for long after waking others (`wake_affine`, 2.6.30).
    pub fn believes_sync(&self, waker: TaskId, wakee: TaskId) -> bool {
        let cost = self.fixed.kernel.tunables.migration_cost_ns;
        // Kernels before 2.6.29 always believe it.
        !self.fixed.history.sync_by_overlap
            || [waker, wakee].iter().all(|t| self.tasks[*t].overlap.avg_overlap_ns <= cost)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::upkeep_tests::{born, with_system};

    #[test]
    fn a_task_that_is_preempted_repeatedly_is_no_longer_believed_in_2_6_30() {
        for (version, believed) in [("v2.6.27", true), ("v2.6.30", false)] {
            with_system(version, |sys| {
                let (cpu, cost_ns) = (CpuId(0), sys.fixed.kernel.tunables.migration_cost_ns);
                let tasks = [(); 2].map(|()| born(sys, cpu));
                let mut curr = None;
                for _ in 0..40 {
                    curr = sys.pick_next_task(cpu, curr);
                    sys.cpus[cpu].curr = curr;
                    sys.now += 10 * cost_ns;
                    sys.charge_curr(cpu);
                }
                assert_eq!(sys.believes_sync(tasks[0], tasks[1]), believed, "{version}");
                let overlap_ns = sys.tasks[tasks[0]].overlap.avg_overlap_ns;
                let range = if believed { 0..=0 } else { cost_ns..=2 * cost_ns };
                assert!(range.contains(&overlap_ns), "{version}: {overlap_ns} ns");
            });
        }
    }
}
