//! State that the CPUs of one domain share for balancing (`struct sched_domain_shared`), and the cost of reading it.
//!
//! Before D001 only domains inside one cache have it. D001's first patch (SD_SHARED_ALL) gives it to every domain below
//! NUMA, SD_SHARED_NUMA to NUMA domains as well. It is one cache line: reading costs a hit if no CPU wrote since the
//! reader's last read, else a miss by the distance from the writer. ILB_SHARE adds, for each group, the statistics last
//! gathered by any CPU. Times in ns.

use super::spare::newidle_scan::{DomainSpan, SharedHints, Shortcuts};
use super::spare::stats::GroupStats;
use schedlab_base::{Arena, CpuId};
use schedlab_kernel::{Feature, FeatureSet};
use schedlab_machine::{Domain, Domains};

#[derive(Clone, Debug)]
pub struct DomainShared {
    /// The facts about the domain on which scan depths depend.
    pub span: DomainSpan,
    /// Hints that periodic passes have stored.
    pub hints: SharedHints,
    /// Incremented by every write.
    pub(super) version: u32,
    /// The CPU that wrote last.
    pub(super) writer: CpuId,
}

/// Statistics of a group, gathered by some CPU.
#[derive(Clone, Copy, Debug)]
pub struct Gathered {
    pub(super) at_ns: u64,
    pub(super) by: CpuId,
    pub(super) stats: GroupStats,
}

fn has_shared(domain: &Domain, features: FeatureSet) -> bool {
    match () {
        () if domain.params.numa => features.has(Feature::SdSharedNuma),
        () => domain.params.share_llc || features.has(Feature::SdSharedAll),
    }
}

/// The shared states of a machine, and for each CPU and level the number of its state.
pub fn build(
    domains: &Domains,
    cpu_capacity: &Arena<CpuId, u64>,
    features: FeatureSet,
) -> (Vec<DomainShared>, Arena<CpuId, Vec<Option<u32>>>) {
    let mut all: Vec<DomainShared> = Vec::new();
    let mut firsts: Vec<(usize, &Domain)> = Vec::new();
    let mut own = Arena::new();
    for levels in &domains.of_cpu {
        let mut mine = Vec::with_capacity(levels.len());
        for (level, domain) in levels.iter().enumerate() {
            if !has_shared(domain, features) {
                mine.push(None);
                continue;
            }
            let same = |(l, d): &(usize, &Domain)| *l == level && d.span == domain.span;
            let at = firsts.iter().rposition(same).unwrap_or_else(|| {
                firsts.push((level, domain));
                let capacity = domain.cpus.iter().map(|c| cpu_capacity[*c]).sum();
                all.push(DomainShared::new(domain, features, capacity));
                all.len() - 1
            });
            mine.push(Some(at as u32));
        }
        own.push(mine);
    }
    (all, own)
}

impl DomainShared {
    fn new(domain: &Domain, features: FeatureSet, capacity: u64) -> DomainShared {
        // Without SD_NR_GROUPS the kernel does not count the groups, so ILB_UTIL lets only one group through.
        let nr_groups = if features.has(Feature::SdNrGroups) { domain.groups.len() as u32 } else { 0 };
        let (weight, imbalance_pct) = (domain.cpus.len() as u32, domain.params.imbalance_pct);
        // A run begins on a machine that was up and idle: its periodic passes have stored an idle machine's hints.
        let on = Shortcuts::of(features);
        let hints = SharedHints {
            total_load: 0,
            total_capacity: if on.snapshot { capacity } else { 0 },
            nr_sg_scan: if on.util { nr_groups } else { 0 },
        };
        DomainShared {
            span: DomainSpan { nr_groups, weight, imbalance_pct },
            hints,
            version: 1,
            writer: domain.cpus.first().copied().unwrap_or(CpuId(0)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::Version;
    use schedlab_machine::shape::Shape;

    fn features(on: &[Feature]) -> FeatureSet {
        let mut set = FeatureSet::default();
        on.iter().for_each(|f| set.switch(*f, true));
        set
    }

    fn capacities() -> Arena<CpuId, u64> {
        Arena::filled(1024, 16)
    }

    #[test]
    fn which_domains_share_state_is_a_matter_of_features() {
        // Two nodes of two caches each: SMT and MC inside a cache, DIE across caches, NUMA on top.
        let shape = Shape { packages: 2, nodes: 2, llcs: 4, ..Shape::flat(8, 2) };
        let domains = Domains::build(&shape.topology().unwrap(), Version::new(6, 5));
        let of = |on: &[Feature]| {
            let (all, own) = build(&domains, &capacities(), features(on));
            (all.len(), own[CpuId(0)].iter().map(Option::is_some).collect::<Vec<_>>())
        };
        assert_eq!(of(&[]), (8 + 4, vec![true, true, false, false]));
        assert_eq!(of(&[Feature::SdSharedAll]), (8 + 4 + 2, vec![true, true, true, false]));
        let both = [Feature::SdSharedAll, Feature::SdSharedNuma];
        assert_eq!(of(&both), (8 + 4 + 2 + 1, vec![true; 4]));
        let (all, own) = build(&domains, &capacities(), features(&[Feature::SdNrGroups]));
        assert_eq!(all[own[CpuId(5)][1].unwrap() as usize].span.nr_groups, 2);
        assert_eq!(own[CpuId(4)][1], own[CpuId(5)][1]);
        let (all, own) = build(&domains, &capacities(), features(&[]));
        assert_eq!(all[own[CpuId(5)][1].unwrap() as usize].span.nr_groups, 0, "none are counted");
    }

    #[test]
    fn a_run_begins_on_a_machine_that_was_idle() {
        let shape = Shape { packages: 2, nodes: 2, llcs: 4, ..Shape::flat(8, 2) };
        let domains = Domains::build(&shape.topology().unwrap(), Version::new(6, 5));
        let hints = |on: &[Feature]| {
            let (all, own) = build(&domains, &capacities(), features(on));
            all[own[CpuId(5)][1].unwrap() as usize].hints
        };
        assert_eq!(
            hints(&[Feature::IlbUtil]).total_capacity,
            0,
            "without ILB_SNAPSHOT since boot nothing is stored"
        );
        let stored = hints(&[Feature::IlbSnapshot, Feature::IlbUtil, Feature::SdNrGroups]);
        assert_eq!((stored.total_load, stored.total_capacity, stored.nr_sg_scan), (0, 4 * 1024, 2));
    }
}
