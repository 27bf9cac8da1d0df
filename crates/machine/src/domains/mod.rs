//! Sched domains and groups, derived from a topology as a kernel of a given version derives them.

use crate::Topology;
use schedlab_base::{CpuId, CpuSet, Version};
use serde::{Deserialize, Serialize};

/// The kind of a domain level, bottom up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    /// Threads of a core.
    Smt,
    /// Cores that share an L2 (5.16+).
    Cls,
    /// Cores that share the LLC.
    Mc,
    /// The package (`DIE`, renamed `PKG` in 6.7; `CPU` before 3.x naming).
    Die,
    /// Nodes up to a SLIT distance.
    Numa(u32),
}

/// Balancing parameters and flags of a domain, by kernel era (facts, section 5.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainParams {
    /// Shortest balance interval, ms.
    pub min_interval_ms: u32,
    /// Longest balance interval, ms.
    pub max_interval_ms: u32,
    /// Interval a fresh domain starts with, ms.
    pub first_interval_ms: u32,
    /// A busy CPU multiplies its interval by this.
    pub busy_factor: u32,
    /// Percent by which a group must exceed the local one.
    pub imbalance_pct: u32,
    /// Failures before hot tasks are moved.
    pub cache_nice_tries: u32,
    /// Index into `cpu_load[]` by situation (before 5.x).
    pub busy_idx: u8,
    /// See `busy_idx`.
    pub idle_idx: u8,
    /// See `busy_idx`.
    pub newidle_idx: u8,
    /// See `busy_idx`.
    pub wake_idx: u8,
    /// See `busy_idx`.
    pub forkexec_idx: u8,
    /// SD_BALANCE_NEWIDLE.
    pub balance_newidle: bool,
    /// SD_BALANCE_FORK.
    pub balance_fork: bool,
    /// SD_BALANCE_EXEC.
    pub balance_exec: bool,
    /// SD_WAKE_AFFINE.
    pub wake_affine: bool,
    /// SD_SHARE_CPUCAPACITY (SD_SHARE_CPUPOWER before 3.17).
    pub share_capacity: bool,
    /// SD_SHARE_PKG_RESOURCES (SD_SHARE_LLC since 6.9).
    pub share_llc: bool,
    /// SD_PREFER_SIBLING.
    pub prefer_sibling: bool,
    /// SD_SERIALIZE: one such balance at a time, machine-wide.
    pub serialize: bool,
    /// SD_NUMA.
    pub numa: bool,
}

/// A group: the span of a child domain, or one CPU at the lowest level. Shared by all CPUs that see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its CPUs.
    pub span: CpuSet,
    /// The same CPUs as a list, ascending.
    pub cpus: Vec<CpuId>,
}

/// One CPU's view of one level.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Its kind.
    pub level: Level,
    /// The kernel's name for it in this era ("MC").
    pub name: &'static str,
    /// CPUs it spans.
    pub span: CpuSet,
    /// The same CPUs as a list, ascending.
    pub cpus: Vec<CpuId>,
    /// Indices into [`Domains::groups`], as a ring: the CPU's own group first, then by rising CPU number, wrapping.
    pub groups: Vec<u32>,
    /// Flags and parameters.
    pub params: DomainParams,
    /// `imb_numa_nr` (5.18+): NUMA imbalance that is tolerated; 0 below the LLC's parent and in older kernels.
    pub imb_numa_nr: u32,
}

/// All domains of a machine under one kernel version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domains {
    /// Groups of all levels, each once.
    pub groups: Vec<Group>,
    /// Per CPU, bottom up, the levels that survived degeneration: `domain0`, `domain1`, ...
    pub of_cpu: Vec<Vec<Domain>>,
    /// Per CPU, the index in `of_cpu` of its highest LLC-sharing domain (`sd_llc`); `None` when the CPU is alone in its cache.
    pub llc: Vec<Option<usize>>,
}

impl Domains {
    /// Derives the domains of `topology` as kernel `version` does.
    pub fn build(topology: &Topology, version: Version) -> Domains {
        let _ = (topology, version);
        todo!("levels, groups, degeneration, era parameters")
    }
}
