//! Chooses the runqueue of the busiest group to pull from.
//!
//! Mirrors `find_busiest_queue` of 3.4 and 4.5, fed CPU by CPU. A queue whose only task is heavier than the wanted
//! amount is passed over, since moving that task would only move the imbalance. Not modelled: NUMA balancing's grading
//! of queues.

use crate::balance::capacity::{SCALE, is_reduced, slots};
use crate::balance::era::Balancer;
use schedlab_base::CpuId;

/// One CPU of the busiest group, read again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSample {
    pub cpu: CpuId,
    /// Load of this instant, unbiased (`weighted_cpuload`).
    pub load: u64,
    /// Runnable tasks of all classes.
    pub nr_running: u32,
    /// Capacity; never 0.
    pub capacity: u64,
    /// Capacity when undisturbed.
    pub capacity_orig: u64,
}

/// Searches for the queue with the most load per capacity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusiestQueue {
    balancer: Balancer,
    imbalance: u64,
    imbalance_pct: u32,
    share_capacity: bool,
    best: Option<CpuId>,
    best_load: u64,
    best_capacity: u64,
}

impl BusiestQueue {
    /// `imbalance`: the load to pull. `share_capacity`: the domain's CPUs are threads of one core.
    pub fn new(balancer: Balancer, imbalance: u64, imbalance_pct: u32, share_capacity: bool) -> BusiestQueue {
        let (best, best_load, best_capacity) = (None, 0, 1);
        BusiestQueue { balancer, imbalance, imbalance_pct, share_capacity, best, best_load, best_capacity }
    }

    /// Adds a CPU that the pass may still pull from, in ascending order. Of equal queues the earlier one counts.
    #[inline]
    pub fn add(&mut self, q: &QueueSample) {
        if q.nr_running == 1 && q.load > self.imbalance && !self.single_may_go(q) {
            return;
        }
        let busier = match self.balancer {
            // 3.4 divides, so small differences are rounded away.
            Balancer::V2_6 | Balancer::V3_4 => q.load * SCALE / q.capacity > self.best_load,
            Balancer::V4_5 => q.load * self.best_capacity > self.best_load * q.capacity,
        };
        if busier {
            self.best = Some(q.cpu);
            self.best_capacity = q.capacity;
            self.best_load = match self.balancer {
                Balancer::V2_6 | Balancer::V3_4 => q.load * SCALE / q.capacity,
                Balancer::V4_5 => q.load,
            };
        }
    }

    /// Adds a CPU if a misfit is to move: the one with the largest misfit counts (4.20).
    pub fn add_misfit(&mut self, cpu: CpuId, load: u64) {
        if load > self.best_load {
            (self.best, self.best_load) = (Some(cpu), load);
        }
    }

    /// Whether even a single heavy task may leave, because its CPU can hardly run it.
    fn single_may_go(&self, q: &QueueSample) -> bool {
        match self.balancer {
            Balancer::V2_6 | Balancer::V3_4 => slots(q.capacity, q.capacity_orig, self.share_capacity) == 0,
            Balancer::V4_5 => is_reduced(q.capacity, q.capacity_orig, self.imbalance_pct),
        }
    }

    /// The queue to pull from; `None` counts as `lb_nobusyq`.
    pub fn result(&self) -> Option<CpuId> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: [Balancer; 2] = [Balancer::V3_4, Balancer::V4_5];

    fn q(cpu: u32, load: u64, nr_running: u32) -> QueueSample {
        QueueSample { cpu: CpuId(cpu), load, nr_running, capacity: 1024, capacity_orig: 1024 }
    }
    fn pick(b: Balancer, imbalance: u64, queues: &[QueueSample]) -> Option<u32> {
        let mut s = BusiestQueue::new(b, imbalance, 125, false);
        queues.iter().for_each(|q| s.add(q));
        s.result().map(|c| c.0)
    }

    #[test]
    fn most_loaded_first_of_equals() {
        for b in BOTH {
            assert_eq!(pick(b, 1024, &[q(0, 2048, 2), q(1, 3072, 3), q(2, 3072, 3)]), Some(1));
            assert_eq!(pick(b, 1024, &[]), None);
            assert_eq!(pick(b, 1024, &[q(0, 0, 0)]), None, "an empty queue does not count");
        }
    }

    #[test]
    fn a_single_task_heavier_than_the_imbalance_stays() {
        for b in BOTH {
            assert_eq!(pick(b, 512, &[q(0, 1024, 1)]), None, "{b:?}");
            assert_eq!(pick(b, 1024, &[q(0, 1024, 1)]), Some(0), "{b:?}: not heavier");
            assert_eq!(pick(b, 512, &[q(0, 1024, 2)]), Some(0), "{b:?}: two tasks");
        }
    }

    #[test]
    fn a_single_task_leaves_a_disturbed_cpu() {
        let disturbed = |capacity| QueueSample { capacity, ..q(0, 1024, 1) };
        assert_eq!(pick(Balancer::V4_5, 512, &[disturbed(800)]), Some(0));
        assert_eq!(pick(Balancer::V4_5, 512, &[disturbed(900)]), None, "not by 25%");
        assert_eq!(pick(Balancer::V3_4, 512, &[disturbed(800)]), None);
        assert_eq!(pick(Balancer::V3_4, 512, &[disturbed(500)]), Some(0), "less than half a CPU left");
    }

    #[test]
    fn load_counts_per_capacity() {
        let weak = QueueSample { capacity: 589, capacity_orig: 589, ..q(1, 1536, 2) };
        for b in BOTH {
            assert_eq!(pick(b, 1024, &[q(0, 2048, 2), weak]), Some(1), "{b:?}");
        }
    }

    #[test]
    fn only_3_4_rounds_the_ratio() {
        let a = QueueSample { capacity: 1178, ..q(0, 2000, 2) };
        let b = QueueSample { capacity: 1178, ..q(1, 2001, 2) };
        assert_eq!(2000 * 1024 / 1178, 2001 * 1024 / 1178 - 1);
        let c = QueueSample { capacity: 4096, ..q(2, 2000, 2) };
        let d = QueueSample { capacity: 4096, ..q(3, 2001, 2) };
        assert_eq!((pick(Balancer::V3_4, 9, &[a, b]), pick(Balancer::V4_5, 9, &[a, b])), (Some(1), Some(1)));
        assert_eq!((pick(Balancer::V3_4, 9, &[c, d]), pick(Balancer::V4_5, 9, &[c, d])), (Some(2), Some(3)));
    }
}
