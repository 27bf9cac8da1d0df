//! schbench's logic on the test rig, compared with D000's source.

use crate::op::{Op, Outcome};
use crate::rig::{Costs, Log, run};
use crate::{Params, Spec};
use schedlab_base::{Ns, TaskId};

const COSTS: Costs = Costs { op: Ns::us(2), wakeup: Ns::us(5), slack: Ns::us(50) };

fn schbench(given: &[(&str, u64)], costs: Costs) -> Log {
    let mut params = Params::default();
    params.0.extend(given.iter().map(|(name, value)| ((*name).to_owned(), *value)));
    run(Spec::bench("schbench", &params).unwrap().build(7).unwrap(), costs)
}

/// Waits of a message thread: start, time-out, end and outcome.
fn hub_waits(log: &Log) -> Vec<(Ns, Ns, Ns, Outcome)> {
    let asked = log.steps_of("message-0").into_iter().filter_map(|s| match s.op {
        Op::Wait { until, .. } => Some((s.at, until)),
        _ => None,
    });
    let back = log.waits.iter().filter(|w| w.0 == TaskId(0));
    asked.zip(back).map(|((at, until), w)| (at, until, w.1, w.2)).collect()
}

#[test]
fn every_sleep_has_fresh_jitter_below_a_quarter_and_the_time_out_has_one() {
    let log = schbench(&[("message_threads", 1), ("threads", 2), ("runtime", 20_000_000_000)], COSTS);
    let sleeps: Vec<u64> = log
        .steps_of("message-0")
        .iter()
        .filter_map(|s| match s.op {
            Op::Sleep { length } => Some(length.0),
            _ => None,
        })
        .collect();
    assert!(sleeps.len() > 200, "{}", sleeps.len());
    assert!(sleeps.iter().all(|s| (30_000_000..37_500_000).contains(s) && s % 1_000 == 0));
    assert!(sleeps.iter().min() < Some(&30_300_000) && sleeps.iter().max() > Some(&37_200_000));
    let outs: Vec<u64> = hub_waits(&log).iter().map(|(at, until, ..)| until.since(*at).0).collect();
    assert!(outs.iter().all(|o| *o == outs[0] && (30_000_000..37_500_000).contains(o)), "{outs:?}");
}

#[test]
fn the_last_to_post_is_woken_first() {
    let log = schbench(&[("message_threads", 1), ("threads", 5), ("runtime", 1_000_000_000)], COSTS);
    // Workers spin, then get on the list at once. So the order of their spins' ends is the order of the list.
    let mut listed: Vec<(Ns, TaskId)> = Vec::new();
    for s in &log.steps {
        if let Op::SpinTo { at } = s.op {
            listed.push((at, s.task));
        }
    }
    let woken: Vec<TaskId> = log.of("schbench.latency").map(|s| s.task).collect();
    let mut lists = 0;
    for (posted, woken) in listed.chunks_exact(5).zip(woken.chunks_exact(5)) {
        assert!(posted.is_sorted());
        assert_eq!(woken, posted.iter().rev().map(|p| p.1).collect::<Vec<_>>());
        lists += 1;
    }
    assert!(lists >= 10, "{lists} lists");
}

#[test]
fn one_stamp_serves_a_list_so_later_ranks_wait_longer() {
    let log = schbench(&[("message_threads", 1), ("threads", 6), ("runtime", 1_000_000_000)], COSTS);
    let latencies = log.values("schbench.latency");
    assert!(latencies.len() >= 60);
    // Rank n is woken by the (n + 1)th wake of 2 us, and runs 5 us later.
    for list in latencies.chunks_exact(6) {
        assert_eq!(list, [7_000, 9_000, 11_000, 13_000, 15_000, 17_000]);
    }
}

#[test]
fn message_threads_have_their_own_workers() {
    let spec =
        Spec::bench("schbench", &Params([("message_threads".into(), 3), ("threads".into(), 4)].into()))
            .unwrap();
    let built = spec.build(1).unwrap();
    assert_eq!(built.tasks.len(), 3 * 5);
    let of = |m: u32| built.tasks.iter().filter(|t| t.spawned_by == Some(TaskId(m))).count();
    assert_eq!([of(0), of(5), of(10)], [4, 4, 4]);
    let log = schbench(&[("message_threads", 3), ("threads", 4), ("runtime", 2_000_000_000)], COSTS);
    for hub in ["message-0", "message-1", "message-2"] {
        let wakes = log.times(hub, |op| matches!(op, Op::Wake { .. })).len();
        assert!((100..=130).contains(&wakes), "{hub}: {wakes} wakes in 2 s of cycles of 64 ms");
    }
    assert_ne!(
        log.times("message-0", |op| matches!(op, Op::Sleep { .. })),
        log.times("message-1", |op| matches!(op, Op::Sleep { .. })),
        "their jitters are independent"
    );
}

#[test]
fn the_first_post_ends_the_message_threads_wait() {
    let log = schbench(&[("message_threads", 1), ("threads", 3), ("runtime", 1_000_000_000)], COSTS);
    let waits = hub_waits(&log);
    assert!(waits.len() > 10);
    let posts: Vec<Ns> =
        log.steps.iter().filter(|s| s.task.0 > 0 && matches!(s.op, Op::Wake { .. })).map(|s| s.at).collect();
    for ((_, until, back, outcome), post) in waits.iter().zip(&posts) {
        assert_eq!((*outcome, *back), (Outcome::Done, *post + Ns::us(7)));
        assert!(back < until);
    }
    assert_eq!(posts.len(), waits.len(), "later posters find it posted and wake nobody");
}

#[test]
fn workers_that_think_too_long_leave_it_to_the_time_out() {
    let given =
        [("message_threads", 1), ("threads", 1), ("cputime", 200_000_000), ("runtime", 1_000_000_000)];
    let outcomes: Vec<Outcome> = hub_waits(&schbench(&given, COSTS)).iter().map(|w| w.3).collect();
    assert!(outcomes.contains(&Outcome::TimedOut), "{outcomes:?}");
}

#[test]
fn a_latency_below_a_microsecond_is_not_recorded() {
    let given = [("message_threads", 1), ("threads", 2), ("runtime", 1_000_000_000)];
    let quick = Costs { op: Ns(300), wakeup: Ns(200), slack: Ns::ZERO };
    // First rank: 300 + 200 ns; second: 600 + 200 ns. Both are below 1 us.
    assert!(schbench(&given, quick).values("schbench.latency").is_empty());
    let slower = Costs { op: Ns(500), ..quick };
    // 700 and 1,200 ns: only the second counts.
    let values = schbench(&given, slower).values("schbench.latency");
    assert!(values.len() > 10 && values.iter().all(|v| *v == 1_200), "{values:?}");
}

#[test]
fn the_think_time_is_spun_on_the_wall_clock() {
    let log = schbench(&[("message_threads", 1), ("threads", 1), ("runtime", 1_000_000_000)], COSTS);
    let spins: Vec<u64> = log
        .steps_of("worker-0-0")
        .iter()
        .filter_map(|s| match s.op {
            Op::SpinTo { at } => Some(at.since(s.at).0),
            _ => None,
        })
        .collect();
    assert!(spins.len() > 10 && spins.iter().all(|s| *s == 30_000_000));
}

#[test]
fn a_cycle_takes_sixty_four_milliseconds() {
    // 30 ms of think time, then 30 to 37.5 ms of sleep with 50 us of slack: 63.8 ms (kernel-independent).
    let log = schbench(&[("message_threads", 1), ("threads", 24), ("runtime", 60_000_000_000)], COSTS);
    let sleeps = log.times("message-0", |op| matches!(op, Op::Sleep { .. }));
    let mean = sleeps[sleeps.len() - 1].since(sleeps[0]).0 / (sleeps.len() as u64 - 1);
    assert!((63_600_000..64_100_000).contains(&mean), "{mean}");
}

#[test]
fn the_same_seed_gives_the_same_run() {
    let given = [("message_threads", 2), ("threads", 3), ("runtime", 1_000_000_000)];
    assert_eq!(schbench(&given, COSTS).steps, schbench(&given, COSTS).steps);
}
