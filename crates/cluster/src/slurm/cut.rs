//! Cuts runs into the tasks of a job array.
//!
//! Each task gets every n-th run, so that tasks take about equally long. Runs of live cells stay in blocks: two rounds
//! of one load on one machine, in which the variants come forwards and backwards (A B B A). A block is never cut.

use super::is_live;
use crate::parcel::Task;
use schedlab_lab::make::plan::Plan;
use std::collections::BTreeMap;

/// At most `most` tasks for runs of a plan, given by their indices. `live` runs stay in their blocks.
pub fn cut(plan: &Plan, runs: &[usize], live: bool, most: u32) -> Vec<Task> {
    let blocks: Vec<Vec<usize>> =
        if live { rounds(plan, runs) } else { runs.iter().map(|r| vec![*r]).collect() };
    let nr = blocks.len().min(most.max(1) as usize);
    let run = |r: &usize| (plan.runs[*r].cell, plan.runs[*r].seed);
    let of = |n: usize| -> Vec<Vec<(usize, u64)>> {
        blocks.iter().skip(n).step_by(nr).map(|block| block.iter().map(run).collect()).collect()
    };
    let task = |blocks: Vec<Vec<(usize, u64)>>| Task {
        together: live,
        blocks: if live { blocks } else { vec![blocks.concat()] },
    };
    (0..nr).map(of).map(task).collect()
}

/// Uncut tasks with all of these runs of a plan, given by their indices: one of runs that may be made side by side, and
/// one of live blocks.
pub fn uncut(plan: &Plan, runs: &[usize]) -> Vec<Task> {
    let live = |r: &usize| is_live(&plan.cells[plan.runs[*r].cell]);
    let (live, others): (Vec<usize>, Vec<usize>) = runs.iter().partition(|r| live(r));
    cut(plan, &others, false, 1).into_iter().chain(cut(plan, &live, true, 1)).collect()
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
    use schedlab_lab::ask::cell::Cell;
    use schedlab_lab::make::plan::order;
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
    fn each_run_is_in_one_task_and_tasks_differ_by_one_run_at_most() {
        let plan = plan(10);
        let tasks = cut(&plan, &all(&plan), false, 7);
        assert!(tasks.len() == 7 && tasks.iter().all(|t| [5, 6].contains(&t.runs().count())));
        let mut runs: Vec<(usize, u64)> = tasks.iter().flat_map(Task::runs).collect();
        let mut wanted: Vec<(usize, u64)> = plan.runs.iter().map(|r| (r.cell, r.seed)).collect();
        runs.sort_unstable();
        wanted.sort_unstable();
        assert_eq!(runs, wanted);
        assert_eq!(cut(&plan, &all(&plan), false, 1000).len(), 40, "a task has a run at least");
        assert_eq!(uncut(&plan, &all(&plan)).len(), 1);
    }

    #[test]
    fn live_blocks_are_round_trips_of_one_load_and_never_cut() {
        let plan = plan(4);
        let tasks = cut(&plan, &all(&plan), true, 100);
        let blocks: Vec<&Vec<(usize, u64)>> = tasks.iter().flat_map(|t| &t.blocks).collect();
        assert!(tasks.iter().all(|t| t.together && t.blocks.len() == 1));
        assert_eq!(blocks[0], &[(0, 1), (1, 1), (1, 2), (0, 2)], "A B B A");
        assert_eq!(blocks[1], &[(2, 1), (3, 1), (3, 2), (2, 2)]);
        assert_eq!(blocks.len(), 4);
        let one = cut(&plan, &all(&plan), true, 1);
        assert_eq!((one.len(), one[0].blocks.len()), (1, 4));
    }
}
