//! The class applied: enqueue, dequeue, put, set, pick, tick, yield, on the arenas (`fair.c`, kernels 3.4 to 6.5).

use super::entity::{EntityId, virtual_time};
use super::runqueue::CfsRqId;
use super::{pick, placement, preempt, slice, tick};
use crate::system::System;
use schedlab_base::{CpuId, TaskId, Version};
use schedlab_kernel::{Feature, Policy};
use schedlab_trace::SwitchReason;

/// Why a task is put on a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Enqueue {
    /// It woke up.
    Wakeup,
    /// It is new.
    New,
    /// It was moved while runnable.
    Moved,
}

impl System<'_> {
    /// Whether this kernel tracks load per entity (PELT; before 3.8 a load is a sum of weights).
    #[inline]
    pub fn tracks_load(&self) -> bool {
        self.version() >= Version::new(3, 8)
    }
    /// Whether runnable entities' load averages are summed apart from sleeping ones' (4.3 to 4.20).
    #[inline]
    fn sums_runnable(&self) -> bool {
        (Version::new(4, 3)..Version::new(5, 0)).contains(&self.version())
    }

    /// Charges the running entity of `queue` up to this instant.
    pub fn update_curr(&mut self, queue: CfsRqId) {
        let q = &mut self.queues[queue.index()];
        let Some(curr) = q.curr else { return };
        let e = &mut self.entities[curr.index()];
        let delta = self.now - e.exec_start;
        if delta == 0 {
            return;
        }
        e.exec_start = self.now;
        e.sum_exec += delta;
        e.vruntime += virtual_time(delta, e.weight) as i64;
        // 6.1 leaves the current entity out once it is dequeued; earlier kernels count it still.
        let counts = e.on_rq || self.fixed.kernel.version < Version::new(4, 9);
        q.update_min_vruntime(counts.then_some(e.vruntime));
    }

    /// Brings the load averages of an entity and its queue up to this instant.
    fn update_load(&mut self, entity: EntityId) {
        if !self.tracks_load() {
            return;
        }
        let e = &mut self.entities[entity.index()];
        let q = &mut self.queues[e.cfs_rq.index()];
        let running = q.curr == Some(entity);
        let weight = if e.on_rq { e.weight } else { 0 };
        e.avg.update(self.now, weight, u64::from(e.on_rq), running);
        q.avg.update(self.now, q.load_weight, u64::from(q.h_nr_running), q.curr.is_some());
        if (Version::new(4, 3)..Version::new(5, 0)).contains(&self.fixed.kernel.version) {
            q.runnable.update(self.now, q.load_weight, u64::from(q.h_nr_running), q.curr.is_some());
        }
    }

    /// Brings a queue's averages up to this instant (`update_blocked_averages` for one queue).
    pub fn update_queue_load(&mut self, queue: CfsRqId) {
        if !self.tracks_load() {
            return;
        }
        let sums = self.sums_runnable();
        let q = &mut self.queues[queue.index()];
        q.avg.update(self.now, q.load_weight, u64::from(q.h_nr_running), q.curr.is_some());
        if sums {
            q.runnable.update(self.now, q.load_weight, u64::from(q.h_nr_running), q.curr.is_some());
        }
    }

    /// Puts `task` on `cpu`'s queues.
    pub fn enqueue_task(&mut self, cpu: CpuId, task: TaskId, why: Enqueue) {
        let mut level = Some(self.tasks[task.index()].entity);
        let mut why = why;
        while let Some(entity) = level {
            if self.entities[entity.index()].on_rq {
                self.update_load(entity);
            } else {
                self.enqueue_entity(entity, why);
                why = Enqueue::Wakeup;
            }
            let queue = self.entities[entity.index()].cfs_rq;
            self.queues[queue.index()].h_nr_running += 1;
            level = self.entities[entity.index()].parent;
        }
        let t = &mut self.tasks[task.index()];
        t.on_rq = true;
        t.cpu = cpu;
        self.cpus[cpu.index()].list.push(task);
        let nr = &mut self.nr_running[cpu.index()];
        *nr += 1;
        if *nr == 2 {
            self.overload = true;
        }
        self.refresh_idle(cpu);
    }

    fn enqueue_entity(&mut self, entity: EntityId, why: Enqueue) {
        let queue = self.entities[entity.index()].cfs_rq;
        self.update_curr(queue);
        let min = self.queues[queue.index()].min_vruntime;
        let task = self.entities[entity.index()].task;
        if let Some(t) = task.map(|t| &mut self.tasks[t.index()])
            && std::mem::take(&mut t.relative)
        {
            self.entities[entity.index()].vruntime += min;
        }
        self.update_load(entity);
        self.attach_load(entity);
        let e = &self.entities[entity.index()];
        if why == Enqueue::Wakeup {
            let idle = task.is_some_and(|t| self.tasks[t.index()].attr.policy == Policy::Idle);
            let facts = placement::Facts {
                min_vruntime: min,
                own_vruntime: e.vruntime,
                latency_ns: self.fixed.gran.latency_ns,
                gentle: self.has(Feature::GentleFairSleepers),
                idle_threshold_ns: (idle && self.version() >= Version::new(5, 4))
                    .then_some(self.fixed.gran.min_ns),
            };
            self.entities[entity.index()].vruntime = placement::wakeup(facts);
        }
        let sums = self.sums_runnable();
        let e = &mut self.entities[entity.index()];
        e.on_rq = true;
        let q = &mut self.queues[queue.index()];
        q.load_weight += e.weight;
        q.nr_running += 1;
        if sums {
            q.runnable.add(&e.avg);
        }
        if q.curr != Some(entity) {
            q.insert(entity, e.vruntime);
        }
    }

    /// A moved entity's load joins its new queue.
    fn attach_load(&mut self, entity: EntityId) {
        let e = &self.entities[entity.index()];
        if let Some(t) = e.task.map(|t| &mut self.tasks[t.index()])
            && std::mem::take(&mut t.detached)
        {
            let entity = &mut self.entities[entity.index()];
            let avg = &mut self.queues[entity.cfs_rq.index()].avg;
            entity.avg.align_to(avg);
            avg.add(&entity.avg);
        }
    }

    /// Takes `task` off its CPU's queues; `sleeps`: it keeps its vruntime absolute, else it is about to move.
    pub fn dequeue_task(&mut self, task: TaskId, sleeps: bool) {
        let cpu = self.tasks[task.index()].cpu;
        let mut level = Some(self.tasks[task.index()].entity);
        let mut leaves = true;
        while let Some(entity) = level {
            let queue = self.entities[entity.index()].cfs_rq;
            if leaves {
                self.dequeue_entity(entity, sleeps);
                leaves = self.queues[queue.index()].load_weight == 0;
            } else {
                self.update_load(entity);
            }
            self.queues[queue.index()].h_nr_running -= 1;
            level = self.entities[entity.index()].parent;
        }
        self.tasks[task.index()].on_rq = false;
        let list = &mut self.cpus[cpu.index()].list;
        if let Some(at) = list.iter().rposition(|t| *t == task) {
            list.remove(at);
        }
        self.nr_running[cpu.index()] -= 1;
        self.refresh_idle(cpu);
    }

    fn dequeue_entity(&mut self, entity: EntityId, sleeps: bool) {
        let queue = self.entities[entity.index()].cfs_rq;
        self.update_curr(queue);
        self.update_load(entity);
        let sums = self.sums_runnable();
        let e = &mut self.entities[entity.index()];
        let q = &mut self.queues[queue.index()];
        if sums {
            q.runnable.sub(&e.avg);
        }
        q.clear_buddies(entity);
        if q.curr != Some(entity) {
            q.remove(entity, e.vruntime);
        }
        e.on_rq = false;
        q.load_weight -= e.weight;
        q.nr_running -= 1;
        let curr = q.curr.map(|c| (self.entities[c.index()].on_rq, self.entities[c.index()].vruntime));
        let counted = curr.filter(|(on_rq, _)| *on_rq || self.fixed.kernel.version < Version::new(4, 9));
        q.update_min_vruntime(counted.map(|(_, v)| v));
        if !sleeps {
            let min = q.min_vruntime;
            self.make_relative(entity, min);
        }
    }

    fn make_relative(&mut self, entity: EntityId, min_vruntime: i64) {
        let e = &mut self.entities[entity.index()];
        if let Some(t) = e.task.map(|t| &mut self.tasks[t.index()])
            && !std::mem::replace(&mut t.relative, true)
        {
            e.vruntime -= min_vruntime;
        }
    }

    /// Gives a task that is on no queue to `to`: its vruntime becomes relative, its load leaves the old queue.
    pub fn migrate_task(&mut self, task: TaskId, to: CpuId) {
        let entity = self.tasks[task.index()].entity;
        let old = self.entities[entity.index()].cfs_rq;
        let min = self.queues[old.index()].min_vruntime;
        self.make_relative(entity, min);
        self.update_load(entity);
        if self.tracks_load() && !std::mem::replace(&mut self.tasks[task.index()].detached, true) {
            self.queues[old.index()].avg.sub(&self.entities[entity.index()].avg);
        }
        self.entities[entity.index()].cfs_rq = self.root(to);
        let t = &mut self.tasks[task.index()];
        t.recent = t.cpu;
        t.cpu = to;
    }

    /// The slice of an entity on its queue, ns.
    pub fn slice_ns(&self, entity: EntityId) -> u64 {
        let e = &self.entities[entity.index()];
        let own = &self.queues[e.cfs_rq.index()];
        let nr = if self.has(Feature::AltPeriod) {
            self.queues[self.root(own.cpu).index()].h_nr_running
        } else {
            own.nr_running
        };
        let joins = !e.on_rq;
        let mut part = self.fixed.gran.period_ns(u64::from(nr) + u64::from(joins));
        let mut level = Some(entity);
        while let Some(at) = level {
            let e = &self.entities[at.index()];
            let load = self.queues[e.cfs_rq.index()].load_weight + if e.on_rq { 0 } else { e.weight };
            part = slice::share(part, e.weight, load);
            level = e.parent;
        }
        slice::floor(part, &self.fixed.gran, &self.fixed.kernel)
    }

    /// Where a new task starts on its queue.
    pub fn place_new(&mut self, task: TaskId) {
        let entity = self.tasks[task.index()].entity;
        let queue = self.entities[entity.index()].cfs_rq;
        self.update_curr(queue);
        let q = &self.queues[queue.index()];
        // The child inherits the parent's vruntime when it starts on the parent's queue.
        let own = q.curr.map_or(q.min_vruntime, |c| self.entities[c.index()].vruntime);
        let facts = placement::Facts {
            min_vruntime: q.min_vruntime,
            own_vruntime: own,
            latency_ns: self.fixed.gran.latency_ns,
            gentle: false,
            idle_threshold_ns: None,
        };
        let vslice = virtual_time(self.slice_ns(entity), self.entities[entity.index()].weight);
        self.entities[entity.index()].vruntime =
            placement::initial(facts, vslice, self.has(Feature::StartDebit));
    }

    /// The running task's entities leave the CPU; those still on a queue go back in order.
    pub fn put_prev(&mut self, task: TaskId) {
        let mut level = Some(self.tasks[task.index()].entity);
        while let Some(entity) = level {
            let queue = self.entities[entity.index()].cfs_rq;
            self.update_curr(queue);
            if self.entities[entity.index()].on_rq {
                self.update_load(entity);
                let vruntime = self.entities[entity.index()].vruntime;
                self.queues[queue.index()].insert(entity, vruntime);
            }
            self.queues[queue.index()].curr = None;
            level = self.entities[entity.index()].parent;
        }
    }

    /// Picks the task to run next on `cpu` and makes its entities current. There must be one.
    pub fn pick_next(&mut self, cpu: CpuId) -> TaskId {
        let mut queue = self.root(cpu);
        loop {
            let entity = self.pick_entity(queue);
            self.set_next(queue, entity);
            let e = &self.entities[entity.index()];
            match (e.my_q, e.task) {
                (Some(below), _) => queue = below,
                (None, Some(task)) => return task,
                (None, None) => unreachable!("entity {entity:?} is neither a group's nor a task's"),
            }
        }
    }

    fn candidate(&self, entity: EntityId) -> pick::Candidate {
        let e = &self.entities[entity.index()];
        pick::Candidate { entity, vruntime: e.vruntime, weight: e.weight }
    }

    fn pick_entity(&self, queue: CfsRqId) -> EntityId {
        let q = &self.queues[queue.index()];
        let (left, _) = q.leftmost().unwrap_or_else(|| panic!("picking from an empty queue of {}", q.cpu));
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
        let vruntime = self.entities[entity.index()].vruntime;
        let q = &mut self.queues[queue.index()];
        q.clear_buddies(entity);
        q.remove(entity, vruntime);
        self.update_load(entity);
        let e = &mut self.entities[entity.index()];
        e.exec_start = self.now;
        e.prev_sum_exec = e.sum_exec;
        self.queues[queue.index()].curr = Some(entity);
    }

    /// The tick of the running task: may it stay?
    pub fn task_tick(&mut self, task: TaskId) -> Option<SwitchReason> {
        let mut level = Some(self.tasks[task.index()].entity);
        let mut why = None;
        while let Some(entity) = level {
            let queue = self.entities[entity.index()].cfs_rq;
            self.update_curr(queue);
            self.update_load(entity);
            let q = &self.queues[queue.index()];
            if q.nr_running > 1
                && let Some((_, left)) = q.leftmost()
            {
                let e = &self.entities[entity.index()];
                let found = tick::check(tick::Facts {
                    ran_ns: e.ran_since_pick(),
                    slice_ns: self.slice_ns(entity),
                    min_granularity_ns: self.fixed.gran.min_ns,
                    ahead_ns: e.vruntime - left,
                });
                if found == Some(SwitchReason::TickSlice) {
                    self.queues[queue.index()].clear_buddies(entity);
                }
                why = why.or(found);
            }
            level = self.entities[entity.index()].parent;
        }
        why
    }

    /// sched_yield: the entity is passed over at the next pick.
    pub fn fair_yield(&mut self, _cpu: CpuId, task: TaskId) {
        let entity = self.tasks[task.index()].entity;
        let queue = self.entities[entity.index()].cfs_rq;
        if self.queues[queue.index()].nr_running == 1 {
            return;
        }
        self.update_curr(queue);
        let q = &mut self.queues[queue.index()];
        q.clear_buddies(entity);
        q.skip = Some(entity);
    }

    /// Whether `wakee`, just enqueued on `cpu`, preempts the running task; marks buddies as the kernel does.
    pub fn check_preempt_wakeup(&mut self, cpu: CpuId, wakee: TaskId) -> bool {
        let Some(curr) = self.cpus[cpu.index()].curr else { return true };
        if curr == wakee {
            return false;
        }
        let (ce, we) = (self.tasks[curr.index()].entity, self.tasks[wakee.index()].entity);
        let queue = self.entities[we.index()].cfs_rq;
        let many = u64::from(self.queues[queue.index()].nr_running) >= self.fixed.gran.nr_latency;
        if self.has(Feature::NextBuddy) && many {
            self.queues[queue.index()].next = Some(we);
        }
        if self.cpus[cpu.index()].need_resched.is_some() {
            return false;
        }
        let (cp, wp) = (self.tasks[curr.index()].attr.policy, self.tasks[wakee.index()].attr.policy);
        match preempt::by_policy(cp, wp, self.fixed.kernel.features) {
            preempt::ByPolicy::Preempt => return true,
            preempt::ByPolicy::Refuse => return false,
            preempt::ByPolicy::Compare => {}
        }
        let Some((c, w)) = self.matching_level(ce, we) else { return false };
        let queue = self.entities[w.index()].cfs_rq;
        self.update_curr(queue);
        let (cv, wv) = (self.entities[c.index()].vruntime, self.entities[w.index()].vruntime);
        let weight = self.entities[w.index()].weight;
        if preempt::behind(cv, wv, weight, self.fixed.gran.wakeup_ns) != preempt::Behind::Yes {
            return false;
        }
        let q = &mut self.queues[queue.index()];
        q.next = Some(w);
        if self.has(Feature::LastBuddy) && many && self.entities[c.index()].on_rq {
            self.queues[queue.index()].last = Some(c);
        }
        true
    }

    /// Walks both entities up to the level where they share a queue.
    fn matching_level(&self, a: EntityId, b: EntityId) -> Option<(EntityId, EntityId)> {
        let chain = |mut e: EntityId| {
            std::iter::once(e)
                .chain(std::iter::from_fn(move || self.entities[e.index()].parent.inspect(|p| e = *p)))
        };
        chain(a).find_map(|x| {
            let queue = self.entities[x.index()].cfs_rq;
            chain(b).find(|y| self.entities[y.index()].cfs_rq == queue).map(|y| (x, y))
        })
    }
}
