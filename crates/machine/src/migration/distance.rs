//! Distances of CPU pairs: the number of sched domains to climb until the other CPU is inside (D003).
//!
//! Degenerate levels count, too: on a machine without SMT, two CPUs of a node are at distance 1 in 2.6.12, and no pair
//! is at distance 0. So an index names the same level on every CPU of every machine under one kernel.

use crate::domains::{Level, all_levels};
use crate::{Domain, Topology};
use schedlab_base::{CpuId, CpuSet, Version};

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// The level of domains that first spans both CPUs.
    pub level: Level,
    /// The kernel's name of the level.
    pub name: &'static str,
}

/// The distances of a machine's CPUs under a kernel.
#[derive(Clone, Debug)]
pub struct Distances {
    /// By distance, closest first.
    pub classes: Vec<Class>,
    /// Per distance and CPU, the CPUs up to that distance.
    spans: Vec<Vec<CpuSet>>,
}

impl Distances {
    pub fn new(topology: &Topology, version: Version) -> Distances {
        let mut distances = Distances { classes: Vec::new(), spans: Vec::new() };
        for (level, name, spans) in all_levels(topology, version) {
            distances.classes.push(Class { level, name });
            distances.spans.push(spans);
        }
        distances
    }
    /// The distance of two CPUs; `None` for the same CPU, and for CPUs that share no domain.
    pub fn of(&self, a: CpuId, b: CpuId) -> Option<usize> {
        if a == b {
            return None;
        }
        self.spans.iter().position(|by_cpu| by_cpu.get(a.index()).is_some_and(|span| span.contains(b)))
    }
    /// The distance of a domain's level.
    pub fn of_domain(&self, domain: &Domain) -> Option<usize> {
        self.classes.iter().position(|class| class.level == domain.level)
    }
    /// All ordered pairs at a distance, ascending.
    pub fn pairs(&self, distance: usize) -> Vec<(CpuId, CpuId)> {
        let n = self.spans.first().map_or(0, Vec::len);
        let cpus = || (0..n).map(CpuId::from);
        cpus()
            .flat_map(|a| cpus().map(move |b| (a, b)))
            .filter(|(a, b)| self.of(*a, *b) == Some(distance))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Machine;

    #[test]
    fn distances_of_the_documents_machines() {
        let of = |name: &str| Distances::new(&Machine::load(name).unwrap().topology, Version::v2_6(12));
        let p4 = of("p4-ht-2");
        assert_eq!(p4.of(CpuId(0), CpuId(2)), Some(0), "siblings");
        assert_eq!(p4.of(CpuId(0), CpuId(1)), Some(1));
        assert_eq!(p4.of(CpuId(1), CpuId(1)), None);
        let celeron = of("celeron-2");
        assert_eq!(celeron.of(CpuId(0), CpuId(1)), Some(1), "the level of siblings is empty and counts");
        assert_eq!(celeron.pairs(0), []);
        assert_eq!(of("p3-8").pairs(1).len(), 56);
    }

    #[test]
    fn a_domain_has_the_index_of_its_level() {
        let machine = Machine::load("celeron-2").unwrap();
        let version = Version::v2_6(12);
        let domains = crate::Domains::build(&machine.topology, version);
        let distances = Distances::new(&machine.topology, version);
        let of_cpu = &domains.of_cpu[CpuId(0)];
        assert_eq!(of_cpu.len(), 1);
        assert_eq!(distances.of_domain(&of_cpu[0]), Some(1));
    }
}
