//! The class applied to the arenas: slice, placement of new tasks, put, pick, tick, yield, wakeup preemption (`fair.c`,
//! kernels 2.6.27 to 6.5; what is particular to those before 2.6.32 is in [`super::early`]).

use super::entity::{EntityId, virtual_time};
use super::queueing::Enqueue;
use super::runqueue::CfsRqId;
use super::{pick, placement, preempt, slice, tick};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::Feature;
use schedlab_trace::SwitchReason;

impl System<'_> {
    /// The slice of an entity on its queue, ns.
    pub fn slice_ns(&self, entity: EntityId) -> u64 {
        let e = &self.entities[entity];
        let own = &self.queues[e.cfs_rq];
        let nr = if self.has(Feature::AltPeriod) {
            self.queues[self.root(own.cpu)].h_nr_running
        } else {
            own.nr_running
        };
        let joins = !e.on_rq;
        let mut part = self.fixed.gran.period_ns(u64::from(nr) + u64::from(joins));
        let mut level = Some(entity);
        while let Some(at) = level {
            let e = &self.entities[at];
            let load = self.queues[e.cfs_rq].load_weight + if e.on_rq { 0 } else { e.weight };
            part = slice::share(part, e.weight, load);
            level = e.parent;
        }
        slice::floor(part, &self.fixed.gran, &self.fixed.kernel)
    }

    /// Where a new task starts on its queue.
    pub fn place_new(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        let queue = self.entities[entity].cfs_rq;
        self.update_curr(queue);
        if self.eevdf() {
            // It has no lag yet, and is placed when it is enqueued.
            return;
        }
        let q = &self.queues[queue];
        // A child that starts on its parent's queue inherits the parent's vruntime.
        let parent = q.curr.filter(|_| self.fixed.history.child_inherits_vruntime);
        let own = parent.map_or(q.min_vruntime, |c| self.entities[c].vruntime);
        let facts = placement::Facts {
            min_vruntime: q.min_vruntime,
            own_vruntime: own,
            latency_ns: self.fixed.gran.latency_ns,
            credited: true,
            normalized: None,
            gentle: false,
            idle_threshold_ns: None,
        };
        let vslice = virtual_time(self.slice_ns(entity), self.entities[entity].weight);
        self.entities[entity].vruntime = placement::initial(facts, vslice, self.has(Feature::StartDebit));
    }

    /// The running task's entities leave the CPU; those still on a queue are charged and go back in order. One that has
    /// left its queue was charged as it left, and for a newidle balance only if that pulled somebody, whose enqueue
    /// charges whoever is current (`put_prev_entity` asks for `on_rq`; read in 2.6.30, 6.1.192 and 7.3.4).
    pub fn put_prev(&mut self, task: TaskId) {
        let mut level = Some(self.tasks[task].entity);
        while let Some(entity) = level {
            let queue = self.entities[entity].cfs_rq;
            if self.entities[entity].on_rq {
                self.update_curr(queue);
                self.update_load(entity);
                if self.eevdf() {
                    self.line_up(entity);
                } else {
                    let vruntime = self.entities[entity].vruntime;
                    self.queues[queue].insert(entity, vruntime);
                }
            }
            self.queues[queue].curr = None;
            level = self.entities[entity].parent;
        }
    }

    /// Picks the task to run next on `cpu` and makes its entities current. There must be one.
    pub fn pick_next(&mut self, cpu: CpuId) -> TaskId {
        let mut queue = self.root(cpu);
        loop {
            let entity = self.pick_entity(queue);
            self.set_next(queue, entity);
            let e = &self.entities[entity];
            match (e.my_q, e.task) {
                (Some(below), _) => queue = below,
                (None, Some(task)) => {
                    self.note_picked(cpu, task);
                    return task;
                }
                (None, None) => unreachable!("entity {entity:?} is neither a group's nor a task's"),
            }
        }
    }

    /// A pick makes a task the newest of its CPU's list. The balancer of 5.5 and later takes the oldest, which have waited
    /// longest, first.
    pub(super) fn note_picked(&mut self, cpu: CpuId, task: TaskId) {
        let list = &mut self.cpus[cpu].list;
        if list.last() != Some(&task)
            && self.fixed.history.picked_is_newest
            && let Some(at) = list.iter().rposition(|t| *t == task)
        {
            list[at..].rotate_left(1);
        }
    }

    pub(super) fn candidate(&self, entity: EntityId) -> pick::Candidate {
        let e = &self.entities[entity];
        pick::Candidate { entity, vruntime: e.vruntime, weight: e.weight }
    }

    fn pick_entity(&mut self, queue: CfsRqId) -> EntityId {
        let q = &self.queues[queue];
        let (left, _) = q.leftmost().unwrap_or_else(|| panic!("picking from an empty queue of {}", q.cpu));
        if self.is_early() {
            return self.pick_early(queue, self.candidate(left));
        }
        if q.next.is_none() && q.last.is_none() && q.skip.is_none() {
            return left;
        }
        pick::pick(pick::Facts {
            left: self.candidate(left),
            second: q.second().map(|(e, _)| self.candidate(e)),
            skip: q.skip,
            next: q.next.map(|e| self.candidate(e)),
            last: q.last.map(|e| self.candidate(e)),
            wakeup_granularity_ns: self.fixed.gran.wakeup_ns,
        })
    }

    fn set_next(&mut self, queue: CfsRqId, entity: EntityId) {
        let vruntime = self.entities[entity].vruntime;
        let q = &mut self.queues[queue];
        q.clear_buddies(entity);
        q.remove(entity, vruntime);
        self.update_load(entity);
        let clock = self.cpus[self.queues[queue].cpu].clock.read(self.now);
        let e = &mut self.entities[entity];
        e.exec_start = clock;
        e.prev_sum_exec = e.sum_exec;
        self.queues[queue].curr = Some(entity);
    }

    /// The tick of the running task: may it stay?
    pub fn task_tick(&mut self, task: TaskId) -> Option<SwitchReason> {
        if self.eevdf() {
            self.eevdf_tick(task);
            return None;
        }
        let mut level = Some(self.tasks[task].entity);
        let mut why = None;
        let slice_only = self.fixed.history.slice_only_tick;
        while let Some(entity) = level {
            let queue = self.entities[entity].cfs_rq;
            self.update_curr(queue);
            self.update_load(entity);
            let (q, e) = (&self.queues[queue], &self.entities[entity]);
            if q.nr_running > 1 || slice_only && !self.has(Feature::WakeupPreemption) {
                let left = q.leftmost().map_or(e.vruntime, |(_, vruntime)| vruntime);
                let found = tick::check(tick::Facts {
                    ran_ns: e.ran_since_pick(),
                    slice_only,
                    slice_ns: self.slice_ns(entity),
                    min_granularity_ns: self.fixed.gran.min_ns,
                    ahead_ns: e.vruntime - left,
                });
                if found == Some(SwitchReason::TickSlice) {
                    self.queues[queue].clear_buddies(entity);
                }
                why = why.or(found);
            }
            level = self.entities[entity].parent;
        }
        why
    }

    /// sched_yield: the entity is passed over at the next pick (2.6.39).
    pub fn fair_yield(&mut self, task: TaskId) {
        if self.eevdf() {
            return self.eevdf_yield(task);
        }
        let entity = self.tasks[task].entity;
        let queue = self.entities[entity].cfs_rq;
        if self.queues[queue].nr_running == 1 {
            return;
        }
        if self.is_early() {
            return self.yield_early(task);
        }
        self.update_curr(queue);
        let q = &mut self.queues[queue];
        q.clear_buddies(entity);
        q.skip = Some(entity);
    }

    /// Whether `wakee`, just enqueued on `cpu`, preempts the running task; marks buddies as the kernel does. `sync`: its
    /// waker is about to sleep (not asked from 2.6.32 to 6.5).
    pub fn check_preempt_wakeup(&mut self, cpu: CpuId, wakee: TaskId, how: Enqueue, sync: bool) -> bool {
        if self.eevdf() {
            return self.eevdf_check_preempt(cpu, wakee, how, sync);
        }
        let Some(curr) = self.cpus[cpu].curr else { return true };
        if curr == wakee {
            return false;
        }
        if self.is_early() {
            return self.check_preempt_early(cpu, curr, wakee, sync);
        }
        let (ce, we) = (self.tasks[curr].entity, self.tasks[wakee].entity);
        let queue = self.entities[we].cfs_rq;
        let many = u64::from(self.queues[queue].nr_running) >= self.fixed.gran.nr_latency;
        if self.has(Feature::NextBuddy) && many {
            self.queues[queue].next = Some(we);
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
        let queue = self.entities[w].cfs_rq;
        self.update_curr(queue);
        let (cv, wv) = (self.entities[c].vruntime, self.entities[w].vruntime);
        let weight = self.entities[w].weight;
        if preempt::behind(cv, wv, weight, self.fixed.gran.wakeup_ns) != preempt::Behind::Yes {
            return false;
        }
        let q = &mut self.queues[queue];
        q.next = Some(w);
        if self.has(Feature::LastBuddy) && many && self.entities[c].on_rq {
            self.queues[queue].last = Some(c);
        }
        true
    }

    /// Walks both entities up to the level where they share a queue.
    pub(super) fn matching_level(&self, a: EntityId, b: EntityId) -> Option<(EntityId, EntityId)> {
        let chain = |mut e: EntityId| {
            std::iter::once(e).chain(std::iter::from_fn(move || self.entities[e].parent.inspect(|p| e = *p)))
        };
        chain(a).find_map(|x| {
            let queue = self.entities[x].cfs_rq;
            chain(b).find(|y| self.entities[*y].cfs_rq == queue).map(|y| (x, y))
        })
    }
}
