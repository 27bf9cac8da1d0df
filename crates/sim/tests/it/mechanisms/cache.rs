//! Private caches: a task that comes back pays for the data that others displaced, and no other task pays.

use crate::support::{Load, forever, kernel, machine, once, run, run_seeded, run_us, sleep_us};
use schedlab_base::{Ns, TaskId};
use schedlab_machine::Machine;
use schedlab_workload::Op;

/// Memory fetched again when a task with a set of `set` KB sleeps on CPU 0 while another goes over `other` KB there.
fn fetched_kb(m: &Machine, set: u32, other: u32, on: &str) -> u64 {
    let mut load = Load::lasting_ms(40);
    let passes = |kb| Op::Touch { kb, rounds: 20 };
    let first = load.task("first", Some("0"), once(vec![passes(set), sleep_us(20_000), passes(set)]));
    load.builder.edit(first).footprint_kb = set;
    let second = load.task("second", Some(on), once(vec![sleep_us(5_000), passes(other)]));
    load.builder.edit(second).footprint_kb = other;
    run(m, "v4.5", load).counter("refill.time") / m.costs.refill_near_ns_per_kb
}

#[test]
fn data_that_do_not_fit_in_next_to_others_are_fetched_again() {
    let m = machine("smp-2");
    assert_eq!(m.costs.private_cache_kb, 256);
    let here = |set, other| fetched_kb(&m, set, other, "0");
    assert_eq!([here(100, 100), here(100, 156), here(100, 200), here(100, 250)], [0, 0, 44, 94]);
    assert_eq!([here(100, 4_000), here(256, 16), here(4_000, 100)], [100, 16, 100], "at most the cache");
    assert_eq!(fetched_kb(&m, 100, 250, "1"), 0, "another core has another cache");
    assert_eq!(fetched_kb(&machine("smt-4"), 100, 250, "2"), 94, "a sibling has not");
}

#[test]
fn work_without_memory_displaces_but_does_not_pay() {
    let m = machine("smp-2");
    let seen = |ops: Vec<Op>| {
        let mut load = Load::lasting_ms(40);
        let first = load.task("first", Some("0"), forever(ops));
        load.builder.edit(first).footprint_kb = 256;
        load.task("other", Some("0"), forever(vec![run_us(40), sleep_us(960)]));
        let seen = run(&m, "v4.5", load);
        (seen.counter("refill.time"), seen.cpu_ns(TaskId(1)))
    };
    assert_eq!(seen(vec![run_us(100)]).0, 0);
    let (refill, other) = seen(vec![Op::Touch { kb: 256, rounds: 100 }]);
    // The other task touches a KB per `warm_ns_per_kb` of its work, and each KB displaces other data.
    let displaced = other / m.costs.warm_ns_per_kb * m.costs.refill_near_ns_per_kb;
    assert!(refill > displaced / 2 && refill < displaced * 3 / 2, "{refill} for {displaced}");
}

#[test]
fn short_slices_cost_work() {
    // Two tasks that together are larger than the cache, taking turns every 1 or 2 ms, or every 8.
    let m = machine("smp-2");
    let work = |slice: Ns| {
        let mut load = Load::lasting_ms(1_000);
        for name in ["a", "b"] {
            let task = load.task(name, Some("0"), forever(vec![Op::Touch { kb: 256, rounds: 65 }]));
            load.builder.edit(task).footprint_kb = 256;
        }
        let mut kernel = kernel("v4.5");
        (kernel.tunables.hz, kernel.tunables.min_granularity_ns) = (1_000, slice.0);
        kernel.tunables.sched_latency_ns = 2 * slice.0;
        let seen = run_seeded(&m, kernel, 1, load);
        (seen.counter("work"), seen.counter("refill.time"))
    };
    let ((short, refilled_short), (long, refilled_long)) = (work(Ns::us(250)), work(Ns::ms(4)));
    assert!(refilled_short > 5 * refilled_long, "{refilled_short} {refilled_long}");
    // 256 KB at 160 ns each are 41 us: 2 to 4 % of the short slices, 0.5 % of slices of 8 ms.
    let gain = (long - short) * 1_000 / short;
    assert!((15..45).contains(&gain), "{gain} per mille");
}
