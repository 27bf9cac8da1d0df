//! The storm's logic: its operations, its records, and the number of clock readings.

use crate::op::{Env, Op, Outcome, Program, SeriesId, SlotId, WordId};
use crate::rig::{Costs, bench, refused, spec};
use schedlab_base::{CpuId, Ns};
use std::sync::atomic::{AtomicU32, AtomicU64};

const COSTS: Costs = Costs { op: Ns(400), wakeup: Ns::us(3), slack: Ns::us(50) };

#[test]
fn every_round_is_one_sleep_and_its_overrun_is_recorded() {
    let log = bench("nanosleep", &[("tasks", 3), ("spread", 0), ("runtime", 10_000_000)], 1, COSTS);
    assert!(log.steps.iter().all(|s| s.op == Op::Sleep { length: Ns::us(1) }));
    // 50 us of slack, 400 ns of call, 3 us to wake: 53.4 us beyond the microsecond, so a round takes 54.4 us.
    let values = log.values("nanosleep.overrun");
    assert!(values.iter().all(|v| *v == 53_400), "{values:?}");
    assert_eq!(values.len(), 3 * (10_000_000 / 54_400));
    assert_eq!(log.steps_of("sleeper-2").len(), 10_000_000_usize.div_ceil(54_400));
}

#[test]
fn work_between_sleeps_is_not_part_of_the_overrun() {
    let given = [("run", 20_000), ("sleep", 5_000), ("spread", 0), ("runtime", 1_000_000)];
    let log = bench("nanosleep", &given, 1, COSTS);
    let ops: Vec<Op> = log.steps_of("sleeper-0").iter().map(|s| s.op).take(4).collect();
    let (sleep, run) = (Op::Sleep { length: Ns::us(5) }, Op::Run { work: Ns::us(20) });
    assert_eq!(ops, [sleep, run, sleep, run]);
    assert!(log.values("nanosleep.overrun").iter().all(|v| *v == 53_400));
}

#[test]
fn the_tasks_begin_apart() {
    let log = bench("nanosleep", &[("tasks", 50), ("runtime", 3_000_000)], 1, COSTS);
    let first = |n: usize| match log.steps_of(&format!("sleeper-{n}"))[0].op {
        Op::Sleep { length } => length.0,
        op => panic!("{op:?}"),
    };
    let mut begins: Vec<u64> = (0..50).map(first).collect();
    assert!(begins.iter().all(|b| *b <= 1_000_000), "{begins:?}");
    begins.sort_unstable();
    begins.dedup();
    assert!(begins.len() > 45 && begins[0] < 200_000 && begins[begins.len() - 1] > 800_000, "{begins:?}");
    assert!(log.values("nanosleep.overrun").iter().all(|v| *v == 53_400), "the first is not recorded");
}

#[test]
fn slack_and_kind_of_task_are_as_asked() {
    let built = spec("nanosleep", &[("tasks", 2)]).build(1).unwrap();
    assert!(built.processes && built.tasks.iter().all(|t| t.timer_slack.is_none()));
    let built = spec("nanosleep", &[("slack", 1), ("mode", 1)]).build(1).unwrap();
    assert_eq!((built.processes, built.tasks[0].timer_slack), (false, Some(Ns(1))));
    assert_eq!(
        refused("nanosleep", &[("sleep", 0)]),
        "sleep = 0ns is out of range\n  help: it takes 1ns to 60s"
    );
    assert!(refused("nanosleep", &[("mode", 2)]).contains("it takes process to thread"));
}

/// Counts a program's calls to its environment.
#[derive(Default)]
struct Counting {
    reads: u64,
    records: Vec<u64>,
}

impl Env for Counting {
    fn now(&mut self) -> Ns {
        self.reads += 1;
        Ns::us(self.reads)
    }
    fn outcome(&self) -> Outcome {
        Outcome::Done
    }
    fn cpu(&mut self) -> CpuId {
        unreachable!("a sleeper does not care where it is")
    }
    fn word(&self, _: WordId) -> &AtomicU32 {
        unreachable!("a sleeper shares nothing")
    }
    fn slot(&self, _: SlotId) -> &AtomicU64 {
        unreachable!("a sleeper shares nothing")
    }
    fn record(&mut self, _: SeriesId, value: u64) {
        self.records.push(value);
    }
}

#[test]
fn the_clock_is_read_once_before_and_once_after_a_sleep() {
    let mut program = spec("nanosleep", &[("spread", 0)]).build(1).unwrap().tasks.remove(0).program;
    let mut env = Counting::default();
    Program::next(program.as_mut(), &mut env);
    assert_eq!((env.reads, env.records.len()), (1, 0));
    for round in 1..=50 {
        program.next(&mut env);
        assert_eq!((env.reads, env.records.len()), (1 + 2 * round, round as usize));
    }
}
