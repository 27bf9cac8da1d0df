//! Quotas of CPU time (cpu.max): they hold and are reached, on one CPU and on many, on one level and on two; debts,
//! bursts and slack; the time that a throttled group leaves to others. Also idle groups.

use crate::support::{Load, forever, hog, kernel, machine, run_us, simulated, sleep_us};
use schedlab_base::{Ns, TaskId};
use schedlab_kernel::Kernel;
use schedlab_sim::SimReport;
use schedlab_trace::{EventKind, Keep, SwitchReason};
use schedlab_workload::GroupDecl;

const MS: u64 = 1_000_000;
/// Kernels with each way to throttle, and both fair classes.
const PROFILES: [&str; 10] =
    ["v3.4", "v4.5", "v4.14", "v4.19", "v5.4", "v6.1", "v6.5", "v6.12", "v6.18", "v7.3"];

/// Adds hogs to a group with a quota of `quota_ms` in 100 ms.
fn hogs(load: &mut Load, path: &str, quota_ms: u64, nr: usize) -> Vec<TaskId> {
    let quota = (quota_ms > 0).then(|| Ns::ms(quota_ms));
    let group = load.builder.group(path).unwrap();
    let decl = load.builder.edit_group(group);
    *decl = GroupDecl { quota, ..decl.clone() };
    let tasks: Vec<TaskId> = (0..nr).map(|_| load.task("hog", None, hog())).collect();
    tasks.iter().for_each(|t| load.builder.edit(*t).group = group);
    tasks
}

/// Runs with every invariant checked after every step.
fn run(cpus: &str, profile: &str, load: Load) -> SimReport {
    seen(cpus, profile, load).0
}
fn seen(cpus: &str, profile: &str, load: Load) -> (SimReport, Keep) {
    seen_by(cpus, kernel(profile), load)
}
fn seen_by(cpus: &str, kernel: Kernel, load: Load) -> (SimReport, Keep) {
    let (mut keep, profile) = (Keep::default(), kernel.version);
    let report = simulated(&machine(cpus), kernel, 1, load.built(), &mut keep);
    (report.unwrap_or_else(|e| panic!("{profile} on {cpus}: {e}")), keep)
}

fn time(report: &SimReport, tasks: &[TaskId]) -> u64 {
    tasks.iter().map(|t| report.tasks[t.index()].cpu_time_ns).sum()
}
fn counter(report: &SimReport, name: &str) -> u64 {
    *report.found.counters.get(name).unwrap_or_else(|| panic!("no {name}"))
}

/// The largest debt of a group at the end, ns: each CPU charges its running task at ticks, every 4 ms. A later period
/// pays for that.
fn overrun_ns(cpus: &str) -> u64 {
    machine(cpus).topology.nr_cpus() as u64 * 4 * MS
}

/// Asserts that hogs used exactly their group's quotas. There is a quota at the start and one at the end of each
/// period; the last may be unused.
fn assert_quota(what: &str, report: &SimReport, cpus: &str, (path, quota_ms): (&str, u64), used_ns: u64) {
    let (ended, quota_ns) = (counter(report, &format!("group.{path}.nr_periods")), quota_ms * MS);
    assert!((49..=50).contains(&ended), "{what}: {ended} periods ended in 5 s");
    let given = (ended + 1) * quota_ns;
    assert!(used_ns <= given + overrun_ns(cpus), "{what}, {path}: {used_ns} ns of {given}");
    // Each CPU may keep a millisecond when its queue empties. Up to 3.15 and from 4.18 to 5.3 it loses that at the end
    // of the period.
    let cpus = machine(cpus).topology.nr_cpus() as u64;
    let loses = ["v3.4", "v4.19"].iter().any(|v| what.starts_with(v));
    let lost_ns = if loses { ended * cpus * MS } else { cpus * MS };
    assert!(used_ns + quota_ns + lost_ns >= given, "{what}, {path}: {used_ns} ns of {given}");
}

#[test]
fn a_quota_holds_within_a_period_and_is_reached() {
    for profile in PROFILES {
        for (cpus, quota_ms) in [("smp-1", 20), ("smp-1", 7), ("smp-4", 20), ("smp-4", 150), ("smt-8", 300)] {
            let mut load = Load::lasting_ms(5_000);
            let tasks = hogs(&mut load, "/a", quota_ms, 10);
            let report = run(cpus, profile, load);
            let what = format!("{profile} on {cpus}");
            assert_quota(&what, &report, cpus, ("/a", quota_ms), time(&report, &tasks));
            let throttled = counter(&report, "group./a.nr_throttled");
            assert!(throttled >= 48, "{what}: throttled in {throttled} periods");
        }
    }
}

#[test]
fn quotas_hold_at_each_of_two_levels() {
    for profile in PROFILES {
        for cpus in ["smp-1", "smp-4"] {
            let mut load = Load::lasting_ms(5_000);
            let inner = hogs(&mut load, "/a/b", 10, 3);
            let beside = hogs(&mut load, "/a/c", 0, 3);
            hogs(&mut load, "/a", 40, 0);
            let outside = hogs(&mut load, "/d", 0, 4);
            let report = run(cpus, profile, load);
            let (b, c) = (time(&report, &inner), time(&report, &beside));
            let what = format!("{profile} on {cpus}");
            assert_quota(&what, &report, cpus, ("/a/b", 10), b);
            assert_quota(&what, &report, cpus, ("/a", 40), b + c);
            let whole = machine(cpus).topology.nr_cpus() as u64 * 5_000 * MS;
            let idle = whole - time(&report, &outside) - b - c;
            assert!(idle < whole / 50, "{what}: others have the rest, but for {idle} ns");
        }
    }
}

#[test]
fn a_group_that_is_throttled_leaves_its_cpu_to_others_or_idle() {
    for profile in PROFILES {
        let mut load = Load::lasting_ms(2_000);
        let limited = hogs(&mut load, "/a", 30, 2);
        let free = hogs(&mut load, "/b", 0, 1);
        let report = run("smp-1", profile, load);
        let both = time(&report, &limited) + time(&report, &free);
        assert!(both > 1_990 * MS, "{profile}: {both}");
        assert!(time(&report, &limited) < 640 * MS, "{profile}");
        let waited = counter(&report, "group./a.throttled_time");
        assert!((300 * MS..1_500 * MS).contains(&waited), "{profile}: throttled for {waited} ns");

        let mut load = Load::lasting_ms(2_000);
        let alone = hogs(&mut load, "/a", 30, 2);
        let (report, keep) = seen("smp-1", profile, load);
        assert!(time(&report, &alone) < 640 * MS, "{profile}");
        let goes_idle = |e: &&schedlab_trace::Event| match e.kind {
            EventKind::Switch { next: None, why, .. } => why == SwitchReason::Throttled,
            _ => false,
        };
        let ends = keep.events.iter().filter(goes_idle).count();
        assert!((15..=45).contains(&ends), "{profile}: the CPU went idle {ends} times for want of quota");
    }
}

#[test]
fn a_light_group_never_meets_its_quota_and_its_timer_stops() {
    for profile in PROFILES {
        let mut load = Load::lasting_ms(3_000);
        hogs(&mut load, "/a", 20, 0);
        let group = load.builder.group("/a").unwrap();
        let sleeper = load.task("sleeper", None, forever(vec![run_us(500), sleep_us(400_000)]));
        load.builder.edit(sleeper).group = group;
        let report = run("smp-2", profile, load);
        let periods = counter(&report, "group./a.nr_periods");
        assert_eq!(counter(&report, "group./a.nr_throttled"), 0, "{profile}");
        assert!(
            (8..=24).contains(&periods),
            "{profile}: {periods} periods, the others passed without a timer"
        );
    }
}

#[test]
fn a_burst_lets_a_group_use_saved_quota() {
    // 28 ms of work each 318 ms, with 15 ms in 100: without a burst they take two periods' quota. A burst must have
    // been saved up first.
    let longest = |profile: &str, burst_ms: u64| {
        let mut load = Load::lasting_ms(3_000);
        load.builder.lasts(Ns::ms(3_000), Ns::ms(600));
        hogs(&mut load, "/a", 15, 0);
        let group = load.builder.group("/a").unwrap();
        load.builder.edit_group(group).burst = Ns::ms(burst_ms);
        let worker = load.task("worker", None, forever(vec![run_us(28_000), sleep_us(290_000)]));
        load.builder.edit(worker).group = group;
        let report = run("smp-1", profile, load);
        (counter(&report, "group./a.throttled_time"), counter(&report, "group./a.nr_bursts"))
    };
    for profile in ["v5.15", "v6.1", "v6.12", "v6.18"] {
        let ((without, none), (with, bursts)) = (longest(profile, 0), longest(profile, 15));
        assert_eq!((with, none), (0, 0), "{profile}");
        assert!(without > 200 * MS && bursts >= 5, "{profile}: {without} ns throttled, {bursts} bursts");
    }
}

#[test]
fn a_kernel_refuses_settings_that_it_does_not_have() {
    let error = |profile: &str, quota_ms: u64, burst_ms: u64, idle: bool| {
        let mut load = Load::lasting_ms(10);
        hogs(&mut load, "/a", quota_ms, 1);
        let group = load.builder.group("/a").unwrap();
        let decl = load.builder.edit_group(group);
        (decl.burst, decl.idle) = (Ns::ms(burst_ms), idle);
        let mut keep = Keep::default();
        let report = simulated(&machine("smp-1"), kernel(profile), 1, load.built(), &mut keep);
        report.err().map(|e| e.to_string()).unwrap_or_default()
    };
    assert!(error("v2.6.30", 20, 0, false).contains("'/a' has a quota"));
    assert!(error("v5.10", 20, 5, false).contains("'/a' has a burst"));
    assert!(error("v5.10", 0, 0, true).contains("'/a' has idle = true"));
    assert_eq!(error("v5.15", 20, 5, true), "");
}

/// CPU times of `nr` hogs of an idle group and of one hog of another, and the report.
fn beside_idle(cpus: &str, profile: &str, nr: usize, other: &str) -> (u64, u64) {
    let mut load = Load::lasting_ms(3_000);
    let idle = hogs(&mut load, "/idle", 0, nr);
    let group = load.builder.group("/idle").unwrap();
    load.builder.edit_group(group).idle = true;
    let others = hogs(&mut load, other, 0, 1);
    let report = run(cpus, profile, load);
    (time(&report, &idle), time(&report, &others))
}

#[test]
fn an_idle_group_weighs_three_however_many_tasks_it_has() {
    for profile in ["v5.15", "v6.1", "v6.5", "v6.12", "v6.18", "v7.3"] {
        for other in ["/", "/other"] {
            let (idle, others) = beside_idle("smp-1", profile, 4, other);
            let per_mille = idle * 1000 / (idle + others);
            // 3 to 1024 is 3 per mille; a turn is as long as a slice or a tick.
            assert!((1..=6).contains(&per_mille), "{profile} beside {other}: {per_mille} per mille");
        }
    }
}

#[test]
fn a_wakee_of_another_group_preempts_an_idle_group_at_once_and_not_the_reverse() {
    // In 7.3 only the weight of the idle group matters to a wakee.
    for profile in ["v5.15", "v6.1", "v6.5", "v6.12", "v6.18"] {
        let delays = |idle_hog: bool| {
            let mut load = Load::lasting_ms(2_000);
            let hog = hogs(&mut load, "/hog", 0, 1)[0];
            let group = load.builder.group("/wakee").unwrap();
            let wakee = load.task("wakee", None, forever(vec![run_us(100), sleep_us(3_000)]));
            load.builder.edit(wakee).group = group;
            let of = if idle_hog { "/hog" } else { "/wakee" };
            let group = load.builder.group(of).unwrap();
            load.builder.edit_group(group).idle = true;
            let (_, keep) = seen("smp-1", profile, load);
            let left = keep.events.iter().filter(|e| match e.kind {
                EventKind::Switch { prev, why, .. } => {
                    prev == Some(hog) && why == SwitchReason::WakeupPreempt
                }
                _ => false,
            });
            left.count()
        };
        let (preempted, spared) = (delays(true), delays(false));
        assert!(preempted > 500, "{profile}: {preempted} of about 640 wakeups");
        assert_eq!(spared, 0, "{profile}");
    }
}

#[test]
fn a_cpu_that_runs_an_idle_group_is_as_good_as_idle_to_a_search() {
    // Two CPUs: the idle group's hogs have both, and wakees spread over them as if they were alone.
    for profile in ["v5.15", "v6.1", "v6.12"] {
        let wait = |idle: bool| {
            let mut load = Load::lasting_ms(2_000);
            hogs(&mut load, "/hog", 0, 2);
            let group = load.builder.group("/hog").unwrap();
            load.builder.edit_group(group).idle = idle;
            let wakees: Vec<TaskId> = (0..2)
                .map(|_| load.task("wakee", None, forever(vec![run_us(2_000), sleep_us(1_000)])))
                .collect();
            time(&run("smp-2", profile, load), &wakees)
        };
        let (beside_idle, beside_busy) = (wait(true), wait(false));
        // Alone each of them would run for two thirds of the time.
        assert!(beside_idle > 2_500 * MS, "{profile}: {beside_idle}");
        assert!(beside_busy < beside_idle, "{profile}: {beside_busy}");
    }
}

#[test]
fn with_autogroup_sessions_share_alike_and_tasks_of_groups_stay_in_them() {
    let times = |profile: &str, autogroup: u64| {
        let mut load = Load::lasting_ms(4_000);
        let one = hogs(&mut load, "/", 0, 1);
        let three = hogs(&mut load, "/", 0, 3);
        three.iter().for_each(|t| load.builder.edit(*t).part = 1);
        let grouped = hogs(&mut load, "/g", 0, 2);
        let mut kernel = kernel(profile);
        kernel.tunables.autogroup = autogroup;
        let report = seen_by("smp-1", kernel, load).0;
        let whole = time(&report, &one) + time(&report, &three) + time(&report, &grouped);
        [one, three, grouped].map(|tasks| (time(&report, &tasks) * 100 + whole / 2) / whole)
    };
    for profile in ["v3.4", "v6.1", "v6.12"] {
        // Four tasks and a group in the root, then three groups.
        assert_eq!(times(profile, 0), [20, 60, 20], "{profile}");
        assert_eq!(times(profile, 1), [33, 33, 33], "{profile}");
    }
    assert_eq!(times("v2.6.30", 1), [20, 60, 20], "it came with 2.6.38");
}

#[test]
fn since_7_3_shares_count_once_for_each_task_that_runs_at_the_same_time() {
    // Six hogs of a session and two of a group, on four CPUs. The two count on average as a little less than two.
    let part = |profile: &str| {
        let mut load = Load::lasting_ms(4_000);
        let session = hogs(&mut load, "/", 0, 6);
        let two = hogs(&mut load, "/g", 0, 2);
        let mut kernel = kernel(profile);
        kernel.tunables.autogroup = 1;
        let report = seen_by("smp-4", kernel, load).0;
        let (session, two) = (time(&report, &session), time(&report, &two));
        two * 100 / (session + two)
    };
    assert!((40..=50).contains(&part("v6.18")), "{}", part("v6.18"));
    assert!((15..=30).contains(&part("v7.3")), "{}", part("v7.3"));
}
