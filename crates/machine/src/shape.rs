//! A regular machine in a few numbers: counts of units, and the numbering of CPUs.
//!
//! All counts are for the whole machine, except threads, which are per core. Every unit divides evenly; an irregular
//! machine is read from sysfs instead. Firmware decides the numbering; the common orders are here.

use crate::topology::{Cpu, Topology};
use schedlab_base::{Error, Result, cpuset::MAX_CPUS};
use std::collections::BTreeMap;

/// The order in which firmware lists hardware threads. CPU numbers follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Thread 0 of all cores, package by package; then the siblings in the same order (most servers).
    SiblingsLast,
    /// The threads of a core are neighbours (many desktops and VMs).
    Adjacent,
    /// A core of each package in turn, with thread 0; then the siblings in the same order (some two-socket servers:
    /// even CPUs on one, odd CPUs on the other).
    Alternating,
}

impl Numbering {
    /// The names in machine files and their meanings.
    pub const NAMES: &'static [(&'static str, Numbering)] = &[
        ("siblings-last", Numbering::SiblingsLast),
        ("intel", Numbering::SiblingsLast),
        ("adjacent", Numbering::Adjacent),
        ("amd", Numbering::Adjacent),
        ("alternating", Numbering::Alternating),
    ];
}

/// Counts of a regular machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sockets.
    pub packages: u32,
    /// NUMA nodes: a multiple of the packages, or a divisor (several packages per node).
    pub nodes: u32,
    /// Last-level caches: a multiple of packages and nodes.
    pub llcs: u32,
    /// Groups of cores with a shared L2: a multiple of the LLCs; 0 if there are none.
    pub clusters: u32,
    /// Cores: a multiple of clusters and LLCs.
    pub cores: u32,
    pub threads_per_core: u32,
    pub numbering: Numbering,
    /// SLIT distance of any two nodes; a file may give the whole matrix instead.
    pub remote_distance: u32,
}

impl Shape {
    /// One package, one node, one cache.
    pub fn flat(cores: u32, threads_per_core: u32) -> Shape {
        let numbering = Numbering::SiblingsLast;
        let (packages, nodes, llcs, clusters) = (1, 1, 1, 0);
        Shape { packages, nodes, llcs, clusters, cores, threads_per_core, numbering, remote_distance: 21 }
    }

    /// Builds the topology.
    ///
    /// # Errors
    /// When a count is zero or does not divide as required, or there are more than 4096 CPUs.
    pub fn topology(&self) -> Result<Topology> {
        self.check()?;
        let per = |units: u32| self.cores / units;
        let row = |core: u32, thread: u32| Cpu {
            package: core / per(self.packages),
            node: core / per(self.nodes),
            llc: core / per(self.llcs),
            cluster: if self.clusters == 0 { core } else { core / per(self.clusters) },
            core,
            thread,
        };
        // The next core when packages take turns.
        let turn = |at: u32| at % self.packages * per(self.packages) + at / self.packages;
        let (cores, threads) = (0..self.cores, 0..self.threads_per_core);
        let cpus = match self.numbering {
            Numbering::SiblingsLast => {
                threads.flat_map(|t| cores.clone().map(move |c| (c, t))).map(|(c, t)| row(c, t)).collect()
            }
            Numbering::Adjacent => {
                cores.flat_map(|c| threads.clone().map(move |t| (c, t))).map(|(c, t)| row(c, t)).collect()
            }
            Numbering::Alternating => in_order_of_cpus(
                threads.flat_map(|t| cores.clone().map(move |at| (at, t))).map(|(at, t)| row(turn(at), t)),
            ),
        };
        let distance = |a, b| if a == b { 10 } else { self.remote_distance };
        let matrix = |a| (0..self.nodes).map(|b| distance(a, b)).collect();
        let node_distance = (0..self.nodes).map(matrix).collect();
        let topology = Topology::plain(cpus, node_distance);
        topology.check().map(|()| topology)
    }

    fn check(&self) -> Result<()> {
        let counts = [
            ("packages", self.packages),
            ("nodes", self.nodes),
            ("llcs", self.llcs),
            ("cores", self.cores),
            ("threads_per_core", self.threads_per_core),
        ];
        if let Some((name, _)) = counts.iter().find(|(_, n)| *n == 0) {
            return Err(Error::input(format!("{name} = 0: a machine has at least one")));
        }
        let cpus = u64::from(self.cores) * u64::from(self.threads_per_core);
        if cpus > u64::from(MAX_CPUS) {
            return Err(Error::input(format!("{cpus} CPUs are too many"))
                .help(format!("cores times threads_per_core may be {MAX_CPUS} at most")));
        }
        let small = self.packages.min(self.nodes);
        let mut pairs = vec![
            (("packages or nodes", self.packages.max(self.nodes)), ("nodes or packages", small)),
            (("llcs", self.llcs), ("packages", self.packages)),
            (("llcs", self.llcs), ("nodes", self.nodes)),
            (("cores", self.cores), ("llcs", self.llcs)),
        ];
        if self.clusters > 0 {
            pairs.push((("clusters", self.clusters), ("llcs", self.llcs)));
            pairs.push((("cores", self.cores), ("clusters", self.clusters)));
        }
        match pairs.iter().find(|((_, many), (_, few))| !many.is_multiple_of(*few)) {
            Some(((many, n), (few, m))) => {
                Err(Error::input(format!("{many} = {n} is not a multiple of {few} = {m}"))
                    .help("counts are of the whole machine; every unit holds equally many of the next"))
            }
            None => Ok(()),
        }
    }
}

/// The same CPUs, with cores, clusters and caches renumbered in order of appearance, as a reader of a machine does.
pub(crate) fn in_order_of_cpus(cpus: impl Iterator<Item = Cpu>) -> Vec<Cpu> {
    let mut known: [BTreeMap<u32, u32>; 3] = Default::default();
    let mut next = |unit: usize, id: u32| {
        let new = known[unit].len() as u32;
        *known[unit].entry(id).or_insert(new)
    };
    cpus.map(|c| Cpu { core: next(0, c.core), cluster: next(1, c.cluster), llc: next(2, c.llc), ..c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;

    #[test]
    fn each_numbering() {
        let last = Shape { packages: 2, nodes: 2, llcs: 2, ..Shape::flat(4, 2) };
        let adjacent = Shape { numbering: Numbering::Adjacent, ..last.clone() };
        let turns = Shape { numbering: Numbering::Alternating, llcs: 4, ..last.clone() };
        let masks = |s: &Shape, cpu| {
            let t = s.topology().unwrap();
            (t.smt_mask(CpuId(cpu)).to_string(), t.llc_mask(CpuId(cpu)).to_string())
        };
        assert_eq!(masks(&last, 1), ("1,5".into(), "0-1,4-5".into()));
        assert_eq!(masks(&adjacent, 1), ("0-1".into(), "0-3".into()));
        assert_eq!(masks(&turns, 1), ("1,5".into(), "1,5".into()));
        let cpus = turns.topology().unwrap().cpus;
        let of = |unit: fn(&Cpu) -> u32| cpus[..4].iter().map(unit).collect::<Vec<_>>();
        assert_eq!((of(|c| c.package), of(|c| c.core)), (vec![0, 1, 0, 1], vec![0, 1, 2, 3]));
        assert_eq!((of(|c| c.llc), of(|c| c.node)), (vec![0, 1, 2, 3], vec![0, 1, 0, 1]));
    }

    #[test]
    fn absurd_counts_are_refused() {
        let message = |s: Shape| s.topology().unwrap_err().to_string();
        assert!(message(Shape::flat(0, 1)).contains("cores = 0"));
        assert!(message(Shape::flat(1_000_000_000, 64)).contains("64000000000 CPUs"));
        assert!(
            message(Shape { llcs: 3, ..Shape::flat(8, 1) })
                .contains("cores = 8 is not a multiple of llcs = 3")
        );
        let split = Shape { packages: 2, nodes: 3, llcs: 6, ..Shape::flat(6, 1) };
        assert!(message(split).contains("packages or nodes = 3"));
    }
}
