//! The estimate of a simulation's memory compared with its real memory.

use crate::common::experiment;
use schedlab_lab::make::memory_estimate::Size;
use schedlab_lab::{Backend, Backends, Executor, Options, plan};
use std::sync::atomic::AtomicBool;

/// The largest resident size of this process so far, bytes.
fn most_resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:")).expect("the kernel tells VmHWM");
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}

/// Simulates once; returns the estimate, and how far the run raised the process's size above `before`.
fn measured(machine: &str, workload: &str, before: u64) -> (u64, u64) {
    let text = format!(
        "name = \"room\"\nruns = 1\nmachines = [\"{machine}\"]\n[workload]\n{workload}\n[[variant]]\nkernel = \"v4.5\"\n"
    );
    let plan = plan(&experiment(&text), Backend::Sim, Options::default()).unwrap();
    let cell = &plan.cells[0];
    let estimate = Size::of(cell.machine.topology.nr_cpus(), &cell.spec.build(1).unwrap()).simulated();
    let made = Backends::default().run(cell, 1, &AtomicBool::new(false)).unwrap();
    assert!(made.is_some());
    (estimate, most_resident() - before)
}

// A single test, since the size is the process's, and each run must take more than those before it.
#[test]
fn an_estimate_is_within_a_factor_of_a_runs_memory() {
    measured("smp-2", "name = \"pipe\"\nloops = 10", 0);
    let before = most_resident();
    let runs = [
        ("smp-1024", "name = \"schbench\"\nmessage_threads = 1\nthreads = 1\nruntime = \"1ms\""),
        ("smp-2", "name = \"schbench\"\nmessage_threads = 2\nthreads = 10000\nruntime = \"10ms\""),
        ("smp-2", "name = \"pipe\"\npairs = 10000\nloops = 1"),
    ];
    for (machine, workload) in runs {
        let (estimate, took) = measured(machine, workload, before);
        println!("{machine}: estimated {} KB, took {} KB", estimate >> 10, took >> 10);
        assert!(
            estimate < 2 * took && took < 2 * estimate,
            "{machine} {workload}: {estimate} and {took} bytes"
        );
    }
}
