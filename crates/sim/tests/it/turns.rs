//! CPUs that share one processor's time: how much work they do together, how much time is charged, and when a woken
//! task begins.

use crate::support::{Load, forever, hog, kernel, machine, once, program, run, run_us, sleep_us};
use schedlab_base::{CpuId, Ns};
use schedlab_machine::{Machine, TurnRule, Turns};
use schedlab_sim::{Setup, simulate, simulate_unmerged};
use schedlab_trace::{BalanceTrigger, Event, EventKind, Keep};
use schedlab_workload::{Built, Op};
use std::sync::{Arc, Mutex};

/// The machine of that name, with CPUs that take turns.
fn in_turns(name: &str) -> Machine {
    let rule = TurnRule::DeadlineShare;
    let turns = Turns { rule, spin_ns: 90, cpu_clock_ns: 800, alarm_ns: 0, newidle_ns: [0; 10] };
    Machine { turns: Some(turns), ..machine(name) }
}

/// Goes over memory for `rounds` rounds of 60 us: work that needs the processor, not a wait for a clock.
fn touches(rounds: u32) -> Op {
    Op::Touch { kb: 1, rounds: rounds * 1000 }
}

#[test]
fn a_wakee_waits_for_the_end_of_the_wakers_turn() {
    let mut load = Load::lasting_ms(50);
    let word = load.builder.word();
    let mut at = 0;
    let waits = load.task(
        "waits",
        Some("1"),
        program(move |env| {
            at += 1;
            if at % 2 == 1 { Op::Wait { word, value: 0, until: Ns::MAX } } else { sleep_for(env.now()) }
        }),
    );
    let waker =
        load.task("wakes", Some("0"), once(vec![sleep_us(5_100), Op::Wake { word, count: 1 }, touches(30)]));
    load.builder.edit(waker).footprint_kb = 1;
    let done = run(&in_turns("smp-2"), "v6.5", load);
    let placed = done.placements(waits)[1].0;
    let begins = done.events(|e| match e.kind {
        EventKind::Switch { next: Some(t), .. } if t == waits && e.at.0 > placed => Some(e.at.0),
        _ => None,
    });
    let delay = begins[0] - placed;
    // 2.9 ms are left to the next tick, at 8 ms: half of that for each CPU, less the time of the wakeup.
    assert!((1_300_000..1_450_000).contains(&delay), "{delay}");
}

fn sleep_for(_: Ns) -> Op {
    Op::Sleep { length: Ns::secs(1) }
}

#[test]
fn a_timer_that_becomes_the_earliest_ends_the_turn_of_its_cpu() {
    let mut load = Load::lasting_ms(50);
    // CPU 1 works. CPU 0's sleeper sets the earliest timer each time, which ends its turn before it sleeps.
    let worker = load.task("works", Some("1"), forever(vec![touches(1_000_000)]));
    load.builder.edit(worker).footprint_kb = 1;
    load.task("naps", Some("0"), forever(vec![sleep_us(100)]));
    let done = run(&in_turns("smp-2"), "v6.5", load);
    let switches = done.events(|e| match e.kind {
        EventKind::Switch { prev, .. } if e.cpu == CpuId(0) => Some((prev.is_none(), e.at.0)),
        _ => None,
    });
    let mut stays: Vec<u64> = switches
        .windows(2)
        .filter(|pair| pair[0].0 && !pair[1].0)
        .map(|pair| pair[1].1 - pair[0].1)
        .collect();
    stays.sort_unstable();
    assert!(stays.len() > 100, "{} naps", stays.len());
    // The timer is due in 150 us, slack included: half of that is the other CPU's turn.
    assert!((74_000..79_000).contains(&stays[stays.len() / 2]), "{stays:?}");
}

#[test]
fn a_sleep_counts_from_its_timers_start_and_is_skipped_if_the_timer_fires_early() {
    let naps = |length_us: u64| {
        let mut load = Load::lasting_ms(60);
        let slept = Arc::new(Mutex::new(Vec::new()));
        let (told, mut began) = (slept.clone(), None);
        let napper = load.task(
            "naps",
            Some("0"),
            program(move |env| {
                let now = env.now().0;
                told.lock().unwrap().extend(began.replace(now).map(|before| now - before));
                sleep_us(length_us)
            }),
        );
        load.builder.edit(napper).timer_slack = Some(Ns::ZERO);
        let worker = load.task("works", Some("1"), forever(vec![touches(1_000_000)]));
        load.builder.edit(worker).footprint_kb = 1;
        let done = run(&in_turns("smp-2"), "v6.5", load);
        let goes = |e: &Event| matches!(e.kind, EventKind::Switch { prev: Some(t), .. } if t == napper);
        let blocked = done.events(|e| goes(e).then_some(())).len();
        let slept = slept.lock().unwrap();
        assert!(slept.iter().all(|ns| *ns >= length_us * 1_000), "none is shorter than it was to be");
        blocked * 100 / slept.len()
    };
    // Setting the earliest timer ends the turn: it fires half a microsecond later, in the other CPU's turn.
    assert_eq!((naps(1), naps(100)), (0, 100));
}

#[test]
fn a_tick_that_was_due_before_a_sleepers_timer_finds_the_cpu_idle() {
    let idle_passes = |timer_after_tick_ns: u64| {
        let mut load = Load::lasting_ms(400);
        let mut tick = 0;
        let sleeper = load.task(
            "naps",
            Some("0"),
            program(move |_| {
                tick += 1;
                Op::SleepTo { at: Ns(tick * 4_000_000 + timer_after_tick_ns) }
            }),
        );
        load.builder.edit(sleeper).timer_slack = Some(Ns::ZERO);
        let done = run(&Machine { idle_states: Vec::new(), ..in_turns("smp-2") }, "v6.1", load);
        let idle = |e: &Event| matches!(e.kind, EventKind::Balance { trigger: BalanceTrigger::Idle, .. });
        done.events(|e| (e.cpu == CpuId(0) && idle(e)).then_some(())).len()
    };
    // When the CPU has left its halt both are due; the earlier one is handled first.
    assert!(idle_passes(100) > 10, "{} after", idle_passes(100));
    assert!(idle_passes(3_999_900) < 3, "{} before the next one", idle_passes(3_999_900));
}

/// A mixture of all loads that matter to turns: waiting for clocks, memory, wakeups across CPUs, sleeps.
fn mixture(ms: u64) -> Built {
    let mut load = Load::lasting_ms(ms);
    for pair in 0..4u64 {
        let words = [load.builder.word(), load.builder.word()];
        for side in 0..2 {
            let (mine, other, mut at) = (words[side], words[1 - side], side);
            let partner = program(move |env| {
                at += 1;
                let until = Ns(env.now().0 + 300_000);
                match at % 5 {
                    0 => Op::Wake { word: other, count: 1 },
                    1 => Op::Wait { word: mine, value: 0, until },
                    2 => run_us(20 + pair * 30),
                    3 => touches(pair as u32),
                    _ => Op::SpinTo { at: Ns(env.now().0 + 15_000) },
                }
            });
            load.task("partner", None, partner);
        }
    }
    load.task("hog", None, hog());
    load.built()
}

#[test]
fn rounds_of_waiting_are_the_same_one_by_one_or_in_a_leap() {
    for (name, profile) in [("smp-2", "v4.5"), ("smt-8", "v6.5"), ("nodes-2x4", "v7.3"), ("smp-4", "v3.4")] {
        for seed in 0..3 {
            let mut machine = in_turns(name);
            if let Some(turns) = &mut machine.turns {
                turns.alarm_ns = seed * 1_700_000;
            }
            let setup = || Setup {
                machine: &machine,
                kernel: kernel(profile),
                changes: vec![(Ns::ms(7), kernel(profile))],
                workload: mixture(30),
                seed,
                background: true,
                check: false,
                stop: None,
                clock: None,
            };
            let (mut leaping, mut stepping, mut again) = (Keep::default(), Keep::default(), Keep::default());
            let report = simulate(setup(), &mut leaping).expect("the run ends well");
            assert_eq!(report, simulate_unmerged(setup(), &mut stepping).expect("the run ends well"));
            assert_eq!(report, simulate(setup(), &mut again).expect("the run ends well"));
            assert_eq!(leaping.events, stepping.events, "{name} {profile} {seed}");
            assert_eq!(leaping.events, again.events);
            assert!(report.events > 1_000, "{} steps are no test", report.events);
        }
    }
}

#[test]
fn all_domains_are_due_at_the_first_tick_because_the_machine_was_up_for_long() {
    // All CPUs are busy, and their interval is 64 ms.
    let first_pass = |machine: &Machine| {
        let mut load = Load::lasting_ms(100);
        for cpu in ["0", "1", "2", "3"] {
            load.task("hog", Some(cpu), hog());
        }
        let busy = run(machine, "v6.5", load).events(|e| match e.kind {
            EventKind::Balance { trigger: BalanceTrigger::Busy, .. } if e.cpu == CpuId(0) => Some(e.at),
            _ => None,
        });
        busy[0]
    };
    let (guest, other) = (first_pass(&in_turns("smp-4")), first_pass(&machine("smp-4")));
    assert!(guest < Ns::ms(6) && other < Ns::ms(6), "{guest} {other}");
}

#[test]
fn a_sleep_that_is_shorter_than_its_call_still_counts() {
    let guest = machine("icount-4");
    let call_ns = guest.costs.program_ns + guest.costs.syscall_ns + guest.costs.timer_start_ns;
    assert!(call_ns > 1000, "{call_ns}");
    let mut load = Load::lasting_ms(50);
    let id = load.task("naps", Some("0"), forever(vec![sleep_us(1)]));
    let naps = run(&guest, "v6.1", load).events(|e| match e.kind {
        EventKind::Switch { prev: Some(t), .. } if t == id => Some(()),
        _ => None,
    });
    // A sleep takes a microsecond, 50 of slack, and about ten for the way back.
    assert!((600..1000).contains(&naps.len()), "{}", naps.len());
}

#[test]
fn the_cost_of_newidle_passes_since_boot_decides_which_cpus_make_them() {
    let passes = |known_ns: [u32; 10]| {
        let mut guest = in_turns("smp-4");
        guest.turns.as_mut().unwrap().newidle_ns = known_ns;
        let mut load = Load::lasting_ms(100);
        load.crowd_zero();
        for cpu in ["1", "2", "3"] {
            load.task("naps", Some(cpu), forever(vec![run_us(20), sleep_us(200)]));
        }
        let made = run(&guest, "v6.5", load).events(|e| match e.kind {
            EventKind::Balance { trigger: BalanceTrigger::Newidle, .. } => Some(e.cpu),
            _ => None,
        });
        (1..4).map(|c| made.iter().filter(|on| **on == CpuId(c)).count()).collect::<Vec<_>>()
    };
    // A task waits for CPU 0 all the time, and naps last 0.25 ms.
    assert!(passes([2_000; 10]).iter().all(|n| *n > 100), "{:?}", passes([2_000; 10]));
    assert!(passes([2_000_000; 10]).iter().all(|n| *n < 20), "{:?}", passes([2_000_000; 10]));
    let mixed =
        passes([2_000, 2_000, 2_000, 2_000, 2_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000, 2_000_000]);
    assert!(mixed.iter().any(|n| *n > 100) && mixed.iter().any(|n| *n < 20), "each has its own: {mixed:?}");
}
