//! Counters of CPUs and tasks, for sinks that ask for them ([`Counter`]). They are only read: a run is the same with
//! and without them.
//!
//! They are reported when the scheduler has acted: at switches, at ticks and when a task is queued, for that CPU and
//! those tasks. Between these a value stays the same, as in the kernel, which accounts time only then.

use crate::system::System;
use crate::task::Class;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Counter, CounterKind};

impl System<'_> {
    /// Reports the counters of a CPU and of some tasks, if the sink asks for any.
    #[inline]
    pub fn report_counters(&mut self, cpu: CpuId, tasks: [Option<TaskId>; 2]) {
        if self.out.wants().any() {
            self.report_counters_now(cpu, tasks);
        }
    }
    /// A separate function, so that runs without counters do not load its code.
    #[cold]
    #[inline(never)]
    fn report_counters_now(&mut self, cpu: CpuId, tasks: [Option<TaskId>; 2]) {
        if self.out.wants().has(CounterKind::Load) {
            let load = self.load_now(cpu) as i64;
            self.report_counter(Counter::Load(cpu), Some(load));
        }
        for task in tasks.into_iter().flatten() {
            self.report_counter(Counter::Vruntime(task), self.past_min_vruntime(task));
            self.report_counter(Counter::Lag(task), self.lag_now(task));
            self.report_counter(Counter::Slice(task), self.slice_left(task));
        }
    }
    fn report_counter(&mut self, counter: Counter, value: Option<i64>) {
        if let Some(value) = value.filter(|_| self.out.wants().has(counter.kind())) {
            self.out.sink().counter(Ns(self.now), counter, value);
        }
    }

    /// The vruntime of a task on a queue of CFS minus the queue's min_vruntime, virtual ns.
    fn past_min_vruntime(&self, task: TaskId) -> Option<i64> {
        let e = self.entity(task);
        let is_cfs = matches!(self.class(task), Class::Cfs | Class::Early);
        (is_cfs && e.on_rq).then(|| e.vruntime - self.fair.queues[e.cfs_rq].min_vruntime)
    }
    /// The lag of a task on a queue of EEVDF, virtual ns.
    fn lag_now(&self, task: TaskId) -> Option<i64> {
        let e = self.entity(task);
        let queued = self.class(task) == Class::Eevdf && e.on_rq;
        queued.then(|| self.average(e.cfs_rq).time() - e.vruntime)
    }
    /// The rest of a task's slice: for CFS, ns of the running task; for EEVDF, virtual ns until the deadline of any
    /// queued task; for the O(1) scheduler, whole ticks. Real-time tasks have none here.
    fn slice_left(&self, task: TaskId) -> Option<i64> {
        let e = self.entity(task);
        match self.class(task) {
            Class::Eevdf => (e.on_rq && !e.rel_deadline).then(|| e.deadline - e.vruntime),
            Class::Cfs | Class::Early => {
                let runs = self.cpus[self.fair.queues[e.cfs_rq].cpu].curr == Some(task) && e.on_rq;
                let ran_ns = e.sum_exec - e.prev_sum_exec;
                runs.then(|| self.slice_ns(self.tasks[task].entity) as i64 - ran_ns as i64)
            }
            Class::O1 => Some((self.tasks[task].o1.left * self.fixed.tick_ns) as i64),
            Class::Rt => None,
        }
    }
}
