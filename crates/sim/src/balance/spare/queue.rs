//! Which runqueue of the busiest group to pull from.
//!
//! Mirrors `find_busiest_queue` of 6.5, fed CPU by CPU. When tasks are counted, a queue that has only its running task
//! may be chosen: then nothing can be detached, and the pass fails.

use super::super::capacity::is_reduced;
use super::imbalance::{Amount, MigrationType};
use schedlab_base::CpuId;

/// One CPU of the busiest group, read again.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct QueueSample {
    /// Which one.
    pub cpu: CpuId,
    /// Load average.
    pub load: u64,
    /// Utilisation, estimates included, at most the capacity.
    pub util: u64,
    /// Runnable average: a CPU much waited for counts as much used (runnable boosting, 6.5).
    pub runnable: u64,
    /// Runnable fair tasks.
    pub h_nr_running: u32,
    /// Capacity; never 0.
    pub capacity: u64,
    /// Capacity when undisturbed.
    pub capacity_orig: u64,
}

/// Looks for the queue with the most of what is to move.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BusiestQueue {
    wanted: Amount,
    imbalance_pct: u32,
    best: Option<CpuId>,
    /// Load, utilisation or tasks of the best.
    most: u64,
    capacity: u64,
}

impl BusiestQueue {
    /// For this amount.
    pub fn new(wanted: Amount, imbalance_pct: u32) -> BusiestQueue {
        BusiestQueue { wanted, imbalance_pct, best: None, most: 0, capacity: 1 }
    }

    /// Adds a CPU that is still under consideration, in ascending order. Ties keep the earlier one.
    #[inline]
    pub fn add(&mut self, q: &QueueSample) {
        if q.h_nr_running == 0 {
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
                // However much it uses, its one task runs and will not come.
                if q.h_nr_running <= 1 {
                    return;
                }
                let util = q.util.max(q.runnable.min(q.capacity_orig));
                (util, util > self.most)
            }
            MigrationType::Task => (u64::from(q.h_nr_running), u64::from(q.h_nr_running) > self.most),
        };
        if busier {
            (self.best, self.most, self.capacity) = (Some(q.cpu), value, q.capacity);
        }
    }

    /// Whether even a single heavy task may leave: its CPU is taken up by other things.
    fn is_disturbed(&self, q: &QueueSample) -> bool {
        is_reduced(q.capacity, q.capacity_orig, self.imbalance_pct)
    }

    /// The queue to pull from; `None` counts as `lb_nobusyq`.
    pub fn result(&self) -> Option<CpuId> {
        self.best
    }
}
