//! A small text, complete.

use super::Text;
use crate::{Actor, Cast, Event, EventKind, PlaceReason, Sink, SwitchReason};
use schedlab_base::{CpuId, Ns, TaskId};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);

fn text(plain: bool) -> String {
    let actor = |name: &str, tid, prio| Actor {
        name: name.to_owned(),
        tid,
        process: 1000,
        background: false,
        prio,
        group: None,
    };
    let tasks = vec![actor("worker/0", 1000, 120), actor("name with [x] - 1", 1001, 130)];
    let cast = Cast { tasks, cpus: 2, release: "v6.12".into(), end: Ns(3_000_000_000) };
    let mut text = Text::new(Vec::new(), &cast);
    if plain {
        text = text.without_marks();
    }
    use EventKind as K;
    let mut tell = |at, cpu, kind| text.event(&Event { at: Ns(at), cpu: CpuId(cpu), kind });
    tell(0, 0, K::Forked { task: A, parent: None });
    tell(0, 0, K::Enqueued { task: A, nr_running: 1, new: true });
    tell(1_500, 0, K::IdleExit { exit_ns: 10 });
    tell(1_700, 0, K::Switch { prev: None, next: Some(A), why: SwitchReason::FromIdle });
    tell(2_000, 0, K::Forked { task: B, parent: Some(A) });
    tell(2_100, 1, K::Enqueued { task: B, nr_running: 1, new: true });
    tell(2_345, 1, K::Switch { prev: None, next: Some(B), why: SwitchReason::FromIdle });
    tell(2_999, 1, K::Switch { prev: Some(B), next: None, why: SwitchReason::Blocked });
    tell(3_000, 1, K::IdleEnter { state: 2 });
    tell(1_000_000_007, 0, K::Waking { task: B, waker: None });
    tell(
        1_000_000_100,
        0,
        K::Placed { task: B, target: CpuId(0), reason: PlaceReason::TargetBusy, probes: 1 },
    );
    tell(1_000_000_200, 0, K::Migrate { task: B, from: CpuId(1), why: crate::MoveReason::Wakeup });
    tell(1_000_000_300, 0, K::Enqueued { task: B, nr_running: 2, new: false });
    tell(1_000_000_900, 0, K::Switch { prev: Some(A), next: Some(B), why: SwitchReason::WakeupPreempt });
    tell(2_000_000_000, 0, K::Exited { task: B });
    String::from_utf8(text.finish().unwrap()).unwrap()
}

#[test]
fn a_text_is_as_ftrace_writes_it() {
    insta::assert_snapshot!(text(false));
}

#[test]
fn a_plain_text_has_the_kernel_s_lines_only() {
    let (all, plain) = (text(false), text(true));
    let kept: Vec<&str> = all.lines().filter(|l| !l.contains("tracing_mark_write")).collect();
    assert_eq!(plain.lines().collect::<Vec<_>>(), kept);
    assert_eq!(all.lines().count() - kept.len(), 2);
}

#[test]
fn a_loss_is_written_as_in_ftrace() {
    let cast = Cast { tasks: Vec::new(), cpus: 2, release: "v6.12".into(), end: Ns(9) };
    let mut text = Text::new(Vec::new(), &cast);
    text.event(&Event { at: Ns(5), cpu: CpuId(1), kind: EventKind::Lost { count: 7 } });
    let text = String::from_utf8(text.finish().unwrap()).unwrap();
    assert!(text.lines().any(|l| l == "CPU:1 [LOST 7 EVENTS]"), "{text}");
}

#[test]
fn names_stay_in_their_line() {
    let actor =
        Actor { name: "a\nb".to_owned(), tid: 7, process: 7, background: false, prio: 120, group: None };
    let cast = Cast { tasks: vec![actor], cpus: 1, ..Cast::default() };
    let mut text = Text::new(Vec::new(), &cast);
    let kind = EventKind::Switch { prev: Some(A), next: None, why: SwitchReason::Blocked };
    text.event(&Event { at: Ns(5), cpu: CpuId(0), kind });
    let text = String::from_utf8(text.finish().unwrap()).unwrap();
    assert!(text.lines().last().unwrap().contains("prev_comm=a\\u000ab prev_pid=7"), "{text}");
}

/// The lines of a text with these events on CPU 1, without the header.
fn lines_of(kinds: &[EventKind]) -> Vec<String> {
    let cast = Cast { cpus: 2, ..Cast::default() };
    let mut text = Text::new(Vec::new(), &cast);
    for &kind in kinds {
        text.event(&Event { at: Ns(12_000_000_345), cpu: CpuId(1), kind });
    }
    let text = String::from_utf8(text.finish().unwrap()).unwrap();
    text.lines().filter(|l| !l.starts_with('#')).map(str::to_owned).collect()
}

#[test]
fn reasons_of_the_balancer_have_their_numbers() {
    use crate::{BalanceReason, BalanceTrigger, KickReason, SkipReason};
    let balance = |src, moved| EventKind::Balance {
        level: 2,
        trigger: BalanceTrigger::Nohz,
        why: BalanceReason::Moved,
        moved,
        visited: 104,
        took_ns: u32::MAX,
        src,
    };
    let lines = lines_of(&[
        balance(Some(CpuId(1023)), 65_535),
        balance(None, 0),
        EventKind::Skip { level: 10, why: SkipReason::ShortIdle, have_ns: 1, need_ns: 2 },
        EventKind::Kick { why: KickReason::TwoTasks, to: None },
    ]);
    let begin = "          <idle>-0       [001] .....    12.000000345: tracing_mark_write: ";
    let said = [
        "nohz balance at level 2: moved, moved 65535 from cpu 1023, read 104 cpus in 4294967295 ns",
        "nohz balance at level 2: moved, moved 0, read 104 cpus in 4294967295 ns",
        "no balance at level 10: short_idle",
        "kick: two_tasks",
    ];
    assert_eq!(lines, said.map(|said| format!("{begin}{said}")));
}

#[test]
fn a_text_of_many_blocks_is_whole_and_its_blocks_end_with_lines() {
    struct Blocks(Vec<Vec<u8>>);
    impl std::io::Write for Blocks {
        fn write(&mut self, block: &[u8]) -> std::io::Result<usize> {
            self.0.push(block.to_vec());
            Ok(block.len())
        }
        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let cast = Cast { cpus: 2, ..Cast::default() };
    let mut text = Text::new(Blocks(Vec::new()), &cast);
    for at in 0..5000 {
        text.event(&Event { at: Ns(at), cpu: CpuId(0), kind: EventKind::IdleEnter { state: 1 } });
    }
    let blocks = text.finish().unwrap().0;
    assert!((2..20).contains(&blocks.len()), "{}", blocks.len());
    assert!(blocks.iter().all(|block| block.ends_with(b"\n")));
    let text = String::from_utf8(blocks.concat()).unwrap();
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("cpu_idle: state=1 cpu_id=0")).collect();
    assert_eq!(lines.len(), 5000);
    assert!(lines.iter().enumerate().all(|(at, line)| line.contains(&format!(" 0.{at:09}: "))));
}

#[test]
fn a_failure_to_write_is_reported_at_the_end() {
    let cast = Cast::default();
    for events in [0, 5000] {
        let mut text = Text::new(std::fs::File::options().write(true).open("/dev/full").unwrap(), &cast);
        for at in 0..events {
            text.event(&Event { at: Ns(at), cpu: CpuId(0), kind: EventKind::IdleEnter { state: 1 } });
        }
        assert_eq!(text.finish().err().map(|e| e.kind()), Some(std::io::ErrorKind::StorageFull));
    }
}
