//! The result of a calibration as plain data: the cost of moving a task, by distance and working set.
//!
//! The probes that produce it are in crate `native`. Sizes are bytes, times ns.

use super::{Distances, Matrix, Origin, Pattern};
use crate::CacheLevel;
use schedlab_base::{CpuId, Warning};
use serde::Serialize;

/// Bytes per cache line.
const LINE: f64 = 64.0;
/// The start of memory is seen only if memory is this factor slower than the largest cache.
const CLEAR: f64 = 1.4;
/// A found size within this factor of the reported one counts as the reported one, because tried sizes are a third to a
/// half apart.
const SAME: f64 = 1.6;

/// The time to touch a CPU's own set again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RevisitTime {
    /// The set's size, bytes.
    pub size: u64,
    pub line_ns: f64,
}

/// The time to touch 1 KB, by where it is cached.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Cache level; `None` for memory.
    pub level: Option<u32>,
    /// Median over the sets that fit this level and no nearer one, ns per KB.
    pub ns_per_kb: u64,
    /// Least and greatest of these, ns per KB.
    pub range: (u64, u64),
}

/// The caches of a CPU, reported and measured.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Levels {
    /// Sets and times, smallest first.
    pub again: Vec<RevisitTime>,
    /// Size of the largest cache in sysfs, bytes.
    pub told: Option<u64>,
    /// Measured size of the largest cache, bytes; `None` if no set was slow enough to be in memory.
    pub found: Option<u64>,
    /// The largest tried set, bytes.
    pub tried: u64,
    /// Touch times by level.
    pub hits: Vec<Hit>,
}

impl Levels {
    /// Finds the sizes and hit times that these measurements show.
    pub fn of(again: Vec<RevisitTime>, caches: &[CacheLevel]) -> Levels {
        let bytes: Vec<u64> = caches.iter().map(|c| c.size_kb << 10).collect();
        let told = bytes.last().copied();
        let inner = bytes.iter().rev().nth(1).copied().unwrap_or(0);
        let tried = again.last().map_or(0, |a| a.size);
        let mut levels = Levels { found: knee(&again, inner), again, told, tried, hits: Vec::new() };
        levels.hits = levels.hits(caches);
        levels
    }
    /// The size of the largest cache for measurements: the found one; the reported one if both agree or none was found.
    /// Never more than the largest tried set.
    pub fn effective(&self) -> u64 {
        match (self.found, self.told) {
            (Some(_), Some(told)) if !self.differs() => told.min(self.tried),
            (Some(found), _) => found,
            (None, told) => told.unwrap_or(self.tried).min(self.tried),
        }
    }
    /// Whether the found size is not the reported one.
    pub fn differs(&self) -> bool {
        let far = |a: u64, b: u64| a as f64 > b as f64 * SAME || b as f64 > a as f64 * SAME;
        match (self.found, self.told) {
            (Some(found), Some(told)) => far(found, told),
            (None, Some(told)) => told > self.tried,
            _ => false,
        }
    }
    /// The touch time of a level.
    pub fn hit(&self, level: Option<u32>) -> Option<&Hit> {
        self.hits.iter().find(|hit| hit.level == level)
    }
    fn hits(&self, caches: &[CacheLevel]) -> Vec<Hit> {
        let mut hits = Vec::new();
        let mut inner = 0;
        for (i, cache) in caches.iter().enumerate() {
            let last = i + 1 == caches.len();
            let size = if last { self.effective() } else { cache.size_kb << 10 };
            hits.extend(self.between(inner * 3 / 2, size * 3 / 4, Some(cache.level)));
            inner = size;
        }
        hits.extend(self.between(self.effective() * 3 / 2, u64::MAX, None));
        hits
    }
    /// Touch times over the sets of `least` to `most` bytes.
    fn between(&self, least: u64, most: u64, level: Option<u32>) -> Option<Hit> {
        let fits = self.again.iter().filter(|a| (least..=most).contains(&a.size));
        let mut all: Vec<u64> = fits.map(|a| (a.line_ns * 1024.0 / LINE).round() as u64).collect();
        all.sort_unstable();
        let range = (*all.first()?, *all.last()?);
        Some(Hit { level, ns_per_kb: all[all.len() / 2], range })
    }
}

/// The largest set whose time is nearer to the largest cache's than to memory's, by ratio. `inner` is the size of the
/// next smaller cache; a set of twice that size is in the largest cache.
fn knee(again: &[RevisitTime], inner: u64) -> Option<u64> {
    let memory = again.last()?.line_ns;
    let cache = again.iter().find(|a| a.size >= 2 * inner)?.line_ns;
    if memory < CLEAR * cache {
        return None;
    }
    let half_way = (memory * cache).sqrt();
    again.iter().rev().find(|a| a.line_ns <= half_way).map(|a| a.size)
}

/// Two groups of passes with different costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct States {
    /// The cheaper state's cost of a move, ns.
    pub cheaper_ns: i64,
    /// Share of passes in the dearer state, per cent.
    pub dearer_pct: u64,
    /// The least cost of a pass in the dearer state, ns.
    #[serde(skip)]
    pub from_ns: i64,
}

/// The cost of a move with one set size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Cost {
    /// Bytes.
    pub size: u64,
    /// The cost of a move, ns: median over repetitions; 0 if not [`Cost::seen`].
    pub cost_ns: u64,
    /// Quartiles of the repetitions' costs, ns.
    pub spread_ns: (i64, i64),
    /// Cost of a move to the first and to the second CPU, ns.
    pub into_ns: (i64, i64),
    /// The target's time without a move, ns: mean of both CPUs' medians.
    pub stayed_ns: u64,
    /// Number of undisturbed repetitions.
    pub repetitions: usize,
    /// Number of disturbed repetitions. They count in the spread only if too few were undisturbed.
    pub disturbed: usize,
    /// Whether moving is slower than staying: the quartiles of the two times do not overlap.
    pub seen: bool,
    /// The two states, if passes fall into two groups.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub states: Option<States>,
    /// Whether nearly all repetitions were disturbed; no cost is reported then.
    pub spoilt: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Curve {
    /// The pair, by the kernel's CPU numbers.
    pub pair: (u32, u32),
    /// All sizes, the largest first.
    pub points: Vec<Cost>,
    /// The dearest size; `None` if no size has a cost.
    pub dearest: Option<Cost>,
}

impl Curve {
    /// The cost of the dearest size, ns; 0 if no size has a cost.
    pub fn cost_ns(&self) -> u64 {
        self.dearest.map_or(0, |cost| cost.cost_ns)
    }
    /// The cost at the size nearest to `bytes`.
    pub fn near(&self, bytes: u64) -> Option<&Cost> {
        self.points.iter().min_by_key(|point| point.size.abs_diff(bytes))
    }
}

/// The cost of a pair at the dearest size of its distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PairCost {
    /// The pair, by the kernel's CPU numbers.
    pub pair: (u32, u32),
    pub distance: usize,
    pub cost: Cost,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DistanceCosts {
    pub distance: usize,
    pub name: &'static str,
    /// The costs of the distance's first pair.
    pub curve: Curve,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Calibration {
    pub cpus: usize,
    /// The kernel's number of each CPU, if it differs.
    pub os_cpu: Vec<u32>,
    /// The CPUs in the order of the topology.
    pub order: Vec<u32>,
    /// Level and size of each data cache, bytes; the largest with its effective size.
    pub caches: Vec<(u32, u64)>,
    pub levels: Levels,
    /// The largest cache for the search, bytes.
    pub effective_cache: u64,
    /// The largest tried set, bytes.
    pub largest: u64,
    pub pattern: Pattern,
    /// Share of the memory on huge pages, per cent; `None` if the kernel does not report it.
    pub huge_pct: Option<u64>,
    /// The kernel's clock source.
    pub clock: String,
    pub distances: Vec<DistanceCosts>,
    /// Further pairs, or all of them.
    pub pairs: Vec<PairCost>,
    /// Control measurement: a move from a CPU to itself.
    pub control: Option<Cost>,
    pub matrix: Matrix,
    /// Duration of the calibration, ns.
    pub took_ns: u64,
    pub warnings: Vec<Warning>,
}

impl Calibration {
    /// The measured cutoff of a pair, by the machine's numbers, ns: its own if it was measured, else its distance's.
    pub fn cutoff_ns(&self, distances: &Distances, a: CpuId, b: CpuId) -> Option<u64> {
        let distance = distances.of(a, b)?;
        let entry = self.matrix.entries.iter().find(|e| e.distance == distance)?;
        let os = |cpu: CpuId| self.os_cpu.get(cpu.index()).copied().unwrap_or(cpu.0);
        let (a, b) = (os(a), os(b));
        let own = self.pairs.iter().find(|p| p.pair == (a, b) || p.pair == (b, a));
        match own {
            Some(own) if entry.origin == Origin::Measured => Some(2 * own.cost.cost_ns),
            _ => Some(entry.cutoff_ns),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sharing;

    /// 16, 24, 32, 48, 64 KB and so on.
    fn sizes(limit: u64) -> impl Iterator<Item = u64> {
        let all = (14..).flat_map(|bit| [1 << bit, 3 << (bit - 1)]);
        all.take_while(move |size| *size <= limit)
    }

    /// Caches of 32 KB, 1 MB and `llc` KB. The last is reported as `told` KB.
    fn levels(llc: u64, told: u64, limit: u64) -> Levels {
        let line_ns = |size: u64| match size >> 10 {
            ..=32 => 1.0,
            33..=1024 => 3.0,
            kb if kb <= llc => 6.0,
            _ => 14.0,
        };
        let again = sizes(limit).map(|size| RevisitTime { size, line_ns: line_ns(size) }).collect();
        let cache =
            |level, size_kb, shared| CacheLevel { level, size_kb, line: 64, shared, hit_ns_per_kb: 0 };
        let (core, all) = (Sharing::Core, Sharing::Llc);
        Levels::of(again, &[cache(1, 32, core), cache(2, 1024, core), cache(3, told, all)])
    }

    #[test]
    fn the_reported_size_counts_if_it_is_near_the_found_one() {
        let honest = levels(32 << 10, 32 << 10, 96 << 20);
        assert_eq!((honest.effective(), honest.differs()), (32 << 20, false));
        let nearly = levels(24 << 10, 32 << 10, 96 << 20);
        assert_eq!((nearly.effective(), nearly.differs()), (32 << 20, false));
    }

    #[test]
    fn a_part_of_a_large_cache_is_found_and_reported() {
        let slice = levels(16 << 10, 480 << 10, 80 << 20);
        assert_eq!((slice.found, slice.effective(), slice.differs()), (Some(16 << 20), 16 << 20, true));
        let none = levels(480 << 10, 480 << 10, 80 << 20);
        assert_eq!((none.found, none.effective(), none.differs()), (None, 64 << 20, true), "bounded");
    }

    #[test]
    fn each_level_has_the_time_of_the_sets_that_it_holds() {
        let found = levels(32 << 10, 32 << 10, 96 << 20);
        let hits: Vec<_> = found.hits.iter().map(|h| (h.level, h.ns_per_kb)).collect();
        assert_eq!(hits, [(Some(1), 16), (Some(2), 48), (Some(3), 96), (None, 224)]);
        assert_eq!(found.hit(None).unwrap().range, (224, 224));
    }
}
