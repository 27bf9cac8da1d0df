//! Applies EEVDF to the arenas: pick, put, set, yield, wakeup preemption.
//!
//! As in the kernel since 6.12, the next task is picked while the previous one is still current. So the previous one
//! competes with its protection, and if it is picked again it is neither put back nor given new protection.

use super::pick::{self, Current};
use super::preempt::{self, ByPolicy, ShortWakee};
use super::protect;
use super::queueing::LeaveReason;
use super::{Eevdf, invariants};
use crate::class::{Arrival, Dequeue, Enqueue};
use crate::fair::Fair;
use crate::fair::entity::EntityId;
use crate::fair::rules::FairRules;
use crate::fair::runqueue::{CfsRq, CfsRqId};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::{Feature, Policy};
use schedlab_trace::SwitchReason;

impl FairRules for Eevdf {
    fn update_curr(sys: &mut System<'_>, queue: CfsRqId) {
        if sys.is_flat() {
            return sys.flat_update_curr(sys.fair.queues[queue].cpu);
        }
        if sys.charge(queue).is_some() {
            sys.account_quota(queue);
            sys.check_slice(queue);
        }
    }
    fn charge(sys: &mut System<'_>, queue: CfsRqId) {
        sys.charge(queue);
    }
    fn enqueue_entity(sys: &mut System<'_>, entity: EntityId, why: Enqueue) -> bool {
        let delayed = sys.fair.entities[entity].delayed;
        if delayed {
            sys.requeue_delayed(entity)
        } else {
            sys.eevdf_enqueue_entity(entity, why)
        }
        delayed
    }
    fn dequeue_entity(sys: &mut System<'_>, entity: EntityId, why: Dequeue) -> bool {
        sys.eevdf_dequeue_entity(entity, LeaveReason::of(why))
    }
    fn dequeue_throttled(sys: &mut System<'_>, entity: EntityId) {
        let how = if sys.fair.entities[entity].delayed { LeaveReason::Delayed } else { LeaveReason::Ends };
        sys.eevdf_dequeue_entity(entity, how);
    }
    fn put_entity(sys: &mut System<'_>, entity: EntityId) {
        if !sys.only_accounts(entity) {
            sys.line_up(entity);
        }
    }
    fn enqueued(sys: &mut System<'_>, task: TaskId, why: Enqueue) {
        if sys.is_flat() {
            sys.enter_line(sys.tasks[task].entity, why == Enqueue::New);
        }
    }
    fn set_next_entity(sys: &mut System<'_>, entity: EntityId) {
        if sys.only_accounts(entity) {
            return sys.make_current(entity);
        }
        let e = &sys.fair.entities[entity];
        let (queue, deadline) = (sys.line(e.cfs_rq), e.deadline);
        let q = &mut sys.fair.queues[queue];
        q.clear_buddies(entity);
        q.timeline.remove(entity, deadline);
        // Its protection is computed before it counts as current.
        let vprot = protect::until(sys.protection(entity));
        sys.fair.entities[entity].vprot = vprot;
        sys.make_current(entity);
    }
    /// Picks the next task while the previous one is still current.
    fn pick_next_task(sys: &mut System<'_>, cpu: CpuId, prev: Option<TaskId>) -> Option<TaskId> {
        let next = sys.eevdf_pick(cpu);
        if next != prev {
            // Groups that contain both tasks stay current.
            let common = prev.zip(next).and_then(|(p, n)| {
                let (p, n) = (sys.tasks[p].entity, sys.tasks[n].entity);
                sys.matching_level(p, n).and_then(|(e, _)| sys.fair.entities[e].parent)
            });
            if let Some(p) = prev {
                Fair::<Eevdf>::put_prev_below(sys, p, common);
            }
            if let Some(n) = next {
                sys.eevdf_set_next(cpu, n, common);
            }
        }
        sys.hrtick_picked(cpu, prev, next);
        next
    }
    fn drain(sys: &mut System<'_>, cpu: CpuId) {
        sys.eevdf_pick(cpu);
    }
    fn task_tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason> {
        sys.eevdf_tick(task);
        None
    }
    fn yield_task(sys: &mut System<'_>, task: TaskId) {
        sys.eevdf_yield(task);
    }
    fn wakeup_preempt(sys: &mut System<'_>, cpu: CpuId, curr: TaskId, wakee: Arrival) -> bool {
        sys.eevdf_wakeup_preempt(cpu, curr, wakee)
    }
    /// A new entity has no lag yet, and is placed when it is enqueued.
    fn place_new(_sys: &mut System<'_>, _entity: EntityId) {}
    fn leave_for_good(_sys: &mut System<'_>, _entity: EntityId) {}
    fn before_reweight(sys: &mut System<'_>, entity: EntityId, fine: u64) {
        sys.step_out(entity, fine);
    }
    fn after_reweight(sys: &mut System<'_>, entity: EntityId, was_on_rq: bool) {
        sys.step_in(entity, was_on_rq);
    }
    fn note_group_stays(sys: &mut System<'_>, queue: CfsRqId) {
        if sys.is_flat() {
            return;
        }
        if let Some(owner) = sys.fair.queues[queue].owner {
            sys.set_next_buddy(owner);
        }
    }
    fn queued(sys: &System<'_>, queue: &CfsRq) -> Result<Vec<(EntityId, i64)>, String> {
        invariants::queued(sys, queue)
    }
    fn queue_changed(sys: &mut System<'_>, cpu: CpuId, joined: bool) {
        sys.hrtick_update(cpu, joined);
    }
}

impl System<'_> {
    /// The next task to run on `cpu`. Delayed entities whose turn comes are taken off on the way. If only delayed ones
    /// are left, all of them are taken off.
    pub(super) fn eevdf_pick(&mut self, cpu: CpuId) -> Option<TaskId> {
        let mut queue = self.root(cpu);
        loop {
            // An entity that has left the queue was charged already (`pick_task_fair` tests `on_rq`).
            if self.line_curr(queue).is_some_and(|c| self.fair.entities[c].on_rq) {
                Eevdf::update_curr(self, queue);
            }
            if Fair::<Eevdf>::check_quota(self, queue) {
                queue = self.root(cpu);
                continue;
            }
            let entity = self.pick_eligible(queue, true)?;
            let e = &self.fair.entities[entity];
            if e.delayed {
                self.drop_delayed(entity);
                queue = self.root(cpu);
            } else if let Some(below) = e.my_q {
                queue = below;
            } else {
                return e.task;
            }
        }
    }

    /// The next entity to run; `protect`: whether the current entity's protection counts.
    fn pick_eligible(&self, queue: CfsRqId, protect: bool) -> Option<EntityId> {
        let buddies = protect || !self.fixed.history.short_buddies;
        self.pick_among(queue, protect, buddies)
    }

    /// The same; `buddies`: whether the `next` buddy counts.
    fn pick_among(&self, queue: CfsRqId, protect: bool, buddies: bool) -> Option<EntityId> {
        let line = self.line(queue);
        let q = &self.fair.queues[line];
        let history = &self.fixed.history;
        // The feature decides whether protection counts or, in later kernels, how long it lasts.
        let protect = protect && (self.has(Feature::RunToParity) || history.protects_shortest);
        let current = self.line_curr(line).and_then(|c| {
            let e = &self.fair.entities[c];
            let protected = protect && e.vruntime < e.vprot;
            e.on_rq.then_some(Current { entity: c, vruntime: e.vruntime, deadline: e.deadline, protected })
        });
        let counts =
            if history.pick_buddy { self.has(Feature::PickBuddy) } else { self.has(Feature::NextBuddy) };
        let next = q.next.filter(|_| counts && buddies).map(|n| (n, self.fair.entities[n].vruntime));
        pick::pick(&q.timeline, self.average(queue), current, next)
    }

    /// The same, but takes off delayed entities whose turn it would be. Otherwise one of them could be picked although
    /// the wakee would actually run (6.19).
    fn pick_awake(&mut self, queue: CfsRqId, protect: bool) -> Option<EntityId> {
        loop {
            let picked = self.pick_eligible(queue, protect)?;
            if !self.fair.entities[picked].delayed {
                return Some(picked);
            }
            self.drop_delayed(picked);
        }
    }

    /// Takes a delayed entity whose turn has come off its queues; its task leaves the CPU.
    fn drop_delayed(&mut self, entity: EntityId) {
        let tasks = u32::from(self.fair.entities[entity].task.is_some());
        self.leave_levels(entity, LeaveReason::Delayed, tasks);
        if let Some(task) = self.fair.entities[entity].task {
            let cpu = self.tasks[task].cpu;
            self.leave_list(cpu, task, Some(self.idle_at_root(task)));
            self.refresh_idle(cpu);
        }
    }

    /// Makes the entities of `task` current, at every level below the entity `below`.
    fn eevdf_set_next(&mut self, cpu: CpuId, task: TaskId, below: Option<EntityId>) {
        let mut level = Some(self.tasks[task].entity);
        while let Some(entity) = level.filter(|e| Some(*e) != below) {
            let e = &self.fair.entities[entity];
            let competes = !self.only_accounts(entity);
            debug_assert!(
                !competes || self.average(e.cfs_rq).eligible(e.vruntime),
                "{e:?} is picked though not eligible"
            );
            level = e.parent;
            Eevdf::set_next_entity(self, entity);
        }
        let own = self.tasks[task].entity;
        if self.is_divided(own) {
            self.divide_weight(own);
            self.fair.entities[own].vprot = protect::until(self.protection(own));
        }
        self.note_throttled(own);
        self.note_picked(cpu, task);
    }

    /// The facts on which an entity's protection depends, while it is not on the timeline.
    pub(super) fn protection(&self, entity: EntityId) -> protect::ProtectFacts {
        let e = &self.fair.entities[entity];
        let bound = || {
            if self.has(Feature::RunToParity) {
                self.shortest_slice_ns(e.cfs_rq).unwrap_or(e.slice_ns)
            } else {
                self.fixed.kernel.tunables.base_slice_ns
            }
        };
        protect::ProtectFacts {
            vruntime: e.vruntime,
            deadline: e.deadline,
            slope: e.slope,
            slice_ns: e.slice_ns,
            bound_ns: self.fixed.history.protects_shortest.then(bound),
            // Without RUN_TO_PARITY the base slice is the bound, not the shorter slice of a waiting task.
            others: (self.short_buddies() && self.has(Feature::RunToParity))
                .then(|| self.fair.queues[self.line(e.cfs_rq)].timeline.average().time()),
        }
    }

    /// Whether wakees with shorter slices preempt as in 7.3.
    fn short_buddies(&self) -> bool {
        self.fixed.history.short_buddies && self.has(Feature::PreemptShort)
    }

    /// The shortest slice on a queue, including its current entity, ns.
    pub(super) fn shortest_slice_ns(&self, queue: CfsRqId) -> Option<u64> {
        let line = self.line(queue);
        let q = &self.fair.queues[line];
        let curr =
            self.line_curr(line).map(|c| &self.fair.entities[c]).filter(|e| e.on_rq).map(|e| e.slice_ns);
        q.timeline.shortest_slice_ns().into_iter().chain(curr).min()
    }

    /// The tick of the running task: charges it, which requests a switch if one is due.
    fn eevdf_tick(&mut self, task: TaskId) {
        let mut level = Some(self.tasks[task].entity);
        while let Some(entity) = level {
            let queue = self.fair.entities[entity].cfs_rq;
            Eevdf::update_curr(self, queue);
            self.update_load(entity);
            Fair::<Eevdf>::update_group(self, entity);
            let (line, time) = (self.line(queue), self.average(queue).time());
            self.fair.queues[line].timeline.rebase(time);
            level = self.fair.entities[entity].parent;
        }
        let own = self.tasks[task].entity;
        if self.is_divided(own) {
            self.divide_weight(own);
        }
    }

    /// sched_yield: an eligible task gives up the rest of its slice. In the first kernels a yield moved only the
    /// deadline.
    fn eevdf_yield(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        let queue = self.fair.entities[entity].cfs_rq;
        if self.nr_on_line(self.line(queue)) == 1 {
            return;
        }
        self.clear_buddies(entity);
        Eevdf::update_curr(self, queue);
        let forfeits = self.fixed.history.yield_forfeits;
        if forfeits && !self.average(queue).eligible(self.fair.entities[entity].vruntime) {
            return;
        }
        let e = &mut self.fair.entities[entity];
        if forfeits {
            e.vruntime = e.deadline;
        }
        e.deadline += e.slope.virtual_ns(e.slice_ns) as i64;
    }

    /// Whether a task just enqueued on `cpu` preempts `curr`.
    fn eevdf_wakeup_preempt(&mut self, cpu: CpuId, curr: TaskId, arrival: Arrival) -> bool {
        let Arrival { task: wakee, how, sync } = arrival;
        let (ce, we) = (self.tasks[curr].entity, self.tasks[wakee].entity);
        let (cp, wp) = (self.tasks[curr].attr.policy, self.tasks[wakee].attr.policy);
        let apart = self.fixed.history.judges_wakees_apart;
        // A balancer has moved it, and it still sleeps.
        let delayed = self.fair.entities[we].delayed;
        if self.has(Feature::NextBuddy) && !apart && how != Enqueue::New && wp != Policy::Idle && !delayed {
            self.set_next_buddy(we);
        }
        if self.cpus[cpu].must_resched() && !self.short_buddies() {
            return false;
        }
        let matching = if self.is_flat() { Some((ce, we)) } else { self.matching_level(ce, we) };
        let Some((c, w)) = matching else { return false };
        let queue = self.line(self.fair.entities[w].cfs_rq);
        // On a flat timeline only the tasks' own policies count.
        let by_level = self.fixed.history.idle_by_level && !self.is_flat();
        let (c_is_idle, w_is_idle) = match by_level {
            true => (self.is_idle_entity(c), self.is_idle_entity(w)),
            false => (cp == Policy::Idle, wp == Policy::Idle),
        };
        let by_policy = preempt::by_policy(c_is_idle, w_is_idle, wp, self.fixed.kernel.features);
        if let Some(preempts) = self.judged_by_policy(queue, c, by_policy, delayed) {
            return preempts;
        }
        if let Some(preempts) = self.by_idleness(c, w).filter(|_| !by_level && !self.is_flat()) {
            return preempts;
        }
        Eevdf::update_curr(self, queue);
        let short = self.has(Feature::PreemptShort)
            && self.fair.entities[w].slice_ns < self.fair.entities[c].slice_ns;
        if apart {
            if how == Enqueue::New && !short && self.fixed.history.short_buddies {
                self.bound_protection(queue, c);
            }
            let wakes = how != Enqueue::New && !delayed;
            let competes = short || wakes && !(self.becomes_next(queue, w) && sync);
            return competes && self.preempts_protected(queue, c, w, short);
        }
        if short && preempt::ends_protection(self.short_wakee(queue, c, w)) {
            self.end_protection(c);
        }
        // A buddy is preferred when the next task is picked, not when a wakee is judged.
        self.pick_among(queue, true, false) == Some(w)
    }

    /// Whether a wakee preempts `c` by the policies alone; `None`: they leave that open. `delayed`: it still sleeps.
    fn judged_by_policy(&mut self, queue: CfsRqId, c: EntityId, by: ByPolicy, delayed: bool) -> Option<bool> {
        let bounds = match by {
            ByPolicy::Preempt => {
                self.end_protection(c);
                return Some(true);
            }
            // 7.3 refuses a delayed entity like a SCHED_BATCH one.
            ByPolicy::Pick if delayed && self.fixed.history.short_buddies => true,
            ByPolicy::Refuse => self.fixed.history.short_buddies && self.has(Feature::WakeupPreemption),
            ByPolicy::Pick => return None,
        };
        if bounds {
            Eevdf::update_curr(self, queue);
            self.bound_protection(queue, c);
        }
        Some(false)
    }

    /// NEXT_BUDDY as of 6.19: a wakee becomes the buddy unless there is one with an earlier deadline. If its waker is
    /// about to sleep, it then waits for that. (The kernel means to wait for only a part of sched_migration_cost, but
    /// reads the waker's running time right after it was accounted.)
    fn becomes_next(&mut self, queue: CfsRqId, w: EntityId) -> bool {
        let deadline = |e: EntityId| self.fair.entities[e].deadline;
        let earlier = self.fair.queues[queue].next.is_some_and(|n| deadline(n) < deadline(w));
        let becomes = self.has(Feature::NextBuddy) && !earlier;
        if becomes {
            self.set_next_buddy(w);
        }
        becomes
    }

    /// 6.17 and later. A wakee with a shorter slice is judged as if there were no protection; in 7.3 it preempts if it
    /// is eligible, and is picked next. Any other wakee waits at most for the queue's shortest slice.
    fn preempts_protected(&mut self, queue: CfsRqId, c: EntityId, w: EntityId, short: bool) -> bool {
        let buddy = short && self.short_buddies();
        let picked = self.pick_awake(queue, !short) == Some(w);
        let preempts = picked || buddy && self.average(queue).eligible(self.fair.entities[w].vruntime);
        if !preempts {
            self.bound_protection(queue, c);
            return false;
        }
        if short || self.fixed.history.short_buddies {
            self.end_protection(c);
        }
        let slice = |e: EntityId| self.fair.entities[e].slice_ns;
        if buddy && self.fair.queues[queue].next.is_none_or(|n| slice(n) >= slice(w)) {
            self.set_next_buddy(w);
        }
        true
    }

    /// RUN_TO_PARITY since 6.17: a waiting task waits at most for the queue's shortest slice from now on. In 7.3 that
    /// counts from the queue's virtual time, if the running entity is ahead of it (`update_protect_slice`).
    fn bound_protection(&mut self, queue: CfsRqId, c: EntityId) {
        if !self.has(Feature::RunToParity) {
            return;
        }
        let bound = self.shortest_slice_ns(queue).unwrap_or(0);
        let time = self.fixed.history.short_buddies.then(|| self.average(queue).time());
        let e = &mut self.fair.entities[c];
        let from = time.map_or(e.vruntime, |time| time.min(e.vruntime));
        e.vprot = protect::shortened(e.vprot, from, e.slope, bound);
    }

    fn short_wakee(&self, queue: CfsRqId, c: EntityId, w: EntityId) -> ShortWakee {
        let (average, c, w) = (self.average(queue), &self.fair.entities[c], &self.fair.entities[w]);
        ShortWakee {
            wakee_eligible: average.eligible(w.vruntime),
            earlier: w.deadline < c.deadline,
            curr_eligible: average.eligible(c.vruntime),
        }
    }

    /// `cancel_protect_slice`.
    fn end_protection(&mut self, entity: EntityId) {
        let e = &mut self.fair.entities[entity];
        e.vprot = e.vprot.min(e.vruntime);
    }
}
