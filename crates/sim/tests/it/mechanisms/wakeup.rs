//! Targets of wakeups: the searches, their blind spots, and races, since a choice is not a reservation.

use crate::support::{Load, Run, cpus, forever, hog, machine, once, program, run, run_us};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::{Attr, Policy};
use schedlab_machine::Machine;
use schedlab_trace::{EventKind, MoveReason, PlaceReason};
use schedlab_workload::{Op, Params, Spec, WordId};

const US: u64 = 1_000;

/// Adds a task that starts on `home`, may later run on `everywhere`, waits on the word once, then runs a little.
fn wakee(load: &mut Load, home: u32, everywhere: &str, word: WordId) -> TaskId {
    let mask = load.builder.mask(cpus(everywhere));
    let wait = Op::Wait { word, value: 0, until: Ns::MAX };
    load.task("wakee", Some(&home.to_string()), once(vec![Op::SetAffinity { mask }, wait, run_us(500)]))
}

/// Adds a task on `cpu` that spins until `at_us`, wakes the word's waiter, and spins on.
fn waker(load: &mut Load, cpu: u32, at_us: u64, word: WordId) -> TaskId {
    let ops = vec![Op::SpinTo { at: Ns::us(at_us) }, Op::Wake { word, count: 1 }, run_us(1_000_000)];
    load.task("waker", Some(&cpu.to_string()), once(ops))
}

fn hogs(load: &mut Load, list: &str) {
    for cpu in cpus(list).iter() {
        load.task("hog", Some(&cpu.0.to_string()), hog());
    }
}

/// The placement at the wakeup, not the one at the start.
fn woken(run: &Run, task: TaskId) -> (u32, PlaceReason) {
    let placed = run.placements(task);
    assert_eq!(placed.len(), 2, "{placed:?}");
    (placed[1].1, placed[1].2)
}

/// fb-2x12-smt: cores are {n, n + 24}. One thread of every core of the first socket is busy, both of cores 0 and 5.
/// The wakee slept on CPU 5; its waker runs on CPU 24.
fn half_busy_cores(kernel_text: &str) -> (u32, PlaceReason) {
    let mut load = Load::lasting_ms(150);
    let word = load.builder.word();
    hogs(&mut load, "0-11,29");
    let wakee = wakee(&mut load, 5, "0-11,24-35", word);
    waker(&mut load, 24, 100_000, word);
    woken(&run(&machine("fb-2x12-smt"), kernel_text, load), wakee)
}

#[test]
fn only_the_group_search_misses_an_idle_thread_next_to_a_busy_one() {
    for old in ["v3.4", "v4.5", "v4.5 NO_SIS_SKIP_TARGET"] {
        let (cpu, reason) = half_busy_cores(old);
        assert_eq!(reason, PlaceReason::TargetBusy, "{old}");
        assert!([5, 24].contains(&cpu), "{old}: stays on the target, not on {cpu}");
    }
    assert_eq!(
        half_busy_cores("v4.5 SIS_FIRST_IDLE"),
        (25, PlaceReason::FirstIdle),
        "the lowest idle number"
    );
    for new in ["v4.5 SIS_CORE", "v6.5"] {
        let (cpu, reason) = half_busy_cores(new);
        assert_eq!(reason, PlaceReason::IdleCpu, "{new}");
        assert!(cpus("25-28,30-35").contains(schedlab_base::CpuId(cpu)), "{new}: {cpu}");
    }
    let none = half_busy_cores("v4.5 NO_SIS_GROUP");
    assert_eq!(none.1, PlaceReason::TargetBusy, "no search at all");
}

#[test]
fn all_searches_find_a_wholly_idle_core() {
    for kernel_text in ["v3.4", "v4.5", "v4.5 SIS_CORE", "v6.5"] {
        let mut load = Load::lasting_ms(150);
        let word = load.builder.word();
        hogs(&mut load, "0-6,8-11,29");
        let wakee = wakee(&mut load, 5, "0-11,24-35", word);
        waker(&mut load, 24, 100_000, word);
        let (cpu, reason) = woken(&run(&machine("fb-2x12-smt"), kernel_text, load), wakee);
        assert!([7, 31].contains(&cpu), "{kernel_text}: {cpu}");
        assert!(
            [PlaceReason::IdleGroup, PlaceReason::IdleCore].contains(&reason),
            "{kernel_text}: {reason:?}"
        );
    }
}

/// Two wakers that act at the same instant: the targets of their wakees, and the longest queue.
fn simultaneous(kernel_text: &str) -> (Vec<u32>, u16) {
    let mut load = Load::lasting_ms(150);
    let words = [load.builder.word(), load.builder.word()];
    hogs(&mut load, "3,7");
    let wakees = [wakee(&mut load, 3, "0-7", words[0]), wakee(&mut load, 7, "0-7", words[1])];
    waker(&mut load, 2, 100_000, words[0]);
    waker(&mut load, 6, 100_000, words[1]);
    let seen = run(&machine("smp-8"), kernel_text, load);
    let longest = seen.events(|e| match e.kind {
        EventKind::Enqueued { task, nr_running, .. } if wakees.contains(&task) && e.at > Ns::ms(100) => {
            Some(nr_running)
        }
        _ => None,
    });
    (wakees.iter().map(|w| woken(&seen, *w).0).collect(), longest.into_iter().max().unwrap_or(0))
}

#[test]
fn an_idle_choice_is_not_a_reservation() {
    let (targets, longest) = simultaneous("v4.5 SIS_FIRST_IDLE");
    assert_eq!((targets, longest), (vec![0, 0], 2), "both see CPU 0 idle, both take it");
    // From their different places in the ring they first read different CPUs.
    let (targets, longest) = simultaneous("v4.5");
    assert!(targets[0] != targets[1] && longest == 1, "{targets:?}");
}

#[test]
fn an_idle_previous_cpu_is_taken_without_a_search() {
    for kernel_text in ["v3.4", "v4.5", "v6.5"] {
        let mut load = Load::lasting_ms(150);
        let word = load.builder.word();
        let wakee = wakee(&mut load, 5, "0-7", word);
        waker(&mut load, 2, 100_000, word);
        let seen = run(&machine("smp-8"), kernel_text, load);
        let (cpu, reason) = woken(&seen, wakee);
        assert_eq!(cpu, 5, "{kernel_text}");
        assert!(
            [PlaceReason::TargetIdle, PlaceReason::PrevIdle].contains(&reason),
            "{kernel_text}: {reason:?}"
        );
    }
}

/// The target for a wakee that slept on the other socket; hogs (besides the waker) crowd its CPU, or the waker's.
fn across(kernel_text: &str, crowd: &str) -> u32 {
    let mut load = Load::lasting_ms(200);
    let word = load.builder.word();
    let wakee = wakee(&mut load, 30, "0-47", word);
    waker(&mut load, 0, 150_000, word);
    (0..3).for_each(|_| hogs(&mut load, crowd));
    woken(&run(&machine("fb-2x24"), kernel_text, load), wakee).0
}

#[test]
fn an_affine_wakeup_leaves_a_crowded_cpu_for_the_wakers_cache_and_not_an_idle_one() {
    for kernel_text in ["v3.4", "v4.5", "v6.5"] {
        let crowded_prev = across(kernel_text, "30");
        assert!(crowded_prev < 24, "{kernel_text}: {crowded_prev} is not near the waker");
        let idle_prev = across(kernel_text, "0");
        assert_eq!(idle_prev, 30, "{kernel_text}");
    }
}

#[test]
fn without_affine_wakeups_the_previous_cpu_is_the_target() {
    assert!(across("v3.4 NO_AFFINE_WAKEUPS", "30") >= 24);
    assert!(across("v4.5 NO_AFFINE_WAKEUPS", "30") < 24, "no longer asked");
}

#[test]
fn before_2_6_32_there_is_no_search_for_an_idle_cpu() {
    for profile in ["v2.6.27", "v2.6.30"] {
        let went = |features: &str, crowd: &str| {
            let mut load = Load::lasting_ms(200);
            let word = load.builder.word();
            let wakee = wakee(&mut load, 5, "0-7", word);
            waker(&mut load, 2, 150_000, word);
            (0..3).for_each(|_| hogs(&mut load, crowd));
            woken(&run(&machine("smp-8"), &format!("{profile}{features}"), load), wakee)
        };
        assert_eq!(went("", "5"), (2, PlaceReason::WakeAffine), "{profile}: six CPUs are idle");
        let passive = match profile {
            "v2.6.27" => (5, PlaceReason::TargetBusy),
            _ => (2, PlaceReason::WakeBalance),
        };
        assert_eq!(went(" NO_AFFINE_WAKEUPS", "5"), passive, "{profile}: since 2.6.28 wakeups balance");
        assert_eq!(
            went("", "2"),
            (5, PlaceReason::TargetIdle),
            "{profile}: the waker's CPU is the busier one"
        );
        assert_eq!(went("", "2,5").1, PlaceReason::TargetBusy, "{profile}");
        let found = went(" SIS_GROUP", "5");
        assert!(found.1 == PlaceReason::IdleGroup, "{profile}: a later search can be tried: {found:?}");
    }
}

/// Whether the target CPU leaves idle before the wakee is enqueued there.
fn queued_by_itself(kernel_text: &str, target: &str) -> bool {
    let mut load = Load::lasting_ms(150);
    let word = load.builder.word();
    let wait = Op::Wait { word, value: 0, until: Ns::MAX };
    let wakee = load.task("wakee", Some(target), once(vec![wait, run_us(100)]));
    waker(&mut load, 0, 100_000, word);
    let seen = run(&machine("fb-2x24"), kernel_text, load);
    let order = seen.events(|e| match e.kind {
        _ if e.at < Ns::ms(100) => None,
        EventKind::IdleExit { .. } if e.cpu.0.to_string() == target => Some(true),
        EventKind::Enqueued { task, .. } if task == wakee => Some(false),
        _ => None,
    });
    order[0]
}

#[test]
fn across_caches_the_target_enqueues_for_itself() {
    for kernel_text in ["v3.4", "v4.5", "v6.5"] {
        assert!(queued_by_itself(kernel_text, "30"), "{kernel_text}: on the wake list, IPI, then enqueued");
        assert!(
            !queued_by_itself(&format!("{kernel_text} NO_TTWU_QUEUE"), "30"),
            "{kernel_text}: by the waker"
        );
    }
    assert!(!queued_by_itself("v4.5", "3"), "within the cache the waker does it");
    assert!(queued_by_itself("v6.5", "3"), "since 5.8 an idle CPU does, also within the cache");
}

#[test]
fn new_tasks_get_a_core_each_before_sharing_cores() {
    for kernel_text in ["v3.4", "v4.5", "v6.5"] {
        let mut load = Load::lasting_ms(5);
        let children: Vec<TaskId> = (1..=11).map(TaskId).collect();
        let mut left = children.clone();
        left.reverse();
        let parent = program(move |_| left.pop().map_or(run_us(1_000), |task| Op::Spawn { task }));
        let parent = load.task("parent", None, parent);
        for _ in &children {
            let child = load.task("child", None, hog());
            load.builder.edit(child).spawned_by = Some(parent);
        }
        let seen = run(&machine("smt-24"), kernel_text, load);
        let mut cores: Vec<u32> = std::iter::once(&parent)
            .chain(&children)
            .flat_map(|t| seen.placements(*t).first().map(|(_, cpu, _)| cpu % 12))
            .collect();
        cores.sort_unstable();
        assert_eq!(cores, (0..12).collect::<Vec<_>>(), "{kernel_text}");
    }
}

#[test]
fn idle_cpus_that_a_new_task_may_not_use_make_its_group_no_better_since_7_0() {
    // Three CPUs on the parent's node are idle, which the child may not use, and two on the other node, which it may
    // use.
    for (kernel_text, moves) in [("v6.18", false), ("v7.3", true)] {
        let mut load = Load::lasting_ms(5);
        load.task("hog", Some("6"), hog());
        load.task("hog", Some("7"), hog());
        let child = TaskId(load.builder.next_task().0 + 1);
        let parent = load.task("parent", Some("0,4-7"), once(vec![Op::Spawn { task: child }, run_us(3_000)]));
        load.task("child", Some("0,4-7"), hog());
        load.builder.edit(child).spawned_by = Some(parent);
        let seen = run(&machine("nodes-2x4"), kernel_text, load);
        let first = |task| seen.placements(task)[0].1;
        assert_eq!(first(parent), 0, "{kernel_text}");
        assert_eq!(first(child) >= 4, moves, "{kernel_text}: cpu{}", first(child));
    }
}

/// Short tasks woken in bursts: CPUs go idle all the time while others search.
fn bursts(machine: &Machine, kernel_text: &str, seed: u64) -> Run {
    let times = [("runtime", 60_000_000), ("sleeptime", 60_000), ("cputime", 25_000)];
    let params = times.into_iter().chain([("message_threads", 6), ("threads", 11)]);
    let params = Params(params.map(|(name, value)| (name.to_owned(), value)).collect());
    let workload = Spec::bench("schbench", &params).and_then(|s| s.build(seed)).expect("schbench");
    let mut seen = schedlab_trace::Keep::default();
    let report =
        crate::support::simulated(machine, crate::support::kernel(kernel_text), seed, workload, &mut seen);
    Run { report: report.expect("the run ends well"), seen }
}

/// Placements and switches, without the number of probes.
fn course(run: &Run) -> Vec<EventKind> {
    run.events(|e| match e.kind {
        EventKind::Placed { task, target, reason, .. } => {
            Some(EventKind::Placed { task, target, reason, probes: 0 })
        }
        kind => Some(kind),
    })
}

#[test]
fn the_test_of_the_target_matters_only_because_scans_take_time() {
    let real = machine("fb-2x12-smt");
    let mut instant = real.clone();
    for cost in ["probe_hit_ns", "probe_miss_near_ns", "probe_miss_far_ns"] {
        assert!(instant.costs.set(cost, 0));
    }
    let own = |run: &Run| {
        let own = |e: &schedlab_trace::Event| {
            matches!(e.kind, EventKind::Placed { reason: PlaceReason::OwnGroupWentIdle, .. }).then_some(())
        };
        run.events(own).len()
    };
    let mut found = 0;
    for seed in 0..4 {
        let with = bursts(&instant, "v4.5", seed);
        let without = bursts(&instant, "v4.5 NO_SIS_SKIP_TARGET", seed);
        assert_eq!(own(&without), 0, "an instantaneous scan sees nothing change");
        assert!(course(&with) == course(&without), "seed {seed}: the same course of events");
        assert_eq!(own(&bursts(&real, "v4.5", seed)), 0, "the test forbids it");
        found += own(&bursts(&real, "v4.5 NO_SIS_SKIP_TARGET", seed));
    }
    assert!(found > 0, "scans that take time must see the target's group go idle now and then");
}

#[test]
fn wakeups_never_leave_the_allowed_cpus() {
    for kernel_text in ["v3.4", "v4.5", "v4.5 SIS_FIRST_IDLE", "v6.5"] {
        let mut load = Load::lasting_ms(100);
        hogs(&mut load, "0-3");
        let sleep = Op::Sleep { length: Ns(150 * US) };
        let bound: Vec<TaskId> = (0..6)
            .map(|i| load.task("bound", Some(["3,9-10", "10,34"][i % 2]), forever(vec![run_us(120), sleep])))
            .collect();
        let seen = run(&machine("fb-2x12-smt"), kernel_text, load);
        let moved = seen.events(|e| match e.kind {
            EventKind::Migrate { task, why: MoveReason::Wakeup, .. } if bound.contains(&task) => Some(e.cpu),
            _ => None,
        });
        assert!(
            !moved.is_empty() && moved.iter().all(|c| cpus("3,9-10,34").contains(*c)),
            "{kernel_text}: {moved:?}"
        );
    }
}

#[test]
fn the_time_of_a_search_counts_also_when_no_other_cpu_acts_meanwhile() {
    let m = machine("fb-2x12-smt");
    let mut load = Load::lasting_ms(150);
    let word = load.builder.word();
    hogs(&mut load, "0-11,29");
    wakee(&mut load, 5, "0-11,24-35", word);
    waker(&mut load, 24, 100_000, word);
    let seen = run(&m, "v4.5", load);
    let probes: u64 = seen
        .events(|e| match e.kind {
            EventKind::Placed { probes, .. } => Some(u64::from(probes)),
            _ => None,
        })
        .iter()
        .sum();
    assert!(probes > 10);
    assert!(seen.counter("select.time") >= probes * m.costs.probe_hit_ns, "{probes} probes");
}

/// smp-2: a SCHED_IDLE task computes on CPU 1, the waker on CPU 0. The wakee, which slept on `home`: its target, the
/// reason, and its wait, ns.
fn beside_sched_idle(kernel_text: &str, home: u32, policy: Policy) -> (u32, PlaceReason, u64) {
    let mut load = Load::lasting_ms(150);
    let word = load.builder.word();
    let background = load.task("background", Some("1"), hog());
    load.attr(background, Attr { policy: Policy::Idle, ..Attr::default() });
    let wakee = wakee(&mut load, home, "0-1", word);
    load.attr(wakee, Attr { policy, ..Attr::default() });
    waker(&mut load, 0, 100_000, word);
    let seen = run(&machine("smp-2"), kernel_text, load);
    let (cpu, why) = woken(&seen, wakee);
    (cpu, why, seen.wakeup_delays(wakee).last().copied().unwrap_or(u64::MAX))
}

#[test]
fn a_cpu_with_sched_idle_tasks_only_is_as_good_as_an_idle_one() {
    // On a busy cache of two CPUs SIS_UTIL allows no scan, and from CPU 0 only a scan finds CPU 1.
    let (both, only_prev) = (&[0, 1][..], &[1][..]);
    for (kernel_text, homes) in [
        ("v5.4", only_prev),
        ("v5.10", both),
        ("v6.5", only_prev),
        ("v6.5 NO_SIS_UTIL", both),
        ("v6.12 NO_SIS_UTIL", both),
        ("v7.3 NO_SIS_UTIL", both),
    ] {
        for home in homes {
            let (cpu, why, waited) = beside_sched_idle(kernel_text, *home, Policy::Other);
            assert_eq!((cpu, why), (1, PlaceReason::SchedIdle), "{kernel_text} from CPU {home}");
            // A lazy request is heeded at the next tick.
            let limit = if kernel_text.starts_with("v7.3") { 4_100 * US } else { 10 * US };
            assert!(waited < limit, "{kernel_text}: preempts, not after {waited} ns");
        }
    }
    assert_eq!(beside_sched_idle("v4.5", 1, Policy::Other).1, PlaceReason::TargetBusy);
}

#[test]
fn a_sched_idle_wakee_does_not_count_sched_idle_cpus_as_idle_since_7_2() {
    let (cpu, why, _) = beside_sched_idle("v6.12 NO_SIS_UTIL", 0, Policy::Idle);
    assert_eq!((cpu, why), (1, PlaceReason::SchedIdle));
    let (cpu, why, _) = beside_sched_idle("v7.3 NO_SIS_UTIL", 0, Policy::Idle);
    assert_eq!((cpu, why), (0, PlaceReason::TargetBusy));
}
