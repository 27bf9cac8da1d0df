//! Today's schbench on the rig: requests, locks, pace.

use super::lock::SPIN;
use crate::op::Op;
use crate::rig::{Costs, CpuOf, Log, bench, run_on, spec};
use schedlab_base::{CpuId, Ns, TaskId};

const COSTS: Costs = Costs { op: Ns::us(1), wakeup: Ns::us(4), slack: Ns::us(50) };
const NAME: &str = "schbench-modern";

fn modern(given: &[(&str, u64)]) -> Log {
    bench(NAME, given, 1, COSTS)
}
/// All workers see themselves on the CPUs given by `cpu_of`.
fn modern_on(given: &[(&str, u64)], cpu_of: CpuOf) -> Log {
    run_on(spec(NAME, given).build(1).unwrap(), COSTS, cpu_of)
}
/// A task's operations as letters.
fn letters(log: &Log, name: &str) -> String {
    let letter = |op: Op| match op {
        Op::Wake { .. } => 'p',
        Op::Wait { .. } => 'w',
        Op::Sleep { .. } => 's',
        Op::SpinTo { .. } => 'x',
        Op::Touch { .. } => 't',
        _ => '?',
    };
    log.steps_of(name).iter().map(|s| letter(s.op)).collect()
}

#[test]
fn a_request_is_a_sleep_and_the_matrices() {
    let log = modern(&[("threads", 1), ("operations", 3), ("runtime", 5_000_000)]);
    let all = letters(&log, "worker-0-0");
    assert!(all.starts_with("pwstttpwsttt"), "{all}");
    // An edge of 104 elements: 104 rounds over the 256 KB.
    let touch = log.steps_of("worker-0-0")[3].op;
    assert_eq!(touch, Op::Touch { kb: 256, rounds: 104 });
    // 1 + 100 + 50 + 4 us of sleep, three calls of 1 us, and 256 KB x 104 at 1 ns each.
    let expected = 155_000 + 3 * (1_000 + 256 * 104);
    assert!(log.values("schbench-modern.request_latency").iter().all(|l| *l == expected));
}

#[test]
fn a_list_has_one_stamp_and_the_last_to_come_is_woken_first() {
    let log = modern(&[("threads", 4), ("operations", 0), ("sleep_usec", 0), ("runtime", 20_000_000)]);
    let values = log.values("schbench-modern.wakeup_latency");
    // The message thread's call and the wakeup; one more call for each worker woken before.
    assert!(values.len() > 1_000 && values.iter().all(|v| *v >= 5_000 && *v % 1_000 == 0), "{values:?}");
    assert!(values.iter().any(|v| *v > 5_000));
}

#[test]
fn workers_of_one_cpu_spin_for_its_lock() {
    let given = [("threads", 2), ("runtime", 20_000_000)];
    let apart = modern_on(&given, |task, _| CpuId(task.0));
    let together = modern_on(&given, |_, _| CpuId(3));
    let spins = |log: &Log| log.steps.iter().filter(|s| matches!(s.op, Op::SpinTo { .. })).count();
    assert_eq!(spins(&apart), 0);
    assert!(spins(&together) > 100);
    // Two workers' matrices under one lock never overlap.
    let mut touches: Vec<(Ns, TaskId)> =
        together.steps.iter().filter(|s| matches!(s.op, Op::Touch { .. })).map(|s| (s.at, s.task)).collect();
    touches.sort_unstable();
    for request in touches.chunks_exact(5) {
        assert!(request.iter().all(|t| t.1 == request[0].1), "{request:?}");
    }
    let without = modern_on(&[("threads", 2), ("no_locking", 1), ("runtime", 20_000_000)], |_, _| CpuId(3));
    assert_eq!(spins(&without), 0);
    assert_eq!(SPIN, Ns::us(1));
}

#[test]
fn a_worker_that_was_moved_while_it_took_the_lock_starts_over() {
    // Every other look finds another CPU: CPU 0's lock is taken, its CPU left, it is released, the other's lock is
    // taken.
    let log = modern_on(&[("threads", 3), ("runtime", 20_000_000)], |_, look| {
        CpuId(if look % 3 == 1 { 0 } else { 1 })
    });
    assert!(log.values("schbench-modern.request_latency").len() > 30);
    assert!(log.stuck.iter().all(|t| *t == TaskId(0)), "but for the message thread: {:?}", log.stuck);
}

#[test]
fn paced_requests_come_evenly_and_each_is_answered_once() {
    let given = [("threads", 4), ("rps", 1_000), ("operations", 1), ("runtime", 2_000_000_000)];
    let log = modern(&given);
    // The message thread wakes at each whole millisecond, late by less than a wakeup plus the slack.
    let wakes = log.times("message-0", |op| matches!(op, Op::Wake { .. }));
    assert!((1_990..2_000).contains(&wakes.len()), "{}", wakes.len());
    for (k, at) in wakes.iter().enumerate().skip(1) {
        let late = at.since(Ns::ms(k as u64 + 1));
        assert!(late <= Ns::us(55), "request {k} is {late} late");
    }
    // From the due time: up to 54 us until the message thread runs, then 5 us, then the request.
    let service = 155_000 + 1_000 + 256 * 104;
    let values = log.values("schbench-modern.request_latency");
    assert!(values[4..].iter().all(|v| (service..service + 70_000).contains(v)), "{values:?}");
    assert_eq!(values.len(), wakes.len());
    assert!(log.values("schbench-modern.wakeup_latency").iter().all(|v| *v == 5_000));
}

#[test]
fn message_threads_take_turns_at_the_pace() {
    let given = [("message_threads", 4), ("threads", 2), ("rps", 400), ("runtime", 1_000_000_000)];
    let log = modern(&given);
    let mut all: Vec<Ns> =
        (0..4).flat_map(|m| log.times(&format!("message-{m}"), |op| matches!(op, Op::Wake { .. }))).collect();
    all.sort_unstable();
    assert!((395..=400).contains(&all.len()), "{}", all.len());
    assert!(all.windows(2).all(|w| w[1].since(w[0]) > Ns::us(2_400)), "no two at once");
}

#[test]
fn too_many_requests_wait_in_the_queue_and_their_latency_shows_it() {
    // One worker needs 180 us per request, and one is due every 100 us: the queue grows, and no request is skipped.
    let given = [("threads", 1), ("rps", 10_000), ("operations", 1), ("runtime", 200_000_000)];
    let values = modern(&given).values("schbench-modern.request_latency");
    assert!(values.len() > 1_000 && values.is_sorted());
    assert!(values[values.len() - 1] > 80_000_000, "{:?}", values.last());
}

#[test]
fn requests_per_second_are_counted_each_second() {
    let given = [("threads", 2), ("rps", 500), ("operations", 1), ("runtime", 4_500_000_000)];
    let rps = modern(&given).values("schbench-modern.rps");
    assert_eq!(rps.len(), 4);
    assert!(rps.iter().all(|r| (497..=501).contains(r)), "{rps:?}");
}

#[test]
fn the_same_seed_gives_the_same_run_and_tasks_are_as_asked() {
    let given = [("message_threads", 2), ("threads", 3), ("runtime", 20_000_000)];
    assert_eq!(modern(&given).steps, modern(&given).steps);
    let built =
        spec(NAME, &[("message_threads", 2), ("threads", 3), ("cache_footprint", 64)]).build(1).unwrap();
    assert_eq!(built.tasks.len(), 2 * 4 + 1);
    let spawned: Vec<u32> = built.tasks.iter().filter_map(|t| t.spawned_by).map(|t| t.0).collect();
    assert_eq!(spawned, [0, 0, 0, 4, 4, 4]);
    assert!(built.tasks[1].footprint_kb == 64 && !built.processes);
    let too_many = crate::rig::refused(NAME, &[("message_threads", 100), ("threads", 1_000)]);
    assert!(too_many.starts_with("message_threads = 100 with threads = 1000 each makes 100101 tasks"));
}
