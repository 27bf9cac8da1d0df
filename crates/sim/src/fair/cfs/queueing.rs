//! Puts entities on a queue in vruntime order and takes them off: placement and slices, applied to the arenas (2.6.27
//! to 6.5).
//!
//! Invariant: an entity that leaves for another CPU carries a vruntime relative to the old queue's `min_vruntime`.

use super::{Cfs, Ordered, placement, slice};
use crate::class::{Dequeue, Enqueue};
use crate::fair::Fair;
use crate::fair::entity::EntityId;
use crate::fair::rules::FairRules;
use crate::fair::runqueue::CfsRqId;
use crate::fair::slope::{share_by_inverse, whole};
use crate::system::System;
use schedlab_kernel::Feature;

impl System<'_> {
    pub(in crate::fair) fn cfs_enqueue_entity<R: Ordered>(&mut self, entity: EntityId, why: Enqueue) {
        let queue = self.fair.entities[entity].cfs_rq;
        let uncharged = self.fair.queues[queue].min_vruntime;
        R::update_curr(self, queue);
        let min = self.fair.queues[queue].min_vruntime;
        let task = self.fair.entities[entity].task;
        if let Some(t) = task.map(|t| &mut self.tasks[t])
            && std::mem::take(&mut t.relative)
        {
            let charged = self.fixed.history.relative_after_charge;
            self.fair.entities[entity].vruntime += if charged { min } else { uncharged };
        }
        self.update_load(entity);
        self.attach_load(entity);
        let e = &self.fair.entities[entity];
        let place_by = self.places_by(queue);
        if why == Enqueue::Wakeup {
            let idle = self.is_idle_entity(entity);
            let facts = placement::PlacementFacts {
                min_vruntime: place_by.unwrap_or(min),
                own_vruntime: e.vruntime,
                latency_ns: self.fixed.gran.latency_ns,
                credited: self.has(Feature::NewFairSleepers) || self.fixed.history.credits_sleepers,
                normalized: (R::NORMALIZES && self.has(Feature::NormalizedSleeper) && !idle)
                    .then(|| (e.slope, self.weight_unit(queue, e.weight))),
                gentle: self.has(Feature::GentleFairSleepers),
                idle_threshold_ns: (idle && self.fixed.history.idle_credit_small)
                    .then_some(self.fixed.gran.min_ns),
            };
            self.fair.entities[entity].vruntime = placement::wakeup(facts);
        }
        let (sums, rule) = (self.sums_runnable(), self.fixed.sum_rule);
        let e = &mut self.fair.entities[entity];
        e.on_rq = true;
        let q = &mut self.fair.queues[queue];
        q.load_fine += e.fine_weight;
        q.nr_running += 1;
        if sums {
            q.runnable.add(&e.avg, rule);
        }
        if q.curr != Some(entity) {
            q.insert(entity, e.vruntime);
        }
        self.follow_tree(queue);
        Fair::<R>::check_enqueue_quota(self, queue);
    }

    /// min_vruntime before 2.6.28: it follows only the tree, at every change of it.
    #[inline]
    pub(super) fn follow_tree(&mut self, queue: CfsRqId) {
        if self.fixed.history.min_vruntime_of_tree {
            self.fair.queues[queue].update_min_vruntime(None);
        }
    }

    /// The vruntime that replaces min_vruntime in placement, if any: that of the leftmost task, if it is left of it
    /// (before 2.6.28).
    fn places_by(&self, queue: CfsRqId) -> Option<i64> {
        let q = &self.fair.queues[queue];
        let left = q.leftmost().filter(|_| self.fixed.history.placed_at_leftmost);
        left.map(|(_, vruntime)| vruntime.min(q.min_vruntime))
    }

    pub(in crate::fair) fn cfs_dequeue_entity(&mut self, entity: EntityId, why: Dequeue) {
        let queue = self.fair.entities[entity].cfs_rq;
        Cfs::update_curr(self, queue);
        self.update_load(entity);
        self.clear_buddies(entity);
        let (sums, rule) = (self.sums_runnable(), self.fixed.sum_rule);
        let e = &mut self.fair.entities[entity];
        let q = &mut self.fair.queues[queue];
        if sums {
            q.runnable.sub(&e.avg, rule);
        }
        if q.curr != Some(entity) {
            q.remove(entity, e.vruntime);
        }
        e.on_rq = false;
        q.load_fine -= e.fine_weight;
        q.nr_running -= 1;
        let curr = q.curr.map(|c| (self.fair.entities[c].on_rq, self.fair.entities[c].vruntime));
        let counted = curr
            .filter(|(on_rq, _)| *on_rq || !self.fixed.history.dequeued_curr_ignored)
            .filter(|_| !self.fixed.history.min_vruntime_of_tree);
        let before = q.min_vruntime;
        q.update_min_vruntime(counted.map(|(_, v)| v));
        let after = q.min_vruntime;
        if why == Dequeue::Move {
            // With the later min_vruntime, a task that held it back would be ahead on its next queue by the amount that
            // it moves.
            let fixed = self.fixed.history.relative_before_min;
            self.make_relative(entity, if fixed { before } else { after });
        }
        self.return_quota(queue);
    }

    /// An entity leaves its queue and comes back to it at once. If it held min_vruntime back, it is behind by the
    /// amount that min_vruntime moves without it. min_vruntime does not move if the priority stays the same (5.10).
    pub(super) fn cfs_requeue(&mut self, entity: EntityId, moves: bool) {
        let queue = self.fair.entities[entity].cfs_rq;
        Cfs::update_curr(self, queue);
        self.clear_buddies(entity);
        let history = &self.fixed.history;
        if !history.relative_before_min || history.same_prio_stays && !moves {
            return;
        }
        let q = &mut self.fair.queues[queue];
        let others = q.curr.filter(|c| *c != entity).map(|c| &self.fair.entities[c]);
        let curr = others.filter(|e| e.on_rq).map(|e| e.vruntime);
        let e = &mut self.fair.entities[entity];
        let (before, runs) = (q.min_vruntime, q.curr == Some(entity));
        if !runs {
            q.remove(entity, e.vruntime);
        }
        q.update_min_vruntime(curr);
        e.vruntime += q.min_vruntime - before;
        if !runs {
            q.insert(entity, e.vruntime);
        }
    }

    /// Makes an entity's vruntime its distance from the `min_vruntime` of the queue it leaves.
    pub(super) fn make_relative(&mut self, entity: EntityId, min_vruntime: i64) {
        let e = &mut self.fair.entities[entity];
        if let Some(t) = e.task.map(|t| &mut self.tasks[t])
            && !std::mem::replace(&mut t.relative, true)
        {
            e.vruntime -= min_vruntime;
        }
    }

    /// Places a new entity on its creator's queue (`task_fork_fair`).
    pub(super) fn cfs_place_new(&mut self, entity: EntityId) {
        let queue = self.fair.entities[entity].cfs_rq;
        let q = &self.fair.queues[queue];
        // A child that starts on its parent's queue inherits the parent's vruntime.
        let parent = q.curr.filter(|_| self.fixed.history.child_inherits_vruntime);
        let own = parent.map_or(q.min_vruntime, |c| self.fair.entities[c].vruntime);
        let facts = placement::PlacementFacts {
            min_vruntime: self.places_by(queue).unwrap_or(q.min_vruntime),
            own_vruntime: own,
            latency_ns: self.fixed.gran.latency_ns,
            credited: true,
            normalized: None,
            gentle: false,
            idle_threshold_ns: None,
        };
        let e = &self.fair.entities[entity];
        let vslice = e.slope.virtual_ns_in(self.slice_ns(entity), self.weight_unit(queue, e.weight));
        self.fair.entities[entity].vruntime =
            placement::initial(facts, vslice, self.has(Feature::StartDebit));
    }

    pub fn slice_ns(&self, entity: EntityId) -> u64 {
        let e = &self.fair.entities[entity];
        let own = &self.fair.queues[e.cfs_rq];
        let nr = if self.has(Feature::AltPeriod) {
            self.fair.queues[self.root(own.cpu)].h_nr_running
        } else {
            own.nr_running
        };
        let joins = !e.on_rq;
        let mut part = self.fixed.gran.period_ns(u64::from(nr) + u64::from(joins));
        let mut level = Some(entity);
        while let Some(at) = level {
            let e = &self.fair.entities[at];
            let joins = if e.on_rq { 0 } else { e.fine_weight };
            let load = whole(self.fair.queues[e.cfs_rq].load_fine + joins);
            part = if self.fixed.history.delta_by_inverse {
                share_by_inverse(part, e.weight, load)
            } else {
                slice::share(part, e.weight, load)
            };
            level = e.parent;
        }
        slice::floor(part, &self.fixed.gran, &self.fixed.kernel)
    }
}

#[cfg(test)]
#[path = "queueing_tests.rs"]
mod tests;
