//! Stored runs, simulated again from their records: the waits occur at the same instants, and their chances agree with
//! the stretches of the whole run.

use crate::common::experiment;
use schedlab_base::Ns;
use schedlab_lab::stored::rerun::Rerun;
use schedlab_lab::{Backend, Backends, Executor, Options, plan};
use schedlab_record::Record;
use std::sync::atomic::AtomicBool;

/// Runs in which tasks wait while CPUs are idle: bursts after a warm-up, at drawn costs; a kernel that changes in the
/// middle; pinned tasks; a guest whose CPUs take turns.
const RUNS: [&str; 5] = [
    r#"
name = "bursts"
machines = ["fb-2x12-smt"]
[workload]
name = "schbench"
runtime = "120ms"
warmup = "20ms"
cputime = "2ms"
sleeptime = "3ms"
[[load]]
message_threads = 2
threads = 22
[[variant]]
kernel = "v4.5"
"#,
    r#"
name = "changed"
machines = ["nodes-2x4"]
[workload]
name = "nanosleep"
runtime = "60ms"
tasks = 11
sleep = "300us"
run = "400us"
[[load]]
[[variant]]
kernel = "v6.5"
[[variant.at]]
time = "20ms"
features = ["NO_TTWU_QUEUE"]
"#,
    r#"
name = "pinned"
machines = ["smp-4"]
[workload]
name = "slice"
runtime = "150ms"
tasks = 6
wakers = 2
rate = 1000
wake_work = "100us"
placement = "pinned"
[[load]]
[[variant]]
kernel = "v2.6.30"
"#,
    r#"
name = "late"
machines = ["smt-8"]
[workload]
name = "hackbench"
groups = 1
fds = 4
loops = 30
[[load]]
[[variant]]
kernel = "v6.12"
"#,
    r#"
name = "turns"
machines = ["icount-4"]
[workload]
name = "schbench"
runtime = "80ms"
cputime = "1ms"
sleeptime = "2ms"
[[load]]
message_threads = 1
threads = 6
[[variant]]
kernel = "v6.1"
"#,
];

/// The run of seed 3; the first experiment has drawn costs.
fn made(text: &str) -> Record {
    let p =
        plan(&experiment(text), Backend::Sim, Options::default()).unwrap_or_else(|e| panic!("{e}\n{text}"));
    let mut cell = p.cells[0].clone();
    if text == RUNS[0] {
        cell = cell.with_uncertainty().unwrap();
    }
    let made = Backends::default().run(&cell, 3, &AtomicBool::new(false)).unwrap();
    made.expect("nobody stops it").record
}

#[test]
fn the_waits_occur_again_and_their_chances_agree_with_the_stretches() {
    let go = AtomicBool::new(false);
    let mut waited = 0;
    for text in RUNS {
        let record = made(text);
        assert_eq!(record.drawn.is_empty(), text != RUNS[0]);
        let again = Rerun::of(&record).unwrap();
        let found = again.stretches(1_000_000, &go).unwrap().unwrap();
        let nr_waits = record.found.waits.len().min(60);
        let chances = again.chances(nr_waits, &go).unwrap().unwrap();
        assert_eq!(chances.len(), nr_waits);
        for (wait, chance) in record.found.waits.iter().zip(&chances) {
            let chance = chance.as_ref().unwrap_or_else(|| panic!("{} has no {wait:?}", record.workload));
            let (from, until) = (wait.woken_at.0, wait.woken_at.0 + wait.length_ns);
            let of_wait = found.longest.iter().filter(|s| {
                let task = &record.found.tasks.get(s.task.index());
                task.is_some_and(|t| t.name == wait.task) && s.from >= from && s.until <= until
            });
            let beside_free: u64 = of_wait.map(|s| s.length()).sum();
            // Before the measured time there are no stretches.
            if wait.woken_at >= again.warmup() {
                assert_eq!(chance.free_ns, beside_free, "{}: {wait:?}", record.workload);
                waited += u64::from(beside_free > 0);
            }
            let most = chance.cpus.iter().map(|c| c.free_ns).max().unwrap_or(0);
            assert!(most <= chance.free_ns && chance.free_ns <= wait.length_ns);
        }
    }
    assert!(waited > 20, "only {waited} of the waits had an idle CPU beside them");
}

#[test]
fn stretches_are_split_by_cause_without_rest_and_the_longest_have_their_attempts() {
    let record = made(RUNS[0]);
    let again = Rerun::of(&record).unwrap();
    let found = again.idle_while_waiting(5, &AtomicBool::new(false)).unwrap().unwrap();
    assert_eq!(found.causes.iter().map(|c| c.stretches).sum::<u64>(), found.stretches);
    assert_eq!(found.causes.iter().map(|c| c.time_ns).sum::<u64>(), found.task_time_ns);
    assert!(found.time_ns > 0 && found.time_ns <= found.task_time_ns && found.time_ns <= found.duration_ns);
    assert_eq!(found.longest.len(), 5);
    assert!(found.longest.is_sorted_by_key(|s| std::cmp::Reverse(s.length_ns)));
    for s in &found.longest {
        assert_eq!(s.idle_meanwhile.as_ref().map(|c| c.free_ns), Some(s.length_ns), "{s:?}");
    }
}

#[test]
fn a_run_that_would_differ_is_refused_and_a_stopped_one_is_none() {
    let mut record = made(RUNS[3]);
    // Long enough for the simulator to check the flag.
    let long = made(RUNS[0]);
    let stopped = Rerun::of(&long).unwrap().idle_while_waiting(5, &AtomicBool::new(true)).unwrap();
    assert!(stopped.is_none());
    record.found.waits[0].woken_at = Ns(record.found.waits[0].woken_at.0 + 1);
    let again = Rerun::of(&record).unwrap();
    let chances = again.chances(2, &AtomicBool::new(false)).unwrap().unwrap();
    assert!(chances[0].is_none() && chances[1].is_some(), "no task ran at the first one's end");
    record.model += 1;
    let e = Rerun::of(&record).err().unwrap();
    assert!(e.message().contains("version"), "{e}");
    record.backend = Backend::Host.into();
    assert!(Rerun::of(&record).err().unwrap().message().contains("the host backend"));
}
