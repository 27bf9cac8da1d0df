//! Hostile input: names that act on terminals, and files without an end.

mod common;

use common::{Lab, SMALL, files};
use serde_json::Value;

/// A colour, a new line, C1, DEL and an override of the reading direction.
const BAD: &str = "pi\u{1b}[31m\npe\u{9b}32m\u{7f}\u{202e}";
/// The same, as it is shown in the middle of a line.
const SHOWN: &str = "pi\\u001b[31m\\u000ape\\u009b32m\\u007f\\u202e";

fn acts(c: char) -> bool {
    // Tables of LKML have tabs.
    (c.is_control() && c != '\n' && c != '\t') || ('\u{202a}'..='\u{202e}').contains(&c)
}

/// Checks that no character of a text acts on a terminal.
fn harmless(what: &str, text: &str) {
    assert!(!text.contains(acts), "{what}: {}", text.escape_debug());
}

/// Stores the runs of a small experiment whose records then carry bad names wherever a record has one.
fn spoiled() -> Lab {
    let lab = Lab::new();
    lab.ok(&["run", "small.toml", "-q"]);
    let runs = lab.path().join("runs");
    for (name, bytes) in files(&runs) {
        if !name.ends_with("record.json") {
            continue;
        }
        let mut record: Value = serde_json::from_slice(&bytes).unwrap();
        for field in ["workload", "load", "kernel"] {
            record[field] = BAD.into();
        }
        for (part, field) in [("machine", "name"), ("machine", "about"), ("spec", "name")] {
            record[part][field] = BAD.into();
        }
        let own = record["variant"]["name"].as_str().unwrap().to_owned();
        record["variant"]["name"] = format!("{own}{BAD}").into();
        record["environment"][BAD] = BAD.into();
        record["counters"][BAD] = 1.into();
        record["warnings"] = serde_json::json!([{ "code": BAD, "message": BAD }]);
        for list in ["tasks", "waits"] {
            let of = record[list].as_array_mut().into_iter().flatten();
            of.for_each(|one| one.as_object_mut().unwrap().values_mut().for_each(spoil));
        }
        std::fs::write(runs.join(name), record.to_string()).unwrap();
    }
    lab
}

/// Every text that is a task's name.
fn spoil(value: &mut Value) {
    match value {
        Value::String(text) if text.contains('/') => *text = BAD.into(),
        Value::Object(inner) => inner.values_mut().for_each(spoil),
        Value::Array(inner) => inner.iter_mut().for_each(spoil),
        _ => {}
    }
}

#[test]
fn no_form_of_a_result_passes_on_what_acts() {
    let lab = spoiled();
    for form in ["table", "detail", "lkml", "markdown", "csv", "go"] {
        let (out, err) = lab.run(&["compare", "runs", "--format", form], 0);
        // CSV lines end with a carriage return, too; anywhere else one would act on a terminal.
        harmless(form, &out.replace("\r\n", "\n"));
        harmless(form, &err);
        assert!(out.contains("\\u001b"), "{form} shows it:\n{out}");
    }
    let json = lab.json(&["compare", "runs", "--json"]);
    assert_eq!(json["cells"][0]["workload"], SHOWN);
    harmless("json", &lab.ok(&["compare", "runs", "--json"]));
    lab.ok(&["compare", "runs", "--plot", "p.svg"]);
    let svg = std::fs::read_to_string(lab.path().join("p.svg")).unwrap();
    harmless("svg", &svg);
    assert!(svg.contains("\\u001b[31m"), "{svg}");
}

#[test]
fn explanations_and_errors_pass_on_nothing_either() {
    let lab = spoiled();
    let run =
        files(&lab.path().join("runs")).into_iter().find(|(n, _)| n.ends_with("record.json")).unwrap().0;
    let run = format!("runs/{run}");
    for json in [&[][..], &["--json"]] {
        let words = [&["explain", &run][..], json].concat();
        harmless("explain", &lab.ok(&words));
    }
    harmless("schedstat", &lab.ok(&["schedstat", &run]));
    // Errors quote the files' content and names.
    lab.write("bad.toml", &SMALL.replace("schbench\"\nruntime", "sch\\u001b[31mbench\"\nruntime"));
    let wrong = lab.path().join(BAD.replace('\n', ""));
    std::fs::write(&wrong, "no output of anything").unwrap();
    let wrong = wrong.to_str().unwrap();
    for words in [&["run", "bad.toml"][..], &["run", wrong], &["compare", wrong], &["explain", wrong]] {
        let (_, err) = lab.run(words, 2);
        harmless("an error", &err);
        assert!(err.contains("\\u001b[31m"), "{err}");
    }
}

#[test]
fn schedlab_writes_no_such_names_itself() {
    let lab = Lab::new();
    let names = [
        ("name = \"small\"", "name = \"sm\\u009ball\""),
        ("name = \"1x2\"", "name = \"1\\u202ex2\""),
        ("name = \"first-idle\"", "name = \"first\\u007fidle\""),
    ];
    for (old, new) in names {
        lab.write("named.toml", &SMALL.replace(old, new));
        let (_, err) = lab.run(&["run", "named.toml"], 2);
        assert!(err.contains("named.toml:") && err.contains("control characters"), "{new}: {err}");
    }
    let rtapp = r#"{ "global": { "duration": 1 }, "tasks": { "a\u001bb": { "run": 10, "sleep": 10 } } }"#;
    lab.write("task.json", rtapp);
    let (_, err) = lab.run(&["bench", "task.json", "--backend", "sim", "--machine", "smp-2"], 2);
    assert!(err.contains("task.json:1:") && err.contains("control characters"), "{err}");
    let good = rtapp.replace("\\u001b", "");
    lab.write("a\u{202e}b.json", &good);
    let (_, err) = lab.run(&["bench", "a\u{202e}b.json", "--backend", "sim", "--machine", "smp-2"], 2);
    assert!(err.contains("a\\u202eb.json") && err.contains("rename it"), "{err}");
}

#[test]
fn what_has_no_end_is_refused_before_it_is_read() {
    let lab = Lab::new();
    let zero = "/dev/zero";
    std::os::unix::fs::symlink(zero, lab.path().join("zero.json")).unwrap();
    let all: [&[&str]; 8] = [
        &["run", zero],
        &["bench", "zero.json"],
        &["machine", zero],
        &["compare", zero],
        &["explain", zero],
        &["schedstat", zero, zero],
        &["validate", zero],
        &["knee", "schbench", "--backend", "sim", "--machine", zero],
    ];
    for words in all {
        let (_, err) = lab.run(words, 2);
        assert!(err.contains("it is a device") && err.contains("regular file or a pipe"), "{words:?}: {err}");
    }
    let plain = "name = \"z\"\nmachines = [\"smp-4\"]\n[workload]\nrtapp = \"/dev/zero\"\n[[variant]]\nkernel = \"v4.5\"\n";
    lab.write("rtapp.toml", plain);
    let (_, err) = lab.run(&["run", "rtapp.toml"], 2);
    assert!(err.contains("rtapp.toml:4:") && err.contains("it is a device"), "{err}");
}

#[test]
fn a_limit_on_length_can_be_raised() {
    let lab = Lab::new();
    let long = format!("{SMALL}\n{}", "#".repeat(1 << 20));
    lab.write("long.toml", &long);
    let words = ["run", "long.toml", "--runs", "1", "-q"];
    let limited = |mb: &str| lab.command(&words).env("SCHEDLAB_MAX_INPUT_MB", mb).output().unwrap();
    let (refused, read, wrong) = (limited("1"), limited("2"), limited("much"));
    assert_eq!((refused.status.code(), read.status.code(), wrong.status.code()), (Some(2), Some(0), Some(2)));
    let err = common::texts(&refused).1;
    assert!(err.contains("long.toml: longer than 1 MB") && err.contains("SCHEDLAB_MAX_INPUT_MB=4"), "{err}");
}

#[test]
fn simulations_that_do_not_fit_side_by_side_are_refused_before_they_start() {
    let memory = std::fs::read_to_string("/proc/meminfo").unwrap();
    let available = memory.lines().find_map(|l| l.strip_prefix("MemAvailable:")).unwrap().trim();
    let available_kb: u64 = available.trim_end_matches("kB").trim().parse().unwrap();
    if available_kb > 150 << 20 {
        println!("skipped: this machine has room for 1024 simulations of 4096 CPUs");
        return;
    }
    let lab = Lab::new();
    lab.write("wide.toml", &SMALL.replace("smp-4", "smp-4096").replace("runs = 3", "runs = 256"));
    let (_, err) = lab.run(&["run", "wide.toml", "--jobs", "1024"], 3);
    for part in ["1024 simulations side by side", " GB of memory are available", "4096 CPUs", "help: "] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(files(&lab.path().join("runs")).is_empty());
}

/// Machines whose CPUs stand still in the middle of a step: CPUs that take turns, and virtual machines with more CPUs
/// than the host has. All invariants are walked after every step.
#[test]
fn invariants_hold_at_every_step_where_cpus_stand_still() {
    let lab = Lab::new();
    for (name, text) in [
        ("pipe-icount4", include_str!("cases/hostile/pipe-icount4-invariant.toml")),
        ("pipe-turns", include_str!("cases/hostile/pipe-turns-invariant.toml")),
        ("hackbench-icount16", include_str!("cases/hostile/hackbench-icount16-invariant.toml")),
        ("nested-overcommit", include_str!("cases/hostile/nested-overcommit.toml")),
    ] {
        let file = format!("{name}.toml");
        lab.write(&file, text);
        let mut run = lab.command(&["run", &file, "--jobs", "1", "-q", "--format", "csv"]);
        let output = run.env("SCHEDLAB_WALK_EVERY", "1").output().unwrap();
        let (out, err) = common::texts(&output);
        assert!(output.status.success() && out.lines().count() > 1, "{name}: {err}");
    }
}
