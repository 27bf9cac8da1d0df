//! Changes of groups and of tasks in the middle of a run. Every run is walked for its invariants.

use crate::support::{Load, Run, cpus, forever, hog, machine, run_built, run_us, sleep_us};
use schedlab_base::{GroupId, Ns, TaskId};
use schedlab_kernel::{Attr, Limit, Policy};
use schedlab_workload::{Built, Later};

const MS: u64 = 1_000_000;
/// Kernels with each way to divide shares, and each fair class.
const PROFILES: [&str; 8] = ["v2.6.30", "v3.4", "v4.5", "v5.4", "v6.5", "v6.12", "v6.18", "v7.3"];

/// One task in each of some groups.
fn of_groups(ms: u64, paths: &[&str], on: Option<&str>) -> (Load, Vec<TaskId>, Vec<GroupId>) {
    let mut load = Load::lasting_ms(ms);
    let groups: Vec<GroupId> = paths.iter().map(|path| load.builder.group(path).unwrap()).collect();
    let tasks: Vec<TaskId> = groups
        .iter()
        .map(|group| {
            let task = load.task("hog", on, hog());
            load.builder.edit(task).group = *group;
            task
        })
        .collect();
    (load, tasks, groups)
}

fn seen(on: &str, profile: &str, load: Load, later: &[(u64, Later)], masks: &[&str]) -> Run {
    let mut built: Built = load.built();
    built.later = later.iter().map(|(ms, later)| (Ns::ms(*ms), *later)).collect();
    built.masks = masks.iter().map(|list| cpus(list)).collect();
    run_built(&machine(on), crate::support::kernel(profile), 1, built)
}

/// Asserts a CPU time in ms, within 2 per cent of the second that a change is about.
fn assert_ms(what: &str, run: &Run, task: TaskId, ms: u64) {
    let got = run.cpu_ns(task) / MS;
    assert!(got.abs_diff(ms) <= 25, "{what}: {got} ms, not {ms}");
}

#[test]
fn shares_hold_from_their_change_on() {
    for profile in PROFILES {
        let (load, tasks, groups) = of_groups(2_000, &["/a", "/b"], None);
        let run = seen("smp-1", profile, load, &[(1_000, Later::Shares(groups[1], 3072))], &[]);
        assert_ms(profile, &run, tasks[0], 750);
        assert_ms(profile, &run, tasks[1], 1250);
    }
}

#[test]
fn a_quota_can_be_set_and_removed() {
    let limit = |quota| Limit { quota, ..Limit::default() };
    for profile in ["v3.4", "v4.5", "v5.4", "v6.5", "v6.12", "v6.18", "v7.3"] {
        let (load, tasks, groups) = of_groups(3_000, &["/a", "/b"], None);
        let later = [
            (1_000, Later::Limited(groups[0], limit(Some(Ns::ms(20))))),
            (2_000, Later::Limited(groups[0], limit(None))),
        ];
        let run = seen("smp-1", profile, load, &later, &[]);
        assert_ms(profile, &run, tasks[0], 1_200);
        assert_ms(profile, &run, tasks[1], 1_800);
        let throttled = run.counter("group./a.nr_throttled");
        assert!((9..=11).contains(&throttled), "{profile}: {throttled} periods of the second in the middle");
    }
}

#[test]
fn a_group_whose_limit_is_removed_runs_at_once_on_an_idle_cpu() {
    let limit = |quota| Limit { quota, ..Limit::default() };
    for profile in ["v3.4", "v4.5", "v4.14", "v5.4", "v6.5", "v6.12", "v6.18", "v7.3"] {
        let (load, tasks, groups) = of_groups(2_000, &["/a"], None);
        // Throttled from soon after 100 ms on; its CPU halts, and no tick will look at it.
        let later = [
            (100, Later::Limited(groups[0], Limit { period: Ns::secs(1), ..limit(Some(Ns::ms(10))) })),
            (300, Later::Limited(groups[0], limit(None))),
        ];
        let run = seen("smp-2", profile, load, &later, &[]);
        assert_ms(profile, &run, tasks[0], 100 + 10 + 1_700);
    }
}

#[test]
fn the_first_period_after_a_change_of_the_quota_ends_by_the_kernels_clock() {
    // A run begins at 81.92 s: a period of a second ends at 1,080 ms, and the next has a full pool. The code of 6.1 has
    // 1,580 ms, too.
    for profile in ["v3.4", "v4.5", "v4.14", "v4.19", "v5.4", "v6.1"] {
        let (load, tasks, groups) = of_groups(1_900, &["/a"], None);
        let limit = Limit { quota: Some(Ns::ms(500)), period: Ns::secs(1), ..Limit::default() };
        let run = seen("smp-1", profile, load, &[(1_020, Later::Limited(groups[0], limit))], &[]);
        assert_ms(profile, &run, tasks[0], 1_080 + 500);
    }
}

#[test]
fn delayed_tasks_below_a_throttled_group_move() {
    let limit = Limit { quota: Some(Ns::ms(1)), ..Limit::default() };
    for profile in ["v6.12", "v6.18", "v7.3"] {
        for seed in 1..4 {
            let mut load = Load::lasting_ms(60);
            let groups = ["/g", "/k"].map(|path| load.builder.group(path).unwrap());
            for n in 0..6 {
                let program = forever(vec![run_us(60 + 10 * n), sleep_us(40 + 15 * n)]);
                let task = load.task("t", None, program);
                load.builder.edit(task).group = groups[0];
            }
            let mut built = load.built();
            built.later = vec![(Ns::us(940), Later::Limited(groups[0], limit))];
            let tasks = built.tasks.len();
            let moves =
                (0..tasks).map(|t| (Ns::us(4_078 + 37 * t as u64), Later::Moved(TaskId::from(t), groups[1])));
            built.later.extend(moves);
            let run = run_built(&machine("smp-2"), crate::support::kernel(profile), seed, built);
            // The walk finds counts that do not fit; this checks that tasks ran and moved.
            assert!(run.cpu_ns(TaskId(0)) > 0, "{profile}");
        }
    }
}

#[test]
fn a_task_that_moves_to_a_group_shares_its_time() {
    for profile in PROFILES {
        let (load, tasks, groups) = of_groups(2_000, &["/a", "/b", "/b"], None);
        // A third each of /b's half; then /a has one of its own two, and the third is alone.
        let run = seen("smp-1", profile, load, &[(1_000, Later::Moved(tasks[1], groups[0]))], &[]);
        assert_ms(profile, &run, tasks[0], 500 + 250);
        assert_ms(profile, &run, tasks[1], 250 + 250);
        assert_ms(profile, &run, tasks[2], 250 + 500);
    }
}

#[test]
fn a_running_a_waiting_and_a_sleeping_task_get_other_cpus() {
    for profile in PROFILES.iter().chain(&["v2.6.18"]) {
        let mut load = Load::lasting_ms(2_000);
        let hogs = [load.task("hog", None, hog()), load.task("hog", None, hog())];
        let dozer = load.task("dozer", None, forever(vec![run_us(100), sleep_us(9_900)]));
        let later: Vec<(u64, Later)> =
            hogs.iter().chain([&dozer]).map(|t| (1_000, Later::Allowed(*t, 0))).collect();
        let run = seen("smp-2", profile, load, &later, &["1"]);
        for task in hogs.into_iter().chain([dozer]) {
            let late = run.events(|e| match e.kind {
                schedlab_trace::EventKind::Switch { next: Some(n), .. } if n == task => Some((e.at, e.cpu.0)),
                _ => None,
            });
            let after: Vec<u32> =
                late.iter().filter(|(at, _)| *at > Ns::ms(1_001)).map(|(_, cpu)| *cpu).collect();
            assert!(!after.is_empty() && after.iter().all(|cpu| *cpu == 1), "{profile}: {after:?}");
        }
        let both: u64 = hogs.iter().map(|t| run.cpu_ns(*t) / MS).sum();
        assert!((2_940..=3_000).contains(&both), "{profile}: two CPUs for a second, then one: {both}");
    }
}

#[test]
fn a_groups_cpus_hold_for_the_tasks_in_it_and_below() {
    let (load, tasks, groups) = of_groups(2_000, &["/a", "/a/b", "/c"], None);
    let later = [(500, Later::Moved(tasks[2], groups[1])), (1_000, Later::Confined(groups[0], 0))];
    let run = seen("smp-4", "v6.12", load, &later, &["3"]);
    let total: u64 = tasks.iter().map(|t| run.cpu_ns(*t) / MS).sum();
    assert!(total.abs_diff(3_000 + 1_000) < 20, "{total}");
}

#[test]
fn a_real_time_task_and_one_without_quota_move_too() {
    for profile in ["v4.5", "v6.12", "v6.18", "v7.3"] {
        let (mut load, tasks, groups) = of_groups(1_000, &["/a", "/b"], None);
        let fifo = Attr { policy: Policy::Fifo, rt_priority: 1, ..Attr::default() };
        let rt = load.task("rt", None, forever(vec![run_us(200), sleep_us(1_800)]));
        load.attr(rt, fifo);
        let quota = Limit { quota: Some(Ns::ms(10)), ..Limit::default() };
        // In the middle of a period the hog of /a has no quota left.
        let later = [
            (100, Later::Limited(groups[0], quota)),
            (550, Later::Moved(tasks[0], groups[1])),
            (560, Later::Moved(rt, groups[0])),
        ];
        let run = seen("smp-1", profile, load, &later, &[]);
        let (limited, free) = (run.cpu_ns(tasks[0]) / MS, run.cpu_ns(tasks[1]) / MS);
        assert!((270..=330).contains(&limited), "{profile}: {limited} of 45 + 45 + 203 ms");
        assert!((560..=630).contains(&free), "{profile}: {free}");
        assert!(run.cpu_ns(rt) / MS >= 95, "{profile}: the real-time task continues");
    }
}

#[test]
fn a_waiting_real_time_task_that_moves_preempts_at_once_also_under_the_lazy_model() {
    for profile in ["v5.4", "v6.12", "v7.3"] {
        let mut load = Load::lasting_ms(100);
        load.task("hog", Some("0"), hog());
        let fifo = |priority| Attr { policy: Policy::Fifo, rt_priority: priority, ..Attr::default() };
        let ahead = load.task("ahead", Some("1"), hog());
        load.attr(ahead, fifo(9));
        let waits = load.task("waits", Some("1"), hog());
        load.attr(waits, fifo(1));
        let later = [(50, Later::Allowed(waits, 0))];
        let run = seen("smp-2", profile, load, &later, &["0"]);
        let came = run.events(|e| match e.kind {
            schedlab_trace::EventKind::Switch { next: Some(n), .. } if n == waits => Some((e.at, e.cpu.0)),
            _ => None,
        });
        let (at, cpu) = came[0];
        assert!(cpu == 0 && (Ns::ms(50)..Ns::us(50_100)).contains(&at), "{profile}: {at} on cpu{cpu}");
    }
}

/// The CPU times of two hogs on CPU 1, each in one of two equal groups. Sleepers that ran on CPU 0 were put into the
/// first group and then given CPU 1, where they wake up once.
fn after_sleepers_have_moved(profile: &str) -> (u64, u64) {
    let (mut load, hogs, groups) = of_groups(3_000, &["/g/a", "/g/b"], Some("1"));
    let mut later = Vec::new();
    for _ in 0..40 {
        let first = run_us(5_000);
        let sleeper = load.task(
            "sleeper",
            Some("0"),
            crate::support::once(vec![first, sleep_us(60_000), run_us(10), sleep_us(5_000_000)]),
        );
        later.push((205, Later::Moved(sleeper, groups[0])));
        later.push((206, Later::Allowed(sleeper, 0)));
    }
    later.sort_by_key(|(at, _)| *at);
    let run = seen("smp-2", profile, load, &later, &["1"]);
    (run.cpu_ns(hogs[0]) / MS, run.cpu_ns(hogs[1]) / MS)
}

#[test]
fn load_that_sleepers_left_behind_stays_in_kernels_that_forget_the_queue() {
    for profile in ["v5.4", "v5.10"] {
        let (a, b) = after_sleepers_have_moved(profile);
        assert!(a * 3 < b, "{profile}: the group counts what nobody ages: {a} and {b} ms");
    }
    for profile in ["v4.5", "v5.15", "v6.1", "v6.12"] {
        let (a, b) = after_sleepers_have_moved(profile);
        assert!(a.abs_diff(b) < 300, "{profile}: equal groups, but for a while: {a} and {b} ms");
    }
}
