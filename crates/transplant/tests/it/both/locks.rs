//! Locks for which tasks spin in user mode.

use super::on_both;
use super::support::{Load, forever, hog, machine, program, run_us};
use schedlab_base::TaskId;
use schedlab_workload::{Op, WordId};

const MS: u64 = 1_000_000;

/// A task that works, takes the lock, works under it and releases it. It checks that it holds the lock alone, and
/// records each turn.
fn taker(load: &mut Load, on: Option<&str>, lock: WordId, (outside, inside): (u64, u64)) -> TaskId {
    let (holders, turns) = (load.builder.slot(), load.builder.series("turns", "", "higher"));
    let mut stage = 0;
    let next = move |env: &mut dyn schedlab_workload::Env| {
        use std::sync::atomic::Ordering::SeqCst;
        stage += 1;
        match stage {
            1 => run_us(outside),
            2 => Op::SpinLock { word: lock },
            3 => {
                assert_eq!(env.word(lock).load(SeqCst), 1, "held");
                assert_eq!(env.slot(holders).fetch_add(1, SeqCst), 0);
                run_us(inside)
            }
            _ => {
                env.slot(holders).fetch_sub(1, SeqCst);
                env.record(turns, 1);
                stage = 0;
                Op::SpinUnlock { word: lock }
            }
        }
    };
    load.task("taker", on, program(next))
}

#[test]
fn one_at_a_time_holds_it_and_the_others_burn_their_cpus() {
    let test = "both::locks::one_at_a_time_holds_it_and_the_others_burn_their_cpus";
    on_both(test, &["v2.6.30", "v4.5", "v6.12"], |on| {
        let mut load = Load::lasting_ms(100);
        let lock = load.builder.word();
        let takers: Vec<TaskId> = (0..4).map(|_| taker(&mut load, None, lock, (10, 30))).collect();
        let seen = on.figures(&machine("smp-4"), load, |run| {
            let cpu_ns = takers.iter().map(|t| run.cpu_ns(*t)).sum();
            vec![run.values(0).len() as u64, cpu_ns, run.counter("work")]
        });
        let [turns, cpu_ns, work] = seen[..] else { panic!("{seen:?}") };
        assert!((3_200..=3_334).contains(&turns), "it is held nearly all the time: {turns}");
        assert!(cpu_ns > 395 * MS, "nobody sleeps: {cpu_ns}");
        assert!(work.abs_diff(turns * 40_000) < 5 * MS, "spinning is not work: {work}");
    });
}

#[test]
fn a_holder_that_is_preempted_keeps_all_others_waiting() {
    on_both("both::locks::a_holder_that_is_preempted_keeps_all_others_waiting", &["v6.12"], |on| {
        let mut turns = |disturbed: bool| {
            let mut load = Load::lasting_ms(1_000);
            let lock = load.builder.word();
            taker(&mut load, Some("0"), lock, (0, 50));
            taker(&mut load, Some("1"), lock, (0, 50));
            if disturbed {
                load.task("hog", Some("0"), hog());
            }
            on.figures(&machine("smp-2"), load, |run| vec![run.values(0).len() as u64])[0]
        };
        let (alone, beside) = (turns(false), turns(true));
        assert!(alone > 19_000, "{alone}");
        assert!(beside < alone * 3 / 4, "the holder waits for the hog, and the other with it: {beside}");
    });
}

#[test]
fn who_comes_back_to_a_free_lock_takes_it() {
    on_both("both::locks::who_comes_back_to_a_free_lock_takes_it", &["v6.12"], |on| {
        let mut load = Load::lasting_ms(200);
        let lock = load.builder.word();
        let takers: Vec<TaskId> = (0..3).map(|_| taker(&mut load, Some("0"), lock, (100, 100))).collect();
        load.task("other", Some("1"), forever(vec![run_us(50)]));
        let mut seen = on.figures(&machine("smp-2"), load, |run| {
            takers.iter().map(|t| run.cpu_ns(*t)).chain([run.values(0).len() as u64]).collect()
        });
        // 1000 turns fit; a holder that loses its CPU costs the others their slices.
        let turns = seen.pop();
        assert!(turns.is_some_and(|n| (200..900).contains(&n)), "{turns:?}");
        assert!(seen.iter().all(|ns| *ns > 55 * MS), "each gets on, on one CPU: {seen:?}");
    });
}
