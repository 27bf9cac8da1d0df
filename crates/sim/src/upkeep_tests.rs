//! State that a system updates along the way: load averages of new tasks, by kernel and in wakeups, weights, walks over
//! lists of tasks.

use crate::class::{Dequeue, Enqueue};
use crate::fair::CfsRqId;
use crate::run::{NewTask, add};
use crate::system::System;
use crate::task::TaskState;
use schedlab_base::{CpuId, TaskId, Version};
use schedlab_board::thread::Thread;
use schedlab_kernel::{Attr, Feature, Kernel};
use schedlab_machine::Machine;
use schedlab_trace::{Discard, SwitchReason};
use schedlab_workload::{Env, Op, Program};

const MS: u64 = 1_000_000;

struct Hog;

impl Program for Hog {
    fn next(&mut self, _: &mut dyn Env) -> Op {
        Op::Exit
    }
}

/// Calls a test with a system without tasks.
pub fn with_system(version: &str, test: impl FnOnce(&mut System<'_>)) {
    let machine = Machine::load("smp-2").expect("a machine");
    let mut kernel = Kernel::profile("v4.5").expect("a profile");
    kernel.version = Version::parse(version).expect("a version");
    let mut sink = Discard;
    test(&mut System::new(&machine, kernel, 1, &mut sink));
}

pub(crate) fn new_hog() -> NewTask {
    NewTask::of(Thread { counts: true, ..Thread::new("hog".into(), Box::new(Hog), 0, 50_000) })
}

/// A task that is created now and put on `cpu`.
pub fn born(sys: &mut System<'_>, cpu: CpuId) -> TaskId {
    let task = add(sys, new_hog());
    sys.new_task(CpuId(0), task, cpu);
    task
}

#[test]
fn a_task_born_late_has_its_full_load() {
    for cpu in [CpuId(0), CpuId(1)] {
        with_system("v4.5", |sys| {
            sys.now = 500 * MS;
            let task = born(sys, cpu);
            let avg = sys.entity(task).avg;
            assert_eq!((avg.load_avg, avg.util_avg), (1024, 1024));
            assert_eq!(sys.load_now(cpu), 1024);
        });
    }
}

#[test]
fn since_4_7_a_busy_queue_leaves_a_new_task_less_utilisation() {
    with_system("v6.5", |sys| {
        let util = |sys: &System<'_>, task: TaskId| sys.entity(task).avg.util_avg;
        let first = born(sys, CpuId(1));
        let second = born(sys, CpuId(1));
        assert_eq!(util(sys, first), 512, "half of an idle CPU");
        assert_eq!(util(sys, second), 256, "half of what is left");
    });
}

#[test]
fn with_util_est_a_waking_task_counts_with_its_use_before_the_sleep() {
    for counts in [true, false] {
        with_system("v6.5", |sys| {
            sys.fixed.kernel.features.switch(Feature::UtilEst, counts);
            let task = born(sys, CpuId(1));
            let entity = sys.tasks[task].entity;
            assert_eq!(sys.fair.queues[CfsRqId(1)].util_est, 0, "nothing is known of a new task");
            let used = sys.fair.entities[entity].avg.util_avg;
            sys.deactivate_task(task, Dequeue::Sleep);
            assert_eq!(sys.fair.queues[CfsRqId(1)].util_est, 0);
            sys.now += 1000 * MS;
            sys.activate_task(CpuId(1), task, Enqueue::Wakeup);
            let faded = sys.fair.queues[CfsRqId(1)].avg.util_avg;
            assert!(faded < used / 2, "PELT has forgotten most of it");
            assert!(!sys.fair.entities[entity].est.unchanged, "and knows something new");
            assert_eq!(sys.cfs_util(CpuId(1)), if counts { used } else { faded });
            sys.deactivate_task(task, Dequeue::Move);
            sys.migrate_task(task, CpuId(0));
            sys.activate_task(CpuId(0), task, Enqueue::Moved);
            let sums = [0, 1].map(|c| sys.fair.queues[CfsRqId(c)].util_est);
            assert_eq!(sums, if counts { [used, 0] } else { [0, 0] }, "it takes the estimate along");
        });
    }
}

#[test]
fn a_runnable_task_is_a_load_in_every_era() {
    for version in ["v3.4", "v3.10", "v3.19", "v4.2", "v4.5", "v4.20", "v5.0", "v6.5"] {
        with_system(version, |sys| {
            born(sys, CpuId(1));
            assert_eq!(sys.load_now(CpuId(1)), 1024, "{version}");
        });
    }
}

#[test]
fn a_new_weight_is_a_new_load_at_once_since_4_15() {
    for (version, after) in [("v4.5", 1024), ("v6.5", 335)] {
        with_system(version, |sys| {
            let task = born(sys, CpuId(1));
            let old = std::mem::replace(&mut sys.tasks[task].attr, Attr::nice(5));
            sys.prio_changed(task, old);
            assert_eq!(
                (sys.load_now(CpuId(1)), sys.fair.queues[CfsRqId(1)].load_weight()),
                (after, 335),
                "{version}"
            );
        });
    }
}

#[test]
fn a_new_weight_of_a_sleeping_task_is_its_queues_load_at_once_too() {
    for (version, after) in [("v4.5", 1024), ("v4.15", 335), ("v6.1", 335), ("v6.5", 335)] {
        with_system(version, |sys| {
            let (task, queue) = (born(sys, CpuId(1)), CfsRqId(1));
            sys.deactivate_task(task, Dequeue::Sleep);
            let old = std::mem::replace(&mut sys.tasks[task].attr, Attr::nice(5));
            sys.prio_changed(task, old);
            let q = &sys.fair.queues[queue];
            assert_eq!((q.avg.load_avg, q.load_weight()), (after, 0), "{version}");
        });
    }
}

/// A task that ran on CPU 1, slept for 100 ms and woke up on CPU 0.
fn woken_elsewhere(sys: &mut System<'_>) -> TaskId {
    let task = born(sys, CpuId(1));
    sys.deactivate_task(task, Dequeue::Sleep);
    sys.now += 100 * MS;
    sys.tasks[task].state = TaskState::Waking;
    sys.migrate_task(task, CpuId(0));
    sys.tasks[task].state = TaskState::Runnable;
    sys.activate_task(CpuId(0), task, Enqueue::Wakeup);
    task
}

#[test]
fn a_task_that_woke_up_elsewhere_is_as_old_as_the_last_update_of_its_queue() {
    // If a busy CPU does not update the queue, the task keeps its load; before 6.0 also if the CPU is idle.
    for (version, busy, ages) in [("v4.5", false, false), ("v5.15", false, false), ("v6.1", false, true)]
        .into_iter()
        .chain([("v5.15", true, false), ("v6.1", true, false), ("v6.12", true, false)])
    {
        with_system(version, |sys| {
            let other = add(sys, new_hog());
            sys.cpus[CpuId(1)].curr = busy.then_some(other);
            let task = woken_elsewhere(sys);
            let load = sys.entity(task).avg.load_avg;
            assert_eq!(load < 200, ages, "{version}, busy: {busy}: {load}");
            assert_eq!(load, sys.fair.queues[CfsRqId(0)].avg.load_avg, "{version}: it joined its new queue");
        });
    }
}

#[test]
fn the_queue_that_a_woken_task_has_left_takes_its_load_off_at_the_next_update() {
    for version in ["v4.5", "v5.15", "v6.1", "v6.12"] {
        with_system(version, |sys| {
            woken_elsewhere(sys);
            let queue = CfsRqId(1);
            assert_eq!(sys.fair.queues[queue].avg.load_avg, 1024, "{version}: nobody has looked at it");
            sys.update_queue_load(queue);
            let avg = &sys.fair.queues[queue].avg;
            assert_eq!((avg.load_avg, avg.util_avg), (0, 0), "{version}");
        });
    }
}

#[test]
fn a_fork_charges_the_parent_before_6_12() {
    for (version, charges) in
        [("v2.6.30", true), ("v6.1", true), ("v6.6", true), ("v6.12", false), ("v7.3", false)]
    {
        with_system(version, |sys| {
            let parent = born(sys, CpuId(0));
            sys.pick_and_switch(CpuId(0), 0);
            sys.now += MS;
            let before = sys.entity(parent).sum_exec;
            born(sys, CpuId(1));
            assert_eq!(sys.entity(parent).sum_exec > before, charges, "{version}");
        });
    }
}

#[test]
fn only_a_wakeup_ends_the_sample_of_an_idle_period() {
    with_system("v4.5", |sys| {
        sys.cpus[CpuId(1)].idle_stamp = 1;
        let before = sys.cpus[CpuId(1)].avg_idle_ns;
        sys.now = 100_000;
        born(sys, CpuId(1));
        assert_eq!((sys.cpus[CpuId(1)].avg_idle_ns, sys.cpus[CpuId(1)].idle_stamp), (before, 1));
        sys.end_idle_sample(CpuId(1));
        assert!(sys.cpus[CpuId(1)].avg_idle_ns < before && sys.cpus[CpuId(1)].idle_stamp == 0);
    });
}

#[test]
fn since_7_0_the_switch_from_the_idle_task_ends_the_sample_whatever_came() {
    for (version, at_wakeup, at_switch) in [("v6.12", true, false), ("v7.3", false, true)] {
        with_system(version, |sys| {
            let cpu = CpuId(1);
            let task = born(sys, cpu);
            sys.now = 100_000;
            sys.cpus[cpu].idle_stamp = 1;
            sys.deactivate_task(task, Dequeue::Move);
            sys.activate((CpuId(0), sys.now), cpu, task, Enqueue::Wakeup, SwitchReason::WakeupPreempt);
            assert_eq!(sys.cpus[cpu].idle_stamp == 0, at_wakeup, "{version}");
            sys.cpus[cpu].idle_stamp = 1;
            let before = sys.cpus[cpu].avg_idle_ns;
            sys.pick_and_switch(cpu, 0);
            assert_eq!(sys.cpus[cpu].curr, Some(task));
            assert_eq!(
                (sys.cpus[cpu].idle_stamp == 0, sys.cpus[cpu].avg_idle_ns < before),
                (at_switch, at_switch),
                "{version}"
            );
        });
    }
}

#[test]
fn the_estimate_of_6_12_takes_the_averages_of_the_last_update() {
    let estimate = |version: &str| {
        let mut found = (0, 0);
        with_system(version, |sys| {
            sys.fixed.kernel.features.switch(Feature::UtilEst, true);
            let task = born(sys, CpuId(1));
            let used = sys.entity(task).avg.util_avg;
            sys.now += 50 * MS;
            sys.deactivate_task(task, Dequeue::Sleep);
            found = (used, sys.entity(task).est.estimate());
        });
        found
    };
    for version in ["v6.1", "v7.3"] {
        let (used, estimate) = estimate(version);
        assert!(estimate < used / 2, "{version}: {estimate} of {used}, after 50 ms in which it waited");
    }
    let (used, estimate) = estimate("v6.12");
    assert_eq!(estimate, used);
}

#[test]
fn moving_a_task_does_not_use_its_cpu() {
    with_system("v6.5", |sys| {
        let task = born(sys, CpuId(1));
        sys.deactivate_task(task, Dequeue::Move);
        sys.migrate_task(task, CpuId(0));
        assert_eq!(sys.tasks[task].recent, CpuId(0), "its parent's, as at birth");
    });
}
