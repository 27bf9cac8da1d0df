//! The knee: the largest load of a workload that keeps a metric under a limit, per variant, with its interval.
//!
//! For each seed the benchmark's load parameter is doubled from its start until the limit is broken or the cap is
//! reached. Then the interval between the last load that held and the first that did not is halved until the knee is
//! found. The search is deterministic: the same seeds try the same loads. Seeds are the unit of replication; each gives
//! one knee.
//!
//! If latency does not rise steadily with load, there are several crossings. Doubling stops at the first load that
//! breaks the limit, and the search finds a crossing between this load and the one before it. A knee at the cap is
//! marked, since the true knee may lie above. A missing metric (a small load gives too few samples for the percentile)
//! neither holds nor breaks the limit. The search continues upwards, where there are more samples, and claims nothing
//! for that load. A load under which a sched_ext scheduler does not last breaks it, with a warning. A seed in which no
//! load held and some could not be judged has no knee: the result is "cannot tell", not 0.

mod raise;

pub(in crate::search) use raise::FIRST_OF_RTAPP;
pub use raise::Raised;

use crate::ask::cell::Cell;
use crate::ask::scx;
use crate::make::exec::{Executor, guessed};
use schedlab_base::{Error, Result, Warning};
use schedlab_compare::knees::{KNEE_SCHEMA, Knee, Knees, Limit, TriedLoad};
use schedlab_compare::metrics::{self, Evaluated};
use schedlab_compare::stats::describe::{mean, std};
use schedlab_compare::stats::special::t_quantile;
use schedlab_compare::uncertainty::{Point, Sway, sway};
use schedlab_machine::Drawn;
use schedlab_record::Metric;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// The judgement of a load's run by the limit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Judged {
    Holds,
    Breaks,
    /// The metric is missing.
    Unknown,
}

/// The judgement of a value by a limit.
fn judge(limit: &Limit, value: &schedlab_record::Value) -> Judged {
    match value.number() {
        None => Judged::Unknown,
        Some(v) if (limit.below && v < limit.value) || (!limit.below && v > limit.value) => Judged::Holds,
        Some(_) => Judged::Breaks,
    }
}

/// The outcome of a seed's search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum SeedOutcome {
    Knee(u64),
    /// No load held, and some could not be judged.
    Unknown,
    Stopped,
}

/// The subject of a search.
#[derive(Clone)]
pub struct Search {
    /// One cell per variant. The raised load replaces its workload and load.
    pub cells: Vec<Cell>,
    /// The load that is raised.
    pub raised: Raised,
    /// The limit, with a full metric name.
    pub limit: Limit,
    /// The seeds; each gives one knee.
    pub seeds: Vec<u64>,
    /// The first load tried.
    pub start: u64,
    /// The largest load tried.
    pub cap: u64,
}

/// Called for every load tried: variant, seed, load, value of the metric.
pub type Tried<'a> = &'a (dyn Fn(&str, u64, u64, &Evaluated) + Sync);

/// Searches the knees of all variants.
///
/// # Errors
/// When bounds are outside the parameter's range, and as the executor.
pub fn search(
    search: &Search,
    executor: &dyn Executor,
    tried: Tried<'_>,
    stop: &AtomicBool,
) -> Result<Knees> {
    let first = search.cells.first().ok_or_else(|| Error::input("no variant to search a knee for"))?;
    measured(&search.limit.metric, first)?;
    in_range(search)?;
    let curve = Curve::default();
    let note = |variant: &str, seed: u64, load: u64, found: &Evaluated| {
        curve.add(variant, seed, load, found);
        tried(variant, seed, load, found);
    };
    let warnings = RefCell::new(guessed(first).into_iter().collect::<Vec<Warning>>());
    let failed = |text: &str| warnings.borrow_mut().push(Warning::new("scx.failed", text));
    let mut variants = Vec::new();
    let mut interrupted = false;
    for cell in &search.cells {
        let (mut found, mut unknown, mut unjudged) = (Vec::new(), 0, BTreeSet::new());
        for seed in &search.seeds {
            let at = |load: u64| at_load(cell, load, *seed, search, executor, (&note, &failed), stop);
            let (ended, above) = search_noting_unknown(search.start, search.cap, search.raised.range.0, at)?;
            unjudged.extend(above);
            match ended {
                SeedOutcome::Knee(knee) => found.push((*seed, knee)),
                SeedOutcome::Unknown => unknown += 1,
                SeedOutcome::Stopped => interrupted = true,
            }
            if stop.load(Ordering::Relaxed) {
                interrupted |= found.len() + unknown < search.seeds.len();
                break;
            }
        }
        let uncertainty = moved(cell, &found);
        let knees = found.into_iter().map(|(_, knee)| knee).collect();
        let name = cell.variant.name.as_str();
        variants.push(Knee {
            uncertainty,
            unjudged: unjudged.len(),
            ..knee(name, knees, unknown, search.cap)
        });
    }
    let (unit, tried) = curve.into_tried(&search.cells);
    Ok(Knees {
        schema: KNEE_SCHEMA.to_owned(),
        workload: search.raised.workload.clone(),
        parameter: search.raised.parameter.to_owned(),
        backend: first.backend.into(),
        machine: first.machine.name.clone(),
        limit: search.limit.clone(),
        cap: search.cap,
        seeds: search.seeds.clone(),
        variants,
        unit,
        tried,
        interrupted,
        warnings: warnings.into_inner(),
    })
}

fn in_range(search: &Search) -> Result<()> {
    let (low, high) = search.raised.range;
    for load in [search.start, search.cap] {
        if !(low..=high).contains(&load) {
            let name = search.raised.parameter;
            return Err(Error::input(format!("{name} = {load} is out of range"))
                .help(format!("it takes {low} to {high}")));
        }
    }
    Ok(())
}

/// Refuses a metric that the backend never gives: the search would raise the load in vain.
fn measured(metric: &str, cell: &Cell) -> Result<()> {
    // A name without a row in the table is a command's figure, which only live runs give.
    let Ok(found) = Metric::find(metric) else { return Ok(()) };
    let backend = cell.backend;
    if found.row.backends.contains(&backend) {
        return Ok(());
    }
    Err(Error::machine(format!("the {backend} backend does not measure {metric}")))
}

/// The loads tried so far.
#[derive(Default)]
struct Curve(Mutex<CurveInner>);

#[derive(Default)]
struct CurveInner {
    unit: String,
    /// Values and missing ones by variant and load.
    points: BTreeMap<(String, u64), (Vec<f64>, usize)>,
}

impl Curve {
    /// Seeds come in ascending order, so values do.
    fn add(&self, variant: &str, _seed: u64, load: u64, found: &Evaluated) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !found.unit.is_empty() {
            all.unit.clone_from(&found.unit);
        }
        let point = all.points.entry((variant.to_owned(), load)).or_default();
        match found.value.number() {
            Some(value) => point.0.push(value),
            None => point.1 += 1,
        }
    }
    /// Unit and points, variants in the order of the cells.
    fn into_tried(self, cells: &[Cell]) -> (String, Vec<TriedLoad>) {
        let all = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let of = |name: &str| {
            let own = all.points.iter().filter(|((variant, _), _)| variant == name);
            own.map(|((variant, load), (values, missing))| TriedLoad {
                variant: variant.clone(),
                load: *load,
                values: values.clone(),
                missing: *missing,
            })
            .collect::<Vec<_>>()
        };
        let tried = cells.iter().flat_map(|c| of(&c.variant.name)).collect();
        (all.unit, tried)
    }
}

/// Whether the limit holds at a load; `None` if stopped.
fn at_load(
    cell: &Cell,
    load: u64,
    seed: u64,
    search: &Search,
    executor: &dyn Executor,
    (tried, failed): (Tried<'_>, &dyn Fn(&str)),
    stop: &AtomicBool,
) -> Result<Option<Judged>> {
    let mut cell = cell.clone();
    cell.spec = search.raised.with(load)?;
    cell.load = format!("{}={load}", search.raised.parameter);
    let made = match executor.run(&cell, seed, stop) {
        Ok(Some(made)) => made,
        Ok(None) => return Ok(None),
        Err(e) if load > search.start && scx::has_failed(&cell.variant, &e) => {
            failed(&format!("{}, {}, seed {seed}: {}", cell.variant.name, cell.load, e.message()));
            return Ok(Some(Judged::Breaks));
        }
        Err(e) => return Err(e),
    };
    let found = metrics::evaluate(&made.record, &search.limit.metric);
    tried(&cell.variant.name, seed, load, &found);
    Ok(Some(judge(&search.limit, &found.value)))
}

/// One seed's knee, and the loads above it that could not be judged.
fn search_noting_unknown(
    start: u64,
    cap: u64,
    lowest: u64,
    probe: impl Fn(u64) -> Result<Option<Judged>>,
) -> Result<(SeedOutcome, Vec<u64>)> {
    let unknown = RefCell::new(Vec::new());
    let noting = |load| {
        let judged = probe(load)?;
        if judged == Some(Judged::Unknown) {
            unknown.borrow_mut().push(load);
        }
        Ok(judged)
    };
    let found = search_seed(start, cap, lowest, noting)?;
    let above = |knee| unknown.into_inner().into_iter().filter(|load| *load > knee).collect();
    Ok((found, if let SeedOutcome::Knee(knee) = found { above(knee) } else { Vec::new() }))
}

/// One seed's knee: doubling, then bisection.
fn search_seed(
    start: u64,
    cap: u64,
    lowest: u64,
    probe: impl Fn(u64) -> Result<Option<Judged>>,
) -> Result<SeedOutcome> {
    let (mut held, mut blind, mut load) = (0, false, start.min(cap));
    let mut good = 0;
    let mut broken = loop {
        match probe(load)? {
            None => return Ok(SeedOutcome::Stopped),
            Some(Judged::Breaks) => break load,
            Some(Judged::Holds) => held = load,
            Some(Judged::Unknown) => blind = true,
        }
        good = load;
        if load == cap {
            break cap + 1;
        }
        load = load.saturating_mul(2).min(cap);
    };
    // No load below the start was tried yet: the lowest loads of the parameter's range may still hold.
    good = good.max(lowest.saturating_sub(1));
    while broken - good > 1 {
        let middle = good + (broken - good) / 2;
        match probe(middle)? {
            None => return Ok(SeedOutcome::Stopped),
            Some(Judged::Breaks) => broken = middle,
            Some(Judged::Holds) => (good, held) = (middle, middle),
            Some(Judged::Unknown) => (good, blind) = (middle, true),
        }
    }
    Ok(if held == 0 && blind { SeedOutcome::Unknown } else { SeedOutcome::Knee(held) })
}

/// The drawn costs that move the knee.
fn moved(cell: &Cell, found: &[(u64, u64)]) -> Option<Sway> {
    let drawn: Vec<(Vec<Drawn>, f64)> =
        found.iter().map(|(seed, knee)| (cell.draw(*seed), *knee as f64)).collect();
    let points = drawn.iter().map(|(drawn, knee)| Point { drawn, rank_by: *knee, shown: Some(*knee) });
    sway(&points.collect::<Vec<_>>(), None)
}

fn knee(variant: &str, knees: Vec<u64>, unknown: usize, cap: u64) -> Knee {
    let values: Vec<f64> = knees.iter().map(|k| *k as f64).collect();
    let ci95 = std(&values).map(|s| {
        let n = values.len() as f64;
        let half = t_quantile(0.975, n - 1.0) * s / libm::sqrt(n);
        [(mean(&values) - half).max(0.0), mean(&values) + half]
    });
    Knee {
        variant: variant.to_owned(),
        mean: mean(&values),
        ci95,
        at_cap: knees.iter().filter(|k| **k == cap).count(),
        unknown,
        knees,
        unjudged: 0,
        uncertainty: None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_record::Better;
    use schedlab_workload::spec;

    fn found(start: u64, cap: u64, holds: impl Fn(u64) -> bool) -> (u64, Vec<u64>) {
        let seen = RefCell::new(Vec::new());
        let probe = |load| {
            seen.borrow_mut().push(load);
            Ok(Some(if holds(load) { Judged::Holds } else { Judged::Breaks }))
        };
        let SeedOutcome::Knee(knee) = search_seed(start, cap, 1, probe).unwrap() else {
            panic!("all loads were judged")
        };
        (knee, seen.into_inner())
    }

    #[test]
    fn a_missing_metric_is_neither_a_knee_nor_a_broken_limit() {
        let few = |least: u64, knee: u64| {
            move |load: u64| {
                Ok(Some(match load {
                    l if l < least => Judged::Unknown,
                    l if l <= knee => Judged::Holds,
                    _ => Judged::Breaks,
                }))
            }
        };
        assert_eq!(
            search_seed(1, 100, 1, few(3, 20)).unwrap(),
            SeedOutcome::Knee(20),
            "small loads have too few samples"
        );
        assert_eq!(
            search_seed(1, 100, 1, few(9, 3)).unwrap(),
            SeedOutcome::Unknown,
            "it broke as soon as it could be seen"
        );
        assert_eq!(search_seed(1, 100, 1, few(1000, 2000)).unwrap(), SeedOutcome::Unknown);
        assert_eq!(search_seed(1, 100, 1, few(64, 2000)).unwrap(), SeedOutcome::Knee(100));
    }

    #[test]
    fn larger_loads_that_could_not_be_judged_are_reported() {
        let probe = |load: u64| {
            Ok(Some(match load {
                1..=2 => Judged::Unknown,
                3..=5 => Judged::Holds,
                6..=20 => Judged::Unknown,
                _ => Judged::Breaks,
            }))
        };
        // Doubling sees 1, 2, 4, 8, 16 and 32; between 16 and 32 bisection sees 24, 20, 22 and 21.
        assert_eq!(search_noting_unknown(1, 100, 1, probe).unwrap(), (SeedOutcome::Knee(4), vec![8, 16, 20]));
    }

    #[test]
    fn a_bare_statistic_is_of_the_first_series_a_workload_shows() {
        let full = |name: &str, limit: &str| {
            let bench = spec::find(name).unwrap();
            Limit::parse(limit).unwrap().for_workload(bench).unwrap().metric
        };
        assert_eq!(full("schbench", "p99 < 2ms"), "schbench.latency.p99");
        let pipe = spec::find("pipe").unwrap();
        assert_eq!(full("pipe", Limit::usual(pipe)), "pipe.round_trip.mean");
        assert!(Limit::parse("p99 < 2ms").unwrap().for_workload(pipe).is_err(), "one value a run");
        assert_eq!(full("rr", "p99.9 < 2ms"), "rr.latency.p99.9", "the rate before it is of that series");
        assert_eq!(full("rr", "rr.rate > 1000"), "rr.rate");
        assert_eq!(full("hackbench", "mean < 1s"), "hackbench.elapsed.mean");
        let slice = schedlab_workload::BENCHMARKS.iter().find(|b| b.name == "slice").unwrap();
        assert_eq!(Limit::usual(slice), "mean > 2ms", "longer slices are better");
    }

    #[test]
    fn every_headline_is_a_metric_of_its_workload() {
        for bench in schedlab_workload::BENCHMARKS {
            let built = schedlab_workload::Spec::bench(bench.name, &schedlab_workload::Params::default())
                .unwrap()
                .build(1)
                .unwrap();
            let known = || {
                built
                    .series
                    .iter()
                    .map(|s| (s.name.as_str(), s.unit.as_str(), Better::parse(&s.better).unwrap()))
            };
            for name in bench.headline {
                let metric = Metric::find_with(name, known()).unwrap();
                assert_ne!(metric.better, Better::Neither, "{name}");
            }
        }
    }

    #[test]
    fn doubles_then_halves_in() {
        let (knee, tried) = found(1, 1000, |l| l <= 37);
        assert_eq!((knee, tried), (37, vec![1, 2, 4, 8, 16, 32, 64, 48, 40, 36, 38, 37]));
        assert_eq!(found(16, 1000, |l| l <= 3).0, 3, "below the start too");
        assert_eq!(found(16, 1000, |_| false).0, 0);
        assert_eq!(found(1, 1000, |_| true).0, 1000);
        assert_eq!(found(8, 4, |_| true).0, 4, "never above the cap");
        assert_eq!(
            search_seed(1, 9, 1, |_| Ok(None)).unwrap(),
            SeedOutcome::Stopped,
            "a stopped probe is no knee"
        );
    }

    #[test]
    fn the_first_of_several_crossings_that_doubling_meets_is_found() {
        assert_eq!(found(1, 64, |l| l <= 10 || (20..=30).contains(&l)).0, 10);
    }

    #[test]
    fn limits_are_read() {
        let l = Limit::parse("p99 < 2ms").unwrap();
        assert_eq!((l.metric.as_str(), l.below, l.value), ("p99", true, 2e6));
        assert_eq!(Limit::parse("schbench.latency.p99.9<=50us").unwrap().value, 50_000.0);
        assert!(!Limit::parse("rps > 100").unwrap().below);
        for wrong in ["p99", "< 2ms", "p99 <", "p99 < fast"] {
            assert!(Limit::parse(wrong).is_err(), "{wrong}");
        }
        let bench = spec::find("schbench").unwrap();
        assert_eq!(l.for_workload(bench).unwrap().metric, "schbench.latency.p99");
        assert_eq!(
            Limit::parse("p99.9 < 2ms").unwrap().for_workload(bench).unwrap().metric,
            "schbench.latency.p99.9"
        );
        assert_eq!(
            Limit::parse("run_delay.p50 < 2ms").unwrap().for_workload(bench).unwrap().metric,
            "run_delay.p50"
        );
        assert!(Limit::parse("p99x < 2ms").unwrap().for_workload(bench).is_err());
    }

    #[test]
    fn the_interval_is_over_seeds() {
        let k = knee("v", vec![10, 12, 14], 0, 14);
        assert_eq!((k.mean, k.at_cap), (12.0, 1));
        let [lo, hi] = k.ci95.unwrap();
        // t(0.975, 2) = 4.303; 4.303 * 2 / sqrt(3) = 4.968.
        assert!((lo - 7.032).abs() < 1e-3 && (hi - 16.968).abs() < 1e-3);
        assert_eq!(knee("v", vec![3], 0, 9).ci95, None);
    }
}
