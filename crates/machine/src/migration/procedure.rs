//! The measurement of one pair, with exactly the integers of D003's `measure_migration_cost`.

use super::{Ground, Overrides};
use schedlab_base::{CpuId, Result};

/// The smallest working set, bytes.
pub const SMALLEST: u64 = 64 << 10;
/// The largest working set if the architecture gives no cache size, bytes.
const UNKNOWN: u64 = 16 << 20;
/// Runs of each size in each direction.
const RUNS: u64 = 4;

/// The working sets to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Search {
    /// Bytes.
    pub largest: u64,
}

impl Search {
    /// Starts at twice the largest cache, or at 16 MB if its size is not known.
    pub fn of_cache(max_cache_size: Option<u64>) -> Search {
        let largest = max_cache_size.map_or(UNKNOWN, |size| (2 * size).max(SMALLEST));
        Search { largest }
    }
    /// The sizes down to 64 KB, each a twentieth smaller than the one before.
    pub fn sizes(self) -> impl Iterator<Item = u64> {
        std::iter::successors(Some(self.largest), |size| Some(size * 19 / 20))
            .take_while(|size| *size >= SMALLEST)
    }
}

/// The times of one size: sums of eight runs, four in each direction, ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    pub size: u64,
    /// Runs from one CPU to the other.
    pub moved_ns: u64,
    /// Runs on the same CPU.
    pub stayed_ns: u64,
}

impl Point {
    /// The cost of one move, ns; 0 if staying took longer.
    pub fn cost_ns(&self) -> u64 {
        self.moved_ns.saturating_sub(self.stayed_ns) / (2 * RUNS)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PairResult {
    /// The largest difference of the two sums, ns.
    pub best_ns: u64,
    pub curve: Vec<Point>,
}

impl PairResult {
    /// The cutoff: twice the cost of the dearest size, times the factor.
    pub fn cutoff_ns(&self, overrides: &Overrides) -> u64 {
        cutoff(self.best_ns, overrides)
    }
    /// The dearest size; `None` if no size has a cost.
    pub fn dearest(&self) -> Option<&Point> {
        self.curve.iter().filter(|p| p.moved_ns > p.stayed_ns).max_by_key(|p| p.moved_ns - p.stayed_ns)
    }
}

/// The cutoff for a difference of sums, ns.
pub fn cutoff(best_ns: u64, overrides: &Overrides) -> u64 {
    2 * (best_ns / (2 * RUNS)) * overrides.factor_128() / 128
}

/// Measures the cost of a move between two CPUs. Calls `tried` after each size.
pub fn measure(
    ground: &mut dyn Ground,
    search: Search,
    (a, b): (CpuId, CpuId),
    tried: &mut dyn FnMut(&Point),
) -> Result<PairResult> {
    let mut found = PairResult { best_ns: 0, curve: Vec::new() };
    for size in search.sizes() {
        let mut point = Point { size, moved_ns: 0, stayed_ns: 0 };
        for run in 0..RUNS {
            // Slightly different sizes, so that alignment does not decide.
            let size = size - run * 1024;
            point.moved_ns += ground.go_over(size, a, b)? + ground.go_over(size, b, a)?;
            point.stayed_ns += ground.go_over(size, a, a)? + ground.go_over(size, b, b)?;
        }
        found.best_ns = found.best_ns.max(point.moved_ns.saturating_sub(point.stayed_ns));
        tried(&point);
        found.curve.push(point);
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A machine with caches of one size; a line takes 32 bytes, a line from another CPU 100 ns.
    struct Flat {
        cache: u64,
        calls: Vec<(u64, u32, u32)>,
    }
    impl Ground for Flat {
        fn go_over(&mut self, size: u64, source: CpuId, target: CpuId) -> Result<u64> {
            self.calls.push((size, source.0, target.0));
            let lines = size.min(self.cache) / 32;
            Ok(1_000 + if source == target { 0 } else { lines * 100 })
        }
    }

    #[test]
    fn as_many_steps_as_the_document_has() {
        let steps = |cache: Option<u64>| Search::of_cache(cache).sizes().count();
        assert_eq!(steps(Some(128 << 10)), 28);
        assert_eq!(steps(Some(512 << 10)), 55);
        assert_eq!(steps(Some(2 << 20)), 82);
        assert_eq!(steps(None), 109);
        assert_eq!(steps(Some(32 << 20)), 136);
    }

    #[test]
    fn the_dearest_size_counts_and_the_cutoff_is_twice_its_cost() {
        let mut flat = Flat { cache: 128 << 10, calls: Vec::new() };
        let mut seen = 0;
        let search = Search::of_cache(Some(flat.cache));
        let found = measure(&mut flat, search, (CpuId(0), CpuId(1)), &mut |_| seen += 1).unwrap();
        assert_eq!((seen, flat.calls.len()), (28, 28 * 16));
        assert_eq!(flat.calls[..4], [(262_144, 0, 1), (262_144, 1, 0), (262_144, 0, 0), (262_144, 1, 1)]);
        assert_eq!(flat.calls[4].0, 262_144 - 1024);
        let cost = 4096 * 100;
        assert_eq!(found.best_ns, 8 * cost);
        assert_eq!(found.cutoff_ns(&Overrides::default()), 2 * cost);
        let twenty_more = Overrides { factor_pct: 120, ..Overrides::default() };
        assert_eq!(found.cutoff_ns(&twenty_more), 2 * cost * 153 / 128);
        assert_eq!(found.dearest().unwrap().cost_ns(), cost);
    }

    #[test]
    fn staying_costs_nothing() {
        let mut flat = Flat { cache: 128 << 10, calls: Vec::new() };
        let found = measure(&mut flat, Search::of_cache(None), (CpuId(1), CpuId(1)), &mut |_| ()).unwrap();
        assert_eq!((found.best_ns, found.dearest()), (0, None));
    }
}
