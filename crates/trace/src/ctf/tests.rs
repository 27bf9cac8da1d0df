//! A small hand-made run, read back byte by byte.

use super::*;
use crate::SwitchReason;

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);

fn cast() -> Cast {
    Cast::of_two(["a", "b"], "v6.5", 100)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

#[test]
fn a_stream_is_in_order_although_a_wakeup_has_waited() {
    use EventKind as K;
    let (folder, cast) = (tempfile::tempdir().unwrap(), cast());
    let mut ctf = Ctf::new(folder.path(), &cast).without_marks();
    let event = |at, cpu, kind| Event { at: Ns(at), cpu: CpuId(cpu), kind };
    let switch = |prev, next, why| K::Switch { prev, next, why };
    for e in [
        event(1, 0, switch(None, Some(A), SwitchReason::FromIdle)),
        event(2, 1, switch(None, Some(B), SwitchReason::FromIdle)),
        event(5, 1, K::Waking { task: A, waker: Some(B) }),
        event(9, 0, switch(Some(A), None, SwitchReason::Blocked)),
        event(9, 1, switch(Some(B), None, SwitchReason::Blocked)),
        event(30, 1, K::IdleEnter { state: 2 }),
    ] {
        ctf.event(&e);
    }
    ctf.finish().unwrap();
    let bytes = std::fs::read(folder.path().join("channel0_1")).unwrap();
    assert_eq!(number(&bytes, 8), 2, "begin");
    assert_eq!(number(&bytes, 16), 30, "end");
    assert_eq!((number(&bytes, 24), number(&bytes, 32)), (bytes.len() as u64 * 8, bytes.len() as u64 * 8));
    let switch = 2 + 8 + "swapper/1\0b\0".len() + 2 * 8 + 8;
    let waking = 2 + 8 + "a\0".len() + 3 * 4;
    let idle = 2 + 8 + 2 * 4;
    let at = [HEAD, HEAD + switch, HEAD + 2 * switch, HEAD + 2 * switch + waking];
    let told: Vec<(u8, u64)> = at.iter().map(|at| (bytes[*at], number(&bytes, at + 2))).collect();
    // The wakeup of A comes after A's switch on the other CPU, and so after B's switch at that time.
    let ids = [Id::Switch, Id::Switch, Id::Waking, Id::Idle].map(|id| id as u8);
    assert_eq!(told, [(ids[0], 2), (ids[1], 9), (ids[2], 10), (ids[3], 30)]);
    assert_eq!(bytes.len(), HEAD + 2 * switch + waking + idle);
    assert!(folder.path().join("metadata").exists());
}

#[test]
fn lost_events_are_counted_between_packets_and_failures_reported_at_the_end() {
    let (folder, cast) = (tempfile::tempdir().unwrap(), cast());
    let mut ctf = Ctf::new(folder.path(), &cast);
    let event = |at, kind| Event { at: Ns(at), cpu: CpuId(0), kind };
    ctf.event(&event(1, EventKind::IdleEnter { state: 1 }));
    ctf.event(&event(5, EventKind::Lost { count: 7 }));
    ctf.event(&event(6, EventKind::IdleExit { exit_ns: 0 }));
    ctf.finish().unwrap();
    let bytes = std::fs::read(folder.path().join("channel0_0")).unwrap();
    let first = number(&bytes, 24) as usize / 8;
    assert_eq!(u32::from_le_bytes(bytes[first..first + 4].try_into().unwrap()), MAGIC, "two packets");
    // The first packet ends where events are lost, so the second one has the count.
    assert_eq!((number(&bytes, 40), number(&bytes, first + 40)), (0, 7));
    let gone = folder.path().join("gone");
    assert!(Ctf::new(&gone, &cast).finish().is_err());
}
