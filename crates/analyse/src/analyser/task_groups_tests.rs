//! Busy periods of task groups, one sequence of events for each rule.

use super::tests::{feed, queued, switch, waking};
use super::*;
use SwitchReason as S;
use proptest::prelude::*;
use schedlab_record::Findings;

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);

/// A and B are in /web and /web/worker, C is in the root group.
fn analyser(measure_from: u64) -> Analyser {
    let tasks = ["a", "b", "c"].map(|name| TaskName { name: name.into(), background: false });
    Analyser::new(2, tasks.into(), Vec::new(), Ns(measure_from)).in_groups([
        Some("/web"),
        Some("/web/worker"),
        None,
    ])
}
fn values(found: &Findings, name: &str) -> Vec<u64> {
    let all = found.series.get(name).into_iter().flat_map(Series::values);
    all.flat_map(|(v, n)| std::iter::repeat_n(v, n as usize)).collect()
}
fn after(events: &[(u64, u32, EventKind)]) -> Findings {
    let mut an = analyser(0);
    feed(&mut an, events);
    an.finish(Ns(10_000))
}

/// A is woken at 100, wakes B and sleeps; B is throttled for a while, and sleeps at 700.
fn request() -> Vec<(u64, u32, EventKind)> {
    vec![
        (100, 0, waking(A, None)),
        (110, 0, queued(A, 1)),
        (150, 0, switch(None, Some(A), S::FromIdle)),
        (200, 0, waking(B, Some(A))),
        (210, 1, queued(B, 1)),
        (220, 1, switch(None, Some(B), S::FromIdle)),
        (250, 0, switch(Some(A), None, S::Blocked)),
        (300, 1, switch(Some(B), None, S::Preempted)),
        (600, 1, switch(None, Some(B), S::FromIdle)),
        (700, 1, switch(Some(B), None, S::Blocked)),
    ]
}

#[test]
fn a_period_is_from_the_first_wakeup_to_the_last_sleep_and_a_throttled_thread_is_awake() {
    let found = after(&request());
    assert_eq!(values(&found, "group./web.busy"), [600]);
    assert_eq!(values(&found, "group./web/worker.busy"), [500]);
    assert_eq!(values(&found, "group./web.run_delay"), [20, 50, 300]);
    assert_eq!(
        (found.counters["group./web.cpu_time"], found.counters["group./web/worker.cpu_time"]),
        (280, 180)
    );
    assert!(found.series.keys().all(|name| !name.starts_with("group./.")), "{:?}", found.series.keys());
}

#[test]
fn a_wakeup_before_the_sleep_continues_the_period() {
    let mut events = request();
    events.truncate(3);
    events.extend([
        (240, 0, waking(A, None)),
        (250, 0, switch(Some(A), None, S::Blocked)),
        (260, 0, queued(A, 1)),
        (270, 0, switch(None, Some(A), S::FromIdle)),
        (400, 0, switch(Some(A), None, S::Exited)),
    ]);
    assert_eq!(values(&after(&events), "group./web.busy"), [300]);
}

#[test]
fn a_period_counts_if_its_begin_is_known_and_its_end_is_measured() {
    // A runs since before the recording.
    let begun = [(50, 0, switch(Some(A), None, S::Blocked))];
    assert_eq!(values(&after(&begun), "group./web.busy"), [] as [u64; 0]);
    // B was awake, too, as is seen later: only the next period counts.
    let mut late = vec![(20, 0, waking(A, None)), (30, 1, switch(None, Some(B), S::FromIdle))];
    late.extend([(40, 1, switch(Some(B), None, S::Blocked)), (45, 0, switch(None, Some(A), S::FromIdle))]);
    late.extend(begun);
    late.extend(request());
    assert_eq!(values(&after(&late), "group./web.busy"), [600]);
    // Lost events end a period that has no length.
    let mut lost = request();
    lost.insert(7, (280, 1, EventKind::Lost { count: 3 }));
    assert_eq!(values(&after(&lost), "group./web.busy"), [] as [u64; 0]);
    let mut an = analyser(701);
    feed(&mut an, &request());
    assert_eq!(values(&an.finish(Ns(800)), "group./web.busy"), [] as [u64; 0], "it ended in the warm-up");
}

#[test]
fn a_task_of_the_machine_is_not_counted_and_one_that_becomes_so_leaves_no_period() {
    let background = |yes| TaskName { name: "b".into(), background: yes };
    let mut an = analyser(0);
    an.rename(B, background(true));
    feed(&mut an, &request());
    assert_eq!(values(&an.finish(Ns(800)), "group./web.busy"), [150]);
    let mut an = analyser(0);
    feed(&mut an, &request()[..9]);
    an.rename(B, background(true));
    feed(&mut an, &request()[9..]);
    let later: Vec<_> = request().into_iter().map(|(at, cpu, kind)| (at + 1000, cpu, kind)).collect();
    feed(&mut an, &later);
    assert_eq!(values(&an.finish(Ns(2000)), "group./web.busy"), [150], "A alone");
}

proptest! {
    #[test]
    fn whatever_the_events_a_group_above_is_busy_as_long_as_those_below(
        picks in prop::collection::vec((0..5u8, 0..3u32, 0..2u32), 0..200),
    ) {
        let mut an = analyser(0);
        let mut on = [None; 2];
        for (n, (what, task, cpu)) in picks.into_iter().enumerate() {
            let (at, task) = (10 * n as u64, TaskId(task));
            let slot = &mut on[cpu as usize];
            let kind = match what {
                0 => waking(task, None),
                1 => queued(task, 1),
                2 => switch(slot.replace(task), Some(task), S::Preempted),
                3 => switch(slot.take(), None, S::Blocked),
                _ => EventKind::Lost { count: 1 },
            };
            feed(&mut an, &[(at, cpu, kind)]);
        }
        let awake = an.tasks.iter().filter(|t| t.phase.is_awake());
        let below = awake.filter(|t| t.task_group != task_groups::NO_TASK_GROUP).count();
        prop_assert_eq!(an.task_groups.is_busy("/web"), below > 0);
    }
}
