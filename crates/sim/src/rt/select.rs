//! The CPU of a task that wakes up or is pushed (`select_task_rq_rt`, `find_lowest_rq`, `cpupri_find`).

use super::Rank;
use crate::class::Select;
use crate::system::System;
use schedlab_base::{CpuId, CpuSet, TaskId};
use schedlab_trace::PlaceReason;

/// What decides whether a task that wakes up looks for another CPU than its last one.
#[derive(Clone, Copy, Debug)]
pub struct Waking {
    /// The rank of what runs on its CPU; `None` if that is no real-time task.
    pub curr: Option<Rank>,
    /// That task may run on its CPU only.
    pub curr_is_pinned: bool,
    /// Its own rank.
    pub own: Rank,
    /// Kernels that leave the CPU to the more important of the two.
    pub compares: bool,
}

/// Whether it does: a more important task stays, and has the running one pushed away, lest it bounce; equals are sorted
/// out where they are not the first to come.
pub fn looks_elsewhere(w: Waking) -> bool {
    w.curr.is_some_and(|curr| !w.compares || w.curr_is_pinned || curr <= w.own)
}

/// The CPUs on which the least important work of all runs, less important than `own` (`cpupri_find`): CPUs without a
/// real-time task are all alike, idle or not.
pub fn lowest(own: Rank, cpus: impl Iterator<Item = (CpuId, Rank)> + Clone) -> CpuSet {
    let least = cpus.clone().map(|(_, rank)| rank).max().filter(|least| *least > own);
    let mut set = CpuSet::new();
    cpus.filter(|(_, rank)| Some(*rank) == least).for_each(|(cpu, _)| set.insert(cpu));
    set
}

/// The first CPU of `set` after the one chosen last, wrapped around (`cpumask_any_and_distribute`).
pub fn after(set: &CpuSet, last: Option<CpuId>) -> Option<CpuId> {
    let next = last.and_then(|last| set.iter().find(|c| *c > last));
    next.or_else(|| set.lowest())
}

impl System<'_> {
    /// Where a task that wakes up, or is new, goes; `by` is the waker's CPU, `prev` the task's own.
    pub(super) fn select_rt(&mut self, by: CpuId, task: TaskId, prev: CpuId) -> Select {
        let own = Rank::of(self.tasks[task].attr);
        let waking = Waking {
            curr: self.cpus[prev].curr.map(|c| Rank::of(self.tasks[c].attr)).filter(|r| *r != Rank::NONE),
            curr_is_pinned: self.cpus[prev].curr.is_some_and(|c| !self.is_migratory(c)),
            own,
            compares: self.fixed.history.rt_wakee_compares,
        };
        let stays = Select::At(prev, PlaceReason::RtStays);
        if !looks_elsewhere(waking) {
            return stays;
        }
        match self.find_lowest_rq(by, task, prev) {
            Some(cpu) if own < self.rt[cpu].highest() => Select::At(cpu, PlaceReason::RtLowest),
            _ => stays,
        }
    }

    /// The best CPU of those that run the least important work: the task's own, the acting one, one that is near.
    pub(super) fn find_lowest_rq(&mut self, by: CpuId, task: TaskId, prev: CpuId) -> Option<CpuId> {
        if !self.is_migratory(task) {
            return None;
        }
        let t = &self.tasks[task];
        let cpus = self.cpus.ids().filter(|c| t.may_run_on(*c)).map(|c| (c, self.rt[c].highest()));
        let mask = lowest(Rank::of(t.attr), cpus);
        if mask.is_empty() || mask.contains(prev) {
            return mask.contains(prev).then_some(prev);
        }
        let last = self.rt[by].distributed.filter(|_| self.fixed.history.rt_distributes);
        let near = |d: &schedlab_machine::Domain| match mask.contains(by) && d.span.contains(by) {
            true => Some((by, false)),
            false => after(&mask.and(&d.span), last).map(|c| (c, true)),
        };
        let domains = self.fixed.domains.of_cpu[prev].iter().filter(|d| d.params.wake_affine);
        let found = domains.into_iter().find_map(near);
        let (cpu, distributed) = match found {
            Some(found) => found,
            None if mask.contains(by) => (by, false),
            None => (after(&mask, last)?, true),
        };
        if distributed {
            self.rt[by].distributed = Some(cpu);
        }
        Some(cpu)
    }

    /// Whether a task may run on more than one CPU.
    pub(super) fn is_migratory(&self, task: TaskId) -> bool {
        self.tasks[task].allowed.as_ref().map_or(self.nr_cpus(), CpuSet::len) > 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(cpus: &[u32]) -> CpuSet {
        cpus.iter().map(|c| CpuId(*c)).collect()
    }

    fn lowest_of(own: u8, ranks: &[u8]) -> Vec<u32> {
        let cpus = ranks.iter().enumerate().map(|(c, r)| (CpuId::from(c), Rank(*r)));
        lowest(Rank(own), cpus).iter().map(|c| c.0).collect()
    }

    #[test]
    fn the_least_important_work_gives_way() {
        assert_eq!(lowest_of(50, &[100, 60, 100, 40]), [0, 2], "CPUs without real-time tasks come first");
        assert_eq!(lowest_of(50, &[60, 70, 70, 40]), [1, 2]);
        assert_eq!(lowest_of(50, &[50, 40]), [] as [u32; 0], "an equal does not give way");
    }

    #[test]
    fn a_more_important_wakee_stays() {
        let on = |curr: Option<u8>| Waking {
            curr: curr.map(Rank),
            curr_is_pinned: false,
            own: Rank(50),
            compares: true,
        };
        assert!(!looks_elsewhere(on(None)), "a fair task gives way");
        assert!(!looks_elsewhere(on(Some(60))), "the running one will be pushed");
        assert!(looks_elsewhere(Waking { curr_is_pinned: true, ..on(Some(60)) }), "it cannot be");
        assert!(looks_elsewhere(on(Some(50))) && looks_elsewhere(on(Some(40))));
        assert!(looks_elsewhere(Waking { compares: false, ..on(Some(60)) }), "before 2.6.37");
    }

    #[test]
    fn equally_good_cpus_take_turns() {
        let four = set(&[1, 3, 5]);
        assert_eq!(after(&four, None), Some(CpuId(1)));
        assert_eq!(after(&four, Some(CpuId(3))), Some(CpuId(5)));
        assert_eq!(after(&four, Some(CpuId(5))), Some(CpuId(1)));
        assert_eq!(after(&set(&[]), Some(CpuId(5))), None);
    }
}
