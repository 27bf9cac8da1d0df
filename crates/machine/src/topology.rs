//! Threads, cores, clusters, LLCs and NUMA nodes, numbered as the kernel numbers them.

use schedlab_base::{CpuId, CpuSet, Error, Result, cpuset::MAX_CPUS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// One logical CPU and its units; unit ids are machine-wide and dense from 0.
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
    /// The hardware thread's index in its core: 0, 1, ...
    pub thread: u32,
}

/// The distance of two CPUs. Costs depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Distance {
    /// The same CPU.
    Own,
    Smt,
    /// Cores that share the last-level cache.
    Llc,
    /// Another cache of the same node.
    Node,
    /// Another NUMA node or package.
    Remote,
}

/// The architecture of the CPUs: it sets some parameters of sched domains.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Arch {
    /// i386 and x86_64.
    #[default]
    X86,
    /// Itanium.
    Ia64,
}

impl Arch {
    /// The words in machine files.
    pub const NAMES: [(&'static str, Arch); 2] = [("x86", Arch::X86), ("ia64", Arch::Ia64)];

    fn is_x86(&self) -> bool {
        *self == Arch::X86
    }
    /// The cache size at which D003's search begins, if the architecture has one for all machines, bytes
    /// (`max_cache_size`). x86 takes the CPU's own.
    pub fn max_cache_size(self) -> Option<u64> {
        match self {
            Arch::X86 => None,
            Arch::Ia64 => Some(32 << 20),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Topology {
    pub cpus: Vec<Cpu>,
    /// Node distances as ACPI's SLIT has them: 10 is local.
    pub node_distance: Vec<Vec<u32>>,
    /// Beyond this node distance, domains lose exec, fork and affine-wakeup balancing: 30, and 32 on AMD since 5.4.
    #[serde(default = "default_reclaim_distance")]
    pub reclaim_distance: u32,
    #[serde(default, skip_serializing_if = "Arch::is_x86")]
    pub arch: Arch,
    /// The speed of each CPU in the kernel's unit (`cpu_capacity`): 1024 is the fastest. Empty: all have 1024.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub capacity: Vec<u32>,
    /// Nodes with CPUs but no memory, ascending: they use the memory of the nearest node that has some.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub memoryless: Vec<u32>,
}

/// The capacity of the fastest CPU (`SCHED_CAPACITY_SCALE`).
pub const FULL_CAPACITY: u32 = 1024;

/// `RECLAIM_DISTANCE` of x86.
pub const RECLAIM_DISTANCE: u32 = 30;

fn default_reclaim_distance() -> u32 {
    RECLAIM_DISTANCE
}

impl Topology {
    #[inline]
    pub fn nr_cpus(&self) -> usize {
        self.cpus.len()
    }
    #[inline]
    pub fn cpu(&self, cpu: CpuId) -> &Cpu {
        &self.cpus[cpu.index()]
    }
    /// A topology of equally fast CPUs, whose nodes all have memory.
    pub fn plain(cpus: Vec<Cpu>, node_distance: Vec<Vec<u32>>) -> Topology {
        let (capacity, memoryless) = Default::default();
        let arch = Arch::X86;
        Topology { cpus, node_distance, reclaim_distance: RECLAIM_DISTANCE, arch, capacity, memoryless }
    }
    #[inline]
    pub fn capacity_of(&self, cpu: CpuId) -> u32 {
        self.capacity.get(cpu.index()).copied().unwrap_or(FULL_CAPACITY)
    }
    /// Whether CPUs differ in capacity.
    pub fn is_asymmetric(&self) -> bool {
        self.capacity.windows(2).any(|pair| pair[0] != pair[1])
    }
    /// The node whose memory a node's CPUs use: its own, or the nearest that has some (the lowest of several).
    pub fn memory_of(&self, node: u32) -> u32 {
        if !self.memoryless.contains(&node) {
            return node;
        }
        let far = |to: &u32| self.node_distance[node as usize][*to as usize];
        let with_memory = (0..self.node_distance.len() as u32).filter(|n| !self.memoryless.contains(n));
        with_memory.min_by_key(far).unwrap_or(node)
    }
    /// All CPUs for which `same` holds when compared with `cpu`.
    fn alike(&self, cpu: CpuId, same: impl Fn(&Cpu, &Cpu) -> bool) -> CpuSet {
        let own = self.cpu(cpu);
        (0..self.nr_cpus()).map(CpuId::from).filter(|c| same(own, self.cpu(*c))).collect()
    }
    /// Threads of this CPU's core, itself included.
    pub fn smt_mask(&self, cpu: CpuId) -> CpuSet {
        self.alike(cpu, |a, b| a.core == b.core)
    }
    /// CPUs that share this CPU's last-level cache.
    #[cfg(test)]
    pub fn llc_mask(&self, cpu: CpuId) -> CpuSet {
        self.alike(cpu, |a, b| a.llc == b.llc)
    }

    /// Checks the properties that all users of a topology rely on: 1 to 4096 CPUs; units that nest (core in cluster in
    /// LLC in node and package); a square, symmetric distance table with 10 on the diagonal and more elsewhere.
    ///
    /// # Errors
    /// Names the violated property.
    pub fn check(&self) -> Result<()> {
        let n = self.nr_cpus();
        if n == 0 || n > MAX_CPUS as usize {
            return Err(Error::input(format!("{n} CPUs: a machine has 1 to {MAX_CPUS}")));
        }
        let nodes = self.cpus.iter().map(|c| c.node as usize + 1).max().unwrap_or(0);
        if nodes != self.node_distance.len() {
            return Err(Error::input(format!(
                "{nodes} nodes, but distances for {}",
                self.node_distance.len()
            )));
        }
        check_distances(&self.node_distance).map_err(|(_, message)| Error::input(message))?;
        self.check_capacity()?;
        self.check_memory()?;
        self.check_nesting("core", |c| c.core, "cluster", |c| c.cluster)?;
        self.check_nesting("cluster", |c| c.cluster, "LLC", |c| c.llc)?;
        self.check_nesting("LLC", |c| c.llc, "node", |c| c.node)?;
        self.check_nesting("LLC", |c| c.llc, "package", |c| c.package)
    }

    fn check_capacity(&self) -> Result<()> {
        if !self.capacity.is_empty() && self.capacity.len() != self.nr_cpus() {
            let what =
                format!("capacities of {} CPUs, and there are {}", self.capacity.len(), self.nr_cpus());
            return Err(Error::input(what));
        }
        match self.capacity.iter().find(|c| !(1..=FULL_CAPACITY).contains(*c)) {
            Some(odd) => Err(Error::input(format!("a capacity of {odd}"))
                .help("capacities are 1 to 1024, the kernel's cpu_capacity; the fastest CPUs have 1024")),
            None => Ok(()),
        }
    }

    fn check_memory(&self) -> Result<()> {
        let nodes = self.node_distance.len();
        if let Some(node) = self.memoryless.iter().find(|n| **n as usize >= nodes) {
            return Err(Error::input(format!("node {node} has no memory, and there are {nodes} nodes")));
        }
        match (0..nodes as u32).all(|n| self.memoryless.contains(&n)) && nodes > 0 {
            true => Err(Error::input("no node has memory").help("memoryless lists those that have none")),
            false => Ok(()),
        }
    }

    /// Checks that no unit of kind `inner` lies in two units of kind `outer`.
    fn check_nesting(
        &self,
        inner_name: &str,
        inner: fn(&Cpu) -> u32,
        outer_name: &str,
        outer: fn(&Cpu) -> u32,
    ) -> Result<()> {
        let mut home: BTreeMap<u32, (usize, u32)> = BTreeMap::new();
        for (cpu, row) in self.cpus.iter().enumerate() {
            let (first, lies_in) = *home.entry(inner(row)).or_insert((cpu, outer(row)));
            if lies_in != outer(row) {
                let what = format!("cpu{first} and cpu{cpu} share a {inner_name} but not a {outer_name}");
                return Err(Error::input(what));
            }
        }
        Ok(())
    }

    #[inline]
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

/// Checks a SLIT table; the error has the row and column if there is one.
pub(crate) fn check_distances(
    rows: &[Vec<u32>],
) -> std::result::Result<(), (Option<(usize, usize)>, String)> {
    for (a, row) in rows.iter().enumerate() {
        if row.len() != rows.len() {
            let what = format!("row {a} of the distances has {} entries, not {}", row.len(), rows.len());
            return Err((None, what));
        }
        for (b, &d) in row.iter().enumerate() {
            let what = match (a == b, d) {
                (true, 10) => continue,
                (true, _) => format!("node {a} is {d} from itself, not 10"),
                (false, 11..=254) if rows[b].get(a) == Some(&d) => continue,
                (false, 11..=254) => {
                    format!("distances are not symmetric: node {a} to {b} is {d}, but back it is not")
                }
                (false, _) => format!("node {a} to {b} is {d}; distances of two nodes are 11 to 254"),
            };
            return Err((Some((a, b)), what));
        }
    }
    Ok(())
}
