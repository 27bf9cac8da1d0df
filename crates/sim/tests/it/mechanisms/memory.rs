//! Working sets in a machine's caches: a moved task pays once for its data, neighbours evict each other, and cutoffs by
//! distance decide which tasks are hot.

use crate::support::{
    Load, Run, cpus, forever, kernel, machine, once, run, run_seeded, sleep_us, with_caches,
};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::Kernel;
use schedlab_machine::Machine;
use schedlab_trace::EventKind;
use schedlab_workload::Op;

/// Two packages of 12 cores with two threads: CPUs 1 and 24 are neighbour and sibling of CPU 0, CPU 12 is far.
fn packages() -> Machine {
    with_caches(&machine("fb-2x12-smt"))
}

fn touch(kb: u32) -> Op {
    Op::Touch { kb, rounds: 1 }
}

/// KB by the place where they were found: own caches, near, far, memory.
fn sources(run: &Run) -> [u64; 4] {
    ["own", "near", "far", "memory"].map(|from| run.counter(&format!("touched.{from}")))
}

/// A task goes over its 60 KB on CPU 0, then twice over the first 20 KB of them on another CPU.
fn moved(m: &Machine, to: &str) -> Run {
    let mut load = Load::lasting_ms(40);
    let mask = load.builder.mask(cpus(to));
    let ops = vec![touch(60), Op::SetAffinity { mask }, touch(20), touch(20)];
    let task = load.task("moves", Some("0"), once(ops));
    load.builder.edit(task).footprint_kb = 60;
    run(m, "v4.5", load)
}

#[test]
fn a_moved_task_pays_once_for_the_data_it_touches() {
    let m = packages();
    // A hit in the core's cache takes 50 ns a KB, in the last-level cache 150.
    let beyond = |refill: u64| 150 + refill - 50;
    let first = 60 * beyond(m.costs.memory_ns_per_kb);
    let seen = |to: &str| {
        let run = moved(&m, to);
        (sources(&run), run.counter("refill.time") - first)
    };
    assert_eq!(seen("0"), ([40, 0, 0, 60], 0));
    assert_eq!(seen("24"), ([40, 0, 0, 60], 0), "siblings share");
    let near = 20 * beyond(m.costs.refill_near_ns_per_kb);
    assert_eq!(seen("1"), ([20, 20, 0, 60], near), "from the core's own cache");
    assert_eq!(seen("12"), ([20, 0, 20, 60], 20 * beyond(m.costs.refill_far_ns_per_kb)), "not the other 40");
}

#[test]
fn the_hierarchy_gives_the_time_of_a_touch() {
    let m = packages();
    let length = |to: &str| {
        let stays = moved(&m, to).stays(TaskId(0));
        stays.iter().map(|(from, until)| until - from).sum::<u64>()
    };
    let far = 20 * (100 + m.costs.refill_far_ns_per_kb);
    assert_eq!(length("12") - length("24"), far);
}

#[test]
fn a_large_set_evicts_its_neighbours_from_the_shared_cache() {
    let from_memory = |on: &str, other_kb: u32| {
        let mut load = Load::lasting_ms(100);
        let task = load.task("small", Some("0"), forever(vec![touch(60), sleep_us(1_000)]));
        load.builder.edit(task).footprint_kb = 60;
        let other = load.task("large", Some(on), once(vec![Op::Touch { kb: other_kb, rounds: 50 }]));
        load.builder.edit(other).footprint_kb = other_kb;
        let run = run(&packages(), "v4.5", load);
        sources(&run)[3] - u64::from(other_kb)
    };
    assert_eq!(from_memory("1", 100), 60, "both fit in: each KB once");
    assert_eq!(from_memory("12", 100), 60);
    let evicted = from_memory("1", 1_000) - 49 * 1_000;
    assert!(evicted > 10 * 60, "larger than the cache: {evicted} KB fetched again");
    assert_eq!(from_memory("12", 1_000) - 49 * 1_000, 60, "another package has a cache of its own");
}

#[test]
fn computing_pays_for_a_move_bit_by_bit() {
    // A KB per 2 us of work: the move costs 20 KB to a task that computes for 40 us, and all 60 to one that continues.
    let m = packages();
    let far_kb = |us: u64| {
        let mut load = Load::lasting_ms(40);
        let mask = load.builder.mask(cpus("12"));
        let run_us = |us| Op::Run { work: Ns::us(us) };
        let task =
            load.task("moves", Some("0"), once(vec![run_us(1_000), Op::SetAffinity { mask }, run_us(us)]));
        load.builder.edit(task).footprint_kb = 60;
        sources(&run(&m, "v4.5", load))[2]
    };
    assert_eq!(far_kb(1_000), 60);
    assert!((12..=20).contains(&far_kb(40)), "{} KB", far_kb(40));
}

#[test]
fn machines_without_caches_have_no_such_counts() {
    let run = moved(&machine("fb-2x12-smt"), "12");
    assert!(!run.report.found.counters.contains_key("touched.own"));
    assert!(run.counter("refill.time") > 0);
}

/// Moves of tasks that compute and sleep, four for each of two CPUs.
fn moves(kernel: Kernel) -> Vec<(u64, u32)> {
    let mut load = Load::lasting_ms(2_000);
    for i in 0..8 {
        let compute = Op::Run { work: Ns::us(3_000 + 170 * i) };
        load.task("naps", None, forever(vec![compute, sleep_us(2_000 + 110 * i)]));
    }
    run_seeded(&machine("smp-2"), kernel, 1, load).events(|e| match e.kind {
        EventKind::Migrate { task, .. } => Some((e.at.0, task.0)),
        _ => None,
    })
}

#[test]
fn sd_cache_hot_takes_cutoffs_by_distance_in_later_kernels() {
    for version in ["v3.4", "v6.5"] {
        let cutoffs = |kernel| Kernel { cutoffs: Some(vec![Some(1_000_000_000); 4].into()), ..kernel };
        let (plain, on) = (kernel(version), kernel(&format!("{version} SD_CACHE_HOT")));
        let usual = moves(plain);
        assert_eq!(moves(cutoffs(plain)), usual, "{version}: nothing asks for them");
        assert_eq!(moves(on), usual, "{version}: there are none");
        let hot = moves(cutoffs(on)).len();
        assert!(hot < usual.len(), "{version}: {hot} moves, {} without", usual.len());
    }
}
