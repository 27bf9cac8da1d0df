//! Backend 'code' end to end: the kernel's own code on simulated machines. It needs a source package of 6.1 in the
//! cache, from which an image is built once; one test needs one of 5.10.

use crate::common::{Lab, texts};
use schedlab_base::testing::skipped;
use schedlab_kernels::cache;

/// Whether the cache has the source of 6.1.
pub fn has_source() -> bool {
    has_source_of("6.1")
}

/// Whether the cache has the source of a series.
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

#[test]
fn deadline_tasks_are_served_first_by_the_kernels_own_class_and_refused_by_our_rules() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    // Two of 3 ms in each 10 ms, and four hogs, on two CPUs.
    let file = r#"{"global": {"duration": 1}, "tasks": {
        "dead": {"instance": 2, "policy": "SCHED_DEADLINE", "dl-runtime": 3000, "dl-period": 10000, "loop": -1,
            "run": 2000, "timer": {"ref": "unique", "period": 10000}},
        "hog": {"instance": 4, "loop": -1, "run": 5000}}}"#;
    std::fs::write(lab.0.path().join("dead.json"), file).unwrap();
    let words = ["dead.json", "--machine", "smp-2"];
    let masked = file.replace("\"loop\": -1,\n", "\"cpus\": [0], \"loop\": -1,\n");
    assert_ne!(masked, file);
    std::fs::write(lab.0.path().join("masked.json"), masked).unwrap();
    let (code, _, said) =
        run(&lab, &["bench", "masked.json", "--machine", "smp-2", "--kernel", "6.1", "--quiet"]);
    assert!(code == 2 && said.contains("task 'dead") && said.contains("not permitted"), "{said}");
    assert!(said.contains("a deadline task may use all CPUs"), "{said}");
    let run = bench(&lab, &words);
    assert!(!run["warnings"].to_string().contains("WARNING in"), "{}", run["warnings"]);
    assert_eq!(figure(&run, "task.dead.switches.involuntary"), 0.0);
    assert!(figure(&run, "task.dead.wakeup_delay.p90") < 100_000.0, "{run:.300}");
    let cpu_time = figure(&run, "task.dead.cpu_time");
    assert!((390e6..420e6).contains(&cpu_time), "{cpu_time}");
    let refused = lab.command(&["bench", "dead.json", "--machine", "smp-2"]).output().unwrap();
    let (_, said) = texts(&refused);
    assert_eq!(refused.status.code(), Some(2), "{said}");
    assert!(said.contains("no SCHED_DEADLINE") && said.contains("--backend code"), "{said}");
}

/// The text of an experiment of a patch with a sysctl of its own, and with that sysctl set in the second variant.
fn with_sysctl(lab: &Lab, sysctl: &str) -> (i32, String, String) {
    let patch = include_str!("cases/files/own-sysctl-and-fork.patch");
    lab.write("meek.patch", patch);
    let variant = |name: &str, value: u64| {
        format!(
            "[[variant]]\nname = \"{name}\"\nkernel = \"6.1\"\npatch = [\"meek.patch\"]\ntunables = {{ {sysctl} = {value} }}\n"
        )
    };
    let text = format!(
        "name = \"meek\"\nmachine = \"smp-2\"\nruns = 1\nmetrics = [\"switches.involuntary\"]\n[workload]\nname = \"slice\"\n\
         runtime = \"500ms\"\n{}{}",
        variant("bold", 0),
        variant("meek", 1)
    );
    lab.write("meek.toml", &text);
    run(lab, &["run", "meek.toml", "--json", "--quiet"])
}

#[test]
fn a_sysctl_of_a_patch_is_a_tunable_and_left_out_files_are_a_warning() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let (code, out, said) = with_sysctl(&lab, "sched_meek");
    assert_eq!(code, 0, "{said}");
    let made: serde_json::Value = serde_json::from_str(&out).unwrap();
    let switches = |i: usize| made["cells"][i]["metrics"]["switches.involuntary"]["mean"].as_f64().unwrap();
    assert!(switches(0) > 2.0 * switches(1), "{} and {} switches", switches(0), switches(1));
    let warnings = made["warnings"].to_string();
    assert!(warnings.contains("kernel/fork.c, which the image does not compile"), "{warnings}");
    assert!(!warnings.contains("kernel/sched/"), "{warnings}");
    let (code, _, said) = with_sysctl(&lab, "sched_meak");
    assert_eq!(code, 2, "{said}");
    assert!(said.contains("unknown tunable 'sched_meak'") && said.contains("sched_meek"), "{said}");
}

/// A mailbox: an answer, the second mail of a series, its cover letter, and the first one.
const SERIES: &str = include_str!("cases/files/own-sysctl-series.mbox");

#[test]
fn a_series_on_standard_input_is_tried() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let words = "try - --backend code --source 6.1 --machine smp-2 --load hogs --runs 1";
    let words: Vec<&str> = words.split(' ').collect();
    let output = lab.command(&words).write_stdin(SERIES).output().unwrap();
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
fn a_wakeup_is_searched_for_before_the_first_tick_as_on_a_machine_that_was_up_for_long() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let load = r#"{"global": {"duration": 3}, "tasks": {"t": {"instance": 8, "cpus": [4, 5, 6, 7], "loop": -1,
                   "run": 20, "sleep": 1000}}}"#;
    std::fs::write(lab.0.path().join("load.json"), load).unwrap();
    let text = "name = \"rest\"\nmachine = \"smp-8\"\nruns = 1\nmetrics = [\"woken.llc\"]\n[workload]\n\
                rtapp = \"load.json\"\nruntime = \"3500us\"\n[[variant]]\nkernel = \"6.1\"\n";
    let found = found(&lab, text);
    let elsewhere = found["cells"][0]["metrics"]["woken.llc"]["mean"].as_f64().unwrap();
    assert!(elsewhere > 0.0, "SIS_UTIL scans a cache that was idle: {found:.600}");
}

#[test]
fn a_preemption_model_is_set_in_the_image() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let words = ["hackbench", "--groups", "2", "--loops", "100", "--machine", "smp-2"];
    let of = |model: &str| bench(&lab, &[&words[..], &["--tunable", &format!("preempt={model}")]].concat());
    let (full, none) = (of("full"), of("none"));
    let preempted = |run: &serde_json::Value| figure(run, "switches.involuntary");
    assert!(preempted(&full) > preempted(&none), "{} and {}", preempted(&full), preempted(&none));
}

#[test]
fn a_run_under_guard_is_the_same_run() {
    if !has_source() {
        return;
    }
    let words =
        ["hogs", "--tasks", "4", "--runtime", "50ms", "--machine", "smp-2", "--kernel", "6.1", "--json"];
    let at = |level: &str, debug: &str| {
        let lab = Lab::new();
        let code = ["--quiet", "--backend", "code", "--level", level];
        let mut command = lab.command(&[&["bench"], &words[..], &code].concat());
        let output = command.env("SCHEDLAB_CODE_DEBUG", debug).output().unwrap();
        (output.status.code(), texts(&output))
    };
    let of = |debug: &str| at("free", debug);
    let (plain, guarded) = (of(""), of("guard"));
    assert_eq!(plain, guarded);
    let (code, (_, said)) = of("gard");
    assert!(code == Some(2) && said.contains("SCHEDLAB_CODE_DEBUG") && said.contains("'guard'"), "{said}");
    let (code, (_, said)) = at("counted", "guard");
    assert!(code == Some(2) && said.contains("guard is for level free"), "one cell has one price: {said}");
}
