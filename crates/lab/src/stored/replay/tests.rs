use super::lower::Lower;
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{Actor, Cast, Event, EventKind, Sink, SwitchReason};
use schedlab_workload::replay::{Schedule, Start, Step};
use std::sync::atomic::AtomicBool;

fn actor(name: &str) -> Actor {
    Actor { name: name.into(), tid: 7, process: 7, background: false, prio: 125, group: None }
}

fn lowered(events: &[(u64, EventKind)], keeps: impl Fn(TaskId) -> bool) -> Schedule {
    let cast =
        Cast { tasks: ["a", "b", "c"].map(actor).to_vec(), cpus: 2, release: String::new(), end: Ns(1_000) };
    let mut lower = Lower::default();
    for (at, kind) in events {
        lower.event(&Event { at: Ns(*at), cpu: CpuId(0), kind: *kind });
    }
    finished(lower, &cast, keeps)
}

fn finished(lower: Lower, cast: &Cast, keeps: impl Fn(TaskId) -> bool) -> Schedule {
    lower.finish(cast, keeps, &AtomicBool::new(false)).expect("it was not stopped").schedule
}

fn switch(prev: Option<u32>, next: Option<u32>, why: SwitchReason) -> EventKind {
    EventKind::Switch { prev: prev.map(TaskId), next: next.map(TaskId), why }
}
fn waking(task: u32, waker: Option<u32>) -> EventKind {
    EventKind::Waking { task: TaskId(task), waker: waker.map(TaskId) }
}

#[test]
fn a_burst_is_cut_at_wakeups_of_others_but_not_where_the_cpu_was_lost() {
    let events = [
        (0, switch(None, Some(0), SwitchReason::FromIdle)),
        (100, switch(Some(0), Some(1), SwitchReason::Preempted)),
        (150, switch(Some(1), Some(0), SwitchReason::Blocked)),
        (180, waking(1, Some(0))),
        (200, switch(Some(0), Some(1), SwitchReason::Blocked)),
        (300, waking(0, None)),
        (310, switch(Some(1), Some(0), SwitchReason::Blocked)),
    ];
    let all = lowered(&events, |_| true);
    let run = |ns| Step::Run(Ns(ns));
    assert_eq!(all.parts[0].steps, [run(130), Step::Wake(1), run(20), Step::Sleep(Ns(100)), run(690)]);
    assert_eq!(all.parts[1].steps, [run(50), Step::Await, run(110)]);
    assert_eq!((all.parts[0].nice, all.length), (5, Ns(1_000)));
    // Without its waker, the sleep lasts as long as it did.
    let alone = lowered(&events, |task| task == TaskId(1));
    assert_eq!(alone.parts[0].steps, [run(50), Step::Sleep(Ns(30)), run(110)]);
}

#[test]
fn a_sleep_whose_wakeup_is_not_recorded_lasts_until_the_task_runs_again() {
    let run = |ns| Step::Run(Ns(ns));
    let mut events = vec![
        (0, switch(None, Some(0), SwitchReason::FromIdle)),
        (100, switch(Some(0), Some(1), SwitchReason::Blocked)),
        (150, switch(Some(1), Some(0), SwitchReason::Blocked)),
        (180, switch(Some(0), None, SwitchReason::Blocked)),
        (300, switch(None, Some(1), SwitchReason::FromIdle)),
        (310, switch(Some(1), None, SwitchReason::Blocked)),
    ];
    let all = lowered(&events, |_| true);
    assert_eq!(all.parts[0].steps, [run(100), Step::Sleep(Ns(50)), run(30)]);
    // The recording has no wakeups, so the second task slept until it was first seen.
    assert_eq!(all.parts[1].steps, [Step::Sleep(Ns(100)), run(50), Step::Sleep(Ns(150)), run(10)]);
    // Now it has some, so a task that runs without one could have run since the beginning.
    events.insert(4, (290, waking(1, None)));
    let all = lowered(&events, |_| true);
    assert_eq!(all.parts[1].steps, [run(50), Step::Sleep(Ns(140)), run(10)]);
}

#[test]
fn a_wakeup_that_comes_before_the_task_has_left_ends_its_next_sleep_at_once() {
    let events = [
        (0, 0, switch(None, Some(0), SwitchReason::FromIdle)),
        (10, 1, switch(None, Some(1), SwitchReason::FromIdle)),
        (50, 1, waking(0, Some(1))),
        (60, 0, switch(Some(0), None, SwitchReason::Blocked)),
        (70, 0, switch(None, Some(0), SwitchReason::FromIdle)),
    ];
    let all = lowered_on(&events);
    assert_eq!(all.parts[0].steps, [Step::Run(Ns(60)), Step::Await, Step::Run(Ns(430))]);
    assert_eq!(all.parts[1].steps, [Step::Run(Ns(40)), Step::Wake(0), Step::Run(Ns(450))]);
}

#[test]
fn children_start_when_their_parent_starts_them() {
    let events = [
        (0, switch(None, Some(0), SwitchReason::FromIdle)),
        (40, EventKind::Forked { task: TaskId(1), parent: Some(TaskId(0)) }),
        (50, EventKind::Forked { task: TaskId(2), parent: None }),
        (60, switch(Some(0), Some(1), SwitchReason::Blocked)),
    ];
    let all = lowered(&events, |_| true);
    assert_eq!(all.parts[0].steps, [Step::Run(Ns(40)), Step::Start(1), Step::Run(Ns(20))]);
    assert_eq!((all.parts[1].start, all.parts[2].start), (Start::By(0), Start::At(Ns(50))));
    let alone = lowered(&events, |task| task != TaskId(0));
    assert_eq!(alone.parts[0].start, Start::At(Ns(40)), "its parent is not replayed");
}

/// A reader of messages that take 10 to read, and a writer, on a CPU each. The first three messages wake the reader,
/// each after it has slept. Then it is woken by the first of three and reads all of them without sleeping.
fn messages() -> Vec<(u64, u32, EventKind)> {
    let mut all = vec![(0, 0, switch(None, Some(0), SwitchReason::FromIdle))];
    for n in 0..4 {
        let (at, length) = (100 * n + 50, if n == 3 { 30 } else { 10 });
        all.push((at, 0, waking(1, Some(0))));
        all.push((at + 1, 1, switch(None, Some(1), SwitchReason::FromIdle)));
        all.push((at + 1 + length, 1, switch(Some(1), None, SwitchReason::Blocked)));
    }
    all.push((500, 0, switch(Some(0), None, SwitchReason::Blocked)));
    all
}

fn lowered_on(events: &[(u64, u32, EventKind)]) -> Schedule {
    let cast = Cast { tasks: ["a", "b"].map(actor).to_vec(), cpus: 2, release: String::new(), end: Ns(500) };
    let mut lower = Lower::default();
    for (at, cpu, kind) in events {
        lower.event(&Event { at: Ns(*at), cpu: CpuId(*cpu), kind: *kind });
    }
    finished(lower, &cast, |_| true)
}

#[test]
fn a_long_burst_is_cut_into_units_that_the_waker_gives_meanwhile() {
    let steps = lowered_on(&messages());
    let reader = &steps.parts[1].steps;
    let needs = reader.iter().filter(|s| **s == Step::Need).count();
    let tail = &reader[reader.len() - 5..];
    let ten = Step::Run(Ns(10));
    assert_eq!((needs, tail), (2, &[ten, Step::Need, ten, Step::Need, ten][..]), "{reader:?}");
    let given = steps.parts[0].steps.iter().filter(|s| **s == Step::Give(1)).count();
    assert_eq!(given, 2, "each once");
    assert_eq!(steps.parts[0].steps.last(), Some(&Step::Run(Ns(500 - 350 - 14))), "before it was used");
}

#[test]
fn a_burst_during_which_no_waker_ran_is_not_cut() {
    let mut events = messages();
    // The writer sleeps as soon as it has sent the last.
    events.retain(|(at, ..)| *at != 500);
    let last = events.iter().position(|(at, ..)| *at == 351).unwrap();
    events.insert(last, (350, 0, switch(Some(0), None, SwitchReason::Blocked)));
    let steps = lowered_on(&events);
    assert!(!steps.parts[1].steps.contains(&Step::Need), "{:?}", steps.parts[1].steps);
}

#[test]
fn a_task_of_the_machine_whose_burst_has_not_ended_continues() {
    let events = [
        (0, switch(None, Some(0), SwitchReason::FromIdle)),
        (100, switch(Some(0), Some(1), SwitchReason::Preempted)),
        (200, switch(Some(1), Some(2), SwitchReason::Exited)),
        (300, switch(Some(2), None, SwitchReason::Blocked)),
    ];
    let background = |name| Actor { background: true, ..actor(name) };
    let cast = Cast {
        tasks: ["a", "b", "c"].map(background).to_vec(),
        cpus: 1,
        release: String::new(),
        end: Ns(500),
    };
    let mut lower = Lower::default();
    for (at, kind) in events {
        lower.event(&Event { at: Ns(at), cpu: CpuId(0), kind });
    }
    let all = finished(lower, &cast, |_| true);
    let steps: Vec<&[Step]> = all.parts.iter().map(|p| p.steps.as_slice()).collect();
    let run = |ns| Step::Run(Ns(ns));
    assert_eq!(
        steps,
        [&[run(200)][..], &[Step::Sleep(Ns(100)), run(100)], &[Step::Sleep(Ns(200)), run(100)]],
        "for as long again: the one that waits, and neither that ended nor sleeps"
    );
}

#[test]
fn a_stay_whose_end_is_missing_is_left_out() {
    let events = [
        (0, switch(None, Some(0), SwitchReason::FromIdle)),
        // The switch from the first task to the idle one is missing, so whether it ran until here is unknown.
        (100, switch(None, Some(1), SwitchReason::FromIdle)),
        (600, switch(Some(1), None, SwitchReason::Blocked)),
        (700, switch(None, Some(0), SwitchReason::FromIdle)),
        (750, switch(Some(0), None, SwitchReason::Blocked)),
    ];
    let all = lowered(&events, |_| true);
    assert_eq!(all.parts[0].steps, [Step::Run(Ns(50))]);
    assert_eq!(all.parts[1].steps, [Step::Sleep(Ns(100)), Step::Run(Ns(500))]);
}

#[test]
fn a_task_that_comes_to_a_second_cpu_has_left_the_first_unseen() {
    let events = [
        (0, 0, switch(None, Some(0), SwitchReason::FromIdle)),
        (100, 1, switch(None, Some(0), SwitchReason::FromIdle)),
        (200, 0, switch(None, Some(1), SwitchReason::FromIdle)),
        (300, 1, switch(Some(0), None, SwitchReason::Blocked)),
        (400, 0, switch(Some(1), None, SwitchReason::Blocked)),
    ];
    let all = lowered_on(&events);
    assert_eq!(all.parts[0].steps, [Step::Run(Ns(200))], "the other CPU's gap does not end its stay");
    assert_eq!(all.parts[1].steps, [Step::Sleep(Ns(200)), Step::Run(Ns(200))]);
}

#[test]
fn a_task_first_seen_leaving_began_when_its_cpus_events_do() {
    let events = [
        (0, 0, switch(None, None, SwitchReason::FromIdle)),
        (300, 1, EventKind::Lost { count: 0 }),
        (310, 1, switch(Some(0), None, SwitchReason::Blocked)),
        (320, 0, switch(Some(1), None, SwitchReason::Blocked)),
    ];
    let all = lowered_on(&events);
    assert_eq!((all.parts[0].start, &all.parts[0].steps[..]), (Start::At(Ns(300)), &[Step::Run(Ns(10))][..]));
    assert_eq!((all.parts[1].start, &all.parts[1].steps[..]), (Start::At(Ns(0)), &[Step::Run(Ns(320))][..]));
}

#[test]
fn a_burst_of_very_many_units_is_cut_coarsely_and_can_be_stopped() {
    let mut events = messages();
    // A reader of messages of 10 that reads a million at once, after its writer gave some meanwhile.
    let last = events.iter().position(|(at, ..)| *at == 500).unwrap();
    events[last].0 = 20_000_000;
    let end = events.iter_mut().find(|(at, ..)| *at == 381).unwrap();
    end.0 = 10_000_351;
    events.sort_by_key(|(at, ..)| *at);
    let read = || {
        let mut lower = Lower::default();
        for (at, cpu, kind) in &events {
            lower.event(&Event { at: Ns(*at), cpu: CpuId(*cpu), kind: *kind });
        }
        lower
    };
    let cast = Cast { tasks: ["a", "b"].map(actor).to_vec(), cpus: 2, ..Cast::default() };
    let all = read().finish(&cast, |_| true, &AtomicBool::new(false)).unwrap();
    let needs = all.schedule.parts[1].steps.iter().filter(|s| **s == Step::Need).count();
    assert_eq!((needs, all.coarse), ((1 << 16) - 1, 1));
    assert!(read().finish(&cast, |_| true, &AtomicBool::new(true)).is_none());
}
