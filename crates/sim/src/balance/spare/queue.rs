//! Chooses the runqueue of the busiest group to pull from.
//!
//! Mirrors `find_busiest_queue` of 6.5, fed CPU by CPU. If tasks are counted, a queue with only its running task may be
//! chosen: then nothing can be detached, and the pass fails.

use super::imbalance::{Amount, MigrationType};
use crate::balance::capacity::is_reduced;
use crate::balance::fits::Asymmetry;
use schedlab_base::CpuId;

/// One CPU of the busiest group, read again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSample {
    pub cpu: CpuId,
    pub load: u64,
    /// Utilisation including estimates, at most the capacity.
    pub util: u64,
    /// Runnable average: a CPU with many waiting tasks counts as highly utilised (runnable boosting, 6.5).
    pub runnable: u64,
    /// Runnable fair tasks.
    pub h_nr_running: u32,
    /// Capacity; never 0.
    pub capacity: u64,
    /// Capacity when undisturbed.
    pub capacity_orig: u64,
    /// The load of its misfit; 0 without one.
    pub misfit: u64,
    /// Whether its only task may go to a CPU that is no faster.
    pub gives: bool,
}

/// Searches for the queue with the most load, utilisation or tasks, depending on the wanted unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusiestQueue {
    wanted: Amount,
    imbalance_pct: u32,
    boosts: bool,
    asym: Asymmetry,
    best: Option<CpuId>,
    /// Load, utilisation or tasks of the best queue.
    most: u64,
    capacity: u64,
}

impl BusiestQueue {
    /// A search for this amount. `boosts`: a CPU with many waiting tasks counts as highly utilised (6.5). `asym`: the
    /// capacities to compare, on machines whose CPUs differ in it.
    pub fn new(wanted: Amount, imbalance_pct: u32, boosts: bool, asym: Asymmetry) -> BusiestQueue {
        BusiestQueue { wanted, imbalance_pct, boosts, asym, best: None, most: 0, capacity: 1 }
    }

    /// Adds a CPU that the pass may still pull from, in ascending order. Of equal queues the earlier one counts.
    #[inline]
    pub fn add(&mut self, q: &QueueSample) {
        if q.h_nr_running == 0 || (q.h_nr_running == 1 && !q.gives && self.asym.spares(q.capacity)) {
            return;
        }
        let (value, busier) = match self.wanted.migration {
            MigrationType::Load => {
                if q.h_nr_running == 1 && q.load > self.wanted.amount && !self.is_disturbed(q) {
                    return;
                }
                (q.load, q.load * self.capacity > self.most * q.capacity)
            }
            MigrationType::Util => {
                // Its only task runs and cannot be detached, whatever its utilisation.
                if q.h_nr_running <= 1 {
                    return;
                }
                let util = if self.boosts { q.util.max(q.runnable.min(q.capacity_orig)) } else { q.util };
                (util, util > self.most)
            }
            MigrationType::Misfit => (q.misfit, q.misfit > self.most),
            MigrationType::Task => (u64::from(q.h_nr_running), u64::from(q.h_nr_running) > self.most),
        };
        if busier {
            (self.best, self.most, self.capacity) = (Some(q.cpu), value, q.capacity);
        }
    }

    /// Whether even a single heavy task may leave, because other activity takes much of its CPU.
    fn is_disturbed(&self, q: &QueueSample) -> bool {
        is_reduced(q.capacity, q.capacity_orig, self.imbalance_pct)
    }

    /// The queue to pull from; `None` counts as `lb_nobusyq`.
    pub fn result(&self) -> Option<CpuId> {
        self.best
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::balance::spare::imbalance::AmountRule;

    fn q(cpu: u32, load: u64, h_nr_running: u32) -> QueueSample {
        let (util, runnable) = (load / 2, 0);
        let cpu = CpuId(cpu);
        QueueSample {
            cpu,
            load,
            util,
            runnable,
            h_nr_running,
            capacity: 1024,
            capacity_orig: 1024,
            misfit: 0,
            gives: false,
        }
    }
    fn pick(migration: MigrationType, amount: u64, queues: &[QueueSample]) -> Option<u32> {
        let mut s = BusiestQueue::new(
            Amount { migration, amount, how: AmountRule::ToAverage },
            117,
            true,
            Asymmetry::default(),
        );
        queues.iter().for_each(|q| s.add(q));
        s.result().map(|c| c.0)
    }
    use MigrationType::{Load, Task, Util};

    #[test]
    fn each_type_looks_at_its_own_figure_and_ties_keep_the_first() {
        let light_many = QueueSample { util: 100, ..q(0, 500, 5) };
        let heavy_few = QueueSample { util: 50, ..q(1, 3000, 2) };
        let used = QueueSample { util: 900, ..q(2, 400, 3) };
        let all = [light_many, heavy_few, used];
        assert_eq!([Task, Load, Util].map(|t| pick(t, 1, &all)), [Some(0), Some(1), Some(2)]);
        let twin = |cpu| q(cpu, 2048, 2);
        assert_eq!([Task, Load, Util].map(|t| pick(t, 1, &[twin(4), twin(5)])), [Some(4); 3]);
    }

    #[test]
    fn a_queue_without_fair_tasks_is_not_chosen() {
        assert_eq!([Task, Load, Util].map(|t| pick(t, 9999, &[q(0, 2048, 0)])), [None; 3]);
    }

    #[test]
    fn a_running_task_alone_may_be_chosen_by_count_only() {
        assert_eq!([Task, Load, Util].map(|t| pick(t, 1, &[q(0, 1024, 1)])), [Some(0), None, None]);
        assert_eq!(pick(Load, 1023, &[q(0, 1024, 1)]), None);
        assert_eq!(pick(Load, 1024, &[q(0, 1024, 1)]), Some(0), "not heavier than what should move");
        assert_eq!(pick(Load, 1, &[q(0, 1024, 2)]), Some(0), "two tasks");
        let disturbed = |capacity| QueueSample { capacity, ..q(0, 1024, 1) };
        assert_eq!(pick(Load, 1, &[disturbed(875)]), Some(0), "875 * 117 is below 102400");
        assert_eq!(pick(Load, 1, &[disturbed(876)]), None);
    }

    #[test]
    fn load_counts_per_capacity() {
        let weak = QueueSample { capacity: 512, ..q(1, 1100, 2) };
        assert_eq!(pick(Load, 1, &[q(0, 2048, 2), weak]), Some(1));
        assert_eq!(pick(Load, 1, &[q(0, 2048, 2), QueueSample { load: 1024, ..weak }]), Some(0), "a tie");
    }

    #[test]
    fn a_cpu_with_waiting_tasks_counts_as_used_up_to_its_capacity() {
        let waited = QueueSample { util: 10, runnable: 600, ..q(1, 0, 2) };
        assert_eq!(pick(Util, 1, &[QueueSample { util: 599, ..q(0, 0, 2) }, waited]), Some(1));
        let swamped = QueueSample { runnable: 5000, ..waited };
        assert_eq!(pick(Util, 1, &[QueueSample { util: 1024, ..q(0, 0, 2) }, swamped]), Some(0));
    }
}
