//! Backend 'code' end to end: the kernel's own code on simulated machines. It needs a source package of 6.1 in the
//! cache, from which an image is built once.

use crate::common::{Lab, texts};
use schedlab_base::testing::skipped;
use schedlab_kernels::cache;

/// Whether the cache has the source of 6.1.
pub fn has_source() -> bool {
    let folder = cache::folder(None).map(|f| f.join("sources"));
    let found = folder.ok().and_then(|f| std::fs::read_dir(f).ok()).is_some_and(|all| {
        all.flatten().any(|e| e.file_name().to_string_lossy().starts_with("linux-source-6.1_"))
    });
    if !found {
        skipped("a source package of 6.1 in the cache (schedlab kernel build)");
    }
    found
}

/// Runs schedlab on backend code; exit code, standard output and standard error.
fn run(lab: &Lab, words: &[&str]) -> (i32, String, String) {
    let output = lab.command(words).args(["--backend", "code"]).output().unwrap();
    let (out, said) = texts(&output);
    (output.status.code().unwrap_or(-1), out, said)
}

fn bench(lab: &Lab, words: &[&str]) -> serde_json::Value {
    let (code, out, said) =
        run(lab, &[&["bench"], words, &["--kernel", "6.1", "--json", "--quiet"]].concat());
    assert_eq!(code, 0, "{words:?}: {said}");
    serde_json::from_str(&out).unwrap()
}

fn figure(run: &serde_json::Value, name: &str) -> f64 {
    run["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name} in {run:.300}"))
}

#[test]
fn a_run_is_of_the_kernels_own_code_and_the_same_every_time() {
    if !has_source() {
        return;
    }
    let words = ["hackbench", "--groups", "2", "--loops", "50", "--machine", "smp-8"];
    let (one, other) = (Lab::new(), Lab::new());
    let (first, again) = (bench(&one, &words), bench(&other, &words));
    assert_eq!(first, again);
    assert_eq!((&first["backend"], &first["model"]), (&"code".into(), &1.into()));
    assert!(first["kernel"].as_str().unwrap().starts_with("v6.1."), "{}", first["kernel"]);
    // 2 groups of 20 senders, each with 50 messages to 20 receivers.
    assert!(figure(&first, "wakeups") > 500.0 && figure(&first, "switches.voluntary") > 1000.0);
    assert_ne!(bench(&Lab::new(), &[&words[..], &["--seed", "2"]].concat())["metrics"], first["metrics"]);
}

#[test]
fn every_kind_of_workload_runs() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let short = |name: &str| match name {
        "forks" => vec!["--forks", "20"],
        "hackbench" => vec!["--groups", "1", "--loops", "20"],
        "pipe" => vec!["--loops", "100"],
        _ => vec!["--runtime", "200ms"],
    };
    for name in schedlab_workload::BENCHMARKS.iter().map(|b| b.name) {
        let words = [&[name, "--machine", "spr-2x4"], short(name).as_slice()].concat();
        let run = bench(&lab, &words);
        assert!(figure(&run, "cpu_time") > 0.0, "{name}");
    }
}

#[test]
fn a_kernels_own_features_and_tunables_are_known_and_others_are_not() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let hogs = ["bench", "hogs", "--tasks", "4", "--runtime", "1s", "--machine", "smp-2", "--kernel", "6.1"];
    let slices = |granularity: &str| {
        let tunables = ["--tunable", granularity, "--tunable", "sched_latency_ns=1000000"];
        figure(&bench(&lab, &[&hogs[1..8], &tunables].concat()), "switches.involuntary")
    };
    let (short, long) = (slices("min_granularity_ns=500000"), slices("min_granularity_ns=50000000"));
    assert!(short > 3.0 * long, "{short} switches with slices of 0.5 ms, {long} with slices of 50 ms");
    let (code, _, said) = run(&lab, &[&hogs[..], &["--feature", "SIS_FIRST_IDLE"]].concat());
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("SIS_FIRST_IDLE"), "{said}");
}

/// An experiment of one load on smp-4 with changes in mid-run.
fn changed(lab: &Lab, workload: &str, changes: &str) -> serde_json::Value {
    let text = format!(
        "name = \"changed\"\nmachine = \"smp-4\"\nruns = 1\nmetrics = [\"migrations\", \"cpu_time\"]\n\
         [workload]\n{workload}\n{changes}\n[[variant]]\nkernel = \"6.1\"\n"
    );
    std::fs::write(lab.0.path().join("changed.toml"), text).unwrap();
    let (code, out, said) = run(lab, &["run", "changed.toml", "--json", "--quiet"]);
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn cpus_and_groups_of_running_sleeping_and_unborn_tasks_change_from_outside() {
    if !has_source() {
        return;
    }
    let at = |ms: u64, cpu: u64| format!("[[at]]\ntime = \"{ms}ms\"\ntask = \"hog\"\ncpus = \"{cpu}\"\n");
    let hog = "name = \"hogs\"\ntasks = 1\nruntime = \"500ms\"";
    let moved = changed(&Lab::new(), hog, &[at(50, 3), at(100, 2), at(150, 1), at(200, 3)].concat());
    let migrations = moved["cells"][0]["metrics"]["migrations"]["mean"].as_f64();
    assert!(
        migrations.is_some_and(|n| n >= 3.0),
        "CPU 0 is idle, and nobody there can sleep for it: {moved:.400}"
    );
    let forks = "name = \"forks\"\nforks = 100\n[[group]]\npath = \"/g\"\ntasks = [\"*\"]";
    changed(&Lab::new(), forks, "[[at]]\ntime = \"5ms\"\ngroup = \"/g\"\ncpus = \"0-1\"");
}
