//! Hierarchies of several machines as text, and the writes for a tree of groups in both versions.

use super::hierarchy::{Hierarchy, Version, find};
use super::{WatchedGroup, groups_of, is_ours, later_writes, writes};
use crate::settings::fake::FakeKernel;
use crate::settings::owner::Owner;
use crate::settings::{Plan, Write};
use schedlab_base::Ns;
use schedlab_workload::group::find_or_declare;
use schedlab_workload::{Beside, GroupDecl, GroupSpec, Params, Spec};
use std::path::Path;

const ME: Owner = Owner { pid: 7, started: 99 };
const V2: &str = "24 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate";
const V1: &str = "32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw shared:4 - cgroup cgroup rw,cpu,cpuacct";
const UNIFIED: &str = "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";

fn machine(mounts: &str, own: &str, more: &[(&str, &str)]) -> FakeKernel {
    let mut files = vec![("/proc/self/mountinfo", mounts), ("/proc/self/cgroup", own)];
    files.extend(more);
    FakeKernel::with(&files)
}

/// schedlab's group in a session on a machine with systemd and v2.
fn scope() -> FakeKernel {
    machine(
        V2,
        "0::/user.slice/run-1.scope",
        &[
            ("/sys/fs/cgroup/user.slice/run-1.scope/cgroup.controllers", "cpu memory pids"),
            ("/sys/fs/cgroup/user.slice/run-1.scope/cgroup.subtree_control", ""),
            ("/sys/fs/cgroup/user.slice/run-1.scope/cgroup.type", "domain"),
            ("/sys/fs/cgroup/user.slice/run-1.scope/cpu.weight", "100"),
            ("/sys/fs/cgroup/user.slice/run-1.scope/cpu.max", "max 100000"),
        ],
    )
}

/// /a with 2048 shares and a quota, /a/small idle, /b with 333 shares.
fn tree() -> Vec<GroupDecl> {
    let mut groups = vec![GroupDecl::root()];
    let small = find_or_declare(&mut groups, "/a/small").unwrap();
    let b = find_or_declare(&mut groups, "/b").unwrap();
    groups[small.index()].idle = true;
    groups[b.index()].shares = 333;
    (groups[1].shares, groups[1].quota, groups[1].burst) = (2048, Some(Ns::ms(20)), Ns::ms(5));
    groups
}

fn shown(writes: &[Write]) -> Vec<String> {
    writes.iter().map(|w| format!("{} {}", w.path.display(), w.value)).collect()
}

#[test]
fn the_group_of_this_process_is_found_in_either_version() {
    let cases = [
        (V2, "0::/user.slice/a.scope", "/sys/fs/cgroup/user.slice/a.scope", Version::V2, false),
        (V2, "0::/", "/sys/fs/cgroup", Version::V2, true),
        (V1, "4:cpu,cpuacct:/", "/sys/fs/cgroup/cpu,cpuacct", Version::V1, true),
        // A container without its own name space sees only its part of the hierarchy.
        (
            "32 31 0:29 /docker/1f /sys/fs/cgroup/cpu ro - cgroup cgroup rw,cpu",
            "3:cpuset:/x\n2:cpu:/docker/1f/sub\n0::/",
            "/sys/fs/cgroup/cpu/sub",
            Version::V1,
            false,
        ),
    ];
    for (mounts, own, base, version, is_top) in cases {
        let controllers = format!("{base}/cgroup.controllers");
        let kernel = machine(mounts, own, &[(controllers.as_str(), "cpuset cpu io")]);
        assert_eq!(find(&kernel).unwrap(), Hierarchy { version, base: base.into(), is_top }, "{own}");
    }
    // Both are mounted, and v1 has the controller.
    let both = machine(
        &format!("{V1}\n{UNIFIED}"),
        "4:cpu,cpuacct:/\n0::/",
        &[("/sys/fs/cgroup/unified/cgroup.controllers", "hugetlb")],
    );
    assert_eq!(find(&both).unwrap().version, Version::V1);
}

#[test]
fn without_the_controller_the_remedy_is_named() {
    let lacks = machine(V2, "0::/user.slice", &[("/sys/fs/cgroup/user.slice/cgroup.controllers", "memory")]);
    let e = find(&lacks).unwrap_err();
    assert_eq!(e.kind().exit_code(), 3);
    let text = e.to_string();
    assert!(text.contains("/user.slice has no cpu controller") && text.contains("Delegate=yes"), "{text}");
    let text = find(&machine("", "0::/", &[])).unwrap_err().to_string();
    assert!(text.contains("mount -t cgroup2"), "{text}");
}

#[test]
fn a_tree_of_v1_has_shares_quotas_and_lists_of_tasks() {
    let hierarchy = Hierarchy { version: Version::V1, base: "/cpu".into(), is_top: true };
    let made = writes::groups(&FakeKernel::default(), &hierarchy, ME, &tree()).unwrap();
    let a = "/cpu/schedlab-7-99-a";
    assert_eq!(
        shown(&made.kept),
        [format!("{a} made"), format!("{a}/small made"), "/cpu/schedlab-7-99-b made".to_owned()]
    );
    assert_eq!(
        shown(&made.within),
        [
            format!("{a}/cpu.shares 2048"),
            format!("{a}/cpu.cfs_quota_us 20000"),
            format!("{a}/cpu.cfs_burst_us 5000"),
            format!("{a}/small/cpu.idle 1"),
            "/cpu/schedlab-7-99-b/cpu.shares 333".to_owned(),
        ]
    );
    assert_eq!(made.places.0[2], Path::new("/cpu/schedlab-7-99-a/small/tasks"));
    assert_eq!(made.places.0[0], Path::new("/cpu/tasks"));
    assert!(
        made.warnings.is_empty() && made.kept.iter().all(|w| w.path.starts_with("/cpu") && is_ours(&w.path))
    );
}

#[test]
fn a_tree_of_v2_is_threaded_and_has_weights() {
    let kernel = scope();
    let made = writes::groups(&kernel, &find(&kernel).unwrap(), ME, &tree()).unwrap();
    let base = "/sys/fs/cgroup/user.slice/run-1.scope";
    assert_eq!(shown(&made.kept)[0], format!("{base}/cgroup.subtree_control +cpu"));
    let a = format!("{base}/schedlab-7-99-a");
    assert_eq!(
        shown(&made.within),
        [
            format!("{a}/cgroup.type threaded"),
            format!("{a}/cgroup.subtree_control +cpu"),
            format!("{a}/cpu.weight 200"),
            format!("{a}/cpu.max 20000 100000"),
            format!("{a}/cpu.max.burst 5000"),
            format!("{a}/small/cgroup.type threaded"),
            format!("{a}/small/cpu.idle 1"),
            format!("{base}/schedlab-7-99-b/cgroup.type threaded"),
            format!("{base}/schedlab-7-99-b/cpu.weight 33"),
        ]
    );
    assert_eq!(made.places.0[1], Path::new(&format!("{a}/cgroup.threads")));
    assert!(made.warnings[0].message.contains("weight 33, which is 338 shares"), "{:?}", made.warnings);
    let mut large = tree();
    large[1].shares = 262_144;
    let e = writes::groups(&kernel, &find(&kernel).unwrap(), ME, &large).unwrap_err();
    assert!(e.kind().exit_code() == 3 && e.to_string().contains("no weight for 262144 shares"), "{e}");
    let given = machine(
        V2,
        "0::/",
        &[
            ("/sys/fs/cgroup/cgroup.controllers", "cpu"),
            ("/sys/fs/cgroup/cgroup.subtree_control", "memory cpu"),
        ],
    );
    let made = writes::groups(&given, &find(&given).unwrap(), ME, &tree()).unwrap();
    assert!(shown(&made.kept)[0].ends_with("schedlab-7-99-a made"), "cpu is given to children already");
}

#[test]
fn a_watched_group_says_what_it_may_and_how_often_it_was_throttled_meanwhile() {
    let stat =
        |periods, throttled| format!("nr_periods {periods}\nnr_throttled {throttled}\nthrottled_usec 5\n");
    let kernel = FakeKernel::with(&[
        ("/proc/self/mountinfo", "31 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
        ("/sys/fs/cgroup/web/cpu.stat", &stat(10, 4)),
        ("/sys/fs/cgroup/web/cpu.max", "200000 100000\n"),
        ("/sys/fs/cgroup/web/cpu.weight", "39\n"),
    ]);
    for word in ["/web", "web", "/sys/fs/cgroup/web"] {
        kernel.files.borrow_mut().insert("/sys/fs/cgroup/web/cpu.stat".into(), stat(10, 4));
        let group = WatchedGroup::begin(&kernel, word).unwrap();
        kernel.files.borrow_mut().insert("/sys/fs/cgroup/web/cpu.stat".into(), stat(30, 5));
        let (stated, counted) = (group.stated(&kernel), group.counted(&kernel));
        assert_eq!((stated.len(), stated["cgroup./web.cpu.max"].as_str()), (2, "200000 100000"), "{word}");
        assert_eq!((counted["group./web.nr_periods"], counted["group./web.nr_throttled"]), (20, 1), "{word}");
    }
    let group = WatchedGroup::begin(&kernel, "/web").unwrap();
    assert_eq!(group.changed(&kernel), None);
    kernel.files.borrow_mut().insert("/sys/fs/cgroup/web/cpu.max".into(), "max 100000".into());
    let changed = group.changed(&kernel).unwrap();
    assert!(
        changed.starts_with("/web: cpu.max was 200000 100000 when") && changed.contains("max 100000"),
        "{changed}"
    );
    kernel.files.borrow_mut().retain(|path, _| !path.starts_with("/sys/fs/cgroup/web/"));
    assert!(group.changed(&kernel).unwrap().contains("removed"));
    assert_eq!(group.stated(&kernel)["cgroup./web.cpu.max"], "200000 100000", "what it was at the beginning");
    let e = WatchedGroup::begin(&kernel, "/db").err().unwrap().to_string();
    assert!(e.contains("'/db'"), "{e}");
}

#[test]
fn counters_of_quotas_are_read_in_either_version() {
    let kernel = FakeKernel::with(&[(
        "/cpu/schedlab-7-99-a/cpu.stat",
        "nr_periods 5\nnr_throttled 4\nthrottled_time 123456\nwait_sum 7\nnr_bursts 0\nburst_time 0",
    )]);
    let hierarchy = Hierarchy { version: Version::V1, base: "/cpu".into(), is_top: true };
    let made = writes::groups(&kernel, &hierarchy, ME, &tree()).unwrap();
    let counted = made.counted(&kernel);
    assert_eq!(
        (counted.len(), counted["group./a.nr_throttled"], counted["group./a.throttled_time"]),
        (5, 4, 123_456)
    );
    kernel.files.borrow_mut().insert(
        "/cpu/schedlab-7-99-a/cpu.stat".into(),
        "usage_usec 9\nnr_periods 2\nthrottled_usec 40\nburst_usec 3\n".into(),
    );
    let counted = made.counted(&kernel);
    assert_eq!((counted["group./a.throttled_time"], counted["group./a.burst_time"]), (40_000, 3_000));
}

#[test]
fn the_root_group_keeps_its_values() {
    let mut groups = tree();
    groups[0].shares = 2;
    let kernel = scope();
    let e = writes::groups(&kernel, &find(&kernel).unwrap(), ME, &groups).unwrap_err();
    assert!(e.to_string().contains("group '/'"), "{e}");
}

#[test]
fn a_session_group_is_reported_if_tasks_stay_in_it() {
    let nanosleep = Spec::bench("nanosleep", &Params::default()).unwrap();
    let Spec::Bench { name, params } = Spec::bench("hogs", &Params::default()).unwrap() else { panic!() };
    let spec = |tasks: &[&str]| {
        let beside = vec![Beside { name: name.clone(), params: params.clone(), rtapp: None, called: None }];
        let tasks = tasks.iter().map(|t| (*t).to_owned()).collect();
        let group = GroupSpec { tasks, ..GroupSpec::at("/x") };
        nanosleep.clone().together(beside, vec![group], (vec![], vec![])).unwrap()
    };
    let kernel = |session: &str| {
        machine(
            V1,
            "4:cpu,cpuacct:/",
            &[("/proc/self/autogroup", session), ("/proc/sys/kernel/sched_autogroup_enabled", "1")],
        )
    };
    let warnings = |session, tasks: &[&str]| {
        groups_of(&kernel(session), &spec(tasks), &[], 1, ME).unwrap().unwrap().warnings
    };
    let in_group = "/autogroup-8 nice 0";
    assert!(warnings("", &["hog"]).is_empty() && warnings(in_group, &["*"]).is_empty());
    let told = warnings(in_group, &["hog"]);
    assert!(told[0].message.starts_with("'sleeper") && told[0].message.contains("autogroup = 0"), "{told:?}");
    let plain = Spec::bench("hogs", &Default::default()).unwrap();
    assert!(
        groups_of(&FakeKernel::default(), &plain, &[], 1, ME).unwrap().is_none(),
        "no groups, no control groups"
    );
}

#[test]
fn groups_are_made_with_the_settings_and_only_surviving_changes_are_undone() {
    let mut plan = Plan::default();
    let kernel = scope();
    plan.group(&writes::groups(&kernel, &find(&kernel).unwrap(), ME, &tree()).unwrap());
    assert_eq!(plan.all().count(), 4, "three folders and the list of controllers");
    assert_eq!(plan.within.len(), 9);
}

#[test]
fn changes_in_mid_run_are_files_of_either_version() {
    use schedlab_kernel::Limit;
    use schedlab_workload::Later;
    let shown = |version, later, bursts| {
        let all = later_writes(version, Path::new("/g"), "/g", &later, bursts).unwrap();
        all.into_iter().map(|(path, value)| format!("{} {value}", path.display())).collect::<Vec<_>>()
    };
    let group = schedlab_base::GroupId(1);
    let limited =
        Later::Limited(group, Limit { quota: Some(Ns::ms(20)), burst: Ns::ms(5), ..Limit::default() });
    assert_eq!(shown(Version::V1, Later::Shares(group, 2048), false), ["/g/cpu.shares 2048"]);
    assert_eq!(shown(Version::V2, Later::Shares(group, 2048), false), ["/g/cpu.weight 200"]);
    assert_eq!(
        shown(Version::V1, limited, true),
        [
            "/g/cpu.cfs_burst_us 0",
            "/g/cpu.cfs_quota_us -1",
            "/g/cpu.cfs_period_us 100000",
            "/g/cpu.cfs_quota_us 20000",
            "/g/cpu.cfs_burst_us 5000",
        ]
    );
    assert_eq!(
        shown(Version::V2, limited, true),
        ["/g/cpu.max.burst 0", "/g/cpu.max 20000 100000", "/g/cpu.max.burst 5000"]
    );
    assert_eq!(shown(Version::V2, Later::Limited(group, Limit::default()), false), ["/g/cpu.max max 100000"]);
    let e = later_writes(Version::V2, Path::new("/g"), "/g", &Later::Shares(group, 2), false).unwrap_err();
    assert!(e.to_string().contains("no weight for 2 shares"), "{e}");
    let shares = |shares| {
        let group =
            schedlab_kernel::GroupChange { path: "/g".into(), shares: Some(shares), ..Default::default() };
        [schedlab_kernel::Change { group: Some(group), ..Default::default() }]
    };
    let said = writes::later_inexact(Version::V2, &shares(333)).unwrap();
    assert!(said[0].code == "cgroup.weight" && said[0].message.contains("333 shares"), "{said:?}");
    assert!(writes::later_inexact(Version::V2, &shares(2048)).unwrap().is_empty());
    assert!(writes::later_inexact(Version::V1, &shares(333)).unwrap().is_empty());
}
