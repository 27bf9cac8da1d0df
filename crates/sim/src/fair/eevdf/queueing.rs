//! Puts entities on an EEVDF queue and takes them off: placement, lag, deadlines and weights, applied to the arenas.
//!
//! Invariant: the timeline has each queued entity, except the current one, with its present values. An entity on no
//! queue has its lag and, if it left while runnable, a distance to its deadline.

use super::Eevdf;
use super::average::Average;
use super::lag::{self, LagLimit};
use super::placement;
use super::protect;
use super::timeline::Node;
use crate::class::{Dequeue, Enqueue};
use crate::fair::Fair;
use crate::fair::entity::EntityId;
use crate::fair::rules::FairRules;
use crate::fair::runqueue::CfsRqId;
use crate::system::System;
use schedlab_base::Ns;
use schedlab_kernel::Feature;
use schedlab_kernel::policy::SLICES;
use schedlab_trace::SwitchReason;

/// Why an entity is taken off its queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum LeaveReason {
    /// Its task goes to sleep.
    Sleeps,
    Ends,
    /// Its task moves while runnable.
    Moves,
    /// It was delayed and is now taken off.
    Delayed,
}

impl LeaveReason {
    pub(super) fn of(why: Dequeue) -> LeaveReason {
        match why {
            Dequeue::Sleep => LeaveReason::Sleeps,
            Dequeue::Exit | Dequeue::Throttle => LeaveReason::Ends,
            Dequeue::Move => LeaveReason::Moves,
        }
    }
}

impl System<'_> {
    /// Sums of a queue, including its current entity.
    #[inline]
    pub(in crate::fair) fn average(&self, queue: CfsRqId) -> Average {
        let line = self.line(queue);
        let q = &self.fair.queues[line];
        match self.line_curr(line).map(|c| &self.fair.entities[c]).filter(|e| e.on_rq) {
            Some(e) => q.timeline.average().with(e.vruntime, e.line_weight),
            None => q.timeline.average(),
        }
    }

    /// The slice of an entity, ns: its task's own, if it requested one, else the scaled base slice.
    fn slice_request_ns(&self, entity: EntityId) -> u64 {
        if let Some(below) = self.fair.entities[entity].my_q
            && self.fixed.history.custom_slices
            && let Some(shortest) = self.shortest_slice_ns(below)
        {
            // A group's slice is the shortest of its queue, so that the group can serve each entity in time.
            return shortest;
        }
        let asked = match self.fair.entities[entity].task {
            Some(t) if self.fixed.history.custom_slices => self.tasks[t].attr.slice.into(),
            _ => Ns::ZERO,
        };
        match asked {
            Ns::ZERO => self.fixed.gran.base_ns,
            slice => slice.clamp(*SLICES.start(), *SLICES.end()).0,
        }
    }

    /// The limit of an entity's lag on its queue, virtual ns.
    pub(crate) fn lag_limit(&self, entity: EntityId) -> i64 {
        let e = &self.fair.entities[entity];
        let line = self.line(e.cfs_rq);
        let q = &self.fair.queues[line];
        let longest = || {
            let curr =
                self.line_curr(line).map(|c| &self.fair.entities[c]).filter(|c| c.on_rq).map(|c| c.slice_ns);
            e.slice_ns.max(q.timeline.longest_slice_ns().unwrap_or(0)).max(curr.unwrap_or(0))
        };
        let longest_ns = self.fixed.history.lag_by_longest.then(longest);
        let limit = LagLimit { slice_ns: e.slice_ns, longest_ns, tick_ns: self.fixed.tick_ns };
        e.slope.virtual_ns(limit.real_ns()) as i64
    }

    /// An entity's lag on its queue, limited as when it leaves.
    pub(super) fn lag_of(&self, entity: EntityId) -> i64 {
        let e = &self.fair.entities[entity];
        lag::lag(self.average(e.cfs_rq).time(), e.vruntime, self.lag_limit(entity))
    }

    /// The running entity of `queue` was just charged: requests a switch if its slice is used up or its protection over
    /// (`update_deadline` and the code after it).
    pub(super) fn check_slice(&mut self, queue: CfsRqId) {
        let Some(curr) = self.line_curr(queue) else { return };
        if !self.fair.entities[curr].on_rq {
            return;
        }
        let slice = self.slice_request_ns(curr);
        let e = &mut self.fair.entities[curr];
        let used_up = e.vruntime >= e.deadline;
        if used_up {
            e.slice_ns = slice;
            e.deadline = e.vruntime + e.slope.virtual_ns(slice) as i64;
        }
        if self.nr_on_line(queue) == 1 {
            return;
        }
        if used_up || self.protection_over(queue, curr) {
            let cpu = self.fair.queues[queue].cpu;
            self.resched_fair(self.stepping.acting, cpu, SwitchReason::TickSlice);
            self.clear_buddies(curr);
        }
    }

    /// Whether the running entity must leave before its deadline. Since 6.17: when its protection ends. Before
    /// (PREEMPT_SHORT): once it has had its share and has no protection, because a wakee with a shorter slice ended it,
    /// or because the entity is in a second slice without having been switched out.
    fn protection_over(&self, queue: CfsRqId, curr: EntityId) -> bool {
        let e = &self.fair.entities[curr];
        e.vruntime >= e.vprot
            && (self.fixed.history.protects_shortest
                || (self.has(Feature::PreemptShort) && !self.average(queue).eligible(e.vruntime)))
    }

    /// Places an entity, which is on no queue, on the one that it is about to join.
    pub(super) fn place(&mut self, entity: EntityId, initial: bool) {
        let slice_ns = self.slice_request_ns(entity);
        let average = self.average(self.fair.entities[entity].cfs_rq);
        let keeps_lag = self.has(Feature::PlaceLag);
        let relative = self.has(Feature::PlaceRelDeadline);
        let initial = initial && self.has(Feature::PlaceDeadlineInitial);
        let e = &mut self.fair.entities[entity];
        let to_deadline = (std::mem::take(&mut e.rel_deadline) && relative).then_some(e.deadline);
        let lag = if keeps_lag { e.vlag } else { 0 };
        let slice = e.slope.virtual_ns(slice_ns) as i64;
        let facts =
            placement::PlacementFacts { average, weight: e.line_weight, lag, slice, to_deadline, initial };
        (e.vruntime, e.deadline) = placement::place(facts);
        e.slice_ns = slice_ns;
    }

    /// Puts an entity into its queue's timeline.
    pub(in crate::fair) fn line_up(&mut self, entity: EntityId) {
        let queue = self.line(self.fair.entities[entity].cfs_rq);
        let time = self.average(queue).time();
        let timeline = &mut self.fair.queues[queue].timeline;
        timeline.rebase(time);
        timeline.insert(Node::of(entity, &self.fair.entities[entity]));
    }

    pub(super) fn eevdf_enqueue_entity(&mut self, entity: EntityId, why: Enqueue) {
        let queue = self.fair.entities[entity].cfs_rq;
        Eevdf::update_curr(self, queue);
        self.update_load(entity);
        self.attach_load(entity);
        if !self.is_flat() {
            self.place(entity, why == Enqueue::New);
        }
        let e = &mut self.fair.entities[entity];
        e.on_rq = true;
        let q = &mut self.fair.queues[queue];
        q.load_fine += e.fine_weight;
        q.nr_running += 1;
        if q.curr != Some(entity) && !self.is_flat() {
            self.line_up(entity);
        }
        Fair::<Eevdf>::check_enqueue_quota(self, queue);
    }

    /// `dequeue_entity`; false if it stays queued, delayed.
    pub(super) fn eevdf_dequeue_entity(&mut self, entity: EntityId, how: LeaveReason) -> bool {
        let queue = self.fair.entities[entity].cfs_rq;
        Eevdf::update_curr(self, queue);
        if self.only_accounts(entity) {
            self.update_load(entity);
            self.leave_accounts(entity);
            return true;
        }
        self.clear_buddies(entity);
        let average = self.average(queue);
        if how == LeaveReason::Sleeps
            && self.has(Feature::DelayDequeue)
            && !average.eligible(self.fair.entities[entity].vruntime)
        {
            self.update_load_here(entity);
            let lag = self.lag_of(entity);
            let e = &mut self.fair.entities[entity];
            (e.vlag, e.delayed) = (lag, true);
            return false;
        }
        self.update_load(entity);
        let lag = match how {
            LeaveReason::Delayed => self.delayed_lag(entity),
            _ => self.lag_of(entity),
        };
        let relative = how == LeaveReason::Moves && self.has(Feature::PlaceRelDeadline);
        let line = self.line(queue);
        let waits = self.line_curr(line) != Some(entity);
        let (e, q) = (&mut self.fair.entities[entity], &mut self.fair.queues[line]);
        if waits {
            q.timeline.remove(entity, e.deadline);
        }
        q.timeline.rebase(average.time());
        (e.vlag, e.delayed) = (lag, false);
        if relative {
            e.deadline -= e.vruntime;
            e.rel_deadline = true;
        }
        self.leave_accounts(entity);
        true
    }

    /// Removes an entity from its queue's accounts.
    fn leave_accounts(&mut self, entity: EntityId) {
        let e = &mut self.fair.entities[entity];
        let queue = e.cfs_rq;
        e.on_rq = false;
        let q = &mut self.fair.queues[queue];
        q.load_fine -= e.fine_weight;
        q.nr_running -= 1;
        self.return_quota(queue);
    }

    /// Takes an entity out of the timeline before a change of weight: lag, deadline and protection become distances in
    /// the virtual time of the new weight (`reweight_entity`).
    pub(super) fn step_out(&mut self, entity: EntityId, fine: u64) {
        if self.is_divided(entity) || self.only_accounts(entity) {
            // A task's change follows in the second step; a group's entity is on no timeline.
            return;
        }
        let (on_rq, queue) = (self.fair.entities[entity].on_rq, self.fair.entities[entity].cfs_rq);
        if on_rq && self.keeps_time(entity) {
            return self.reweight_around(entity, fine);
        }
        if on_rq {
            let (lag, time) = (self.lag_of(entity), self.average(queue).time());
            let (e, q) = (&mut self.fair.entities[entity], &mut self.fair.queues[queue]);
            if q.curr != Some(entity) {
                q.timeline.remove(entity, e.deadline);
            }
            q.timeline.rebase(time);
            e.vlag = lag;
            e.deadline -= e.vruntime;
            (e.rel_deadline, e.on_rq) = (true, false);
        }
        let e = &mut self.fair.entities[entity];
        let scaled = |virt: i64| (i128::from(virt) * i128::from(e.fine_weight) / i128::from(fine)) as i64;
        let (lag, deadline, left) = (scaled(e.vlag), scaled(e.deadline), scaled(e.vprot - e.vruntime));
        e.vlag = lag;
        e.vprot = left;
        if e.rel_deadline {
            e.deadline = deadline;
        }
    }

    /// Whether a change of weight keeps the queue's virtual time. A task is not changed in place but taken off and
    /// placed.
    fn keeps_time(&self, entity: EntityId) -> bool {
        self.fixed.history.reweight_keeps_time && self.fair.entities[entity].my_q.is_some()
    }

    /// Changes the weight without changing the queue's virtual time: lag and deadline keep their length in real time
    /// (`reweight_eevdf`). A running group loses its protection, which then ends at its old deadline.
    fn reweight_around(&mut self, entity: EntityId, fine: u64) {
        let queue = self.fair.entities[entity].cfs_rq;
        let (lag, time) = (self.lag_of(entity), self.average(queue).time());
        let (e, q) = (&mut self.fair.entities[entity], &mut self.fair.queues[queue]);
        if q.curr != Some(entity) {
            q.timeline.remove(entity, e.deadline);
        }
        q.timeline.rebase(time);
        let scaled = |virt: i64| (i128::from(virt) * i128::from(e.fine_weight) / i128::from(fine)) as i64;
        let deadline = time + scaled(e.deadline - time);
        if e.vruntime != time {
            e.vruntime = time - scaled(lag);
        }
        let protected = e.vruntime < e.vprot && deadline == e.deadline;
        e.vprot = if protected { deadline } else { e.vruntime };
        e.deadline = deadline;
    }

    /// Puts the entity back at those distances. Before 7.0 the running entity is protected as if it had just been
    /// picked.
    pub(super) fn step_in(&mut self, entity: EntityId, was_on_rq: bool) {
        if self.is_divided(entity) || self.only_accounts(entity) {
            if !self.only_accounts(entity) {
                self.divide_weight(entity);
            }
            return;
        }
        if !was_on_rq {
            return;
        }
        if self.keeps_time(entity) {
            if self.fair.queues[self.fair.entities[entity].cfs_rq].curr != Some(entity) {
                self.line_up(entity);
            }
            return;
        }
        self.place(entity, false);
        let anew = (!self.fixed.history.keeps_protection).then(|| protect::until(self.protection(entity)));
        let e = &mut self.fair.entities[entity];
        e.on_rq = true;
        e.vprot = anew.unwrap_or(e.vruntime + e.vprot);
        let queue = e.cfs_rq;
        if self.fair.queues[queue].curr != Some(entity) {
            self.line_up(entity);
        }
    }
}
