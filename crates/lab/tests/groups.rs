//! Task groups and `[[beside]]` workloads: keys of experiments, their errors, and a run.

use crate::common::experiment;
use schedlab_lab::ask::experiment::parse;
use schedlab_lab::{Backend, Backends, Executor, Options, plan};
use schedlab_record::Findings;
use schedlab_workload::Spec;
use std::path::Path;
use std::sync::atomic::AtomicBool;

const HOGS: &str = "name = 'g'\nruns = 1\nmachine = 'smp-1'\n[workload]\nname = 'hogs'\nruntime = '5s'\n\
                    [[beside]]\nname = 'hogs'\ntasks = 3\ncalled = 'other'\n\
                    [[group]]\npath = '/a'\nshares = 1024\ntasks = ['hog']\n\
                    [[group]]\npath = '/b'\nweight = 300\ntasks = 'other'\n\
                    [[variant]]\nkernel = 'v6.1'\n";

/// The places of changes in [`HOGS`], and of a variant's own tables.
const AT: &str = "[[variant]]";
const KERNEL: &str = "kernel = 'v6.1'\n";

fn error(text: &str) -> String {
    parse(Path::new("e.toml"), text, 4)
        .err()
        .map_or_else(|| panic!("no error in:\n{text}"), |e| e.to_string())
}

#[test]
fn a_group_has_shares_or_a_weight_and_a_neighbour_runs_as_long() {
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
        (
            AT,
            "[[at]]\ntime = '1s'\ntask = 'hog'\ncpus = '5'\n[[variant]]",
            "task 'hog' may run on CPUs 5 only from 1s",
        ),
        (AT, "[[at]]\ntime = '1s'\ngroup = '/b'\ncpus = '5'\n[[variant]]", "but smp-1 has 0"),
        (
            "weight = 300",
            "idle = true\n[[at]]\ntime = '1s'\ngroup = '/b'\nweight = 9\n[[group]]\npath = '/c'",
            "group '/b' is idle",
        ),
        (
            KERNEL,
            "kernel = 'v6.1'\n[[variant.group]]\npath = '/b'\nidle = true\n[[variant.at]]\ntime = '1s'\ngroup = '/b'\nshares = 9\n",
            "group '/b' is idle",
        ),
        (
            KERNEL,
            "kernel = 'v6.1'\n[[variant.group]]\npath = '/b'\nqota = 'max'\n",
            "unknown key in [[variant.group]] 'qota'",
        ),
        (KERNEL, "kernel = 'v6.1'\n[[variant.group]]\npath = '/b'\nloads = ['x']\n", "[[load]] has variants"),
        (
            "name = 'hogs'\ntasks = 3",
            "rtapp = 'none.json'\nrtapp_text = '{}'",
            "rtapp or rtapp_text, not both",
        ),
    ] {
        let text = HOGS.replacen(from, to, 1);
        assert_ne!(text, HOGS, "{from}");
        let error = error(&text);
        assert!(error.contains(wanted) && error.contains("e.toml:"), "{from}: {error}");
    }
}

#[test]
fn a_benchmark_that_can_not_be_a_neighbour_is_reported_at_its_own_table() {
    let text = "name = 'g'\nruns = 1\nmachine = 'smp-2'\n[workload]\nname = 'schbench'\n\
                [[beside]]\nname = 'embedded-db'\n[[variant]]\nkernel = 'v6.1'\n";
    let error = error(text);
    assert!(error.contains("e.toml:6") && error.contains("make embedded-db the workload"), "{error}");
}

/// The findings of the only run of an experiment.
fn found(text: &str) -> Findings {
    let p = plan(&experiment(text), Backend::Sim, Options::default()).unwrap();
    let made = Backends::default().run(&p.cells[0], 1, &AtomicBool::new(false)).unwrap();
    made.unwrap().record.found
}

/// The texts of its warnings with that code.
fn warned<'f>(found: &'f Findings, code: &str) -> Vec<&'f str> {
    found.warnings.iter().filter(|w| w.code == code).map(|w| w.message.as_str()).collect()
}

#[test]
fn results_of_the_same_benchmark_as_neighbour_stay_apart_and_its_end_is_reported() {
    let found = found(
        "name = 'p'\nruns = 1\nmachine = 'smp-4'\n[workload]\nname = 'pipe'\nloops = 5000\n\
         [[beside]]\nname = 'pipe'\nloops = 100\n[[variant]]\nkernel = 'v6.1'\n",
    );
    let elapsed = |name: &str| {
        let series = &found.series[name];
        (series.count(), series.max().unwrap())
    };
    let (own, other) = (elapsed("pipe.elapsed"), elapsed("beside.pipe.elapsed"));
    assert!(own.0 == 1 && other.0 == 1 && own.1 > 10 * other.1, "{own:?} {other:?}");
    let early = warned(&found, "beside.ended");
    assert!(early.len() == 1 && early[0].starts_with("pipe beside the workload was done after"), "{early:?}");
}

#[test]
fn each_neighbour_ends_with_its_tasks_in_the_measured_time() {
    let found = found(
        "name = 'w'\nruns = 1\nmachine = 'smp-4'\n[workload]\nname = 'schbench-modern'\nruntime = '1s'\n\
         warmup = '500ms'\n[[beside]]\nname = 'pipe'\nloops = 10\n\
         [[beside]]\nname = 'pipe'\nloops = 20000000\n\
         [[beside]]\nrtapp_text = '{ \"tasks\": { \"a\": { \"loop\": 1, \"sleep\": 800000 } } }'\ncalled = 'x'\n\
         [[beside]]\nname = 'hogs'\n[[variant]]\nkernel = 'v6.1'\n",
    );
    let early = warned(&found, "beside.ended");
    assert_eq!(early.len(), 2, "{early:?}");
    assert!(early[0].starts_with("pipe beside the workload was done before the measured time"), "{early:?}");
    assert!(
        early[1].starts_with("x beside the workload was done after") && early[1].contains("of 1s"),
        "{early:?}"
    );
}

#[test]
fn a_change_that_the_run_ended_before_is_reported() {
    for change in ["group = '/a'\nshares = 9", "features = ['NO_WAKEUP_PREEMPTION']"] {
        let found = found(&format!(
            "name = 'c'\nruns = 1\nmachine = 'smp-2'\n[workload]\nname = 'pipe'\nloops = 100\n\
             [[group]]\npath = '/a'\ntasks = ['*']\n[[at]]\ntime = '20s'\n{change}\n\
             [[variant]]\nkernel = 'v6.1'\n"
        ));
        let missed = warned(&found, "settings.missed");
        assert_eq!(missed, ["the run was over before its change at 20s was made"], "{change}");
    }
}
