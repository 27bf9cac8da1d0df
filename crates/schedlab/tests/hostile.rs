//! Hostile input: names that act on terminals, and files without an end.

use crate::common;
use crate::common::{Lab, SMALL, files};
use schedlab_base::testing::skipped;
use serde_json::Value;
use std::path::Path;

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
    lab.ok("run small.toml -q");
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
fn no_form_of_a_result_passes_on_terminal_codes() {
    let lab = spoiled();
    for form in ["table", "detail", "lkml", "markdown", "csv"] {
        let (out, err) = lab.run(&["compare", "runs", "--format", form], 0);
        // CSV lines end with a carriage return, too; anywhere else one would act on a terminal.
        harmless(form, &out.replace("\r\n", "\n"));
        harmless(form, &err);
        assert!(out.contains("\\u001b"), "{form} shows it:\n{out}");
    }
    let json = lab.json("compare runs --json");
    assert_eq!(json["cells"][0]["workload"], SHOWN);
    harmless("json", &lab.ok("compare runs --json"));
    lab.ok("compare runs --plot p.svg");
    let svg = lab.text("p.svg");
    harmless("svg", &svg);
    assert!(svg.contains("\\u001b[31m"), "{svg}");
}

#[test]
fn explanations_and_errors_pass_on_no_terminal_codes() {
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
        lab.says("run named.toml", 2, &["named.toml:", "control characters"]);
    }
    let rtapp = r#"{ "global": { "duration": 1 }, "tasks": { "a\u001bb": { "run": 10, "sleep": 10 } } }"#;
    lab.write("task.json", rtapp);
    lab.says("bench task.json --backend sim --machine smp-2", 2, &["task.json:1:", "control characters"]);
    let good = rtapp.replace("\\u001b", "");
    lab.write("a\u{202e}b.json", &good);
    lab.says(
        &["bench", "a\u{202e}b.json", "--backend", "sim", "--machine", "smp-2"],
        2,
        &["a\\u202eb.json", "rename it"],
    );
}

#[test]
fn endless_input_is_refused_before_it_is_read() {
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
    lab.says("run rtapp.toml", 2, &["rtapp.toml:4:", "it is a device"]);
}

#[test]
fn a_limit_on_length_can_be_raised() {
    let lab = Lab::new();
    let long = format!("{SMALL}\n{}", "#".repeat(1 << 20));
    lab.write("long.toml", &long);
    let words = "run long.toml --runs 1 -q";
    let limited = |mb: &str| lab.command(words).env("SCHEDLAB_MAX_INPUT_MB", mb).output().unwrap();
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
        skipped("a machine without room for 1024 simulations of 4096 CPUs");
        return;
    }
    let lab = Lab::new();
    lab.write("wide.toml", &SMALL.replace("smp-4", "smp-4096").replace("runs = 3", "runs = 256"));
    let (_, err) = lab.run("run wide.toml --jobs 1024", 3);
    for part in ["1024 simulations side by side", " GB of memory are available", "4096 CPUs", "help: "] {
        assert!(err.contains(part), "{part}: {err}");
    }
    assert!(files(&lab.path().join("runs")).is_empty());
}

/// A lab with a copy of a stored case.
fn case(name: &str) -> Lab {
    let lab = Lab::new();
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/hostile").join(name);
    for (file, bytes) in files(&from) {
        let to = lab.path().join(name).join(file);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, bytes).unwrap();
    }
    lab
}

/// A text on one line, however it was wrapped.
fn flat(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn runs_of_two_computers_are_compared_and_the_heading_says_so() {
    let lab = case("two-machines");
    let words = "compare two-machines/m1 two-machines/m2";
    let place = "2 CPUs of Intel(R) Xeon(R) Processor against 128 CPUs of AMD EPYC 9754 128-Core Processor";
    for form in ["table", "detail", "lkml", "normal"] {
        let text = flat(&lab.ok(&format!("{words} --format {form}")));
        assert!(
            text.contains(&format!("on {place}")) || text.contains(&format!("{place}, measured")),
            "{form}: {text}"
        );
    }
    let json = lab.json(&format!("{words} --json"));
    assert_eq!(json["comparisons"][0]["baseline"], "before", "the first one given");
    assert_eq!(json["cells"][1]["computer"]["cpus"], 128);
    let warnings = json["warnings"].as_array().unwrap();
    let told = warnings.iter().find(|w| w["code"] == "compare.computers").unwrap_or_else(|| panic!("{json}"));
    assert!(told["message"].as_str().unwrap().contains("after: 128 CPUs of AMD"), "{told}");
    let turned = lab.json("compare two-machines/m2 two-machines/m1 --json");
    assert_eq!(turned["comparisons"][0]["baseline"], "after");
}

#[test]
fn runs_of_two_computers_or_two_builds_are_not_pooled() {
    let lab = case("two-machines-pooled");
    let cells = |json: &Value| -> Vec<(String, u64)> {
        let cells = json["cells"].as_array().unwrap().iter();
        cells.map(|c| (c["variant"].as_str().unwrap().to_owned(), c["runs"].as_u64().unwrap())).collect()
    };
    let json = lab.json("compare two-machines-pooled --json");
    assert_eq!(cells(&json), [("running on Xeon".to_owned(), 6), ("running on EPYC".to_owned(), 6)]);
    assert!(flat(&lab.ok("compare two-machines-pooled")).contains("2 CPUs of Xeon against 2 CPUs of EPYC"));
    let lab = case("host-rebuilt-kernel");
    let json = lab.json("compare host-rebuilt-kernel --json");
    let counts: Vec<u64> = cells(&json).into_iter().map(|(_, runs)| runs).collect();
    assert_eq!(counts, [2, 2], "{json}");
    // They are marked as such that this version would not find again, and are kept.
    let listed = lab.json("runs --out host-rebuilt-kernel --json");
    assert!(listed["cells"][0]["outdated"].as_str().unwrap().contains("computer"), "{listed}");
    let removal = lab.json("runs gc --out host-rebuilt-kernel --json");
    assert_eq!((removal["runs"].as_array().unwrap().len(), &removal["live"]), (0, &4.into()), "{removal}");
}

#[test]
fn a_live_run_is_not_found_for_another_build_of_the_kernel() {
    let lab = Lab::new();
    let words = "bench hogs --tasks 1 -r 20ms -q";
    lab.ok(words);
    let experiment = "name = 'l'\nruns = 1\nmachine = 'host'\n[workload]\nname = 'hogs'\ntasks = 1\nruntime = '20ms'\n\
                      [[variant]]\nkernel = 'running'\n";
    lab.write("l.toml", experiment);
    let run = |found: &str| {
        lab.says("run l.toml --backend host --out live", 0, &[found]);
    };
    run("1 run made, 0 found");
    run("0 runs made, 1 found");
    // The run of another computer, put where this one's lies.
    let live = lab.path().join("live");
    let (name, bytes) = files(&live).into_iter().find(|(name, _)| name.ends_with("record.json")).unwrap();
    let mut record: Value = serde_json::from_slice(&bytes).unwrap();
    record["environment"]["kernel.version"] = "#99 OTHER BUILD".into();
    std::fs::write(live.join(&name), record.to_string()).unwrap();
    lab.says("run l.toml --backend host --out live", 2, &["the record in it is cell", "runs rm"]);
}

#[test]
fn a_record_in_another_cells_folder_does_not_count_as_found() {
    let lab = Lab::new();
    lab.ok("run small.toml -q");
    let runs = lab.path().join("runs");
    let all: Vec<_> = files(&runs).into_iter().filter(|(name, _)| name.ends_with("/1/record.json")).collect();
    std::fs::write(runs.join(&all[0].0), &all[1].1).unwrap();
    let (_, err) = lab.run("run small.toml -q", 2);
    let cell = all[0].0.split('/').next().unwrap();
    assert!(err.contains(&format!("the folder is cell {cell}'s")), "{err}");
    // The remedy is one.
    let remedy = err.split("'schedlab ").nth(1).unwrap().split('\'').next().unwrap().to_owned();
    lab.ok(&remedy);
    lab.ok("run small.toml -q");
}

#[test]
fn a_figure_that_no_record_holds_is_refused_before_it_is_stored() {
    let lab = Lab::new();
    for (figure, unit) in [("1e308", "s"), ("1e308", ""), ("-1e200", "")] {
        let line = format!("echo v={figure}");
        let metric = format!("v[{unit}]=v=(.*)");
        lab.says(
            &["bench", "--command", &line, "--metric-regex", &metric, "-q"],
            2,
            &["'echo.v'", "can't be compared"],
        );
    }
    assert!(files(&lab.path().join("runs")).is_empty(), "nothing is stored");
    lab.write("big.txt", r#"{"schema": "schedlab/run/1", "seed": 1, "metrics": {"x": {"unit": "ns", "better": "lower", "value": 1e308}}}"#);
    lab.says("compare a=big.txt b=big.txt", 2, &["can't be compared"]);
}

#[test]
fn figures_of_another_unit_or_direction_are_not_compared() {
    let lab = Lab::new();
    for (unit, out) in [("s,lower", "a"), ("1/s,higher", "b")] {
        let metric = format!("v[{unit}]=v=(.*)");
        for value in ["1", "2"] {
            let line = format!("echo v={value}");
            lab.ok(&["bench", "--command", &line, "--metric-regex", &metric, "-q", "--out", out]);
        }
    }
    // The same cell with another variant's name.
    for (name, bytes) in files(&lab.path().join("b")) {
        let mut record: Value = serde_json::from_slice(&bytes).unwrap();
        record["variant"]["name"] = "other".into();
        let mine = files(&lab.path().join("a"))
            .into_iter()
            .map(|(_, bytes)| serde_json::from_slice::<Value>(&bytes).unwrap());
        let same = mine.into_iter().find(|r| r["spec"]["argv"] == record["spec"]["argv"]).unwrap();
        record["spec"] = same["spec"].clone();
        std::fs::write(lab.path().join("b").join(name), record.to_string()).unwrap();
    }
    let json = lab.json("compare a b --metric echo.v --json");
    assert_eq!(json["comparisons"].as_array().unwrap().len(), 0, "{json}");
    assert!(json["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "compare.unit"), "{json}");
}

#[test]
fn a_recorded_command_is_not_a_run_of_the_benchmark_of_its_name() {
    let lab = Lab::new();
    lab.ok("bench hackbench --machine smp-2 --kernel v6.5 --groups 1 --loops 2 -q");
    // As 'schedlab record -- hackbench' stores it.
    for (name, bytes) in files(&lab.path().join("runs")) {
        let mut record: Value = serde_json::from_slice(&bytes).unwrap();
        record["backend"] = "recording".into();
        record["spec"] = serde_json::json!({ "kind": "recording", "params": { "command": "hackbench" } });
        record["series"].as_object_mut().unwrap().retain(|name, _| !name.starts_with("hackbench."));
        (record["load"], record["model"]) = ("recorded".into(), 8.into());
        let to = lab.path().join("recorded").join(name);
        std::fs::create_dir_all(to.parent().unwrap()).unwrap();
        std::fs::write(to, record.to_string()).unwrap();
    }
    assert!(lab.ok("compare recorded").contains("wakeup_delay.p99"));
    lab.ok("report recorded -q --no-strips");
    lab.ok("compare recorded runs");
    lab.ok("runs --out recorded");
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

/// The files of the cases that broke something, by folder.
#[test]
fn every_file_of_the_cases_is_used_by_a_test() {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests");
    let sources: String = files(&tests)
        .into_iter()
        .filter(|(name, _)| name.ends_with(".rs") || name.starts_with("texts/"))
        .map(|(_, bytes)| String::from_utf8(bytes).unwrap())
        .collect();
    for folder in ["files", "first-hour", "hostile"] {
        for entry in std::fs::read_dir(tests.join("cases").join(folder)).unwrap().flatten() {
            let name = entry.file_name().into_string().unwrap();
            let named =
                [format!("{folder}/{name}"), format!("case(\"{name}\")"), format!("case!(\"{name}\")")];
            assert!(named.iter().any(|n| sources.contains(n)), "no test has cases/{folder}/{name}");
        }
    }
}
