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
