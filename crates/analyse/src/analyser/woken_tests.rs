//! Where woken tasks go: hand-written events on two nodes of two caches, each of two cores of two threads.

use super::tests::{feed, queued, switch, waking};
use super::*;
use schedlab_machine::shape::{Numbering, Shape};

const A: TaskId = TaskId(0);
const B: TaskId = TaskId(1);
/// A task of the machine.
const K: TaskId = TaskId(2);

/// CPUs 0 and 1 are a core, 0 to 3 a cache, 0 to 7 a node; 8 to 15 likewise.
fn two_nodes() -> Topology {
    let (packages, nodes, llcs, clusters, cores, threads_per_core) = (2, 2, 4, 0, 8, 2);
    let (numbering, remote_distance) = (Numbering::Adjacent, 21);
    Shape { packages, nodes, llcs, clusters, cores, threads_per_core, numbering, remote_distance }
        .topology()
        .unwrap()
}

fn analyser() -> Analyser {
    let name = |name: &str, background| TaskName { name: name.into(), background };
    let tasks = vec![name("a", false), name("b", false), name("kworker", true)];
    Analyser::new(16, tasks, Vec::new(), Ns::ZERO).on(&two_nodes())
}

/// The counters that are not 0.
fn counted(an: Analyser, end: u64) -> Vec<(String, u64)> {
    let counters = an.finish(Ns(end)).counters;
    counters.into_iter().filter(|(name, n)| name.starts_with("woken") && *n > 0).collect()
}

fn named(want: &[(&str, u64)]) -> Vec<(String, u64)> {
    want.iter().map(|(name, n)| ((*name).to_owned(), *n)).collect()
}

/// A sleeps after a stay on `prev`, then B wakes it from `waker`, or an interrupt there does.
fn wakeup(prev: u32, waker: (u32, Option<TaskId>), target: u32) -> Vec<(String, u64)> {
    use SwitchReason as S;
    let mut an = analyser();
    feed(
        &mut an,
        &[
            (10, prev, switch(None, Some(A), S::FromIdle)),
            (20, prev, switch(Some(A), None, S::Blocked)),
            (30, waker.0, waking(A, waker.1)),
            (40, target, queued(A, 0)),
        ],
    );
    counted(an, 100)
}

#[test]
fn a_wakeup_counts_in_the_first_class_that_fits() {
    let by = |cpu| (cpu, Some(B));
    for (prev, waker, target, class) in [
        (4, by(4), 4, "woken.prev"),
        (4, by(12), 4, "woken.prev"),
        (4, by(12), 12, "woken.waker"),
        (4, by(5), 5, "woken.waker"),
        (4, (5, None), 5, "woken.core"),
        (4, by(0), 5, "woken.core"),
        (4, by(0), 6, "woken.llc"),
        (4, by(0), 1, "woken.node"),
        (4, by(0), 8, "woken.far"),
        (4, (8, None), 8, "woken.far"),
    ] {
        let mut want = named(&[("woken", 1), ("woken.idle", 1), (class, 1)]);
        want.sort();
        assert_eq!(wakeup(prev, waker, target), want, "from {prev} by {waker:?} to {target}");
    }
    assert_eq!(wakeup(4, by(0), 16), [], "no CPU of this machine");
}

#[test]
fn a_cpu_is_idle_while_no_task_runs_or_waits_there() {
    use SwitchReason as S;
    let mut an = analyser();
    feed(
        &mut an,
        &[
            (1, 0, switch(None, Some(A), S::FromIdle)),
            (2, 0, switch(Some(A), None, S::Blocked)),
            (3, 1, switch(None, Some(B), S::FromIdle)),
            (4, 1, switch(Some(B), None, S::Blocked)),
            // CPU 1 is idle, but the machine's task is queued there first.
            (10, 0, waking(K, None)),
            (11, 0, queued(K, 0)),
            (12, 0, waking(A, None)),
            (13, 0, queued(A, 0)),
            (14, 0, switch(None, Some(K), S::FromIdle)),
            (15, 0, switch(Some(K), Some(A), S::Blocked)),
            (16, 0, switch(Some(A), None, S::Blocked)),
            // K waits alone on CPU 1 and is pulled before B is queued there: idle.
            (20, 1, waking(K, None)),
            (21, 1, queued(K, 0)),
            (22, 2, EventKind::Migrate { task: K, from: CpuId(1), why: MoveReason::Newidle }),
            (23, 1, waking(B, None)),
            (24, 1, queued(B, 0)),
            (25, 1, switch(None, Some(B), S::FromIdle)),
            // K was pulled to CPU 2 and waits there, so A finds it busy. B runs on CPU 1.
            (30, 2, waking(A, None)),
            (31, 2, queued(A, 0)),
        ],
    );
    let want = [("woken", 3), ("woken.busy", 2), ("woken.idle", 1), ("woken.llc", 1), ("woken.prev", 2)];
    assert_eq!(counted(an, 100), named(&want));
}

#[test]
fn only_wakeups_of_known_tasks_are_counted() {
    use SwitchReason as S;
    let mut an = analyser();
    feed(
        &mut an,
        &[
            // A's last CPU is unknown, B is new, K is the machine's, and A is later caught before it slept.
            (10, 3, waking(A, Some(B))),
            (11, 3, queued(A, 0)),
            (12, 3, switch(None, Some(A), S::FromIdle)),
            (13, 0, EventKind::Enqueued { task: B, nr_running: 0, new: true }),
            (14, 0, switch(None, Some(K), S::FromIdle)),
            (15, 0, switch(Some(K), None, S::Blocked)),
            (16, 0, waking(K, None)),
            (17, 0, queued(K, 0)),
            (18, 0, waking(A, Some(B))),
            (19, 3, queued(A, 0)),
        ],
    );
    assert_eq!(counted(an, 100), []);
    let mut an = Analyser::new(1, Vec::new(), Vec::new(), Ns::ZERO);
    feed(&mut an, &[(1, 0, queued(A, 0))]);
    assert!(!an.finish(Ns(9)).counters.contains_key("woken"), "without a topology: not measured");
}

#[test]
fn running_and_waiting_tasks_are_counted_if_the_source_does_not_report_them() {
    use SwitchReason as S;
    let mut an = analyser();
    feed(
        &mut an,
        &[
            (1, 0, switch(None, Some(B), S::FromIdle)),
            (2, 0, queued(K, 0)),
            (3, 0, waking(A, Some(B))),
            (4, 0, queued(A, 0)),
            (50, 0, switch(Some(B), Some(A), S::Preempted)),
        ],
    );
    let wait = an.finish(Ns(100)).waits.remove(0);
    assert_eq!((wait.nr_running, wait.length_ns, wait.cause()), (3, 47, schedlab_record::WaitCause::Queued));
}
