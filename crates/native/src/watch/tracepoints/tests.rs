//! Formats of two kernels, their records and translation; and a recording on this machine, if allowed.

use super::layout::NAMES;
use super::translate::Audience;
use super::*;
use schedlab_base::CpuSet;
use schedlab_base::testing::skipped;
use schedlab_import::binary::format::Format;
use schedlab_trace::{Event, EventKind, Keep, MoveReason, Sink, SwitchReason};

const COMMON: &str = "\tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;
\tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;
\tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;
\tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;

";

/// A tracepoint's format file; its own fields are 'declaration @offset +size', with commas between them.
fn file(name: &str, id: u16, fields: &str) -> String {
    let own = fields.split(", ").map(|field| {
        let (declared, place) = field.split_once(" @").unwrap();
        let (offset, size) = place.split_once(" +").unwrap();
        format!("\tfield:{declared};\toffset:{offset};\tsize:{size};\tsigned:1;\n")
    });
    format!("name: {name}\nID: {id}\nformat:\n{COMMON}{}\nprint fmt: \"field:x\"\n", own.collect::<String>())
}

/// All formats: names inline as in 6.1, or partly elsewhere as in 6.18.
fn formats(elsewhere: bool) -> [Format; NAMES.len()] {
    const WOKEN: &str = "char comm[16] @8 +16, pid_t pid @24 +4, int prio @28 +4, int target_cpu @32 +4";
    let of = |inline, data_loc| if elsewhere { data_loc } else { inline };
    let fields = [
        "char prev_comm[16] @8 +16, pid_t prev_pid @24 +4, int prev_prio @28 +4, long prev_state @32 +8, \
         char next_comm[16] @40 +16, pid_t next_pid @56 +4, int next_prio @60 +4",
        WOKEN,
        WOKEN,
        WOKEN,
        of(
            "char comm[16] @8 +16, pid_t pid @24 +4, int orig_cpu @32 +4, int dest_cpu @36 +4",
            "__data_loc char[] comm @8 +4, pid_t pid @12 +4, int orig_cpu @20 +4, int dest_cpu @24 +4",
        ),
        of(
            "char parent_comm[16] @8 +16, pid_t parent_pid @24 +4, pid_t child_pid @44 +4",
            "pid_t parent_pid @12 +4, __data_loc char[] child_comm @16 +4, pid_t child_pid @20 +4",
        ),
        "char comm[16] @8 +16, pid_t pid @24 +4, int prio @28 +4, bool group_dead @32 +1",
    ];
    std::array::from_fn(|at| Format::parse(NAMES[at], &file(NAMES[at], 300 + at as u16, fields[at])).unwrap())
}

pub(super) fn layouts() -> Layouts {
    Layouts::of(&formats(true)).unwrap()
}

/// A record's bytes: kind, flags, the running thread, then 32-bit numbers at offsets.
pub(super) fn bytes(kind: u16, flags: u8, current: u32, numbers: &[(usize, u32)]) -> Vec<u8> {
    let mut record = vec![0; 64];
    record[..2].copy_from_slice(&kind.to_ne_bytes());
    record[2] = flags;
    record[4..8].copy_from_slice(&current.to_ne_bytes());
    for (offset, n) in numbers {
        record[*offset..offset + 4].copy_from_slice(&n.to_ne_bytes());
    }
    record
}

#[test]
fn fields_are_found_by_name_wherever_a_kernel_puts_them() {
    let moved = |numbers: &[(usize, u32)], elsewhere| {
        Layouts::of(&formats(elsewhere)).unwrap().read(&bytes(304, 0, 1, numbers))
    };
    let want = Some(TracepointKind::Migrate { thread: 70, from: 2, to: 5 });
    assert_eq!(moved(&[(24, 70), (32, 2), (36, 5)], false), want);
    assert_eq!(moved(&[(12, 70), (20, 2), (24, 5)], true), want);
    let made = |numbers: &[(usize, u32)], elsewhere| {
        Layouts::of(&formats(elsewhere)).unwrap().read(&bytes(305, 0, 1, numbers))
    };
    let want = Some(TracepointKind::Fork { parent: 9, child: 10 });
    assert_eq!((made(&[(24, 9), (44, 10)], false), made(&[(12, 9), (20, 10)], true)), (want, want));
}

#[test]
fn a_format_that_lacks_something_is_named() {
    let e = Format::parse("sched_x", "name: sched_x\nformat:\n").err().unwrap();
    assert!(e.to_string().contains("sched_x has no number"), "{e}");
    let broken = "ID: 7\nformat:\n\tfield:int a;\toffset:x;\tsize:4;\tsigned:1;\n";
    assert!(Format::parse("sched_x", broken).err().unwrap().to_string().contains("can't be read"));
    let format = Format::parse("sched_x", &file("sched_x", 7, "char comm[16] @8 +16")).unwrap();
    assert_eq!(format.id, 7);
    let text = |name: &str| format.number(name).unwrap_err().to_string();
    assert!(text("pid").contains("field pid of tracepoint sched_x is not there"), "{}", text("pid"));
    assert!(text("comm").contains("16 bytes"), "{}", text("comm"));
}

#[test]
fn records_have_both_threads_of_a_switch_and_the_reason() {
    let l = layouts();
    let switch = |prev: u32, state: u32| l.read(&bytes(300, 0, prev, &[(24, prev), (32, state), (56, 8)]));
    let left = |prev, why| Some(TracepointKind::Switch { prev, next: 8, why });
    use SwitchReason as S;
    for (state, why) in [
        (0, S::Preempted),
        (0x100, S::Preempted),
        (1, S::Blocked),
        (2, S::Blocked),
        (0x80, S::Blocked),
        (0x10, S::Exited),
        (0x20, S::Exited),
    ] {
        assert_eq!(switch(7, state), left(7, why), "{state:#x}");
    }
    assert_eq!(switch(0, 0), left(0, S::FromIdle));
}

#[test]
fn records_have_the_waker_unless_it_is_an_interrupt() {
    let l = layouts();
    let waking = |flags| l.read(&bytes(301, flags, 12, &[(24, 40), (32, 3)]));
    assert_eq!(
        waking(0x21),
        Some(TracepointKind::Waking { thread: 40, waker: 12 }),
        "interrupts are off, no more"
    );
    for flags in [0x09, 0x10] {
        assert_eq!(waking(flags), Some(TracepointKind::Waking { thread: 40, waker: 0 }));
    }
    let queued = |kind| l.read(&bytes(kind, 0, 12, &[(24, 40), (32, 3)]));
    assert_eq!(queued(302), Some(TracepointKind::Queued { thread: 40, cpu: 3, new: false }));
    assert_eq!(queued(303), Some(TracepointKind::Queued { thread: 40, cpu: 3, new: true }));
    assert_eq!(queued(306), Some(TracepointKind::Exit { thread: 40 }));
    assert_eq!((queued(299), l.read(&[44])), (None, None), "another's, and one cut short");
}

#[test]
fn a_sample_is_thread_time_and_bytes() {
    let mut sample = Vec::new();
    for n in [100u32, 101] {
        sample.extend(n.to_ne_bytes());
    }
    sample.extend(5_000u64.to_ne_bytes());
    sample.extend(4u32.to_ne_bytes());
    sample.extend([1, 2, 3, 4, 0, 0, 0, 0]);
    assert_eq!(ring::sample(&sample), Some((101, 5_000, &[1u8, 2, 3, 4][..])));
    sample.truncate(22);
    assert_eq!(ring::sample(&sample), None);
    let lost: Vec<u8> = [3u64, 17].into_iter().flat_map(u64::to_ne_bytes).collect();
    assert_eq!((ring::lost(&lost), ring::lost(&[])), (17, 1));
}

/// Keeps the events, and the names of new tasks.
#[derive(Default)]
struct Heard {
    kept: Keep,
    met: Vec<(String, bool)>,
}

impl Sink for Heard {
    fn event(&mut self, event: &Event) {
        self.kept.event(event);
    }
}

impl Audience for Heard {
    fn meet(&mut self, task: TaskName) -> TaskId {
        self.met.push((task.name, task.background));
        TaskId::from(9 + self.met.len())
    }
}

fn translated(translator: &mut Translator, records: &[(u64, u32, TracepointKind)]) -> Heard {
    let mut heard = Heard::default();
    for (at_ns, cpu, what) in records {
        translator.translate(&TimedRecord { at_ns: *at_ns, cpu: *cpu, what: *what }, &mut heard);
    }
    heard
}

#[test]
fn threads_become_tasks_and_cpus_those_of_the_machine() {
    let cpus = [(1, CpuId(0)), (3, CpuId(1))].into();
    let mut t = Translator::new(1_000, cpus);
    t.workload = [(50, TaskId(0)), (51, TaskId(1))].into();
    t.makers = [40].into();
    t.names = [(60, b"kworker/0:1\0\0".to_vec())].into();
    use EventKind as E;
    let heard = translated(
        &mut t,
        &[
            (1_010, 1, TracepointKind::Fork { parent: 40, child: 51 }),
            (1_011, 1, TracepointKind::Migrate { thread: 51, from: 1, to: 3 }),
            (1_012, 1, TracepointKind::Queued { thread: 51, cpu: 3, new: true }),
            (1_020, 3, TracepointKind::Switch { prev: 0, next: 51, why: SwitchReason::FromIdle }),
            (1_030, 1, TracepointKind::Waking { thread: 50, waker: 60 }),
            (1_031, 1, TracepointKind::Migrate { thread: 50, from: 1, to: 3 }),
            (1_032, 3, TracepointKind::Queued { thread: 50, cpu: 3, new: false }),
            (1_040, 1, TracepointKind::Migrate { thread: 50, from: 3, to: 1 }),
            (1_050, 3, TracepointKind::Exit { thread: 51 }),
        ],
    );
    let (maker, worker, a, b) = (TaskId(10), TaskId(11), TaskId(0), TaskId(1));
    let event = |at, cpu, kind| Event { at: Ns(at), cpu: CpuId(cpu), kind };
    let moved = |task, from, why| E::Migrate { task, from: CpuId(from), why };
    let want = [
        event(10, 0, E::Forked { task: b, parent: Some(maker) }),
        event(11, 1, moved(b, 0, MoveReason::Fork)),
        event(12, 1, E::Enqueued { task: b, nr_running: 0, new: true }),
        event(20, 1, E::Switch { prev: None, next: Some(b), why: SwitchReason::FromIdle }),
        event(30, 0, E::Waking { task: a, waker: Some(worker) }),
        event(31, 1, moved(a, 0, MoveReason::Wakeup)),
        event(32, 1, E::Enqueued { task: a, nr_running: 0, new: false }),
        event(40, 0, moved(a, 1, MoveReason::Moved)),
        event(50, 1, E::Exited { task: b }),
    ];
    assert_eq!(heard.kept.events, want);
    assert_eq!(heard.met, [("thread 40".to_owned(), true), ("kworker/0:1".to_owned(), true)]);
}

#[test]
fn a_number_that_is_given_away_again_is_another_task() {
    let mut t = Translator::new(0, BTreeMap::new());
    t.workload = [(50, TaskId(0))].into();
    t.makers = [40].into();
    let heard = translated(
        &mut t,
        &[
            (1, 0, TracepointKind::Fork { parent: 40, child: 50 }),
            (2, 0, TracepointKind::Exit { thread: 50 }),
            (3, 0, TracepointKind::Fork { parent: 7, child: 50 }),
            (4, 0, TracepointKind::Exit { thread: 50 }),
        ],
    );
    let of = |e: &Event| match e.kind {
        EventKind::Forked { task, .. } | EventKind::Exited { task } => task.0,
        _ => panic!("{e:?}"),
    };
    assert_eq!(heard.kept.events.iter().map(of).collect::<Vec<_>>(), [0, 0, 12, 12]);
    let fork = |parent, child| TimedRecord { at_ns: 9, cpu: 0, what: TracepointKind::Fork { parent, child } };
    assert!(t.is_unknown_child(&fork(40, 99)) && !t.is_unknown_child(&fork(7, 99)));
}

#[test]
fn after_a_loss_distributions_stay_and_counts_go() {
    let analyser = || Analyser::new(1, Vec::new(), Vec::new(), Ns::ZERO);
    let whole = supported_findings(analyser().finish(Ns(10)), None);
    assert_eq!((whole.seen.counters["migrations.moved"], whole.unmeasured.len()), (0, 0));
    let cut = supported_findings(analyser().finish(Ns(10)), Some((12, Ns::ms(3))));
    assert!(
        cut.seen.counters.is_empty() && cut.seen.tasks.is_empty() && cut.seen.series.contains_key("slice")
    );
    assert!(
        cut.unmeasured["events"].contains("12 events were lost 3ms before the end"),
        "{:?}",
        cut.unmeasured
    );
    assert_eq!(cut.seen.warnings[0].code, "events.lost");
}

/// Two pinned threads wake each other through pipes, `rounds` times. Returns the findings and the number of sleeps.
fn ping_pong(rounds: u32, cpus: [u32; 2]) -> Option<(ObserverFindings, u64)> {
    use std::io::{Read, Write};
    let names = ["ping".to_owned(), "pong".to_owned()];
    let mut events = match Events::open(&names, sys::thread_id()) {
        Ok(events) => events,
        Err(e) => {
            // This machine can't record events; then the error has the reason and a remedy.
            assert!(e.remedy().is_some(), "{e}");
            skipped(format!("tracepoints: {e}"));
            return None;
        }
    };
    let (mut from_a, mut to_b) = std::io::pipe().unwrap();
    let (mut from_b, mut to_a) = std::io::pipe().unwrap();
    events.measure();
    let pin = |cpu: u32| sys::set_affinity(&CpuSet::parse(&cpu.to_string()).unwrap()).unwrap();
    let slept = || sys::thread_usage().voluntary;
    let (a, b) = std::thread::scope(|s| {
        let a = s.spawn(move || {
            pin(cpus[0]);
            for _ in 0..rounds {
                to_b.write_all(&[1]).unwrap();
                from_b.read_exact(&mut [0]).unwrap();
            }
            (sys::thread_id(), slept())
        });
        let b = s.spawn(move || {
            pin(cpus[1]);
            for _ in 0..rounds {
                from_a.read_exact(&mut [0]).unwrap();
                to_a.write_all(&[1]).unwrap();
            }
            (sys::thread_id(), slept())
        });
        (a.join().unwrap(), b.join().unwrap())
    });
    events.close(sys::monotonic_ns());
    Some((events.found(vec![(a.0, TaskId(0)), (b.0, TaskId(1))]), a.1 + b.1))
}

#[test]
fn rings_emptied_in_the_measured_time_are_reported() {
    let warned = |measured: bool| {
        let mut events = Events::open(&[], sys::thread_id()).ok()?;
        if measured {
            events.measure();
        }
        events.read(Vec::new);
        if !measured {
            events.measure();
        }
        events.close(sys::monotonic_ns());
        Some(events.found(Vec::new()).seen.warnings.iter().any(|w| w.code == "events.emptied"))
    };
    let Some(before) = warned(false) else { return skipped("tracepoints") };
    assert_eq!((before, warned(true)), (false, Some(true)));
}

#[test]
fn pinned_threads_sleep_as_often_as_the_kernel_counts_and_wake_where_they_were() {
    let cpu = sys::affinity().unwrap().iter().next().unwrap().0;
    let Some((found, slept)) = ping_pong(2_000, [cpu, cpu]) else { return };
    // A system task whose switches this kernel does not report is a gap (`trace.gaps`), not a loss.
    let lost = found.seen.warnings.iter().any(|w| w.code == "events.lost");
    assert!(found.unmeasured.is_empty() && !lost, "{found:?}");
    let n = |name: &str| found.seen.counters[name];
    // The threads do not count their own ends as sleeps.
    assert!(n("switches.voluntary").abs_diff(slept) <= 8, "{slept}: {:?}", found.seen.counters);
    // Each may have been moved once from the CPU on which it was started.
    assert!(n("woken") + 8 > slept && n("woken.prev") + 4 > n("woken"), "{:?}", found.seen.counters);
    assert_eq!(n("woken.idle") + n("woken.busy"), n("woken"));
    assert!(
        n("woken.busy") * 10 > n("woken") * 9,
        "each is woken by the one that runs: {:?}",
        found.seen.counters
    );
    let delays = &found.seen.series["wakeup_delay"];
    assert!(delays.count() + 8 > slept && delays.percentile(50.0).number().unwrap() < 5e6);
    let tasks = found.seen.tasks;
    assert_eq!(tasks.iter().map(|t| t.name.as_str()).collect::<Vec<_>>(), ["ping", "pong"]);
    // In each round each thread leaves the CPU once: to sleep, or because the woken thread preempts it before.
    assert!(tasks.iter().all(|t| t.cpu_time > Ns::ZERO && t.voluntary + t.involuntary > 1_900), "{tasks:?}");
    assert!(tasks.iter().map(|t| t.voluntary).sum::<u64>().abs_diff(slept) <= 8, "{slept}: {tasks:?}");
    assert!(
        found.seen.waits.iter().any(|w| w.waker.as_deref().is_some_and(|by| ["ping", "pong"].contains(&by))),
        "{:?}",
        found.seen.waits.first()
    );
}
