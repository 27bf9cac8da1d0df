//! How long things take: sleeps and their slack, wall clock against work, a busy sibling, a cold cache, the tick grid.

use crate::support::{Load, forever, hog, kernel, machine, once, program, run, run_seeded, run_us, sleep_us};
use schedlab_base::Ns;
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::{IdleGovernor, IdleState, Machine};
use schedlab_trace::{EventKind, MoveReason, SwitchReason};
use schedlab_workload::Op;

const US: u64 = 1_000;
const MS: u64 = 1_000_000;

/// A machine whose idle CPUs poll, so that no exit latency blurs the arithmetic.
fn polling(name: &str) -> Machine {
    Machine { idle_states: Vec::new(), ..machine(name) }
}

/// When the wakeups of two sleepers that are due 30 us apart begin, ns.
fn wakings(cpus: [&str; 2]) -> Vec<u64> {
    let mut load = Load::lasting_ms(20);
    for (cpu, at) in cpus.into_iter().zip([10_000, 10_030]) {
        load.task("sleeper", Some(cpu), once(vec![Op::SleepTo { at: Ns::us(at) }]));
    }
    let seen = run(&polling("smp-2"), "v4.5", load);
    seen.events(|e| matches!(e.kind, EventKind::Waking { .. }).then_some(e.at.0))
}

#[test]
fn slack_lets_timers_of_one_cpu_fire_together() {
    let alone = wakings(["0", "1"]);
    let together = wakings(["0", "0"]);
    assert!(alone[1] - alone[0] > 29 * US, "each at the end of its slack: {alone:?}");
    assert!(together[1] - together[0] < 5 * US, "one interrupt serves both: {together:?}");
    assert!(together[0] >= 10_050 * US && together[1] < 10_060 * US);
}

#[test]
fn all_cpus_tick_on_one_grid() {
    for hz in [100, 250, 1000] {
        let tick = 1_000_000_000 / hz;
        let mut load = Load::lasting_ms(1_000);
        for cpu in ["0", "0", "1", "1", "2", "2"] {
            load.task("hog", Some(cpu), hog());
        }
        let mut kernel = kernel("v4.5");
        kernel.tunables.hz = hz;
        let seen = run_seeded(&machine("smp-4"), kernel, 1, load);
        let off = seen.events(|e| match e.kind {
            EventKind::Switch { why: SwitchReason::TickSlice | SwitchReason::TickBehind, .. } => {
                Some((e.cpu.0, e.at.0 % tick))
            }
            _ => None,
        });
        assert!((0..3).all(|cpu| off.iter().filter(|o| o.0 == cpu).count() > 10), "HZ={hz}");
        // The handler's own time, and balancing in the softirq after it.
        assert!(off.iter().all(|o| o.1 < 20 * US), "HZ={hz}: {off:?}");
    }
}

#[test]
fn data_not_fetched_before_the_next_move_are_paid_for_once() {
    let m = machine("fb-2x12-smt");
    let mut load = Load::lasting_ms(20);
    let [over, beyond] = ["12", "13"].map(|to| load.builder.mask(crate::support::cpus(to)));
    let moves = [over, beyond].map(|mask| Op::SetAffinity { mask });
    let t = load.task("t", Some("0"), once(vec![run_us(1_000), moves[0], moves[1], run_us(1_000)]));
    load.builder.edit(t).footprint_kb = 64;
    let seen = run(&m, "v4.5", load);
    assert_eq!(seen.counter("refill.time"), 64 * m.costs.refill_far_ns_per_kb);
}

/// The time from the wakeup of a batch task that sleeps on CPU `home` to its enqueue, and the time of the wake for its
/// waker on CPU 0.
fn wake_times(m: &Machine, home: &str, busy: bool) -> (u64, u64) {
    let mut load = Load::lasting_ms(100);
    let series = load.builder.series("took", "ns", "lower");
    let word = load.builder.word();
    if busy {
        load.task("hog", Some(home), crate::support::hog());
    }
    let wait = Op::Wait { word, value: 0, until: Ns::MAX };
    let wakee = load.task("wakee", Some(home), once(vec![wait]));
    load.attr(wakee, Attr { policy: Policy::Batch, ..Attr::default() });
    let mut step = 0;
    let mut began = Ns::ZERO;
    let waker = program(move |env| {
        step += 1;
        match step {
            1 => Op::SpinTo { at: Ns::ms(50) },
            2 => {
                began = env.now();
                Op::Wake { word, count: 1 }
            }
            3 => {
                let now = env.now();
                env.record(series, now.0 - began.0);
                run_us(10)
            }
            _ => Op::Exit,
        }
    });
    load.task("waker", Some("0"), waker);
    let seen = run(m, "v4.5", load);
    let waking =
        seen.events(|e| matches!(e.kind, EventKind::Waking { task, .. } if task == wakee).then_some(e.at.0));
    let queued = seen.events(|e| match e.kind {
        EventKind::Enqueued { task, new: false, .. } if task == wakee => Some(e.at.0),
        _ => None,
    });
    assert!(seen.counter("select.time") < 10 * US);
    (queued[0] - waking[0], seen.values(0)[0])
}

#[test]
fn a_waker_pays_for_a_signal_only_if_it_sends_one_and_after_the_enqueue() {
    let mut m = polling("fb-2x12-smt");
    m.costs.ipi_send_ns = MS;
    let (queued, took) = wake_times(&m, "1", true);
    assert!(queued < 20 * US && took < 20 * US, "a batch task does not preempt: {queued} {took}");
    let (queued, took) = wake_times(&m, "1", false);
    assert!(queued < 20 * US && took > MS, "an idle CPU is signalled: {queued} {took}");
}

#[test]
fn a_cpu_takes_time_to_enqueue_its_wake_list() {
    let mut m = polling("fb-2x12-smt");
    m.costs.enqueue_ns = MS;
    let (queued, took) = wake_times(&m, "12", true);
    assert!(queued > MS && took < 20 * US, "on the other socket the target does it: {queued} {took}");
    let (queued, took) = wake_times(&m, "1", true);
    assert!(queued > MS && took > MS, "within a cache the waker: {queued} {took}");
}

/// When a sleeper on a machine of one CPU is switched away, woken, and switched to, ns.
fn one_sleep(m: &Machine) -> [u64; 3] {
    let mut load = Load::lasting_ms(20);
    load.task("sleeper", Some("0"), once(vec![Op::SleepTo { at: Ns::us(10_000) }]));
    let seen = run(m, "v6.1", load);
    let from = seen
        .events(|e| matches!(e.kind, EventKind::Switch { why: SwitchReason::Blocked, .. }).then_some(e.at.0));
    let waking = seen.events(|e| matches!(e.kind, EventKind::Waking { .. }).then_some(e.at.0));
    let to = seen.events(|e| matches!(e.kind, EventKind::Switch { next: Some(_), .. }).then_some(e.at.0));
    [from[0], waking[0], to[1]]
}

#[test]
fn the_time_of_schedule_before_its_event_delays_the_event() {
    let mut plain = Machine { background: Vec::new(), ..polling("smp-1") };
    // Once this cost is stated at all, the time before the pick comes before the event.
    plain.set_cost("schedule_idle_ns", US).unwrap();
    let [from, waking, to] = one_sleep(&plain);
    let later = |name: &str| {
        let mut m = plain.clone();
        m.set_cost(name, 100 * US).unwrap();
        let [f, w, t] = one_sleep(&m);
        [f - from, w - waking, t - to]
    };
    assert_eq!(later("schedule_empty_ns"), [100 * US, 0, 0], "no other task is there");
    assert_eq!(later("schedule_sleep_ns"), [100 * US, 0, 0], "which takes as long unless it is stated");
    assert_eq!(later("schedule_idle_ns"), [99 * US, 0, 99 * US], "an idle CPU has found the new task, too");
    assert_eq!(later("timer_exit_ns"), [0, 0, 100 * US], "the rest of the interrupt comes before the switch");
    assert_eq!(later("tick_restart_ns")[1..], [0, 100 * US], "the tick is off after 10 ms of idling");
    assert_eq!(later("idle_enter_ns"), [0, 0, 0], "a long sleep hides it");
    assert_eq!(later("tick_stop_ns"), [0, 0, 0]);
    let mut stated = plain.clone();
    stated.set_cost("schedule_empty_ns", US).unwrap();
    let before = one_sleep(&stated);
    stated.set_cost("schedule_sleep_ns", 100 * US).unwrap();
    assert_eq!(one_sleep(&stated), before, "it is stated");
}

#[test]
fn a_task_that_comes_back_from_a_sleep_or_a_halt_pays_for_it() {
    let used = |name: &str, busy: bool, halts: bool| {
        let of = |ns: u64| {
            let mut m = Machine { background: Vec::new(), ..polling("smp-1") };
            if halts {
                let (exit, typical) = (Ns::us(1), Ns::us(1));
                m.idle_states =
                    vec![IdleState { name: "halt".to_owned(), exit, typical, residency: Ns::ZERO }];
            }
            m.set_cost(name, ns).unwrap();
            let mut load = Load::lasting_ms(20);
            let ops = vec![Op::SleepTo { at: Ns::us(5_000) }, run_us(1_000)];
            let sleeper = load.task("sleeper", Some("0"), once(ops));
            if busy {
                load.task("hog", Some("0"), hog());
            }
            run(&m, "v6.1", load).cpu_ns(sleeper)
        };
        of(100 * US) - of(0)
    };
    assert_eq!(used("timer_return_ns", false, false), 100 * US);
    assert_eq!(used("timer_return_ns", true, false), 100 * US);
    // Its first switch also comes from idle, the second is the timer's.
    assert_eq!(used("idle_return_ns", false, true), 100 * US);
    assert_eq!(used("idle_return_ns", false, false), 0, "a CPU that polls has lost nothing");
}

/// Live programs compute by their CPU clock, which also runs in interrupts and switches.
#[test]
fn a_task_that_computes_by_its_cpu_clock_does_less_work_if_interrupts_take_longer() {
    let used = |clock_ns: u64, name: &str, ns: u64, beside_hog: bool| {
        let mut m = Machine { background: Vec::new(), ..polling("smp-1") };
        m.set_cost("cpu_clock_ns", clock_ns).unwrap();
        m.set_cost(name, ns).unwrap();
        let mut load = Load::lasting_ms(400);
        let worker = load.task("worker", Some("0"), once(vec![run_us(100_000)]));
        if beside_hog {
            load.task("hog", Some("0"), hog());
        }
        run(&m, "v6.1", load).cpu_ns(worker)
    };
    for (name, beside_hog) in [("tick_ns", false), ("context_switch_ns", true)] {
        let more =
            |clock_ns| used(clock_ns, name, 100 * US, beside_hog) - used(clock_ns, name, US, beside_hog);
        let by_work = more(0);
        assert!(by_work >= 25 * 99 * US, "{name}: 25 of them come on top of the work: {by_work}");
        let by_clock = more(100);
        assert!(by_clock <= 2 * 100 * US, "{name}: at most the last ones do: {by_clock}");
    }
}

/// A guest's halt gets deeper: a state is paid for once the halt has lasted its residency.
#[test]
fn leaving_a_guests_halt_costs_by_its_length() {
    let exits = |governor: IdleGovernor, sleep: u64| {
        let mut m = Machine { background: Vec::new(), ..polling("smp-1") };
        let state = |name: &str, typical: u64, residency: u64| IdleState {
            name: name.to_owned(),
            exit: Ns::us(1),
            typical: Ns::us(typical),
            residency: Ns::us(residency),
        };
        m.idle_states = vec![state("POLL", 0, 0), state("halt 0", 7, 0), state("halt 1", 70, 500)];
        m.idle_governor = governor;
        let mut load = Load::lasting_ms(20);
        load.task(
            "sleeper",
            Some("0"),
            once(vec![Op::SleepTo { at: Ns::us(5_000) }, run_us(10), sleep_us(sleep)]),
        );
        run(&m, "v6.1", load)
            .events(|e| match e.kind {
                EventKind::IdleExit { exit_ns } => Some(exit_ns),
                _ => None,
            })
            .last()
            .copied()
    };
    assert_eq!(exits(IdleGovernor::Halt, 100), Some(7_000));
    assert_eq!(exits(IdleGovernor::Halt, 2_000), Some(70_000));
}

#[test]
fn an_interrupt_ends_the_way_into_idle() {
    let sleeps = |enter_ns: u64| {
        let mut m = polling("smp-1");
        m.set_cost("idle_enter_ns", enter_ns).unwrap();
        let mut load = Load::lasting_ms(50);
        load.task("sleeper", Some("0"), forever(vec![run_us(100), sleep_us(100)]));
        run(&m, "v6.1", load).events(|e| matches!(e.kind, EventKind::Waking { .. }).then_some(())).len()
    };
    let (slow, quick) = (sleeps(5 * MS), sleeps(0));
    assert!(slow > quick * 9 / 10 && quick > 150, "{slow} of {quick} wakeups");
}

/// How often a sleeper next to a hog wakes up at the very instant of a tick. Its sleeps take 783 us with their slack.
fn wakes_at_a_tick(version: &str) -> usize {
    let mut load = Load::lasting_ms(500);
    load.task("hog", None, hog());
    load.task("sleeper", None, forever(vec![sleep_us(733)]));
    let m = polling("smp-1").without_costs().unwrap();
    let at_a_tick = |e: &schedlab_trace::Event| match e.kind {
        EventKind::Enqueued { new: false, .. } => e.at.0.is_multiple_of(4 * MS).then_some(()),
        _ => None,
    };
    run(&m, version, load).events(at_a_tick).len()
}

#[test]
fn a_tick_runs_timers_whose_slack_has_begun() {
    assert!(wakes_at_a_tick("v6.1") > 2, "by the tick's interrupt");
    assert_eq!(wakes_at_a_tick("v4.5"), 0, "by interrupts of their own, 783 us after each other");
}

/// Whether a CPU that goes idle after 200 us takes a task that has not run since the run began.
fn takes_a_task_that_has_not_run(version: &str) -> bool {
    let mut load = Load::lasting_ms(1);
    load.task("hog", None, hog());
    for short in 1..8 {
        load.task(&format!("short-{short}"), None, once(vec![run_us(200), sleep_us(1_000_000)]));
    }
    load.task("waits", None, hog());
    let m = machine("smp-8").without_costs().unwrap();
    let taken = |e: &schedlab_trace::Event| {
        matches!(e.kind, EventKind::Migrate { why: MoveReason::Newidle, .. }).then_some(())
    };
    !run(&m, version, load).events(taken).is_empty()
}

#[test]
fn a_task_that_has_not_run_yet_is_cold_at_the_start_of_a_run() {
    assert!(takes_a_task_that_has_not_run("v6.1"));
    assert!(!takes_a_task_that_has_not_run("v5.4"), "it counts from the run's start there");
}
