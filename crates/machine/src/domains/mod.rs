//! Sched domains and groups, derived from a topology as a kernel of a given version derives them.
//!
//! Mirrors `build_sched_domains` and `cpu_attach_domain` of x86 kernels 2.6.12 to 6.x. Levels are stacked until one
//! spans the machine. Degenerate ones (one CPU, or the same span as the child) are dropped. The remaining ones are
//! numbered `domain0`, `domain1`, ... as in schedstat. Domains of one CPU nest; the local group is first in every ring;
//! the groups of a domain cover exactly its span.

mod asymmetry;
mod groups;
mod levels;
mod params;
mod parts;

pub use parts::{Cores, DomainParams, Group, GroupFlags, Level};

use crate::topology::RECLAIM_DISTANCE;
use crate::{Arch, Topology};
use asymmetry::Asymmetry;
use groups::Groups;
use levels::Spans;
use schedlab_base::{Arena, CpuId, CpuSet, Version};
use serde::Serialize;

/// One CPU's sched domain of one level.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Domain {
    pub level: Level,
    /// The kernel's name in this era ("MC").
    pub name: &'static str,
    pub span: CpuSet,
    /// The span as an ascending list.
    #[serde(skip)]
    pub cpus: Vec<CpuId>,
    /// Indices into [`Domains::groups`], as a ring: the CPU's own group first, then by rising CPU number, wrapping.
    pub groups: Vec<u32>,
    pub params: DomainParams,
    /// `imb_numa_nr` (5.18+): tolerated NUMA imbalance; 0 below the LLC's parent and in older kernels.
    pub imb_numa_nr: u32,
    /// Whether groups are cores.
    #[serde(skip)]
    pub cores: Cores,
}

/// All domains of a machine under one kernel version.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Domains {
    pub groups: Vec<Group>,
    /// Per CPU, bottom up, the domains that are not degenerate: `domain0`, `domain1`, ...
    pub of_cpu: Arena<CpuId, Vec<Domain>>,
    /// Per CPU, the index in `of_cpu` of its highest LLC-sharing domain (`sd_llc`); `None` when the CPU is alone in its
    /// cache.
    pub llc: Arena<CpuId, Option<usize>>,
    /// Per CPU, the index of its lowest domain that has every capacity of the machine (`sd_asym_cpucapacity`); `None`
    /// where CPUs are alike.
    #[serde(skip_serializing_if = "nowhere")]
    pub asym: Arena<CpuId, Option<usize>>,
}

/// Whether no CPU has an entry.
fn nowhere(places: &Arena<CpuId, Option<usize>>) -> bool {
    places.iter().all(Option::is_none)
}

impl Domains {
    /// Derives the domains of `topology` as kernel `version` does.
    ///
    /// The topology must pass [`Topology::check`]; every machine of [`crate::Machine::load`] does.
    pub fn build(topology: &Topology, version: Version) -> Domains {
        let cpus = (0..topology.nr_cpus()).map(CpuId::from);
        let (of_cpu, groups): (Arena<CpuId, Vec<Domain>>, _) = stacks(topology, version, cpus);
        let llc = of_cpu.iter().map(|domains| domains.iter().rposition(|d| d.params.share_llc)).collect();
        // Before 5.14 SD_ASYM_CPUCAPACITY is enough.
        let any = version < Version::new(5, 14);
        let has_all = |d: &Domain| d.params.asym_full || (any && d.params.asym_capacity);
        let asym = of_cpu.iter().map(|domains| domains.iter().position(has_all)).collect();
        Domains { groups, of_cpu, llc, asym }
    }

    /// The domains of the first CPU alone.
    pub fn of_first(topology: &Topology, version: Version) -> Vec<Domain> {
        let (stacks, _): (Vec<Vec<Domain>>, _) = stacks(topology, version, std::iter::once(CpuId(0)));
        stacks.into_iter().flatten().collect()
    }
}

/// The domains of each of some CPUs, and their groups.
fn stacks<C: FromIterator<Vec<Domain>>>(
    topology: &Topology,
    version: Version,
    cpus: impl Iterator<Item = CpuId>,
) -> (C, Vec<Group>) {
    let levels = levels::levels(topology, version);
    let mut groups = Groups::new(levels.len(), topology.nr_cpus(), version);
    let era = Era {
        version,
        reclaim_distance: reclaim_distance(topology, version),
        arch: topology.arch,
        asymmetry: Asymmetry::of(topology, &levels, version),
    };
    let of_cpu = cpus.map(|cpu| era.stack(&levels, &mut groups, cpu)).collect();
    (of_cpu, groups.all)
}

/// Whether the groups of a ring are cores. The local group, the first, does not count.
fn cores(all: &[Group], ring: &[u32]) -> Cores {
    let is_core = |g: &u32| all[*g as usize].flags.share_capacity;
    match ring[1..].iter().filter(|g| is_core(g)).count() {
        0 => Cores::None,
        n if n + 1 == ring.len() => Cores::All,
        _ => Cores::Some,
    }
}

/// All levels of `version` over a machine, bottom up, including degenerate ones: level, the kernel's name, and the span
/// of each CPU.
pub(crate) fn all_levels(topology: &Topology, version: Version) -> Vec<(Level, &'static str, Vec<CpuSet>)> {
    let spans = |l: Spans| (0..topology.nr_cpus()).map(|c| l.span_of(CpuId::from(c)).clone()).collect();
    let levels = levels::levels(topology, version).into_iter();
    levels.map(|l| (l.level, levels::name(l.level, version), spans(l))).collect()
}

/// The distance beyond which NUMA domains lose flags. The machine's own value (AMD's 32) applies since 5.4.
fn reclaim_distance(topology: &Topology, version: Version) -> u32 {
    if version >= Version::new(5, 4) { topology.reclaim_distance } else { RECLAIM_DISTANCE }
}

/// The properties of a kernel that decide its domains.
struct Era<'l> {
    version: Version,
    reclaim_distance: u32,
    arch: Arch,
    asymmetry: Asymmetry<'l>,
}

impl Era<'_> {
    /// The domains of one CPU after degenerate ones are dropped, bottom up.
    fn stack(&self, levels: &[Spans], groups: &mut Groups, cpu: CpuId) -> Vec<Domain> {
        let built = self.built(levels, cpu);
        let imb = self.imb_numa_nr(&built, cpu);
        let mut stack: Vec<Domain> = Vec::new();
        for (at, (spans, params)) in built.into_iter().enumerate() {
            let cpus = spans.cpus_of(cpu);
            match stack.last_mut() {
                // A parent of the same span has one group and is dropped; since 3.12 the child takes over its
                // SD_PREFER_SIBLING.
                Some(child) if child.cpus.len() == cpus.len() => {
                    child.params.prefer_sibling |=
                        params.prefer_sibling && self.version >= Version::new(3, 12);
                }
                None if cpus.len() == 1 => {}
                _ => {
                    let flags = |child: usize, next: CpuId| self.group_flags(levels, at, child, next);
                    let ring = groups.ring(levels, at, cpu, &flags);
                    // Before 4.13 another node's span may fill the whole domain. A domain with one group is dropped,
                    // too.
                    if ring.len() > 1 {
                        stack.push(Domain {
                            cores: cores(&groups.all, &ring),
                            level: spans.level,
                            name: levels::name(spans.level, self.version),
                            span: spans.span_of(cpu).clone(),
                            cpus: cpus.to_vec(),
                            groups: ring,
                            params,
                            imb_numa_nr: imb[at],
                        });
                    }
                }
            }
        }
        stack
    }

    /// The flags of the group that `next` brings into a domain of level `at`; the group is the span of its `child`. If
    /// the child is dropped because the domain below has the same span, the group gets the flags of that domain (6.6).
    /// If the child has one CPU, the group has no flags. Groups of nodes keep the flags they were made with.
    fn group_flags(&self, levels: &[Spans], at: usize, child: usize, next: CpuId) -> GroupFlags {
        let built = self.built(levels, next);
        // On uneven meshes, `next` may have fewer levels.
        if child >= built.len() {
            return GroupFlags::default();
        }
        let weight = |at: usize| built[at].0.cpus_of(next).len();
        let numa = matches!(levels[at].level, Level::Numa(_));
        if weight(child) == 1 && !numa {
            return GroupFlags::default();
        }
        if numa || self.version < Version::new(6, 6) {
            return GroupFlags::of(&built[child].1);
        }
        let lowest = (0..child).find(|l| weight(*l) == weight(child)).unwrap_or(child);
        let mut flags = GroupFlags::of(&built[lowest].1);
        // The last dropped domain hands its SD_PREFER_SIBLING down too late for the group.
        flags.prefer_sibling |= built[lowest..child].iter().any(|(_, params)| params.prefer_sibling);
        flags
    }

    /// The levels over a CPU, up to the first that spans the machine.
    fn built<'a>(&self, levels: &'a [Spans], cpu: CpuId) -> Vec<(&'a Spans, DomainParams)> {
        let nr_cpus = levels.first().map_or(0, |l| l.unit.len());
        let whole = levels.iter().position(|l| l.cpus_of(cpu).len() == nr_cpus);
        let built = &levels[..whole.map_or(levels.len(), |w| w + 1)];
        let with_params = |spans: &'a Spans| {
            let weight = spans.cpus_of(cpu).len() as u32;
            (spans, params::params(self.version, spans.level, weight, self.reclaim_distance, self.arch))
        };
        let mut built: Vec<_> = built.iter().map(with_params).collect();
        self.asymmetry.mark(&mut built, cpu, self.version);
        built
    }

    /// `imb_numa_nr` of each built level (5.18+): the tolerated NUMA imbalance. It is computed before degenerate levels
    /// are dropped, so DIE takes part even if its span is MC's.
    fn imb_numa_nr(&self, built: &[(&Spans, DomainParams)], cpu: CpuId) -> Vec<u32> {
        let mut all = vec![0; built.len()];
        if self.version < Version::new(5, 18) {
            return all;
        }
        let weight = |at: usize| built[at].0.cpus_of(cpu).len() as u32;
        let shares = |at: usize| built[at].1.share_llc;
        let Some(above) = (1..built.len()).find(|at| !shares(*at) && shares(at - 1)) else { return all };
        let llcs = weight(above) / weight(above - 1);
        let imb = match self.version < Version::new(6, 0) {
            true if llcs == 1 => weight(above) / 4,
            false if llcs == 1 => (weight(above) / 8).max(1),
            _ => llcs,
        };
        let first_numa = (above + 1..built.len()).find(|at| built[*at].1.numa);
        let span = weight(first_numa.unwrap_or(above));
        all[above] = imb;
        for (at, value) in all.iter_mut().enumerate().skip(above + 1) {
            *value = imb * (weight(at) / span).max(1);
        }
        all
    }
}

#[cfg(test)]
mod tests;
