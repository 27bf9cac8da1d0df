//! Negative controls: the checker that the other tests rely on notices impossible events.

use crate::support::checker::Checker;
use crate::support::{cpus, machine};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_sim::{SimReport, TaskAccount};
use schedlab_trace::{Event, EventKind, MoveReason, Sink, SwitchReason};

const A: TaskId = TaskId(0);

fn event(us: u64, cpu: u32, kind: EventKind) -> Event {
    Event { at: Ns::us(us), cpu: CpuId(cpu), kind }
}
fn enqueued(us: u64, cpu: u32) -> Event {
    event(us, cpu, EventKind::Enqueued { task: A, nr_running: 1, new: false })
}
fn switch(us: u64, cpu: u32, prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason) -> Event {
    event(us, cpu, EventKind::Switch { prev, next, why })
}
fn starts(us: u64, cpu: u32) -> Event {
    switch(us, cpu, None, Some(A), SwitchReason::FromIdle)
}
fn sleeps(us: u64, cpu: u32) -> Event {
    switch(us, cpu, Some(A), None, SwitchReason::Blocked)
}

/// The checker's verdict on these events of task A, which had `cpu_us` of CPU time, in a run of 10 s.
fn verdict(events: &[Event], cpu_us: u64) -> Result<(), String> {
    let mut checker = Checker::new(&machine("smp-2"));
    checker.restrict(A, cpus("0-1"));
    checker.longest_wait_ns = 2_000_000_000;
    checker.event(&event(0, 0, EventKind::Forked { task: A, parent: None }));
    events.iter().for_each(|e| checker.event(e));
    let account = TaskAccount { cpu_time_ns: cpu_us * 1_000, ..TaskAccount::default() };
    checker.verdict(&SimReport { end: Ns::secs(10), tasks: vec![account], ..SimReport::default() })
}

fn complaint(events: &[Event]) -> String {
    verdict(events, 0).expect_err("it must be noticed")
}

#[test]
fn sound_events_pass() {
    assert_eq!(verdict(&[enqueued(1, 0), starts(2, 0), sleeps(9, 0)], 7), Ok(()));
    let moves = event(1, 1, EventKind::Migrate { task: A, from: CpuId(0), why: MoveReason::Idle });
    assert_eq!(verdict(&[enqueued(1, 0), moves, starts(2, 1), sleeps(9, 1)], 7), Ok(()));
}

#[test]
fn impossible_switches_are_noticed() {
    assert!(complaint(&[starts(2, 0)]).contains("which is Asleep"));
    assert!(complaint(&[enqueued(1, 1), starts(2, 0)]).contains("which is Queued"));
    assert!(complaint(&[enqueued(1, 0), starts(2, 0), starts(3, 1)]).contains("which is Running"));
    assert!(complaint(&[enqueued(1, 0), starts(2, 0), sleeps(3, 1)]).contains("leaves cpu1"));
    assert!(complaint(&[enqueued(1, 0), enqueued(2, 1)]).contains("enqueued while Queued"));
    assert!(complaint(&[enqueued(3, 0), starts(2, 0)]).contains("backward"));
    assert!(
        complaint(&[enqueued(1, 0), starts(2, 0), event(3, 0, EventKind::IdleEnter { state: 0 })])
            .contains("halts")
    );
}

#[test]
fn wrong_counts_and_accounts_are_noticed() {
    let two = event(1, 0, EventKind::Enqueued { task: A, nr_running: 2, new: false });
    assert!(complaint(&[two]).contains("2 are runnable"));
    let stay = [enqueued(1, 0), starts(2, 0), sleeps(9_002, 0)];
    assert!(complaint(&stay).contains("ran for 9000000 ns"));
    let charged = |us| verdict(&stay, us);
    assert!(charged(9_000).is_ok() && charged(8_990).is_ok(), "the clock is behind");
    assert!(charged(9_100).is_err() && charged(8_900).is_err(), "by no more than a switch takes");
}

#[test]
fn forbidden_cpus_are_noticed() {
    let mut checker = Checker::new(&machine("smp-2"));
    checker.restrict(A, cpus("1"));
    [event(0, 0, EventKind::Forked { task: A, parent: None }), enqueued(1, 0), starts(2, 0)]
        .iter()
        .for_each(|e| checker.event(e));
    assert!(checker.verdict(&SimReport::default()).is_err());
}

#[test]
fn forgotten_and_starving_tasks_are_noticed() {
    assert!(complaint(&[enqueued(1, 0), starts(900_000, 0)]).contains("was idle while"));
    assert!(complaint(&[enqueued(1, 0)]).contains("is idle"));
    let b = TaskId(1);
    let forked = event(0, 0, EventKind::Forked { task: b, parent: None });
    let queued = |us, nr_running| event(us, 0, EventKind::Enqueued { task: b, nr_running, new: false });
    let starving = [enqueued(1, 0), starts(2, 0), forked_at(3, forked), queued(4, 2)];
    let complaint = complaint(&starving);
    assert!(complaint.contains("task 1") && complaint.contains("cpu1 is idle"), "{complaint}");
}

fn forked_at(us: u64, e: Event) -> Event {
    Event { at: Ns::us(us), ..e }
}
