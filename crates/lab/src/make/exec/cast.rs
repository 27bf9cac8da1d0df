//! What the events of a simulated run need besides the simulator: two sinks for one run, and the cast.

use schedlab_analyse::TaskName;
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::Policy;
use schedlab_machine::Machine;
use schedlab_trace::{Actor, Cast, Counter, Counters, Event, Sink};
use schedlab_workload::Built;
use std::collections::BTreeMap;

/// Number of the first task of a simulated run. The first numbers belong to a kernel's own threads.
const FIRST_TID: u32 = 1000;
/// Priority of nice 0, as the kernel counts.
const NICE_0: i32 = 120;

/// Two sinks of the same events.
pub struct Both<'a, A, B>(pub &'a mut A, pub &'a mut B);

impl<A: Sink, B: Sink> Sink for Both<'_, A, B> {
    fn event(&mut self, event: &Event) {
        self.0.event(event);
        self.1.event(event);
    }
    fn sample(&mut self, at: Ns, task: TaskId, series: u16, value: u64) {
        self.0.sample(at, task, series, value);
        self.1.sample(at, task, series, value);
    }
    fn wants_details(&self) -> bool {
        self.0.wants_details() || self.1.wants_details()
    }
    fn counter(&mut self, at: Ns, counter: Counter, value: i64) {
        self.0.counter(at, counter, value);
        self.1.counter(at, counter, value);
    }
    fn wants_counters(&self) -> Counters {
        self.0.wants_counters().or(self.1.wants_counters())
    }
}

/// The cast of a simulated run.
pub(crate) fn cast(machine: &Machine, built: &Built, names: &[TaskName], release: String, end: Ns) -> Cast {
    // The first task of each part of a workload leads the part's process.
    let mut leaders: BTreeMap<u64, u32> = BTreeMap::new();
    let groups = built.group_paths();
    let actor = |(at, name): (usize, &TaskName)| {
        let tid = FIRST_TID + at as u32;
        let Some(task) = built.tasks.get(at) else {
            // A task of the machine.
            let name = name.name.clone();
            return Actor { name, tid, process: tid, background: true, prio: NICE_0, group: None };
        };
        let leader = *leaders.entry(task.part).or_insert(tid);
        let prio = match task.attr.policy {
            Policy::Fifo | Policy::Rr => 99 - i32::from(task.attr.rt_priority),
            Policy::Deadline => -1,
            _ => NICE_0 + i32::from(task.attr.nice),
        };
        Actor {
            name: name.name.clone(),
            tid,
            process: if built.processes { tid } else { leader },
            background: name.background,
            prio,
            group: groups.get(at).cloned().flatten(),
        }
    };
    let tasks = names.iter().enumerate().map(actor).collect();
    Cast { tasks, cpus: machine.topology.nr_cpus(), release, end }
}
