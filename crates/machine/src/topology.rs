//! Threads, cores, clusters, LLCs and NUMA nodes, numbered as the kernel numbers them.

use schedlab_base::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

/// One logical CPU and the units it belongs to; unit ids are machine-wide and dense from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Cpu {
    /// Socket.
    pub package: u32,
    /// NUMA node.
    pub node: u32,
    /// Last-level cache.
    pub llc: u32,
    /// Cluster (shared L2); equal to the core where there is none.
    pub cluster: u32,
    /// Physical core.
    pub core: u32,
    /// Which hardware thread of its core: 0, 1, ...
    pub thread: u32,
}

/// How far apart two CPUs are; costs are given by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Distance {
    /// The same CPU.
    Own,
    /// Threads of one core.
    Smt,
    /// Cores that share the last-level cache.
    Llc,
    /// Another cache of the same node.
    Node,
    /// Another NUMA node or package.
    Remote,
}

/// The CPUs of a machine; index is the CPU number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    /// CPUs by number.
    pub cpus: Vec<Cpu>,
    /// Node distances as ACPI's SLIT has them: 10 is local.
    pub node_distance: Vec<Vec<u32>>,
}

impl Topology {
    /// Number of logical CPUs.
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }
    /// The CPU's row.
    #[inline]
    pub fn cpu(&self, cpu: CpuId) -> &Cpu {
        &self.cpus[cpu.index()]
    }
    /// All CPUs for which `same` holds against `cpu`.
    fn alike(&self, cpu: CpuId, same: impl Fn(&Cpu, &Cpu) -> bool) -> CpuSet {
        let own = self.cpu(cpu);
        (0..self.nr_cpus()).map(CpuId::from).filter(|c| same(own, self.cpu(*c))).collect()
    }
    /// Threads of this CPU's core, itself included.
    pub fn smt_mask(&self, cpu: CpuId) -> CpuSet {
        self.alike(cpu, |a, b| a.core == b.core)
    }
    /// CPUs that share this CPU's last-level cache.
    pub fn llc_mask(&self, cpu: CpuId) -> CpuSet {
        self.alike(cpu, |a, b| a.llc == b.llc)
    }
    /// Distance class of two CPUs.
    pub fn distance(&self, a: CpuId, b: CpuId) -> Distance {
        let (x, y) = (self.cpu(a), self.cpu(b));
        if a == b {
            Distance::Own
        } else if x.core == y.core {
            Distance::Smt
        } else if x.llc == y.llc {
            Distance::Llc
        } else if x.node == y.node && x.package == y.package {
            Distance::Node
        } else {
            Distance::Remote
        }
    }
}
