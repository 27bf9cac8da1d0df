//! Single questions to the fair class: a state, one function, its answer ([`schedlab_board::decision`]).
//! `schedlab validate --rules` puts the same questions to a kernel's own code.
//!
//! A state is written into a [`System`] of its own, so that drivers are asked and not only the pure rules. Quotas are
//! not part of a state yet.

pub mod fleet;
mod fleet_state;
pub mod queue;
pub mod tree;

use super::entity::EntityId;
use crate::run::{NewTask, add};
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, CpuSet, GroupId, TaskId};
use schedlab_board::thread::Thread;
use schedlab_kernel::Attr;
use schedlab_workload::{Env, Op, Program, ROOT_GROUP};

/// The CPU on which tasks are born. It is not asked about before they are all where they belong.
const BIRTH: CpuId = CpuId(0);

struct Nothing;

impl Program for Nothing {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        Op::Exit
    }
}

impl System<'_> {
    /// A task of a state, which comes to its CPU as a new one does.
    fn born(&mut self, cpu: CpuId, attr: Attr, allowed: Option<CpuSet>) -> TaskId {
        self.born_in(cpu, attr, allowed, ROOT_GROUP)
    }
    /// The same in a group.
    fn born_in(&mut self, cpu: CpuId, attr: Attr, allowed: Option<CpuSet>, group: GroupId) -> TaskId {
        let thread = Thread { counts: true, ..Thread::new(String::new(), Box::new(Nothing), 0, 50_000) };
        let task = add(self, NewTask { attr, allowed, cpu: BIRTH, group, ..NewTask::of(thread) });
        self.new_task(BIRTH, task, cpu);
        task
    }
    /// Takes a queued entity out of its queue's order.
    fn off_line(&mut self, entity: EntityId) {
        let (e, eevdf) = (&self.fair.entities[entity], self.fixed.fair == Class::Eevdf);
        let (line, e) = (self.line(e.cfs_rq), (e.deadline, e.vruntime));
        let q = &mut self.fair.queues[line];
        if eevdf { q.timeline.remove(entity, e.0) } else { q.remove(entity, e.1) }
    }
    /// Puts it back, by what it has now.
    fn on_line(&mut self, entity: EntityId) {
        if self.fixed.fair == Class::Eevdf {
            return self.line_up(entity);
        }
        let (queue, vruntime) = (self.fair.entities[entity].cfs_rq, self.fair.entities[entity].vruntime);
        self.fair.queues[queue].insert(entity, vruntime);
    }
}
