//! Domains whose CPUs differ in capacity (SD_ASYM_CPUCAPACITY).
//!
//! The kernel finds them itself since 4.20. Up to 5.13 one level has the flag: the lowest one on which every CPU's
//! domain has a CPU of the highest capacity that any of its domains sees (`asym_cpu_capacity_level`; from memory).
//! Since 5.14 each domain with two capacities has the flag, and one with all capacities has SD_ASYM_CPUCAPACITY_FULL
//! (`asym_cpu_capacity_classify`; read in 6.1.192). The child of such a domain spreads no tasks over siblings, until
//! 7.3 (6.12.117 does this, 7.3.4 does not; according to a mail, 7.2 does not differ).

use super::levels::Spans;
use super::parts::DomainParams;
use crate::Topology;
use schedlab_base::{CpuId, Version};

/// The kernel's way of marking domains.
pub(super) enum Asymmetry<'l> {
    /// No marks: all CPUs are alike, or the kernel does not look.
    None,
    /// Marks the domains of one level.
    Level(&'l Spans),
    /// Judges each domain by the capacities in it. Values: the capacity of each CPU, the number of different
    /// capacities.
    Each(Vec<u32>, usize),
}

impl<'l> Asymmetry<'l> {
    pub fn of(topology: &Topology, levels: &'l [Spans], version: Version) -> Asymmetry<'l> {
        if !topology.is_asymmetric() || version < Version::new(4, 20) {
            return Asymmetry::None;
        }
        let all = &topology.capacity;
        if version >= Version::new(5, 14) {
            return Asymmetry::Each(all.clone(), different(all.iter().copied()));
        }
        levels.get(lowest_with_the_highest(topology, levels)).map_or(Asymmetry::None, Asymmetry::Level)
    }

    /// Marks the domains over a CPU, and removes SD_PREFER_SIBLING from their children where the kernel does.
    pub fn mark(&self, built: &mut [(&Spans, DomainParams)], cpu: CpuId, version: Version) {
        for at in 0..built.len() {
            let (spans, params) = &mut built[at];
            let (marked, full) = match self {
                Asymmetry::None => (false, false),
                // A CPU may lack levels, so positions in `built` are not compared.
                Asymmetry::Level(level) => (std::ptr::eq(*spans, *level), false),
                Asymmetry::Each(capacity, most) => {
                    let here = different(spans.cpus_of(cpu).iter().map(|c| capacity[c.index()]));
                    (here > 1, here == *most)
                }
            };
            (params.asym_capacity, params.asym_full) = (marked, marked && full);
            let keeps_apart = marked && version < Version::new(7, 3);
            if let (true, Some((_, child))) = (keeps_apart, at.checked_sub(1).and_then(|c| built.get_mut(c)))
            {
                child.prefer_sibling = false;
            }
        }
    }
}

fn different(capacities: impl Iterator<Item = u32>) -> usize {
    let mut all: Vec<u32> = capacities.collect();
    all.sort_unstable();
    all.dedup();
    all.len()
}

/// The lowest level above which no CPU's domain gains a faster CPU.
fn lowest_with_the_highest(topology: &Topology, levels: &[Spans]) -> usize {
    let fastest = |level: &Spans, cpu: CpuId| {
        level.cpus_of(cpu).iter().map(|c| topology.capacity_of(*c)).max().unwrap_or_default()
    };
    let rises = |at: &usize| {
        let cpus = (0..topology.nr_cpus()).map(CpuId::from);
        let mut pairs = cpus.map(|cpu| (fastest(&levels[*at - 1], cpu), fastest(&levels[*at], cpu)));
        pairs.any(|(below, here)| here > below)
    };
    (1..levels.len()).rev().find(rises).unwrap_or(0)
}
