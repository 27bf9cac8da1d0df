//! Push and pull keep the most important tasks of the machine running (`push_rt_task`, `pull_rt_task`,
//! `task_woken_rt`).
//!
//! A CPU pushes when a woken task cannot run there, and after each switch to a real-time task while others wait. A CPU
//! whose own work has become less important pulls: it takes the tasks itself. With RT_PUSH_IPI it asks the overloaded
//! CPUs by an IPI, one after another, to push.

use crate::class::{Dequeue, Enqueue};
use crate::rt::Rank;
use crate::system::System;
use schedlab_base::{CpuId, CpuSet, TaskId};
use schedlab_kernel::Feature;
use schedlab_trace::{EventKind, MoveReason, SwitchReason};

impl System<'_> {
    /// The rank of the work that runs on `cpu`.
    fn rank_of_curr(&self, cpu: CpuId) -> Rank {
        self.cpus[cpu].curr.map_or(Rank::NONE, |c| Rank::of(self.tasks[c].attr))
    }

    /// The next task that `cpu` would push: the most important waiting one that may run elsewhere.
    fn pushable(&self, cpu: CpuId, to: Option<CpuId>) -> Option<(Rank, TaskId)> {
        let waits = |t: TaskId| self.cpus[cpu].curr != Some(t) && !self.tasks[t].on_cpu;
        let may = |t: TaskId| to.map_or(self.is_migratory(t), |to| self.tasks[t].may_run_on(to));
        self.rt.rqs[cpu].array.iter().find(|(_, t)| waits(*t) && may(*t))
    }

    /// Recomputes whether `cpu` is overloaded, after a change of its tasks or of their affinity.
    pub(in crate::rt) fn note_overload(&mut self, cpu: CpuId) {
        let tasks = self.rt.rqs[cpu].array.iter();
        self.rt.rqs[cpu].nr_migratory = tasks.filter(|(_, t)| self.is_migratory(*t)).count() as u32;
        let set = &mut self.rt.shared.overloaded;
        if self.rt.rqs[cpu].is_overloaded() { set.insert(cpu) } else { set.remove(cpu) }
    }

    /// Pushes a task that was woken on `cpu` and may have to wait long there.
    pub(in crate::rt) fn push_woken(&mut self, cpu: CpuId, task: TaskId) {
        let Some(curr) = self.cpus[cpu].curr.filter(|c| *c != task) else { return };
        let (own, running) = (Rank::of(self.tasks[task].attr), Rank::of(self.tasks[curr].attr));
        let stuck = running != Rank::NONE && (!self.is_migratory(curr) || running <= own);
        if stuck && !self.cpus[cpu].must_resched() && self.is_migratory(task) {
            self.push_tasks(cpu);
        }
    }

    /// Pushes waiting tasks of `cpu` as long as that helps (`push_rt_tasks`).
    pub(in crate::rt) fn push_tasks(&mut self, cpu: CpuId) {
        while self.push_one(cpu) {}
    }

    fn push_one(&mut self, cpu: CpuId) -> bool {
        if !self.rt.rqs[cpu].is_overloaded() {
            return false;
        }
        let Some((rank, task)) = self.pushable(cpu, None) else { return false };
        if rank < self.rank_of_curr(cpu) {
            // The waiting task is about to run here.
            self.resched(self.stepping.acting, cpu, SwitchReason::WakeupPreempt);
            return false;
        }
        match self.find_lowest_rq(self.stepping.acting, task, cpu) {
            Some(to) if to != cpu && rank < self.rt.rqs[to].highest() => {
                self.move_rt(task, to, MoveReason::RtPush);
                true
            }
            _ => false,
        }
    }

    /// Moves a waiting task to another CPU.
    fn move_rt(&mut self, task: TaskId, to: CpuId, why: MoveReason) {
        let (from, by) = (self.tasks[task].cpu, self.stepping.acting);
        self.update_rq_clock(from);
        self.deactivate_task(task, Dequeue::Move);
        self.migrate_task(task, to);
        self.emit(to, EventKind::Migrate { task, from, why });
        let begun = self.begin_enqueue(to, self.now);
        self.activate_task(to, task, Enqueue::Moved);
        self.resched(by, to, SwitchReason::Arrived);
        self.end_enqueue(to, begun);
    }

    /// A real-time task leaves `cpu`, and the rest there is less important: pulls more important tasks from other CPUs.
    pub(in crate::rt) fn pull_tasks(&mut self, cpu: CpuId) {
        let others = |c: &CpuId| *c != cpu;
        if self.rt.shared.overloaded.iter().find(others).is_none() {
            return;
        }
        if self.has(Feature::RtPushIpi) {
            return self.ask_to_push(cpu, None);
        }
        for src in self.cpus.ids().filter(others) {
            if !self.rt.shared.overloaded.contains(src)
                || self.rt.rqs[src].array.next() >= self.rt.rqs[cpu].highest()
            {
                continue;
            }
            if let Some((rank, task)) = self.pushable(src, Some(cpu))
                && rank < self.rt.rqs[cpu].highest()
                && rank >= self.rank_of_curr(src)
            {
                self.move_rt(task, cpu, MoveReason::RtPull);
            }
        }
    }

    /// Asks the next overloaded CPU after `after` to push (`tell_cpu_to_push`, `rto_next_cpu`). Only one is asked at a
    /// time.
    fn ask_to_push(&mut self, by: CpuId, after: Option<CpuId>) {
        let shared = &mut self.rt.shared;
        if shared.asked.iter().any(|c| shared.overloaded.contains(c)) {
            shared.ask_again = true;
            return;
        }
        shared.asked = CpuSet::new();
        let next = |c: &CpuId| *c != by && after.is_none_or(|a| *c > a);
        let again = after.is_some() && std::mem::take(&mut self.rt.shared.ask_again);
        let found = self.rt.shared.overloaded.iter().find(next);
        match found {
            Some(cpu) => {
                self.rt.shared.asked.insert(cpu);
                self.kick(by, cpu);
            }
            // Another CPU has run out of important work meanwhile: the round starts again from the first CPU.
            None if again => self.ask_to_push(by, None),
            None => {}
        }
    }

    /// Handles the IPI that asks `cpu` to push, if one was sent.
    pub(crate) fn push_asked(&mut self, cpu: CpuId) {
        if !self.rt.shared.any || !self.rt.shared.asked.contains(cpu) {
            return;
        }
        self.rt.shared.asked.remove(cpu);
        self.push_tasks(cpu);
        self.ask_to_push(cpu, Some(cpu));
    }
}
