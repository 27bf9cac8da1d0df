//! SCHED_FIFO and SCHED_RR: ranks, slices, push and pull, throttling and the fair server, changes of class.

use crate::support::{Load, Run, forever, hog, kernel, machine, once, run, run_built, run_us, sleep_us};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::{EventKind, MoveReason, PlaceReason, SwitchReason};
use schedlab_workload::{Later, Op};

const MS: u64 = 1_000_000;
/// One kernel of each period.
const ERAS: [&str; 7] = ["v2.6.30", "v3.4", "v4.5", "v6.1", "v6.5", "v6.12", "v7.3"];

fn fifo(rt_priority: u8) -> Attr {
    Attr { policy: Policy::Fifo, rt_priority, ..Attr::default() }
}
fn rr(rt_priority: u8) -> Attr {
    Attr { policy: Policy::Rr, ..fifo(rt_priority) }
}

fn run_changing(
    machine: &schedlab_machine::Machine,
    kernel: schedlab_kernel::Kernel,
    changes: Vec<(Ns, schedlab_kernel::Kernel)>,
    load: Load,
) -> schedlab_sim::SimReport {
    let setup = schedlab_sim::Setup {
        machine,
        kernel,
        changes,
        workload: load.built(),
        seed: 1,
        background: false,
        check: true,
        stop: None,
        clock: None,
    };
    schedlab_sim::simulate(setup, &mut schedlab_trace::Discard).expect("the run ends well")
}

fn moves(run: &Run, task: TaskId, reason: MoveReason) -> usize {
    run.events(|e| match e.kind {
        EventKind::Migrate { task: t, why, .. } if t == task && why == reason => Some(()),
        _ => None,
    })
    .len()
}

#[test]
fn a_real_time_task_preempts_every_fair_one_at_once() {
    for era in ERAS {
        let mut load = Load::lasting_ms(200);
        let fair = load.task("fair", Some("0"), hog());
        let urgent = load.task("urgent", Some("0"), forever(vec![run_us(500), sleep_us(1_500)]));
        load.attr(urgent, fifo(1));
        let seen = run(&machine("smp-1"), era, load);
        let delays = seen.wakeup_delays(urgent);
        assert!(delays.len() > 80 && delays.iter().all(|d| *d < 20_000), "{era}: {delays:?}");
        assert!(seen.cpu_ns(fair) > 100 * MS, "{era}: what is left is the fair task's");
    }
}

#[test]
fn fifo_tasks_do_not_take_turns_and_rr_tasks_do_every_100_ms() {
    for era in ERAS {
        let shares = |attr: Attr| {
            let mut load = Load::lasting_ms(600);
            let two = [(); 2].map(|()| load.task("hog", Some("0"), hog()));
            two.iter().for_each(|t| {
                load.attr(*t, attr);
            });
            let seen = run(&machine("smp-1"), era, load);
            let stays: Vec<u64> = seen.stays(two[0]).iter().map(|(a, b)| (b - a) / MS).collect();
            (two.map(|t| seen.cpu_ns(t) / MS), stays)
        };
        let (times, _) = shares(fifo(5));
        assert!(times[0] > 590 && times[1] == 0, "{era}: {times:?}");
        let (times, stays) = shares(rr(5));
        assert!(times[0].abs_diff(times[1]) <= 100, "{era}: {times:?}");
        assert!(stays.len() >= 2 && stays.iter().all(|ms| (96..=104).contains(ms)), "{era}: {stays:?}");
    }
}

#[test]
fn an_rr_task_of_lower_priority_gets_no_turn() {
    let mut load = Load::lasting_ms(500);
    let (low, high) = (load.task("low", Some("0"), hog()), load.task("high", Some("0"), hog()));
    load.attr(low, rr(5));
    load.attr(high, rr(6));
    let seen = run(&machine("smp-1"), "v6.1", load);
    assert!(seen.cpu_ns(low) < MS && seen.cpu_ns(high) > 490 * MS);
}

#[test]
fn a_wakee_stays_if_a_fair_task_runs_and_leaves_if_its_equal_runs() {
    for era in ERAS {
        // The wakee's first CPU, and the CPU of its wakeup when another task runs on the first.
        let placed = |other: Attr, home: &str| {
            let mut load = Load::lasting_ms(20);
            let wakee = load.task("wakee", None, once(vec![run_us(100), sleep_us(5_000), run_us(500)]));
            load.attr(wakee, fifo(10));
            let there = load.task("there", Some(home), once(vec![sleep_us(2_000), run_us(15_000)]));
            load.attr(there, other);
            run(&machine("smp-4"), era, load)
                .placements(wakee)
                .last()
                .map(|(_, cpu, why)| (*cpu, *why))
                .unwrap()
        };
        let (home, _) = placed(Attr::default(), "0");
        let beside = |other| placed(other, &home.to_string());
        assert_eq!(beside(Attr::default()), (home, PlaceReason::RtStays), "{era}: three CPUs are idle");
        let (cpu, why) = beside(fifo(10));
        assert!(cpu != home && why == PlaceReason::RtLowest, "{era}: {cpu} {why:?}");
    }
}

#[test]
fn a_task_that_a_more_important_one_displaces_is_pushed_to_another_cpu() {
    for era in ERAS {
        let mut load = Load::lasting_ms(100);
        let high = load.task("high", Some("0"), forever(vec![sleep_us(5_000), run_us(5_000)]));
        load.attr(high, fifo(50));
        let low = load.task("low", None, hog());
        load.attr(low, fifo(10));
        let fair = load.task("fair", Some("1"), hog());
        let seen = run(&machine("smp-2"), era, load);
        assert!(seen.cpu_ns(low) > 99 * MS, "{era}: {} ns", seen.cpu_ns(low));
        assert!(moves(&seen, low, MoveReason::RtPush) <= 1, "{era}: it stays where it then is alone");
        assert!(seen.cpu_ns(fair) < MS, "{era}: the fair task gives way");
    }
}

#[test]
fn a_cpu_that_runs_out_of_important_work_pulls_waiting_tasks() {
    for (era, pulled, pushed) in [("v3.4", 1, 0), ("v4.5", 0, 1), ("v6.5", 0, 1), ("v6.12", 1, 0)] {
        let mut load = Load::lasting_ms(50);
        let first = load.task("first", Some("0"), once(vec![run_us(40_000)]));
        load.attr(first, fifo(50));
        let second = load.task("second", Some("1"), once(vec![run_us(10_000), sleep_us(30_000)]));
        load.attr(second, fifo(50));
        let low = load.task("low", None, hog());
        load.attr(low, fifo(10));
        let seen = run(&machine("smp-2"), era, load);
        let found = (moves(&seen, low, MoveReason::RtPull), moves(&seen, low, MoveReason::RtPush));
        let ran_ns = seen.cpu_ns(low);
        assert!(ran_ns > 39 * MS, "{era}: {ran_ns} ns of 40 ms");
        // The first CPU of its wait decides whether it must move.
        assert!(found.0 <= pulled && found.1 <= pushed + 1, "{era}: {found:?}");
    }
}

#[test]
fn with_rt_push_ipi_other_cpus_are_asked_to_push() {
    let seen = |kernel: &str| {
        let mut load = Load::lasting_ms(200);
        // Two CPUs are free for `low` in turns, at times neither of them.
        for (name, cpu, us) in [("first", "0", 4_000), ("second", "1", 3_000)] {
            let high = load.task(name, Some(cpu), forever(vec![run_us(us), sleep_us(us)]));
            load.attr(high, fifo(50));
        }
        let low = load.task("low", None, hog());
        load.attr(low, fifo(10));
        let run = run(&machine("smp-2"), kernel, load);
        let moved = |reason| moves(&run, low, reason);
        (moved(MoveReason::RtPull), moved(MoveReason::RtPush), run.cpu_ns(low) / MS)
    };
    for (asks, takes) in [("v4.5", "v4.5 NO_RT_PUSH_IPI"), ("v6.1 RT_PUSH_IPI", "v6.1")] {
        let ((pulled, pushed, ran_ms), (pulled_off, pushed_off, ran_off_ms)) = (seen(asks), seen(takes));
        assert_eq!(pulled, 0, "{asks}: only pushes");
        assert!(pulled_off > 3, "{takes}: {pulled_off} pulls");
        assert!(pushed > pushed_off, "{asks}: {pushed} pushes, {takes}: {pushed_off}");
        assert!(ran_ms.abs_diff(ran_off_ms) <= 1, "{asks}: {ran_ms} ms, {takes}: {ran_off_ms} ms");
    }
}

#[test]
fn a_cpu_that_may_no_longer_borrow_has_its_own_share_from_the_next_period_on() {
    let fair_ms = |later: Option<u64>| {
        let mut load = Load::lasting_ms(3_000);
        let urgent = load.task("urgent", Some("0"), hog());
        load.attr(urgent, fifo(50));
        let fair = load.task("fair", Some("0"), hog());
        let changes = later.map(|ms| (Ns::ms(ms), kernel("v4.5 NO_RT_RUNTIME_SHARE"))).into_iter().collect();
        let report = run_changing(&machine("smp-4"), kernel("v4.5"), changes, load);
        report.tasks[fair.index()].cpu_time_ns / MS
    };
    assert_eq!(fair_ms(None), 0);
    let left_ms = fair_ms(Some(1_500));
    assert!((45..=110).contains(&left_ms), "{left_ms} ms of the third period");
}

#[test]
fn before_6_12_real_time_tasks_leave_5_per_cent_of_each_second() {
    for (era, cpus, least, most) in [
        ("v4.5", 1, 45, 55), // There is no CPU to borrow from.
        ("v6.1", 1, 45, 55),
        ("v6.1", 4, 45, 55),
        ("v4.5", 4, 0, 0), // It borrows the rest of the period from CPUs that do not need theirs.
        ("v4.5 NO_RT_RUNTIME_SHARE", 4, 45, 55),
        ("v6.1 RT_RUNTIME_SHARE", 4, 0, 0),
        ("v2.6.30", 4, 0, 0),
    ] {
        let mut load = Load::lasting_ms(3_000);
        let urgent = load.task("urgent", Some("0"), hog());
        load.attr(urgent, fifo(50));
        let fair = load.task("fair", Some("0"), hog());
        let seen = run(&machine(&format!("smp-{cpus}")), era, load);
        let per_mille = seen.cpu_ns(fair) / (3 * MS);
        // The last period has not ended, or its rest belongs to the fair task.
        let slack = if most > 0 { 17 } else { 0 };
        assert!((least - slack.min(least)..=most + slack).contains(&per_mille), "{era}, {cpus}: {per_mille}");
        let throttled = seen.events(|e| match e.kind {
            EventKind::Switch { why: SwitchReason::Throttled, .. } => Some(e.at.0 / MS),
            _ => None,
        });
        assert_eq!(throttled.is_empty(), most == 0, "{era}, {cpus}: {throttled:?}");
    }
}

#[test]
fn a_runtime_of_the_whole_period_or_unlimited_throttles_no_task() {
    let urgent_ms = |runtime_ms: u64, later: Option<u64>| {
        let mut load = Load::lasting_ms(2_500);
        let urgent = load.task("urgent", Some("0"), hog());
        load.attr(urgent, fifo(50));
        load.task("fair", Some("0"), hog());
        let mut kernel = kernel("v6.1");
        kernel.tunables.rt_runtime_ns = runtime_ms * MS;
        let mut changed = kernel;
        changed.tunables.rt_runtime_ns = 0;
        let changes = later.map(|ms| (Ns::ms(ms), changed)).into_iter().collect();
        let report = run_changing(&machine("smp-1"), kernel, changes, load);
        report.tasks[urgent.index()].cpu_time_ns / MS
    };
    assert!(urgent_ms(1_000, None) >= 2_499 && urgent_ms(0, None) >= 2_499);
    let throttled = urgent_ms(500, None);
    assert!((1_490..=1_520).contains(&throttled), "{throttled} ms of three periods");
    let freed = urgent_ms(500, Some(700));
    assert!((1_990..=2_010).contains(&freed), "{freed} ms: from the end of the first period on");
}

#[test]
fn since_6_12_the_fair_server_steps_in_at_the_end_of_a_second_and_then_at_the_start_of_each() {
    for era in ["v6.12", "v7.3"] {
        let mut load = Load::lasting_ms(3_500);
        let urgent = load.task("urgent", Some("0"), hog());
        load.attr(urgent, fifo(50));
        let fair = load.task("fair", Some("0"), hog());
        let seen = run(&machine("smp-1"), era, load);
        let stays: Vec<(u64, u64)> = seen.stays(fair).iter().map(|(a, b)| (a / MS, (b - a) / MS)).collect();
        let near = |got: u64, want: u64| got.abs_diff(want) <= 5;
        // The end of the first turn is the start of the second period: whether a switch lies between does not matter.
        let turn = |from_ms: u64, to_ms: u64| {
            let of: Vec<_> = stays.iter().filter(|s| (from_ms..to_ms).contains(&s.0)).collect();
            (of.first().map_or(0, |s| s.0), of.iter().map(|s| s.1).sum::<u64>())
        };
        for (from_ms, to_ms, at, ms) in
            [(0, 1_500, 950, 100), (1_500, 2_500, 2_000, 50), (2_500, 3_500, 3_000, 50)]
        {
            let turn = turn(from_ms, to_ms);
            assert!(near(turn.0, at) && near(turn.1, ms), "{era}: {stays:?}");
        }
    }
}

#[test]
fn the_server_never_steps_in_if_fair_tasks_get_their_share() {
    let mut load = Load::lasting_ms(3_000);
    let urgent = load.task("urgent", Some("0"), forever(vec![run_us(80_000), sleep_us(20_000)]));
    load.attr(urgent, fifo(50));
    load.task("fair", Some("0"), hog());
    let seen = run(&machine("smp-1"), "v6.12", load);
    let delays = seen.wakeup_delays(urgent);
    assert!(delays.len() > 25 && delays.iter().all(|d| *d < 20_000), "{delays:?}");
}

#[test]
fn fair_tasks_are_spread_by_the_time_that_real_time_tasks_leave() {
    let least_share_pct = |era: &str| {
        let mut load = Load::lasting_ms(4_000);
        let urgent = load.task("urgent", Some("0"), forever(vec![run_us(8_000), sleep_us(2_000)]));
        load.attr(urgent, fifo(50));
        let fair: Vec<TaskId> = (0..8).map(|_| load.task("fair", None, hog())).collect();
        let seen = run(&machine("smp-4"), era, load);
        fair.iter().map(|t| seen.cpu_ns(*t) / (40 * MS)).min().unwrap_or(0)
    };
    let found = ["v3.4", "v6.1", "v6.5", "v6.12"].map(least_share_pct);
    assert!(found.iter().all(|pct| *pct >= 30), "each has about as much as the others: {found:?}");
    let (by_time, blind) = (least_share_pct("v4.5"), least_share_pct("v2.6.30"));
    assert!(blind <= 10, "two share what one real-time task leaves of a CPU: {blind} per cent");
    assert!(by_time > blind, "one of them is left there: {by_time} per cent");
}

#[test]
fn a_task_may_change_its_class_while_it_runs() {
    for era in ERAS {
        let mut load = Load::lasting_ms(100);
        let change = load.task(
            "change",
            Some("0"),
            once(vec![
                run_us(1_000),
                Op::SetAttr { attr: fifo(20) },
                run_us(30_000),
                Op::SetAttr { attr: Attr::default() },
                run_us(60_000),
            ]),
        );
        let other = load.task("other", Some("0"), hog());
        let seen = run(&machine("smp-1"), era, load);
        let stays = seen.stays(change);
        let longest = stays.iter().map(|(a, b)| b - a).max().unwrap_or(0);
        assert!(longest >= 30 * MS, "{era}: while it was real-time no other ran: {stays:?}");
        let (a, b) = (seen.cpu_ns(change) / MS, seen.cpu_ns(other) / MS);
        assert!(a.abs_diff(b + 30) <= 26, "{era}: {a} ms and {b} ms");
    }
}

#[test]
fn a_task_that_becomes_less_important_gives_way_at_once() {
    let mut load = Load::lasting_ms(60);
    let falls = load.task(
        "falls",
        Some("0"),
        once(vec![run_us(10_000), Op::SetAttr { attr: fifo(10) }, run_us(10_000)]),
    );
    load.attr(falls, fifo(50));
    let waits = load.task("waits", Some("0"), once(vec![run_us(20_000)]));
    load.attr(waits, fifo(30));
    let seen = run(&machine("smp-1"), "v6.1", load);
    let first = seen.stays(falls)[0];
    assert!((first.1 - first.0).abs_diff(10 * MS) < MS, "{first:?}");
    assert!(seen.cpu_ns(waits) > 19 * MS && seen.cpu_ns(falls) > 19 * MS);
}

#[test]
fn timers_of_real_time_tasks_have_no_slack() {
    let late_ns = |attr: Attr| {
        let mut load = Load::lasting_ms(100);
        let task = load.task(
            "sleeper",
            Some("0"),
            forever(vec![
                Op::SleepTo { at: Ns::ms(20) },
                run_us(1_000),
                Op::SleepTo { at: Ns::ms(40) },
                Op::Exit,
            ]),
        );
        load.attr(task, attr);
        let seen = run(&machine("smp-1"), "v6.1", load);
        seen.stays(task)[1].0 - 20 * MS
    };
    let (slack, none) = (late_ns(Attr::default()), late_ns(fifo(1)));
    assert_eq!(slack - none, 50_000, "{slack} ns and {none} ns late");
}

#[test]
fn a_task_that_yields_goes_behind_equals_and_before_less_important_tasks() {
    let mut load = Load::lasting_ms(20);
    let a = load.task("a", Some("0"), forever(vec![run_us(1_000), Op::Yield]));
    let b = load.task("b", Some("0"), forever(vec![run_us(1_000), Op::Yield]));
    let low = load.task("low", Some("0"), hog());
    for (task, priority) in [(a, 10), (b, 10), (low, 5)] {
        load.attr(task, fifo(priority));
    }
    let seen = run(&machine("smp-1"), "v6.5", load);
    assert!(seen.stays(a).len() >= 8 && seen.stays(b).len() >= 8);
    assert_eq!(seen.cpu_ns(low), 0);
}

/// Push considers the most important waiting task, and no other if that one cannot be pushed.
#[test]
fn a_pinned_task_keeps_tasks_behind_it_from_being_pushed() {
    // `c` and `d` wait on CPU 0 behind `a`, CPU 1 has `b`, CPUs 2 and 3 are free. From 10 ms on `d` may use all, and
    // `c` some; a push comes when `e` preempts `a`.
    let waits = |first: &str| {
        let mut load = Load::lasting_ms(60);
        let e = once(vec![sleep_us(20_000), run_us(100)]);
        for (name, on, priority, program) in [
            ("a", "0", 50, hog()),
            ("b", "1", 50, hog()),
            ("c", "0", 20, hog()),
            ("d", "0", 10, hog()),
            ("e", "0", 60, e),
        ] {
            let task = load.task(name, Some(on), program);
            load.attr(task, fifo(priority));
        }
        let mut built = load.built();
        let at = built.masks.len() as u32;
        built.masks.extend([first, "0-3"].map(crate::support::cpus));
        built.later = [2, 3].map(|t| (Ns::ms(10), Later::Allowed(TaskId(t), at + t - 2))).to_vec();
        let seen = run_built(&machine("smp-4"), kernel("v6.1"), 1, built);
        seen.cpu_ns(TaskId(3)) / MS
    };
    assert!(waits("0-3") >= 38, "{}: both are pushed to free CPUs", waits("0-3"));
    assert_eq!(waits("0-1"), 0, "the first waiting task may use none of them");
}

#[test]
fn a_server_that_is_switched_off_in_mid_run_no_longer_steps_in() {
    for at_ms in [500, 960, 970, 990] {
        let mut load = Load::lasting_ms(2_500);
        let urgent = load.task("urgent", Some("0"), hog());
        load.attr(urgent, fifo(50));
        let fair = load.task("fair", Some("0"), forever(vec![run_us(5_000), sleep_us(500)]));
        let before = kernel("v6.12");
        let mut after = before;
        after.tunables.fair_server_runtime_ns = 0;
        let report = run_changing(&machine("smp-1"), before, vec![(Ns::ms(at_ms), after)], load);
        let fair_ms = report.tasks[fair.index()].cpu_time_ns / MS;
        assert!(fair_ms <= at_ms.saturating_sub(945), "off at {at_ms} ms: {fair_ms} ms");
    }
}

#[test]
fn a_real_time_task_stays_at_exec() {
    for era in ERAS.into_iter().filter(|e| *e != "v2.6.30") {
        let mut load = Load::lasting_ms(40);
        load.task("hog", Some("0"), hog());
        let mask = load.builder.mask(crate::support::cpus("0-3"));
        let ops =
            vec![run_us(5_300), schedlab_workload::Op::SetAffinity { mask }, schedlab_workload::Op::Exec];
        let execs = load.task("execs", Some("0"), once(ops));
        load.attr(execs, fifo(10));
        let seen = run(&machine("smp-4"), era, load);
        assert_eq!(moves(&seen, execs, MoveReason::Exec), 0, "{era}");
    }
}
