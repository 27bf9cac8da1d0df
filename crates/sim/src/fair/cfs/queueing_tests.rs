use super::Cfs;
use crate::class::{Dequeue, Enqueue};
use crate::fair::class::Fair;
use crate::run::{NewTask, add};
use crate::system::System;
use crate::upkeep_tests::{born, new_hog, with_system};
use schedlab_base::{CpuId, GroupId, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_workload::{GroupDecl, ROOT_GROUP};

#[test]
fn a_moved_task_takes_no_credit_for_holding_min_vruntime_back() {
    let relative = |version: &str| {
        let (mut found, mut gap) = (0, 0);
        with_system(version, |sys| {
            // The later task is placed behind the earlier one, because more tasks share the period.
            let [late, early] = [(); 2].map(|()| born(sys, CpuId(0)));
            let at = |sys: &System<'_>, t: TaskId| sys.entity(t).vruntime;
            gap = at(sys, late) - at(sys, early);
            let queue = sys.root(CpuId(0));
            sys.fair.queues[queue].min_vruntime = at(sys, early);
            sys.deactivate_task(early, Dequeue::Move);
            assert_eq!(sys.fair.queues[queue].min_vruntime, at(sys, late), "min_vruntime has moved on");
            found = at(sys, early);
        });
        assert!(gap > 0);
        (found, gap)
    };
    for version in ["v3.4", "v6.1", "v6.5"] {
        assert_eq!(relative(version).0, 0, "{version}");
    }
    let (found, gap) = relative("v2.6.30");
    assert_eq!(found, -gap, "before 2.6.39 the task is ahead of its next queue by the gap");
}

#[test]
fn new_attributes_put_a_task_that_held_min_vruntime_back_behind_by_as_much() {
    with_system("v6.1", |sys| {
        let cpu = CpuId(0);
        let [late, early] = [(); 2].map(|()| born(sys, cpu));
        let at = |sys: &System<'_>, t: TaskId| sys.entity(t).vruntime;
        let (first, second, queue) = (at(sys, early), at(sys, late), sys.root(cpu));
        sys.fair.queues[queue].min_vruntime = first;
        sys.set_attr(cpu, early, Attr { nice: 5, ..Attr::default() });
        assert_eq!((at(sys, early), sys.fair.queues[queue].min_vruntime), (second, second));
        sys.set_attr(cpu, late, Attr { nice: 5, ..Attr::default() });
        assert_eq!(at(sys, late), second, "the other one holds min_vruntime now");
        assert_eq!(sys.fair.queues[queue].leftmost().map(|(e, _)| e), Some(sys.tasks[early].entity));
    });
}

#[test]
fn another_policy_at_the_same_nice_value_leaves_a_task_where_it_is() {
    for (version, moves) in [("v4.15", true), ("v5.10", false), ("v6.1", false)] {
        with_system(version, |sys| {
            let cpu = CpuId(0);
            let [late, early] = [(); 2].map(|()| born(sys, cpu));
            let (first, queue) = (sys.entity(early).vruntime, sys.root(cpu));
            assert!(sys.entity(late).vruntime > first);
            sys.fair.queues[queue].min_vruntime = first;
            sys.set_attr(cpu, early, Attr { policy: Policy::Batch, ..Attr::default() });
            assert_eq!(sys.entity(early).vruntime > first, moves, "{version}");
        });
    }
}

#[test]
fn a_groups_first_task_has_all_of_a_sleepers_credit() {
    with_system("v6.1", |sys| {
        let group =
            GroupDecl { path: "/a".into(), parent: Some(ROOT_GROUP), shares: 1024, ..GroupDecl::root() };
        sys.declare_groups(&[GroupDecl::root(), group]);
        let cpu = CpuId(0);
        let task = add(sys, NewTask { group: GroupId(1), ..new_hog() });
        sys.new_task(cpu, task, cpu);
        let owner = sys.entity(task).parent.expect("the group's entity");
        let behind = sys.fair.queues[sys.root(cpu)].min_vruntime - sys.fair.entities[owner].vruntime;
        assert_eq!(behind as u64, sys.fixed.gran.latency_ns / 2);
    });
}

#[test]
fn the_end_of_a_turn_keeps_a_cpus_contribution_to_a_group() {
    for (version, renewed) in [("v5.4", true), ("v5.10", false), ("v6.1", false)] {
        with_system(version, |sys| {
            let group =
                GroupDecl { path: "/a".into(), parent: Some(ROOT_GROUP), shares: 1024, ..GroupDecl::root() };
            sys.declare_groups(&[GroupDecl::root(), group]);
            let cpu = CpuId(0);
            let [runner, sleeper] = [(); 2].map(|()| {
                let task = add(sys, NewTask { group: GroupId(1), ..new_hog() });
                sys.new_task(cpu, task, cpu);
                task
            });
            sys.deactivate_task(sleeper, Dequeue::Sleep);
            sys.pick_next_task(cpu, None);
            sys.cpus[cpu].curr = Some(runner);
            let queue = sys.entity(runner).cfs_rq;
            let before = sys.fair.group_rqs[queue].contribution;
            // The sleeper's load decays.
            sys.now += 50_000_000;
            sys.update_rq_clock(cpu);
            Fair::<Cfs>::put_prev(sys, runner);
            assert!(sys.fair.queues[queue].avg.load_avg < before / 4 * 3, "{version}");
            assert_eq!(sys.fair.group_rqs[queue].contribution < before, renewed, "{version}");
        });
    }
}

#[test]
fn before_4_7_a_task_is_placed_before_the_running_one_is_charged() {
    let lead = |version: &str| {
        let mut lead = 0;
        with_system(version, |sys| {
            let cpu = CpuId(0);
            let [runner, comer] = [(); 2].map(|()| born(sys, cpu));
            sys.deactivate_task(comer, Dequeue::Move);
            sys.pick_next_task(cpu, None);
            sys.cpus[cpu].curr = Some(runner);
            let queue = sys.root(cpu);
            sys.fair.queues[queue].min_vruntime = sys.entity(runner).vruntime;
            let e = sys.tasks[comer].entity;
            sys.fair.entities[e].vruntime = 0;
            sys.now += 3_000_000;
            sys.activate_task(cpu, comer, Enqueue::Moved);
            lead = sys.entity(runner).vruntime - sys.entity(comer).vruntime;
        });
        lead
    };
    assert_eq!((lead("v4.5"), lead("v6.1")), (3_000_000, 0));
}

/// After 1 ms with another task 5 ms behind: by how much the runner aged, min_vruntime, and a sleeper's place without
/// credit.
fn after_a_millisecond(version: &str) -> [i64; 3] {
    let mut found = [0; 3];
    with_system(version, |sys| {
        let cpu = CpuId(0);
        let [runner, behind, sleeper] = [(); 3].map(|()| born(sys, cpu));
        sys.deactivate_task(sleeper, Dequeue::Move);
        let queue = sys.root(cpu);
        sys.pick_next_task(cpu, None);
        for task in [runner, behind] {
            let e = sys.tasks[task].entity;
            let v = sys.fair.entities[e].vruntime;
            if sys.fair.queues[queue].curr != Some(e) {
                sys.fair.queues[queue].remove(e, v);
                sys.fair.entities[e].vruntime = -5_000_000;
                sys.fair.queues[queue].insert(e, -5_000_000);
            } else {
                sys.fair.entities[e].vruntime = 0;
            }
        }
        sys.fair.queues[queue].min_vruntime = 0;
        let curr = sys.fair.queues[queue].curr.expect("a runner");
        sys.cpus[cpu].curr = sys.fair.entities[curr].task;
        sys.now += 1_000_000;
        sys.charge_curr(cpu);
        let aged = sys.fair.entities[curr].vruntime;
        let e = sys.tasks[sleeper].entity;
        sys.fair.entities[e].vruntime = -1_000_000_000;
        sys.tasks[sleeper].relative = false;
        sys.activate_task(cpu, sleeper, Enqueue::Wakeup);
        found = [aged, sys.fair.queues[queue].min_vruntime, sys.fair.entities[e].vruntime];
    });
    found
}

#[test]
fn before_2_6_28_time_runs_with_the_queue_and_sleepers_start_by_the_leftmost() {
    assert_eq!(after_a_millisecond("v2.6.27"), [2_000_000, 0, -5_000_000], "two tasks share the CPU");
    assert_eq!(after_a_millisecond("v2.6.30"), [1_000_000, 0, 0]);
}

#[test]
fn before_2_6_28_min_vruntime_stays_while_the_only_task_runs() {
    for (version, moves) in [("v2.6.27", false), ("v2.6.30", true)] {
        with_system(version, |sys| {
            let cpu = CpuId(0);
            let task = born(sys, cpu);
            sys.pick_next_task(cpu, None);
            sys.cpus[cpu].curr = Some(task);
            let queue = sys.root(cpu);
            let before = sys.fair.queues[queue].min_vruntime;
            sys.now += 1_000_000;
            sys.charge_curr(cpu);
            assert_eq!(sys.fair.queues[queue].min_vruntime > before, moves, "{version}");
        });
    }
}

#[test]
fn since_3_15_a_buddy_that_is_picked_again_keeps_its_mark() {
    let stays = |version: &str| {
        let mut stays = false;
        with_system(version, |sys| {
            let cpu = CpuId(0);
            let _both = [(); 2].map(|()| born(sys, cpu));
            let runner = sys.pick_next_task(cpu, None).expect("one of two");
            let (entity, queue) = (sys.tasks[runner].entity, sys.root(cpu));
            sys.cpus[cpu].curr = Some(runner);
            sys.fair.queues[queue].next = Some(entity);
            assert_eq!(sys.pick_next_task(cpu, Some(runner)), Some(runner));
            stays = sys.fair.queues[queue].next == Some(entity);
        });
        stays
    };
    assert_eq!(["v3.4", "v6.1"].map(stays), [false, true]);
}
