//! How tasks start: forked with their parent's properties, then set up by themselves.

use crate::support::{Load, Run, forever, hog, machine, program, run, run_us, sleep_us};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::{EventKind, PlaceReason};
use schedlab_workload::{Op, Program};

const MS: u64 = 1_000_000;

/// Starts a task after `first_us` of work, then computes.
fn spawner(task: TaskId, first_us: u64) -> Box<dyn Program> {
    let mut at = 0;
    program(move |_| {
        at += 1;
        match at {
            1 => run_us(first_us),
            2 => Op::Spawn { task },
            _ => Op::Run { work: Ns::secs(3600) },
        }
    })
}

/// A parent and its child, the first tasks of a load, on the given CPUs.
fn family(load: &mut Load, on: [Option<&str>; 2]) -> [TaskId; 2] {
    let [parent, child] = [TaskId(0), TaskId(1)];
    assert_eq!(parent, load.task("parent", on[0], spawner(child, 3_000)));
    assert_eq!(child, load.task("child", on[1], hog()));
    load.builder.edit(child).spawned_by = Some(parent);
    [parent, child]
}

/// When a task first ran, ns.
fn first_run(run: &Run, task: TaskId) -> Option<u64> {
    let switched_to = |kind: EventKind| matches!(kind, EventKind::Switch { next, .. } if next == Some(task));
    run.events(|e| switched_to(e.kind).then_some(e.at.0)).first().copied()
}

/// The CPUs that a task ran on, in order.
fn ran_on(run: &Run, task: TaskId) -> Vec<u32> {
    let mut all = run.events(|e| match e.kind {
        EventKind::Switch { next, .. } if next == Some(task) => Some(e.cpu.0),
        _ => None,
    });
    all.dedup();
    all
}

#[test]
fn a_pinned_child_is_born_where_its_parent_may_run_and_goes_to_its_own_cpus() {
    for version in ["v2.6.30", "v4.5", "v6.1", "v6.12", "v7.3"] {
        let mut load = Load::lasting_ms(50);
        let [_, child] = family(&mut load, [Some("0-1"), Some("3")]);
        let run = run(&machine("smp-4"), version, load);
        assert_eq!(run.placements(child)[0].2, PlaceReason::IdlestFork, "{version}");
        let on = ran_on(&run, child);
        assert!(on[0] < 2 && on.last() == Some(&3), "{version}: {on:?}");
    }
}

#[test]
fn the_child_of_a_pinned_parent_is_born_on_its_cpu_and_may_leave_then() {
    for version in ["v2.6.30", "v4.5", "v6.1", "v6.12", "v7.3"] {
        let mut load = Load::lasting_ms(400);
        let [_, child] = family(&mut load, [Some("2"), None]);
        let run = run(&machine("smp-4"), version, load);
        assert_eq!(run.placements(child)[0].1, 2, "{version}");
        let on = ran_on(&run, child);
        assert!(on[0] == 2 && on.last() != Some(&2), "{version}: {on:?}");
    }
}

#[test]
fn a_real_time_child_is_a_fair_task_until_it_has_run() {
    let urgent = Attr { policy: Policy::Fifo, rt_priority: 5, ..Attr::default() };
    for version in ["v4.5", "v6.1"] {
        let mut load = Load::lasting_ms(50);
        let [_, child] = family(&mut load, [Some("0"), Some("0")]);
        load.attr(child, urgent);
        let run = run(&machine("smp-2"), version, load);
        let born = run.placements(child)[0].0;
        let first = first_run(&run, child).expect("it ran");
        assert!(first > born + MS && first < born + 30 * MS, "{version}: born at {born}, ran at {first}");
        // Then it runs before all others, to the end.
        assert!(run.cpu_ns(child) > 10 * MS, "{version}: {} ns", run.cpu_ns(child));
    }
}

#[test]
fn a_light_task_that_exists_from_the_start_runs_soon() {
    for version in ["v2.6.30", "v3.4", "v4.5", "v6.1", "v6.5", "v6.12", "v6.18", "v7.3"] {
        for attr in [Attr::nice(19), Attr { policy: Policy::Idle, ..Attr::default() }] {
            let mut load = Load::lasting_ms(100);
            load.task("hog", Some("1"), hog());
            let light = load.task("light", Some("1"), forever(vec![run_us(10), sleep_us(10_000)]));
            load.attr(light, attr);
            let run = run(&machine("smp-8"), version, load);
            let first = first_run(&run, light);
            // At most a slice of the hog and a tick; 80 ms on 8 CPUs in 2.6.30.
            let latest = if version == "v2.6.30" { 84 * MS } else { 48 * MS };
            assert!(first.is_some_and(|at| at <= latest), "{version}, {attr:?}: it first runs at {first:?}");
        }
    }
}
