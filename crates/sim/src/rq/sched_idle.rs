//! CPUs that run only SCHED_IDLE tasks (`sched_idle_rq`, `sched_idle_cpu`; read in 6.1.192, 6.12.117, 7.2.12, 7.3.4).
//!
//! Such a CPU is busy, but any other task preempts it. Since 5.4 searches for an idle CPU take it, since 5.6 it
//! balances like an idle one. It is not idle by `idle_cpu()`: not for wake_affine, not for the choice of a group, not
//! for tickless balancing.

use crate::system::System;
use crate::task::Class;
use crate::wakeup::search::Answer;
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::{Attr, History, Policy};

impl System<'_> {
    /// 1 for a SCHED_IDLE task, as [`System::nr_sched_idle`] counts it.
    #[inline]
    pub(crate) fn counts_as_sched_idle(&self, task: TaskId) -> u32 {
        u32::from(self.tasks[task].attr.policy == Policy::Idle)
    }

    /// Whether a CPU has tasks, and all of them are SCHED_IDLE.
    #[inline]
    pub fn is_sched_idle(&self, cpu: CpuId) -> bool {
        let nr = self.rqs.nr_sched_idle[cpu];
        nr > 0 && nr == self.rqs.nr_running[cpu]
    }

    /// The current state of a CPU, as read by a search for `task` that follows `history`.
    #[inline]
    pub(crate) fn read_idle(&self, history: &History, cpu: CpuId, task: TaskId) -> Answer {
        match self.rqs.idle[cpu] {
            true => Answer::Idle,
            false if self.yields_to(history, cpu, task) => Answer::SchedIdle,
            false => Answer::Busy,
        }
    }

    /// Whether a CPU has only tasks that yield to `task`. Since 7.2 nothing yields to a SCHED_IDLE task.
    #[inline]
    pub(crate) fn yields_to(&self, history: &History, cpu: CpuId, task: TaskId) -> bool {
        history.reads_sched_idle
            && self.is_sched_idle(cpu)
            && !(history.sched_idle_wakees_wait && self.tasks[task].attr.policy == Policy::Idle)
    }

    /// Whether a CPU balances at the intervals of a busy one: it is not idle, and has tasks other than SCHED_IDLE ones.
    #[inline]
    pub(crate) fn balances_as_busy(&self, cpu: CpuId, idle: bool) -> bool {
        !(idle || self.fixed.history.sched_idle_balances && self.is_sched_idle(cpu))
    }

    /// A task has left `cpu`. If only SCHED_IDLE tasks remain, the CPU balances at the next tick.
    #[inline]
    pub(crate) fn note_sched_idle(&mut self, cpu: CpuId, was: bool) {
        if !was && self.is_sched_idle(cpu) && self.fixed.history.sched_idle_balances {
            self.cpus[cpu].next_balance = self.jiffies();
        }
    }

    /// The running task of `cpu` gets other attributes within its class: the kernel takes it off and puts it back.
    pub(crate) fn change_attr(&mut self, cpu: CpuId, task: TaskId, attr: Attr) {
        let (was, before) = (self.is_sched_idle(cpu), self.counts_as_sched_idle(task));
        // The O(1) scheduler has no cfs_rq whose counts would move with the task.
        let after = u32::from(attr.policy == Policy::Idle);
        let counts = self.class(task) == Class::O1 || self.recount_idle(task, before, after);
        if !counts {
            self.tasks[task].attr = attr;
            return;
        }
        self.rqs.nr_sched_idle[cpu] -= before;
        // A throttled real-time task is not counted among the running ones.
        let others = self.rqs.nr_running[cpu].saturating_sub(1);
        if !was
            && others > 0
            && self.rqs.nr_sched_idle[cpu] == others
            && self.fixed.history.sched_idle_balances
        {
            self.cpus[cpu].next_balance = self.jiffies();
        }
        self.tasks[task].attr = attr;
        self.rqs.nr_sched_idle[cpu] += self.counts_as_sched_idle(task);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::Dequeue;
    use crate::upkeep_tests::{born, with_system};

    #[test]
    fn policies_change_no_count_in_kernels_without_cfs_rqs() {
        with_system("v2.6.18", |sys| {
            let cpu = CpuId(0);
            let task = born(sys, cpu);
            sys.pick_next_task(cpu, None);
            sys.cpus[cpu].curr = Some(task);
            sys.set_attr(cpu, task, Attr { policy: Policy::Idle, ..Attr::default() });
            let queue = sys.fair.entities[sys.tasks[task].entity].cfs_rq;
            assert_eq!((sys.rqs.nr_sched_idle[cpu], sys.fair.queues[queue].h_nr_idle), (1, 0));
        });
    }

    #[test]
    fn a_cpu_whose_last_other_task_leaves_balances_soon_since_5_6() {
        for (version, soon) in [("v5.4", false), ("v6.5", true), ("v7.3", true)] {
            with_system(version, |sys| {
                let cpu = CpuId(0);
                let [a, b] = [(); 2].map(|()| born(sys, cpu));
                sys.pick_next_task(cpu, None);
                sys.cpus[cpu].curr = Some(a);
                assert!(!sys.is_sched_idle(cpu) && sys.balances_as_busy(cpu, false), "{version}");
                sys.set_attr(cpu, a, Attr { policy: Policy::Idle, ..Attr::default() });
                assert_eq!(sys.rqs.nr_sched_idle[cpu], 1, "{version}");
                sys.now += 40_000_000;
                sys.cpus[cpu].next_balance = 1_000;
                sys.deactivate_task(b, Dequeue::Move);
                assert!(sys.is_sched_idle(cpu), "{version}");
                assert_eq!(sys.cpus[cpu].next_balance == sys.jiffies(), soon, "{version}");
                assert_eq!(sys.balances_as_busy(cpu, false), !soon, "{version}");
                sys.set_attr(cpu, a, Attr::default());
                assert!(!sys.is_sched_idle(cpu), "{version}");
            });
        }
    }
}
