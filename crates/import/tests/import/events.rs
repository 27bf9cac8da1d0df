//! Small hand-written recordings, and every event that they become.

use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_import::{Audience, Imported, Recording, read, read_part};
use schedlab_trace::{Actor, Event, EventKind, MoveReason, Sink, SwitchReason, Window};
use std::path::PathBuf;

#[derive(Default)]
struct Heard {
    events: Vec<Event>,
    actors: Vec<Actor>,
}

impl Sink for Heard {
    fn event(&mut self, event: &Event) {
        self.events.push(*event);
    }
}

impl Audience for Heard {
    fn meet(&mut self, task: TaskId, actor: &Actor) {
        assert_eq!(task.index(), self.actors.len(), "ids count up");
        self.actors.push(actor.clone());
    }
    fn changed(&mut self, task: TaskId, actor: &Actor) {
        self.actors[task.index()] = actor.clone();
    }
}

fn hear(text: &str) -> (Heard, Imported) {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), text).unwrap();
    let mut heard = Heard::default();
    let imported = read(
        &Recording { path: PathBuf::from(file.path()), form: None, kernel: None, hashed: true },
        &mut heard,
    )
    .unwrap();
    (heard, imported)
}

fn hear_lines(lines: &[&str]) -> (Heard, Imported) {
    hear(&(lines.join("\n") + "\n"))
}

fn event(us: u64, cpu: u32, kind: EventKind) -> Event {
    Event { at: Ns::us(us), cpu: CpuId(cpu), kind }
}

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);

#[test]
fn a_wakeup_with_a_move_becomes_its_events() {
    let (heard, imported) = hear_lines(&[
        "a-10 [000] d..2. 5.000000: sched_waking: comm=b pid=20 prio=110 target_cpu=000",
        "a-10 [000] d..2. 5.000001: sched_migrate_task: comm=b pid=20 prio=110 orig_cpu=0 dest_cpu=1",
        "a-10 [000] d..2. 5.000002: sched_wakeup: comm=b pid=20 prio=110 target_cpu=001",
        "<idle>-0 [001] d..2. 5.000005: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=20 next_prio=110",
        "b-20 [001] d..2. 5.000009: sched_switch: prev_comm=b prev_pid=20 prev_prio=110 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
    ]);
    // The waker is seen first.
    let (a, b) = (A, B);
    assert_eq!(
        heard.events,
        [
            event(0, 0, EventKind::Waking { task: b, waker: Some(a) }),
            event(1, 1, EventKind::Migrate { task: b, from: CpuId(0), why: MoveReason::Wakeup }),
            event(2, 1, EventKind::Enqueued { task: b, nr_running: 0, new: false }),
            event(5, 1, EventKind::Switch { prev: None, next: Some(b), why: SwitchReason::FromIdle }),
            event(9, 1, EventKind::Switch { prev: Some(b), next: None, why: SwitchReason::Blocked }),
        ]
    );
    assert_eq!((imported.opened_ns, imported.records, imported.cast.cpus), (5_000_000_000, 5, 2));
    let told: Vec<_> = imported.cast.tasks.iter().map(|t| (t.name.as_str(), t.tid, t.prio)).collect();
    assert_eq!(told, [("a", 10, 120), ("b", 20, 110)]);
}

#[test]
fn without_sched_wakeup_a_task_is_queued_where_its_wakeup_takes_it() {
    let (heard, _) = hear_lines(&[
        "a 10 [000] 5.000000: sched:sched_waking: comm=b pid=20 prio=120 target_cpu=000",
        "z 30 [001] 5.000000: sched:sched_waking: comm=y pid=31 prio=120 target_cpu=001",
        "a 10 [000] 5.000001: sched:sched_migrate_task: comm=b pid=20 prio=120 orig_cpu=0 dest_cpu=1",
    ]);
    let queued: Vec<_> = heard
        .events
        .iter()
        .filter_map(|e| match e.kind {
            EventKind::Enqueued { task, .. } => Some((heard.actors[task.index()].name.as_str(), e.cpu.0)),
            _ => None,
        })
        .collect();
    assert_eq!(queued, [("b", 1), ("y", 1)]);
    let moves = heard.events.iter().filter(|e| matches!(e.kind, EventKind::Migrate { .. })).count();
    assert_eq!(moves, 1, "the move is told once");
}

#[test]
fn without_sched_waking_a_wakeup_begins_where_the_task_is_queued() {
    let (heard, imported) = hear_lines(&[
        "a-10 [000] d..3. 5.000000: sched_wakeup: comm=b pid=20 prio=110 target_cpu=001",
        "<idle>-0 [001] d..2. 5.000005: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=b next_pid=20 next_prio=110",
        "b-20 [001] d..2. 5.000009: sched_switch: prev_comm=b prev_pid=20 prev_prio=110 prev_state=S ==> next_comm=swapper/1 next_pid=0 next_prio=120",
        // Another CPU was asked to queue it, and did so in an interrupt.
        "<idle>-0 [001] dNh3. 5.000020: sched_wakeup: comm=b pid=20 prio=110 target_cpu=001",
        "a-10 [000] d..3. 5.000030: sched_wakeup_new: comm=c pid=30 prio=120 target_cpu=000",
    ]);
    let (a, b) = (A, B);
    let queued = |us, cpu, task, new| event(us, cpu, EventKind::Enqueued { task, nr_running: 0, new });
    let told: Vec<Event> =
        heard.events.iter().filter(|e| !matches!(e.kind, EventKind::Switch { .. })).copied().collect();
    assert_eq!(
        told,
        [
            event(0, 0, EventKind::Waking { task: b, waker: Some(a) }),
            queued(0, 1, b, false),
            event(20, 1, EventKind::Waking { task: b, waker: None }),
            queued(20, 1, b, false),
            queued(30, 0, TaskId(2), true),
        ]
    );
    assert_eq!(
        imported.warnings().iter().map(|w| w.code.as_str()).collect::<Vec<_>>(),
        ["recording.lacks_waking"]
    );
}

#[test]
fn a_number_that_is_used_again_is_another_task() {
    let (heard, imported) = hear_lines(&[
        "p-5 [000] d... 1.000000: task_newtask: pid=9 comm=p clone_flags=10000 oom_score_adj=0",
        "p-5 [000] d... 1.000001: sched_process_fork: comm=p pid=5 child_comm=p child_pid=9",
        "p-5 [000] d... 1.000002: sched_wakeup_new: comm=p pid=9 prio=120 target_cpu=000",
        "p-5 [000] d... 1.000003: sched_switch: prev_comm=p prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=p next_pid=9 next_prio=120",
        "p-9 [000] d... 1.000004: task_rename: pid=9 oldcomm=p newcomm=kid oom_score_adj=0",
        "kid-9 [000] d... 1.000009: sched_switch: prev_comm=kid prev_pid=9 prev_prio=120 prev_state=X ==> next_comm=p next_pid=5 next_prio=120",
        "p-5 [000] d... 1.000020: sched_switch: prev_comm=p prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=q next_pid=9 next_prio=120",
    ]);
    let names: Vec<_> = imported.cast.tasks.iter().map(|t| (t.name.as_str(), t.tid)).collect();
    assert_eq!(names, [("p", 5), ("kid", 9), ("q", 9)], "{names:?}");
    let forks = heard.events.iter().filter(|e| matches!(e.kind, EventKind::Forked { .. })).count();
    assert_eq!(forks, 1, "two tracepoints tell of one fork");
}

#[test]
fn lines_are_sorted_and_those_too_late_are_lost() {
    let line = |us: u64, cpu: u32| {
        let s = us as f64 / 1e6;
        format!("x-{0} [{cpu:03}] d... {s:.6}: sched_process_exit: comm=x pid={0} prio=120\n", cpu + 1)
    };
    let (heard, imported) = hear(&[line(20, 0), line(10, 1), line(30, 0)].concat());
    let times: Vec<u64> = heard.events.iter().map(|e| e.at.0).collect();
    assert_eq!(times, [0, 10_000, 20_000]);
    assert_eq!(imported.losses, Default::default());

    // A CPU's own time steps back by 2 ms: the record is left out, and the CPU's next record reports a loss.
    let (heard, imported) = hear(&[line(5_000, 0), line(3_000, 0), line(6_000, 0)].concat());
    assert_eq!((imported.losses.late, imported.losses.backwards), (1, Ns::ms(2)));
    let kinds: Vec<_> = heard.events.iter().map(|e| matches!(e.kind, EventKind::Lost { count: 1 })).collect();
    assert_eq!(kinds, [false, true, false]);
}

#[test]
fn times_continue_when_the_clock_restarts() {
    let line = |ms: u64| {
        format!(
            "x-1 [000] d... {}.{:03}000: sched_process_exit: comm=x pid=1 prio=120\n",
            ms / 1000,
            ms % 1000
        )
    };
    let one: String = (500_000..506_000).map(line).collect();
    let other: String = (1_000..7_000).map(line).collect();
    let (heard, imported) = hear(&(one + &other));
    assert_eq!((imported.losses.restarts, imported.losses.late), (1, 1023));
    assert!(heard.events.is_sorted_by_key(|e| e.at));
    // 5,999 ms of the first part, and those of the second part after the records that showed the restart.
    assert_eq!(imported.cast.end, Ns::ms(5_999 + 6_000 - 1024));
}

#[test]
fn lost_events_are_reported_before_the_next_record_of_their_cpu() {
    let (heard, imported) = hear_lines(&[
        "x-1 [003] d... 1.000000: sched_process_exit: comm=x pid=1 prio=120",
        "CPU:3 [LOST 12 EVENTS]",
        "x-1 [002] d... 1.000001: sched_process_exit: comm=x pid=1 prio=120",
        "x-1 [003] d... 1.000002: sched_process_exit: comm=x pid=1 prio=120",
    ]);
    assert_eq!((imported.losses.events, imported.losses.places), (12, 1));
    assert_eq!(heard.events[2], event(2, 3, EventKind::Lost { count: 12 }));
    assert_eq!(heard.events.len(), 4);
}

#[test]
fn a_buffer_that_begins_late_is_no_loss() {
    let (heard, imported) = hear_lines(&[
        "x-1 [000] d... 1.000000: sched_process_exit: comm=x pid=1 prio=120",
        "##### CPU 1 buffer started ####",
        "x-1 [001] d... 1.000001: sched_process_exit: comm=x pid=1 prio=120",
    ]);
    assert_eq!((imported.losses, imported.records), (Default::default(), 2));
    assert_eq!(heard.events[1], event(1, 1, EventKind::Lost { count: 0 }));
}

#[test]
fn a_time_beyond_the_longest_recording_is_damaged() {
    // Found by fuzzing perf.data: the idle times of two CPUs until then add up to more than 64 bits.
    let line = |cpu: u32, seconds: u64| {
        format!("x-1 [{cpu:03}] d... {seconds}.000000: sched_process_exit: comm=x pid=1 prio=120\n")
    };
    let (_, imported) = hear(&[line(0, 1), line(1, 1), line(0, 18_000_000_000), line(0, 3)].concat());
    assert_eq!((imported.losses.unreadable, imported.cast.end), (1, Ns::secs(2)));
    // If the first time is damaged, the others continue from it.
    let later: String = (0..2_000).map(|n| line(0, 9_000_000_000 + n)).collect();
    let (heard, imported) = hear(&(line(0, 1) + &later));
    assert_eq!((imported.losses.restarts, imported.losses.unreadable), (1, 1023));
    assert_eq!((imported.cast.end, heard.events.is_sorted_by_key(|e| e.at)), (Ns::secs(2_000 - 1_024), true));
}

#[test]
fn a_last_line_without_a_newline_counts_if_it_is_complete() {
    let first = "a-5 [000] d... 1.000000: sched_switch: prev_comm=a prev_pid=5 prev_prio=120 prev_state=S ==> next_comm=b next_pid=6 next_prio=120\n";
    let last = "b-6 [000] d... 1.000009: sched_switch: prev_comm=b prev_pid=6 prev_prio=120 prev_state=S ==> next_comm=a next_pid=5 next_prio=120";
    for (missing, records, cut) in [(0, 2, false), (1, 1, true), (2, 1, true), (30, 1, true), (115, 1, true)]
    {
        let text = format!("# tracer: nop\n{first}{}", &last[..last.len() - missing]);
        let (_, imported) = hear(&text);
        assert_eq!((imported.records, imported.losses.cut), (records, cut), "without {missing} bytes");
        assert_eq!(imported.losses.unreadable, 0, "without {missing} bytes");
    }
    let moved = "b-6 [000] d... 1.000009: sched_migrate_task: comm=b pid=6 prio=120 orig_cpu=0 dest_cpu=1";
    assert!(hear(&format!("{first}{moved}")).1.losses.cut, "it may have been CPU 12");
    assert!(!hear(&format!("{first}# a comment")).1.losses.cut);
}

#[test]
fn a_number_that_is_given_again_before_its_first_task_ran_is_another_task() {
    let fork = |at: &str, parent: u32| {
        format!(
            "p-{parent} [000] d... {at}: sched_process_fork: comm=p pid={parent} child_comm=p child_pid=9\n"
        )
    };
    for (text, forks) in [
        (fork("1.000000", 5) + &fork("1.000001", 5), 1),
        (fork("1.000000", 5) + &fork("1.000001", 6), 2),
        (fork("1.000000", 5) + &fork("9.000000", 5), 2),
    ] {
        let (heard, _) = hear(&text);
        let told = heard.events.iter().filter(|e| matches!(e.kind, EventKind::Forked { .. })).count();
        assert_eq!(told, forks, "{text}");
    }
}

#[test]
fn each_part_of_a_recording_has_its_own_fingerprint() {
    let switch = |at: &str| {
        format!(
            "a-5 [000] d... {at}: sched_switch: prev_comm=a prev_pid=5 prev_prio=120 prev_state=R ==> next_comm=a next_pid=6 next_prio=120\n"
        )
    };
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), switch("1.000000") + &switch("9.000000")).unwrap();
    let recording = Recording { path: PathBuf::from(file.path()), form: None, kernel: None, hashed: true };
    let of = |ms: u64| {
        let part = Window { from: Ns::ZERO, until: Ns::ms(ms) };
        read_part(&recording, part, true, &mut Heard::default()).unwrap().fingerprint & ((1 << 48) - 1)
    };
    let all: std::collections::BTreeSet<u64> = (1_000..2_000).map(of).collect();
    assert_eq!(all.len(), 1_000);
}
