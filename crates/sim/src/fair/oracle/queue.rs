//! Questions about one runqueue.

use crate::class::{Arrival, Dequeue, Enqueue};
use crate::fair::entity::EntityId;
use crate::fair::granularity::Granularity;
use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_board::decision::{AskedEntity, AskedQueue, Bearing, NOW, QueueAnswer, QueueQuestion};
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
    let tasks = sys.write(state, &[]);
    sys.answer(state, &tasks, question)
}

/// Whether the current entity is to give way to the one that has just been queued.
pub(crate) fn gives_way(
    machine: &Machine,
    kernel: &Kernel,
    granularity: Granularity,
    state: (&AskedQueue, &[Bearing]),
) -> bool {
    let answer = asked((machine, kernel, granularity), state, QueueQuestion::Preempt);
    matches!(answer, QueueAnswer::Judged { preempts: true, .. })
}

/// The entity that is picked.
pub(crate) fn picks(
    machine: &Machine,
    kernel: &Kernel,
    granularity: Granularity,
    state: (&AskedQueue, &[Bearing]),
) -> Option<usize> {
    match asked((machine, kernel, granularity), state, QueueQuestion::Pick) {
        QueueAnswer::Picked(picked) => picked,
        QueueAnswer::Placed { .. } | QueueAnswer::Judged { .. } => None,
    }
}

/// The answer of our rules with these granularities. A group's weight is not that of a nice level.
fn asked(
    (machine, kernel, granularity): (&Machine, &Kernel, Granularity),
    (state, bearings): (&AskedQueue, &[Bearing]),
    question: QueueQuestion,
) -> QueueAnswer {
    let mut sink = Discard;
    let mut sys = System::new(machine, *kernel, 1, &mut sink);
    sys.fixed.gran = granularity;
    let tasks = sys.write(state, bearings);
    sys.answer(state, &tasks, question)
}

impl System<'_> {
    fn answer(&mut self, state: &AskedQueue, tasks: &[TaskId], question: QueueQuestion) -> QueueAnswer {
        let sys = self;
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

    /// Writes a state; returns its tasks in the order of its entities. Without bearings they have the weights of their
    /// nice levels.
    fn write(&mut self, state: &AskedQueue, bearings: &[Bearing]) -> Vec<TaskId> {
        self.now = NOW;
        let mut tasks = vec![TaskId(0); state.entities.len()];
        // Alone on the queue, it leaves without delay.
        if let Some(absent) = state.absent {
            tasks[absent] = self.asked_entity(&state.entities[absent]);
            self.deactivate_task(tasks[absent], Dequeue::Sleep);
        }
        for (i, entity) in state.entities.iter().enumerate().filter(|(i, _)| Some(*i) != state.absent) {
            tasks[i] = self.asked_entity(entity);
        }
        let queue = self.root(CPU);
        let queued = |i: &usize| Some(*i) != state.absent;
        for i in (0..tasks.len()).filter(queued) {
            self.off_line(self.tasks[tasks[i]].entity);
        }
        for (task, entity) in tasks.iter().zip(&state.entities) {
            self.overwrite(*task, entity);
        }
        for (task, bearing) in tasks.iter().zip(bearings) {
            self.bear(*task, *bearing);
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

    /// Gives a queued task another weight, or lets it sleep there.
    fn bear(&mut self, task: TaskId, to: Bearing) {
        let e = &mut self.fair.entities[self.tasks[task].entity];
        let q = &mut self.fair.queues[e.cfs_rq];
        q.load_fine = q.load_fine - e.fine_weight + to.weight;
        e.set_weight(to.weight);
        e.delayed = to.delayed;
        q.h_nr_running -= u32::from(to.delayed);
    }

    fn asked_entity(&mut self, entity: &AskedEntity) -> TaskId {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fair::oracle::fleet::timeless;
    use schedlab_base::Version;
    use schedlab_kernel::Policy;

    /// Entities at these vruntimes, the first one current and the last one just queued.
    fn queue(vruntimes: &[i64]) -> AskedQueue {
        let entity = |vruntime: &i64| AskedEntity {
            vruntime: *vruntime,
            deadline: vruntime + 3_000_000,
            lag: 0,
            protected_until: *vruntime,
            slice_ns: 0,
            policy: Policy::Other,
            nice: 0,
            relative: false,
        };
        AskedQueue {
            entities: vruntimes.iter().map(entity).collect(),
            current: Some(0),
            absent: None,
            next: None,
            last: None,
            skip: None,
            min_vruntime: 0,
            ran_ns: 0,
            about: vruntimes.len() - 1,
            is_new: false,
            sync: false,
        }
    }

    fn gives_way_under(version: (u16, u16), s: &AskedQueue, bearings: &[(u64, bool)]) -> bool {
        let machine = timeless(&Machine::load("smp-2").unwrap()).unwrap();
        let kernel = Kernel::of(Version::new(version.0, version.1));
        let granularity = Granularity::of(&kernel, 8);
        let bearings: Vec<Bearing> = bearings
            .iter()
            .map(|(weight, delayed)| Bearing { weight: weight << 20, delayed: *delayed })
            .collect();
        gives_way(&machine, &kernel, granularity, (s, &bearings))
    }

    #[test]
    fn a_group_is_judged_by_its_own_weight() {
        // 6 ms behind, where 4 ms count for a task of nice 0 on 8 CPUs, and more for a lighter entity.
        let s = queue(&[6_000_000, 0]);
        assert!(gives_way_under((6, 1), &s, &[(1, false), (1, false)]));
        let light = AskedQueue { entities: s.entities.clone(), ..s.clone() };
        let machine = timeless(&Machine::load("smp-2").unwrap()).unwrap();
        let kernel = Kernel::of(Version::new(6, 1));
        let bearings = [1 << 20, 1 << 19].map(|weight| Bearing { weight, delayed: false });
        assert!(!gives_way(&machine, &kernel, Granularity::of(&kernel, 8), (&light, &bearings)));
    }

    #[test]
    fn what_sleeps_on_the_queue_does_not_stand_before_the_wakee_in_7_3() {
        let s = queue(&[6_000_000, 0, 1_000_000]);
        let awake = [(1, false), (1, false), (1, false)];
        let asleep = [(1, false), (1, true), (1, false)];
        assert!(!gives_way_under((7, 3), &s, &awake) && gives_way_under((7, 3), &s, &asleep));
    }
}
