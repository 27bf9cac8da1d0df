//! Task groups: CPU time by shares, on one CPU and on many; placement and preemption at the level of the common parent.

use crate::support::{Load, Run, forever, hog, machine, run, run_us, sleep_us};
use schedlab_base::{CpuId, Ns, TaskId};
use schedlab_trace::{EventKind, PlaceReason};
use schedlab_workload::GroupDecl;

const MS: u64 = 1_000_000;
/// Kernels with each way to divide shares, and each fair class.
const PROFILES: [&str; 9] = ["v2.6.27", "v2.6.30", "v3.4", "v4.5", "v6.1", "v6.5", "v6.12", "v6.18", "v7.3"];

/// Adds `nr` hogs in a group of these shares.
fn hogs(load: &mut Load, path: &str, shares: u64, nr: usize, on: Option<&str>) -> Vec<TaskId> {
    let group = load.builder.group(path).unwrap();
    let decl = load.builder.edit_group(group);
    *decl = GroupDecl { shares, ..decl.clone() };
    let tasks: Vec<TaskId> = (0..nr).map(|_| load.task("hog", on, hog())).collect();
    tasks.iter().for_each(|t| load.builder.edit(*t).group = group);
    tasks
}

/// CPU time of tasks together, ns.
fn time(seen: &Run, tasks: &[TaskId]) -> u64 {
    tasks.iter().map(|t| seen.cpu_ns(*t)).sum()
}

/// Asserts that `a` to `b` is `x` to `y`, within `per_mille` of the whole.
fn assert_share(what: &str, (a, b): (u64, u64), (x, y): (u64, u64), per_mille: u64) {
    let (got, wanted) = (a * 1000 / (a + b), x * 1000 / (x + y));
    assert!(got.abs_diff(wanted) <= per_mille, "{what}: {got} per mille, not {wanted}");
}

#[test]
fn hogs_of_two_groups_share_a_cpu_by_the_groups_and_not_by_their_number() {
    for profile in PROFILES {
        let mut load = Load::lasting_ms(10_000);
        let a = hogs(&mut load, "/a", 1024, 1, None);
        let b = hogs(&mut load, "/b", 3072, 4, None);
        let seen = run(&machine("smp-1"), profile, load);
        assert_share(profile, (time(&seen, &a), time(&seen, &b)), (1, 3), 10);
        let each: Vec<u64> = b.iter().map(|t| seen.cpu_ns(*t)).collect();
        let (least, most) = (each.iter().min().unwrap(), each.iter().max().unwrap());
        assert!(most - least < 100 * MS, "{profile}: alike within the group: {each:?}");
    }
}

#[test]
fn a_group_counts_as_one_task_among_tasks_of_the_root() {
    for profile in PROFILES {
        let mut load = Load::lasting_ms(10_000);
        let group = hogs(&mut load, "/g", 1024, 3, None);
        let alone = hogs(&mut load, "/", 1024, 1, None);
        let seen = run(&machine("smp-1"), profile, load);
        assert_share(profile, (time(&seen, &alone), time(&seen, &group)), (1, 1), 10);
    }
}

#[test]
fn shares_hold_at_each_of_three_levels() {
    for profile in PROFILES {
        let mut load = Load::lasting_ms(10_000);
        let deep = hogs(&mut load, "/a/b/c", 1024, 2, None);
        let beside = hogs(&mut load, "/a/b/d", 1024, 1, None);
        let above = hogs(&mut load, "/a/e", 2048, 1, None);
        let other = hogs(&mut load, "/f", 1024, 1, None);
        let seen = run(&machine("smp-1"), profile, load);
        let times = [&deep, &beside, &above, &other].map(|tasks| time(&seen, tasks));
        // /a and /f have half each; of /a's half, /a/e has two thirds, /a/b one; of that, c and d have half each.
        assert_share(profile, (times[3], times[0] + times[1] + times[2]), (1, 1), 10);
        assert_share(profile, (times[2], times[0] + times[1]), (2, 1), 15);
        assert_share(profile, (times[0], times[1]), (1, 1), 20);
    }
}

#[test]
fn on_several_cpus_a_groups_shares_cover_all_of_them_together() {
    for profile in PROFILES {
        // 4.5 takes two seconds to put one task of each group on each CPU.
        let mut load = Load::lasting_ms(10_000);
        load.builder.lasts(Ns::secs(10), Ns::secs(3));
        let a = hogs(&mut load, "/a", 1024, 4, None);
        let b = hogs(&mut load, "/b", 3072, 4, None);
        let seen = run(&machine("smp-4"), profile, load);
        assert_share(profile, (time(&seen, &a), time(&seen, &b)), (1, 3), 30);
    }
}

#[test]
fn a_lone_hog_of_a_group_outweighs_each_of_many() {
    // One CPU has the whole group /a, against a quarter of /b.
    for profile in ["v4.5", "v6.1", "v6.12"] {
        let mut load = Load::lasting_ms(10_000);
        let a = hogs(&mut load, "/a", 1024, 1, Some("0"));
        let on = ["0", "1", "2", "3"];
        let b: Vec<TaskId> = on.iter().flat_map(|cpu| hogs(&mut load, "/b", 1024, 1, Some(cpu))).collect();
        let seen = run(&machine("smp-4"), profile, load);
        assert_share(profile, (seen.cpu_ns(a[0]), seen.cpu_ns(b[0])), (4, 1), 25);
    }
}

#[test]
fn a_sleeper_preempts_if_its_group_is_absent_and_waits_if_it_is_there() {
    // D002: a short sleep earns no credit next to a running task of the same group. If the group is absent, its own
    // entity is placed, and gets credit for the time that the group was away.
    let latency = |on: &str, profile: &str| {
        let mut load = Load::lasting_ms(4_000);
        hogs(&mut load, "/hogs", 4096, 1, Some("0"));
        let _sibling = hogs(&mut load, "/vm", 1024, 1, Some("1"));
        hogs(&mut load, "/hogs", 4096, 1, Some("1"));
        let group = load.builder.group("/vm").unwrap();
        let sleeper = load.task("sleeper", Some(on), forever(vec![run_us(50), sleep_us(500)]));
        load.builder.edit(sleeper).group = group;
        let seen = run(&machine("smp-2"), profile, load);
        // The more it waits, the fewer of its cycles of 600 us fit into 4 s.
        seen.stays(sleeper).len()
    };
    for profile in ["v3.4", "v4.5", "v6.1"] {
        let (absent, present) = (latency("0", profile), latency("1", profile));
        assert!(
            absent > 2 * present,
            "{profile}: {absent} cycles where the group is absent, {present} beside it"
        );
    }
}

#[test]
fn with_the_patch_a_task_of_a_group_leaves_its_sibling_and_a_root_task_is_placed_as_before() {
    // D002's illustration, smaller: all CPUs run hogs of /b, and /a's hog is on the sleeper's previous CPU.
    let placed = |features: &str, grouped: bool| {
        let mut load = Load::lasting_ms(2_000);
        for cpu in ["0", "1", "2", "3"] {
            hogs(&mut load, "/b", 1024, 1, Some(cpu));
        }
        hogs(&mut load, "/a", 1024, 1, Some("3"));
        let sleeper = load.task("sleeper", None, forever(vec![run_us(50), sleep_us(500)]));
        if grouped {
            load.builder.edit(sleeper).group = load.builder.group("/a").unwrap();
        }
        let seen = run(&machine("smp-4"), &format!("v3.4 {features}"), load);
        seen.events(|e| match e.kind {
            EventKind::Placed { task, target, reason, .. } if task == sleeper => Some((target, reason)),
            _ => None,
        })
    };
    let absent =
        |of: &[(CpuId, PlaceReason)]| of.iter().filter(|(_, r)| *r == PlaceReason::GroupAbsent).count();
    let with = placed("SIS_IDLE_CFS_RQ", true);
    assert!(absent(&with) * 10 > with.len() * 9, "{} of {}", absent(&with), with.len());
    assert!(
        with.iter().all(|(cpu, r)| *r != PlaceReason::GroupAbsent || *cpu == CpuId(0)),
        "the lowest number"
    );
    assert_eq!(absent(&placed("", true)), 0);
    assert_eq!(placed("SIS_IDLE_CFS_RQ", false), placed("", false), "the root group is as before");
}

#[test]
fn two_tasks_of_a_group_on_one_cpu_are_crowded_while_another_queue_is_shorter() {
    let crowded = |second: &str, group: &str| {
        let mut load = Load::lasting_ms(1_000);
        hogs(&mut load, "/a", 1024, 1, Some("0"));
        hogs(&mut load, group, 1024, 1, Some(second));
        run(&machine("smp-2"), "v6.1", load).counter("group.crowded_time") / MS
    };
    assert!(crowded("0", "/a") > 950, "{}", crowded("0", "/a"));
    assert_eq!(crowded("1", "/a"), 0, "one each");
    assert_eq!(crowded("0", "/b"), 0, "of two groups");
}
