//! Stays on a CPU as its private cache sees them: the KB a task leaves there, finds again and fetches anew; times in
//! ns.

use super::Reuse;
use crate::system::System;
use crate::task::UserOp;
use schedlab_base::{CpuId, TaskId};

impl System<'_> {
    /// `task` leaves `cpu` after a stay of `stayed_ns`.
    pub fn leave_cache(&mut self, cpu: CpuId, task: TaskId, stayed_ns: u64) {
        if !self.memory.by_core.on {
            return;
        }
        let costs = &self.fixed.machine.costs;
        let t = &mut self.tasks[task];
        let in_stay = |ns_per_kb: u64| (stayed_ns / ns_per_kb.max(1)).min(u64::from(u32::MAX)) as u32;
        let touched = t.reuse.touch_kb.min(in_stay(costs.touch_ns_per_kb));
        let worked = t.footprint_kb.min(in_stay(costs.warm_ns_per_kb));
        let kb = t.reuse.held_kb.max(touched).max(worked).min(self.memory.by_core.capacity_kb);
        t.reuse.held_kb = kb;
        t.reuse.touch_kb = 0;
        let capacity_kb = self.memory.by_core.capacity_kb;
        self.memory.by_core.core(cpu).leave(task, kb, capacity_kb);
    }

    /// `task` was switched to on `cpu`; `from` is where it ran last. The part of its set that others displaced in
    /// between is cold.
    pub fn enter_cache(&mut self, cpu: CpuId, task: TaskId, from: CpuId) {
        if !self.memory.by_core.on {
            return;
        }
        let moved = self.memory.by_core.core_of[from.index()] != self.memory.by_core.core_of[cpu.index()];
        let kept = self.memory.by_core.core(from).come_back(task);
        let t = &mut self.tasks[task];
        if moved {
            // The price of the move covers the whole set. The task's lines in the other core's cache are out of date
            // from now on.
            t.reuse = Reuse::default();
            self.memory.by_core.core(from).forget(task);
        } else {
            t.reuse.cold_kb = t.reuse.cold_kb.saturating_add(t.reuse.held_kb.saturating_sub(kept));
            t.reuse.held_kb = kept;
        }
        if let UserOp::Touch { kb, left_ns } = self.tasks[task].user {
            let left_kb = left_ns.div_ceil(self.fixed.machine.costs.touch_ns_per_kb.max(1));
            self.touch_cold(cpu, task, kb, left_kb);
        }
    }

    /// `task` goes over `kb` KB in passes, `left_kb` in all: the cold part is fetched first.
    pub fn touch_cold(&mut self, cpu: CpuId, task: TaskId, kb: u32, left_kb: u64) {
        self.memory.by_core.on = true;
        let per_kb = self.memory.by_core.core(cpu).refill_ns_per_kb;
        let t = &mut self.tasks[task];
        t.reuse.touch_kb = t.reuse.touch_kb.max(kb);
        let fetched = t.reuse.cold_kb.min(kb).min(left_kb.min(u64::from(u32::MAX)) as u32);
        t.reuse.cold_kb -= fetched;
        // An interrupted refill continues; both together fetch at most the whole set.
        let whole_ns = u64::from(kb) * per_kb;
        let wanted = t.refill_ns + u64::from(fetched) * per_kb;
        t.refill_ns = wanted.min(t.refill_ns.max(whole_ns));
    }
}
