//! The whole calibration: the largest cache, a curve for each distance, samples of other pairs, controls.

use super::curve::{self, Effort, Passes, measure_curve};
use super::ground::Live;
use super::levels::measure_levels;
use super::{search, surroundings, usable, verdict};
use crate::sys;
use schedlab_base::{CpuId, Error, Result};
use schedlab_machine::migration::{
    Calibration, DistanceCosts, Distances, Entry, Levels, Matrix, Origin, Overrides, PairCost, Pattern,
    SMALLEST, Search, cutoff,
};
use schedlab_machine::{CacheLevel, Machine, sysfs};
use std::path::Path;

/// Number of additional pairs sampled per distance.
const SAMPLES: usize = 3;
/// Work of both CPUs of a pair before the measurement, ns.
const WARM_UP_NS: u64 = 100_000_000;

#[derive(Clone, Debug, Default)]
pub struct Ask {
    /// Cutoffs that replace measured ones, and the factor.
    pub overrides: Overrides,
    pub pattern: Pattern,
    /// The largest working set, bytes; `None`: twice the effective largest cache.
    pub largest: Option<u64>,
    /// Whether to measure every pair.
    pub all_pairs: bool,
}

/// The remaining work, once the largest cache is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ahead {
    /// Number of distances with a curve.
    pub curves: usize,
    /// Number of sizes per curve.
    pub sizes: usize,
    /// Number of pairs with one measured size.
    pub pairs: usize,
    pub expected_ns: u64,
}

/// A step of the calibration, for observers.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Searches the largest cache.
    Caches,
    /// Begins the curves.
    Ahead(Ahead),
    /// Done so far, per mille; and the last measurement.
    Done(u64, String),
}

/// Calibrates `host` with these distances.
///
/// # Errors
/// With fewer than two CPUs, or without enough memory.
pub fn calibrate(
    host: &Machine,
    distances: &Distances,
    ask: &Ask,
    watch: &mut dyn FnMut(Step) -> Result<()>,
) -> Result<Calibration> {
    ask.overrides.check()?;
    let (began, stolen) = (sys::monotonic_ns(), surroundings::stolen_ticks());
    let cpus = usable(host)?;
    let first = CpuId(host.os_cpu(cpus[0]));
    watch(Step::Caches)?;
    let limit = surroundings::memory_limit();
    if let Some(size) = ask.largest.filter(|size| *size > limit || *size < SMALLEST) {
        let text = format!("--size {size}: from {SMALLEST} to {limit} bytes here");
        return Err(
            Error::input(text).help("a set needs three times its size, at most an eighth of the free memory")
        );
    }
    let spin_ns = surroundings::spin_ns(first)?;
    let told = sysfs::caches(Path::new("/sys"))?;
    let mut live = Live::new(limit, ask.pattern)?;
    let levels = measure_levels(&mut live, first, &told, u64::MAX)?;
    let search = search(&levels, ask.largest, limit);
    let work = Work::plan(host, distances, ask, &cpus, &levels, search);
    watch(Step::Ahead(work.ahead))?;

    let mut found = Vec::new();
    // D003 does not try sets within the smallest cache, but they show the cost of the move itself.
    let further: Vec<u64> =
        told.first().map(|c| c.size_kb << 10).filter(|size| *size < SMALLEST).into_iter().collect();
    for (distance, pair) in work.first.iter().copied() {
        warm_up(&mut live, pair)?;
        let name = distances.classes[distance].name;
        let passes = Passes::of(work.ahead.curves);
        let begun = found.len() as u64 * work.curve;
        let curve = measure_curve(&mut live, search, &further, pair, passes, &mut |bytes, permille| {
            let words = format!("distance {distance} ({name}), {} KB", bytes >> 10);
            work.report_done(begun + work.curve * permille / 1000, words, watch)
        })?;
        found.push(DistanceCosts { distance, name, curve });
    }
    let mut pairs = Vec::new();
    for (distance, pair) in work.further.iter().copied() {
        let curve = found.iter().find(|d| d.distance == distance).map(|d| &d.curve);
        // If the first pair costs nothing, another may.
        let bytes = curve.and_then(|c| c.dearest).map_or(search.largest / 2, |cost| cost.size);
        let cost = curve::size(&mut live, bytes, pair, Effort::PAIR)?;
        pairs.push(PairCost { pair: (pair.0.0, pair.1.0), distance, cost });
        let done = found.len() as u64 * work.curve + pairs.len() as u64 * work.pair;
        work.report_done(done, format!("CPUs {} and {}", pair.0.0, pair.1.0), watch)?;
    }
    let dearest = found.iter().filter_map(|d| d.curve.dearest).max_by_key(|cost| cost.cost_ns);
    let at = dearest.map_or(search.largest / 2, |cost| cost.size);
    let control = match found.first() {
        Some(first) => {
            let cpu = CpuId(first.curve.pair.0);
            Some(curve::size(&mut live, at, (cpu, cpu), Effort::SURE)?)
        }
        None => None,
    };
    let mut result = Calibration {
        cpus: host.topology.nr_cpus(),
        os_cpu: host.os_cpu.clone(),
        order: order(host),
        effective_cache: levels.effective(),
        caches: caches(&told, levels.effective()),
        levels,
        largest: search.largest,
        pattern: ask.pattern,
        huge_pct: live.huge_pct(),
        clock: surroundings::clock_source(),
        matrix: matrix(&found, distances, ask),
        distances: found,
        pairs,
        control,
        took_ns: 0,
        warnings: Vec::new(),
    };
    drop(live);
    let spins = (spin_ns, surroundings::spin_ns(first)?);
    result.took_ns = sys::monotonic_ns() - began;
    let stolen_ns = (surroundings::stolen_ticks() - stolen) * 10_000_000;
    result.warnings =
        verdict::warnings(&result, &verdict::Around { spins, stolen_ns, limit, asked: ask.largest });
    Ok(result)
}

/// Level and size of each reported cache; the last one with its effective size.
fn caches(told: &[CacheLevel], effective: u64) -> Vec<(u32, u64)> {
    let mut all: Vec<(u32, u64)> = told.iter().map(|c| (c.level, c.size_kb << 10)).collect();
    if let Some(last) = all.last_mut() {
        last.1 = effective;
    }
    all
}

/// Makes both CPUs of a pair work for a while, so that their clock frequency rises.
fn warm_up(live: &mut Live, (a, b): (CpuId, CpuId)) -> Result<()> {
    let until = sys::monotonic_ns() + WARM_UP_NS;
    while sys::monotonic_ns() < until {
        live.rounds(1 << 20, &[(a, b), (b, a)])?;
    }
    Ok(())
}

/// The matrix of these curves: measured or given cutoffs of all distances that have a pair.
fn matrix(found: &[DistanceCosts], distances: &Distances, ask: &Ask) -> Matrix {
    let mut matrix = Matrix::default();
    for distance in 0..distances.classes.len() {
        let curve = found.iter().find(|d| d.distance == distance).map(|d| &d.curve);
        let entry = match (ask.overrides.cutoff_ns(distance), curve) {
            (Some(cutoff_ns), _) => Entry { distance, cutoff_ns, origin: Origin::Given, pair: None },
            (None, Some(curve)) => {
                // The document sums eight runs.
                let cutoff_ns = cutoff(8 * curve.cost_ns(), &ask.overrides);
                Entry { distance, cutoff_ns, origin: Origin::Measured, pair: Some(curve.pair) }
            }
            (None, None) => continue,
        };
        if !distances.pairs(distance).is_empty() {
            matrix.entries.push(entry);
        }
    }
    matrix
}

/// The machine's CPUs, sorted by package, node, cache, cluster, core and thread.
fn order(host: &Machine) -> Vec<u32> {
    let mut cpus: Vec<u32> = (0..host.topology.nr_cpus() as u32).collect();
    cpus.sort_by_key(|cpu| {
        let c = host.topology.cpu(CpuId(*cpu));
        (c.package, c.node, c.llc, c.cluster, c.core, c.thread)
    });
    cpus
}

/// The pairs to measure, and the progress.
struct Work {
    /// The first pair of each distance, by the kernel's numbers.
    first: Vec<(usize, (CpuId, CpuId))>,
    /// Further pairs.
    further: Vec<(usize, (CpuId, CpuId))>,
    ahead: Ahead,
    /// Expected time of a curve and of an additional pair, ns.
    curve: u64,
    pair: u64,
}

impl Work {
    fn plan(
        host: &Machine,
        distances: &Distances,
        ask: &Ask,
        cpus: &[CpuId],
        levels: &Levels,
        search: Search,
    ) -> Work {
        let (mut first, mut further) = (Vec::new(), Vec::new());
        for distance in 0..distances.classes.len() {
            if ask.overrides.cutoff_ns(distance).is_some() {
                continue;
            }
            let usable = |cpu: &CpuId| cpus.contains(cpu);
            let pairs = distances.pairs(distance).into_iter();
            let os = |cpu: CpuId| CpuId(host.os_cpu(cpu));
            let mut pairs: Vec<_> = pairs
                .filter(|(a, b)| a < b && usable(a) && usable(b))
                .map(|(a, b)| (distance, (os(a), os(b))))
                .collect();
            if pairs.is_empty() {
                continue;
            }
            first.push(pairs.remove(0));
            let step = if ask.all_pairs { 1 } else { (pairs.len() / SAMPLES).max(1) };
            let most = if ask.all_pairs { pairs.len() } else { SAMPLES };
            // From the end, so that one pair is far from the first one.
            further.extend(pairs.into_iter().rev().step_by(step).take(most));
        }
        let (curves, pairs) = (first.len(), further.len());
        let (curve, pair) = expected_ns(levels, search, curves);
        let expected_ns = curves as u64 * curve + pairs as u64 * pair;
        let ahead = Ahead { curves, sizes: search.sizes().count(), pairs, expected_ns };
        Work { first, further, ahead, curve, pair }
    }
    /// Reports that this many ns of the expected time are done.
    fn report_done(&self, done: u64, words: String, watch: &mut dyn FnMut(Step) -> Result<()>) -> Result<()> {
        watch(Step::Done((1000 * done / self.ahead.expected_ns.max(1)).min(1000), words))
    }
}

/// Expected times of a curve and of an additional pair, ns. A repetition is four rounds, each of touching twice and
/// reading four times as much; before each pass over a size there is an uncounted one.
fn expected_ns(levels: &Levels, search: Search, curves: usize) -> (u64, u64) {
    let line_ns = |size: u64| {
        let near = levels.again.iter().min_by_key(|a| a.size.abs_diff(size));
        near.map_or(10.0, |a| a.line_ns)
    };
    let once = |size: u64| (4.0 * 4.0 * line_ns(size) * size as f64 / 64.0) as u64;
    let pass: u64 = search.sizes().map(|size| 2 * once(size)).sum();
    let passes = Passes::of(curves);
    let (least, most) = (passes.least as u64 * pass, passes.most as u64 * pass);
    let curve = passes.time_ns.clamp(least, most);
    (curve + WARM_UP_NS, (Effort::PAIR.most as u64 + 1) * once(search.largest / 2))
}
