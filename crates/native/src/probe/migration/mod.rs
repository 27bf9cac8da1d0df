//! The cost of moving a task on this machine, measured like D003 does at boot, with today's means.
//!
//! [`Live`] is the ground: pinned threads, huge pages, a shuffled order. [`Levels`] finds the true size of the largest
//! cache, [`Curve`] measures a pair over working sets of all sizes, and [`calibrate`] covers the distances of a
//! machine. The document's own procedure (`schedlab_machine::migration::measure`) runs on the ground, too.
//!
//! A *cost* is for one move, a *cutoff* is twice a cost. Times are ns, sizes bytes.

mod calibrate;
mod curve;
mod ground;
mod levels;
mod states;
mod surroundings;
mod touch;
mod verdict;

#[cfg(test)]
mod tests;

pub use calibrate::{Ahead, Ask, Step, calibrate};
pub use curve::{Effort, Passes};
pub use ground::{Live, Sample};

use super::batches::Batches;
use crate::sys;
use levels::measure_levels;
use schedlab_base::{CpuId, Error, Result, Version};
use schedlab_machine::migration::{Distances, Hit, Levels, Pattern, Search};
use schedlab_machine::probed::Measured;
use schedlab_machine::{CacheLevel, Distance, Machine, sysfs};
use std::path::Path;

/// A probe's results about caches.
pub struct Caches {
    /// With measured sizes and times.
    pub levels: Vec<CacheLevel>,
    /// Costs, and the hit times named `cache.L1` and so on.
    pub measured: Vec<Measured>,
}

/// Measures caches, memory and the refill of a set after a move, in a few seconds.
///
/// # Errors
/// With fewer than two CPUs, or without enough memory.
pub(crate) fn caches() -> Result<Caches> {
    let host = sysfs::read(Path::new("/sys"))?;
    let told = sysfs::caches(Path::new("/sys"))?;
    let cpus = usable(&host)?;
    let here = CpuId(host.os_cpu(cpus[0]));
    let mut live = Live::new(surroundings::memory_limit(), Pattern::Shuffled)?;
    let found = measure_levels(&mut live, here, &told, u64::MAX)?;
    let mut kept = Caches { levels: Vec::new(), measured: Vec::new() };
    for cache in &told {
        let Some(hit) = found.hit(Some(cache.level)) else { continue };
        let last = Some(cache.level) == told.last().map(|c| c.level);
        let size_kb = if last { found.effective() >> 10 } else { cache.size_kb };
        kept.levels.push(CacheLevel { size_kb, hit_ns_per_kb: hit.ns_per_kb.max(1), ..*cache });
        let how = "touching sets again that it holds, in a shuffled order";
        kept.measured.push(of_hit(format!("cache.L{}", cache.level), hit, how));
    }
    if let Some(hit) = found.hit(None) {
        let how =
            "touching sets again that no cache holds, in a shuffled order, beside sets in the largest cache";
        let through = kept.levels.last().map_or(0, |cache| cache.hit_ns_per_kb);
        let less = |ns: u64| ns.saturating_sub(through);
        let beyond =
            Hit { ns_per_kb: less(hit.ns_per_kb), range: (less(hit.range.0), less(hit.range.1)), ..*hit };
        kept.measured.push(of_hit("memory_ns_per_kb".into(), &beyond, how));
    }
    let inner = told.iter().rev().nth(1).map_or(256 << 10, |c| c.size_kb << 10);
    let warm = live.again(inner / 2, here, 31, true)?;
    let per_kb = |ns: u64, size: u64| ns * 1024 / size;
    let times = Batches::new(warm.iter().map(|s| per_kb(s.target_ns, inner / 2)).collect());
    kept.measured.push(times.cost(
        "touch_ns_per_kb",
        0,
        "touching half the inner cache again, line after line",
    ));
    for (name, there) in partners(&host, &cpus) {
        let set = inner * 3 / 4;
        let pair = (here, CpuId(host.os_cpu(there)));
        let cost = curve::size(&mut live, set, pair, Effort::SURE)?;
        let per_kb = |ns: i64| per_kb(ns.max(0) as u64, set).max(1);
        let range = (per_kb(cost.spread_ns.0), per_kb(cost.spread_ns.1));
        let value = per_kb(cost.cost_ns as i64).clamp(range.0, range.1);
        let how = "touching three quarters of the inner cache after a move, beside staying";
        kept.measured.push(Measured { name: name.into(), value, range, how: how.into() });
    }
    Ok(kept)
}

fn of_hit(name: String, hit: &Hit, how: &str) -> Measured {
    let range = (hit.range.0.max(1), hit.range.1.max(1));
    Measured { name, value: hit.ns_per_kb.max(1), range, how: how.into() }
}

/// CPUs that this process may use, by the machine's dense numbers; at least two.
fn usable(host: &Machine) -> Result<Vec<CpuId>> {
    let mask = sys::affinity().map_err(|e| Error::machine(format!("can't read the CPU mask: {e}")))?;
    let all = (0..host.topology.nr_cpus()).map(CpuId::from);
    let cpus: Vec<CpuId> = all.filter(|cpu| mask.contains(CpuId(host.os_cpu(*cpu)))).collect();
    if cpus.len() < 2 {
        return Err(Error::machine("only one CPU: there is none to move a task to")
            .help("let schedlab use two CPUs at least (taskset, cpuset), or ask for a machine of a file"));
    }
    Ok(cpus)
}

/// The first CPU that shares the last-level cache with the first one, and the first that does not, each with the name
/// of its cost.
fn partners(host: &Machine, cpus: &[CpuId]) -> Vec<(&'static str, CpuId)> {
    let distance = |cpu: &CpuId| host.topology.distance(cpus[0], *cpu);
    let near = cpus.iter().find(|cpu| distance(cpu) == Distance::Llc);
    let far = cpus.iter().find(|cpu| distance(cpu) > Distance::Llc);
    let named = [("refill_near_ns_per_kb", near), ("refill_far_ns_per_kb", far)];
    named.into_iter().filter_map(|(name, cpu)| Some((name, *cpu?))).collect()
}

/// The distances of this host under a kernel.
///
/// # Errors
/// When sysfs can't be read.
pub fn host_distances(kernel: Version) -> Result<(Machine, Distances)> {
    let host = sysfs::read(Path::new("/sys"))?;
    let distances = Distances::new(&host.topology, kernel);
    Ok((host, distances))
}

/// The sizes of a calibration.
fn search(levels: &Levels, asked: Option<u64>, limit: u64) -> Search {
    let wanted = asked.unwrap_or(2 * levels.effective());
    Search { largest: wanted.min(limit).max(schedlab_machine::migration::SMALLEST) }
}
