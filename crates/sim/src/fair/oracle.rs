//! Single questions to the fair class: a queue in a given state, one function, its answer. `schedlab validate --rules`
//! puts the same questions to a kernel's own code.
//!
//! The state is written into a [`System`] of its own, so that drivers are asked and not only the pure rules. Groups,
//! quotas and delayed entities are not part of a state yet. [`fleet`] asks about whole machines.

pub mod fleet;

use super::entity::EntityId;
use super::granularity::Granularity;
use crate::class::{Arrival, Dequeue, Enqueue};
use crate::run::{NewTask, add};
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::{Attr, Kernel, Policy};
use schedlab_machine::Machine;
use schedlab_trace::Discard;
use schedlab_workload::{Env, Op, Program, ROOT_GROUP};

/// The CPU whose queue has the state; tasks are born on another one.
const CPU: CpuId = CpuId(1);
const BIRTH: CpuId = CpuId(0);
/// When all questions are asked, ns.
const NOW: u64 = 10_000_000_000;

/// An entity of a state, by the values that its queue orders it by. Times are virtual ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Asked {
    pub vruntime: i64,
    /// A distance while `relative`.
    pub deadline: i64,
    /// The lag it has kept while it was on no queue.
    pub lag: i64,
    /// The vruntime at which its protection ends, while it runs.
    pub protected_until: i64,
    /// The slice it has asked for, ns; 0: none.
    pub slice_ns: u32,
    pub policy: Policy,
    pub nice: i8,
    pub relative: bool,
}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Who runs next.
    Pick,
    /// Where an entity that is on no queue starts.
    Place,
    /// Whether an entity that has just been queued preempts the current one.
    Preempt,
}

/// A queue's state, and what is asked about it. Entities are named by their place in the list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// In the order in which they were queued.
    pub entities: Vec<Asked>,
    pub current: Option<usize>,
    /// On no queue.
    pub absent: Option<usize>,
    pub next: Option<usize>,
    pub last: Option<usize>,
    pub skip: Option<usize>,
    /// The queue's floor; under EEVDF its virtual time while it is empty.
    pub min_vruntime: i64,
    /// The current entity has run so long since it was charged, ns.
    pub ran_ns: u64,
    /// The entity that is placed, or may preempt.
    pub about: usize,
    pub is_new: bool,
    /// Its waker is about to sleep.
    pub sync: bool,
}

/// The answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Picked(Option<usize>),
    /// Virtual ns; the deadline is 0 where entities have none.
    Placed {
        vruntime: i64,
        deadline: i64,
    },
    /// Whether the current entity is to give way, and the buddy then.
    Judged {
        preempts: bool,
        next: Option<usize>,
    },
}

struct Nothing;

impl Program for Nothing {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        Op::Exit
    }
}

/// The slice of an entity that asks for none, ns.
pub fn base_slice_ns(kernel: &Kernel, machine: &Machine) -> u64 {
    Granularity::of(kernel, machine.topology.nr_cpus()).base_ns
}

/// Whether the fair class of this kernel has deadlines.
pub fn has_deadlines(kernel: &Kernel) -> bool {
    let machine = Machine::load("smp-2").expect("a machine that ships");
    let mut sink = Discard;
    System::new(&machine, *kernel, 1, &mut sink).fixed.fair == Class::Eevdf
}

/// The answer of our rules. The machine has two CPUs or more.
pub fn answer(machine: &Machine, kernel: &Kernel, state: &State, question: Question) -> Answer {
    let mut sink = Discard;
    let mut sys = System::new(machine, *kernel, 1, &mut sink);
    let tasks = sys.write(state);
    match question {
        Question::Pick => {
            let prev = state.current.map(|c| tasks[c]);
            let picked = sys.pick_next_task(CPU, prev);
            Answer::Picked(picked.and_then(|t| tasks.iter().position(|own| *own == t)))
        }
        Question::Place => {
            let how = if state.is_new { Enqueue::New } else { Enqueue::Wakeup };
            sys.activate_task(CPU, tasks[state.about], how);
            let e = sys.entity(tasks[state.about]);
            let deadline = if sys.fixed.fair == Class::Eevdf { e.deadline } else { 0 };
            Answer::Placed { vruntime: e.vruntime, deadline }
        }
        Question::Preempt => {
            let how = if state.is_new { Enqueue::New } else { Enqueue::Wakeup };
            let arrival = Arrival { task: tasks[state.about], how, sync: state.sync };
            let preempts = sys.wakeup_preempt(CPU, arrival) || sys.cpus[CPU].need_resched.is_some();
            let next = sys.fair.queues[sys.root(CPU)].next;
            let place = |e: EntityId| tasks.iter().position(|t| sys.tasks[*t].entity == e);
            Answer::Judged { preempts, next: next.and_then(place) }
        }
    }
}

impl System<'_> {
    /// Writes a state; returns its tasks in the order of its entities.
    fn write(&mut self, state: &State) -> Vec<TaskId> {
        self.now = NOW;
        let mut tasks = vec![TaskId(0); state.entities.len()];
        // Alone on the queue, it leaves without delay.
        if let Some(absent) = state.absent {
            tasks[absent] = self.asked(&state.entities[absent]);
            self.deactivate_task(tasks[absent], Dequeue::Sleep);
        }
        for (i, entity) in state.entities.iter().enumerate().filter(|(i, _)| Some(*i) != state.absent) {
            tasks[i] = self.asked(entity);
        }
        let queue = self.root(CPU);
        let queued = |i: &usize| Some(*i) != state.absent;
        for i in (0..tasks.len()).filter(queued) {
            self.off_line(self.tasks[tasks[i]].entity);
        }
        for (task, entity) in tasks.iter().zip(&state.entities) {
            self.overwrite(*task, entity);
        }
        for i in (0..tasks.len()).filter(queued).filter(|i| Some(*i) != state.current) {
            self.on_line(self.tasks[tasks[i]].entity);
        }
        let named = |at: Option<usize>| at.map(|i| self.tasks[tasks[i]].entity);
        let (curr, next, last, skip) =
            (named(state.current), named(state.next), named(state.last), named(state.skip));
        if let Some(curr) = curr {
            self.fair.entities[curr].exec_start = NOW - state.ran_ns;
        }
        let q = &mut self.fair.queues[queue];
        (q.curr, q.next, q.last, q.skip, q.min_vruntime) = (curr, next, last, skip, state.min_vruntime);
        q.timeline.rebase(state.min_vruntime);
        let c = &mut self.cpus[CPU];
        (c.curr, c.need_resched, c.lazy) = (state.current.map(|i| tasks[i]), None, false);
        tasks
    }

    fn asked(&mut self, entity: &Asked) -> TaskId {
        let attr = Attr {
            policy: entity.policy,
            nice: entity.nice,
            slice: Ns(entity.slice_ns.into()).into(),
            ..Attr::default()
        };
        let task = add(
            self,
            NewTask {
                name: String::new(),
                background: false,
                waits_at_end: false,
                counts: true,
                program: Box::new(Nothing),
                attr,
                allowed: None,
                footprint_kb: 0,
                slack_ns: None,
                mm: None,
                cpu: BIRTH,
                group: ROOT_GROUP,
            },
        );
        self.new_task(BIRTH, task, CPU);
        task
    }

    fn overwrite(&mut self, task: TaskId, to: &Asked) {
        let e = self.tasks[task].entity;
        let base = self.fixed.gran.base_ns;
        let e = &mut self.fair.entities[e];
        (e.vruntime, e.deadline, e.vlag, e.vprot) = (to.vruntime, to.deadline, to.lag, to.protected_until);
        e.slice_ns = if to.slice_ns > 0 { u64::from(to.slice_ns) } else { base };
        e.rel_deadline = to.relative;
        e.exec_start = NOW;
    }

    fn off_line(&mut self, entity: EntityId) {
        let (e, eevdf) = (&self.fair.entities[entity], self.fixed.fair == Class::Eevdf);
        let q = &mut self.fair.queues[e.cfs_rq];
        if eevdf { q.timeline.remove(entity, e.deadline) } else { q.remove(entity, e.vruntime) }
    }
    fn on_line(&mut self, entity: EntityId) {
        if self.fixed.fair == Class::Eevdf {
            return self.line_up(entity);
        }
        let (queue, vruntime) = (self.fair.entities[entity].cfs_rq, self.fair.entities[entity].vruntime);
        self.fair.queues[queue].insert(entity, vruntime);
    }
}
