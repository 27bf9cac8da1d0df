//! The kernel's accounts of a task's time and switches, and the slice test on two CPUs.

use crate::support::{
    Load, Run, forever, hog, kernel, machine, once, program, run, run_built, run_seeded, run_us, sleep_us,
};
use schedlab_base::{Ns, TaskId};
use schedlab_trace::{EventKind, SwitchReason};
use schedlab_workload::{Op, Outcome, Params, Spec, Usage};
use std::sync::{Arc, Mutex};

const MS: u64 = 1_000_000;

/// Readings of a task's usage every 50 ms, each with its time.
fn watched(load: &mut Load, of: TaskId) -> Arc<Mutex<Vec<(Ns, Usage)>>> {
    let seen = Arc::<Mutex<Vec<(Ns, Usage)>>>::default();
    let (to, mut reads) = (seen.clone(), false);
    let reader = program(move |env| {
        if let Outcome::Used(usage) = env.outcome() {
            to.lock().unwrap().push((env.now(), usage));
        }
        reads = !reads;
        if reads { sleep_us(50_000) } else { Op::Usage { task: of } }
    });
    load.task("reader", Some("1"), reader);
    seen
}

/// Switches away from a task up to an instant: because it slept, and while it was still runnable.
fn switches(run: &Run, task: TaskId, until: Ns) -> (u32, u32) {
    let left: Vec<SwitchReason> = run.events(|e| match e.kind {
        EventKind::Switch { prev: Some(p), why, .. } if p == task && e.at <= until => Some(why),
        _ => None,
    });
    let slept = left.iter().filter(|w| matches!(w, SwitchReason::Blocked | SwitchReason::Exited)).count();
    (slept as u32, (left.len() - slept) as u32)
}

#[test]
fn usage_is_the_time_and_the_switches_that_events_show() {
    // The runqueue's clock lags behind each switch by the time of a switch, or of a wakeup and a switch.
    const BEHIND_NS: u64 = 4_000;
    let mut load = Load::lasting_ms(1_000);
    let (a, _) = (load.task("a", Some("0"), hog()), load.task("b", Some("0"), hog()));
    let dozer = load.task("dozer", Some("0"), forever(vec![run_us(300), sleep_us(7_000)]));
    let (of_a, of_dozer) = (watched(&mut load, a), watched(&mut load, dozer));
    let seen = run(&machine("smp-2"), "v4.5", load);
    for (task, read) in [(a, of_a), (dozer, of_dozer)] {
        let read = read.lock().unwrap();
        assert!(read.len() > 15, "{}", read.len());
        for (at, used) in read.iter() {
            let stays = seen.stays(task);
            let ended: u64 = stays.iter().filter(|(_, to)| *to <= at.0).map(|(from, to)| to - from).sum();
            let open = stays
                .iter()
                .find(|(from, to)| *from <= at.0 && *to > at.0)
                .map_or(0, |(from, _)| at.0 - from);
            let most = BEHIND_NS * (1 + stays.iter().filter(|(from, _)| *from <= at.0).count() as u64);
            assert!(used.cpu.0.abs_diff(ended + open) < most, "the stay that goes on included: {used:?}");
            assert_eq!((used.voluntary, used.involuntary), switches(&seen, task, *at));
        }
    }
}

#[test]
fn user_time_is_counted_by_ticks() {
    // Every tick finds a task that computes alone on its CPU; no tick finds a task that sleeps over each tick.
    let mut load = Load::lasting_ms(1_000);
    let busy = load.task("busy", Some("0"), hog());
    let seen = watched(&mut load, busy);
    let kernel = kernel("v4.5");
    let tick = 1_000_000_000 / kernel.tunables.hz;
    run_seeded(&machine("smp-2"), kernel, 1, load);
    for (at, used) in seen.lock().unwrap().iter() {
        assert!(used.ticked.0 % tick == 0 && used.ticked.0.abs_diff(at.0) <= 2 * tick, "{used:?} at {at}");
    }
    let mut load = Load::lasting_ms(1_000);
    let hider = program(move |env| {
        let into_tick = env.now().0 % tick;
        // It runs in the middle half of the time between two ticks.
        if into_tick < tick / 4 || into_tick > tick / 2 {
            Op::SleepTo { at: Ns((env.now().0 / tick + 1) * tick + tick / 4) }
        } else {
            Op::Run { work: Ns(tick / 8) }
        }
    });
    let hider = load.task("hider", Some("0"), hider);
    let seen = watched(&mut load, hider);
    run(&machine("smp-2"), "v4.5", load);
    let last = seen.lock().unwrap().last().unwrap().1;
    assert!(last.cpu.0 > 100 * MS && last.ticked == Ns::ZERO, "{last:?}");
}

#[test]
fn the_last_usage_of_an_exited_or_unborn_task_is_known() {
    let mut load = Load::lasting_ms(300);
    let brief = load.task("brief", Some("0"), once(vec![run_us(10_000), sleep_us(1_000), run_us(10_000)]));
    let seen = watched(&mut load, brief);
    run(&machine("smp-2"), "v4.5", load);
    let seen = seen.lock().unwrap();
    let all: Vec<Usage> = seen.iter().map(|(_, used)| *used).collect();
    assert!(all.len() > 3 && all.windows(2).all(|w| w[0] == w[1]), "{all:?}");
    assert!(all[0].cpu.0 > 20 * MS && all[0].voluntary == 2, "{all:?}");
}

/// A run of the slice test on two CPUs.
fn slice_test(given: &[(&str, u64)], profile: &str) -> Run {
    let given = given.iter().map(|(name, value)| ((*name).to_owned(), *value)).collect();
    let spec = Spec::bench("slice", &Params(given)).unwrap();
    run_built(&machine("smp-2"), kernel(profile), 1, spec.build(1).unwrap())
}

#[test]
fn the_slice_test_uses_two_cpus_and_its_waker_shortens_slices() {
    let given = |rate| [("tasks", 8), ("rate", rate), ("runtime", 4_000_000_000)];
    let (quiet, woken) = (slice_test(&given(0), "v4.5"), slice_test(&given(1_000), "v4.5"));
    for run in [&quiet, &woken] {
        let hogs: u64 = (0..8).map(|t| run.cpu_ns(TaskId(t))).sum();
        let rest: u64 = (8..run.report.tasks.len()).map(|t| run.cpu_ns(TaskId::from(t))).sum();
        // Two CPUs, which lose time to switches only.
        assert!((7_900 * MS..=8_000 * MS).contains(&(hogs + rest)), "{hogs} + {rest}");
        let rates = run.values(4);
        assert!(rates.len() >= 3 && rates.iter().all(|r| (1_900 * MS..=2_001 * MS).contains(r)), "{rates:?}");
        let shared = run.values(3);
        assert!(shared.iter().all(|r| r.abs_diff(rates[0] / 8) < 10 * MS), "by ticks: {shared:?}");
    }
    let mean = |run: &Run| run.values(1).iter().sum::<u64>() / run.values(1).len() as u64;
    assert!(mean(&quiet) > 3 * MS && mean(&woken) < mean(&quiet) / 2, "{} {}", mean(&quiet), mean(&woken));
}
