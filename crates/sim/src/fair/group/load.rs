//! Load in groups: contributions to the whole group, propagation of loads that come and go up to the root
//! (`propagate`), a task's load as the root sees it (`h_load`), and the effect of a wakeup (`effective_load`).
//!
//! Loads are in the unit of weights. Read in 5.10.262 to 7.3.4; 3.4 and 4.5 from memory.

use super::shares::{self, SharesFacts};
use super::window::WINDOW_NS;
use crate::fair::entity::EntityId;
use crate::fair::runqueue::CfsRqId;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_workload::ROOT_GROUP;

/// The shortest time between two contributions of a cfs_rq since 6.7, ns.
const RENEWED_EVERY_NS: u64 = 1_000_000;
/// The smallest weight of a group in `effective_load` (`MIN_SHARES`).
const MIN_SHARES: i64 = 2;

impl System<'_> {
    /// The fine weight of a group's entity, by its cfs_rq `below`.
    pub(in crate::fair) fn group_weight(&self, below: CfsRqId) -> u64 {
        let (group, q) = (&self.fair.groups[self.group_of(below)], &self.fair.queues[below]);
        let facts = SharesFacts {
            shares: group.shares,
            load_weight: q.load_weight(),
            load_avg: q.avg.load_avg,
            contribution: self.fair.group_rqs[below].contribution,
            group_load: group.load,
            concurrency: self.concurrency(group.runnable),
        };
        shares::fine_weight(&facts, &self.fixed.history)
    }

    /// Number of tasks of a group that can run at the same time, by the average number of runnable ones, times 1024
    /// (`tg_tasks`).
    fn concurrency(&self, runnable: u64) -> u64 {
        if !self.fixed.history.shares_by_concurrency {
            return 1;
        }
        (runnable >> 10).clamp(1, self.cpus.len() as u64)
    }

    /// A cfs_rq's averages were updated: updates its group's if one has changed by more than 1/64
    /// (`update_tg_load_avg`).
    pub(in crate::fair) fn contribute(&mut self, queue: CfsRqId) {
        let group = self.group_of(queue);
        if group == ROOT_GROUP {
            return;
        }
        let (now, load) = (self.now, self.fair.queues[queue].avg.load_avg);
        let runnable = self.fair.queues[queue].avg.runnable_avg;
        let counts = self.fixed.history.shares_by_concurrency;
        let own = &mut self.fair.group_rqs[queue];
        let soon = self.fixed.history.contributes_each_ms
            && own.renewed_ns.is_some_and(|then| now - then < RENEWED_EVERY_NS);
        let near = |now: u64, then: u64| now.abs_diff(then) <= then / 64;
        let same_number = !counts || near(runnable, own.runnable_contribution);
        if soon || near(load, own.contribution) && same_number {
            return;
        }
        own.renewed_ns = Some(now);
        let before = std::mem::replace(&mut own.contribution, load);
        let number = std::mem::replace(&mut own.runnable_contribution, runnable);
        self.renew(group, before, load);
        let all = &mut self.fair.groups[group].runnable;
        *all = (*all + runnable).saturating_sub(number);
    }

    /// Before 3.8: accounts a cfs_rq's weight; `push`: every change is passed to the group.
    pub(in crate::fair) fn contribute_weight(&mut self, queue: CfsRqId, push: bool) {
        let group = self.group_of(queue);
        if group == ROOT_GROUP {
            return;
        }
        let (now, load) = (self.now, self.fair.queues[queue].load_weight());
        let own = &mut self.fair.group_rqs[queue];
        let before = own.contribution;
        own.contribution = own.window.update(now, load, before, push);
        let after = own.contribution;
        self.renew(group, before, after);
    }

    /// Whether the tick must account a cfs_rq's weight before 3.8: once in a window.
    pub(in crate::fair) fn window_over(&self, queue: CfsRqId) -> bool {
        self.fair.group_rqs[queue].window.since_ns(self.now) > WINDOW_NS
    }

    fn renew(&mut self, group: schedlab_base::GroupId, before: u64, after: u64) {
        let load = &mut self.fair.groups[group].load;
        *load = (*load + after).saturating_sub(before);
    }

    /// A task's load was added to a group's cfs_rq, or removed from it: notes that the group's entity must follow.
    #[inline]
    pub(in crate::fair) fn note_propagation(&mut self, entity: EntityId, comes: bool) {
        let e = &self.fair.entities[entity];
        if e.parent.is_none() || !self.fixed.history.group_load_follows {
            return;
        }
        let unweighted = e.avg.runnable_time(e.weight) as i64;
        let own = &mut self.fair.group_rqs[e.cfs_rq];
        own.propagates = true;
        own.runnable_sum += if comes { unweighted } else { -unweighted };
    }

    /// A group's entity takes over the changes of its cfs_rq, and passes them on (`propagate_entity_load_avg`). Returns
    /// whether there were any.
    pub(in crate::fair) fn propagate(&mut self, entity: EntityId) -> bool {
        let e = &self.fair.entities[entity];
        let Some(below) = e.my_q else { return false };
        let own = &mut self.fair.group_rqs[below];
        if !std::mem::take(&mut own.propagates) {
            return false;
        }
        let came = std::mem::take(&mut own.runnable_sum);
        if e.parent.is_some() {
            let above = &mut self.fair.group_rqs[e.cfs_rq];
            above.propagates = true;
            above.runnable_sum += came;
        }
        let (group, load_weight) = (self.fair.queues[below].avg, self.fair.queues[below].load_weight());
        let (queue, weight) = (e.cfs_rq, e.weight);
        let old = self.fair.entities[entity].avg;
        let mut new = old;
        new.follow(&group, weight, load_weight, came, &self.fair.queues[queue].avg);
        self.fair.entities[entity].avg = new;
        self.fair.queues[queue].avg.exchange(&old, &new, self.fixed.sum_rule);
        true
    }

    /// A task's load as its CPU's root cfs_rq sees it (`task_h_load`).
    pub fn task_h_load(&mut self, task: TaskId) -> u64 {
        let e = self.entity(task);
        let (queue, own) = (e.cfs_rq, if self.tracks_load() { e.avg.load_avg } else { e.weight });
        if e.parent.is_none() && !self.fixed.history.root_load_divided {
            return own;
        }
        let h_load = self.h_load(queue);
        own * h_load / (self.queue_load(queue) + 1)
    }

    /// A cfs_rq's load as the root sees it, computed once per tick (`update_cfs_rq_h_load`; before 3.8 by every balance
    /// pass).
    fn h_load(&mut self, queue: CfsRqId) -> u64 {
        let tick = self.now / self.fixed.tick_ns + 1;
        if self.fair.group_rqs[queue].h_load_tick == tick {
            return self.fair.group_rqs[queue].h_load;
        }
        let h_load = match self.fair.queues[queue].owner {
            None => self.queue_load(queue),
            Some(owner) => {
                let above = self.fair.entities[owner].cfs_rq;
                let whole = self.h_load(above);
                whole * self.entity_load(owner) / (self.queue_load(above) + 1)
            }
        };
        let own = &mut self.fair.group_rqs[queue];
        (own.h_load, own.h_load_tick) = (h_load, tick);
        h_load
    }

    fn queue_load(&self, queue: CfsRqId) -> u64 {
        let q = &self.fair.queues[queue];
        if self.tracks_load() { q.avg.load_avg } else { q.load_weight() }
    }
    fn entity_load(&self, entity: EntityId) -> u64 {
        let e = &self.fair.entities[entity];
        if self.tracks_load() { e.avg.load_avg } else { e.weight }
    }

    /// The change of a CPU's load if `weight` were added to a task's group there, and `to_group` to the whole group
    /// (`effective_load`, before 4.13).
    pub fn effective_load(&self, task: TaskId, cpu: CpuId, weight: i64, to_group: i64) -> i64 {
        let mut change = weight;
        let mut to_group = to_group;
        let mut level = self.owner_of(self.tasks[task].group, cpu);
        while let Some(owner) = level {
            let e = &self.fair.entities[owner];
            let Some(below) = e.my_q else { break };
            let group = &self.fair.groups[self.group_of(below)];
            let load = self.queue_load(below) as i64;
            let runnable = self.fair.queues[below].load_weight() as i64;
            let own = self.fair.group_rqs[below].contribution as i64;
            let whole = to_group + group.load as i64 - own + runnable;
            let part = load + change;
            let shares = group.shares as i64;
            let weight = if whole > 0 && part < whole { part * shares / whole } else { shares };
            change = weight.max(MIN_SHARES) - self.entity_load(owner) as i64;
            to_group = 0;
            level = e.parent;
        }
        change
    }
}
