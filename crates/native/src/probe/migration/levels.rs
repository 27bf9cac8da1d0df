//! What a CPU's caches hold, found by touching one's own set again: the time of a line over growing sets.
//!
//! The time rises where a cache is full. The last rise is where memory begins; the size before it is the
//! *effective* size of the largest cache. A virtual machine may report another one: the host's cache of hundreds of
//! MB, of which it gets a slice. Sizes are bytes, times ns.

use super::ground::{Live, Sample};
use schedlab_base::{CpuId, Result};
use schedlab_machine::CacheLevel;
use serde::Serialize;

/// The smallest set that is touched.
const FIRST: u64 = 16 << 10;
/// Bytes of a line.
const LINE: f64 = 64.0;
/// Memory must be this much slower than the largest cache for its begin to be seen.
const CLEAR: f64 = 1.4;
/// A found size that is within this factor of the reported one is the reported one: sizes are tried in steps of a third
/// to a half.
const SAME: f64 = 1.6;

/// The time of touching one's own set again.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RevisitTime {
    /// The set's size, bytes.
    pub size: u64,
    /// A line of it, ns.
    pub line_ns: f64,
}

/// What touching 1 KB takes, by where it is held.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Hit {
    /// Cache level; `None` for memory.
    pub level: Option<u32>,
    /// Median over the sets that fit there and nowhere nearer, ns a KB.
    pub ns_per_kb: u64,
    /// Least and greatest of them.
    pub range: (u64, u64),
}

/// The caches of a CPU as they were reported and found.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Levels {
    /// Sets and times, the smallest first.
    pub again: Vec<RevisitTime>,
    /// The largest cache as sysfs reports it, bytes.
    pub told: Option<u64>,
    /// The largest cache as it was found; `None` where no set was slow enough to be in memory.
    pub found: Option<u64>,
    /// The largest set that was tried.
    pub tried: u64,
    /// What touching takes at each level.
    pub hits: Vec<Hit>,
}

impl Levels {
    /// Measures `cpu` with sets of up to `limit` bytes.
    ///
    /// # Errors
    /// When the CPU can't be used.
    pub fn measure(live: &mut Live, cpu: CpuId, told: &[CacheLevel], limit: u64) -> Result<Levels> {
        let mut again = Vec::new();
        for size in sizes(limit.min(live.largest())) {
            let n = if size > 8 << 20 { 5 } else { 9 };
            let samples = live.again(size, cpu, n, false)?;
            let lines = size as f64 / LINE;
            again.push(RevisitTime { size, line_ns: middle(&samples) as f64 / lines });
        }
        Ok(Levels::of(again, told))
    }
    /// What these times say about these caches.
    fn of(again: Vec<RevisitTime>, caches: &[CacheLevel]) -> Levels {
        let bytes: Vec<u64> = caches.iter().map(|c| c.size_kb << 10).collect();
        let told = bytes.last().copied();
        let inner = bytes.iter().rev().nth(1).copied().unwrap_or(0);
        let tried = again.last().map_or(0, |a| a.size);
        let mut levels = Levels { found: knee(&again, inner), again, told, tried, hits: Vec::new() };
        levels.hits = levels.hits(caches);
        levels
    }
    /// The size of the largest cache that measurements go by: the found one, the reported one where both agree or none
    /// was found, and never more than was tried.
    pub fn effective(&self) -> u64 {
        match (self.found, self.told) {
            (Some(_), Some(told)) if !self.differs() => told.min(self.tried),
            (Some(found), _) => found,
            (None, told) => told.unwrap_or(self.tried).min(self.tried),
        }
    }
    /// Whether another size was found than was reported.
    pub fn differs(&self) -> bool {
        let far = |a: u64, b: u64| a as f64 > b as f64 * SAME || b as f64 > a as f64 * SAME;
        match (self.found, self.told) {
            (Some(found), Some(told)) => far(found, told),
            (None, Some(told)) => told > self.tried,
            _ => false,
        }
    }
    /// What touching takes at a level.
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
    /// The times of sets from `least` to `most` bytes.
    fn between(&self, least: u64, most: u64, level: Option<u32>) -> Option<Hit> {
        let fits = self.again.iter().filter(|a| (least..=most).contains(&a.size));
        let mut all: Vec<u64> = fits.map(|a| (a.line_ns * 1024.0 / LINE).round() as u64).collect();
        all.sort_unstable();
        let range = (*all.first()?, *all.last()?);
        Some(Hit { level, ns_per_kb: all[all.len() / 2], range })
    }
}

/// The sizes that are tried: 16, 24, 32, 48, 64 KB and so on.
fn sizes(limit: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(FIRST), |size| Some(size * 2));
    let all = powers.flat_map(|size| [size, size * 3 / 2]);
    all.take_while(|size| *size <= limit.max(FIRST)).collect()
}

/// The median time of the second touch, of the samples that nothing disturbed if there are any.
pub(super) fn middle(samples: &[Sample]) -> u64 {
    let quiet = samples.iter().filter(|s| !s.disturbed).map(|s| s.target_ns);
    let mut times: Vec<u64> = quiet.collect();
    if times.is_empty() {
        times = samples.iter().map(|s| s.target_ns).collect();
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

/// The largest set that is still nearer to the largest cache's time than to memory's, by their ratio. `inner` is
/// the size of the next smaller cache; a set of twice that is in the largest cache.
fn knee(again: &[RevisitTime], inner: u64) -> Option<u64> {
    let memory = again.last()?.line_ns;
    let cache = again.iter().find(|a| a.size >= 2 * inner)?.line_ns;
    if memory < CLEAR * cache {
        return None;
    }
    let half_way = (memory * cache).sqrt();
    again.iter().rev().find(|a| a.line_ns <= half_way).map(|a| a.size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_machine::Sharing;

    /// Caches of 32 KB, 1 MB and `llc` KB, of which the last is reported as `told` KB.
    fn levels(llc: u64, told: u64, limit: u64) -> Levels {
        let line_ns = |size: u64| match size >> 10 {
            ..=32 => 1.0,
            33..=1024 => 3.0,
            kb if kb <= llc => 6.0,
            _ => 14.0,
        };
        let again =
            sizes(limit).into_iter().map(|size| RevisitTime { size, line_ns: line_ns(size) }).collect();
        let cache =
            |level, size_kb, shared| CacheLevel { level, size_kb, line: 64, shared, hit_ns_per_kb: 0 };
        let (core, all) = (Sharing::Core, Sharing::Llc);
        Levels::of(again, &[cache(1, 32, core), cache(2, 1024, core), cache(3, told, all)])
    }

    #[test]
    fn the_told_size_counts_where_it_is_about_the_found_one() {
        let honest = levels(32 << 10, 32 << 10, 96 << 20);
        assert_eq!((honest.effective(), honest.differs()), (32 << 20, false));
        let nearly = levels(24 << 10, 32 << 10, 96 << 20);
        assert_eq!((nearly.effective(), nearly.differs()), (32 << 20, false));
    }

    #[test]
    fn a_slice_of_a_large_cache_is_found_and_told() {
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

    #[test]
    fn sizes_grow_by_a_half_and_a_third() {
        assert_eq!(sizes(64 << 10), [16, 24, 32, 48, 64].map(|kb| kb << 10));
        assert_eq!(sizes(0), [16 << 10]);
    }
}
