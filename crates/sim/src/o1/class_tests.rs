//! The class on a system without time: how fork, exit, wakeups, ticks and moves change tasks and arrays.
//!
//! HZ is 250: a slice of nice 0 is 25 ticks.

use super::bonus::Sleep;
use super::prio::MAX_PRIO;
use crate::class::{Arrival, Dequeue, Enqueue};
use crate::system::System;
use crate::task::TaskState;
use crate::upkeep_tests::{born, with_system};
use schedlab_base::{CpuId, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_trace::SwitchReason;

const MS: u64 = 1_000_000;
const ZERO: CpuId = CpuId(0);

/// A task that runs on CPU 0.
fn running(sys: &mut System<'_>) -> TaskId {
    let task = born(sys, ZERO);
    let picked = sys.pick_next_task(ZERO, None);
    sys.cpus[ZERO].curr = picked;
    task
}

fn tick(sys: &mut System<'_>, task: TaskId) -> Option<SwitchReason> {
    sys.now += sys.fixed.tick_ns;
    sys.task_tick(task)
}

#[test]
fn a_child_gets_half_of_the_slice_and_nine_tenths_of_the_average() {
    with_system("v2.6.12", |sys| {
        let parent = running(sys);
        assert_eq!((sys.tasks[parent].o1.left, sys.tasks[parent].o1.prio), (25, 125));
        sys.tasks[parent].o1.avg_ns = 1_000 * MS;
        let child = born(sys, ZERO);
        let (child, parent) = (sys.tasks[child].o1, sys.tasks[parent].o1);
        assert_eq!((child.left, parent.left), (13, 12));
        assert_eq!((child.avg_ns, parent.avg_ns, child.prio), (900 * MS, 1_000 * MS, 116));
        assert!(child.first_slice && !parent.first_slice);
    });
}

#[test]
fn a_parent_with_one_tick_left_gives_it_away_and_expires() {
    with_system("v2.6.12", |sys| {
        let parent = running(sys);
        sys.tasks[parent].o1.left = 1;
        let child = born(sys, ZERO);
        assert_eq!((sys.tasks[child].o1.left, sys.tasks[parent].o1.left), (1, 25));
        assert!(sys.o1[ZERO].is_expired(sys.tasks[parent].o1.array.unwrap()));
        assert!(sys.cpus[ZERO].need_resched.is_some());
    });
}

#[test]
fn an_exit_in_the_first_slice_gives_the_rest_back_to_a_parent_nearby() {
    for (version, on, left) in
        [("v2.6.12", 0, 25), ("v2.6.12", 1, 25), ("v2.6.18", 0, 25), ("v2.6.18", 1, 12)]
    {
        with_system(version, |sys| {
            let parent = running(sys);
            sys.tasks[parent].o1.avg_ns = 800 * MS;
            let child = born(sys, CpuId(on));
            sys.tasks[child].o1.avg_ns = 400 * MS;
            sys.deactivate_task(child, Dequeue::Exit);
            sys.task_dead(child);
            let parent = sys.tasks[parent].o1;
            assert_eq!((parent.left, parent.avg_ns), (left, 700 * MS), "{version}, CPU {on}");
        });
    }
}

#[test]
fn a_slice_ends_in_the_expired_array_and_the_arrays_change_places() {
    with_system("v2.6.18", |sys| {
        let task = running(sys);
        let other = born(sys, ZERO);
        sys.tasks[other].o1.left = 25;
        sys.tasks[task].o1.left = 25;
        let ended = (1..=30).find(|_| tick(sys, task).is_some());
        assert_eq!(ended, Some(25));
        assert_eq!((sys.o1[ZERO].array(true).len(), sys.o1[ZERO].best_expired), (1, 120));
        assert!(sys.o1[ZERO].expired_since.is_some());
        assert_eq!(sys.pick_next_task(ZERO, Some(task)), Some(other));
        sys.cpus[ZERO].curr = Some(other);
        let ended = (1..=30).find(|_| tick(sys, other).is_some());
        assert_eq!(ended, Some(25));
        assert_eq!(sys.pick_next_task(ZERO, Some(other)), Some(task));
        assert_eq!((sys.o1[ZERO].expired_since, sys.o1[ZERO].best_expired), (None, MAX_PRIO));
        sys.walk_classes(ZERO).unwrap();
    });
}

#[test]
fn a_woken_task_is_credited_for_its_sleep_and_its_wait() {
    with_system("v2.6.12", |sys| {
        let hog = running(sys);
        let task = born(sys, ZERO);
        sys.deactivate_task(task, Dequeue::Sleep);
        sys.tasks[task].o1.avg_ns = 0;
        sys.tasks[task].o1.since_ns = sys.now;
        sys.now += 20 * MS;
        sys.activate_task(ZERO, task, Enqueue::Wakeup);
        let own = sys.tasks[task].o1;
        assert_eq!((own.avg_ns, own.prio, own.sleep), (200 * MS, 123, Sleep::Interactive));
        let arrival = Arrival { task, how: Enqueue::Wakeup, sync: false };
        assert!(sys.wakeup_preempt(ZERO, arrival), "123 before the hog's 125");
        assert!(!sys.wakeup_preempt(ZERO, Arrival { sync: true, ..arrival }), "the waker sleeps soon");
        sys.now += 128 * MS;
        assert_eq!(sys.pick_next_task(ZERO, Some(hog)), Some(task));
        // 38 of 128 ms count, eight times; the bonus was 2.
        let own = sys.tasks[task].o1;
        assert_eq!((own.avg_ns, own.prio, own.sleep), (504 * MS, 120, Sleep::Normal));
        sys.walk_classes(ZERO).unwrap();
    });
}

#[test]
fn a_moved_task_comes_to_the_array_that_it_left() {
    with_system("v2.6.18", |sys| {
        let task = born(sys, ZERO);
        sys.yield_task(task);
        assert_eq!(sys.o1[ZERO].array(true).len(), 1);
        sys.deactivate_task(task, Dequeue::Move);
        sys.migrate_task(task, CpuId(1));
        sys.tasks[task].state = TaskState::Runnable;
        sys.activate_task(CpuId(1), task, Enqueue::Moved);
        assert_eq!((sys.o1[CpuId(1)].array(true).len(), sys.o1[ZERO].len()), (1, 0));
        assert_eq!((sys.o1[CpuId(1)].weight, sys.o1[ZERO].weight), (1024, 0));
    });
}

#[test]
fn a_new_nice_value_is_a_new_priority_and_weight_in_the_same_array() {
    with_system("v2.6.18", |sys| {
        let task = running(sys);
        sys.set_attr(ZERO, task, Attr::nice(-20));
        assert_eq!((sys.tasks[task].o1.prio, sys.o1[ZERO].weight), (105, 8192));
        sys.set_attr(ZERO, task, Attr { policy: Policy::Fifo, rt_priority: 5, ..Attr::default() });
        assert_eq!((sys.o1[ZERO].len(), sys.o1[ZERO].weight), (0, 0));
        sys.set_attr(ZERO, task, Attr::nice(19));
        assert_eq!((sys.tasks[task].o1.prio, sys.o1[ZERO].len()), (139, 1));
        sys.walk_classes(ZERO).unwrap();
    });
}

#[test]
fn load_is_tasks_before_2_6_18_and_slices_after() {
    for (version, load) in [("v2.6.12", 2 * 1024), ("v2.6.18", 1024 + 40)] {
        with_system(version, |sys| {
            let light = born(sys, ZERO);
            sys.cpus[ZERO].curr = Some(light);
            sys.set_attr(ZERO, light, Attr::nice(19));
            born(sys, ZERO);
            assert_eq!(sys.load_now(ZERO), load, "{version}");
        });
    }
}
