//! Steps that follow each other at one instant, or before any other CPU acts, are merged. That must not change
//! anything: the same events and samples in the same order, the same report, the same number of steps.

use crate::support::{Load, forever, kernel, machine, once, program, run_us, sleep_us, with_caches};
use schedlab_base::Ns;
use schedlab_machine::Machine;
use schedlab_sim::{Setup, simulate, simulate_unmerged, simulate_walking};
use schedlab_trace::Keep;
use schedlab_workload::{Built, Op, Outcome, Params, Spec};

/// Naps of a microsecond, one or more tasks for each CPU: timers, idle states, and many ties.
fn storm(machine: &Machine, per_cpu: usize, ms: u64) -> Built {
    let mut load = Load::lasting_ms(ms);
    let series = load.builder.series("nap", "ns", "lower");
    for i in 0..machine.topology.nr_cpus() * per_cpu {
        let mut asleep_since = None;
        let nap = program(move |env| {
            let now = env.now();
            if let Some(began) = asleep_since.take() {
                env.record(series, now.since(began).0);
                return run_us(i as u64 % 3 + 1);
            }
            asleep_since = Some(now);
            sleep_us(1)
        });
        load.task("nap", None, nap);
    }
    load.built()
}

/// Pairs that wake each other, half of them with a time-out that sometimes comes first; yields, a hog, new tasks.
fn mixture(machine: &Machine, ms: u64) -> Built {
    let mut load = Load::lasting_ms(ms);
    for pair in 0..machine.topology.nr_cpus() as u64 {
        let words = [load.builder.word(), load.builder.word()];
        for side in 0..2 {
            let (mine, other, mut at) = (words[side], words[1 - side], side);
            let until_us = if pair % 2 == 0 { u64::MAX } else { 20 };
            let partner = program(move |env| {
                at += 1;
                let now = env.now().0;
                let until = Ns(if until_us == u64::MAX { u64::MAX } else { now + until_us * 1000 });
                match (at % 4, env.outcome()) {
                    (0, _) => Op::Wake { word: other, count: 1 },
                    (1, _) => Op::Wait { word: mine, value: 0, until },
                    (2, Outcome::TimedOut) => Op::Yield,
                    (2, _) => Op::Run { work: Ns(700) },
                    _ => run_us(pair % 7),
                }
            });
            load.task("partner", None, partner);
        }
    }
    load.task("hog", None, forever(vec![run_us(900), Op::Yield]));
    load.task("leaves", None, once(vec![run_us(500), sleep_us(300), run_us(5)]));
    load.built()
}

fn schbench(_: &Machine, ms: u64) -> Built {
    let times = [("runtime", ms * 1_000_000), ("sleeptime", 2_000_000), ("cputime", 900_000)];
    let params = times.into_iter().chain([("message_threads", 2), ("threads", 30)]);
    let params = Params(params.map(|(name, value)| (name.to_owned(), value)).collect());
    Spec::bench("schbench", &params).and_then(|s| s.build(1)).expect("schbench")
}

/// Asserts that merged and single steps give the same; returns the steps.
fn equal(machine_name: &str, profile: &str, seed: u64, load: impl Fn(&Machine) -> Built) -> u64 {
    equal_on(&machine(machine_name), profile, seed, load)
}

fn equal_on(machine: &Machine, profile: &str, seed: u64, load: impl Fn(&Machine) -> Built) -> u64 {
    let machine_name = &machine.name;
    let setup = || Setup {
        machine,
        kernel: kernel(profile),
        changes: Vec::new(),
        workload: load(machine),
        seed,
        background: true,
        check: false,
        stop: None,
        clock: None,
    };
    let (mut merged, mut unmerged) = (Keep::default(), Keep::default());
    let report = simulate(setup(), &mut merged).expect("the run ends well");
    assert_eq!(report, simulate_unmerged(setup(), &mut unmerged).expect("the run ends well"));
    let walking = simulate_walking(setup(), 64, &mut Keep::default()).expect("the run ends well");
    assert_eq!(report, walking, "{machine_name} {profile}: walking the invariants changes nothing");
    let differ = merged.events.iter().zip(&unmerged.events).position(|(a, b)| a != b);
    assert_eq!(
        differ.map(|at| (at, merged.events[at], unmerged.events[at])),
        None,
        "{machine_name} {profile}"
    );
    assert_eq!((merged.events.len(), &merged.samples), (unmerged.events.len(), &unmerged.samples));
    report.events
}

#[test]
fn a_storm_of_naps_is_the_same_merged_or_not() {
    for (machine, profile) in [
        ("smp-2", "v3.4"),
        ("smp-8", "v4.5"),
        ("fb-2x24-smt", "v4.5"),
        ("fb-2x12-smt", "v6.5"),
        ("nodes-2x4", "v6.5"),
        ("fb-2x12-smt", "v6.18"),
        ("fb-2x12-smt", "v7.3"),
    ] {
        for seed in 0..3 {
            let steps = equal(machine, profile, seed, |m| storm(m, 1 + seed as usize % 2, 5));
            assert!(steps > 1_000, "{steps} steps are no test");
        }
    }
    assert!(equal("spr-2x56", "v6.5", 1, |m| storm(m, 1, 3)) > 100_000);
}

#[test]
fn wakers_timeouts_yields_and_exits_are_the_same_merged_or_not() {
    for (machine, profile) in [
        ("smp-2", "v4.5"),
        ("smp-8", "v3.4"),
        ("fb-2x12-smt", "v4.5 SIS_FIRST_IDLE"),
        ("x5570-2x4-smt", "v6.5"),
        ("x5570-2x4-smt", "v6.12"),
        ("x5570-2x4-smt", "v7.3"),
    ] {
        for seed in 0..3 {
            let steps = equal(machine, profile, seed, |m| mixture(m, 10));
            assert!(steps > 1_000, "{steps} steps are no test");
        }
    }
}

#[test]
fn schbench_is_the_same_merged_or_not() {
    for profile in ["v3.4", "v4.5", "v4.5 SIS_FIRST_IDLE", "v6.5", "v7.3"] {
        assert!(equal("fb-2x24-smt", profile, 3, |m| schbench(m, 100)) > 1_000);
    }
}

/// Tasks with working sets of many sizes that go over them, compute and sleep.
fn sets(machine: &Machine, ms: u64) -> Built {
    let mut load = Load::lasting_ms(ms);
    for i in 0..2 * machine.topology.nr_cpus() as u32 {
        let kb = 20 + 37 * (i % 11);
        let ops = vec![Op::Touch { kb, rounds: 1 + i % 3 }, run_us(u64::from(30 + i % 50)), sleep_us(200)];
        let task = load.task("set", None, forever(ops));
        load.builder.edit(task).footprint_kb = kb + 8;
    }
    load.built()
}

#[test]
fn working_sets_in_caches_are_the_same_merged_or_not() {
    for (name, profile) in
        [("smp-2", "v4.5"), ("smp-8", "v2.6.12"), ("fb-2x12-smt", "v6.5"), ("fb-2x12-smt", "v6.12")]
    {
        let machine = with_caches(&machine(name));
        for seed in 0..3 {
            let steps = equal_on(&machine, profile, seed, |m| sets(m, 20));
            assert!(steps > 1_000, "{steps} steps are no test");
        }
    }
}
