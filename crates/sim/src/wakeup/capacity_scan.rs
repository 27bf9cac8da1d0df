//! The search on machines whose CPUs differ in capacity (`select_idle_capacity`, 5.7; read in 6.1.192).
//!
//! It goes over the domain with every capacity, from the target on, and takes the first idle CPU that the task fits.
//! If it fits none, the idle CPU of most capacity is taken, of several the first. A CPU that runs SCHED_IDLE tasks only
//! counts as idle.

use super::search::{Answer, SearchStep, View};
use schedlab_base::CpuId;
use schedlab_trace::PlaceReason;

/// The place of the scan.
#[derive(Clone, Copy, Debug, Default)]
pub struct CapacityScan {
    /// CPUs of the domain passed, from the target on.
    passed: usize,
    /// The idle CPU of most capacity that the task does not fit.
    best: Option<(CpuId, u64)>,
}

impl CapacityScan {
    /// The next step; see [`super::search::Search::step`].
    pub fn step(&mut self, view: &View<'_>, last: Option<Answer>) -> SearchStep {
        let domain = view.domains.asym[view.target].map(|at| &view.domains.of_cpu[view.target][at]);
        let cpus = domain.map_or(&[][..], |d| &d.cpus[..]);
        let first = cpus.partition_point(|c| *c < view.target);
        let at = |passed: usize| cpus.get((first + passed) % cpus.len().max(1)).copied();
        if let (Some(answer), Some(cpu)) = (last, at(self.passed)) {
            if answer != Answer::Busy {
                if view.fits(cpu) {
                    return SearchStep::Found(cpu, answer.reason(PlaceReason::IdleFits));
                }
                let capacity = view.capacity(cpu);
                if self.best.is_none_or(|(_, most)| capacity > most) {
                    self.best = Some((cpu, capacity));
                }
            }
            self.passed += 1;
        }
        while self.passed < cpus.len() {
            match at(self.passed) {
                Some(cpu) if view.allows(cpu) => return SearchStep::Probe(cpu),
                _ => self.passed += 1,
            }
        }
        match self.best {
            Some((cpu, _)) => SearchStep::Found(cpu, PlaceReason::IdleFastest),
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
}
