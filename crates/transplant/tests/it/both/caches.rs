//! Private caches, and working sets in a machine's caches: who pays for data that are elsewhere, and how much.

use super::support::{Load, Run, cpus, forever, machine, run_us, sleep_us, with_caches};
use super::{On, on_both, touch, with_memory};
use schedlab_machine::Machine;
use schedlab_workload::Op;

/// Memory fetched again when a task with a set of `set` KB sleeps on CPU 0 while another goes over `other` KB on `cpu`.
fn fetched_kb(on: &mut On, name: &str, set: u32, other: u32, cpu: &str) -> u64 {
    let (m, mut load) = (machine(name), Load::lasting_ms(40));
    with_memory(&mut load, "0", set, vec![touch(set, 20), sleep_us(20_000), touch(set, 20)]);
    with_memory(&mut load, cpu, other, vec![sleep_us(5_000), touch(other, 20)]);
    on.figures(&m, load, |run| vec![run.counter("refill.time")])[0] / m.costs.refill_near_ns_per_kb
}

#[test]
fn data_that_do_not_fit_in_beside_others_are_fetched_again() {
    on_both("both::caches::data_that_do_not_fit_in_beside_others_are_fetched_again", &["v4.5"], |on| {
        assert_eq!(machine("smp-2").costs.private_cache_kb, 256);
        let fetched = [(100, 100), (100, 156), (100, 200), (100, 250), (100, 4_000), (256, 16), (4_000, 100)]
            .map(|(set, other)| fetched_kb(on, "smp-2", set, other, "0"));
        assert_eq!(fetched, [0, 0, 44, 94, 100, 16, 100], "at most the cache");
        assert_eq!(fetched_kb(on, "smp-2", 100, 250, "1"), 0, "another core has another cache");
        assert_eq!(fetched_kb(on, "smt-4", 100, 250, "2"), 94, "a sibling has not");
    });
}

#[test]
fn work_without_memory_displaces_but_does_not_pay() {
    on_both("both::caches::work_without_memory_displaces_but_does_not_pay", &["v4.5"], |on| {
        let m = machine("smp-2");
        let mut seen = |op: Op| {
            let mut load = Load::lasting_ms(40);
            let first = load.task("first", Some("0"), forever(vec![op]));
            load.builder.edit(first).footprint_kb = 256;
            let other = load.task("other", Some("0"), forever(vec![run_us(40), sleep_us(960)]));
            on.figures(&m, load, |run| vec![run.counter("refill.time"), run.cpu_ns(other)])
        };
        assert_eq!(seen(run_us(100))[0], 0);
        let seen = seen(touch(256, 100));
        // The other task touches a KB in each `warm_ns_per_kb` of its work, and all of these KB displace others.
        let displaced = seen[1] / m.costs.warm_ns_per_kb * m.costs.refill_near_ns_per_kb;
        assert!(seen[0] > displaced / 2 && seen[0] < displaced * 3 / 2, "{seen:?} for {displaced}");
    });
}

/// Two packages of 12 cores with two threads: CPUs 1 and 24 are neighbour and sibling of CPU 0, CPU 12 is far.
fn packages() -> Machine {
    with_caches(&machine("fb-2x12-smt"))
}

/// KB by where they were found (own caches, near, far, memory), and the time of refills.
fn sources(run: &Run) -> Vec<u64> {
    ["touched.own", "touched.near", "touched.far", "touched.memory", "refill.time"]
        .map(|name| run.counter(name))
        .into()
}

/// A task with a set of 60 KB does `before` on CPU 0 and `after` on another CPU.
fn moved(on: &mut On, to: &str, before: Op, after: Vec<Op>) -> Vec<u64> {
    let mut load = Load::lasting_ms(40);
    let mask = load.builder.mask(cpus(to));
    with_memory(&mut load, "0", 60, [vec![before, Op::SetAffinity { mask }], after].concat());
    on.figures(&packages(), load, sources)
}

#[test]
fn a_moved_task_pays_once_for_what_it_touches() {
    on_both("both::caches::a_moved_task_pays_once_for_what_it_touches", &["v4.5"], |on| {
        let costs = packages().costs;
        // A hit in the core's cache takes 50 ns a KB, in the last-level cache 150.
        let beyond = |refill: u64| 150 + refill - 50;
        let first = 60 * beyond(costs.memory_ns_per_kb);
        let mut seen = |to| moved(on, to, touch(60, 1), vec![touch(20, 1); 2]);
        assert_eq!(seen("0"), [40, 0, 0, 60, first]);
        assert_eq!(seen("24"), [40, 0, 0, 60, first], "siblings share");
        let near = 20 * beyond(costs.refill_near_ns_per_kb);
        assert_eq!(seen("1"), [20, 20, 0, 60, first + near], "from the core's own cache");
        let far = 20 * beyond(costs.refill_far_ns_per_kb);
        assert_eq!(seen("12"), [20, 0, 20, 60, first + far], "not the other 40");
    });
}

#[test]
fn computing_pays_for_a_move_bit_by_bit() {
    on_both("both::caches::computing_pays_for_a_move_bit_by_bit", &["v4.5"], |on| {
        // A KB in 2 us of work: the move of a task that computes for 40 us costs 20 KB, of one that continues all of
        // its 60.
        let mut far_kb = |us| moved(on, "12", run_us(1_000), vec![run_us(us)])[2];
        assert_eq!(far_kb(1_000), 60);
        let (kb, most) = (far_kb(40), 20);
        assert!((12..=most).contains(&kb), "{kb} KB");
    });
}

#[test]
fn a_large_set_evicts_its_neighbours_from_the_shared_cache() {
    on_both("both::caches::a_large_set_evicts_its_neighbours_from_the_shared_cache", &["v4.5"], |on| {
        let mut from_memory = |cpu: &str, other_kb: u32| {
            let mut load = Load::lasting_ms(100);
            let task = load.task("small", Some("0"), forever(vec![touch(60, 1), sleep_us(1_000)]));
            load.builder.edit(task).footprint_kb = 60;
            with_memory(&mut load, cpu, other_kb, vec![touch(other_kb, 50)]);
            on.figures(&packages(), load, sources)[3] - u64::from(other_kb)
        };
        assert_eq!(from_memory("1", 100), 60, "both fit in: each KB once");
        assert_eq!(from_memory("12", 100), 60);
        let evicted = from_memory("1", 1_000) - 49 * 1_000;
        assert!(evicted > 10 * 60, "larger than the cache: {evicted} KB fetched again");
        assert_eq!(from_memory("12", 1_000) - 49 * 1_000, 60, "another package has a cache of its own");
    });
}
