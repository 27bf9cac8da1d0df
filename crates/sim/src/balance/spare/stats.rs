//! The sums of a pass over a group's CPUs, and the group's statistics.
//!
//! Mirrors `update_sg_lb_stats` of 6.5: `sgs` sums, then the type and, only for an overloaded group, the average load.
//! There is no bias: every CPU counts with its values at the instant it is read.

use super::classify::{SpareFacts, SpareType, since_5_5};
use super::rank::Claim;
use crate::balance::capacity::{GroupFacts, SCALE};
use crate::balance::fits::Kinds;
use schedlab_base::CpuId;

/// One CPU as a pass reads it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct CpuSample {
    pub cpu: CpuId,
    /// Load average of its runqueue (`cpu_load`).
    pub load: u64,
    /// Utilisation including the estimates of runnable tasks, at most the CPU's capacity (`cpu_util_cfs`).
    pub util: u64,
    /// Runnable average (`cpu_runnable`).
    pub runnable: u64,
    /// Runnable tasks of all classes.
    pub nr_running: u32,
    /// Runnable fair tasks, groups counted through.
    pub h_nr_running: u32,
    /// Whether it runs its idle task, has nothing queued and no wakeup pending (`idle_cpu`). A CPU that balances
    /// because it is about to go idle does not count: its leaving task is still current.
    pub idle: bool,
    /// The load of its running task, if that is too large for it (`misfit_task_load`).
    pub misfit: u64,
}

/// Sums over the CPUs of one group.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Tally {
    /// Sum of load averages.
    pub(super) load: u64,
    /// Sum of utilisation.
    pub(super) util: u64,
    runnable: u64,
    nr_running: u32,
    h_nr_running: u32,
    idle_cpus: u32,
    /// Whether some CPU has two runnable tasks.
    pub(super) overload: bool,
    /// The largest load of a misfit.
    misfit: u64,
}

impl Tally {
    #[inline]
    pub fn add(&mut self, s: &CpuSample) {
        self.load += s.load;
        self.util += s.util;
        self.runnable += s.runnable;
        self.nr_running += s.nr_running;
        self.h_nr_running += s.h_nr_running;
        self.overload |= s.nr_running > 1;
        self.idle_cpus += u32::from(s.nr_running == 0 && s.idle);
    }

    /// Adds the CPU's misfit, if the domain has SD_ASYM_CPUCAPACITY and the group is not the local one. If `counts` is
    /// not set, it only makes the group overloaded: a CPU that goes idle should look for it.
    pub fn add_misfit(&mut self, s: &CpuSample, counts: bool) {
        if s.nr_running > 0 && s.misfit > 0 {
            self.misfit = self.misfit.max(if counts { s.misfit } else { 0 });
            self.overload = true;
        }
    }
    /// Adds a CPU whose only task should leave it, because other classes take much of its time.
    pub fn add_disturbed(&mut self, s: &CpuSample) {
        self.misfit = self.misfit.max(s.load);
    }
    /// The largest load of a misfit.
    pub fn misfit(&self) -> u64 {
        self.misfit
    }
    /// Runnable tasks of all classes.
    #[inline]
    pub fn nr_running(&self) -> u32 {
        self.nr_running
    }
    /// Runnable fair tasks.
    #[inline]
    pub fn h_nr_running(&self) -> u32 {
        self.h_nr_running
    }
    /// Load per whole CPU of a group of this capacity.
    #[inline]
    pub fn avg_load(&self, capacity: u64) -> u64 {
        load_per_capacity(self.load, capacity)
    }

    /// The group's statistics, once all its CPUs are added. `gives_to_idle`: it is a core, and the reading CPU is an
    /// idle one outside of it (6.6).
    #[inline]
    pub fn close(&self, group: &GroupFacts, imbalance_pct: u32, gives_to_idle: bool) -> GroupStats {
        self.stats(group, self.group_type(group, imbalance_pct, gives_to_idle))
    }

    #[inline]
    pub(super) fn group_type(
        &self,
        group: &GroupFacts,
        imbalance_pct: u32,
        gives_to_idle: bool,
    ) -> SpareType {
        since_5_5(&SpareFacts {
            util: self.util,
            runnable: self.runnable,
            capacity: group.capacity,
            nr_running: self.nr_running,
            weight: group.weight,
            imbalanced: group.imbalanced,
            imbalance_pct,
            shared_core: gives_to_idle & (self.h_nr_running > 1),
            misfit: self.misfit > 0,
        })
    }

    /// The facts that decide whether a group of this type is the busiest.
    #[inline]
    pub(super) fn claim(&self, group: &GroupFacts, group_type: SpareType) -> Claim {
        Claim {
            group_type,
            avg_load: self.avg_load(group.capacity),
            sum_nr_running: self.nr_running,
            sum_h_nr_running: self.h_nr_running,
            idle_cpus: self.idle_cpus,
            misfit_load: self.misfit,
            is_core: false,
        }
    }

    pub(super) fn stats(&self, group: &GroupFacts, group_type: SpareType) -> GroupStats {
        let mut stats = GroupStats {
            group_load: self.load,
            group_util: self.util,
            group_runnable: self.runnable,
            capacity: group.capacity,
            avg_load: 0,
            sum_nr_running: self.nr_running,
            sum_h_nr_running: self.h_nr_running,
            idle_cpus: self.idle_cpus,
            weight: group.weight,
            group_type,
            overload: self.overload,
            kinds: Kinds::default(),
        };
        if group_type == SpareType::Overloaded {
            stats.avg_load = stats.load_per_capacity();
        }
        stats
    }
}

/// Load per whole CPU of capacity. A single CPU without real-time tasks, as in most groups of long rings, needs no
/// division.
#[inline]
pub fn load_per_capacity(load: u64, capacity: u64) -> u64 {
    if capacity == SCALE { load } else { load * SCALE / capacity }
}

/// The statistics of a group (`struct sg_lb_stats`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GroupStats {
    /// Sum of load averages.
    pub group_load: u64,
    /// Sum of utilisation.
    pub group_util: u64,
    /// Sum of runnable averages.
    pub group_runnable: u64,
    /// Sum of capacities; never 0.
    pub capacity: u64,
    /// Load per whole CPU of capacity; 0 unless the group is overloaded.
    pub avg_load: u64,
    /// Runnable tasks of all classes.
    pub sum_nr_running: u32,
    /// Runnable fair tasks.
    pub sum_h_nr_running: u32,
    /// Number of CPUs that are idle and have no task.
    pub idle_cpus: u32,
    pub weight: u32,
    pub group_type: SpareType,
    /// Whether some CPU had two runnable tasks. A pass over the top domain stores it as `rd->overload`.
    pub overload: bool,
    /// Capacities and misfits, over domains with SD_ASYM_CPUCAPACITY.
    pub kinds: Kinds,
}

impl GroupStats {
    /// Load per whole CPU of capacity, for any type.
    pub fn load_per_capacity(&self) -> u64 {
        load_per_capacity(self.group_load, self.capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cpu(load: u64, nr: u32) -> CpuSample {
        CpuSample {
            cpu: CpuId(0),
            load,
            util: load.min(1024),
            runnable: 1024 * u64::from(nr),
            nr_running: nr,
            h_nr_running: nr,
            idle: nr == 0,
            misfit: 0,
        }
    }
    fn close(cpus: &[CpuSample], capacity: u64) -> GroupStats {
        let mut t = Tally::default();
        cpus.iter().for_each(|c| t.add(c));
        t.close(&GroupFacts::of(cpus.len() as u32, capacity), 117, false)
    }

    #[test]
    fn sums_are_of_all_cpus() {
        let mut realtime = cpu(10, 1);
        realtime.h_nr_running = 0;
        let s = close(&[cpu(3000, 3), realtime, cpu(0, 0)], 3072);
        assert_eq!((s.group_load, s.group_util, s.group_runnable), (3010, 1034, 4096));
        assert_eq!((s.sum_nr_running, s.sum_h_nr_running), (4, 3));
        assert_eq!((s.idle_cpus, s.weight, s.capacity), (1, 3, 3072));
    }

    #[test]
    fn an_idle_cpu_has_no_task_and_runs_the_idle_task() {
        let leaving = CpuSample { idle: false, ..cpu(0, 0) };
        let waking = CpuSample { idle: true, ..cpu(0, 1) };
        assert_eq!(close(&[leaving, waking, cpu(0, 0)], 3072).idle_cpus, 1);
    }

    #[test]
    fn average_load_is_for_overloaded_groups() {
        let full = close(&[cpu(2048, 2), cpu(2048, 2)], 2000);
        assert_eq!((full.group_type, full.avg_load), (SpareType::Overloaded, 4096 * 1024 / 2000));
        let busy = close(&[cpu(2048, 1), cpu(2048, 1)], 2000);
        assert_eq!((busy.group_type, busy.avg_load), (SpareType::FullyBusy, 0));
        assert_eq!(busy.load_per_capacity(), 4096 * 1024 / 2000);
    }

    #[test]
    fn two_tasks_on_one_cpu_are_overload_of_the_flag_not_of_the_type() {
        let s = close(&[cpu(2048, 2), cpu(0, 0), cpu(0, 0)], 3072);
        assert!(s.overload && s.group_type == SpareType::HasSpare);
        assert!(!close(&[cpu(1024, 1), cpu(1024, 1)], 2048).overload);
    }

    #[test]
    fn all_classes_and_the_percentage_count_for_the_type() {
        let mut realtime = cpu(1024, 2);
        realtime.h_nr_running = 1;
        assert_eq!(close(&[realtime], 1024).group_type, SpareType::Overloaded);
        // 876 * 117 = 102492 is above 102400, 875 * 117 is not; runnable 1198 * 100 is not above 1024 * 117, 1199 is.
        let at = |util, runnable| {
            close(&[CpuSample { util, runnable, ..cpu(1024, 2) }], 1024).group_type == SpareType::Overloaded
        };
        assert_eq!([at(875, 1198), at(876, 1198), at(875, 1199)], [false, true, true]);
    }

    #[test]
    fn the_flag_of_the_level_below_makes_a_type() {
        let mut t = Tally::default();
        t.add(&cpu(1024, 1));
        let flagged = GroupFacts { imbalanced: true, ..GroupFacts::of(1, 1024) };
        assert_eq!(t.close(&flagged, 117, false).group_type, SpareType::Imbalanced);
    }
}
