//! Kernels from source, end to end. SCHEDLAB_TEST_BUILD=1 builds and boots each patch that ships; SCHEDLAB_TEST_SCX=1
//! builds the scheduler in `examples/scx` and runs a workload under it. SCHEDLAB_TEST_KERNEL=6.1, or any other image,
//! makes runs of that kernel in deterministic guests. Without them only bad input is tested, which builds nothing.

mod common;

use common::{Lab, texts};
use std::path::Path;

/// The patches of the four mechanisms that stand alone, and the series of D001.
const PATCHES: &[&[&str]] = &[
    &["first-idle"],
    &["idle-cfs-rq"],
    &["fair-sleepers"],
    &["migration-cost"],
    &["newidle-1-sg-scan", "newidle-2-features", "newidle-3-snapshot", "newidle-4-util-fast"],
];

fn is_asked(variable: &str) -> bool {
    let asked = std::env::var_os(variable).is_some();
    if !asked {
        println!("skipped: {variable} is not set");
    }
    asked
}

/// Runs schedlab, and returns exit code, standard output and standard error.
fn run(lab: &Lab, words: &[&str]) -> (i32, String, String) {
    let output = lab.command(words).output().unwrap();
    let (out, said) = texts(&output);
    (output.status.code().unwrap_or(-1), out, said)
}

fn path_of(json: &str) -> String {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    value["path"].as_str().unwrap().to_owned()
}

/// A metric's value in a run's JSON.
fn figure(json: &str, name: &str) -> f64 {
    let value: serde_json::Value = serde_json::from_str(json).unwrap();
    value["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name} in {json:.300}"))
}

#[test]
fn each_patch_boots_with_8_and_32_cpus_and_does_nothing_while_its_feature_is_off() {
    if !is_asked("SCHEDLAB_TEST_BUILD") {
        return;
    }
    let lab = Lab::new();
    let build = |patches: &[&str]| {
        let mut words = vec!["kernel", "build", "--json", "-q"];
        patches.iter().for_each(|p| words.extend(["--patch", p]));
        let (code, out, said) = run(&lab, &words);
        assert_eq!(code, 0, "{patches:?}: {said}");
        path_of(&out)
    };
    let bench = |kernel: &str, machine: &str| {
        let words = [
            "bench",
            "pipe",
            "--loops",
            "200",
            "--pairs",
            "4",
            "--backend",
            "vm",
            "--guest-mode",
            "deterministic",
            "--kernel",
            kernel,
            "--machine",
            machine,
            "--json",
            "-q",
        ];
        let (code, out, said) = run(&lab, &words);
        assert_eq!(code, 0, "{kernel} on {machine}: {said}");
        out
    };
    let base = bench(&build(&[]), "smp-8");
    for patches in PATCHES {
        let kernel = build(patches);
        let off = bench(&kernel, "smp-8");
        bench(&kernel, "smp-32");
        // A switched-off feature is a few instructions on the way, so times shift a little. What happens stays the
        // same.
        for name in ["woken", "switches.voluntary"] {
            let (a, b) = (figure(&base, name), figure(&off, name));
            assert!((a - b).abs() <= 0.02 * a, "{patches:?}: {name} {a} and {b}");
        }
    }
}

#[test]
fn a_workload_runs_under_the_smallest_scheduler() {
    if !is_asked("SCHEDLAB_TEST_SCX") {
        return;
    }
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scx");
    let lab = Lab::new();
    let built = std::process::Command::new(example.join("build.sh")).arg(lab.path()).status().unwrap();
    assert!(built.success());
    std::fs::copy(example.join("fifo.toml"), lab.path().join("fifo.toml")).unwrap();
    let words = ["run", "fifo.toml", "--backend", "vm", "--runs", "1", "--format", "csv", "-q"];
    let (code, out, said) = run(&lab, &words);
    assert_eq!(code, 0, "{said}");
    assert!(out.lines().any(|l| l.contains("fifo")), "{out}");
    let records = std::process::Command::new("grep")
        .args(["-rl", "schedlab_fifo", "runs"])
        .current_dir(lab.path())
        .output()
        .unwrap();
    assert!(!records.stdout.is_empty(), "a record names the scheduler that had the tasks");
}

#[test]
fn a_patch_that_is_not_there_or_is_none_is_told_before_anything_is_built() {
    let lab = Lab::new();
    std::fs::write(lab.path().join("x.patch"), "hello\n").unwrap();
    let (code, _, said) = run(&lab, &["try", "x.patch", "-q"]);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("x.patch"), "{said}");
    let (code, _, said) = run(&lab, &["try", "first-idel", "-q"]);
    assert!(code == 2 && said.contains("first-idle"), "{said}");
    let (code, _, said) = run(&lab, &["try", "first-idle", "--feature", "OTHER", "-q"]);
    assert!(code == 2 && said.contains("SIS_FIRST_IDLE"), "{said}");
}

#[test]
fn a_bisection_needs_a_repository_and_ends_that_are_commits() {
    let lab = Lab::new();
    let words = ["bisect", "--good", "a", "--bad", "b", "--metric", "migrations", "--load", "storm", "-q"];
    let (code, _, said) = run(&lab, &words);
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("--good") && said.contains("git"), "{said}");
    let git = |words: &[&str]| {
        let who = ["-c", "user.name=x", "-c", "user.email=x@example.org"];
        let done =
            std::process::Command::new("git").args(who).args(words).current_dir(lab.path()).status().unwrap();
        assert!(done.success(), "{words:?}");
    };
    git(&["init", "-q"]);
    git(&["commit", "-q", "--allow-empty", "-m", "1"]);
    git(&["commit", "-q", "--allow-empty", "-m", "2"]);
    let words = ["bisect", "--good", "HEAD~1", "--metric", "migrations", "--load", "strom", "-q"];
    let (code, _, said) = run(&lab, &words);
    assert!(code == 2 && said.contains("storm"), "an unknown load, before anything is built: {said}");
}

#[test]
fn a_hunt_writes_what_it_found_and_confirms_it() {
    let lab = Lab::new();
    let words = [
        "hunt",
        "v6.5",
        "--wrong",
        "nice-preemption",
        "--evals",
        "160",
        "--machine",
        "smp-2",
        "--out",
        "found",
        "-q",
    ];
    let (code, out, said) = run(&lab, &words);
    assert_eq!(code, 0, "{said}");
    assert!(out.contains("confirmed by other seeds on sim") && out.contains("nice -5"), "{out}");
    let experiment = lab.path().join("found/latency.toml");
    assert!(experiment.is_file() && lab.path().join("found/latency.json").is_file(), "{out}");
    let (code, table, said) = run(&lab, &["run", "found/latency.toml", "--runs", "2", "-q"]);
    assert_eq!(code, 0, "{said}");
    assert!(table.contains("wakeup_delay"), "{table}");
}

/// Three loads that leave the scheduler in different states.
const THREE: &str = r#"
name = "three"
about = "does a load depend on the loads beside it?"
runs = 2
machines = ["smp-4"]
metrics = ["migrations"]
[[workload]]
name = "hackbench"
groups = 1
fds = 4
loops = 6
[[load]]
workload = "hackbench"
name = "messages"
[[workload]]
name = "rr"
runtime = "30ms"
[[load]]
workload = "rr"
name = "clients"
pairs = 4
[[workload]]
name = "nanosleep"
runtime = "30ms"
[[load]]
workload = "nanosleep"
name = "storm"
tasks = 4
[[variant]]
"#;

/// The records in a store, as bytes, by their places.
fn records(store: &Path) -> std::collections::BTreeMap<String, Vec<u8>> {
    let folders = |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let runs =
        folders(store).filter(|path| path.is_dir()).flat_map(|cell| folders(&cell).collect::<Vec<_>>());
    let read = |run: std::path::PathBuf| {
        let bytes = std::fs::read(run.join("record.json")).ok()?;
        let guest = String::from_utf8_lossy(&bytes).contains("\"at_rest\":true");
        guest.then(|| (run.strip_prefix(store).unwrap().display().to_string(), bytes))
    };
    runs.filter_map(read).collect()
}

#[test]
fn a_load_s_records_are_the_same_bytes_alone_and_beside_others() {
    let Ok(kernel) = std::env::var("SCHEDLAB_TEST_KERNEL") else {
        return println!("skipped, nothing was booted: SCHEDLAB_TEST_KERNEL names no kernel");
    };
    let lab = Lab::new();
    if run(&lab, &["kernel", "list"]).0 != 0 || schedlab_guest::find_qemu().is_err() {
        return println!("skipped, nothing was booted: there is no QEMU");
    }
    lab.write("three.toml", &format!("{THREE}kernel = \"{kernel}\"\n"));
    let made = |more: &[&str]| {
        let words = ["run", "three.toml", "--backend", "vm", "--guest-mode", "deterministic", "-q"];
        lab.ok(&[&words[..], more].concat());
    };
    made(&["--out", "beside"]);
    // In another process, without the loads that stood before it, and without the seed before.
    made(&["--out", "alone", "--load", "storm", "--runs", "1", "--seed", "2"]);
    let (beside, alone) = (records(&lab.path().join("beside")), records(&lab.path().join("alone")));
    assert_eq!((beside.len(), alone.len()), (6, 1), "{:?} {:?}", beside.keys(), alone.keys());
    for (place, record) in &alone {
        assert!(beside.get(place).is_some_and(|other| other == record), "{place} differs");
        let first = place.replace("/2", "/1");
        assert!(beside.get(&first).is_some_and(|other| other != record), "seeds give different runs");
    }
}
