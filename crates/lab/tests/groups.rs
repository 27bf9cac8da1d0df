//! Task groups and workloads beside: keys of experiments, their errors, and a run.

mod common;

use common::experiment;
use schedlab_lab::experiment::parse;
use schedlab_workload::Spec;
use std::path::Path;

const HOGS: &str = "name = 'g'\nruns = 1\nmachine = 'smp-1'\n[workload]\nname = 'hogs'\nruntime = '5s'\n\
                    [[beside]]\nname = 'hogs'\ntasks = 3\ncalled = 'other'\n\
                    [[group]]\npath = '/a'\nshares = 1024\ntasks = ['hog']\n\
                    [[group]]\npath = '/b'\nweight = 300\ntasks = 'other'\n\
                    [[variant]]\nkernel = 'v6.1'\n";

fn error(text: &str) -> String {
    parse(Path::new("e.toml"), text, 4)
        .err()
        .map_or_else(|| panic!("no error in:\n{text}"), |e| e.to_string())
}

#[test]
fn a_group_has_shares_or_a_weight_and_a_workload_beside_runs_as_long() {
    let e = experiment(HOGS);
    let Spec::Together { groups, beside, .. } = &e.loads[0].spec else { panic!("{:?}", e.loads[0].spec) };
    assert_eq!(groups.iter().map(|g| g.shares).collect::<Vec<_>>(), [1024, 3072]);
    assert_eq!(beside[0].called.as_deref(), Some("other"));
    let built = e.loads[0].spec.build(1).unwrap();
    let of = |at: usize| built.groups[built.tasks[at].group.index()].path.clone();
    assert_eq!((of(0), of(1), built.duration.0), ("/a".into(), "/b".into(), 5_000_000_000));
    assert_eq!(e.loads[0].spec.name(), "hogs");
}

#[test]
fn faults_are_placed() {
    for (from, to, wanted) in [
        ("path = '/a'", "path = 'a'", "does not begin with '/'"),
        ("shares = 1024", "shares = 1", "shares are 2 to 262144"),
        ("weight = 300", "weight = 0", "a weight is 1 to 10000"),
        ("weight = 300", "weight = 300\nshares = 3", "not both"),
        ("shares = 1024", "quota = '100us'", "a quota is at least 1 ms"),
        ("shares = 1024", "period = '2s'", "a period is 1 ms to 1 s"),
        ("shares = 1024", "quota = '5ms'\nburst = '6ms'", "a burst is at most the quota, which is 5ms"),
        ("shares = 1024", "burst = '6ms'", "a burst goes with a quota"),
        ("shares = 1024", "shares = 1024\nidle = true", "an idle group has no shares"),
        ("shares = 1024", "cpus = '3-1'", "'3-1'"),
        ("shares = 1024", "cpus = ''", "no CPU is left"),
        ("tasks = ['hog']", "tasks = ['hgo']", "unknown task 'hgo'"),
        ("called = 'other'", "caled = 'other'", "unknown hogs parameter 'caled'"),
        ("name = 'hogs'\ntasks", "name = 'hgos'\ntasks", "did you mean 'hogs'"),
        ("tasks = 3", "tasks = { sweep = [1, 2] }", "not swept"),
    ] {
        let text = HOGS.replacen(from, to, 1);
        assert_ne!(text, HOGS, "{from}");
        let error = error(&text);
        assert!(error.contains(wanted) && error.contains("e.toml:"), "{from}: {error}");
    }
}
