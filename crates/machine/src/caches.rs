//! The machine's caches: size, line, sharing, and the cost of a hit.
//!
//! The levels of data caches, smallest first, from `[[cache]]` of a machine file or from sysfs. Sizes are in KB, lines
//! in bytes, times in ns per KB. Data that no cache of the CPU holds comes from another CPU's cache, at a cost by
//! distance ([`Costs::refill_near_ns_per_kb`](crate::Costs), `refill_far_ns_per_kb`), or from memory
//! (`memory_ns_per_kb`).

use crate::reader::Table;
use crate::{CostNote, Cpu};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};

/// The CPUs that share a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Sharing {
    /// The threads of a core.
    Core,
    /// The cores of a cluster.
    Cluster,
    /// All CPUs that share the last-level cache.
    Llc,
}

impl Sharing {
    /// The words in machine files.
    pub const NAMES: [(&'static str, Sharing); 3] =
        [("core", Sharing::Core), ("cluster", Sharing::Cluster), ("llc", Sharing::Llc)];

    /// The id of a CPU's unit that has such a cache.
    pub fn unit(self, cpu: &Cpu) -> u32 {
        match self {
            Sharing::Core => cpu.core,
            Sharing::Cluster => cpu.cluster,
            Sharing::Llc => cpu.llc,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheLevel {
    /// 1, 2 or 3.
    pub level: u32,
    pub size_kb: u64,
    /// Size of a line, bytes.
    pub line: u32,
    pub shared: Sharing,
    /// Time to touch 1 KB that this cache holds and no smaller one, line by line, ns.
    pub hit_ns_per_kb: u64,
}

const KEYS: &[&str] = &["level", "size_kb", "line", "shared", "hit_ns_per_kb", "source"];
/// The largest cache that a machine file may state, KB: 16 GB.
const LARGEST_KB: u64 = 16 << 20;

/// Reads `[[cache]]` of a machine file: smallest first, each level shared at least as widely as the one before.
pub(crate) fn read(top: &Table<'_>, provenance: &mut Vec<CostNote>) -> Result<Vec<CacheLevel>> {
    let mut all: Vec<CacheLevel> = Vec::new();
    for table in top.tables("cache", KEYS)? {
        let shared = table.required("shared", table.string("shared")?)?;
        let found = Sharing::NAMES.iter().find(|(n, _)| *n == shared).map(|(_, s)| *s);
        let known = Sharing::NAMES.iter().map(|(n, _)| *n);
        let shared = found.ok_or_else(|| table.place("shared", Error::unknown("sharing", shared, known)))?;
        let cache = CacheLevel {
            level: table.required("level", table.number("level")?)?,
            size_kb: table.required("size_kb", table.number("size_kb")?)?,
            line: table.required("line", table.number("line")?)?,
            shared,
            hit_ns_per_kb: table.required("hit_ns_per_kb", table.number("hit_ns_per_kb")?)?,
        };
        if !(1..=LARGEST_KB).contains(&cache.size_kb) {
            return Err(table.error_at("size_kb", format!("a cache has 1 to {LARGEST_KB} KB")));
        }
        if !cache.line.is_power_of_two() || !(16..=1024).contains(&cache.line) {
            return Err(table.error_at("line", "a line has 16, 32, 64, ... or 1024 bytes"));
        }
        if cache.hit_ns_per_kb > 1_000_000 {
            return Err(table.error_at("hit_ns_per_kb", "a hit takes at most 1000000 ns a KB"));
        }
        if let Some(before) = all.last()
            && (before.level >= cache.level
                || before.size_kb >= cache.size_kb
                || before.shared > cache.shared)
        {
            let what = format!("cache level {} does not come after level {}", cache.level, before.level);
            return Err(table.error(what).help("list caches from the smallest to the largest"));
        }
        let source = table.required("source", table.string("source")?)?;
        provenance.push(CostNote {
            name: format!("cache.L{}", cache.level),
            range: None,
            source: source.into(),
        });
        all.push(cache);
    }
    Ok(all)
}
