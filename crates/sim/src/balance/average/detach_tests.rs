//! Tests of the rules for detaching: each fact about a task or pass changes some outcome.

use super::*;
use crate::balance::testing::{self, COLD};
use schedlab_base::CpuId;

const RULES: MigrateRules = MigrateRules { preemptible: true, ..testing::RULES };
const OLD: MigrateRules = MigrateRules { balancer: Balancer::V3_4, ..RULES };

#[test]
fn running_and_pinned_tasks_stay_whatever_the_failures() {
    let desperate = MigrateRules { nr_balance_failed: 99, ..RULES };
    assert_eq!(can_migrate(&desperate, &TaskFacts { running: true, ..COLD }), Err(Refusal::Running));
    assert_eq!(can_migrate(&desperate, &TaskFacts { allowed: false, ..COLD }), Err(Refusal::NotAllowed));
    let both = TaskFacts { allowed: false, running: true, ..COLD };
    assert_eq!(can_migrate(&RULES, &both), Err(Refusal::NotAllowed), "affinity is asked first");
}

#[test]
fn a_task_is_hot_for_the_migration_cost() {
    let just_ran = TaskFacts { ran_ago_ns: 499_999, ..COLD };
    assert_eq!(can_migrate(&RULES, &just_ran), Err(Refusal::Hot));
    assert_eq!(can_migrate(&RULES, &COLD), Ok(Movable { hot: false }));
    let free = MigrateRules { migration_cost_ns: 0, ..RULES };
    assert_eq!(can_migrate(&free, &TaskFacts { ran_ago_ns: 0, ..COLD }), Ok(Movable { hot: false }));
}

#[test]
fn hot_tasks_move_after_enough_failures() {
    let just_ran = TaskFacts { ran_ago_ns: 0, ..COLD };
    let after = |n| can_migrate(&MigrateRules { nr_balance_failed: n, ..RULES }, &just_ran);
    assert_eq!(after(1), Err(Refusal::Hot), "as many as cache_nice_tries is not more");
    assert_eq!(after(2), Ok(Movable { hot: true }));
    let patient = MigrateRules { nr_balance_failed: 2, cache_nice_tries: 2, ..RULES };
    assert_eq!(can_migrate(&patient, &just_ran), Err(Refusal::Hot));
}

#[test]
fn buddies_are_hot_only_for_a_busy_destination_with_the_feature_on() {
    let buddy = TaskFacts { buddy: true, ..COLD };
    assert_eq!(can_migrate(&RULES, &buddy), Err(Refusal::Hot));
    assert!(can_migrate(&MigrateRules { dst_has_tasks: false, ..RULES }, &buddy).is_ok());
    assert!(can_migrate(&MigrateRules { cache_hot_buddy: false, ..RULES }, &buddy).is_ok());
}

#[test]
fn sched_idle_tasks_are_never_hot() {
    let idle = TaskFacts { sched_idle: true, buddy: true, ran_ago_ns: 0, ..COLD };
    assert_eq!(can_migrate(&RULES, &idle), Ok(Movable { hot: false }));
}

#[test]
fn a_task_moves_when_half_of_it_fits() {
    for rules in [RULES, OLD] {
        let mut d = Detach::new(512, 32, 4);
        let refused = Offer::Refuse(Refusal::TooHeavy { hot: false });
        assert_eq!(d.offer(&rules, &TaskFacts { load: 1026, ..COLD }), refused);
        let taken = d.offer(&rules, &TaskFacts { load: 1025, ..COLD });
        assert_eq!(taken, Offer::Take { hot: false, then: Some(Stop::Enough) });
        assert_eq!((d.walk.left, d.walk.moved), (-513, 1));
    }
}

#[test]
fn walks_until_the_load_is_moved() {
    let mut d = Detach::new(2600, 32, 10);
    let mut taken = 0;
    let why = loop {
        match d.step(&RULES, 10 - taken, false) {
            WalkStep::Stop(why) => break why,
            WalkStep::Pause => unreachable!("ten tasks need no pause"),
            WalkStep::Offer => {
                assert!(matches!(d.offer(&RULES, &COLD), Offer::Take { .. }));
                taken += 1;
            }
        }
    };
    assert_eq!((taken, why), (3, Stop::Enough), "1024 three times, the last for the 552 left");
}

#[test]
fn newidle_takes_one_on_preemptible_kernels() {
    let newidle = MigrateRules { pass: PassKind::Newidle, ..RULES };
    let mut d = Detach::new(9000, 32, 10);
    assert_eq!(d.offer(&newidle, &COLD), Offer::Take { hot: false, then: Some(Stop::OneForNewidle) });
    let server = MigrateRules { preemptible: false, ..newidle };
    assert_eq!(d.offer(&server, &COLD), Offer::Take { hot: false, then: None });
}

#[test]
fn an_idle_cpu_of_4_5_leaves_the_last_task() {
    let stop = |rules: MigrateRules| Detach::new(1024, 32, 2).step(&rules, 1, false);
    for pass in [PassKind::Idle, PassKind::Newidle] {
        assert_eq!(stop(MigrateRules { pass, ..RULES }), WalkStep::Stop(Stop::LastTask));
        assert_eq!(stop(MigrateRules { pass, ..OLD }), WalkStep::Offer);
    }
    assert_eq!(stop(RULES), WalkStep::Offer, "a busy one does not");
    assert_eq!(Detach::new(1024, 32, 2).step(&RULES, 0, true), WalkStep::Stop(Stop::NoTasks));
}

#[test]
fn looks_at_each_task_once_and_at_nr_migrate_at_most() {
    let steps = |nr_migrate, running| {
        let mut d = Detach::new(1, nr_migrate, running);
        let offers = (0..).take_while(|_| d.step(&RULES, running, false) == WalkStep::Offer).count();
        (offers, d.step(&RULES, running, false))
    };
    assert_eq!(steps(32, 5), (5, WalkStep::Stop(Stop::LoopMax)));
    assert_eq!(steps(32, 100), (32, WalkStep::Stop(Stop::LoopMax)));
    assert_eq!(steps(8, 100), (8, WalkStep::Stop(Stop::LoopMax)));
}

#[test]
fn pauses_every_32_tasks() {
    let mut d = Detach::new(1, 100, 100);
    let pauses: Vec<usize> = (1..=100).filter(|_| d.step(&RULES, 100, false) == WalkStep::Pause).collect();
    assert_eq!(pauses, [33, 65, 97], "a pause costs one look");
}

#[test]
fn nothing_wanted_looks_at_nothing_and_counts_as_pinned() {
    let mut d = Detach::new(0, 32, 2);
    assert_eq!(d.step(&RULES, 2, false), WalkStep::Stop(Stop::NothingWanted));
    assert!(d.walk.all_pinned && !d.walk.some_pinned);
}

#[test]
fn one_task_that_could_come_lifts_the_pin() {
    let mut d = Detach::new(1024, 32, 3);
    d.offer(&RULES, &TaskFacts { allowed: false, ..COLD });
    assert!(d.walk.all_pinned && d.walk.some_pinned);
    d.offer(&RULES, &TaskFacts { running: true, ..COLD });
    assert!(!d.walk.all_pinned && d.walk.some_pinned);
}

#[test]
fn heavy_tasks_count_as_pinned_in_3_4() {
    let heavy = TaskFacts { load: 99_999, ..COLD };
    for (rules, pinned) in [(OLD, true), (RULES, false)] {
        let mut d = Detach::new(100, 32, 3);
        assert_eq!(d.offer(&rules, &heavy), Offer::Refuse(Refusal::TooHeavy { hot: false }));
        assert_eq!(d.walk.all_pinned, pinned, "{:?}", rules.balancer);
    }
}

#[test]
fn a_pinned_task_may_go_next_door_in_4_5() {
    let next_door = TaskFacts { allowed: false, allowed_nearby: Some(CpuId(5)), ..COLD };
    let after = |rules: MigrateRules, task: TaskFacts| {
        let mut d = Detach::new(1024, 32, 3);
        d.offer(&rules, &task);
        d.walk.nearby().is_some()
    };
    assert!(after(RULES, next_door));
    assert!(!after(OLD, next_door), "not yet in 3.4");
    assert!(
        !after(MigrateRules { pass: PassKind::Newidle, ..RULES }, next_door),
        "newidle serves itself only"
    );
    assert!(!after(RULES, TaskFacts { allowed_nearby: None, ..next_door }));
    let mut d = Detach::new(1024, 32, 3);
    d.step(&RULES, 3, false);
    d.offer(&RULES, &next_door);
    d.walk.redirect();
    assert!(d.walk.nearby().is_none() && d.walk.left == 1024 && d.walk.some_pinned);
    assert_eq!(d.step(&RULES, 3, false), WalkStep::Offer);
    d.offer(&RULES, &COLD);
    d.offer(&RULES, &next_door);
    assert!(d.walk.nearby().is_none(), "nothing is wanted any more");
}

#[test]
fn a_heavy_task_that_passed_as_hot_is_counted_so_in_4_5() {
    let heavy = TaskFacts { load: 99_999, ran_ago_ns: 0, ..COLD };
    let offer = |rules: MigrateRules| {
        Detach::new(100, 32, 3).offer(&MigrateRules { nr_balance_failed: 9, ..rules }, &heavy)
    };
    assert_eq!(offer(RULES), Offer::Refuse(Refusal::TooHeavy { hot: true }));
    assert_eq!(offer(OLD), Offer::Refuse(Refusal::TooHeavy { hot: false }));
}
