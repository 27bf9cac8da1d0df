//! Cuts runs into tasks of some minutes each, and estimates the wall time of a run.
//!
//! Runs of live cells stay in blocks: two rounds of one load on one machine, in which the variants come forwards and
//! backwards (A B B A). A block is never cut.

use crate::parcel::Task;
use schedlab_base::{Backend, Result};
use schedlab_lab::cell::Cell;
use schedlab_lab::plan::Plan;
use std::collections::BTreeMap;

/// Wall time by the hash of a cell: number of runs, and their sum in seconds.
pub type WallTimes = BTreeMap<String, (u64, f64)>;

/// What a live run takes beside its workload, in seconds: the start of an agent, or the boot of a guest.
const AROUND_LIVE_S: f64 = 2.0;
const AROUND_GUEST_S: f64 = 20.0;
/// The estimate where nothing is known.
pub const GUESS_S: f64 = 60.0;

/// The expected seconds of each cell's run; `None` where nothing is known.
///
/// # Errors
/// When a workload can't be built.
pub fn expected_s(cells: &[Cell], hashes: &[String], known: &WallTimes) -> Result<Vec<Option<f64>>> {
    let mean = |hash: &String| known.get(hash).filter(|(runs, _)| *runs > 0).map(|(n, s)| s / *n as f64);
    // What is known of other simulations is carried over by their size.
    let (mut seconds, mut sizes) = (0.0, 0.0);
    for (cell, hash) in cells.iter().zip(hashes) {
        if let (Backend::Sim, Some(mean)) = (cell.backend, mean(hash)) {
            seconds += mean;
            sizes += size(cell)?;
        }
    }
    let one = |(cell, hash): (&Cell, &String)| -> Result<Option<f64>> {
        Ok(match (mean(hash), cell.backend) {
            (Some(mean), _) => Some(mean),
            (None, Backend::Sim | Backend::Code) if sizes > 0.0 => Some(seconds / sizes * size(cell)?),
            (None, Backend::Sim | Backend::Code) => None,
            (None, Backend::Host) => length_s(cell)?.map(|s| s + AROUND_LIVE_S),
            (None, Backend::Vm) => length_s(cell)?.map(|s| s + AROUND_GUEST_S),
        })
    };
    cells.iter().zip(hashes).map(one).collect()
}

/// The length of a run on its own clock; `None` of a command.
fn length_s(cell: &Cell) -> Result<Option<f64>> {
    if matches!(cell.spec, schedlab_workload::Spec::Command(_)) {
        return Ok(None);
    }
    let built = cell.spec.build(0)?;
    Ok(Some(built.warmup.plus(built.duration).as_secs_f64()))
}

/// Simulated time by tasks and CPUs: what a simulation's wall time grows with, roughly.
fn size(cell: &Cell) -> Result<f64> {
    let built = cell.spec.build(0)?;
    let many = built.tasks.len() + cell.machine.topology.nr_cpus();
    Ok(built.warmup.plus(built.duration).as_secs_f64().max(0.001) * many as f64)
}

/// Tasks of about `target_s` seconds, `most` at the most, for runs of a plan by their indices. `live` runs stay in
/// their blocks. `expected_s` has a figure for each cell, and `cpus` runs are made at once.
pub fn cut(
    plan: &Plan,
    runs: &[usize],
    live: bool,
    expected_s: &[f64],
    (target_s, cpus, most): (f64, u32, usize),
) -> Vec<Task> {
    let blocks: Vec<Vec<usize>> =
        if live { rounds(plan, runs) } else { runs.iter().map(|r| vec![*r]).collect() };
    let took = |block: &Vec<usize>| {
        let all: f64 = block.iter().map(|r| expected_s[plan.runs[*r].cell]).sum();
        if live { all } else { all / f64::from(cpus) }
    };
    let mut target_s = target_s;
    loop {
        let mut tasks: Vec<(f64, Vec<Vec<usize>>)> = Vec::new();
        for block in &blocks {
            let s = took(block);
            match tasks.last_mut() {
                Some((sum, task)) if *sum + s <= target_s * 1.001 => {
                    *sum += s;
                    task.push(block.clone());
                }
                _ => tasks.push((s, vec![block.clone()])),
            }
        }
        if tasks.len() <= most.max(1) {
            return tasks.into_iter().map(|(_, blocks)| task(plan, live, blocks)).collect();
        }
        target_s *= (tasks.len() as f64 / most.max(1) as f64).max(1.1);
    }
}

fn task(plan: &Plan, live: bool, blocks: Vec<Vec<usize>>) -> Task {
    let run = |r: usize| (plan.runs[r].cell, plan.runs[r].seed);
    let blocks: Vec<Vec<(usize, u64)>> =
        blocks.into_iter().map(|b| b.into_iter().map(run).collect()).collect();
    if live {
        Task { together: true, blocks }
    } else {
        Task { together: false, blocks: vec![blocks.into_iter().flatten().collect()] }
    }
}

/// The runs in blocks of two rounds of one load on one machine, in the plan's order.
fn rounds(plan: &Plan, runs: &[usize]) -> Vec<Vec<usize>> {
    let first = plan.runs.iter().map(|r| r.seed).min().unwrap_or(0);
    let key = |r: usize| {
        let run = plan.runs[r];
        let cell = &plan.cells[run.cell];
        ((run.seed - first) / 2, cell.spec.name(), cell.load.as_str(), cell.machine.name.as_str())
    };
    let mut at: BTreeMap<_, usize> = BTreeMap::new();
    let mut blocks: Vec<Vec<usize>> = Vec::new();
    for r in runs {
        let nr = *at.entry(key(*r)).or_insert(blocks.len());
        match blocks.get_mut(nr) {
            Some(block) => block.push(*r),
            None => blocks.push(vec![*r]),
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use schedlab_kernel::Variant;
    use schedlab_lab::plan::order;
    use schedlab_machine::Machine;
    use schedlab_workload::{Params, Spec};
    use std::sync::Arc;

    /// Two loads under two variants.
    fn plan(runs: u64) -> Plan {
        let machine = Arc::new(Machine::load("smp-2").unwrap());
        let spec = Spec::bench("slice", &Params::default()).unwrap();
        let cell = |load: &str, kernel: &str| {
            Cell::simulated(&machine, Variant::plain(kernel), spec.clone(), load.to_owned()).unwrap()
        };
        let cells = vec![cell("a", "v6.5"), cell("a", "v6.12"), cell("b", "v6.5"), cell("b", "v6.12")];
        Plan { runs: order(4, runs, 1).unwrap(), cells, warnings: Vec::new() }
    }

    fn all(plan: &Plan) -> Vec<usize> {
        (0..plan.runs.len()).collect()
    }

    #[test]
    fn each_run_is_in_one_task_of_the_time_aimed_at() {
        let plan = plan(10);
        let tasks = cut(&plan, &all(&plan), false, &[1.0, 2.0, 3.0, 4.0], (20.0, 1, 100));
        assert_eq!(tasks.len(), 5, "100 seconds");
        let mut runs: Vec<(usize, u64)> = tasks.iter().flat_map(Task::runs).collect();
        let mut wanted: Vec<(usize, u64)> = plan.runs.iter().map(|r| (r.cell, r.seed)).collect();
        assert_eq!(runs, wanted, "in the plan's order");
        runs.dedup();
        wanted.dedup();
        assert_eq!(runs, wanted);
        let two = cut(&plan, &all(&plan), false, &[1.0, 2.0, 3.0, 4.0], (20.0, 2, 100));
        assert_eq!(two.len(), 3, "two at a time");
        let few = cut(&plan, &all(&plan), false, &[1.0, 2.0, 3.0, 4.0], (1.0, 1, 3));
        assert!(few.len() <= 3, "a cluster's limit makes tasks longer");
        assert_eq!(few.iter().flat_map(Task::runs).count(), 40);
        let long = cut(&plan, &all(&plan), false, &[500.0; 4], (20.0, 1, 100));
        assert_eq!(long.len(), 40, "a long run has a task of its own");
    }

    #[test]
    fn live_blocks_are_round_trips_of_one_load_and_never_cut() {
        let plan = plan(4);
        let tasks = cut(&plan, &all(&plan), true, &[10.0; 4], (1.0, 1, 100));
        let blocks: Vec<&Vec<(usize, u64)>> = tasks.iter().flat_map(|t| &t.blocks).collect();
        assert!(tasks.iter().all(|t| t.together && t.blocks.len() == 1));
        assert_eq!(blocks[0], &[(0, 1), (1, 1), (1, 2), (0, 2)], "A B B A");
        assert_eq!(blocks[1], &[(2, 1), (3, 1), (3, 2), (2, 2)]);
        assert_eq!(blocks.len(), 4);
        let one = cut(&plan, &all(&plan), true, &[10.0; 4], (1000.0, 1, 100));
        assert_eq!((one.len(), one[0].blocks.len()), (1, 4));
    }

    #[test]
    fn what_is_known_of_one_simulation_is_carried_over_to_larger_ones() {
        let plan = plan(1);
        let hashes: Vec<String> = plan.cells.iter().map(|c| c.hash().unwrap()).collect();
        assert_eq!(expected_s(&plan.cells, &hashes, &WallTimes::new()).unwrap(), [None; 4]);
        let known = WallTimes::from([(hashes[0].clone(), (2, 3.0))]);
        let told = expected_s(&plan.cells, &hashes, &known).unwrap();
        assert_eq!(told[0], Some(1.5));
        assert!(told.iter().all(|s| s.is_some_and(|s| (s - 1.5).abs() < 1e-9)), "the same size: {told:?}");
    }
}
