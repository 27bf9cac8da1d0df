//! Balancing by last-level caches (SCHED_CACHE, 7.2): it gets its data from the shims, and it acts.

use crate::again::{Asked, machine, works_as};
use crate::engine::{Engine, Program};
use schedlab_transplant::abi::kind;
use schedlab_transplant::load::{Image, Machine, NewTask};

const MS: u64 = 1_000_000;
const THREADS: usize = 3;

/// One node with caches of eight CPUs each.
fn caches(count: u32) -> Machine {
    let one = machine(1, 8 * count, 1);
    let llc = one.node.iter().enumerate().map(|(cpu, _)| cpu as u32 / 8).collect();
    Machine { llc, ..one }
}

/// Processes of three threads, each started on a cache of its own. Prints for each process how many of 100 samples
/// found all its threads in one cache; then the caches of their first threads at the end.
fn gathered(mut image: Image, processes: usize) {
    image.guard().unwrap();
    let mut engine = Engine::new(image, caches(4));
    if std::env::var_os("SCHEDLAB_TEST_OFF").is_some() {
        engine.image.set_tunable("llc_balancing/enabled", "0").unwrap();
    }
    let mut threads: Vec<Vec<i32>> = Vec::new();
    for process in 0..processes {
        let mut pids = Vec::new();
        for thread in 0..THREADS {
            let tgid = pids.first().copied().unwrap_or(0);
            let new = NewTask { mm: 1 + process as u32, tgid, ..Engine::fair("thread", None) };
            let program = Program { run: 3 * MS + 100_000 * thread as u64, sleep: 300_000 };
            pids.push(engine.start(&new, program, 8 * thread + process));
        }
        threads.push(pids);
    }
    engine.run(1000 * MS);
    let mut together = vec![0; processes];
    let cache_of = |engine: &mut Engine, pid: i32| engine.image.usage(pid).cpu / 8;
    for _ in 0..100 {
        engine.run(10 * MS);
        for (process, pids) in threads.iter().enumerate() {
            let first = cache_of(&mut engine, pids[0]);
            together[process] += u32::from(pids.iter().all(|pid| cache_of(&mut engine, *pid) == first));
        }
    }
    let words = |all: &[u32]| all.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    println!("= {}", words(&together));
    let ends: Vec<u32> = threads.iter().map(|pids| cache_of(&mut engine, pids[0]) as u32).collect();
    println!("= {}", words(&ends));
}

fn run(
    test: &str,
    variables: &'static [(&'static str, &'static str)],
    processes: usize,
) -> Option<Vec<Vec<u32>>> {
    let asked = Asked { series: Some("7.3"), variables, ..Asked::default() };
    let said = works_as(test, asked, |image| gathered(image, processes))?;
    Some(said.iter().map(|line| line.split(' ').map(|word| word.parse().unwrap()).collect()).collect())
}

const OFF: &[(&str, &str)] = &[("SCHEDLAB_TEST_OFF", "1")];

#[test]
fn threads_of_a_process_gather_in_one_cache_if_the_feature_is_on() {
    let test = "caches::threads_of_a_process_gather_in_one_cache_if_the_feature_is_on";
    let Some(on) = run(test, &[], 1) else { return };
    let Some(off) = run(test, OFF, 1) else { return };
    assert!(on[0][0] >= 95, "{on:?}");
    assert!(off[0][0] <= 5, "{off:?}");
}

/// A cache has room for the threads of two processes: three quarters of its CPUs.
#[test]
fn most_of_four_processes_gather_and_no_cache_has_more_than_two() {
    let test = "caches::most_of_four_processes_gather_and_no_cache_has_more_than_two";
    let Some(on) = run(test, &[], 4) else { return };
    assert_eq!(run(test, &[], 4), Some(on.clone()), "equal runs are equal");
    let homes: Vec<u32> = (0..4).filter(|p| on[0][*p] >= 95).map(|p| on[1][p]).collect();
    assert!(homes.len() >= 3, "{on:?}");
    assert!((0..4).all(|cache| homes.iter().filter(|home| **home == cache).count() <= 2), "{on:?}");
    let Some(off) = run(test, OFF, 4) else { return };
    assert!(off[0].iter().filter(|samples| **samples >= 95).count() <= 1, "{off:?}");
}

/// Processes that exit give back all data that the kernel keeps about each on every CPU.
#[test]
fn more_processes_come_and_go_than_fit_at_a_time() {
    let test = "caches::more_processes_come_and_go_than_fit_at_a_time";
    let asked = Asked { series: Some("7.3"), ..Asked::default() };
    let said = works_as(test, asked, |image| {
        let mut engine = Engine::new(image, caches(2));
        let program = Program { run: MS, sleep: 0 };
        for process in 0..20_000 {
            let pid =
                engine.start(&NewTask { mm: process + 1, ..Engine::fair("process", Some(&[1])) }, program, 0);
            engine.run(100_000);
            assert_eq!(engine.verb(0, |image| image.current()), pid);
            engine.verb(0, |image| image.exit());
        }
        println!("= {}", engine.notes.iter().filter(|n| n.kind == kind::EXIT).count());
    });
    let Some(said) = said else { return };
    assert_eq!(said, ["20000"]);
}
