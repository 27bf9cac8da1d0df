//! The runqueue: a CPU's counts of its tasks of all classes (`struct rq`, `kernel/sched/sched.h`, `core.c`).
//!
//! A class counts a task with [`System::add_nr_running`] when it puts it on its queue. The rest is the same for all
//! classes: the task's own `on_rq`, the start of its wait, whether the CPU reads as idle, whether the root domain is
//! overloaded.

pub mod clock;
pub mod hrtick;
pub mod pelt_clock;
pub mod pelt_lag;
mod sched_idle;
pub mod state;

use crate::rq::clock::Enqueuing;
use crate::system::System;
use schedlab_base::{CpuId, TaskId};

impl System<'_> {
    #[inline]
    pub fn add_nr_running(&mut self, cpu: CpuId) {
        let nr = &mut self.rqs.nr_running[cpu];
        *nr += 1;
        if *nr == 2 {
            self.balance.overload = true;
        }
        self.rqs.assert_counts(cpu);
    }
    #[inline]
    pub fn sub_nr_running(&mut self, cpu: CpuId) {
        let nr = self.rqs.nr_running[cpu];
        debug_assert!(nr > 0, "a task leaves {cpu}, which counts {nr}");
        self.rqs.nr_running[cpu] -= 1;
        self.rqs.assert_counts(cpu);
    }

    /// A class has put `task` on its queue of `cpu`.
    #[inline]
    pub(crate) fn queued(&mut self, cpu: CpuId, task: TaskId) {
        let t = &mut self.tasks[task];
        t.on_rq = true;
        t.cpu = cpu;
        self.count_queued(task);
        self.refresh_idle(cpu);
        self.assert_queue_counts(cpu);
    }
    /// A class has taken `task` off its queue.
    #[inline]
    pub(crate) fn dequeued(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        debug_assert!(t.on_rq, "{task:?} leaves the queue of {}, where it is not", t.cpu);
        t.on_rq = false;
        let cpu = t.cpu;
        self.count_dequeued(task);
        self.refresh_idle(cpu);
        self.assert_queue_counts(cpu);
    }

    /// Asserts that the counts of the root queue of `cpu` are consistent. The walk of the invariants compares the
    /// counts with the tasks, which takes far longer.
    #[inline]
    fn assert_queue_counts(&self, cpu: CpuId) {
        let q = &self.fair.queues[self.root(cpu)];
        debug_assert!(
            q.h_nr_running <= q.h_nr_queued && q.h_nr_idle <= q.h_nr_queued,
            "{cpu} counts {} tasks, {} runnable and {} SCHED_IDLE ones",
            q.h_nr_queued,
            q.h_nr_running,
            q.h_nr_idle
        );
    }

    /// Recomputes whether `cpu` reads as idle, after a change that may affect it. The CPU's line is dirty from now on.
    #[inline]
    pub fn refresh_idle(&mut self, cpu: CpuId) {
        let c = &self.cpus[cpu];
        self.rqs.idle[cpu] = c.curr.is_none() && self.rqs.nr_running[cpu] == 0 && c.wake_list.is_empty();
        self.remote_reads.dirty(cpu);
    }

    /// The time that the lock holder of `cpu`'s runqueue sees, ns.
    #[inline]
    pub fn rq_clock(&self, cpu: CpuId) -> u64 {
        self.cpus[cpu].clock.read(self.now)
    }

    /// Reads the clock of `cpu`'s runqueue during other work.
    #[inline]
    pub fn update_rq_clock(&mut self, cpu: CpuId) {
        self.cpus[cpu].clock.look(&self.fixed.history, self.now);
    }

    /// Begins an enqueue on `cpu` by a lock holder that has held the lock since `at`, ns; [`System::end_enqueue`] ends
    /// it.
    #[inline]
    pub fn begin_enqueue(&mut self, cpu: CpuId, at: u64) -> Enqueuing {
        self.cpus[cpu].clock.begin(&self.fixed.history, at)
    }

    /// Ends the enqueue, and notes whether it requested a switch (`check_preempt_curr`: the idle task counts as queued,
    /// and a lazy request does not count).
    #[inline]
    pub fn end_enqueue(&mut self, cpu: CpuId, begun: Enqueuing) {
        let c = &mut self.cpus[cpu];
        let queued = c.curr.is_none_or(|curr| self.tasks[curr].on_rq);
        let asked = c.must_resched() && queued;
        debug_assert!(c.clock.is_held(), "an enqueue on {cpu} ends at {} without the lock", self.now);
        c.clock.end(&self.fixed.history, begun, asked);
    }
}
