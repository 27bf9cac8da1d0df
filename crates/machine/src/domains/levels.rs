//! Levels: the spans that a kernel version stacks over each CPU, before it drops degenerate ones.
//!
//! Bottom up on x86: SMT, CLS (clusters, 5.16+), MC (LLC; 2.6.17+), DIE (the CPUs of the node, in whichever package),
//! NUMA. Since 3.5 each distinct node distance has a NUMA level; before, one NODE level spans all nodes.

use super::parts::Level;
use crate::Topology;
use schedlab_base::{CpuId, CpuSet, Version};

/// One level over all CPUs. CPUs of the same unit (core, cache, node) have the same span. Spans of different units are
/// disjoint, except at NUMA levels.
pub(super) struct Spans {
    pub level: Level,
    pub unit: Vec<u32>,
    pub span: Vec<CpuSet>,
    /// The span of each unit as an ascending list.
    pub cpus: Vec<Vec<CpuId>>,
}

impl Spans {
    fn new(level: Level, unit: Vec<u32>, span: Vec<CpuSet>) -> Spans {
        let cpus = span.iter().map(|s| s.iter().collect()).collect();
        Spans { level, unit, span, cpus }
    }
    /// A level whose spans are the units themselves.
    fn of_units(level: Level, unit: Vec<u32>) -> Spans {
        let mut span = vec![CpuSet::new(); unit.iter().max().map_or(0, |u| *u as usize + 1)];
        for (cpu, unit) in unit.iter().enumerate() {
            span[*unit as usize].insert(CpuId::from(cpu));
        }
        Spans::new(level, unit, span)
    }
    pub fn unit_of(&self, cpu: CpuId) -> usize {
        self.unit[cpu.index()] as usize
    }
    pub fn span_of(&self, cpu: CpuId) -> &CpuSet {
        &self.span[self.unit_of(cpu)]
    }
    pub fn cpus_of(&self, cpu: CpuId) -> &[CpuId] {
        &self.cpus[self.unit_of(cpu)]
    }
}

/// All levels of `version`, bottom up, including levels that are degenerate on this machine.
pub(super) fn levels(topology: &Topology, version: Version) -> Vec<Spans> {
    let units = |unit: fn(&crate::topology::Cpu) -> u32| topology.cpus.iter().map(unit).collect::<Vec<u32>>();
    let mut levels = vec![Spans::of_units(Level::Smt, units(|c| c.core))];
    if version >= Version::new(5, 16) {
        levels.push(Spans::of_units(Level::Cls, units(|c| c.cluster)));
    }
    if version >= Version::v2_6(17) {
        levels.push(Spans::of_units(Level::Mc, units(|c| c.llc)));
    }
    let die = Spans::of_units(Level::Die, units(|c| c.node));
    let nodes = die.span.clone();
    levels.push(die);
    for distance in numa_levels(topology, version) {
        let near = |row: &Vec<u32>| -> CpuSet {
            let within = row.iter().zip(&nodes).filter(|(d, _)| **d <= distance);
            within.flat_map(|(_, node)| node.iter()).collect()
        };
        let spans = topology.node_distance.iter().map(near).collect();
        levels.push(Spans::new(Level::Numa(distance), units(|c| c.node), spans));
    }
    levels
}

/// Distances to other nodes that make a level, ascending.
fn numa_levels(topology: &Topology, version: Version) -> Vec<u32> {
    let mut distances: Vec<u32> = Vec::new();
    for (from, row) in topology.node_distance.iter().enumerate() {
        distances.extend(row.iter().enumerate().filter(|(to, _)| *to != from).map(|(_, d)| *d));
    }
    distances.sort_unstable();
    distances.dedup();
    if version < Version::new(3, 5) {
        distances.drain(..distances.len().saturating_sub(1));
    }
    distances
}

/// The kernel's name of a level in that version, as in `/proc/sys/kernel/sched_domain` and schedstat.
pub(super) fn name(level: Level, version: Version) -> &'static str {
    match level {
        Level::Smt => "SMT",
        Level::Cls => "CLS",
        Level::Mc => "MC",
        Level::Die if version < Version::new(3, 0) => "CPU",
        Level::Die if version < Version::new(6, 7) => "DIE",
        Level::Die => "PKG",
        Level::Numa(_) if version < Version::new(3, 5) => "NODE",
        Level::Numa(_) => "NUMA",
    }
}
