//! Backend 'code' end to end: the kernel's own code on simulated machines. It needs a source package of 6.1 in the
//! cache, from which an image is built once; one test needs one of 5.10.

use crate::common::{Lab, texts};
use schedlab_base::testing::skipped;
use schedlab_kernels::cache;

/// Whether the cache has the source of 6.1.
pub fn has_source() -> bool {
    has_source_of("6.1")
}

pub fn has_source_of(series: &str) -> bool {
    let folder = cache::folder(None).map(|f| f.join("sources"));
    let name = format!("linux-source-{series}_");
    let found = folder
        .ok()
        .and_then(|f| std::fs::read_dir(f).ok())
        .is_some_and(|all| all.flatten().any(|e| e.file_name().to_string_lossy().starts_with(&name)));
    if !found {
        skipped(format!("a source package of {series} in the cache (schedlab kernel build --code {series})"));
    }
    found
}

/// A lab, if the cache has the source of a series.
pub fn lab_of(series: &str) -> Option<Lab> {
    has_source_of(series).then(Lab::new)
}

/// Runs schedlab on backend code; exit code, standard output and standard error.
fn run(lab: &Lab, words: &[&str]) -> (i32, String, String) {
    let output = lab.command(words).args(["--backend", "code"]).output().unwrap();
    let (out, said) = texts(&output);
    (output.status.code().unwrap_or(-1), out, said)
}

fn bench(lab: &Lab, words: &[&str]) -> serde_json::Value {
    bench_under(lab, "6.1", words)
}

fn bench_under(lab: &Lab, series: &str, words: &[&str]) -> serde_json::Value {
    let (code, out, said) =
        run(lab, &[&["bench"], words, &["--kernel", series, "--json", "--quiet"]].concat());
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
    assert_eq!((&first["backend"], &first["model"]), (&"code".into(), &schedlab_record::ENGINE.into()));
    assert!(first["kernel"].as_str().unwrap().starts_with("v6.1."), "{}", first["kernel"]);
    // 2 groups of 20 senders, each with 50 messages to 20 receivers.
    assert!(figure(&first, "wakeups") > 500.0 && figure(&first, "switches.voluntary") > 1000.0);
    assert_ne!(bench(&Lab::new(), &[&words[..], &["--seed", "2"]].concat())["metrics"], first["metrics"]);
}

#[test]
fn every_kind_of_workload_runs() {
    if has_source() {
        every_kind_runs_under("6.1");
    }
}

#[test]
fn the_oldest_series_runs_every_kind_of_workload() {
    if has_source_of("5.10") {
        every_kind_runs_under("5.10");
    }
}

fn every_kind_runs_under(series: &str) {
    let lab = Lab::new();
    let short = |name: &str| match name {
        "forks" => vec!["--forks", "20"],
        "hackbench" => vec!["--groups", "1", "--loops", "20"],
        "pipe" => vec!["--loops", "100"],
        _ => vec!["--runtime", "200ms"],
    };
    for name in schedlab_workload::BENCHMARKS.iter().map(|b| b.name) {
        let words = [&[name, "--machine", "spr-2x4"], short(name).as_slice()].concat();
        let run = bench_under(&lab, series, &words);
        assert!(figure(&run, "cpu_time") > 0.0, "{name}");
        assert!(run["kernel"].as_str().unwrap().starts_with(&format!("v{series}.")), "{}", run["kernel"]);
    }
}

/// The mean of a metric of each cell, by backend.
fn by_backend<'a>(result: &'a serde_json::Value, metric: &str) -> Vec<(&'a str, f64)> {
    let cells = result["cells"].as_array().into_iter().flatten();
    cells.filter_map(|c| Some((c["backend"].as_str()?, c["metrics"][metric]["mean"].as_f64()?))).collect()
}

#[test]
fn linked_machines_are_simulated_by_rules_and_the_code_part_runs() {
    if !has_source() {
        return;
    }
    // The clients are 200 us away, so that no answer comes before 400 us, and nobody would run v4.5's code.
    let text = "name = \"linked\"\nmachine = \"smp-2\"\nruns = 2\nmetrics = [\"cpu_time\"]\n\
                [workload]\nname = \"stream-rr\"\nclients = 4\nruntime = \"200ms\"\n\
                [[remote]]\nname = \"clients\"\nkernel = \"v4.5\"\ndelay = \"200us\"\nqueues = 2\ntasks = [\"client\"]\n\
                [[variant]]\nkernel = \"v4.5\"\n\
                [code]\nmachine = \"smp-4\"\nleft_out = \"4.5 has no shims\"\n\
                metrics = [\"stream-rr.latency.p50\", \"stream-rr.throughput\", \"wakeups\"]\n\
                [[code.variant]]\nkernel = \"6.1\"\n";
    let lab = Lab::new();
    std::fs::write(lab.0.path().join("linked.toml"), text).unwrap();
    let (code, out, said) = run(&lab, &["run", "linked.toml", "--json", "--quiet"]);
    assert_eq!(code, 0, "{said}");
    let result: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert!(out.contains("4.5 has no shims") && !out.contains("smp-2"), "{out:.400}");
    let latency = by_backend(&result, "stream-rr.latency.p50");
    assert_eq!(latency.iter().map(|(backend, _)| *backend).collect::<Vec<_>>(), ["code", "sim"]);
    assert!(latency.iter().all(|(_, ns)| *ns > 400_000.0), "{latency:?}");
    for metric in ["stream-rr.throughput", "wakeups"] {
        let [(_, code), (_, sim)] = by_backend(&result, metric)[..] else { panic!("{metric}: {out:.400}") };
        assert!((0.7..1.4).contains(&(code / sim)), "{metric}: {code} and {sim}");
    }
}

/// A mailbox: an answer, the second mail of a series, its cover letter, and the first one.
const SERIES: &str = include_str!("cases/files/own-sysctl-series.mbox");

#[test]
fn a_series_on_standard_input_is_tried() {
    let Some(lab) = lab_of("6.1") else { return };
    let words = "try - --backend code --source 6.1 --machine smp-2 --load hogs --runs 1";
    let output = lab.command(words).write_stdin(SERIES).output().unwrap();
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let at = |text: &str| out.find(text).unwrap_or_else(|| panic!("no {text} in {out}"));
    assert!(at("a sysctl of its own, and a line in fork") < at("meek by default"), "{out}");
    let words = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words.contains("(mail 4) changes kernel/fork.c, which the image does not compile"), "{out}");
}

/// The result of an experiment.
fn found(lab: &Lab, text: &str) -> serde_json::Value {
    std::fs::write(lab.0.path().join("it.toml"), text).unwrap();
    let (code, out, said) = run(lab, &["run", "it.toml", "--json", "--quiet"]);
    assert_eq!(code, 0, "{said}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn quotas_are_counted() {
    if !has_source() {
        return;
    }
    let text = "name = \"quota\"\nmachine = \"smp-4\"\nruns = 1\nmetrics = [\"group./g.nr_periods\", \
                \"group./g.nr_throttled\", \"group./g.throttled_time\"]\n[workload]\nname = \"hogs\"\ntasks = 2\n\
                runtime = \"1s\"\n[[group]]\npath = \"/g\"\ntasks = [\"*\"]\nquota = \"50ms\"\nperiod = \"100ms\"\n\
                [[variant]]\nkernel = \"6.1\"\n";
    let found = found(&Lab::new(), text);
    let mean =
        |name: &str| found["cells"][0]["metrics"][format!("group./g.{name}")]["mean"].as_f64().unwrap();
    assert!((9.0..=11.0).contains(&mean("nr_periods")) && mean("nr_throttled") >= 8.0, "{found:.600}");
    assert!(mean("throttled_time") > 0.5e9, "two hogs have a quarter of what they want: {found:.600}");
}

#[test]
fn a_child_is_in_its_makers_group() {
    if !has_source() {
        return;
    }
    let text = "name = \"children\"\nmachine = \"smp-4\"\nruns = 1\nmetrics = [\"group./g.nr_throttled\"]\n\
                [workload]\nname = \"schbench\"\nmessage_threads = 1\nthreads = 4\nruntime = \"1s\"\n[[group]]\n\
                path = \"/g\"\ntasks = [\"*\"]\nquota = \"20ms\"\nperiod = \"100ms\"\n[[variant]]\nkernel = \"6.1\"\n";
    let found = found(&Lab::new(), text);
    let throttled = found["cells"][0]["metrics"]["group./g.nr_throttled"]["mean"].as_f64().unwrap();
    assert!(throttled >= 8.0, "the message thread makes workers that want four CPUs: {found:.600}");
}

#[test]
fn a_preemption_model_is_set_in_the_image() {
    let Some(lab) = lab_of("6.1") else { return };
    let words = ["hackbench", "--groups", "2", "--loops", "100", "--machine", "smp-2"];
    let of = |model: &str| bench(&lab, &[&words[..], &["--tunable", &format!("preempt={model}")]].concat());
    let (full, none) = (of("full"), of("none"));
    let preempted = |run: &serde_json::Value| figure(run, "switches.involuntary");
    assert!(preempted(&full) > preempted(&none), "{} and {}", preempted(&full), preempted(&none));
}
