//! A regular machine in a few numbers: how many of each unit, and how CPUs are numbered.
//!
//! All counts are of the whole machine, except the threads, which are per core. Every unit divides evenly; an irregular
//! machine is read from sysfs instead. Firmware decides the numbering; the two common orders are here.

use crate::topology::{Arch, Cpu, RECLAIM_DISTANCE, Topology};
use schedlab_base::{Error, Result, cpuset::MAX_CPUS};

/// The order in which firmware lists hardware threads, hence CPU numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Numbering {
    /// Thread 0 of all cores, package by package; then their siblings in the same order (most servers).
    SiblingsLast,
    /// The threads of a core side by side (many desktops and VMs).
    Adjacent,
}

impl Numbering {
    /// The names in machine files and their meanings.
    pub const NAMES: &'static [(&'static str, Numbering)] = &[
        ("siblings-last", Numbering::SiblingsLast),
        ("intel", Numbering::SiblingsLast),
        ("adjacent", Numbering::Adjacent),
        ("amd", Numbering::Adjacent),
    ];
}

/// Counts of a regular machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Sockets.
    pub packages: u32,
    /// NUMA nodes: a multiple of the packages, or a divisor (packages on one bus).
    pub nodes: u32,
    /// Last-level caches: a multiple of packages and nodes.
    pub llcs: u32,
    /// Groups of cores with a shared L2: a multiple of the LLCs; 0 where there are none.
    pub clusters: u32,
    /// Cores: a multiple of clusters and LLCs.
    pub cores: u32,
    /// Hardware threads of each core.
    pub threads_per_core: u32,
    /// CPU numbers.
    pub numbering: Numbering,
    /// Distance of any two nodes, by SLIT; a file may give the whole matrix instead.
    pub remote_distance: u32,
}

impl Shape {
    /// One package, one node, one cache.
    pub fn flat(cores: u32, threads_per_core: u32) -> Shape {
        let numbering = Numbering::SiblingsLast;
        let (packages, nodes, llcs, clusters) = (1, 1, 1, 0);
        Shape { packages, nodes, llcs, clusters, cores, threads_per_core, numbering, remote_distance: 21 }
    }

    /// The topology with these counts.
    ///
    /// # Errors
    /// When a count is zero or doesn't divide as it must, or there are more than 4096 CPUs.
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
        let (cores, threads) = (0..self.cores, 0..self.threads_per_core);
        let cpus = match self.numbering {
            Numbering::SiblingsLast => {
                threads.flat_map(|t| cores.clone().map(move |c| (c, t))).map(|(c, t)| row(c, t)).collect()
            }
            Numbering::Adjacent => {
                cores.flat_map(|c| threads.clone().map(move |t| (c, t))).map(|(c, t)| row(c, t)).collect()
            }
        };
        let distance = |a, b| if a == b { 10 } else { self.remote_distance };
        let matrix = |a| (0..self.nodes).map(|b| distance(a, b)).collect();
        let node_distance = (0..self.nodes).map(matrix).collect();
        let topology = Topology { cpus, node_distance, reclaim_distance: RECLAIM_DISTANCE, arch: Arch::X86 };
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
                Err(Error::input(format!("{many} = {n} is no multiple of {few} = {m}"))
                    .help("counts are of the whole machine; every unit holds equally many of the next"))
            }
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_base::CpuId;

    #[test]
    fn both_numberings() {
        let last = Shape { packages: 2, nodes: 2, llcs: 2, ..Shape::flat(4, 2) };
        let adjacent = Shape { numbering: Numbering::Adjacent, ..last.clone() };
        let masks = |s: &Shape, cpu| {
            let t = s.topology().unwrap();
            (t.smt_mask(CpuId(cpu)).to_string(), t.llc_mask(CpuId(cpu)).to_string())
        };
        assert_eq!(masks(&last, 1), ("1,5".into(), "0-1,4-5".into()));
        assert_eq!(masks(&adjacent, 1), ("0-1".into(), "0-3".into()));
    }

    #[test]
    fn absurd_counts_are_refused() {
        let message = |s: Shape| s.topology().unwrap_err().to_string();
        assert!(message(Shape::flat(0, 1)).contains("cores = 0"));
        assert!(message(Shape::flat(1_000_000_000, 64)).contains("64000000000 CPUs"));
        assert!(
            message(Shape { llcs: 3, ..Shape::flat(8, 1) }).contains("cores = 8 is no multiple of llcs = 3")
        );
        let split = Shape { packages: 2, nodes: 3, llcs: 6, ..Shape::flat(6, 1) };
        assert!(message(split).contains("packages or nodes = 3"));
    }
}
