//! Locks for which tasks spin in user mode.

use crate::support::{Load, forever, hog, machine, program, run, run_us};
use schedlab_base::TaskId;
use schedlab_workload::{Op, WordId};

const MS: u64 = 1_000_000;

/// A task that works, takes the lock, works under it and releases it. It checks that no other task holds the lock, and
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
fn one_task_at_a_time_holds_the_lock_and_the_others_burn_their_cpus() {
    for profile in ["v2.6.30", "v4.5", "v6.12"] {
        let mut load = Load::lasting_ms(100);
        let lock = load.builder.word();
        let takers: Vec<TaskId> = (0..4).map(|_| taker(&mut load, None, lock, (10, 30))).collect();
        let seen = run(&machine("smp-4"), profile, load);
        let turns = seen.values(0).len();
        // The lock is held nearly all the time.
        assert!((3_200..=3_334).contains(&turns), "{profile}: {turns}");
        let (cpu, work) = (takers.iter().map(|t| seen.cpu_ns(*t)).sum::<u64>(), seen.counter("work"));
        assert!(cpu > 395 * MS, "{profile}: nobody sleeps");
        assert!(work.abs_diff(turns as u64 * 40_000) < 5 * MS, "{profile}: spinning is not work: {work}");
    }
}

#[test]
fn a_holder_that_is_preempted_keeps_all_others_waiting() {
    let turns = |disturbed: bool| {
        let mut load = Load::lasting_ms(1_000);
        let lock = load.builder.word();
        taker(&mut load, Some("0"), lock, (0, 50));
        taker(&mut load, Some("1"), lock, (0, 50));
        if disturbed {
            load.task("hog", Some("0"), hog());
        }
        run(&machine("smp-2"), "v6.12", load).values(0).len()
    };
    let (alone, beside) = (turns(false), turns(true));
    assert!(alone > 19_000, "{alone}");
    assert!(
        beside < alone * 3 / 4,
        "the lock's holder waits for the hog, and the other task with it: {beside}"
    );
}

#[test]
fn a_task_that_comes_back_to_a_free_lock_takes_it() {
    let mut load = Load::lasting_ms(200);
    let lock = load.builder.word();
    let takers: Vec<TaskId> = (0..3).map(|_| taker(&mut load, Some("0"), lock, (100, 100))).collect();
    load.task("other", Some("1"), forever(vec![run_us(50)]));
    let seen = run(&machine("smp-2"), "v6.12", load);
    for task in takers {
        assert!(seen.cpu_ns(task) > 55 * MS, "each gets on, on one CPU");
    }
    // 1000 turns fit; a holder that loses its CPU costs the others their slices.
    let turns = seen.values(0).len();
    assert!((200..900).contains(&turns), "{turns}");
}
