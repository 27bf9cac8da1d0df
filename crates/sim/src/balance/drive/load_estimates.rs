//! Loads of CPUs as the balancer and `wake_affine` read them.

use crate::balance::state::Pass;
use crate::cpu_load::{source_load, target_load};
use crate::remote_reads::visit_ns;
use crate::system::System;
use schedlab_base::CpuId;
use schedlab_kernel::Feature;

impl System<'_> {
    /// `by` reads `cpu` in a pass; returns the cost, ns.
    #[inline]
    pub(crate) fn visit_ns(&mut self, by: CpuId, cpu: CpuId) -> u64 {
        visit_ns(&self.fixed.machine.costs, self.remote_reads.read(by, cpu))
    }
    /// `by` reads `cpu` for a group's statistics; the pass `p` counts the visit, and `at` advances.
    #[inline]
    pub(crate) fn visit_for_stats(&mut self, by: CpuId, cpu: CpuId, p: &mut Pass, at: &mut u64) {
        let cost = self.visit_ns(by, cpu);
        *at += cost;
        self.accounts.stats.stats_ns += cost;
        p.visited = p.visited.saturating_add(1);
    }
    /// Load of this instant (`weighted_cpuload`): a sum of weights, or the load average of runnable tasks or of all.
    pub fn load_now(&self, cpu: CpuId) -> u64 {
        let (q, history) = (&self.fair.queues[self.root(cpu)], &self.fixed.history);
        match () {
            () if history.o1 => self.o1_load(cpu),
            () if history.runnable_load => q.runnable.load_avg,
            () if history.per_entity_load => q.avg.load_avg,
            () => q.load_weight(),
        }
    }
    /// Low estimate of a CPU's load, for a source.
    pub fn source_load(&self, cpu: CpuId, idx: u8) -> u64 {
        source_load(&self.cpus[cpu].load, idx, self.load_now(cpu), self.keeps_cpu_load())
    }
    /// High estimate of a CPU's load, for a target.
    pub fn target_load(&self, cpu: CpuId, idx: u8) -> u64 {
        target_load(&self.cpus[cpu].load, idx, self.load_now(cpu), self.keeps_cpu_load())
    }
    /// Whether averages of loads are kept and read: with LB_BIAS, and always before CFS.
    #[inline]
    fn keeps_cpu_load(&self) -> bool {
        self.has(Feature::LbBias) || self.fixed.history.o1
    }
    /// The tick updates `cpu_load[]`.
    pub fn update_cpu_load(&mut self, cpu: CpuId) {
        if !self.keeps_cpu_load() {
            return;
        }
        let (now, tick) = (self.load_now(cpu), self.now / self.fixed.tick_ns);
        self.cpus[cpu].load.tick(tick, now);
    }
    /// Accounts for the ticks that a tickless CPU has missed, before another CPU balances on its behalf
    /// (`update_idle_cpu_load`).
    pub(super) fn age_idle_load(&mut self, cpu: CpuId) {
        if self.has(Feature::LbBias) && self.load_now(cpu) == 0 {
            self.cpus[cpu].load.catch_up(self.now / self.fixed.tick_ns);
        }
    }
}
