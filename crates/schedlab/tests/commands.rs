//! Each command from end to end: what it prints, in every form, and what it leaves behind.

use crate::common;
use crate::common::{Lab, files, texts};
use schedlab_base::testing::skipped;
use std::path::Path;

/// Checks that the lines of a plain table can be pasted into mail.
fn narrow(text: &str) {
    assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
}

/// Counts the entries of a list with wrapped lines.
fn firsts(list: &str) -> usize {
    list.lines().filter(|l| !l.starts_with(' ')).count()
}

#[test]
fn a_machine_has_the_costs_of_the_kernel_asked_for() {
    let lab = Lab::new();
    let tick = |kernel: &str| {
        let json = lab.json(&["machine", "icount-4", "--kernel", kernel, "--json"]);
        json["machine"]["costs"]["tick_ns"].as_u64().unwrap()
    };
    assert!(tick("v6.1") > tick("v7.3"));
}

#[test]
fn studies_are_listed() {
    let lab = Lab::new();
    let text = lab.ok(&["study"]);
    narrow(&text);
    narrow(&lab.ok(&["bench", "--tools"]));
    assert!(text.lines().any(|l| l.starts_with("idle-sibling ")), "{text}");
    let json = lab.json(&["study", "--json"]);
    assert_eq!(json["schema"], "schedlab/studies/1");
    assert_eq!(json["studies"].as_array().unwrap().len(), firsts(&text));
    assert!(json["studies"][0]["about"].as_str().unwrap().len() > 10);
}

#[test]
fn a_study_is_narrowed_to_its_own_loads_and_variants() {
    let lab = Lab::new();
    assert!(lab.run(&["study", "idle-sibling", "--load", "2x23"], 2).1.contains("unknown load '2x23'"));
    let (_, err) = lab.run(&["study", "idle-sibling", "--variant", "frist-idle"], 2);
    assert!(err.contains("did you mean 'first-idle'?"), "{err}");
    assert!(!lab.path().join("runs").exists());
    lab.write("own.toml", &common::SMALL.replace("threads = 6", "threads = 6\nvariants = [\"v4.5\"]"));
    let (_, err) = lab.run(&["run", "own.toml", "--load", "1x6", "--variant", "first-idle"], 2);
    assert!(err.contains("load '1x6' runs under v4.5"), "{err}");
}

#[test]
fn an_experiment_gives_a_table_and_run_folders() {
    let lab = Lab::new();
    let (text, err) = lab.run(&["run", "small.toml", "--timing"], 0);
    narrow(&text);
    for part in ["small", "1x2", "1x6", "smp-4", "first-idle", "v4.5", "work", "migrations"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(err.contains("12 runs made, 0 found; kept in runs"), "{err}");
    assert!(err.contains("events/wakeup") && err.contains("schbench 1x6 first-idle on smp-4"), "{err}");
    let stored = files(&lab.path().join("runs"));
    let experiments =
        stored.iter().filter(|(n, b)| n.ends_with("experiment.toml") && b == common::SMALL.as_bytes());
    assert_eq!((stored.len(), experiments.count()), (24, 12));
    // Again: nothing is made, and the table is the same to the byte.
    let (again, err) = lab.run(&["run", "small.toml"], 0);
    assert_eq!(again, text);
    assert!(err.contains("0 runs made, 12 found"), "{err}");
}

#[test]
fn every_form_of_a_comparison_can_be_asked_for() {
    let lab = Lab::new();
    let form = |name: &str| lab.ok(&["run", "small.toml", "--runs", "2", "-q", "--format", name]);
    assert!(form("lkml").contains("case            \tload"));
    assert!(form("markdown").starts_with("| machine | load |"));
    let csv = form("csv");
    assert!(csv.starts_with("experiment,backend,machine") && csv.ends_with("\r\n"), "{csv:?}");
    assert!(csv.lines().next().unwrap().ends_with(",astray") && !csv.contains('\\'), "{csv:?}");
    let json = lab.json(&["run", "small.toml", "--runs", "2", "-q", "--json"]);
    assert_eq!(
        (json["schema"].as_str(), json["cells"].as_array().unwrap().len()),
        (Some("schedlab/comparison/1"), 4)
    );
    let (_, err) = lab.run(&["run", "small.toml", "--format", "json"], 2);
    assert!(err.contains("--json"), "{err}");
}

#[test]
fn loads_variants_runs_and_seed_can_be_chosen() {
    let lab = Lab::new();
    let words = [
        "run",
        "small.toml",
        "--load",
        "1x6",
        "--variant",
        "first-idle",
        "--runs",
        "2",
        "--seed",
        "40",
        "--json",
    ];
    let json = lab.json(&words);
    let cells = json["cells"].as_array().unwrap();
    assert_eq!((cells.len(), cells[0]["load"].as_str()), (1, Some("1x6")));
    assert_eq!(cells[0]["seeds"], serde_json::json!([40, 41]));
}

#[test]
fn an_experiment_runs_on_the_live_kernel_too() {
    let lab = Lab::new();
    let json =
        lab.json(&["run", "small.toml", "--backend", "host", "--load", "1x2", "--runs", "1", "--json"]);
    assert_eq!(json["cells"][0]["variant"], "running");
    assert!(json["cells"][0]["metrics"]["schbench.latency.p50"]["mean"].as_f64().unwrap() > 0.0);
    assert!(json["cells"][0]["metrics"]["work"]["missing"].as_str().unwrap().contains("host"));
    assert_eq!(json["published"], serde_json::Value::Null);
}

#[test]
fn same_seed_same_bytes_whatever_the_number_of_jobs() {
    let lab = Lab::new();
    let one = lab.ok(&["run", "small.toml", "--jobs", "1", "--out", "one", "--json"]);
    let two = lab.ok(&["run", "small.toml", "--jobs", "2", "--out", "two", "--json", "--timing"]);
    // Only the folders of the runs differ, as asked for.
    assert!(one.contains("\"one/") && one.replace("\"one/", "\"two/") == two, "the JSON differs");
    let (one, two) = (files(&lab.path().join("one")), files(&lab.path().join("two")));
    assert_eq!(one.len(), 24);
    assert!(one == two, "the records differ");
    let other = lab.ok(&["run", "small.toml", "--seed", "2", "--out", "three", "--json"]);
    assert!(!other.is_empty() && files(&lab.path().join("three")) != one, "another seed is another run");
}

#[test]
fn a_live_bench_prints_percentiles_and_is_stored_anew_each_time() {
    let lab = Lab::new();
    let words = ["bench", "schbench", "-m", "1", "-t", "2", "-r", "1", "-c", "1000", "-s", "1000"];
    let (text, err) = lab.run(&words, 0);
    narrow(&text);
    for part in ["schbench on host", "message_threads=1 threads=2 runtime=1s", "  p50 ", "switches.voluntary"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(err.contains("the run is kept in runs/") && err.contains("/1\n"), "{err}");
    let folder = err.trim().rsplit(' ').next().unwrap();
    assert!(lab.run(&["explain", folder], 3).1.contains("record its events (--events)"));
    let json = lab.json(&[&words[..], &["--json"]].concat());
    assert_eq!((json["schema"].as_str(), json["seed"].as_u64()), (Some("schedlab/run/1"), Some(2)));
    let samples = json["metrics"]["schbench.latency.count"]["value"].as_f64().unwrap();
    // Some 880 on an idle machine; other work may take most of them.
    assert!(samples > 50.0, "{samples} samples in a second");
    // The second run is of the same cell, and is stored beside the first.
    let compared = lab.json(&["compare", "runs", "--json"]);
    assert_eq!(compared["cells"][0]["runs"], 2);
}

#[test]
fn the_layouts_of_schbench_can_be_asked_for() {
    let lab = Lab::new();
    let sim = [
        "bench",
        "schbench",
        "--backend",
        "sim",
        "--machine",
        "smp-4",
        "-r",
        "0.3",
        "-c",
        "1000",
        "-s",
        "1000",
    ];
    let form = |name: &str| lab.run(&[&sim[..], &["--format", name]].concat(), 0);
    let (old, _) = form("schbench-2016");
    assert!(old.starts_with("Latency percentiles (usec)\n\t50.0000th: ") && old.contains("\tOver="), "{old}");
    let (new, err) = form("schbench");
    assert!(new.starts_with("Wakeup Latencies percentiles (usec) runtime 0 (s) ("), "{new}");
    assert!(err.contains("left out") && err.contains("RPS"), "{err}");
    let modern =
        ["bench", "schbench-modern", "--backend", "sim", "--machine", "smp-4", "-r", "1", "--format"];
    let (text, err) = lab.run(&[&modern[..], &["schbench"]].concat(), 0);
    assert!(text.contains("\nRequest Latencies percentiles (usec) runtime 1 (s) ("), "{text}");
    assert!(text.contains("\naverage rps: ") && err.contains("not measured: sched delay"), "{text} {err}");
    // A run that can't be printed is not made.
    let before = files(&lab.path().join("runs")).len();
    let (_, err) = lab.run(&[&modern[..], &["schbench-2016"]].concat(), 2);
    assert!(err.contains("schbench-modern has no schbench latencies"), "{err}");
    assert_eq!(files(&lab.path().join("runs")).len(), before);
}

#[test]
fn a_simulated_bench_takes_machine_kernel_and_features() {
    let lab = Lab::new();
    let base = [
        "bench",
        "schbench",
        "--backend",
        "sim",
        "--machine",
        "smp-4",
        "-r",
        "0.2",
        "-s",
        "1000",
        "-c",
        "1000",
    ];
    let with = |more: &[&str]| lab.json(&[&base[..], more, &["--json"]].concat());
    let plain = with(&["--kernel", "v4.5"]);
    let first = with(&["--kernel", "v4.5", "--feature", "SIS_FIRST_IDLE", "--tunable", "hz=1000"]);
    assert_eq!(first["variant"], "v4.5:SIS_FIRST_IDLE,hz=1000");
    assert_eq!((plain["kernel"].as_str(), plain["machine"].as_str()), (Some("v4.5"), Some("smp-4")));
    assert_ne!(plain["metrics"], first["metrics"]);
    assert_eq!(plain, with(&["--kernel", "v4.5"]), "the same again");
    // Options may stand before the workload, too.
    let before =
        lab.json(&["bench", "--backend", "sim", "--machine", "smp-4", "--json", "schbench", "-r", "0.2"]);
    assert_eq!(before["backend"], "sim");
}

#[test]
fn an_rtapp_file_is_a_workload() {
    let lab = Lab::new();
    lab.write(
        "two.json",
        r#"{ "global": { "duration": 1 }, "tasks": { "t": { "loop": -1, "run": 1000, "timer": { "ref": "u", "period": 5000 } } } }"#,
    );
    let text = lab.ok(&["bench", "two.json", "--backend", "sim", "--machine", "smp-2"]);
    narrow(&text);
    assert!(text.contains("two.json on smp-2") && text.contains("rtapp.period, "), "{text}");
    let (_, err) = lab.run(&["knee", "one.json"], 2);
    assert!(err.contains("one.json"), "{err}");
}

#[test]
fn a_knee_is_found_per_variant_and_auto_is_one() {
    let lab = Lab::new();
    let place = [
        "schbench",
        "--backend",
        "sim",
        "--machine",
        "smp-2",
        "-m",
        "1",
        "-r",
        "0.5",
        "-s",
        "1000",
        "-c",
        "1000",
    ];
    let more = [
        "--limit",
        "p50 < 100us",
        "--runs",
        "2",
        "--variant",
        "old=v3.4",
        "--variant",
        "v6.5",
        "--max-load",
        "64",
    ];
    let words = [&["knee"][..], &place, &more].concat();
    let text = lab.ok(&words);
    narrow(&text);
    let json = lab.json(&[&words[..], &["--json"]].concat());
    assert_eq!(
        (json["schema"].as_str(), json["limit"]["metric"].as_str()),
        (Some("schedlab/knee/1"), Some("schbench.latency.p50"))
    );
    assert_eq!(
        (json["variants"][0]["variant"].as_str(), json["variants"][1]["variant"].as_str()),
        (Some("old"), Some("v6.5"))
    );
    let knee = json["variants"][1]["mean"].as_f64().unwrap();
    assert!((1.0..64.0).contains(&knee), "two CPUs are full at some load: {json}");
    assert!(text.contains("old ") && text.contains("v6.5 "), "{text}");
    let auto = lab.ok(&[&["bench"][..], &place, &["-a"]].concat());
    assert!(auto.starts_with("largest threads of schbench with schbench.latency.p99 < 2.00ms"), "{auto}");
}

#[test]
fn a_metric_the_backend_does_not_give_has_no_knee() {
    let lab = Lab::new();
    let (_, err) = lab.run(&["knee", "schbench", "--limit", "work > 1ms"], 3);
    assert!(err.contains("host backend does not measure work"), "{err}");
}

#[test]
fn the_longest_waits_of_a_run_are_explained() {
    let lab = Lab::new();
    let words = [
        "bench",
        "schbench",
        "--backend",
        "sim",
        "--machine",
        "smp-2",
        "-r",
        "0.3",
        "-s",
        "1000",
        "-c",
        "1000",
    ];
    let (_, err) = lab.run(&words, 0);
    let folder = err.trim().rsplit(' ').next().unwrap();
    let text = lab.ok(&["explain", folder, "--worst", "2"]);
    narrow(&text);
    assert!(text.contains("By cause:") && text.contains("The 2 longest waits:"), "{text}");
    let json = lab.json(&["explain", &format!("{folder}/record.json"), "--worst", "3", "--json"]);
    assert_eq!(json["schema"], "schedlab/explanation/1");
    assert_eq!(json["worst"].as_array().unwrap().len(), 3);
    std::fs::create_dir(lab.path().join("empty")).unwrap();
    assert!(lab.run(&["explain", "empty"], 2).1.contains("is not a run"));
}

#[test]
fn stored_runs_are_compared_with_any_baseline() {
    let lab = Lab::new();
    lab.ok(&["run", "small.toml", "-q"]);
    let json = lab.json(&["compare", "runs", "--baseline", "first-idle", "--metric", "work", "--json"]);
    let rows = json["comparisons"].as_array().unwrap();
    assert_eq!(
        (rows.len(), rows[0]["variant"].as_str(), rows[0]["metric"].as_str()),
        (2, Some("v4.5"), Some("work"))
    );
    narrow(&lab.ok(&["compare", "runs"]));
    assert!(lab.run(&["compare", "runs", "--baseline", "frist-idle"], 2).1.contains("'first-idle'"));
}

#[test]
fn a_machine_is_shown() {
    let lab = Lab::new();
    let text = lab.ok(&["machine", "spr-2x56"]);
    narrow(&text);
    let lines: Vec<&str> = text.lines().filter(|l| l.contains("CPUs, ") || l.contains("domain")).collect();
    insta::assert_snapshot!(lines.join("\n"), @r"
      224 CPUs, 112 cores
    domains under v6.5
      domains of one shape on all CPUs; LLC is domain1
      domain0 SMT     2 CPUs, 2 groups of 1 CPU
      domain1 MC    112 CPUs, 56 groups of 2 CPUs
      domain2 NUMA  224 CPUs, 2 groups of 112 CPUs, distance to 21
      domain0 SMT
      domain1 MC
      domain2 NUMA
    ");
    let json = lab.json(&["machine", "spr-2x56", "--json", "--kernel", "v4.5"]);
    assert_eq!(
        (json["schema"].as_str(), json["machine"]["topology"]["cpus"].as_array().unwrap().len()),
        (Some("schedlab/machine/1"), 224)
    );
    assert_ne!(lab.ok(&["machine", "spr-2x56", "--cpu", "5"]), text);
    assert!(lab.ok(&["machine", "host"]).starts_with("host: "));
    let list = lab.ok(&["machine"]);
    narrow(&list);
    for name in ["spr-2x56 ", "fb-2x12-smt ", "smp-N ", "host "] {
        assert!(list.lines().any(|l| l.starts_with(name)), "{name}: {list}");
    }
    let listed = lab.json(&["machine", "--json"]);
    assert_eq!(listed["schema"], "schedlab/machines/1");
    assert_eq!(listed["machines"].as_array().unwrap().len(), firsts(&list));
}

#[test]
fn help_is_made_from_the_tables() {
    let lab = Lab::new();
    let help = lab.command(&["bench", "schbench", "--help"]).env("COLUMNS", "100").output().unwrap();
    let (text, _) = common::texts(&help);
    let golden = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/bench-schbench.txt");
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(golden, &text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(golden).unwrap());
    let all = lab.ok(&["--help"]);
    assert!(all.contains("  bench ") && !all.contains("agent") && all.contains("  completions "), "{all}");
    assert!(lab.ok(&["completions", "bash"]).contains("_schedlab()"));
    assert!(lab.ok(&["man"]).contains(".TH schedlab"));
    assert!(lab.ok(&["man", "knee"]).contains("max\\-load"));
}

/// The words of a run of the slice test by themselves: average slice and user time of each line.
fn slices(text: &str) -> Vec<(f64, f64)> {
    let line = |l: &str| {
        let rest = l.strip_prefix("avg slice: ")?;
        let (slice, rest) = rest.split_once(" utime: ")?;
        Some((slice.parse().ok()?, rest.split_once(" | ")?.0.parse().ok()?))
    };
    text.lines().filter(|l| !l.starts_with("--")).map(|l| line(l).unwrap_or_else(|| panic!("{l}"))).collect()
}

#[test]
fn the_slice_test_prints_as_the_document_does() {
    let lab = Lab::new();
    let sim =
        ["bench", "slice", "--backend", "sim", "--machine", "smp-2", "--kernel", "v4.5", "--runtime", "5s"];
    let text = lab.ok(&[&sim[..], &["--tasks", "8", "--format", "slice"]].concat());
    narrow(&text);
    let woken = slices(&text);
    // Four whole intervals, two CPUs among eight processes: a quarter of a second each.
    assert!(woken.len() == 4 && woken.iter().all(|(_, utime)| (240e3..260e3).contains(utime)), "{text}");
    assert!(
        woken.iter().all(|(slice, _)| (slice * 8.0).fract().min(1.0 - (slice * 8.0).fract()) < 0.05),
        "{text}"
    );
    let calm = slices(&lab.ok(&[&sim[..], &["--tasks", "8", "--rate", "0", "--format", "slice"]].concat()));
    assert!(calm[1].0 > 1.5 * woken[1].0, "{calm:?} {woken:?}");
    let json = lab.json(&[&sim[..], &["--tasks", "8", "--json"]].concat());
    let metric = |name: &str| json["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name}"));
    let [hogs, wakers] = ["hog", "waker"].map(|g| metric(&format!("task.{g}.cpu_time")));
    assert!((9.8e9..=10e9).contains(&(hogs + wakers + metric("task.sampler.cpu_time"))), "{hogs} {wakers}");
    assert!(metric("slice.preempted_by.waker") > 1_000.0 && metric("task.hog.cpu0.slice.mean") > 0.0);
    assert!(
        metric("task.hog.slice.mean") < metric("slice.slice.mean"),
        "preempted before their slice was used up"
    );
    let starts: Vec<u64> =
        json["intervals"].as_array().unwrap().iter().map(|i| i["start"].as_u64().unwrap()).collect();
    assert!(starts.len() == 4 && starts.is_sorted() && starts[1] > 1_000_000_000, "{starts:?}");
    let (_, err) = lab.run(&["bench", "schbench", "--backend", "sim", "--format", "slice"], 2);
    assert!(err.contains("no slices to print"), "{err}");
}

#[test]
fn the_slice_test_runs_live() {
    let lab = Lab::new();
    let words = ["bench", "slice", "--tasks", "2", "--rate", "100", "--interval", "300ms", "--runtime", "1s"];
    let seen = slices(&lab.ok(&[&words[..], &["--format", "slice"]].concat()));
    assert!((1..=3).contains(&seen.len()) && seen.iter().all(|(_, utime)| *utime < 2e6), "{seen:?}");
    let json = lab.json(&[&words[..], &["--mode", "thread", "--json"]].concat());
    let hogs = json["metrics"]["task.hog.cpu_time"]["value"].as_f64().unwrap();
    assert!(hogs > 0.05e9 && hogs < 2.5e9, "{hogs}");
    assert!(json["metrics"]["task.waker.switches.voluntary"]["value"].as_f64().unwrap() > 20.0);
}

#[test]
fn doctor_lists_every_row_with_what_mends_it() {
    let lab = Lab::new();
    let cache = lab.path().join("cache");
    let ask = |words: &[&str]| {
        let mut command = lab.command(words);
        command.env("SCHEDLAB_STATE_DIR", lab.path().join("state")).env("SCHEDLAB_CACHE_DIR", &cache);
        let output = command.output().unwrap();
        let (out, err) = texts(&output);
        assert!(output.status.success(), "{out}\n{err}");
        out
    };
    let text = ask(&["doctor"]);
    assert!(
        text.contains("To be put back: nothing") && text.contains("What can be measured on this machine"),
        "{text}"
    );
    let json: serde_json::Value = serde_json::from_str(&ask(&["doctor", "--json"])).unwrap();
    let rows = json["machine"].as_array().unwrap();
    for name in ["software events", "tracepoints", "QEMU", "KVM", "kernel images", "noise floor"] {
        let row = rows.iter().find(|r| r["name"] == name).unwrap();
        assert!(text.contains(name) && row["needed_for"].is_string(), "{row}");
    }
    let noise = rows.iter().find(|r| r["name"] == "noise floor").unwrap();
    assert_eq!((&noise["state"], &noise["mend"]), (&"no".into(), &"schedlab doctor --noise".into()));
    assert_eq!(json["noise"], serde_json::json!([]));
}

#[test]
fn kernels_are_listed_and_what_is_none_is_named() {
    let lab = Lab::new();
    lab.write("vmlinux", "\u{7f}ELF and more");
    let (_, err) = lab.run(&["kernel", "list", "vmlinux"], 2);
    assert!(err.contains("vmlinux is an ELF file") && err.contains("bzImage"), "{err}");
    let mut image = vec![0u8; 0x2000];
    for (at, bytes) in [(0x1fe, &[0x55, 0xaa][..]), (0x202, b"HdrS\x0f\x02"), (0x20f, &[0x10]), (0x211, &[1])]
    {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }
    image[0x236] = 1;
    let banner = b"6.1.0-56-cloud-amd64 (k@x) #1 SMP Debian 6.1.192-2";
    image[0x1200..0x1200 + banner.len()].copy_from_slice(banner);
    std::fs::write(lab.path().join("vmlinuz"), image).unwrap();
    let listed = lab.json(&["kernel", "list", "vmlinuz", "--cache", "none", "--json"]);
    let own = &listed["images"][0];
    assert_eq!((&own["release"], &own["version"]), (&"6.1.0-56-cloud-amd64".into(), &"v6.1.192".into()));
    assert_eq!((&own["origin"], &own["size_bytes"]), (&"given".into(), &0x2000.into()));
    assert!(lab.run(&["kernel", "fetch", "six"], 2).1.contains("6.12"));
}

#[test]
fn the_reference_tells_all_features_one_profile_or_one_name() {
    let lab = Lab::new();
    let all = lab.ok(&["kernel", "features"]);
    narrow(&all);
    assert!(all.contains("\nDELAY_DEQUEUE          v6.12 ") && all.contains("\nbase_slice_ns "), "{all}");
    let of = lab.json(&["kernel", "features", "v6.5", "--json"]);
    assert_eq!((of["schema"].as_str(), of["kernel"].as_str()), (Some("schedlab/features/1"), Some("v6.5")));
    let value = |name: &str| {
        let entries = of["entries"].as_array().unwrap();
        entries.iter().find(|e| e["name"] == name).map(|e| e["value"].clone())
    };
    assert_eq!((value("SIS_UTIL"), value("SIS_PROP")), (Some(true.into()), Some(false.into())));
    assert_eq!((value("min_granularity_ns"), value("PLACE_LAG")), (Some(750_000.into()), None));
    let one = lab.ok(&["kernel", "features", "sis_prop"]);
    narrow(&one);
    let flat = one.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(flat.contains("from v4.13, before v6.7") && flat.contains("from memory"), "{one}");
    assert_eq!(one, lab.ok(&["kernel", "features", "--feature", "NO_SIS_PROP"]));
    assert!(lab.run(&["kernel", "features", "SIS_UTLI"], 2).1.contains("'SIS_UTIL'"));
    assert!(lab.run(&["kernel", "features", "6.4"], 2).1.contains("there are: v2.6.12"));
}

#[test]
fn the_chronology_tells_all_mechanisms_what_one_version_does_or_one_mechanism() {
    let lab = Lab::new();
    let all = lab.ok(&["kernel", "history"]);
    narrow(&all);
    assert!(all.contains("\n  runnable-load                from v3.8, before v5.5\n"), "{all}");
    let v45 = lab.ok(&["kernel", "history", "v4.5"]);
    narrow(&v45);
    assert!(
        v45.contains("- eevdf                        comes with v6.6") && v45.contains("+ group-types"),
        "{v45}"
    );
    let of = lab.json(&["kernel", "history", "6.5", "--json"]);
    assert_eq!((of["schema"].as_str(), of["kernel"].as_str()), (Some("schedlab/history/1"), Some("v6.5")));
    let rows = of["mechanisms"].as_array().unwrap();
    let has = |name: &str| rows.iter().find(|m| m["name"] == name).map(|m| m["has"].as_bool().unwrap());
    assert_eq!((has("merged-search"), has("eevdf"), has("nothing")), (Some(true), Some(false), None));
    let one = lab.json(&["kernel", "history", "CORE_SEARCH", "--json"]);
    let row = &one["mechanisms"][0];
    assert_eq!((&row["read"]["source"], &row["subject"]), (&"3.19 to 4.9".into(), &"wakeup".into()));
    assert_eq!(
        (&row["spans"][0]["since"], &row["spans"][0]["until"]),
        (&"v4.9".into(), &serde_json::Value::Null)
    );
    let text = lab.ok(&["kernel", "history", "wake-wide"]);
    assert!(text.contains("wake_wide()") && text.contains("from memory"), "{text}");
    assert!(lab.run(&["kernel", "history", "wake-wild"], 2).1.contains("'wake-wide'"));
    assert!(lab.run(&["kernel", "history", "6.4"], 2).1.contains("there are: v2.6.12"));
}

/// The examples of docs/automation.md, from top to bottom. SCHEDLAB_PYTHON names another interpreter.
#[test]
fn the_python_page_runs() {
    let python = std::env::var("SCHEDLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = |module: &str| {
        let out = std::process::Command::new(&python).args(["-c", &format!("import {module}")]).output();
        out.is_ok_and(|o| o.status.success())
    };
    if !has("pandas") {
        skipped(format!("pandas for {python}"));
        return;
    }
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/automation.md"))
            .unwrap();
    let lab = Lab::new();
    std::fs::rename(lab.path().join("small.toml"), lab.path().join("mine.toml")).unwrap();
    let (mut kind, mut script) = ("", String::new());
    for line in page.lines() {
        match (line.strip_prefix("```"), kind) {
            (Some(next), "") => kind = next,
            (Some(_), _) => kind = "",
            (None, "sh") => {
                let (words, file) = line.split_once(" > ").unwrap();
                let words: Vec<&str> = words.split(' ').skip(1).collect();
                lab.write(file, &lab.ok(&words));
            }
            (None, "python") => script += &format!("{line}\n"),
            (None, "python perfetto") if has("perfetto") => script += &format!("{line}\n"),
            (None, "python perfetto") if line.starts_with("import") => {
                skipped(format!("the package perfetto for {python}"));
            }
            _ => {}
        }
    }
    lab.write("page.py", &script);
    let program = assert_cmd::cargo::cargo_bin("schedlab");
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let out = std::process::Command::new(&python)
        .arg("page.py")
        .current_dir(lab.path())
        .env("PATH", path)
        .output()
        .unwrap();
    let (text, err) = common::texts(&out);
    assert!(out.status.success(), "{text}\n{err}");
    for words in ["schbench.latency.p50", "first-idle", "p99 in us:"] {
        assert!(text.contains(words), "{words} in {text}");
    }
}
