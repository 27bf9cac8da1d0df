//! Each parent has one child at a time, and records a time for each.

use crate::op::Op;
use crate::rig::{Costs, bench, refused, spec};
use schedlab_base::{Ns, TaskId};

const COSTS: Costs = Costs { op: Ns::us(1), wakeup: Ns::us(4), slack: Ns::ZERO };

#[test]
fn a_parent_starts_the_next_child_when_the_last_is_done() {
    let log = bench("forks", &[("parents", 2), ("forks", 3), ("work", 50_000)], 1, COSTS);
    let started = |name: &str| -> Vec<Op> {
        let steps = log.steps_of(name);
        steps.iter().map(|s| s.op).filter(|op| matches!(op, Op::Spawn { .. })).collect()
    };
    let spawn = |task: u32| Op::Spawn { task: TaskId(task) };
    assert_eq!(started("parent/0"), [2, 3, 4].map(spawn));
    assert_eq!(started("parent/1"), [5, 6, 7].map(spawn));
    assert_eq!((log.left.len(), log.stuck.len()), (8, 0));
    let of = |child: &str| log.times(child, |op| matches!(op, Op::Run { work } if *work == Ns::us(50)))[0];
    assert!(of("child/1").since(of("child/0")) > Ns::us(50), "one after the other");
    assert!(of("child/3").since(of("child/0")) < Ns::us(20), "two parents at once");
}

#[test]
fn every_fork_has_a_time_and_the_whole_has_one() {
    let log = bench("forks", &[("parents", 3), ("forks", 5), ("work", 50_000)], 1, COSTS);
    let latency = log.values("forks.latency");
    assert_eq!(latency.len(), 15);
    assert!(latency.iter().all(|ns| (50_000..80_000).contains(ns)), "{latency:?}");
    let elapsed = log.values("forks.elapsed");
    assert!(elapsed.len() == 1 && elapsed[0] >= 5 * latency[0] && elapsed[0] < 6 * 80_000, "{elapsed:?}");
}

#[test]
fn children_are_processes_of_their_parent_and_not_too_many() {
    let built = spec("forks", &[("parents", 2), ("forks", 2)]).build(1).unwrap();
    assert!(built.processes && built.to_the_end);
    let by: Vec<Option<TaskId>> = built.tasks.iter().map(|t| t.spawned_by).collect();
    let [zero, one] = [Some(TaskId(0)), Some(TaskId(1))];
    assert_eq!(by, [None, None, zero, zero, one, one]);
    assert!(!spec("forks", &[("mode", 1)]).build(1).unwrap().processes);
    assert!(refused("forks", &[("parents", 1000), ("forks", 1000)]).contains("100000 tasks"));
}

#[test]
fn a_child_execs_before_it_works_if_it_is_to() {
    for (execs, wants) in [(0, 0), (1, 6)] {
        let log = bench("forks", &[("parents", 2), ("forks", 3), ("exec", execs)], 1, COSTS);
        let all: Vec<Op> = log.steps.iter().map(|s| s.op).collect();
        assert_eq!(all.iter().filter(|op| **op == Op::Exec).count(), wants);
        let first = |n: u32| log.steps.iter().find(|s| s.task == TaskId(n)).map(|s| s.op);
        assert_eq!(first(2) == Some(Op::Exec), wants > 0);
    }
}
