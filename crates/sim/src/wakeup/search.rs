//! The common interface of all searches for an idle CPU: a state machine that asks for one probe at a time.
//!
//! A probe reads whether one CPU is idle, without a lock, at the instant at which the driver makes it, and takes time.
//! So a search does not rely on an earlier answer: an idle CPU may have been taken since, a busy one may have gone
//! idle. A search asks for exactly the probes that the kernel would make, in the kernel's order, and allocates nothing.
//! Mirrors `wake_idle` of 2.6.30, `select_idle_sibling` from 3.4 to 6.5, and the experiments of D000 and D002.

use super::absent_group::AbsentGroup;
use super::capacity_scan::CapacityScan;
use super::core_scan::CoreScan;
use super::first_idle::FirstIdle;
use super::group_scan::GroupScan;
use super::wake_idle::WakeIdle;
use crate::balance::fits::fits;
use schedlab_base::{CpuId, CpuSet};
use schedlab_kernel::{Feature, FeatureSet, History};
use schedlab_machine::{Domain, Domains, Level};
use schedlab_trace::PlaceReason;

/// A CPU's state as a probe has read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// It has something to run.
    Busy,
    /// It runs only SCHED_IDLE tasks, which yield to the wakee (5.4+).
    SchedIdle,
    Idle,
    /// The task's group has nothing queued there; other groups have this load. Only [`AbsentGroup`] asks for it.
    Absent {
        load: u64,
    },
}

impl Answer {
    #[inline]
    pub fn is_idle(self) -> bool {
        self == Answer::Idle
    }
    /// The reason of a choice after this answer; `idle` is the reason for an idle CPU.
    #[inline]
    pub fn reason(self, idle: PlaceReason) -> PlaceReason {
        if self == Answer::SchedIdle { PlaceReason::SchedIdle } else { idle }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SearchStep {
    /// Read whether this CPU is idle now, and step again with the answer.
    Probe(CpuId),
    /// The task goes to this CPU. It is not reserved: others may also choose it.
    Found(CpuId, PlaceReason),
    /// No idle CPU: the task goes to the target.
    NotFound(PlaceReason),
}

/// The input of a search in addition to its probes: the machine's domains, and scalars read when it starts.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// Domains of the machine under this kernel.
    pub domains: &'a Domains,
    /// CPUs the task may run on; `None` means all.
    pub allowed: Option<&'a CpuSet>,
    /// The CPU near which to search: the waker's or the previous one.
    pub target: CpuId,
    /// The CPU the task ran on last.
    pub prev: CpuId,
    /// The CPU that runs the wakeup.
    pub waker: CpuId,
    /// The task's `recent_used_cpu` (4.16+).
    pub recent: CpuId,
    /// The kernel's mechanisms, which decide the order of tests.
    pub history: &'a History,
    pub features: FeatureSet,
    /// Runnable fair tasks on the target.
    pub target_nr_running: u32,
    /// Whether the target's LLC has, by a possibly outdated hint, a wholly idle core.
    pub has_idle_cores: bool,
    /// Number of probes that SIS_UTIL allows in the target's LLC.
    pub nr_idle_scan: u32,
    /// Average idle time of the waker's CPU, ns (before 5.14).
    pub avg_idle_ns: u64,
    /// The same as SIS_PROP ages it while the CPU stays busy (`wake_avg_idle`, 5.14+), ns.
    pub wake_avg_idle_ns: u64,
    /// Average duration of the waking CPU's scans, ns (`avg_scan_cost`).
    pub avg_scan_cost_ns: u64,
    /// Whether the target has room for the task, and wakeups are packed ([`packs`]).
    pub packs: bool,
    /// The task's requirements of a CPU, if CPUs differ in capacity (5.7); else `None`.
    pub needs: Option<Needs<'a>>,
    /// Whether CPUs have clusters, which the kernel considers (`sched_cluster_active`, 6.7).
    pub clusters: bool,
}

/// The utilisation of a task, and the capacities of CPUs.
#[derive(Clone, Copy, Debug)]
pub struct Needs<'a> {
    /// Utilisation of the task.
    pub util: u64,
    /// Capacity of each CPU.
    pub capacities: &'a [u64],
}

/// Percentage of a CPU's capacity. If wakeups are packed (VCPU_PACK), a target keeps the task while their utilisation
/// together is below it. Measured on a 6.18 guest with `sched_vcpu_pack=15`, one task that spins for a part of each 0.4
/// ms and one that sleeps for 3 ms, next to an idle CPU. The sleeper stayed up to a sum of 68 to 73 % of a CPU and
/// moved from 71 % on. A sleeper that used 18 % stayed up to a sum of 69 %, which shows that the sum counts and not the
/// spinner alone.
const PACKED_PCT: u64 = 70;

/// Whether a wakeup stays on its busy target. `used`: the target's utilisation with the task (1024 is one CPU).
pub fn packs(used: u64, capacity: u64) -> bool {
    used * 100 < capacity * PACKED_PCT
}

impl<'a> View<'a> {
    /// Whether the task may run there.
    #[inline]
    pub fn allows(&self, cpu: CpuId) -> bool {
        self.allowed.is_none_or(|set| set.contains(cpu))
    }
    /// A CPU's capacity, if CPUs differ in it.
    #[inline]
    pub fn capacity(&self, cpu: CpuId) -> u64 {
        self.needs.map_or(0, |needs| needs.capacities[cpu.index()])
    }
    /// Whether the task fits a CPU; always true if CPUs are alike (`asym_fits_cpu`).
    #[inline]
    pub fn fits(&self, cpu: CpuId) -> bool {
        self.needs.is_none_or(|needs| fits(needs.util, needs.capacities[cpu.index()]))
    }
    /// Whether the search is the one by capacity.
    #[inline]
    pub fn by_capacity(&self) -> bool {
        self.needs.is_some() && self.domains.asym[self.target].is_some()
    }
    /// The highest cache-sharing domain of a CPU (`sd_llc`); `None` for a CPU alone in its cache.
    #[inline]
    pub fn llc(&self, cpu: CpuId) -> Option<&'a Domain> {
        self.domains.llc[cpu].map(|at| &self.domains.of_cpu[cpu][at])
    }
    /// Whether two CPUs share their last-level cache (`cpus_share_cache`).
    #[inline]
    pub fn shares_cache(&self, a: CpuId, b: CpuId) -> bool {
        a == b || self.llc(a).is_some_and(|llc| llc.span.contains(b))
    }
    /// Thread number `at` of the CPU's core, in ascending CPU number.
    #[inline]
    pub fn thread(&self, cpu: CpuId, at: usize) -> Option<CpuId> {
        match self.smt(cpu) {
            Some(smt) => smt.cpus.get(at).copied(),
            None => (at == 0).then_some(cpu),
        }
    }
    /// If idle cores count (7.3): the next other thread of the CPU's core after `passed` threads, and the number passed
    /// then.
    #[inline]
    pub fn thread_beside(&self, cpu: CpuId, passed: usize) -> Option<(usize, CpuId)> {
        if self.needs.is_none() || !self.history.capacity_by_cores {
            return None;
        }
        self.other_thread(cpu, passed)
    }
    /// The same, whether or not idle cores count.
    pub fn other_thread(&self, cpu: CpuId, passed: usize) -> Option<(usize, CpuId)> {
        let threads = &self.smt(cpu)?.cpus;
        let at = (passed..threads.len()).find(|at| threads[*at] != cpu)?;
        Some((at + 1, threads[at]))
    }
    /// The domain of the CPU's cluster, if clusters count.
    #[inline]
    pub fn cluster(&self, cpu: CpuId) -> Option<&'a Domain> {
        if !self.clusters {
            return None;
        }
        self.domains.of_cpu[cpu].iter().find(|d| d.level == Level::Cls)
    }
    /// Whether two CPUs of a cache also share the cluster, or clusters do not count (`cpus_share_resources`).
    #[inline]
    pub fn shares_cluster(&self, a: CpuId, b: CpuId) -> bool {
        // A CPU without a cluster is treated by its cache.
        let id = |cpu| self.cluster(cpu).or(self.llc(cpu)).map_or(cpu, |d| d.cpus[0]);
        !self.clusters || id(a) == id(b)
    }
    /// The domain of the CPU's core; none without SMT.
    #[inline]
    pub fn smt(&self, cpu: CpuId) -> Option<&'a Domain> {
        self.domains.of_cpu[cpu].first().filter(|d| d.level == Level::Smt)
    }
}

#[derive(Clone, Copy, Debug)]
pub enum Search {
    /// Group by group, for one that is all idle (`SIS_GROUP`).
    Group(GroupScan),
    /// The first idle CPU (`SIS_FIRST_IDLE`).
    FirstIdle(FirstIdle),
    /// Cores, CPUs, siblings (`SIS_CORE`).
    Core(CoreScan),
    /// The CPUs of all capacities, for one that the task fits.
    Capacity(CapacityScan),
    /// The CPUs of domains with SD_WAKE_IDLE (`SIS_WAKE_IDLE`).
    WakeIdle(WakeIdle),
    /// After a search in vain: a CPU where the task's group is absent (`SIS_IDLE_CFS_RQ`).
    Absent(AbsentGroup),
    /// No search: the task goes to the target.
    None,
}

impl Search {
    /// Starts the search chosen by the features. Features of searches exclude each other.
    pub fn start(view: &View<'_>) -> Search {
        if view.packs {
            Search::None
        } else if view.by_capacity() {
            Search::Capacity(CapacityScan::default())
        } else if view.features.has(Feature::SisGroup) {
            Search::Group(GroupScan::start(view))
        } else if view.features.has(Feature::SisFirstIdle) {
            Search::FirstIdle(FirstIdle::start())
        } else if view.features.has(Feature::SisCore) {
            Search::Core(CoreScan::start(view))
        } else if view.features.has(Feature::SisWakeIdle) {
            Search::WakeIdle(WakeIdle::start())
        } else {
            Search::None
        }
    }
    /// The next step. `last` answers the probe that the previous step asked for; `None` at the first step. The searches
    /// of older kernels know only idle and busy CPUs.
    #[inline]
    pub fn step(&mut self, view: &View<'_>, last: Option<Answer>) -> SearchStep {
        match self {
            Search::Group(scan) => scan.step(view, last.map(Answer::is_idle)),
            Search::FirstIdle(scan) => scan.step(view, last.map(Answer::is_idle)),
            Search::Core(scan) => scan.step(view, last),
            Search::Capacity(scan) => scan.step(view, last),
            Search::WakeIdle(scan) => scan.step(view, last.map(Answer::is_idle)),
            Search::Absent(scan) => scan.step(view, last),
            Search::None => SearchStep::NotFound(PlaceReason::TargetBusy),
        }
    }
    /// Whether the search is in the part whose duration is averaged ([`CoreScan::timed`]).
    pub fn is_timed(&self, view: &View<'_>) -> bool {
        matches!(self, Search::Core(scan) if scan.timed(view))
    }
    /// Whether the search ended because its budget was spent.
    pub fn out_of_budget(&self) -> bool {
        matches!(self, Search::Core(scan) if scan.out_of_budget())
    }
    /// Whether a search for an idle core has failed, so that the LLC's flag must be cleared now.
    pub fn clears_idle_cores(&self) -> bool {
        match self {
            Search::Core(scan) => scan.clears_idle_cores(),
            Search::Capacity(scan) => scan.clears_idle_cores(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::testing::{domains, run, view};

    #[test]
    fn a_target_keeps_a_task_while_it_has_room_for_it() {
        assert!(packs(0, 1024) && packs(716, 1024) && !packs(717, 1024) && !packs(1024, 1024));
        assert!(packs(357, 512) && !packs(359, 512), "of its own capacity");
    }

    #[test]
    fn the_features_choose_the_search() {
        let d = domains("fb-2x12-smt", "v4.5");
        let mut v = view(&d, "v4.5", 3, 3);
        assert!(matches!(Search::start(&v), Search::Group(_)));
        v.features.switch(Feature::SisFirstIdle, true);
        assert!(matches!(Search::start(&v), Search::FirstIdle(_)));
        v.features.switch(Feature::SisCore, true);
        assert!(matches!(Search::start(&v), Search::Core(_)));
        v.features.switch(Feature::SisWakeIdle, true);
        assert!(matches!(Search::start(&v), Search::WakeIdle(_)));
        v.features.switch(Feature::SisWakeIdle, false);
        let mut none = Search::start(&v);
        let (step, probes) = run(|a| none.step(&v, a), |_| true);
        assert_eq!((step, probes), (SearchStep::NotFound(PlaceReason::TargetBusy), vec![]));
    }

    #[test]
    fn cache_sharing_is_that_of_the_llc_and_threads_are_those_of_the_core() {
        let d = domains("fb-2x12-smt", "v4.5");
        let v = view(&d, "v4.5", 0, 0);
        assert!(v.shares_cache(CpuId(0), CpuId(24)) && v.shares_cache(CpuId(0), CpuId(11)));
        assert!(!v.shares_cache(CpuId(0), CpuId(12)));
        assert_eq!([0, 1, 2].map(|at| v.thread(CpuId(24), at)), [Some(CpuId(0)), Some(CpuId(24)), None]);
        let alone = domains("celeron-2", "v6.5");
        let v = view(&alone, "v6.5", 0, 0);
        assert!(v.shares_cache(CpuId(0), CpuId(0)) && !v.shares_cache(CpuId(0), CpuId(1)));
        assert_eq!([v.thread(CpuId(1), 0), v.thread(CpuId(1), 1)], [Some(CpuId(1)), None]);
    }
}
