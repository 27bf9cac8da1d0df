use super::*;
use schedlab_base::CpuSet;
use schedlab_machine::BackgroundFile;
use std::path::Path;

const US: u64 = 1_000;

fn at(us: u64, cpu: u32, kind: EventKind) -> Event {
    Event { at: Ns::us(us), cpu: CpuId(cpu), kind }
}
fn to(us: u64, cpu: u32, prev: Option<TaskId>, next: Option<TaskId>, why: SwitchReason) -> Event {
    at(us, cpu, EventKind::Switch { prev, next, why })
}
fn waking(us: u64, task: TaskId) -> Event {
    at(us, 0, EventKind::Waking { task, waker: None })
}

fn threads(names: &[&str], events: &[Event], end_us: u64) -> Vec<Thread> {
    let mut activity = Activity::default();
    for name in names {
        activity.meet(TaskName { name: (*name).into(), background: true });
    }
    events.iter().for_each(|e| activity.event(e));
    activity.finish(Ns::us(end_us))
}

#[test]
fn an_arrival_lasts_from_the_wakeup_until_the_thread_blocks() {
    use SwitchReason::{Blocked, FromIdle, Preempted};
    let (a, b) = (TaskId(0), TaskId(1));
    let seen = threads(
        &["kworker/0:1", "sh"],
        &[
            // Awake since before the recording: CPU time, but no arrival.
            to(5, 0, Some(a), None, Blocked),
            waking(10, a),
            to(12, 0, None, Some(a), FromIdle),
            // Another task splits its stay.
            to(15, 0, Some(a), Some(b), Preempted),
            to(25, 0, Some(b), Some(a), Preempted),
            // A wakeup on its way to sleep is reported twice; the second one, when it is queued, counts.
            waking(26, a),
            to(27, 0, Some(a), None, Blocked),
            at(28, 0, EventKind::Enqueued { task: a, nr_running: 0, new: false }),
            to(30, 1, None, Some(a), FromIdle),
            to(34, 1, Some(a), None, Blocked),
            // This arrival has not ended.
            waking(40, a),
            to(41, 1, None, Some(a), FromIdle),
        ],
        50,
    );
    let arrival = |at, ran, cpu| Arrival { at: Ns::us(at), ran: Ns::us(ran), cpu: CpuId(cpu) };
    assert_eq!(seen[0].arrivals, [arrival(10, 5, 0), arrival(28, 4, 1)]);
    assert_eq!((seen[0].cpu_time, seen[1].cpu_time), (Ns::us(18), Ns::us(10)));
    assert_eq!(seen[1].arrivals, [], "its begin was not seen");
}

#[test]
fn a_new_thread_arrives_when_it_is_created_and_knows_its_parent() {
    let (parent, child) = (TaskId(0), TaskId(1));
    let seen = threads(
        &["kthreadd", "new"],
        &[
            at(3, 0, EventKind::Forked { task: child, parent: Some(parent) }),
            at(4, 0, EventKind::Enqueued { task: child, nr_running: 0, new: true }),
            to(6, 0, Some(parent), Some(child), SwitchReason::Blocked),
            to(9, 0, Some(child), None, SwitchReason::Exited),
        ],
        10,
    );
    assert_eq!(seen[1].parent.as_deref(), Some("kthreadd"));
    assert_eq!(seen[1].arrivals, [Arrival { at: Ns::us(4), ran: Ns::us(3), cpu: CpuId(0) }]);
    assert_eq!(groups(&[(seen[1].clone(), None)], 1, Ns::us(10))[0].name, "kernel-other");
}

/// A thread that arrives at these times and runs for `ran_us` each time.
fn thread(name: &str, cpu: u32, at_us: impl IntoIterator<Item = u64>, ran_us: u64) -> Thread {
    let one = |at| Arrival { at: Ns::us(at), ran: Ns::us(ran_us), cpu: CpuId(cpu) };
    let arrivals: Vec<Arrival> = at_us.into_iter().map(one).collect();
    let cpu_time = Ns(arrivals.iter().map(|a| a.ran.0).sum());
    Thread { name: name.into(), arrivals, cpu_time, ..Thread::default() }
}

fn facts(kernel: bool, cpus: &str, nice: i8) -> Option<ThreadFacts> {
    let cpus = CpuSet::parse(cpus).unwrap();
    Some(ThreadFacts { kernel, cpus, nice, process: "daemon".into(), real_time: false })
}

#[test]
fn threads_are_grouped_by_kind_and_by_affinity() {
    let one = |name: &str, facts| (thread(name, 0, [1], 1), facts);
    let all = [
        one("kworker/0:1", facts(true, "0", 0)),
        one("kworker/1:2", facts(true, "1", 0)),
        one("kworker/0:1H", facts(true, "0", -20)),
        one("kworker/u4:0", facts(true, "0-1", 0)),
        one("kworker/R-netns", facts(true, "0-1", -20)),
        one("rcu_preempt", facts(true, "0-1", 0)),
        one("rcuc/1", facts(true, "1", 0)),
        // Here the number is a node's.
        one("rcu_exp_par_gp_kthread_worker/0", facts(true, "0-1", 0)),
        one("hwrng", facts(true, "0-1", 0)),
        one("worker-thread", facts(false, "1", 0)),
        // These threads are gone.
        one("kworker/1:7H", None),
        one("cc1", None),
    ];
    let found = groups(&all, 2, Ns::secs(1));
    let found: Vec<_> =
        found.iter().map(|g| (g.name.as_str(), g.kind, g.per_cpu, g.nice, g.threads)).collect();
    use ThreadKind::{Kernel, User};
    let want = [
        ("kernel-other", Kernel, false, 0, 1),
        ("kworker", Kernel, true, 0, 2),
        ("kworker-high", Kernel, true, -20, 2),
        ("kworker-rescuer-high", Kernel, false, -20, 1),
        ("kworker-unbound", Kernel, false, 0, 1),
        ("rcu", Kernel, false, 0, 2),
        ("rcu", Kernel, true, 0, 1),
        ("cc1", User, false, 0, 1),
        ("daemon", User, false, 0, 1),
    ];
    assert_eq!(found, want);
}

#[test]
fn rates_of_groups_per_cpu_are_those_of_one_cpu() {
    // 20 arrivals a second on each of two CPUs, 5 ms apart in phase.
    let half = |cpu: u32, from: u64| {
        let times = (0..20).map(move |i| from + i * 50_000);
        (thread(&format!("kworker/{cpu}:0"), cpu, times, 30), facts(true, &cpu.to_string(), 0))
    };
    let found = groups(&[half(0, 0), half(1, 5_000)], 2, Ns::secs(1));
    assert_eq!((found[0].wakeups, found[0].per_second, found[0].shape), (40, 20.0, Shape::Periodic));
    assert_eq!((found[0].gap.p50, found[0].run.mean), (Some(50_000_000.0), Some(30_000.0)));
    assert!((found[0].cpu_pct - 0.12).abs() < 1e-9, "{}", found[0].cpu_pct);
    assert_eq!(found[0].gap.p90, None, "38 gaps are too few for it");
    let bursts = (0..10).flat_map(|i| [i * 100_000, i * 100_000 + 1, i * 100_000 + 2, i * 100_000 + 3]);
    let bursty = groups(&[(thread("rcu_preempt", 0, bursts, 1), facts(true, "0-1", 0))], 2, Ns::secs(1));
    assert_eq!((bursty[0].shape, bursty[0].per_second), (Shape::Bursty, 40.0));
}

#[test]
fn only_the_processes_that_wake_up_most_have_a_group_of_their_own() {
    let one = |i: u64| (thread(&format!("p{i}"), 0, 0..=i, 1), None);
    let all: Vec<_> = (0..12).map(one).collect();
    let found = groups(&all, 1, Ns::secs(1));
    let names: Vec<&str> = found.iter().map(|g| g.name.as_str()).collect();
    assert_eq!(names, ["p10", "p11", "p4", "p5", "p6", "p7", "p8", "p9", "user-other"]);
    assert_eq!(found[8].wakeups, 1 + 2 + 3 + 4);
}

#[test]
fn a_file_has_mean_gaps_and_run_times_and_names_groups_left_out() {
    let all = [
        (thread("kworker/0:1", 0, (0..30).map(|i| i * 1_000), 25), facts(true, "0", 0)),
        (thread("migration/0", 0, [5], 3), facts(true, "0", 0)),
        (thread("spin", 0, [5], 2_000_000), facts(false, "0-1", 0)),
        (Thread { cpu_time: Ns::ms(1), ..thread("kswapd0", 0, [], 1) }, facts(true, "0-1", 0)),
        (thread("threaded", 1, [5, 9], 3), facts(false, "0-1", 5)),
    ];
    let found = groups(&all, 2, Ns::secs(1));
    let (written, left_out) = file(("mine", "a test"), &found, 2, Ns::secs(1), false);
    let why = |name: &str| left_out.iter().find(|(n, _)| n == name).map(|(_, why)| *why);
    assert_eq!(why("migration"), Some("the simulator has stoppers of its own"));
    assert_eq!(why("memory"), Some("no arrival began and ended within the time"));
    let row = &written.rows[0];
    assert_eq!(
        (row.name.as_str(), row.per_cpu, row.every, row.run),
        ("kworker", true, Ns(66_667_000), Ns(25 * US))
    );
    assert_eq!(
        row.source,
        "measured: 30 wakeups of 1 thread in 1s on 2 CPUs; run p50 25us, longest 25us; gaps periodic"
    );
    // Two threads of the process "daemon" differ in nice. One has a single arrival, which is longer than the window.
    assert_eq!((why("daemon"), written.rows.len()), (Some("it runs all the time"), 2));
    assert_eq!((written.rows[1].name.as_str(), written.rows[1].nice), ("daemon", 5));
    let text = written.text("");
    assert_eq!(BackgroundFile::parse(Path::new("b.toml"), &text).unwrap(), written);
    let (kernel, left_out) = file(("mine", "a test"), &found, 2, Ns::secs(1), true);
    assert_eq!((kernel.rows.len(), left_out.len()), (1, 4));
}
