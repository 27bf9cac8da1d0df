//! A schedstat: CPUs, their domains, and the columns that a source has.

use super::counters::{Balance, CpuCounters, DomainCounters, Since};
use schedlab_base::{CpuId, CpuSet, Error, Result};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

/// The layouts that can be read and printed.
pub const VERSIONS: [u32; 3] = [15, 16, 17];

/// The state of the balancing CPU: the index into [`DomainStat::lb`]. The order is this crate's own; in files it
/// depends on the version.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[repr(usize)]
pub enum IdleType {
    /// Idle, balancing from the tick or on behalf of the nohz kick (`CPU_IDLE`).
    Idle = 0,
    /// Running tasks, balancing from the tick (`CPU_NOT_IDLE`).
    Busy = 1,
    /// About to go idle (`CPU_NEWLY_IDLE`).
    Newidle = 2,
}

impl IdleType {
    /// All idle types, in the order of [`DomainStat::lb`].
    pub const ALL: [IdleType; 3] = [IdleType::Idle, IdleType::Busy, IdleType::Newidle];

    pub const fn name(self) -> &'static str {
        match self {
            IdleType::Idle => "idle",
            IdleType::Busy => "busy",
            IdleType::Newidle => "newidle",
        }
    }
    /// Parses an idle type's word.
    ///
    /// # Errors
    /// When the word is unknown; the nearest is offered.
    pub fn parse(word: &str) -> Result<IdleType> {
        let found = IdleType::ALL.into_iter().find(|t| t.name() == word || t.kernel_name() == word);
        found.ok_or_else(|| Error::unknown("idle type", word, IdleType::ALL.map(IdleType::name)))
    }
    pub const fn kernel_name(self) -> &'static str {
        match self {
            IdleType::Idle => "CPU_IDLE",
            IdleType::Busy => "CPU_NOT_IDLE",
            IdleType::Newidle => "CPU_NEWLY_IDLE",
        }
    }
}

/// The columns of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    /// 15, 16 or 17.
    pub version: u32,
    /// Whether `lb_sg_scan` is appended to each idle type (D001).
    pub sg_scan: bool,
}

impl Layout {
    /// Whether a row has a column in this layout.
    pub fn has(self, since: Since) -> bool {
        match since {
            Since::Always => true,
            Since::Mixed => self.version < 17,
            Since::Split => self.version >= 17,
            Since::SgScan => self.sg_scan,
        }
    }
}

/// One domain of one CPU. Its own counters are fields by deref: `domain.ttwu_wake_remote`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct DomainStat {
    /// Counters of balancing, by [`IdleType`].
    pub lb: [Balance; 3],
    pub counters: DomainCounters,
    /// The level's name ("MC"); empty if the file has none (15 and 16).
    pub name: String,
    pub span: CpuSet,
}

/// One CPU. Its runqueue's counters are fields by deref: `cpu.ttwu_count`.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct CpuStat {
    /// The CPU's number. Offline CPUs are not in the file.
    pub id: CpuId,
    /// Counters of the `cpu` line.
    pub counters: CpuCounters,
    /// Its domains, bottom up: `domain0`, `domain1`, ...
    pub domains: Vec<DomainStat>,
}

/// All counters at one instant, or their differences between two.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(into = "super::stored::Stored", try_from = "super::stored::Stored")]
pub struct Schedstat {
    /// The columns that the counters can fill. The simulator's layout is 17, with `lb_sg_scan` if the feature
    /// LB_SG_SCAN is on.
    pub layout: Layout,
    /// In jiffies: an instant, or the difference of two.
    pub timestamp: u64,
    /// Sorted by number.
    pub cpus: Vec<CpuStat>,
}

impl Schedstat {
    /// A schedstat with all columns and all counters 0, for CPUs 0, 1, ... with these domains (name and span), bottom
    /// up.
    pub fn new(domains_of_cpu: impl IntoIterator<Item = Vec<(String, CpuSet)>>) -> Schedstat {
        let domain = |(name, span)| DomainStat { name, span, ..DomainStat::default() };
        let cpu = |(id, domains): (usize, Vec<_>)| CpuStat {
            id: CpuId::from(id),
            counters: CpuCounters::default(),
            domains: domains.into_iter().map(domain).collect(),
        };
        Schedstat {
            layout: Layout { version: 17, sg_scan: true },
            timestamp: 0,
            cpus: domains_of_cpu.into_iter().enumerate().map(cpu).collect(),
        }
    }
    /// Sets every counter to 0, as at the end of a warm-up.
    pub fn clear(&mut self) {
        for cpu in &mut self.cpus {
            cpu.counters = CpuCounters::default();
            for domain in &mut cpu.domains {
                domain.lb = Default::default();
                domain.counters = DomainCounters::default();
            }
        }
    }
}

impl Deref for CpuStat {
    type Target = CpuCounters;
    #[inline]
    fn deref(&self) -> &CpuCounters {
        &self.counters
    }
}
impl DerefMut for CpuStat {
    #[inline]
    fn deref_mut(&mut self) -> &mut CpuCounters {
        &mut self.counters
    }
}
impl Deref for DomainStat {
    type Target = DomainCounters;
    #[inline]
    fn deref(&self) -> &DomainCounters {
        &self.counters
    }
}
impl DerefMut for DomainStat {
    #[inline]
    fn deref_mut(&mut self) -> &mut DomainCounters {
        &mut self.counters
    }
}
