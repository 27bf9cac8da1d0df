//! Applies the rules of CFS to the arenas: pick, tick, yield, wakeup preemption.

use super::{Cfs, Ordered, pick, preempt, tick};
use crate::class::{Arrival, Dequeue, Enqueue};
use crate::fair::Fair;
use crate::fair::entity::EntityId;
use crate::fair::rules::FairRules;
use crate::fair::runqueue::{CfsRq, CfsRqId};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::{Feature, Policy};
use schedlab_trace::SwitchReason;

impl FairRules for Cfs {
    fn update_curr(sys: &mut System<'_>, queue: CfsRqId) {
        if let Some(curr) = sys.charge(queue) {
            let e = &sys.fair.entities[curr];
            let history = &sys.fixed.history;
            let counts = (e.on_rq || !history.dequeued_curr_ignored) && !history.min_vruntime_of_tree;
            let vruntime = counts.then_some(e.vruntime);
            sys.fair.queues[queue].update_min_vruntime(vruntime);
            sys.account_quota(queue);
        }
    }
    fn charge(sys: &mut System<'_>, queue: CfsRqId) {
        Cfs::update_curr(sys, queue);
    }
    fn enqueue_entity(sys: &mut System<'_>, entity: EntityId, why: Enqueue) -> bool {
        sys.cfs_enqueue_entity::<Cfs>(entity, why);
        false
    }
    fn dequeue_entity(sys: &mut System<'_>, entity: EntityId, why: Dequeue) -> bool {
        sys.cfs_dequeue_entity(entity, why);
        true
    }
    fn put_entity(sys: &mut System<'_>, entity: EntityId) {
        let e = &sys.fair.entities[entity];
        let queue = e.cfs_rq;
        sys.fair.queues[queue].insert(entity, e.vruntime);
        sys.follow_tree(queue);
    }
    fn set_next_entity(sys: &mut System<'_>, entity: EntityId) {
        sys.cfs_set_next(entity);
    }
    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        sys.ordered_pick::<Cfs>(cpu, prev)
    }
    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason> {
        sys.cfs_tick(task)
    }
    fn yield_task(sys: &mut System<'_>, task: TaskId) {
        sys.cfs_yield(task);
    }
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool {
        sys.cfs_wakeup_preempt(cpu, curr, wakee)
    }
    fn requeue(sys: &mut System<'_>, entity: EntityId, moves: bool) {
        sys.cfs_requeue(entity, moves);
    }
    fn place_new(sys: &mut System<'_>, entity: EntityId) {
        sys.cfs_place_new(entity);
    }
    fn leave_for_good(sys: &mut System<'_>, entity: EntityId) {
        let min = sys.fair.queues[sys.fair.entities[entity].cfs_rq].min_vruntime;
        sys.make_relative(entity, min);
    }
    /// The group's entity becomes its queue's next buddy, so that the group may use up its slice (2.6.39).
    fn note_group_stays(sys: &mut System<'_>, queue: CfsRqId) {
        if let Some(owner) = sys.fair.queues[queue].owner {
            sys.set_next_buddy(owner);
        }
    }
    fn queued(_sys: &System<'_>, queue: &CfsRq) -> Result<Vec<(EntityId, i64)>, String> {
        let queued: Vec<_> = queue.queued().collect();
        if !queued.is_sorted_by_key(|(_, v)| *v) {
            return Err("the queue is out of order".into());
        }
        Ok(queued)
    }
}

impl Ordered for Cfs {
    const NORMALIZES: bool = false;

    fn pick_entity(sys: &mut System<'_>, queue: CfsRqId, left: EntityId) -> EntityId {
        sys.cfs_pick_entity(queue, left)
    }
}

/// The levels of a tree of groups, from a task's own upwards, on which its entities are known again.
const KNOWN_LEVELS: usize = 8;

impl System<'_> {
    /// Puts `prev` back, chooses the next task to run on `cpu` and makes its entities current (`pick_next_task_fair`).
    pub(in crate::fair) fn ordered_pick<R: Ordered>(
        &mut self,
        cpu: CpuId,
        prev: Option<TaskId>,
    ) -> Option<TaskId> {
        let before = prev.filter(|_| self.fixed.history.stay_is_no_pick);
        if let Some(p) = prev {
            Fair::<R>::put_prev(self, p);
        }
        let mut queue = self.root(cpu);
        let next = loop {
            let (left, _) = self.fair.queues[queue].leftmost()?;
            let entity = R::pick_entity(self, queue, left);
            if before.is_some_and(|before| self.is_of(entity, before)) {
                let exec = self.fair.entities[entity].prev_sum_exec;
                self.cfs_take(entity);
                self.fair.entities[entity].prev_sum_exec = exec;
            } else {
                self.cfs_set_next(entity);
            }
            let e = &self.fair.entities[entity];
            match (e.my_q, e.task) {
                (Some(below), _) => queue = below,
                (None, Some(task)) => break task,
                (None, None) => unreachable!("entity {entity:?} is neither a group's nor a task's"),
            }
        };
        self.note_picked(cpu, next);
        Some(next)
    }

    /// Whether an entity is a task's, or a group's that the task is in. The kernel neither puts back nor sets the ones
    /// that it picks again (the previous task, or groups that the next task shares with it): their turn continues, and
    /// their buddy marks stay (`pick_next_task_fair`).
    fn is_of(&self, entity: EntityId, task: TaskId) -> bool {
        let parent = |e: &EntityId| self.fair.entities[*e].parent;
        let upwards = std::iter::successors(Some(self.tasks[task].entity), parent);
        upwards.take(KNOWN_LEVELS).any(|e| e == entity)
    }

    fn cfs_set_next(&mut self, entity: EntityId) {
        self.fair.queues[self.fair.entities[entity].cfs_rq].clear_buddies(entity);
        self.cfs_take(entity);
    }

    /// An entity leaves its queue's tree and becomes current.
    fn cfs_take(&mut self, entity: EntityId) {
        let e = &self.fair.entities[entity];
        let queue = e.cfs_rq;
        self.fair.queues[queue].remove(entity, e.vruntime);
        self.follow_tree(queue);
        self.make_current(entity);
    }

    pub(in crate::fair) fn candidate(&self, entity: EntityId) -> pick::Candidate {
        let e = &self.fair.entities[entity];
        pick::Candidate { entity, vruntime: e.vruntime, slope: e.slope }
    }

    /// `pick_next_entity`: the leftmost, unless a buddy is close enough.
    fn cfs_pick_entity(&mut self, queue: CfsRqId, left: EntityId) -> EntityId {
        let q = &self.fair.queues[queue];
        if q.next.is_none() && q.last.is_none() && q.skip.is_none() {
            return left;
        }
        pick::pick(pick::PickFacts {
            left: self.candidate(left),
            second: q.second().map(|(e, _)| self.candidate(e)),
            skip: q.skip,
            next: q.next.map(|e| self.candidate(e)),
            last: q.last.map(|e| self.candidate(e)),
            wakeup_granularity_ns: self.fixed.gran.wakeup_ns,
        })
    }

    /// `task_tick_fair`.
    fn cfs_tick(&mut self, task: TaskId) -> Option<SwitchReason> {
        let mut level = Some(self.tasks[task].entity);
        let mut why = None;
        let slice_only = self.fixed.history.slice_only_tick;
        while let Some(entity) = level {
            let queue = self.fair.entities[entity].cfs_rq;
            Cfs::update_curr(self, queue);
            if self.tracks_load() || self.window_over(queue) {
                self.update_load(entity);
                Fair::<Cfs>::update_group(self, entity);
            }
            let (q, e) = (&self.fair.queues[queue], &self.fair.entities[entity]);
            if q.nr_running > 1 || slice_only && !self.has(Feature::WakeupPreemption) {
                let left = q.leftmost().map_or(e.vruntime, |(_, vruntime)| vruntime);
                let found = tick::check(tick::TickFacts {
                    ran_ns: e.ran_since_pick(),
                    slice_only,
                    slice_ns: self.slice_ns(entity),
                    min_granularity_ns: self.fixed.gran.min_ns,
                    ahead_ns: e.vruntime - left,
                });
                if found == Some(SwitchReason::TickSlice) {
                    self.clear_buddies(entity);
                }
                why = why.or(found);
            }
            level = self.fair.entities[entity].parent;
        }
        why
    }

    /// sched_yield: the entity is skipped at the next pick (2.6.39).
    fn cfs_yield(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        let queue = self.fair.entities[entity].cfs_rq;
        if self.fair.queues[queue].nr_running == 1 {
            return;
        }
        Cfs::update_curr(self, queue);
        self.clear_buddies(entity);
        self.fair.queues[queue].skip = Some(entity);
    }

    /// Whether a task just enqueued on `cpu` preempts `curr`; marks buddies as the kernel does.
    fn cfs_wakeup_preempt(&mut self, cpu: CpuId, curr: TaskId, arrival: Arrival) -> bool {
        let wakee = arrival.task;
        let (ce, we) = (self.tasks[curr].entity, self.tasks[wakee].entity);
        // The length of the running task's queue decides whether many compete.
        let many = u64::from(self.fair.queues[self.fair.entities[ce].cfs_rq].nr_running)
            >= self.fixed.gran.nr_latency;
        // Neither a new task nor a SCHED_IDLE one becomes a buddy.
        let idle = self.tasks[wakee].attr.policy == Policy::Idle;
        if self.has(Feature::NextBuddy) && many && arrival.how != Enqueue::New && !idle {
            self.set_next_buddy(we);
        }
        if self.cpus[cpu].need_resched.is_some() {
            return false;
        }
        let (cp, wp) = (self.tasks[curr].attr.policy, self.tasks[wakee].attr.policy);
        match preempt::by_policy(cp, wp, self.fixed.kernel.features) {
            preempt::ByPolicy::Preempt => return true,
            preempt::ByPolicy::Refuse => return false,
            preempt::ByPolicy::Compare => {}
        }
        let Some((c, w)) = self.matching_level(ce, we) else { return false };
        if let Some(preempts) = self.by_idleness(c, w) {
            return preempts;
        }
        let queue = self.fair.entities[w].cfs_rq;
        Cfs::update_curr(self, queue);
        let (cv, wv) = (self.fair.entities[c].vruntime, self.fair.entities[w].vruntime);
        let slope = self.fair.entities[w].slope;
        if preempt::behind(cv, wv, slope, self.fixed.gran.wakeup_ns) != preempt::Behind::Yes {
            return false;
        }
        self.set_next_buddy(w);
        let favoured = self.fair.entities[c].on_rq && self.fair.entities[c].task.is_some();
        if self.has(Feature::LastBuddy) && many && favoured && !self.is_idle_entity(c) {
            self.for_each_level(c, |q, e| q.last = Some(e));
        }
        true
    }

    /// Makes an entity and those above it the `next` buddies of their queues.
    pub(in crate::fair) fn set_next_buddy(&mut self, entity: EntityId) {
        if self.is_flat() {
            let line = self.line(self.fair.entities[entity].cfs_rq);
            self.fair.queues[line].next = Some(entity);
            return;
        }
        if !self.fair.any_idle_group && !self.fair.any_quota {
            return self.for_each_level(entity, |q, e| q.next = Some(e));
        }
        let mut level = Some(entity);
        // Neither a throttled group's entity nor an idle one becomes a buddy.
        while let Some(at) = level.filter(|at| self.fair.entities[*at].on_rq && !self.is_idle_entity(*at)) {
            let queue = self.fair.entities[at].cfs_rq;
            self.fair.queues[queue].next = Some(at);
            level = self.fair.entities[at].parent;
        }
    }

    /// Calls `each` for an entity and all above it, with their queues.
    pub(in crate::fair) fn for_each_level(
        &mut self,
        from: EntityId,
        mut each: impl FnMut(&mut CfsRq, EntityId),
    ) {
        let mut level = Some(from);
        while let Some(entity) = level {
            let e = &self.fair.entities[entity];
            level = e.parent;
            each(&mut self.fair.queues[e.cfs_rq], entity);
        }
    }
}
