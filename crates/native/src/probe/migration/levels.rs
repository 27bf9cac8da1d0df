//! Effective sizes of a CPU's caches, found by touching a set again: the time per line over growing sets.
//!
//! The time rises where a cache is full. The last rise is the beginning of memory; the size before it is the
//! *effective* size of the largest cache. A virtual machine may report another one: the host's cache of hundreds of MB,
//! of which it gets only a part. Sizes are bytes, times ns.

use super::ground::{Live, Sample};
use schedlab_base::{CpuId, Result};
use schedlab_machine::CacheLevel;
use schedlab_machine::migration::{Levels, RevisitTime};

/// The smallest set.
const FIRST: u64 = 16 << 10;
const LINE: f64 = 64.0;

/// Measures `cpu` with sets of up to `limit` bytes.
///
/// # Errors
/// When the CPU can't be used.
pub fn measure_levels(live: &mut Live, cpu: CpuId, told: &[CacheLevel], limit: u64) -> Result<Levels> {
    let mut again = Vec::new();
    for size in sizes(limit.min(live.largest())) {
        let n = if size > 8 << 20 { 5 } else { 9 };
        let samples = live.again(size, cpu, n, false)?;
        let lines = size as f64 / LINE;
        again.push(RevisitTime { size, line_ns: middle(&samples) as f64 / lines });
    }
    Ok(Levels::of(again, told))
}

/// The sizes to try: 16, 24, 32, 48, 64 KB and so on.
fn sizes(limit: u64) -> Vec<u64> {
    let powers = std::iter::successors(Some(FIRST), |size| Some(size * 2));
    let all = powers.flat_map(|size| [size, size * 3 / 2]);
    all.take_while(|size| *size <= limit.max(FIRST)).collect()
}

/// The median time of the second touch, of undisturbed samples if there are any.
pub(super) fn middle(samples: &[Sample]) -> u64 {
    let quiet = samples.iter().filter(|s| !s.disturbed).map(|s| s.target_ns);
    let mut times: Vec<u64> = quiet.collect();
    if times.is_empty() {
        times = samples.iter().map(|s| s.target_ns).collect();
    }
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_grow_by_a_half_and_a_third() {
        assert_eq!(sizes(64 << 10), [16, 24, 32, 48, 64].map(|kb| kb << 10));
        assert_eq!(sizes(0), [16 << 10]);
    }
}
