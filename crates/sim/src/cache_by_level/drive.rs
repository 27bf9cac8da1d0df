//! Drives working sets through time: a task's operations go over them chunk by chunk.

use crate::system::System;
use crate::task::UserOp;
use schedlab_base::{CpuId, TaskId};
use schedlab_world::cache_by_level::Sets;

impl System<'_> {
    /// Gives all tasks their blocks, once they are declared, if the machine's caches are known. CPUs that take turns
    /// have no caches of their own.
    pub fn lay_out_memory(&mut self) {
        if self.fixed.machine.turns.is_some() {
            return;
        }
        // A vCPU's thread pays for its moves as a whole.
        let kb = |t: &crate::task::Task| match t.user {
            UserOp::Vcpu { .. } => 0,
            _ => t.footprint_kb,
        };
        self.memory.by_level = Sets::new(self.fixed.machine, self.tasks.iter().map(kb));
    }

    /// The current task of `cpu` continues with its operation. After its last chunk the next operation begins.
    pub fn next_chunk(&mut self, cpu: CpuId, curr: TaskId) {
        let Some(memory) = &mut self.memory.by_level else { return };
        let task = &mut self.tasks[curr];
        match &mut task.user {
            UserOp::Run { left_ns } if *left_ns > 0 && memory.run_left_ns(curr) == 0 => {
                let warm_ns_per_kb = self.fixed.machine.costs.warm_ns_per_kb;
                task.refill_ns += memory.run_chunk(cpu, curr, *left_ns, warm_ns_per_kb);
            }
            UserOp::Touch { left_ns, .. } if *left_ns == 0 && memory.touches_on(curr) => {
                let chunk = memory.touch_chunk(cpu, curr);
                // Every operation takes some time.
                *left_ns = chunk.work_ns.max(1);
                task.refill_ns += chunk.refill_ns;
            }
            _ => {}
        }
    }

    /// Work until a task's current operation begins its next chunk, ns.
    #[inline]
    pub fn chunk_left_ns(&self, task: TaskId) -> u64 {
        match (&self.memory.by_level, self.tasks[task].user) {
            (Some(memory), UserOp::Run { .. }) => memory.run_left_ns(task),
            _ => u64::MAX,
        }
    }
}
