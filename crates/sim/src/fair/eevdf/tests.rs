//! Decisions on handmade queues: rare states in which versions differ.

use super::average::Average;
use crate::class::{Arrival, Dequeue, Enqueue};
use crate::fair::EntityId;
use crate::system::System;
use crate::task::TaskState;
use crate::upkeep_tests::born;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_kernel::{Feature, Kernel};
use schedlab_machine::Machine;
use schedlab_trace::Discard;

const CPU: CpuId = CpuId(1);
const SLICE: i64 = 1_400_000;

/// A system whose CPU runs the first of `vruntimes`; the others are queued with deadlines a slice later.
fn queued(version: &str, vruntimes: &[i64], test: impl FnOnce(&mut System<'_>, &[TaskId])) {
    let machine = Machine::load("smp-2").expect("a machine");
    let mut sink = Discard;
    let mut sys = System::new(&machine, Kernel::profile(version).expect("a profile"), 1, &mut sink);
    let tasks: Vec<TaskId> = vruntimes.iter().map(|_| born(&mut sys, CPU)).collect();
    for (task, vruntime) in tasks.iter().zip(vruntimes) {
        edit(&mut sys, *task, |e| (e.vruntime, e.deadline) = (*vruntime, vruntime + SLICE));
    }
    let queue = sys.root(CPU);
    // The entity becomes current directly; other tests cover the rules of the pick.
    let e = entity(&sys, tasks[0]);
    let deadline = sys.fair.entities[e].deadline;
    sys.fair.queues[queue].timeline.remove(e, deadline);
    sys.fair.queues[queue].curr = Some(e);
    sys.fair.entities[e].vprot = deadline;
    sys.cpus[CPU].curr = Some(tasks[0]);
    sys.cpus[CPU].need_resched = None;
    test(&mut sys, &tasks);
}

fn arrival(task: TaskId, how: Enqueue) -> Arrival {
    Arrival { task, how, sync: false }
}

fn entity(sys: &System<'_>, task: TaskId) -> EntityId {
    sys.tasks[task].entity
}

fn edit(sys: &mut System<'_>, task: TaskId, change: impl FnOnce(&mut crate::fair::Entity)) {
    let (e, queue) = (entity(sys, task), sys.root(CPU));
    let deadline = sys.fair.entities[e].deadline;
    sys.fair.queues[queue].timeline.remove(e, deadline);
    change(&mut sys.fair.entities[e]);
    sys.line_up(e);
}

fn time(sys: &System<'_>) -> i64 {
    let average: Average = sys.average(sys.root(CPU));
    average.time()
}

#[test]
fn a_sleeper_whose_turn_it_would_be_does_not_hide_a_short_wakee() {
    for (version, preempts) in [("v6.12", false), ("v6.18", true), ("v7.3", true)] {
        queued(version, &[0, -500_000, 400_000], |sys, tasks| {
            let (asleep, wakee) = (tasks[1], tasks[2]);
            edit(sys, asleep, |e| e.delayed = true);
            edit(sys, wakee, |e| (e.vruntime, e.slice_ns, e.deadline) = (-100_000, 100_000, 1_000_000));
            let curr = entity(sys, tasks[0]);
            sys.fair.entities[curr].vruntime = 300_000;
            assert_eq!(sys.wakeup_preempt(CPU, arrival(wakee, Enqueue::Wakeup)), preempts, "{version}");
            let asleep = &sys.fair.entities[entity(sys, asleep)];
            assert_eq!((asleep.on_rq, asleep.delayed), (!preempts, !preempts), "{version}: it is taken off");
        });
    }
}

#[test]
fn a_new_task_preempts_by_a_shorter_slice_only_since_6_19() {
    for (version, equal) in [("v6.12", true), ("v6.18", false), ("v7.3", false)] {
        for (slice, preempts) in [(SLICE as u64, equal), (100_000, true)] {
            queued(version, &[SLICE / 2, 0], |sys, tasks| {
                edit(sys, tasks[1], |e| (e.slice_ns, e.deadline) = (slice, slice as i64));
                let curr = entity(sys, tasks[0]);
                sys.fair.entities[curr].vprot = 0;
                let judged = sys.wakeup_preempt(CPU, arrival(tasks[1], Enqueue::New));
                assert_eq!(judged, preempts, "{version}, {slice} ns");
            });
        }
    }
}

#[test]
fn a_debt_that_grew_while_queued_asleep_is_forgiven_since_7_1() {
    for (version, forgiven) in [("v6.12", false), ("v6.18", false), ("v7.3", true)] {
        queued(version, &[0, 600_000], |sys, tasks| {
            edit(sys, tasks[1], |e| (e.delayed, e.vlag) = (true, -100_000));
            let e = entity(sys, tasks[1]);
            assert_eq!(time(sys) - sys.fair.entities[e].vruntime, -300_000);
            sys.requeue_delayed(e);
            let lag = time(sys) - sys.fair.entities[e].vruntime;
            let due = if forgiven { -100_000 } else { -300_000 };
            assert!((lag - due).abs() <= 2, "{version}: {lag}");
            assert!(!sys.fair.entities[e].delayed);
        });
    }
}

#[test]
fn in_7_3_a_delayed_wakee_has_no_credit_for_the_runners_time() {
    for (version, preempts) in [("v6.12", true), ("v6.18", true), ("v7.3", false)] {
        queued(version, &[0, 100_000], |sys, tasks| {
            edit(sys, tasks[1], |e| (e.delayed, e.vlag) = (true, -50_000));
            sys.now += 400_000;
            sys.requeue_delayed(entity(sys, tasks[1]));
            let judged = sys.wakeup_preempt(CPU, arrival(tasks[1], Enqueue::Wakeup));
            assert_eq!(judged, preempts, "{version}");
            let e = &sys.fair.entities[entity(sys, tasks[1])];
            let credit = time(sys) - e.vruntime;
            assert_eq!(credit, if preempts { 150_000 } else { 0 }, "{version}");
        });
    }
}

#[test]
fn another_cpus_slice_timer_is_armed_by_an_interrupt() {
    queued("v7.3", &[0, 0], |sys, _| {
        let never = schedlab_board::engine::NEVER;
        (sys.stepping.acting, sys.cpus[CPU].ipi_at) = (CPU, never);
        sys.hrtick_update(CPU, true);
        assert_eq!((sys.cpus[CPU].hrtick_at, sys.cpus[CPU].ipi_at), (SLICE as u64, never));
        sys.cpus[CPU].hrtick_at = never;
        sys.stepping.acting = CpuId(1 - CPU.0);
        sys.hrtick_update(CPU, true);
        assert_eq!(sys.cpus[CPU].hrtick_at, SLICE as u64);
        assert!(sys.cpus[CPU].ipi_at < never, "a lazy request is heeded as it ends");
    });
}

#[test]
fn in_7_3_the_slice_timer_is_moved_only_if_needed() {
    queued("v7.3", &[0, 0], |sys, tasks| {
        let (curr, other) = (Some(tasks[0]), Some(tasks[1]));
        let armed = |sys: &System<'_>| sys.cpus[CPU].hrtick_at;
        let longer = |sys: &mut System<'_>, by: i64| {
            let e = entity(sys, tasks[0]);
            sys.fair.entities[e].deadline += by;
        };
        assert_eq!(armed(sys), schedlab_board::engine::NEVER);
        sys.hrtick_update(CPU, true);
        assert_eq!(armed(sys), SLICE as u64, "an entity that comes arms it");
        longer(sys, 9_000);
        sys.hrtick_update(CPU, true);
        sys.hrtick_update(CPU, false);
        assert_eq!(armed(sys), SLICE as u64, "another that comes or goes leaves it");
        sys.hrtick_picked(CPU, curr, curr);
        assert_eq!((armed(sys), sys.hrtick_ns(CPU)), (SLICE as u64, 0), "another pick leaves it");
        sys.hrtick_picked(CPU, other, curr);
        assert_eq!(armed(sys), SLICE as u64 + 9_000);
        longer(sys, 4_000);
        sys.hrtick_picked(CPU, other, curr);
        assert_eq!(armed(sys), SLICE as u64 + 9_000, "near enough");
        sys.hrtick_picked(CPU, curr, None);
        assert_eq!(armed(sys), schedlab_board::engine::NEVER);
    });
}

#[test]
fn before_7_0_new_attributes_renew_protection() {
    for (version, protected) in [("v6.12", true), ("v6.18", true), ("v7.3", false)] {
        queued(version, &[300_000, 0], |sys, tasks| {
            let e = entity(sys, tasks[0]);
            sys.fair.entities[e].vprot = 300_000;
            let old = sys.tasks[tasks[0]].attr;
            sys.tasks[tasks[0]].attr.slice = Ns::ms(3).into();
            sys.prio_changed(tasks[0], old);
            let e = &sys.fair.entities[e];
            assert_eq!(e.vruntime < e.vprot, protected, "{version}: {e:?}");
            assert_eq!(
                (e.slice_ns, e.deadline - e.vruntime),
                (3_000_000, SLICE),
                "the next deadline is longer"
            );
        });
    }
}

#[test]
fn in_7_3_an_eligible_wakee_with_a_shorter_slice_preempts_an_earlier_deadline() {
    // Another entity has the earliest deadline of all.
    for (version, preempts) in [("v6.18", false), ("v7.3", true)] {
        queued(version, &[0, -SLICE, 0], |sys, tasks| {
            let wakee = tasks[2];
            edit(sys, wakee, |e| (e.vruntime, e.slice_ns, e.deadline) = (-900_000, 1_000_000, 100_000));
            assert_eq!(sys.wakeup_preempt(CPU, arrival(wakee, Enqueue::Wakeup)), preempts, "{version}");
            let picked = sys.eevdf_pick(CPU);
            assert_eq!(picked == Some(wakee), preempts, "{version}: and it is picked next");
        });
    }
}

#[test]
fn a_sleeper_that_was_moved_while_queued_neither_preempts_nor_becomes_a_buddy() {
    // Its slice is the shortest and its deadline the earliest, so judging the wakeup could take it off the queue.
    for version in ["v6.12 NEXT_BUDDY", "v6.18", "v6.18 NEXT_BUDDY", "v7.3", "v7.3 NEXT_BUDDY"] {
        queued(version.split(' ').next().expect("a version"), &[300_000, 0], |sys, tasks| {
            sys.fixed.kernel.features.switch(Feature::NextBuddy, version.ends_with("NEXT_BUDDY"));
            let sleeper = tasks[1];
            sys.tasks[sleeper].state = TaskState::Sleeping;
            edit(sys, sleeper, |e| {
                (e.delayed, e.slice_ns, e.vruntime, e.deadline) = (true, 100_000, -100_000, 0);
            });
            let judged = sys.wakeup_preempt(CPU, arrival(sleeper, Enqueue::Moved));
            assert!(!judged || version.starts_with("v6.12"), "{version}");
            let next = sys.fair.queues[sys.root(CPU)].next;
            assert_eq!(next, None, "{version}");
            assert_eq!(sys.eevdf_pick(CPU), Some(tasks[0]), "{version}");
        });
    }
}

#[test]
fn in_7_3_a_batch_wakee_bounds_the_time_it_has_to_wait() {
    for (version, bounded) in [("v6.18", false), ("v7.3", true)] {
        queued(version, &[900_000, -2_000_000], |sys, tasks| {
            let (curr, wakee) = (entity(sys, tasks[0]), tasks[1]);
            sys.tasks[wakee].attr.policy = schedlab_kernel::Policy::Batch;
            let slice = sys.fair.entities[curr].slice_ns as i64;
            sys.fair.entities[curr].vprot = 900_000 + slice;
            assert!(!sys.wakeup_preempt(CPU, arrival(wakee, Enqueue::Wakeup)));
            let vprot = sys.fair.entities[curr].vprot;
            let want = if bounded { time(sys) + slice } else { 900_000 + slice };
            assert_eq!(vprot, want, "{version}: from the queue's time on, not from the hog's");
        });
    }
}

#[test]
fn a_yield_moves_the_deadline_and_since_6_12_the_task_too() {
    let slice_6_6 = 1_500_000;
    for (version, vruntime, deadline) in [("v6.6", 0, SLICE + slice_6_6), ("v6.12", SLICE, 2 * SLICE)] {
        queued(version, &[0, 100_000], |sys, tasks| {
            sys.yield_task(tasks[0]);
            let e = &sys.fair.entities[entity(sys, tasks[0])];
            assert_eq!((e.vruntime, e.deadline), (vruntime, deadline), "{version}");
        });
        queued(version, &[100_000, 0], |sys, tasks| {
            sys.yield_task(tasks[0]);
            let moved = sys.fair.entities[entity(sys, tasks[0])].deadline > 100_000 + SLICE;
            assert_eq!(moved, version == "v6.6", "{version}: one that is not eligible");
        });
    }
}

#[test]
fn a_delayed_task_counts_on_its_runqueue_and_since_6_14_not_in_balancing() {
    for (version, balanced) in [("v6.12", 2), ("v7.3", 1)] {
        queued(version, &[900_000, 0], |sys, tasks| {
            let [sleeper, other] = [tasks[0], tasks[1]];
            sys.tasks[sleeper].state = TaskState::Sleeping;
            sys.deactivate_task(sleeper, Dequeue::Sleep);
            let counts = |sys: &System<'_>| {
                (
                    sys.rqs.nr_running(CPU),
                    sys.h_nr_running(CPU),
                    sys.h_nr_balanced(CPU),
                    sys.cpus[CPU].list.clone(),
                )
            };
            assert!(sys.is_delayed(sleeper), "{version}");
            assert_eq!(counts(sys), (2, 1, balanced, vec![sleeper, other]), "{version}");
            sys.balance.overload = false;
            sys.tasks[sleeper].state = TaskState::Runnable;
            sys.activate_task(CPU, sleeper, Enqueue::Wakeup);
            assert_eq!(
                counts(sys),
                (2, 2, 2, vec![sleeper, other]),
                "{version}: its place in the list stays"
            );
            assert!(!sys.balance.overload, "{version}: no second task has come");

            sys.deactivate_task(sleeper, Dequeue::Sleep);
            sys.deactivate_task(other, Dequeue::Sleep);
            assert!(sys.only_delayed(CPU), "{version}");
            sys.drain(CPU);
            assert_eq!(counts(sys), (0, 0, 0, vec![]), "{version}");
        });
    }
}

#[test]
fn a_delayed_task_that_is_moved_stays_asleep() {
    queued("v6.12", &[900_000, 0], |sys, tasks| {
        let sleeper = tasks[0];
        sys.tasks[sleeper].state = TaskState::Sleeping;
        sys.deactivate_task(sleeper, Dequeue::Sleep);
        sys.cpus[CPU].curr = None;
        let queue = sys.root(CPU);
        sys.fair.queues[queue].curr = None;
        sys.line_up(entity(sys, sleeper));
        sys.take_off_delayed(sleeper);
        sys.migrate_task(sleeper, CpuId(0));
        sys.put_on_delayed(CpuId(0), sleeper);
        assert_eq!(
            (sys.rqs.nr_running(CPU), sys.rqs.nr_running(CpuId(0)), sys.h_nr_running(CpuId(0))),
            (1, 1, 0)
        );
        assert!(sys.is_delayed(sleeper) && sys.tasks[sleeper].state == TaskState::Sleeping);
        for cpu in [CPU, CpuId(0)] {
            sys.walk_classes(cpu).expect("the invariants");
        }
    });
}
