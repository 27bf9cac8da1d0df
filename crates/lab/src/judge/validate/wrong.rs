//! Deliberately wrong schedulers: they show which metrics of a case distinguish them from the right one.
//!
//! Some metrics agree because the workload decides them: CPU time, or the wakeups of a timer. They prove nothing about
//! the simulator. So each case is also simulated by each row of [`WRONG`], with the seeds of the real runs, and judged
//! by the same rule. A wrong scheduler *passes* a metric that does not disagree. A metric is *decided by the workload*
//! in a case if it agrees and every wrong scheduler also passes it. A metric that disagrees is always counted, so that
//! leaving rows out can't hide a disagreement.

use super::case::Case;
use crate::Finished;
use crate::ask::cell::Cell;
use crate::make::plan::{Plan, order};
use schedlab_base::Result;
use schedlab_compare::agreement::RealSide;
use schedlab_compare::agreement::rows::LIST;
use schedlab_compare::agreement::rule;
use schedlab_compare::agreement::wrong::WrongRuns;
use schedlab_kernel::Variant;
use schedlab_kernel::tunable::TUNABLES;
use schedlab_machine::shape::{Numbering, Shape};
use schedlab_machine::{Machine, Topology};
use std::sync::Arc;

/// The way to make a wrong scheduler from the right one.
enum Fault {
    /// By another variant of the kernel, of our rules.
    Kernel(fn(&Cell, &mut Variant)),
    /// By the kernel's fair class in place of a sched_ext scheduler, both by the kernel's own code.
    Fair,
    /// By another machine; `None` if no other has that size.
    Machine(fn(&Topology) -> Option<Topology>),
}

struct WrongScheduler {
    name: &'static str,
    about: &'static str,
    fault: Fault,
}

/// Slices are longer by this factor.
const SLICE_TIMES: u64 = 20;
/// A task that ran within this time counts as cache hot, ns.
const ALWAYS_HOT_NS: u64 = 1_000_000_000;

const WRONG: &[WrongScheduler] = &[
    WrongScheduler {
        name: "slices",
        about: "slices twenty times as long",
        fault: Fault::Kernel(long_slices),
    },
    WrongScheduler {
        name: "wakeups",
        about: "woken tasks take the idle CPU with the lowest number, and never move to the waker's",
        fault: Fault::Kernel(first_idle),
    },
    WrongScheduler {
        name: "balance",
        about: "tasks count as cache hot for a second, and are balanced one at a time",
        fault: Fault::Kernel(hot),
    },
    WrongScheduler {
        name: "fair",
        about: "the kernel's fair class instead of the sched_ext scheduler",
        fault: Fault::Fair,
    },
    WrongScheduler {
        name: "machine",
        about: "the same number of CPUs in another structure: flat instead of SMT, caches and nodes, or the reverse",
        fault: Fault::Machine(other),
    },
];

fn long_slices(cell: &Cell, variant: &mut Variant) {
    let Some(kernel) = &cell.resolved else { return };
    for name in ["sched_latency_ns", "min_granularity_ns", "base_slice_ns"] {
        let most = TUNABLES.iter().find(|row| row.name == name).map_or(u64::MAX, |row| row.range.1);
        if let Some(value) = kernel.tunables.get(name).filter(|v| *v > 0) {
            variant.tunables.insert(name.to_owned(), value.saturating_mul(SLICE_TIMES).min(most));
        }
    }
}

fn first_idle(_: &Cell, variant: &mut Variant) {
    variant.features.extend(["SIS_FIRST_IDLE", "NO_WA_IDLE", "NO_WA_WEIGHT"].map(str::to_owned));
}

fn hot(_: &Cell, variant: &mut Variant) {
    let set = [("migration_cost_ns", ALWAYS_HOT_NS), ("nr_migrate", 1)];
    variant.tunables.extend(set.map(|(name, value)| (name.to_owned(), value)));
}

/// The same number of CPUs in another structure.
fn other(topology: &Topology) -> Option<Topology> {
    let cpus = u32::try_from(topology.nr_cpus()).ok()?;
    let flat = Shape { numbering: Numbering::Adjacent, ..Shape::flat(cpus, 1) };
    let is_flat = topology.cpus.iter().all(|c| (c.thread, c.llc, c.node) == (0, 0, 0));
    let shape = match cpus {
        _ if !is_flat => flat,
        4.. if cpus.is_multiple_of(4) => {
            let (packages, nodes, llcs) = (2, 2, 2);
            Shape { packages, nodes, llcs, cores: cpus / 2, threads_per_core: 2, ..flat }
        }
        2.. if cpus.is_multiple_of(2) => Shape { cores: cpus / 2, threads_per_core: 2, ..flat },
        _ => return None,
    };
    shape.topology().ok()
}

/// The cells of a case's wrong schedulers, made from its simulated cell: of our rules those that change a kernel, of a
/// sched_ext scheduler the fair class, of both those on another machine.
fn cells(simulated: &Cell) -> Result<Vec<(&'static WrongScheduler, Cell)>> {
    let mut all = Vec::new();
    for row in WRONG {
        let (mut variant, mut machine) = (simulated.variant.clone(), simulated.machine.clone());
        match (&row.fault, &simulated.code) {
            (Fault::Kernel(change), None) => change(simulated, &mut variant),
            (Fault::Fair, Some(_)) => variant.scx = None,
            (Fault::Kernel(_), Some(_)) | (Fault::Fair, None) => continue,
            (Fault::Machine(change), _) => {
                let Some(topology) = change(&machine.topology) else { continue };
                machine = Arc::new(Machine { topology, os_cpu: Vec::new(), ..(*machine).clone() });
            }
        }
        variant.name = format!("wrong: {}", row.name);
        let (spec, load) = (simulated.spec.clone(), simulated.load.clone());
        let cell = match &simulated.code {
            Some(image) => Cell::of_code(&machine, image.clone(), variant, spec, load)?,
            None => Cell::simulated(&machine, variant, spec, load)?,
        };
        all.push((row, cell));
    }
    Ok(all)
}

/// Simulates a case by each wrong scheduler with `work`, as often as the real kernel ran, and judges it.
///
/// # Errors
/// The errors of `work`.
pub fn tried(
    case: &Case,
    simulated: &Plan,
    real: RealSide<'_>,
    work: &mut impl FnMut(&Plan) -> Result<Finished>,
) -> Result<Vec<WrongRuns>> {
    let ([right], None) = (simulated.cells.as_slice(), &case.control) else { return Ok(Vec::new()) };
    let mut all = Vec::new();
    for (row, cell) in cells(right)? {
        let runs = order(1, real.runs(), case.seed)?;
        let made = work(&Plan { cells: vec![cell], runs, warnings: Vec::new() })?.records;
        let verdict = |row| rule::judge_beside(row, &case.tolerance, &made, real).verdict;
        all.push(WrongRuns {
            name: row.name,
            about: row.about,
            runs: made.len(),
            verdicts: LIST.iter().map(verdict).collect(),
        });
    }
    Ok(all)
}

#[cfg(test)]
#[path = "wrong_tests.rs"]
mod tests;
