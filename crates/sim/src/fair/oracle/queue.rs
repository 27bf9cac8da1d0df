//! Questions about one runqueue.

use crate::class::{Arrival, Dequeue, Enqueue};
use crate::fair::entity::EntityId;
use crate::fair::granularity::Granularity;
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_board::decision::{AskedEntity, AskedQueue, NOW, QueueAnswer, QueueQuestion};
use schedlab_kernel::{Attr, Kernel};
use schedlab_machine::Machine;
use schedlab_trace::Discard;

/// The CPU whose queue has the state.
const CPU: CpuId = CpuId(1);

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
pub fn answer(
    machine: &Machine,
    kernel: &Kernel,
    state: &AskedQueue,
    question: QueueQuestion,
) -> QueueAnswer {
    let mut sink = Discard;
    let mut sys = System::new(machine, *kernel, 1, &mut sink);
    let tasks = sys.write(state);
    match question {
        QueueQuestion::Pick => {
            let prev = state.current.map(|c| tasks[c]);
            let picked = sys.pick_next_task(CPU, prev);
            QueueAnswer::Picked(picked.and_then(|t| tasks.iter().position(|own| *own == t)))
        }
        QueueQuestion::Place => {
            let how = if state.is_new { Enqueue::New } else { Enqueue::Wakeup };
            sys.activate_task(CPU, tasks[state.about], how);
            let e = sys.entity(tasks[state.about]);
            let deadline = if sys.fixed.fair == Class::Eevdf { e.deadline } else { 0 };
            QueueAnswer::Placed { vruntime: e.vruntime, deadline }
        }
        QueueQuestion::Preempt => {
            let how = if state.is_new { Enqueue::New } else { Enqueue::Wakeup };
            let arrival = Arrival { task: tasks[state.about], how, sync: state.sync };
            let preempts = sys.wakeup_preempt(CPU, arrival) || sys.cpus[CPU].need_resched.is_some();
            let next = sys.fair.queues[sys.root(CPU)].next;
            let place = |e: EntityId| tasks.iter().position(|t| sys.tasks[*t].entity == e);
            QueueAnswer::Judged { preempts, next: next.and_then(place) }
        }
    }
}

impl System<'_> {
    /// Writes a state; returns its tasks in the order of its entities.
    fn write(&mut self, state: &AskedQueue) -> Vec<TaskId> {
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

    fn asked(&mut self, entity: &AskedEntity) -> TaskId {
        let slice = Ns(entity.slice_ns.into()).into();
        let attr = Attr { policy: entity.policy, nice: entity.nice, slice, ..Attr::default() };
        self.born(CPU, attr, None)
    }

    fn overwrite(&mut self, task: TaskId, to: &AskedEntity) {
        let e = self.tasks[task].entity;
        let base = self.fixed.gran.base_ns;
        let e = &mut self.fair.entities[e];
        (e.vruntime, e.deadline, e.vlag, e.vprot) = (to.vruntime, to.deadline, to.lag, to.protected_until);
        e.slice_ns = if to.slice_ns > 0 { u64::from(to.slice_ns) } else { base };
        e.rel_deadline = to.relative;
        e.exec_start = NOW;
    }
}
