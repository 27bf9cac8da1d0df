//! Parts of domains: levels, parameters and groups.

use schedlab_base::{CpuId, CpuSet};
use serde::{Deserialize, Serialize};

/// The kind of a domain level, bottom up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Level {
    Smt,
    /// Cores that share an L2 (5.16+).
    Cls,
    /// Cores that share the LLC.
    Mc,
    /// The package (`DIE`; `PKG` since 6.7; `CPU` before 3.x).
    Die,
    /// Nodes up to this SLIT distance.
    Numa(u32),
}

/// Balancing parameters and flags of a domain, by kernel era.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DomainParams {
    pub min_interval_ms: u32,
    pub max_interval_ms: u32,
    /// Interval a fresh domain starts with, ms.
    pub first_interval_ms: u32,
    /// A busy CPU multiplies its interval by this factor.
    pub busy_factor: u32,
    /// Tasks are pulled from a group only if its load exceeds this percentage of the local group's (125: by a quarter).
    pub imbalance_pct: u32,
    /// Failed passes before cache-hot tasks are moved.
    pub cache_nice_tries: u32,
    /// Indices into `cpu_load[]` by situation (before 5.x).
    pub busy_idx: u8,
    pub idle_idx: u8,
    pub newidle_idx: u8,
    pub wake_idx: u8,
    pub forkexec_idx: u8,
    pub balance_newidle: bool,
    pub balance_fork: bool,
    pub balance_exec: bool,
    pub wake_affine: bool,
    /// SD_WAKE_BALANCE: passive balancing at wakeup (before 2.6.32).
    pub wake_balance: bool,
    /// SD_WAKE_IDLE: `wake_idle` looks for an idle CPU here (2.6.12, SMT).
    pub wake_idle: bool,
    /// SD_SHARE_CPUCAPACITY (SD_SHARE_CPUPOWER before 3.17).
    pub share_capacity: bool,
    /// SD_SHARE_PKG_RESOURCES (SD_SHARE_LLC since 6.9).
    pub share_llc: bool,
    pub prefer_sibling: bool,
    /// SD_SERIALIZE: one such balance pass at a time on the whole machine.
    pub serialize: bool,
    pub numa: bool,
    /// SD_ASYM_CPUCAPACITY: its CPUs differ in capacity.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asym_capacity: bool,
    /// SD_ASYM_CPUCAPACITY_FULL (5.14): has every capacity of the machine.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub asym_full: bool,
}

/// A group: the span of a child domain, or one CPU at the lowest level. Shared by all CPUs that see it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Group {
    pub span: CpuSet,
    /// The same CPUs as an ascending list.
    #[serde(skip)]
    pub cpus: Vec<CpuId>,
    /// The CPUs that balance for the group; `None`: all.
    #[serde(skip)]
    pub(super) some_balance: Option<Vec<CpuId>>,
    #[serde(skip)]
    pub flags: GroupFlags,
}

impl Group {
    /// The CPUs that balance for the group, ascending (`group_balance_mask`). In overlapping groups these are the CPUs
    /// whose own view is the group (4.13).
    pub fn balancers(&self) -> &[CpuId] {
        self.some_balance.as_ref().unwrap_or(&self.cpus)
    }
}

/// The flags that a group copies from the domain of the same span (`sched_group.flags`). The kernel does not read the
/// flags of the local group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct GroupFlags {
    pub prefer_sibling: bool,
    /// SD_SHARE_CPUCAPACITY: its CPUs are the threads of one core.
    pub share_capacity: bool,
}

impl GroupFlags {
    pub(super) fn of(params: &DomainParams) -> GroupFlags {
        GroupFlags { prefer_sibling: params.prefer_sibling, share_capacity: params.share_capacity }
    }
}

/// Whether the groups of a domain, except the local one, are cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cores {
    All,
    None,
    /// As on hybrid machines.
    Some,
}
