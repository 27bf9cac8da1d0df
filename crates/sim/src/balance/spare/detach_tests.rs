//! Tests of the detach rules of 6.5 that differ from 4.5's.

use super::*;
use crate::balance::spare::imbalance::AmountRule;
use crate::balance::testing;
use MigrationType::{Load, Task as Tasks, Util};
use schedlab_base::CpuId;

const RULES: DetachRules = DetachRules {
    common: testing::RULES,
    share_capacity: false,
    active: false,
    util_shrinks: false,
    walks_past_pinned: true,
    emptied_unwalked: true,
};
const COLD: SizedTask = SizedTask { facts: testing::COLD, util: 300, fits_source: false };
const PINNED: SizedTask = SizedTask { facts: TaskFacts { allowed: false, ..COLD.facts }, ..COLD };

fn with(change: impl FnOnce(&mut common::MigrateRules)) -> DetachRules {
    let mut rules = RULES;
    change(&mut rules.common);
    rules
}
fn walk(migration: MigrationType, amount: u64, nr: u32) -> Detach {
    Detach::new(Amount { migration, amount, how: AmountRule::ToAverage }, 32, nr)
}
fn too_heavy() -> Offer {
    Offer::Refuse(Refusal::TooHeavy { hot: false })
}

#[test]
fn nothing_is_hot_between_the_threads_of_a_core() {
    let just_ran = TaskFacts { ran_ago_ns: 0, buddy: true, ..COLD.facts };
    assert_eq!(can_migrate(&RULES, &just_ran), Err(Refusal::Hot));
    let siblings = DetachRules { share_capacity: true, ..RULES };
    assert_eq!(can_migrate(&siblings, &just_ran), Ok(Movable { hot: false }));
    let running = TaskFacts { running: true, ..just_ran };
    assert_eq!(can_migrate(&siblings, &running), Err(Refusal::Running));
}

#[test]
fn hot_tasks_move_after_enough_failures_or_by_the_stopper() {
    let just_ran = TaskFacts { ran_ago_ns: 499_999, ..COLD.facts };
    assert_eq!(can_migrate(&with(|r| r.nr_balance_failed = 1), &just_ran), Err(Refusal::Hot));
    assert_eq!(can_migrate(&with(|r| r.nr_balance_failed = 2), &just_ran), Ok(Movable { hot: true }));
    let stopper = DetachRules { active: true, ..RULES };
    assert_eq!(can_migrate(&stopper, &just_ran), Ok(Movable { hot: false }));
    assert_eq!(can_migrate(&stopper, &PINNED.facts), Err(Refusal::NotAllowed));
    let idle = TaskFacts { sched_idle: true, ..just_ran };
    assert_eq!(can_migrate(&RULES, &idle), Ok(Movable { hot: false }));
}

#[test]
fn load_must_fit_whole_and_less_after_each_failure() {
    let offer = |failed, wanted| walk(Load, wanted, 4).offer(&with(|r| r.nr_balance_failed = failed), &COLD);
    assert_eq!(offer(0, 1023), too_heavy());
    assert_eq!(offer(0, 1024), Offer::Take { hot: false, then: Some(Stop::Enough) });
    assert_eq!(offer(1, 511), too_heavy());
    assert_eq!(offer(1, 512), Offer::Take { hot: false, then: Some(Stop::Enough) });
    assert!(matches!(offer(99, 1), Offer::Take { .. }), "a shift by more than 63 is one by 63");
    let mut d = walk(Load, 512, 4);
    d.offer(&with(|r| r.nr_balance_failed = 1), &COLD);
    assert_eq!(d.walk.left, -512, "but all of it is taken off");
    let weightless = SizedTask { facts: TaskFacts { load: 0, ..COLD.facts }, ..COLD };
    let mut d = walk(Load, 2, 4);
    d.offer(&RULES, &weightless);
    assert_eq!(d.walk.left, 1, "a task counts at least one");
}

#[test]
fn utilisation_must_fit_whatever_the_failures() {
    let offer = |wanted| walk(Util, wanted, 4).offer(&with(|r| r.nr_balance_failed = 9), &COLD);
    assert_eq!(offer(299), too_heavy());
    assert_eq!(offer(300), Offer::Take { hot: false, then: Some(Stop::Enough) });
    assert_eq!(offer(301), Offer::Take { hot: false, then: None });
}

#[test]
fn tasks_are_counted_whatever_their_size() {
    let heavy = SizedTask { facts: TaskFacts { load: 99_999, ..COLD.facts }, util: 1024, fits_source: false };
    let mut d = walk(Tasks, 2, 4);
    assert_eq!(d.offer(&RULES, &heavy), Offer::Take { hot: false, then: None });
    assert_eq!(d.offer(&RULES, &heavy), Offer::Take { hot: false, then: Some(Stop::Enough) });
    assert_eq!((d.walk.left, d.walk.moved), (0, 2));
}

#[test]
fn a_hot_task_too_heavy_was_counted_as_hot() {
    let heavy = SizedTask { facts: TaskFacts { ran_ago_ns: 0, ..COLD.facts }, ..COLD };
    let got = walk(Load, 1, 4).offer(&with(|r| r.nr_balance_failed = 2), &heavy);
    assert_eq!(got, Offer::Refuse(Refusal::TooHeavy { hot: true }));
}

#[test]
fn newidle_takes_one_on_preemptible_kernels() {
    let newidle = with(|r| (r.pass, r.preemptible) = (PassKind::Newidle, true));
    let taken = |rules| walk(Tasks, 9, 9).offer(&rules, &COLD);
    assert_eq!(taken(newidle), Offer::Take { hot: false, then: Some(Stop::OneForNewidle) });
    assert_eq!(taken(with(|r| r.pass = PassKind::Newidle)), Offer::Take { hot: false, then: None });
    assert_eq!(taken(with(|r| r.preemptible = true)), Offer::Take { hot: false, then: None });
}

#[test]
fn an_idle_cpu_leaves_the_last_task_and_an_emptied_queue_is_not_walked() {
    for pass in [PassKind::Idle, PassKind::Newidle, PassKind::Busy] {
        let rules = with(|r| r.pass = pass);
        let mut d = walk(Tasks, 5, 3);
        assert_eq!(d.step(&rules, 1, false), WalkStep::Stop(Stop::Emptied), "{pass:?}");
        assert!(!d.walk.all_pinned, "no task was tested");
        let mut d = walk(Tasks, 5, 3);
        assert_eq!(d.step(&rules, 3, false), WalkStep::Offer);
        d.offer(&rules, &COLD);
        let then = if pass == PassKind::Busy { WalkStep::Offer } else { WalkStep::Stop(Stop::LastTask) };
        assert_eq!(d.step(&rules, 1, false), then, "{pass:?}");
        assert_eq!(d.step(&rules, 2, true), WalkStep::Stop(Stop::NoTasks));
    }
}

#[test]
fn stops_after_nr_migrate_tasks_once_one_could_come() {
    let mut d = walk(Load, 1, 100);
    for _ in 0..32 {
        assert_eq!(d.step(&RULES, 100, false), WalkStep::Offer);
        d.offer(&RULES, &COLD);
    }
    assert_eq!(d.step(&RULES, 100, false), WalkStep::Stop(Stop::LoopMax));
}

#[test]
fn continues_while_all_are_pinned_with_a_break_every_32() {
    let looks = |nr: u32| {
        let mut d = walk(Tasks, 1, nr);
        let mut seen = (0, 0);
        loop {
            match d.step(&RULES, nr, false) {
                WalkStep::Offer => {
                    d.offer(&RULES, &PINNED);
                    seen.0 += 1;
                }
                WalkStep::Pause => seen.1 += 1,
                WalkStep::Stop(why) => return (seen, why, d.walk.all_pinned),
            }
        }
    };
    assert_eq!(looks(33), ((32, 0), Stop::LoopMax, true), "the 33rd look would be a break");
    assert_eq!(looks(34), ((63, 1), Stop::LoopMax, true), "after a break the list is walked on, and over");
}

#[test]
fn a_break_lets_others_empty_the_queue() {
    let mut d = walk(Tasks, 1, 100);
    while d.step(&RULES, 100, false) == WalkStep::Offer {
        d.offer(&RULES, &PINNED);
    }
    assert_eq!(d.step(&RULES, 1, false), WalkStep::Stop(Stop::Emptied));
}

#[test]
fn pinned_tasks_are_remembered_and_may_go_next_door() {
    let next_door = SizedTask { facts: TaskFacts { allowed_nearby: Some(CpuId(5)), ..PINNED.facts }, ..COLD };
    let after = |rules: DetachRules, task: SizedTask| {
        let mut d = walk(Tasks, 1, 3);
        d.offer(&rules, &task);
        (d.walk.some_pinned, d.walk.nearby())
    };
    assert_eq!(after(RULES, next_door), (true, Some(CpuId(5))));
    assert_eq!(after(RULES, PINNED), (true, None));
    assert_eq!(after(RULES, COLD), (false, None));
    assert_eq!(after(with(|r| r.pass = PassKind::Newidle), next_door), (true, None));
    let mut d = walk(Tasks, 1, 3);
    d.offer(&RULES, &next_door);
    d.redirect();
    assert!(d.walk.nearby().is_none() && d.walk.some_pinned && d.walk.all_pinned);
    assert_eq!(d.step(&RULES, 1, false), WalkStep::Stop(Stop::Emptied), "the lock is taken anew");
}

#[test]
fn a_task_refused_before_its_affinity_does_not_count_as_pinned() {
    let early = [
        (TaskFacts { delayed: true, ..COLD.facts }, Refusal::Delayed),
        (TaskFacts { ineligible: true, ..COLD.facts }, Refusal::Ineligible),
        (TaskFacts { per_cpu_kthread: true, allowed: false, ..COLD.facts }, Refusal::KernelThread),
    ];
    let strict = common::MigrateRules { delayed_stay: true, ineligible_stay: true, ..RULES.common };
    let lenient = common::MigrateRules { kthreads_set_apart: false, ..RULES.common };
    for (facts, why) in early {
        let offer = |common| {
            let mut d =
                Detach::new(Amount { migration: Tasks, amount: 1, how: AmountRule::EvenTasks }, 32, 2);
            let offer = d.offer(&DetachRules { common, ..RULES }, &SizedTask { facts, ..COLD });
            (offer, d.walk.all_pinned, d.walk.some_pinned)
        };
        assert_eq!(offer(strict), (Offer::Refuse(why), true, false));
        match why {
            Refusal::KernelThread => {
                assert_eq!(offer(lenient), (Offer::Refuse(Refusal::NotAllowed), true, true))
            }
            _ => assert!(matches!(offer(lenient), (Offer::Take { .. }, false, false)), "{why:?}"),
        }
    }
}

#[test]
fn utilisation_is_judged_more_mildly_after_failures_in_6_8() {
    let offer = |util_shrinks, nr_balance_failed| {
        let common = common::MigrateRules { nr_balance_failed, ..RULES.common };
        let mut d = Detach::new(Amount { migration: Util, amount: 300, how: AmountRule::FillRoom }, 32, 2);
        d.offer(&DetachRules { common, util_shrinks, ..RULES }, &SizedTask { util: 600, ..COLD })
    };
    let too_heavy = Offer::Refuse(Refusal::TooHeavy { hot: false });
    assert_eq!((offer(true, 0), offer(false, 1)), (too_heavy, too_heavy));
    assert!(matches!(offer(true, 1), Offer::Take { .. }), "600 >> 1 is no more than 300");
}

#[test]
fn a_walk_over_pinned_tasks_ends_at_nr_migrate_but_for_6_1_to_6_9() {
    let looked_at = |walks_past_pinned| {
        let rules = DetachRules { walks_past_pinned, ..RULES };
        let mut d = Detach::new(Amount { migration: Tasks, amount: 1, how: AmountRule::EvenTasks }, 4, 10);
        let mut looked_at = 0;
        while d.step(&rules, 10, false) == WalkStep::Offer && looked_at < 20 {
            looked_at += 1;
            d.offer(&rules, &SizedTask { facts: TaskFacts { allowed: false, ..COLD.facts }, ..COLD });
        }
        looked_at
    };
    assert_eq!((looked_at(false), looked_at(true)), (4, 20));
}

#[test]
fn before_5_12_a_busy_cpu_takes_the_last_task_of_an_emptied_queue() {
    let first = |emptied_unwalked, pass| {
        let mut d = walk(Tasks, 5, 3);
        d.step(&DetachRules { emptied_unwalked, ..with(|r| r.pass = pass) }, 1, false)
    };
    assert_eq!(first(false, PassKind::Busy), WalkStep::Offer);
    assert_eq!(first(true, PassKind::Busy), WalkStep::Stop(Stop::Emptied));
    assert_eq!(first(false, PassKind::Idle), WalkStep::Stop(Stop::LastTask));
}
