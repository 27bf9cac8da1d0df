//! Hand-written event sequences, one per definition, and the balance of time over random ones.

use super::*;
use SwitchReason as S;
use proptest::prelude::*;
use schedlab_record::Findings;
use schedlab_record::accounts::{Stays, TaskAccount};
use schedlab_record::wait::Occupant;
use schedlab_record::wait::WaitCause;
use schedlab_record::{Better, Metric};
use schedlab_trace::{BalanceReason, BalanceTrigger};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
/// The background task.
const K: TaskId = TaskId(2);

fn analyser(measure_from: u64) -> Analyser {
    let name = |name: &str, background| TaskName { name: name.into(), background };
    let tasks = vec![name("a", false), name("b", false), name("kworker", true)];
    let latency = ("x.latency".to_owned(), Series::new("ns", Better::Lower));
    Analyser::new(2, tasks, vec![latency], Ns(measure_from))
}

/// Feeds events (time, CPU, kind).
pub(super) fn feed(an: &mut Analyser, events: &[(u64, u32, EventKind)]) {
    for (at, cpu, kind) in events {
        an.event(&Event { at: Ns(*at), cpu: CpuId(*cpu), kind: *kind });
    }
}

/// What is seen in a run of these events that ends at `end`.
fn after(events: &[(u64, u32, EventKind)], end: u64) -> Findings {
    let mut an = analyser(0);
    feed(&mut an, events);
    an.finish(Ns(end))
}

pub(super) fn switch(prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason) -> EventKind {
    EventKind::Switch { prev, next, why }
}
pub(super) fn waking(task: TaskId, waker: Option<TaskId>) -> EventKind {
    EventKind::Waking { task, waker }
}
fn placed(task: TaskId, target: u32, reason: PlaceReason) -> EventKind {
    EventKind::Placed { task, target: CpuId(target), reason, probes: 3 }
}
pub(super) fn queued(task: TaskId, nr_running: u16) -> EventKind {
    EventKind::Enqueued { task, nr_running, new: false }
}
fn only(series: &Series) -> Vec<u64> {
    series.values().flat_map(|(v, n)| std::iter::repeat_n(v, n as usize)).collect()
}

/// A, just woken, runs on CPU 0 and wakes B, which is stacked with it. Then A is preempted, pulled to another CPU, and
/// blocks.
fn story() -> Vec<(u64, u32, EventKind)> {
    vec![
        (100, 1, waking(A, None)),
        (120, 1, placed(A, 0, PlaceReason::TargetIdle)),
        (150, 0, queued(A, 1)),
        (160, 0, EventKind::IdleExit { exit_ns: 30 }),
        (200, 0, switch(None, Some(A), S::FromIdle)),
        (300, 0, waking(B, Some(A))),
        (310, 0, placed(B, 0, PlaceReason::TargetBusy)),
        (320, 0, queued(B, 2)),
        (900, 0, switch(Some(A), Some(B), S::TickSlice)),
        (950, 1, EventKind::Migrate { task: A, from: CpuId(0), why: MoveReason::Newidle }),
        (1000, 1, switch(None, Some(A), S::FromIdle)),
        (1500, 1, switch(Some(A), None, S::Blocked)),
        (1600, 0, switch(Some(B), None, S::Exited)),
    ]
}

#[test]
fn each_definition_on_a_short_story() {
    let mut an = analyser(0);
    feed(&mut an, &story());
    an.sample(Ns(5), A, 0, 42);
    let seen = an.finish(Ns(2000));
    assert_eq!(only(&seen.series["wakeup_delay"]), [100, 600], "from waking to the switch in");
    assert_eq!(only(&seen.series["run_delay"]), [100, 100, 600], "preempted at 900, back at 1000");
    assert_eq!(only(&seen.series["slice"]), [500, 700, 700]);
    assert_eq!(only(&seen.series["x.latency"]), [42]);
    let want = [
        ("switches.voluntary", 2),
        ("switches.involuntary", 1),
        ("migrations", 1),
        ("migrations.newidle", 1),
        ("migrations.wakeup", 0),
        ("placement.target_idle", 1),
        ("placement.target_busy", 1),
        ("placement.probes", 6),
        ("slice.end.slice", 1),
        ("slice.end.blocked", 1),
        ("slice.end.exited", 1),
        ("wakeups", 2),
        ("run_delay.total", 800),
        ("cpu_time", 700 + 700 + 500),
        ("idle_time", 4000 - 1900),
        ("background.cpu_time", 0),
    ];
    for (name, n) in want {
        assert_eq!(seen.counters.get(name), Some(&n), "{name}");
    }
    assert!(!seen.counters.contains_key("balance.newidle.passes"), "no pass was reported: not measured");
    assert!(!seen.counters.contains_key("slice.end.idle"));
    assert!(seen.warnings.is_empty());
}

#[test]
fn each_wait_is_described() {
    let waits = after(&story(), 2000).waits;
    assert_eq!(waits.len(), 2);
    let stacked = &waits[0];
    assert_eq!((stacked.task.as_str(), stacked.length_ns, stacked.enqueue_ns), ("b", 600, 20));
    assert_eq!((stacked.waker.as_deref(), stacked.placement.as_deref()), (Some("a"), Some("target_busy")));
    assert_eq!(stacked.occupant, Some(Occupant { task: "a".into(), ran_ns: 120, fresh: true }));
    assert_eq!((stacked.ended_by.as_deref(), stacked.ended_why.as_str()), (Some("a"), "slice"));
    assert_eq!(stacked.cause(), WaitCause::Stacked);
    let idle = &waits[1];
    assert_eq!((idle.waker.as_deref(), idle.occupant.as_ref(), idle.idle_exit_ns), (None, None, 30));
    assert_eq!((idle.waker_cpu, idle.chosen_cpu, idle.cause()), (CpuId(1), CpuId(0), WaitCause::IdleExit));
}

#[test]
fn a_wait_ended_by_the_balancer_names_it() {
    let events = [
        (0, 0, switch(None, Some(K), S::FromIdle)),
        (100, 0, waking(A, None)),
        (110, 0, queued(A, 2)),
        (500, 1, EventKind::Migrate { task: A, from: CpuId(0), why: MoveReason::Idle }),
        (600, 1, switch(None, Some(A), S::FromIdle)),
    ];
    let wait = after(&events, 1000).waits.remove(0);
    assert_eq!((wait.moved.as_deref(), wait.cause()), (Some("idle"), WaitCause::Pulled));
    assert_eq!(wait.occupant.map(|o| o.task), Some("kworker".to_owned()));
}

#[test]
fn stays_and_waits_before_the_measurement_are_followed_but_not_counted() {
    let mut an = analyser(950);
    feed(&mut an, &story());
    an.sample(Ns(949), A, 0, 1);
    an.sample(Ns(950), A, 0, 2);
    let seen = an.finish(Ns(2000));
    assert_eq!(only(&seen.series["run_delay"]), [100], "A's wait began before, and ended after");
    assert_eq!(only(&seen.series["slice"]), [500, 700], "B's stay is counted whole");
    assert_eq!(only(&seen.series["x.latency"]), [2]);
    assert_eq!(seen.counters["cpu_time"], 500 + 650, "time is cut at the start");
    assert_eq!(seen.counters["idle_time"], 2 * 1050 - 1150);
}

#[test]
fn background_tasks_only_cost_time() {
    let events = [
        (10, 0, waking(K, None)),
        (15, 0, placed(K, 0, PlaceReason::OnlyAllowed)),
        (20, 0, queued(K, 1)),
        (30, 0, switch(None, Some(K), S::FromIdle)),
        (90, 0, switch(Some(K), None, S::Blocked)),
    ];
    let seen = after(&events, 100);
    assert_eq!(seen.counters["background.cpu_time"], 60);
    for name in ["wakeups", "switches.voluntary", "placement.only_allowed", "cpu_time"] {
        assert_eq!(seen.counters[name], 0, "{name}");
    }
    assert_eq!((seen.series["slice"].count(), seen.waits.len()), (0, 0));
}

#[test]
fn a_wakeup_that_races_with_going_to_sleep() {
    let events = [
        (0, 0, switch(None, Some(A), S::FromIdle)),
        // Caught before it slept: there is no wait.
        (100, 1, waking(A, Some(B))),
        (110, 0, queued(A, 1)),
        (200, 1, waking(A, Some(B))),
        (250, 0, switch(Some(A), None, S::Blocked)),
        (270, 0, queued(A, 1)),
        (300, 0, switch(None, Some(A), S::FromIdle)),
    ];
    let seen = after(&events, 400);
    assert_eq!(only(&seen.series["wakeup_delay"]), [50], "it can't wait while it runs");
    assert_eq!(seen.counters["wakeups"], 1);
    assert_eq!(only(&seen.series["slice"]), [250]);
}

#[test]
fn a_new_task_waits_but_is_not_woken() {
    let events = [
        (5, 0, EventKind::Forked { task: A, parent: None }),
        (10, 0, EventKind::Enqueued { task: A, nr_running: 1, new: true }),
        (30, 0, switch(None, Some(A), S::FromIdle)),
        (40, 0, switch(Some(A), Some(B), S::Yielded)),
    ];
    let seen = after(&events, 50);
    assert_eq!(only(&seen.series["run_delay"]), [20]);
    assert_eq!((seen.series["wakeup_delay"].count(), seen.counters["wakeups"]), (0, 0));
    assert_eq!(seen.counters["switches.involuntary"], 1, "yielding is involuntary, as the kernel counts");
}

#[test]
fn lost_events_drop_stays_and_warn() {
    let events = [
        (10, 0, switch(None, Some(A), S::FromIdle)),
        (500, 0, switch(Some(B), None, S::Blocked)),
        (600, 1, switch(None, Some(A), S::FromIdle)),
        (650, 1, switch(Some(A), None, S::Blocked)),
    ];
    let seen = after(&events, 100_000);
    assert_eq!(only(&seen.series["slice"]), [50], "neither A's nor B's stay across the gap is known");
    assert_eq!(seen.warnings.len(), 1);
    assert_eq!(seen.warnings[0].code, "trace.gaps");
    assert!(
        seen.warnings[0].message.ends_with("CPU time is not known"),
        "490 ns are nobody's, 50 somebody's, however long CPUs idle"
    );
    assert!(!seen.counters.contains_key("cpu_time") && !seen.counters.contains_key("idle_time"));
}

#[test]
fn time_before_a_contradictory_switch_belongs_to_no_task() {
    let events = [
        (100, 0, switch(None, Some(A), S::FromIdle)),
        (600, 0, switch(Some(A), None, S::Blocked)),
        // B's arrival was not reported.
        (604, 0, switch(Some(B), None, S::Blocked)),
    ];
    let seen = after(&events, 1100);
    assert_eq!(seen.counters["cpu_time"], 500, "B's time is not known");
    assert_eq!(seen.counters["idle_time"], 100 + 496 + 1_100, "of the other CPU, too");
    assert_eq!(seen.warnings.len(), 1);
}

#[test]
fn balance_passes_are_counted_by_trigger() {
    let mut an = analyser(0);
    let pass = |trigger| EventKind::Balance {
        level: 0,
        trigger,
        why: BalanceReason::Moved,
        moved: 2,
        visited: 8,
        took_ns: 700,
        src: None,
    };
    feed(&mut an, &[(1, 0, pass(BalanceTrigger::Newidle)), (2, 1, pass(BalanceTrigger::Newidle))]);
    let counters = an.finish(Ns(10)).counters;
    assert_eq!((counters["balance.newidle.passes"], counters["balance.newidle.time"]), (2, 1400));
    assert_eq!((counters["balance.newidle.visited"], counters["balance.busy.passes"]), (16, 0));
}

#[test]
fn the_longest_waits_are_kept_whatever_their_order() {
    let lengths: Vec<u64> = (0..500).map(|i| i * 7919 % 503).collect();
    let run = |lengths: &[u64]| {
        let mut an = analyser(0).keeping(10);
        let mut at = 0;
        for l in lengths {
            at += 1000;
            feed(
                &mut an,
                &[
                    (at, 0, waking(A, None)),
                    (at, 0, queued(A, 1)),
                    (at + l, 0, switch(None, Some(A), SwitchReason::FromIdle)),
                    (at + l + 1, 0, switch(Some(A), None, SwitchReason::Blocked)),
                ],
            );
        }
        an.finish(Ns(at + 1000)).waits.iter().map(|w| w.length_ns).collect::<Vec<u64>>()
    };
    let mut sorted = lengths.clone();
    sorted.sort_unstable_by(|a, b| b.cmp(a));
    assert_eq!(run(&lengths), sorted[..10]);
}

proptest! {
    /// In random valid schedules of two CPUs and three tasks, all time is a task's or idle.
    #[test]
    fn stays_and_idle_time_add_up(
        steps in prop::collection::vec((1u64..1000, 0usize..2, 0usize..4, any::<bool>()), 1..200),
        from in 0u64..5000,
    ) {
        let mut an = analyser(from);
        let mut at = 0;
        let mut on: [Option<TaskId>; 2] = [None, None];
        let mut stays_ns = 0;
        let mut since = [0u64; 2];
        for (dt, cpu, who, sleeps) in steps {
            at += dt;
            let next = (who < 3).then(|| TaskId::from(who));
            if next == on[cpu] || (next.is_some() && next == on[1 - cpu]) {
                continue;
            }
            let why = match on[cpu] {
                None => SwitchReason::FromIdle,
                Some(_) if sleeps => SwitchReason::Blocked,
                Some(_) => SwitchReason::TickSlice,
            };
            feed(&mut an, &[(at, cpu as u32, switch(on[cpu], next, why))]);
            if on[cpu].is_some_and(|t| t != K) && at >= from {
                stays_ns += u128::from(at - since[cpu]);
            }
            (on[cpu], since[cpu]) = (next, at);
        }
        let end = at.max(from) + 100;
        let seen = an.finish(Ns(end));
        let c = &seen.counters;
        prop_assert_eq!(c["cpu_time"] + c["background.cpu_time"] + c["idle_time"], 2 * (end - from));
        prop_assert_eq!(seen.series["slice"].sum(), stays_ns);
        prop_assert_eq!(seen.series["slice"].count(), c["switches.voluntary"] + c["switches.involuntary"]);
        prop_assert!(seen.warnings.is_empty());
    }
}

#[test]
fn each_task_has_its_account_and_each_group_its_stays() {
    let seen = after(&story(), 2000);
    let account = |name: &str, ns, voluntary, involuntary, migrations| TaskAccount {
        name: name.into(),
        cpu_time: Ns(ns),
        voluntary,
        involuntary,
        migrations: Some(migrations),
    };
    assert_eq!(seen.tasks, [account("a", 1200, 1, 1, 1), account("b", 700, 1, 0, 0)], "no background");
    let stays = |group: &str, cpu, ns| Stays { group: group.into(), cpu: CpuId(cpu), count: 1, time: Ns(ns) };
    assert_eq!(seen.stays, [stays("a", 0, 700), stays("a", 1, 500), stays("b", 0, 700)]);
    let of = |reason: &str| only(&seen.series[&format!("slice.{reason}")]);
    assert_eq!(
        (of("slice"), of("blocked"), of("exited"), of("wakeup")),
        (vec![700], vec![500], vec![700], vec![])
    );
    assert!(!seen.series.contains_key("slice.idle"));
}

#[test]
fn accounts_begin_with_the_measured_time() {
    let mut an = analyser(1000);
    feed(&mut an, &story());
    let seen = an.finish(Ns(2000));
    let a = &seen.tasks[0];
    assert_eq!((a.cpu_time, a.voluntary, a.involuntary, a.migrations), (Ns(500), 1, 0, Some(1)));
    assert_eq!(seen.stays.len(), 2, "a stay that ended before is not counted");
    assert_eq!(seen.stays[1].time, Ns(700), "one that ended since is counted whole");
}

#[test]
fn preemptions_are_counted_by_the_preempting_group() {
    let mut an = analyser(0);
    feed(
        &mut an,
        &[
            (100, 0, switch(None, Some(A), S::FromIdle)),
            (200, 0, switch(Some(A), Some(B), S::WakeupPreempt)),
            (300, 0, switch(Some(B), Some(K), S::WakeupPreempt)),
            (400, 0, switch(Some(K), Some(A), S::Blocked)),
            (500, 0, switch(Some(A), Some(B), S::Arrived)),
            (600, 0, switch(Some(B), Some(A), S::TickSlice)),
        ],
    );
    let by = |group: &str| format!("slice.preempted_by.{group}");
    let seen = an.finish(Ns(700));
    assert_eq!(["a", "b", "kworker"].map(|g| seen.counters[&by(g)]), [0, 2, 1], "a tick is no preemption");
}

#[test]
fn waits_are_counted_by_group() {
    let seen = after(&story(), 2000);
    let of = |n: usize| {
        (seen.delays[n].group.as_str(), only(&seen.delays[n].wakeup_delay), only(&seen.delays[n].run_delay))
    };
    assert_eq!(of(0), ("a", vec![100], vec![100, 100]));
    assert_eq!(of(1), ("b", vec![600], vec![600]));
    assert_eq!(seen.delays.len(), 2);
    // A single group's waits are those of the run, and are not kept twice.
    let one = [("a/0", false), ("a/1", false), ("kworker", true)];
    let tasks = one.map(|(name, background)| TaskName { name: name.into(), background });
    let mut an = Analyser::new(2, tasks.into(), Vec::new(), Ns::ZERO);
    feed(&mut an, &story());
    let alone = an.finish(Ns(2000));
    assert_eq!((alone.delays.len(), alone.series["run_delay"].count()), (0, 3));
}

#[test]
fn groups_beyond_the_most_are_left_out() {
    let tasks: Vec<TaskName> = (0..70)
        .map(|n: u8| TaskName { name: format!("{}x", "ab".repeat(n.into())), background: false })
        .collect();
    let mut an = Analyser::new(1, tasks, Vec::new(), Ns::ZERO);
    let [near, far] = [TaskId(3), TaskId(69)];
    feed(
        &mut an,
        &[
            (100, 0, switch(None, Some(near), SwitchReason::FromIdle)),
            (200, 0, switch(Some(near), Some(far), SwitchReason::WakeupPreempt)),
            (300, 0, switch(Some(far), None, SwitchReason::Blocked)),
        ],
    );
    let seen = an.finish(Ns(400));
    assert_eq!((seen.stays.len(), seen.tasks[69].cpu_time, seen.tasks.len()), (1, Ns(100), 70));
    assert!(seen.counters.iter().all(|(name, n)| *n == 0 || !name.starts_with("slice.preempted_by")));
}

#[test]
fn a_task_added_later_has_a_name_and_an_account() {
    let mut an = analyser(0);
    let met = |name: &str, background| TaskName { name: name.into(), background };
    let (own, other) = (an.meet(met("late", false)), an.meet(met("rcu", true)));
    assert_eq!((own, other), (TaskId(3), TaskId(4)));
    feed(
        &mut an,
        &[
            (5, 0, switch(None, Some(other), S::FromIdle)),
            (10, 0, waking(own, None)),
            (11, 0, queued(own, 0)),
            (30, 0, switch(Some(other), Some(own), S::Blocked)),
            (70, 0, switch(Some(own), None, S::Exited)),
        ],
    );
    let seen = an.finish(Ns(100));
    let late = seen.tasks.iter().find(|t| t.name == "late").unwrap();
    assert_eq!((late.cpu_time, late.voluntary, seen.tasks.len()), (Ns(40), 1, 3));
    assert_eq!(seen.stays.iter().map(|s| s.group.as_str()).collect::<Vec<_>>(), ["late"]);
    assert_eq!(seen.waits[0].ended_by.as_deref(), Some("rcu"));
}

#[test]
fn no_stay_or_wait_spans_lost_events() {
    let events = [
        (100, 0, switch(None, Some(A), S::FromIdle)),
        (200, 0, waking(B, Some(A))),
        (210, 0, queued(B, 2)),
        (500, 0, EventKind::Lost { count: 7 }),
        (500, 0, switch(Some(B), Some(A), S::Preempted)),
        (600, 0, switch(Some(A), None, S::Blocked)),
    ];
    let found = after(&events, 600);
    assert_eq!(only(&found.series["slice"]), [100], "of A's second stay only");
    assert_eq!(only(&found.series["run_delay"]), [] as [u64; 0]);
    assert!(found.warnings.iter().any(|w| w.code == "trace.gaps"), "{:?}", found.warnings);
    assert!(!found.counters.contains_key("cpu_time"), "300 of 600 ns are not known");
}

#[test]
fn a_recording_of_a_cpu_that_begins_late_has_no_gap() {
    let events = [
        (100, 0, switch(Some(A), None, S::Blocked)),
        (400, 1, EventKind::Lost { count: 0 }),
        (400, 1, switch(Some(B), None, S::Blocked)),
    ];
    let found = after(&events, 1000);
    assert_eq!(found.warnings, []);
    assert_eq!((found.counters["cpu_time"], found.counters["idle_time"]), (100, 900 + 600));
}

#[test]
fn a_task_may_change_its_name_and_cpus_may_appear_late() {
    let mut an = analyser(0);
    feed(&mut an, &[(0, 0, switch(None, Some(A), S::FromIdle)), (10, 0, switch(Some(A), None, S::Blocked))]);
    an.rename(A, TaskName { name: "z".into(), background: false });
    feed(&mut an, &[(20, 7, switch(None, Some(A), S::FromIdle)), (50, 7, switch(Some(A), None, S::Blocked))]);
    let found = an.finish(Ns(50));
    let stays: Vec<_> = found.stays.iter().map(|s| (s.group.as_str(), s.cpu.0, s.count, s.time.0)).collect();
    assert_eq!(stays, [("a", 0, 1, 10), ("z", 7, 1, 30)]);
    assert_eq!((found.tasks[0].name.as_str(), found.tasks[0].cpu_time), ("z", Ns(40)));
}

#[test]
fn all_counters_of_the_analyser_are_in_the_table() {
    let machine = schedlab_machine::Machine::load("smp-2").unwrap();
    let mut an = Analyser::new(1, Vec::new(), Vec::new(), Ns::ZERO).on(&machine.topology);
    let (trigger, why) = (BalanceTrigger::Idle, BalanceReason::NoBusiest);
    let kind = EventKind::Balance { level: 0, trigger, why, moved: 0, visited: 1, took_ns: 1, src: None };
    an.event(&Event { at: Ns(1), cpu: CpuId(0), kind });
    an.sample(Ns(1), TaskId(0), 0, 1);
    let seen = an.finish(Ns(10));
    for name in seen.counters.keys() {
        assert!(Metric::find(name).is_ok(), "{name}");
    }
    assert!(seen.counters.len() > 40);
    for name in seen.series.keys() {
        let m = Metric::find(&format!("{name}.p50")).unwrap();
        assert_eq!((m.unit.as_str(), m.better), (seen.series[name].unit(), seen.series[name].better()));
    }
}
