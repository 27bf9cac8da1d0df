//! The choice between the waker's and the previous CPU. The search of `wake_idle` follows in any case.

use crate::o1::busiest::SCALE;
use crate::o1::detach::is_hot;
use crate::o1::prio;
use crate::o1::wake::{WakeChoice, WakeFacts, WakeLevel, by_cache, by_load};
use crate::system::System;
use schedlab_base::{CpuId, TaskId};

impl System<'_> {
    /// The time for which a task stays cache hot in a domain of `cpu`, ns (`cache_hot_time`).
    pub(super) fn cache_hot_ns(&self, cpu: CpuId, level: usize) -> u64 {
        if let Some(cutoff_ns) = self.fixed.cutoff_ns(cpu, level) {
            return cutoff_ns;
        }
        let tunables = &self.fixed.kernel.tunables;
        let params = &self.fixed.domains.of_cpu[cpu][level].params;
        match (params.share_capacity, params.numa) {
            (true, _) => tunables.cache_hot_smt_ns,
            (false, true) => tunables.cache_hot_node_ns,
            (false, false) => tunables.cache_hot_smp_ns,
        }
    }

    /// Chooses the CPU near which `wake_idle` searches: the waker's (`cpu`) or the previous one, which differ. `sync`:
    /// the waker, if it says that it is about to sleep.
    pub(crate) fn o1_choose(
        &self,
        cpu: CpuId,
        sync: Option<TaskId>,
        wakee: TaskId,
        prev: CpuId,
    ) -> WakeChoice {
        let domains = &self.fixed.domains.of_cpu[cpu];
        let by_cache_alone = self.fixed.history.cold_wakes_affine;
        let spans_prev = |d: &schedlab_machine::Domain| d.span.contains(prev);
        let asked = domains.iter().find(|d| spans_prev(d)).or(domains.last());
        let idx = asked.map_or(0, |d| d.params.wake_idx);
        let (last_tick_ns, last_ran_ns) = (self.o1[prev].last_tick_ns, self.tasks[wakee].o1.last_ran_ns);
        let levels = domains.iter().enumerate().map(|(level, d)| WakeLevel {
            wake_affine: d.params.wake_affine,
            wake_balance: d.params.wake_balance,
            imbalance_pct: u64::from(d.params.imbalance_pct),
            hot: is_hot(last_tick_ns, last_ran_ns, self.cache_hot_ns(cpu, level)),
            spans_prev: spans_prev(d),
        });
        let facts = WakeFacts {
            load: self.source_load(prev, idx),
            this_load: self.target_load(cpu, idx),
            sync_load: sync.map(|waker| self.o1_task_load(waker)),
            wakee_load: self.o1_task_load(wakee),
            prev_target_load: self.target_load(prev, idx),
            this_load_per_task: self
                .o1_load(cpu)
                .checked_div(u64::from(self.rqs.nr_running(cpu)))
                .unwrap_or(SCALE),
        };
        if by_cache_alone { by_cache(&facts, levels) } else { by_load(&facts, levels) }
    }

    /// Current load of a CPU.
    #[inline]
    pub(crate) fn o1_load(&self, cpu: CpuId) -> u64 {
        if self.fixed.history.tasks_are_load {
            u64::from(self.rqs.nr_running(cpu)) * prio::ONE_TASK
        } else {
            self.o1[cpu].weight
        }
    }

    fn o1_task_load(&self, task: TaskId) -> u64 {
        match self.fixed.history.tasks_are_load {
            true => prio::ONE_TASK,
            false => {
                prio::weight(prio::static_prio(self.tasks[task].attr.nice), self.fixed.kernel.tunables.hz)
            }
        }
    }
}
