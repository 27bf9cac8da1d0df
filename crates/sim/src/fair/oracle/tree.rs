//! Questions about a CPU whose tasks are in groups, some of them delayed.
//!
//! A state is written entity by entity: the tasks come to their queues as new ones do, and then each entity gets the
//! values of the state. Load averages are those of this instant, so that none changes.

use crate::class::{Arrival, Dequeue, Enqueue};
use crate::fair::entity::{Entity, EntityId};
use crate::fair::runqueue::CfsRqId;
use crate::pelt::Pelt;
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, GroupId, Ns, TaskId};
use schedlab_board::decision::{
    After, AskedBranch, AskedEntity, AskedLeaf, AskedTree, Buddy, NOW, Presence, TREE_GROUPS, TreeAnswer,
    TreeQuestion,
};
use schedlab_kernel::{Attr, Kernel};
use schedlab_machine::Machine;
use schedlab_trace::Discard;
use schedlab_workload::{GroupDecl, ROOT_GROUP};

/// The CPU that has the state.
const CPU: CpuId = CpuId(1);

/// What states of a kernel have.
#[derive(Clone, Copy, Debug)]
pub struct Has {
    pub delayed: bool,
    pub idle_groups: bool,
    /// Tasks of all groups compete on one timeline.
    pub flat: bool,
    /// A delayed entity keeps the lag with which it fell asleep.
    pub debts: bool,
}

/// What states of a kernel have.
pub fn has(kernel: &Kernel) -> Has {
    let history = schedlab_kernel::History::of(kernel.version);
    Has {
        delayed: history.eevdf && kernel.features.has(schedlab_kernel::Feature::DelayDequeue),
        idle_groups: history.idle_groups,
        flat: history.flat_pick,
        debts: history.debt_shrinks,
    }
}

/// The answer of our rules. The machine has two CPUs or more.
pub fn answer(machine: &Machine, kernel: &Kernel, s: &AskedTree, question: TreeQuestion) -> TreeAnswer {
    let (mut sink, mut again) = (Discard, Discard);
    let mut sys = System::new(machine, *kernel, 1, &mut sink);
    let tasks = sys.write_tree(s);
    let about = tasks[s.about];
    let how = if s.is_new { Enqueue::New } else { Enqueue::Wakeup };
    let (mut picked, mut gives_way) = (None, false);
    match question {
        TreeQuestion::Pick => {
            let prev = s.current.map(|c| tasks[c]);
            picked = sys.pick_next_task(CPU, prev).and_then(|t| tasks.iter().position(|own| *own == t));
            if sys.fixed.fair == Class::Eevdf {
                // The pick alone, without the switch to what it found.
                sys = System::new(machine, *kernel, 1, &mut again);
                sys.write_tree(s);
                sys.drain(CPU);
            }
        }
        TreeQuestion::Wake => sys.activate_task(CPU, about, how),
        TreeQuestion::Sleep => sys.deactivate_task(about, Dequeue::Sleep),
        TreeQuestion::Preempt => {
            gives_way = sys.wakeup_preempt(CPU, Arrival { task: about, how, sync: s.sync });
        }
        TreeQuestion::Tick => gives_way = sys.task_tick(about).is_some(),
    }
    gives_way |= sys.cpus[CPU].need_resched.is_some();
    let groups = (0..TREE_GROUPS.len()).map(|g| sys.group_entity(g));
    let groups = groups.collect::<Vec<_>>();
    TreeAnswer {
        picked,
        gives_way,
        nr_running: sys.rqs.nr_running(CPU),
        tasks: tasks.iter().map(|t| sys.after(sys.tasks[*t].entity)).collect(),
        groups: groups.iter().map(|g| sys.after(*g)).collect(),
    }
}

/// A group of a state, as the system numbers it.
fn group_id(of: Option<usize>) -> GroupId {
    of.map_or(ROOT_GROUP, |g| GroupId::from(g + 1))
}

impl System<'_> {
    fn group_entity(&self, group: usize) -> EntityId {
        self.owner_of(group_id(Some(group)), CPU).expect("it is below the root")
    }

    fn after(&self, entity: EntityId) -> After {
        let e = &self.fair.entities[entity];
        let line = self.line(e.cfs_rq);
        let runs = self.line_curr(line) == Some(entity) && e.on_rq && !e.delayed;
        let protection = (e.vprot - e.vruntime).max(0);
        After {
            on_rq: e.on_rq,
            delayed: e.delayed,
            next: self.fair.queues[line].next == Some(entity),
            relative: e.rel_deadline,
            vruntime: e.vruntime,
            deadline: e.deadline,
            keeps: match runs {
                true if self.fixed.history.protects_shortest => protection,
                true => i64::from(protection > 0),
                false => e.vlag,
            },
            weight: e.fine_weight,
            line_weight: e.line_fine,
        }
    }

    /// Writes a state; returns its tasks in their order.
    fn write_tree(&mut self, s: &AskedTree) -> Vec<TaskId> {
        self.now = NOW;
        self.declare_tree(s);
        let tasks = self.queue_leaves(s);
        let delayed = |wanted: bool| {
            let is = move |t: &AskedLeaf| match t.presence {
                Presence::Absent => false,
                Presence::Queued => !wanted,
                Presence::Delayed => true,
            };
            s.tasks.iter().enumerate().filter(move |(_, t)| is(t)).map(|(i, _)| i)
        };
        delayed(false).for_each(|i| self.renew_levels(s, tasks[i], Some(i), s.tasks[i].group));
        for i in delayed(true) {
            self.delay_leaf(tasks[i]);
            self.renew_levels(s, tasks[i], Some(i), s.tasks[i].group);
        }
        for g in (0..s.groups.len()).filter(|g| s.groups[*g].delayed) {
            self.delay_branch(s, g);
        }
        for (i, t) in s.tasks.iter().enumerate().filter(|(_, t)| t.presence == Presence::Absent) {
            self.overwrite_entity(self.tasks[tasks[i]].entity, &t.entity);
            self.divide_leaf(tasks[i], t);
        }
        for g in (0..s.groups.len()).filter(|g| !s.is_queued(*g)) {
            let entity = self.group_entity(g);
            self.overwrite_branch(entity, &s.groups[g]);
        }
        self.settle_tree(s, &tasks);
        if let Some(curr) = s.current {
            self.run_leaf(s, tasks[curr]);
        }
        tasks
    }

    fn declare_tree(&mut self, s: &AskedTree) {
        let decl = |(g, (branch, parent)): (usize, (&AskedBranch, &Option<usize>))| GroupDecl {
            path: format!("/{g}"),
            parent: Some(group_id(*parent)),
            shares: branch.shares,
            idle: branch.idle,
            ..GroupDecl::root()
        };
        let below = s.groups.iter().zip(&TREE_GROUPS).enumerate().map(decl);
        let all: Vec<GroupDecl> = std::iter::once(GroupDecl::root()).chain(below).collect();
        self.declare_groups(&all);
    }

    /// Tasks come to their queues. Those that are absent come first, alone, and leave without delay.
    fn queue_leaves(&mut self, s: &AskedTree) -> Vec<TaskId> {
        let mut tasks = vec![TaskId(0); s.tasks.len()];
        let absent = |t: &AskedLeaf| t.presence == Presence::Absent;
        for (i, t) in s.tasks.iter().enumerate().filter(|(_, t)| absent(t)) {
            tasks[i] = self.leaf(t);
            self.deactivate_task(tasks[i], Dequeue::Throttle);
        }
        for (i, t) in s.tasks.iter().enumerate().filter(|(_, t)| !absent(t)) {
            tasks[i] = self.leaf(t);
        }
        tasks
    }
    fn leaf(&mut self, t: &AskedLeaf) -> TaskId {
        let slice = Ns(t.entity.slice_ns.into()).into();
        let attr = Attr { policy: t.entity.policy, nice: t.entity.nice, slice, ..Attr::default() };
        self.born_in(CPU, attr, None, group_id(t.group))
    }

    /// A queued task and the groups above it get the values of the state, and go behind their equals.
    fn renew_levels(&mut self, s: &AskedTree, task: TaskId, leaf: Option<usize>, group: Option<usize>) {
        if let Some(i) = leaf {
            let entity = self.tasks[task].entity;
            self.off_line(entity);
            self.overwrite_entity(entity, &s.tasks[i].entity);
            self.divide_leaf(task, &s.tasks[i]);
            self.on_line(entity);
        }
        for g in AskedTree::above(group) {
            let entity = self.group_entity(g);
            let competes = !self.is_flat();
            if competes {
                self.off_line(entity);
            }
            self.overwrite_branch(entity, &s.groups[g]);
            if competes {
                self.on_line(entity);
            }
        }
    }
    fn divide_leaf(&mut self, task: TaskId, t: &AskedLeaf) {
        if self.is_flat() {
            let entity = self.tasks[task].entity;
            self.fair.entities[entity].set_line_weight(t.line_weight);
        }
    }

    /// The task is asleep from now on, and stays queued.
    fn delay_leaf(&mut self, task: TaskId) {
        let entity = self.tasks[task].entity;
        self.fair.entities[entity].delayed = true;
        let mut level = Some(entity);
        while let Some(at) = level {
            let queue = self.fair.entities[at].cfs_rq;
            self.fair.queues[queue].h_nr_running -= 1;
            level = self.fair.entities[at].parent;
        }
    }
    /// The group without tasks stays queued. Those above it have others.
    fn delay_branch(&mut self, s: &AskedTree, g: usize) {
        let entity = self.group_entity(g);
        self.overwrite_branch(entity, &s.groups[g]);
        let e = &mut self.fair.entities[entity];
        (e.on_rq, e.delayed) = (true, true);
        let q = &mut self.fair.queues[e.cfs_rq];
        q.load_fine += e.fine_weight;
        q.nr_running += 1;
        self.on_line(entity);
        self.renew_levels(s, TaskId(0), None, TREE_GROUPS[g]);
    }

    fn overwrite_branch(&mut self, entity: EntityId, g: &AskedBranch) {
        let e = &mut self.fair.entities[entity];
        if e.on_rq {
            let q = &mut self.fair.queues[e.cfs_rq];
            q.load_fine = q.load_fine - e.fine_weight + g.weight;
        }
        e.set_weight(g.weight);
        self.overwrite_entity(entity, &g.entity);
    }
    fn overwrite_entity(&mut self, entity: EntityId, to: &AskedEntity) {
        let base = self.fixed.gran.base_ns;
        let e = &mut self.fair.entities[entity];
        (e.vruntime, e.deadline, e.vlag, e.vprot) = (to.vruntime, to.deadline, to.lag, to.protected_until);
        e.slice_ns = if to.slice_ns > 0 { u64::from(to.slice_ns) } else { base };
        e.rel_deadline = to.relative;
        e.exec_start = NOW;
    }

    /// Load averages, floors and buddies.
    fn settle_tree(&mut self, s: &AskedTree, tasks: &[TaskId]) {
        let queue_of = |sys: &System<'_>, g| sys.group_queue(group_id(g), CPU);
        let entities: Vec<EntityId> = tasks.iter().map(|t| self.tasks[*t].entity).collect();
        let owners = (0..s.groups.len()).map(|g| self.group_entity(g));
        for entity in entities.into_iter().chain(owners.collect::<Vec<_>>()) {
            let now = self.pelt_clock(self.fair.entities[entity].cfs_rq);
            let e = &mut self.fair.entities[entity];
            e.avg = Pelt { last_update_ns: now, left_out: e.avg.left_out, ..Pelt::default() };
        }
        let loads =
            std::iter::once((None, 0)).chain(s.groups.iter().enumerate().map(|(g, b)| (Some(g), b.load)));
        for (g, load) in loads.collect::<Vec<_>>() {
            let queue = queue_of(self, g);
            let now = self.pelt_clock(queue);
            let q = &mut self.fair.queues[queue];
            q.avg = Pelt { last_update_ns: now, load_avg: load, ..Pelt::default() };
            (q.min_vruntime, q.next) = (s.min_vruntime, None);
            q.timeline.rebase(s.min_vruntime);
            let own = &mut self.fair.group_rqs[queue];
            (own.contribution, own.propagates, own.runnable_sum) = (load, false, 0);
        }
        for (g, branch) in s.groups.iter().enumerate() {
            let group = &mut self.fair.groups[group_id(Some(g))];
            (group.load, group.runnable) = (branch.load + branch.load_elsewhere, branch.runnable);
        }
        let named = s.next.map(|next| match next {
            Buddy::Task(i) => self.tasks[tasks[i]].entity,
            Buddy::Group(g) => self.group_entity(g),
        });
        let mut level = named;
        while let Some(at) = level {
            let line = self.line(self.fair.entities[at].cfs_rq);
            self.fair.queues[line].next = Some(at);
            level = self.fair.entities[at].parent.filter(|_| !self.is_flat());
        }
        let c = &mut self.cpus[CPU];
        (c.need_resched, c.lazy) = (None, false);
    }

    fn run_leaf(&mut self, s: &AskedTree, task: TaskId) {
        let mut level = Some(self.tasks[task].entity);
        while let Some(at) = level {
            if self.fair.entities[at].task.is_some() || !self.is_flat() {
                self.off_line(at);
            }
            let Entity { cfs_rq, parent, .. } = self.fair.entities[at];
            self.fair.entities[at].exec_start = NOW - s.ran_ns;
            let queue: CfsRqId = cfs_rq;
            self.fair.queues[queue].curr = Some(at);
            level = parent;
        }
        self.cpus[CPU].curr = Some(task);
    }
}
