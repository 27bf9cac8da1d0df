//! The search on machines whose CPUs differ in capacity (`select_idle_capacity`, 5.7; read in 6.1.192 and 7.3.4).
//!
//! It walks the domain that has all capacities, from the target on, and takes the first idle CPU that the task fits. If
//! it fits none, the idle CPU with the most capacity is taken; of equal ones the first. A CPU that runs only SCHED_IDLE
//! tasks counts as idle.
//!
//! Since 7.2 a CPU whose whole core is idle is preferred to one whose core is not, if the cache's flag says that there
//! is an idle core. Otherwise SIS_UTIL limits the CPUs read; here those are the hints of the target's cache, even if
//! the domain with all capacities is larger.

use super::search::{Answer, SearchStep, View};
use schedlab_base::CpuId;
use schedlab_kernel::Feature;
use schedlab_trace::PlaceReason;

#[derive(Clone, Copy, Debug, Default)]
pub struct CapacityScan {
    /// Number of CPUs of the domain passed, from the target on.
    passed: usize,
    /// The best imperfect CPU so far.
    best: Option<(CpuId, Rank, u64)>,
    /// Since 7.2: whether the search is for an idle core, and how many CPUs may be read otherwise.
    by_cores: Option<ByCores>,
    /// The current CPU's answer (idle), and the number of threads of its core that were passed.
    beside: Option<(Answer, usize)>,
}

/// Hints that a search since 7.2 reads at its beginning.
#[derive(Clone, Copy, Debug)]
struct ByCores {
    wants_core: bool,
    left: u32,
}

/// How well a CPU suits, best first. Without a wish for an idle core all have the first rank.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Rank {
    /// Its core is idle, or that does not count; but the task does not fit it.
    Core,
    /// The task fits it, but another thread of its core is busy.
    BusyCoreFits,
    /// Neither.
    BusyCore,
}

impl CapacityScan {
    pub fn step(&mut self, view: &View<'_>, last: Option<Answer>) -> SearchStep {
        let Some(answer) = last else { return self.begin(view) };
        let Some(cpu) = self.present(view) else { return self.end() };
        let wants_core = self.by_cores.is_some_and(|by| by.wants_core);
        let (idle, core_is_idle, passed) = match self.beside.take() {
            Some((first, passed)) => (first, answer.is_idle(), passed),
            None => (answer, true, 0),
        };
        if idle != Answer::Busy {
            let next = if wants_core && core_is_idle { view.other_thread(cpu, passed) } else { None };
            if let Some((passed, thread)) = next {
                self.beside = Some((idle, passed));
                return SearchStep::Probe(thread);
            }
            let rank = match (core_is_idle, view.fits(cpu)) {
                (true, true) => return SearchStep::Found(cpu, idle.reason(PlaceReason::IdleFits)),
                (true, false) => Rank::Core,
                (false, true) => Rank::BusyCoreFits,
                (false, false) => Rank::BusyCore,
            };
            let capacity = view.capacity(cpu);
            let better =
                |(_, best, most): (CpuId, Rank, u64)| rank < best || (rank == best && capacity > most);
            if self.best.is_none_or(better) {
                self.best = Some((cpu, rank, capacity));
            }
        }
        self.passed += 1;
        self.next(view)
    }

    /// Whether an idle core was searched in vain: then the cache's flag must be cleared.
    pub fn clears_idle_cores(&self) -> bool {
        let found = self.best.is_some_and(|(_, rank, _)| rank == Rank::Core);
        self.by_cores.is_some_and(|by| by.wants_core) && !found
    }

    fn begin(&mut self, view: &View<'_>) -> SearchStep {
        if view.history.capacity_by_cores {
            let limited = view.features.has(Feature::SisUtil);
            let left = if limited { view.nr_idle_scan } else { u32::MAX };
            self.by_cores = Some(ByCores { wants_core: view.has_idle_cores && left > 0, left });
            if left == 0 {
                return SearchStep::NotFound(PlaceReason::ScanSkipped);
            }
        }
        self.next(view)
    }

    /// The next CPU that the task may use.
    fn next(&mut self, view: &View<'_>) -> SearchStep {
        while let Some(cpu) = self.present(view) {
            if !view.allows(cpu) {
                self.passed += 1;
                continue;
            }
            if let Some(by) = self.by_cores.as_mut().filter(|by| !by.wants_core) {
                let Some(left) = by.left.checked_sub(1) else { break };
                by.left = left;
            }
            return SearchStep::Probe(cpu);
        }
        self.end()
    }

    /// The current CPU of the scan; `None` past the end.
    fn present(&self, view: &View<'_>) -> Option<CpuId> {
        let domain = view.domains.asym[view.target].map(|at| &view.domains.of_cpu[view.target][at]);
        let cpus = domain.map_or(&[][..], |d| &d.cpus[..]);
        let first = cpus.partition_point(|c| *c < view.target);
        (self.passed < cpus.len()).then(|| cpus[(first + self.passed) % cpus.len()])
    }

    fn end(&self) -> SearchStep {
        match self.best {
            Some((cpu, ..)) => SearchStep::Found(cpu, PlaceReason::IdleFastest),
            None => SearchStep::NotFound(PlaceReason::TargetBusy),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wakeup::search::Needs;
    use crate::wakeup::testing::{run, view};
    use schedlab_base::{CpuSet, Version};
    use schedlab_machine::{Domains, topology::Topology};

    /// Four CPUs of 446 and two of 1024.
    fn juno() -> (Topology, Vec<u64>) {
        let cpu = |c: u32| schedlab_machine::Cpu {
            package: 0,
            node: 0,
            llc: c / 4,
            cluster: c,
            core: c,
            thread: 0,
        };
        let mut topology = Topology::plain((0..6).map(cpu).collect(), vec![vec![10]]);
        topology.capacity = vec![446, 446, 446, 446, 1024, 1024];
        let capacities = topology.capacity.iter().map(|c| u64::from(*c)).collect();
        (topology, capacities)
    }

    #[test]
    fn the_first_idle_cpu_that_fits_is_taken_else_the_fastest() {
        let (topology, capacities) = juno();
        let domains = Domains::build(&topology, Version::new(6, 1));
        let found = |util: u64, target: u32, idle: &[u32], allowed: Option<&CpuSet>| {
            let needs = Needs { util, capacities: &capacities };
            let v = View { needs: Some(needs), allowed, ..view(&domains, "v6.1", target, target) };
            let mut scan = CapacityScan::default();
            run(|a: Option<Answer>| scan.step(&v, a), |cpu| idle.contains(&cpu))
        };
        let fits = |cpu| SearchStep::Found(CpuId(cpu), PlaceReason::IdleFits);
        let fastest = |cpu| SearchStep::Found(CpuId(cpu), PlaceReason::IdleFastest);
        assert_eq!(found(300, 2, &[0, 3, 4], None), (fits(3), vec![2, 3]));
        assert_eq!(found(400, 2, &[0, 3, 5], None), (fits(5), vec![2, 3, 4, 5]));
        assert_eq!(found(900, 2, &[0, 3, 5], None).0, fastest(5));
        assert_eq!(found(400, 5, &[0, 3], None), (fastest(0), vec![5, 0, 1, 2, 3, 4]));
        assert_eq!(found(1, 0, &[], None).0, SearchStep::NotFound(PlaceReason::TargetBusy));
        let small = CpuSet::parse("1-2").unwrap();
        assert_eq!(found(400, 0, &[1, 2, 4], Some(&small)), (fastest(1), vec![1, 2]));
    }

    /// A fast core of two threads and two slow ones, all in one cache.
    fn hybrid() -> (Topology, Vec<u64>) {
        let cpu = |c: u32| schedlab_machine::Cpu {
            package: 0,
            node: 0,
            llc: 0,
            cluster: c.max(1),
            core: c.max(1),
            thread: u32::from(c == 1),
        };
        let mut topology = Topology::plain((0..4).map(cpu).collect(), vec![vec![10]]);
        topology.capacity = vec![1024, 1024, 600, 600];
        let capacities = topology.capacity.iter().map(|c| u64::from(*c)).collect();
        (topology, capacities)
    }

    #[test]
    fn since_7_2_an_idle_core_comes_first_where_there_is_one() {
        let (topology, capacities) = hybrid();
        let found = |version: &str, has_idle_cores: bool, nr_idle_scan: u32, idle: &[u32]| {
            let domains = Domains::build(&topology, Version::parse(version).unwrap());
            let needs = Some(Needs { util: 700, capacities: &capacities });
            let v = View { needs, has_idle_cores, nr_idle_scan, ..view(&domains, version, 0, 0) };
            let mut scan = CapacityScan::default();
            let step = run(|a: Option<Answer>| scan.step(&v, a), |cpu| idle.contains(&cpu));
            (step.0, step.1, scan.clears_idle_cores())
        };
        let fits = |cpu| SearchStep::Found(CpuId(cpu), PlaceReason::IdleFits);
        let else_best = |cpu| SearchStep::Found(CpuId(cpu), PlaceReason::IdleFastest);
        // CPU 0 is busy; the other thread of its core is idle and large enough. CPU 2 is too small, but a whole core.
        assert_eq!(found("6.12", true, 4, &[1, 2]), (fits(1), vec![0, 1], false));
        assert_eq!(found("7.3", true, 4, &[1, 2]), (else_best(2), vec![0, 1, 0, 2, 3], false));
        assert_eq!(found("7.3", true, 4, &[1]), (else_best(1), vec![0, 1, 0, 2, 3], true), "no core is idle");
        assert_eq!(found("7.3", false, 4, &[1, 2]), (fits(1), vec![0, 1], false), "none is said to be");
        assert_eq!(found("7.3", false, 1, &[1, 2]).1, [0], "the hint's limit");
        assert_eq!(found("7.3", true, 0, &[1, 2]).0, SearchStep::NotFound(PlaceReason::ScanSkipped));
    }
}
