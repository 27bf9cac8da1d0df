//! The O(1) scheduler, before 2.6.23: slices by nice value, the bonus of sleepers, the two arrays, wake_idle, cache-hot
//! tasks, balancing by every CPU, ticks that run timers.
//!
//! v2.6.12 has HZ 1000, v2.6.18 HZ 250. A slice is 100 ms at nice 0.

use crate::support::{Load, Run, forever, hog, kernel, machine, program, run, run_seeded, run_us, sleep_us};
use proptest::prelude::*;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::{Attr, Kernel, Policy};
use schedlab_trace::{EventKind, MoveReason};
use schedlab_workload::{Op, Program, WordId};

const BOTH: [&str; 2] = ["v2.6.12", "v2.6.18"];
const MS: u64 = 1_000_000;

/// Tasks on CPU 0 for `ms`, after a second of warm-up.
fn on_one_cpu(ms: u64) -> Load {
    let mut load = Load::lasting_ms(1);
    load.builder.lasts(Ns::ms(ms), Ns::secs(1));
    load
}

fn nice(load: &mut Load, nice: i8) -> TaskId {
    let task = load.task("hog", Some("0"), hog());
    load.attr(task, Attr::nice(nice))
}

fn ms(run: &Run, task: TaskId) -> u64 {
    run.cpu_ns(task) / MS
}

#[test]
fn equal_hogs_get_equal_time_in_slices_of_100_ms() {
    for profile in BOTH {
        let mut load = on_one_cpu(20_000);
        let tasks = [0; 4].map(|n| nice(&mut load, n));
        let run = run(&machine("smp-2"), profile, load);
        let got = tasks.map(|t| ms(&run, t));
        assert!(got.iter().all(|ms| ms.abs_diff(5_000) <= 100), "{profile}: {got:?}");
        // The first stays are shorter: hogs begin with the rest of their parent's slice.
        let stays = run.stays(tasks[1]);
        let slices = stays.iter().map(|(from, to)| (to - from) / MS).filter(|ms| *ms >= 99).count();
        assert!(slices * 10 >= stays.len() * 9, "{profile}: {stays:?}");
    }
}

#[test]
fn time_follows_slices_by_nice_value() {
    for profile in BOTH {
        let mut load = on_one_cpu(30_000);
        let tasks = [0, 10, 19].map(|n| nice(&mut load, n));
        let run = run(&machine("smp-2"), profile, load);
        // 100, 50 and 5 ms of 155; HZ 250 gives 12 and 1 ticks of 4 ms.
        let want = if profile == "v2.6.12" { [100, 50, 5] } else { [100, 48, 4] };
        let (sum, got) = (want.iter().sum::<u64>(), tasks.map(|t| ms(&run, t)));
        for (got, want) in got.iter().zip(want.map(|w| 30_000 * w / sum)) {
            assert!(got.abs_diff(want) <= 200, "{profile}: {got} ms instead of {want}");
        }
    }
}

/// A task that runs 1 ms and sleeps 20, among three hogs on one CPU.
fn sleeper(profile: &str) -> (Run, TaskId) {
    let mut load = on_one_cpu(10_000);
    (0..3).for_each(|_| {
        nice(&mut load, 0);
    });
    let task = load.task("sleeper", Some("0"), forever(vec![run_us(1_000), sleep_us(20_000)]));
    (run(&machine("smp-2"), profile, load), task)
}

#[test]
fn a_sleeper_among_hogs_preempts_at_once_and_one_without_credit_waits() {
    let longest_us = |profile: &str| {
        let (run, task) = sleeper(profile);
        let mut delays = run.wakeup_delays(task);
        delays.drain(..delays.len() / 4);
        assert!(delays.len() > 100, "{profile}");
        delays.sort_unstable();
        (delays[delays.len() / 2] / 1_000, delays[delays.len() - 1] / 1_000)
    };
    for profile in BOTH {
        let (median, most) = longest_us(profile);
        assert!(median < 50 && most < 1_000, "{profile}: {median}, {most} us");
    }
    let (median, _) = longest_us("v2.6.30 NO_NEW_FAIR_SLEEPERS");
    assert!(median > 1_000, "it waits for its turn: {median} us");
}

#[test]
fn hogs_wait_seconds_for_interactive_tasks_but_not_for_ever() {
    for profile in BOTH {
        let mut load = on_one_cpu(40_000);
        let hog = nice(&mut load, 0);
        // Each sleeps half of the time, and together they leave no gap. They run for less than a turn among equals.
        let busy = || forever(vec![run_us(10_000), sleep_us(10_000)]);
        (0..4).for_each(|_| {
            load.task("busy", Some("0"), busy());
        });
        let run = run(&machine("smp-2"), profile, load);
        let mut stays = run.stays(hog);
        stays.retain(|(from, _)| *from > Ns::secs(1).0);
        let gap_ms = stays.windows(2).map(|w| (w[1].0 - w[0].1) / MS).max().unwrap_or(40_000);
        // Five tasks: five seconds, then the rest of five slices; twice, for both arrays.
        assert!((1_000..2 * (5_000 + 5 * 100)).contains(&gap_ms), "{profile}: {gap_ms} ms");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]
    #[test]
    fn no_task_waits_longer_than_the_rules_let_it(
        early: bool, seed in 0u64..1_000,
        tasks in prop::collection::vec((1u64..60_000, 0u64..60_000), 2..5),
    ) {
        let profile = BOTH[usize::from(!early)];
        let mut load = on_one_cpu(20_000);
        for (run, sleep) in &tasks {
            let ops = if *sleep < 5_000 { vec![run_us(*run)] } else { vec![run_us(*run), sleep_us(*sleep)] };
            load.task("task", Some("0"), forever(ops));
        }
        let run = run_seeded(&machine("smp-2"), kernel(profile), seed, load);
        let n = tasks.len() as u64;
        let bound = 2 * n * (1_000 + 100) + 100;
        for task in (0..tasks.len()).map(TaskId::from) {
            let (mut since, mut longest) = (None, 0);
            for e in &run.seen.events {
                match e.kind {
                    EventKind::Enqueued { task: t, .. } if t == task => since = Some(e.at.0),
                    EventKind::Switch { prev: Some(p), why, .. } if p == task => {
                        let blocked = why == schedlab_trace::SwitchReason::Blocked;
                        since = (!blocked).then_some(e.at.0);
                    }
                    EventKind::Switch { next: Some(t), .. } if t == task => {
                        longest = longest.max(since.take().map_or(0, |from| e.at.0 - from));
                    }
                    _ => {}
                }
            }
            let last = since.map_or(0, |from| Ns::secs(21).0 - from);
            prop_assert!(longest.max(last) / MS <= bound, "{task:?}: {} of {bound} ms", longest.max(last) / MS);
        }
        // One CPU with a hog is never idle.
        if tasks.iter().any(|(_, sleep)| *sleep < 5_000) {
            let used: u64 = (0..tasks.len()).map(|t| run.cpu_ns(TaskId::from(t))).sum();
            prop_assert!(used >= 19_900 * MS, "{used}");
        }
    }
}

#[test]
fn a_task_that_yields_goes_behind_all_that_have_not_expired() {
    for profile in BOTH {
        let mut load = on_one_cpu(10_000);
        let hogs = [0; 2].map(|n| nice(&mut load, n));
        let yields = load.task("yields", Some("0"), forever(vec![run_us(100), Op::Yield]));
        let run = run(&machine("smp-2"), profile, load);
        let got = ms(&run, yields);
        assert!(got < 50 && hogs.iter().all(|h| ms(&run, *h) > 4_900), "{profile}: {got} ms");
    }
}

#[test]
fn batch_tasks_wait_until_the_arrays_are_swapped_since_2_6_16() {
    let median_ms = |profile: &str| {
        let mut load = on_one_cpu(20_000);
        (0..3).for_each(|_| {
            nice(&mut load, 0);
        });
        let task = load.task("batch", Some("0"), forever(vec![run_us(1_000), sleep_us(20_000)]));
        load.attr(task, Attr { policy: Policy::Batch, ..Attr::default() });
        let mut delays = run(&machine("smp-2"), profile, load).wakeup_delays(task);
        delays.sort_unstable();
        delays[delays.len() / 2] / MS
    };
    assert_eq!(median_ms("v2.6.12"), 0, "it is an ordinary task there");
    assert!((50..400).contains(&median_ms("v2.6.18")), "{} ms", median_ms("v2.6.18"));
}

#[test]
fn sleeps_end_at_ticks_and_2_6_12_adds_one() {
    // Ticks of 1 ms and of 4 ms.
    for (profile, tick, most) in [("v2.6.12", 1_000, 2_000), ("v2.6.18", 4_000, 4_000)] {
        let mut load = Load::lasting_ms(1_000);
        let naps = load.builder.series("nap", "ns", "down");
        let mut began = None;
        let nap = program(move |env| {
            let now = env.now().0;
            if let Some(from) = began.replace(now) {
                env.record(naps, now - from);
            }
            sleep_us(700)
        });
        load.task("naps", Some("0"), nap);
        let run = run(&machine("smp-2"), profile, load);
        let naps = run.values(0);
        let mean_us = naps.iter().sum::<u64>() / naps.len() as u64 / 1_000;
        // It goes to sleep right after a tick.
        assert!(mean_us.abs_diff(most) < tick / 10, "{profile}: {mean_us} us");
    }
}

#[test]
fn an_idle_cpu_keeps_its_tick_before_2_6_21() {
    let wakes = |profile: &str| {
        let mut load = Load::lasting_ms(1_000);
        load.task("hog", Some("0"), hog());
        let run = run(&machine("smp-2"), profile, load);
        run.events(|e| {
            matches!(e.kind, EventKind::IdleExit { .. }).then_some(()).filter(|_| e.cpu == CpuId(1))
        })
        .len()
    };
    assert!((990..=1_001).contains(&wakes("v2.6.12")) && (245..=251).contains(&wakes("v2.6.18")));
    assert!(wakes("v2.6.30") < 50);
}

#[test]
fn new_threads_stay_and_balancing_spreads_them() {
    for profile in BOTH {
        let mut load = on_one_cpu(10_000);
        let tasks: Vec<TaskId> = (0..4).map(|_| load.task("hog", None, hog())).collect();
        let run = run(&machine("smp-2"), profile, load);
        let first = run.events(|e| match e.kind {
            EventKind::Enqueued { new: true, .. } => Some(e.cpu),
            _ => None,
        });
        assert_eq!(first, [CpuId(0); 4], "{profile}: no balancing at fork within a node");
        let got: Vec<u64> = tasks.iter().map(|t| ms(&run, *t)).collect();
        assert!(got.iter().all(|ms| ms.abs_diff(5_000) <= 600), "{profile}: {got:?}");
    }
}

#[test]
fn two_hogs_on_one_core_are_pushed_apart() {
    for profile in BOTH {
        // CPUs 0 and 2 are the threads of one core.
        let mut load = on_one_cpu(5_000);
        let tasks = [0, 1].map(|_| load.task("hog", None, hog()));
        let run = run(&machine("p4-ht-2"), profile, load);
        let pushed = run.events(|e| match e.kind {
            EventKind::Migrate { why: MoveReason::Active, .. } => Some(e.at.0),
            _ => None,
        });
        let shared_ms = run.counter("smt.shared_time") / MS;
        assert!(!pushed.is_empty() || shared_ms < 100, "{profile}: no push, {shared_ms} ms shared");
        assert!(shared_ms < 2_000, "{profile}: {shared_ms} ms of 10000 beside a busy thread");
        assert!(tasks.iter().all(|t| ms(&run, *t) > 4_900));
    }
}

#[test]
fn a_task_whose_cache_is_cold_follows_its_waker_in_2_6_12() {
    // Two wakers on two busy CPUs wake the same task in turn, each every 20 ms.
    let seen = |kernel: Kernel| {
        let mut load = on_one_cpu(5_000);
        let word = load.builder.word();
        for (cpu, first) in [("0", 1_000), ("1", 11_000)] {
            load.task("hog", Some(cpu), hog());
            let mut begun = false;
            let next = move || if std::mem::replace(&mut begun, true) { 19_000 } else { first };
            load.task("waker", Some(cpu), waker(word, next));
        }
        let wait = Op::Wait { word, value: 0, until: Ns::MAX };
        let wakee = load.task("wakee", None, forever(vec![wait, run_us(300)]));
        let run = run_seeded(&machine("smp-2"), kernel, 1, load);
        let moves = run.events(|e| match e.kind {
            EventKind::Migrate { task, why: MoveReason::Wakeup, .. } if task == wakee => Some(()),
            _ => None,
        });
        let counted = |name: &str| run.report.found.counters.get(name).copied().unwrap_or(0);
        (moves.len(), counted("affine.cache_cold"), counted("affine.cache_hot"))
    };
    let second = 1_000_000_000;
    let plain = kernel("v2.6.12");
    let (moves, cold, hot) = seen(plain);
    assert!(moves > 300 && cold > 300 && hot == 0, "10 ms are longer than 2.5: {moves}, {cold}, {hot}");
    let mut tuned = plain;
    tuned.tunables.set("cache_hot_smp_ns", second).expect("in range");
    let (moves, cold, hot) = seen(tuned);
    assert!(moves == 0 && cold == 0 && hot > 100, "nothing is colder than a second: {moves}, {cold}, {hot}");
    // The CPUs of smp-2 are at distance 1: the level of siblings is empty.
    let by_distance = |all: [Option<u64>; 2]| Kernel { cutoffs: Some(all.to_vec().into()), ..plain };
    assert_eq!(seen(by_distance([None, Some(second)])), (moves, cold, hot), "before the tunables");
    assert_eq!(seen(by_distance([Some(second), None])), seen(plain), "the wrong distance");
}

/// Sleeps, wakes a waiter, and so on.
fn waker(word: WordId, mut sleep: impl FnMut() -> u64 + Send + 'static) -> Box<dyn Program> {
    let mut wakes = false;
    program(move |_| {
        wakes = !wakes;
        if wakes { sleep_us(sleep()) } else { Op::Wake { word, count: 1 } }
    })
}
