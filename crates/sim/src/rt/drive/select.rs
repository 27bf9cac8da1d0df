//! Drives `select`: finds the CPU of a real-time task that wakes up or is pushed.

use crate::affinity;
use crate::class::Select;
use crate::rt::Rank;
use crate::rt::select::*;
use crate::system::System;
use schedlab_base::{CpuId, CpuSet, TaskId};
use schedlab_trace::PlaceReason;

impl System<'_> {
    /// The CPU of a waking or new task; `by` is the waker's CPU, `prev` the task's own.
    pub(in crate::rt) fn select_rt(&mut self, by: CpuId, task: TaskId, prev: CpuId) -> Select {
        let own = Rank::of(self.tasks[task].attr);
        let waking = RtWaking {
            curr: self.cpus[prev].curr.map(|c| Rank::of(self.tasks[c].attr)).filter(|r| *r != Rank::NONE),
            curr_is_pinned: self.cpus[prev].curr.is_some_and(|c| !self.is_migratory(c)),
            own,
            compares: self.fixed.history.rt_wakee_compares,
        };
        let stays = Select::At(prev, PlaceReason::RtStays);
        if !looks_elsewhere(waking) {
            return stays;
        }
        match self.find_lowest_rq(by, task, prev) {
            Some(cpu) if own < self.rt.rqs[cpu].highest() => Select::At(cpu, PlaceReason::RtLowest),
            _ => stays,
        }
    }

    /// The best of the CPUs with the least important work: the task's own, else the acting one, else a near one.
    pub(in crate::rt) fn find_lowest_rq(&mut self, by: CpuId, task: TaskId, prev: CpuId) -> Option<CpuId> {
        if !self.is_migratory(task) {
            return None;
        }
        let t = &self.tasks[task];
        let cpus = self.cpus.ids().filter(|c| t.may_run_on(*c)).map(|c| (c, self.rt.rqs[c].highest()));
        let mask = lowest(Rank::of(t.attr), cpus);
        if mask.is_empty() || mask.contains(prev) {
            return mask.contains(prev).then_some(prev);
        }
        let last = self.fixed.history.rt_distributes.then_some(self.cpus[by].distributed);
        let after = |set: &CpuSet| last.map_or_else(|| set.lowest(), |last| affinity::after(set, last));
        let near = |d: &schedlab_machine::Domain| {
            if mask.contains(by) && d.span.contains(by) {
                Some((by, false))
            } else {
                after(&mask.and(&d.span)).map(|c| (c, true))
            }
        };
        let domains = self.fixed.domains.of_cpu[prev].iter().filter(|d| d.params.wake_affine);
        let found = domains.into_iter().find_map(near);
        let (cpu, distributed) = match found {
            Some(found) => found,
            None if mask.contains(by) => (by, false),
            None => (after(&mask)?, true),
        };
        if distributed {
            self.cpus[by].distributed = cpu;
        }
        Some(cpu)
    }

    /// Whether a task may run on more than one CPU.
    pub(in crate::rt) fn is_migratory(&self, task: TaskId) -> bool {
        self.tasks[task].allowed.as_ref().map_or(self.nr_cpus(), CpuSet::len) > 1
    }
}
