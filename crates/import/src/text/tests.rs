use super::*;
use crate::sched_record::SchedRecord;
use schedlab_trace::SwitchReason;

fn read(text: &[u8]) -> SchedRecord {
    match line(text, &mut States::default()) {
        Line::Record(told) => told,
        other => panic!("{other:?}: {}", String::from_utf8_lossy(text)),
    }
}

fn thread(comm: &[u8], tid: u32, prio: Option<i32>) -> Thread {
    Thread { tid, comm: Comm::of(comm), prio }
}

#[test]
fn heads_of_all_tools_are_read_alike() {
    let body = "sched_waking: comm=mine pid=7 prio=120 target_cpu=003";
    for (head, process, at_ns, in_interrupt) in [
        ("            bash-1234    [003] d..2.  12.345678: ", 0, 12_345_678_000, false),
        ("  bash-1234  (   1200) [003] d.h2.  12.345678: ", 1200, 12_345_678_000, true),
        ("  bash-1234  (-------) [003] d.s2.  12.345678: ", 0, 12_345_678_000, true),
        ("  bash-1234  [003] 12.345678901: ", 0, 12_345_678_901, false),
        ("  bash-1234  [003] dNZ3..1 12.3456789012: ", 0, 12_345_678_901, true),
        ("            bash  1234 [003]    12.345678:       sched:", 0, 12_345_678_000, false),
        ("            bash  1200/1234  [003]    12.345678:   sched:", 1200, 12_345_678_000, false),
        ("  bash 1234 [003] 12.345678901:          1 sched:", 0, 12_345_678_901, false),
    ] {
        let text = format!("{head}{body}");
        let told = read(text.as_bytes());
        assert_eq!((told.cpu, told.current, told.process, told.at_ns), (3, 1234, process, at_ns), "{text}");
        let waker = if in_interrupt { bare(0) } else { thread(b"bash", 1234, None) };
        let want = RecordKind::Waking { thread: thread(b"mine", 7, Some(120)), waker, cpu: 3 };
        assert_eq!(told.what, want, "{text}");
    }
    assert_eq!(is_perf(b" bash  12 [003] 1.5: sched:sched_switch: x"), Some(true));
    assert_eq!(is_perf(b" bash-12 [003] 1.5: sched_switch: x"), Some(false));
    assert_eq!(is_perf(b"# tracer: nop"), None);
}

#[test]
fn names_may_hold_whatever_stands_between_fields() {
    let names: [&[u8]; 7] =
        [b"a b", b"x-1 [000] ", b"[002] 1.5: q", b"==> ", b" prev_pid=9", b"k:0 [1] S", b"\xff\xfe\x80"];
    for name in names {
        let head = [b"  ", name, b"-77 [001] d..2. 3.000001: sched_switch: prev_comm="].concat();
        let text =
            [&head[..], name, b" prev_pid=77 prev_prio=120 prev_state=S ==> next_comm=", name].concat();
        let told = read(&[&text[..], b" next_pid=78 next_prio=98"].concat());
        let shown = String::from_utf8_lossy(name);
        let want = RecordKind::Switch {
            prev: thread(name, 77, Some(120)),
            next: thread(name, 78, Some(98)),
            why: SwitchReason::Blocked,
        };
        // A name that looks like the head of another record is taken for one; only the current thread is wrong then.
        assert_eq!((told.what, told.cpu), (want, 1), "{shown}");
    }
}

#[test]
fn the_state_gives_the_reason_why_a_stay_ended() {
    use SwitchReason::{Blocked, Exited, FromIdle, Preempted};
    for (pid, state, why) in [
        (7, "R", Preempted),
        (7, "R+", Preempted),
        (7, "S+", Preempted),
        (7, "S", Blocked),
        (7, "D|K", Blocked),
        (7, "I", Blocked),
        (7, "P", Blocked),
        (7, "X", Exited),
        (7, "x", Exited),
        (7, "Z", Exited),
        (7, "0x100", Preempted),
        (7, "0x10", Exited),
        (7, "130", Blocked),
        (0, "R", FromIdle),
    ] {
        let kernel = format!(
            "a-{pid} [000] 1.5: sched_switch: prev_comm=a prev_pid={pid} prev_prio=120 prev_state={state} ==> next_comm=b \
             next_pid=9 next_prio=120"
        );
        let plugin = format!("a-{pid} [000] 1.5: sched_switch: a:{pid} [120] {state} ==> b:9 [120]");
        let want =
            RecordKind::Switch { prev: thread(b"a", pid, Some(120)), next: thread(b"b", 9, Some(120)), why };
        assert_eq!(read(kernel.as_bytes()).what, want, "{state}");
        assert_eq!(read(plugin.as_bytes()).what, want, "{state}");
    }
}

#[test]
fn raw_fields_and_the_words_of_the_first_kernels_are_read() {
    use SwitchReason::{Blocked, Exited, Preempted};
    let read_by = |text: &str, release: &str| {
        let line_of = format!("a-7 [001] d... 1.000000: {text}");
        match line(line_of.as_bytes(), &mut States::of_release(release)) {
            Line::Record(told) => told.what,
            other => panic!("{other:?}: {line_of}"),
        }
    };
    let want = |prio, why| RecordKind::Switch {
        prev: thread(b"a", 7, Some(prio)),
        next: thread(b"b c", 9, Some(120)),
        why,
    };
    for (state, release, why) in [
        ("0", "", Preempted),
        ("1", "", Blocked),
        ("0x1", "", Blocked),
        ("256", "6.1", Preempted),
        ("0x100", "6.1", Preempted),
        ("32", "6.1", Exited),
        ("64", "4.9", Exited),
        ("64", "6.1", Blocked),
        ("1024", "3.10", Preempted),
        ("4096", "", Preempted),
    ] {
        let raw = format!(
            "sched_switch:          prev_comm=a prev_pid=7 prev_prio=-1 prev_state={state} next_comm=b c next_pid=9 next_prio=120"
        );
        assert_eq!(read_by(&raw, release), want(-1, why), "{state} of '{release}'");
    }
    let first = "sched_switch: task a:7 [120] (S) ==> b c:9 [120]";
    assert_eq!(read_by(first, "2.6.31"), want(120, Blocked));
    let seven = thread(b"mine", 7, Some(120));
    let waker = thread(b"a", 7, None);
    for text in [
        "sched_wakeup:          comm=mine pid=7 prio=120 target_cpu=3",
        "sched_wakeup: comm=mine pid=0x7 prio=0x78 success=1 target_cpu= 3",
        "sched_wakeup: task mine:7 [120] success=1 [003]",
    ] {
        assert_eq!(
            read_by(text, ""),
            RecordKind::Queued { thread: seven, waker, cpu: 3, new: false },
            "{text}"
        );
    }
    let fork = "sched_process_fork:    parent_comm=mine parent_pid=7 child_comm=kid child_pid=8";
    let (parent, child) = (thread(b"mine", 7, None), thread(b"kid", 8, None));
    assert_eq!(read_by(fork, ""), RecordKind::Fork { parent, child, own_process: None });
    // Bits that only older kernels have show how to read later records.
    let mut states = States::default();
    let of = |bits: u32| {
        format!(
            "a-7 [0] 1.0: sched_switch: prev_comm=a prev_pid=7 prev_prio=1 prev_state={bits} next_comm=b next_pid=9 next_prio=1"
        )
    };
    for (bits, why) in [(64, Blocked), (2048, Preempted), (64, Exited)] {
        let Line::Record(told) = line(of(bits).as_bytes(), &mut states) else { panic!("{bits}") };
        assert!(matches!(told.what, RecordKind::Switch { why: is, .. } if is == why), "{bits}");
    }
}

#[test]
fn text_of_other_tools_is_named_with_the_remedy() {
    let heading = b"           time    cpu  task name                       wait time  sch delay   run time";
    let e = tools::that_printed(heading).expect("it is known").error();
    assert!(e.message().contains("perf sched timehist"), "{e}");
    assert!(tools::that_printed(b"# tracer: nop").is_none());
}

#[test]
fn every_event_is_read_as_the_kernel_or_a_plugin_prints_it() {
    let seven = thread(b"mine", 7, Some(120));
    let bare_seven = thread(b"mine", 7, None);
    let child = thread(b"kid", 8, None);
    for (text, want) in [
        (
            "sched_wakeup: comm=mine pid=7 prio=120 target_cpu=011",
            RecordKind::Queued { thread: seven, waker: bare_seven, cpu: 11, new: false },
        ),
        (
            "sched_wakeup: comm=mine pid=7 prio=120 success=1 target_cpu=002",
            RecordKind::Queued { thread: seven, waker: bare_seven, cpu: 2, new: false },
        ),
        (
            "sched_wakeup_new: mine:7 [120] success=1 CPU:002",
            RecordKind::Queued { thread: seven, waker: bare_seven, cpu: 2, new: true },
        ),
        (
            "sched_wakeup:         mine:7 [120] CPU:4095",
            RecordKind::Queued { thread: seven, waker: bare_seven, cpu: 4095, new: false },
        ),
        (
            "sched_migrate_task: comm=mine pid=7 prio=120 orig_cpu=1 dest_cpu=3",
            RecordKind::Migrate { thread: seven, from: 1, to: 3 },
        ),
        (
            "sched_process_fork: comm=mine pid=7 child_comm=kid child_pid=8",
            RecordKind::Fork { parent: bare_seven, child, own_process: None },
        ),
        ("sched_process_exit: comm=mine pid=7 prio=120 group_dead=true", RecordKind::Exit { thread: seven }),
        (
            "task_newtask: pid=8 comm=kid clone_flags=3d0f00 oom_score_adj=0",
            RecordKind::Fork { parent: bare_seven, child, own_process: Some(false) },
        ),
        (
            "task_newtask: pid=8 comm=kid clone_flags=0x1200000 oom_score_adj=0",
            RecordKind::Fork { parent: bare_seven, child, own_process: Some(true) },
        ),
        ("task_rename: pid=8 oldcomm=mine newcomm=kid oom_score_adj=0", RecordKind::Rename { thread: child }),
        (
            "sched_migrate_task: comm=mine pid=7 prio=-1 orig_cpu=1 dest_cpu=3",
            RecordKind::Migrate { thread: Thread { prio: Some(-1), ..seven }, from: 1, to: 3 },
        ),
    ] {
        let text = format!("mine-7 [001] d... 1.000000: {text}");
        assert_eq!(read(text.as_bytes()).what, want, "{text}");
    }
    let vain = b"mine-7 [001] 1.0: sched_wakeup: comm=mine pid=7 prio=120 success=0 target_cpu=002";
    assert_eq!(line(vain, &mut States::default()), Line::Other);
}

#[test]
fn lines_that_are_not_records_are_distinguished() {
    for (text, want) in [
        ("CPU:3 [LOST 123 EVENTS]", Line::Lost { cpu: 3, count: 123 }),
        ("CPU:3 [LOST EVENTS]", Line::Lost { cpu: 3, count: 1 }),
        ("CPU:12 [77 EVENTS DROPPED]", Line::Lost { cpu: 12, count: 77 }),
        ("##### CPU 2 buffer started ####", Line::Lost { cpu: 2, count: 0 }),
        ("swapper 0 [003] 9.5: PERF_RECORD_LOST lost 41", Line::Lost { cpu: 3, count: 41 }),
        ("CPU:4096 [LOST 1 EVENTS]", Line::Foreign),
        ("# tracer: nop", Line::Foreign),
        ("        ffffffff81234567 schedule+0x12 ([kernel.kallsyms])", Line::Foreign),
        ("", Line::Foreign),
        ("mine-7 [001] 1.0: irq_handler_entry: irq=4", Line::Other),
        ("mine-7 [001] 1.0: sched_switch: prev_comm=a prev_pid=", Line::Unreadable),
        (
            "mine-7 [001] 1.0: sched_switch: prev_comm=a prev_pid=99999999 prev_prio=1 prev_state=S ==> next_comm=b next_pid=1 next_prio=1",
            Line::Unreadable,
        ),
        ("mine-7 [4096] 1.0: sched_switch: x", Line::Unreadable),
        ("mine-7 [001] 99999999999999999999.0: sched_switch: x", Line::Foreign),
    ] {
        assert_eq!(line(text.as_bytes(), &mut States::default()), want, "{text}");
    }
}

#[test]
fn headings_give_kernel_cpus_and_overwritten_events() {
    let mut told = Headings::default();
    for text in ["# entries-in-buffer/entries-written: 140/250   #P:4", "# os release : 6.1.192", "noise"] {
        told.read(text.as_bytes());
    }
    assert_eq!(
        told,
        Headings { release: Some("6.1.192".into()), cpus: Some(4), overwritten: 110, ..Headings::default() }
    );
}

#[test]
fn long_lines_and_a_missing_end_do_no_harm() {
    let long = "x".repeat(3 << 20);
    let text = format!("one\r\n{long}\ntwo\nlast");
    let mut lines = Lines::new(text.as_bytes());
    let mut seen = Vec::new();
    while let Some(line) = lines.next_line().unwrap() {
        seen.push(String::from_utf8_lossy(line).into_owned());
    }
    assert_eq!(seen, ["one", "two", "last"]);
    assert!(lines.cut);
}

#[test]
fn a_cpu_beyond_the_last_is_not_ignored() {
    let of = |cpu: u64, event: &str| {
        line(format!("mine-7 [{cpu}] 1.0: {event}").as_bytes(), &mut States::default())
    };
    let wakeup = "sched_wakeup: comm=mine pid=7 prio=120 target_cpu=002";
    assert!(matches!(of(4095, wakeup), Line::Record(told) if told.cpu == 4095));
    assert_eq!(of(4096, wakeup), Line::Unreadable);
    assert_eq!(of(4096, "irq_handler_entry: irq=4"), Line::Other);
    assert_eq!(of(4096, "PERF_RECORD_LOST lost 41"), Line::Foreign);
    assert_eq!(of(1 << 32, wakeup), Line::Foreign);
}
