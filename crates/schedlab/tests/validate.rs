//! `schedlab validate` as a user meets it.

use crate::common;
use crate::common::Lab;

const CASE: &str = r#"
name = "tiny"
about = "spinning processes, for a moment"
backend = "host"
machine = "host"
runs = 2

[kernel]
simulated = "v6.18"

[workload]
name = "slice"
tasks = "{cpus*2}"
rate = 200
sampler = "off"
runtime = "300ms"

[tolerance]
totals = 2
switches = 25
migrations = 25
slices = 20
delays = 35
placement = 25
balance = 35
spread = 50
distributions = 25
"#;

/// The case in a folder of its own.
fn lab(text: &str) -> Lab {
    let lab = Lab::new();
    lab.write("tiny.toml", text);
    lab
}

#[test]
fn a_case_is_run_on_both_sides_and_every_metric_is_reported() {
    let lab = lab(CASE);
    // Two short runs, on a machine that may do other work: this test does not check whether they agree, nor whether
    // more runs are made.
    let text = |code: &[i32]| {
        let args = ["validate", "tiny.toml", "--runs", "2", "--json", "-q", "--out", "kept"];
        let output = lab.command(&args).output().unwrap();
        let (out, err) = common::texts(&output);
        assert!(output.status.code().is_some_and(|c| code.contains(&c)), "{out}{err}");
        out
    };
    let first = text(&[0, 1]);
    let found: serde_json::Value = serde_json::from_str(&first).unwrap();
    assert_eq!(found["schema"], "schedlab/validation/1");
    let case = &found["cases"][0];
    let side = |name: &str| (case[name]["backend"].as_str().unwrap(), case[name]["runs"].as_u64().unwrap());
    assert_eq!((side("simulated"), side("real")), (("sim", 8), ("host", 2)));
    let metrics = case["metrics"].as_array().unwrap();
    let of = |name: &str| metrics.iter().find(|m| m["metric"] == name).unwrap();
    assert_eq!(of("cpu_time")["tolerance_pct"], 2.0);
    assert!(["agree", "disagree"].contains(&of("cpu_time")["verdict"].as_str().unwrap()), "{first}");
    let silent = |m: &&serde_json::Value| m["verdict"] == "not_measured" && m["why"].is_null();
    assert_eq!(metrics.iter().filter(silent).count(), 0, "what is not measured says why");
    assert_eq!(case["tripled"]["both"].as_array().map(Vec::len), Some(0));
    let wrong = case["wrong"].as_array().unwrap();
    assert!(wrong.len() >= 3 && wrong.iter().all(|w| w["runs"] == 2), "{first}");
    let told = |share: &str| found["told"][share]["measured"].as_u64().unwrap();
    assert!(
        told("by_every") <= told("by_some")
            && told("by_some") <= found["share"]["measured"].as_u64().unwrap()
    );
    assert!(
        found["traits"].as_array().unwrap().iter().any(|t| t["trait"] == "workload" && t["value"] == "slice")
    );
    assert_eq!(text(&[0, 1]), first, "the runs were kept");
    let kept =
        common::files(&lab.path().join("kept")).iter().filter(|(p, _)| p.ends_with("case.toml")).count();
    assert_eq!(kept, 2 + 8 + 2 * wrong.len(), "real, simulated, and by each wrong scheduler");
}

#[test]
fn a_wrong_case_is_reported_with_its_place_before_any_run() {
    let lab = lab(&CASE.replace("delays = 35\n", ""));
    let (_, err) = lab.run(&["validate", "tiny.toml"], 2);
    assert!(err.contains("tiny.toml") && err.contains("no delays") && err.contains("delays = 35"), "{err}");
    assert!(!lab.path().join("runs").exists());
    let (_, err) = lab.run(&["validate", "--case", "host-slize"], 2);
    assert!(err.contains("'host-slice'"), "{err}");
    lab.run(&["validate", "--backend", "hots"], 2);
}

#[test]
fn the_list_shows_the_cases() {
    let lab = Lab::new();
    let list = lab.ok(&["validate", "--list"]);
    assert!(list.lines().all(|l| l.chars().count() <= 78) && list.contains("host-hackbench"), "{list}");
    let cases = lab.json(&["validate", "--list", "--json", "--backend", "host"]);
    let all = cases["cases"].as_array().unwrap();
    assert!(all.len() >= 6 && all.iter().all(|c| c["backend"] == "host"));
}

#[test]
fn drawn_cases_are_the_same_for_the_same_seed() {
    let lab = Lab::new();
    let list = lab.ok(&["validate", "--draw", "3", "--seed", "1", "--list"]);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/golden/drawn.txt");
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(file, &list).unwrap();
    }
    assert_eq!(list, std::fs::read_to_string(file).unwrap(), "{file}");
    assert!(list.lines().all(|l| l.chars().count() <= 78), "{list}");
    assert_ne!(list, lab.ok(&["validate", "--draw", "3", "--seed", "2", "--list"]));
}

#[test]
fn drawn_cases_can_be_kept_as_files() {
    let lab = Lab::new();
    let json = lab.json(&["validate", "--draw", "3", "--seed", "1", "--list", "--json"]);
    let said = lab.ok(&["validate", "--draw", "3", "--write", "mine"]);
    assert!(said.contains("3 cases are in mine"), "{said}");
    let cases = json["cases"].as_array().unwrap();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let text = std::fs::read_to_string(lab.path().join(format!("mine/{name}.toml"))).unwrap();
        assert_eq!(case["text"], text.as_str());
        // A file reads back as the drawn case.
        let told = lab.json(&["validate", &format!("mine/{name}.toml"), "--list", "--json"]);
        assert_eq!(told["cases"][0]["about"], case["about"]);
    }
    assert!(json["not_drawn"].as_array().is_some_and(|all| !all.is_empty()));
    lab.ok(&["validate", "--draw", "3", "--write", "mine"]);
    let name = cases[0]["name"].as_str().unwrap();
    lab.write(&format!("mine/{name}.toml"), "changed");
    let (_, err) = lab.run(&["validate", "--draw", "3", "--write", "mine"], 2);
    assert!(err.contains("not overwritten"), "{err}");
    lab.run(&["validate", "--draw", "3", "mine.toml"], 2);
    lab.run(&["validate", "--seed", "3"], 2);
}

const CHANGE: &str = r#"
name = "mine"
about = "a switch of my own"
machine = "smp-2"

[workload]
name = "slice"

[[variant]]
name = "off"
kernel = "6.1"
features = ["NO_SIS_UTIL"]

[[variant]]
name = "on"
kernel = "6.1"
features = ["SIS_UTIL"]

[change]
from = "off"
to = "on"
moves = ["migrations", "newidle lb_failed"]
"#;

#[test]
fn the_list_of_changes_shows_which_metrics_each_must_move() {
    let lab = lab(CASE);
    let list = lab.ok(&["validate", "--changes", "--list"]);
    assert!(list.lines().all(|l| l.chars().count() <= 78), "{list}");
    assert!(
        list.contains("first-idle") && list.contains("fair-sleepers") && !list.contains("host-slice"),
        "{list}"
    );
    let one = lab.json(&["validate", "--changes", "--list", "--json", "--case", "newidle"]);
    assert_eq!(one["schema"], "schedlab/change-cases/1");
    assert_eq!(one["cases"].as_array().map(Vec::len), Some(1));
    assert!(
        one["cases"][0]["moves"].as_array().unwrap().iter().any(|m| m == "newidle groups per scan"),
        "{one}"
    );
    lab.write("mine.toml", CHANGE);
    let mine = lab.json(&["validate", "--changes", "mine.toml", "--list", "--json"]);
    let case = &mine["cases"][0];
    assert_eq!(
        (case["from"].as_str(), case["to"].as_str(), case["about"].as_str()),
        (Some("off"), Some("on"), Some("a switch of my own"))
    );
    assert_eq!(case["moves"], serde_json::json!(["migrations", "newidle lb_failed"]));
}

#[test]
fn a_wrong_change_is_reported_with_its_place_before_any_run() {
    let lab = lab(CASE);
    lab.write("mine.toml", &CHANGE.replace("\"migrations\"", "\"migration\""));
    let (_, err) = lab.run(&["validate", "--changes", "mine.toml"], 2);
    assert!(err.contains("mine.toml:22:10") && err.contains("'migrations'"), "{err}");
    // A case of the other kind has no switch.
    let (_, err) = lab.run(&["validate", "--changes", "tiny.toml"], 2);
    assert!(err.contains("tiny.toml"), "{err}");
    let (_, err) = lab.run(&["validate", "--changes", "--case", "newidel"], 2);
    assert!(err.contains("'newidle'"), "{err}");
    for more in [&["--backend", "vm"][..], &["--draw", "3"], &["--draw", "3", "--write", "there"]] {
        let words = [&["validate", "--changes"], more].concat();
        assert!(lab.run(&words, 2).1.contains("cannot be used with"), "{more:?}");
    }
    assert!(!lab.path().join("runs").exists());
}

/// The simulator accepts the machine and the loads of every shipped case. An error would else show only after hours of
/// guests.
#[test]
fn the_simulated_half_of_every_change_can_be_run() {
    let lab = Lab::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/changes");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
    files.sort();
    assert!(files.len() >= 5, "{files:?}");
    for file in files {
        let file = file.to_str().unwrap();
        let csv = lab.ok(&["run", file, "--backend", "sim", "--runs", "1", "--format", "csv", "-q"]);
        assert!(csv.lines().count() > 2, "{file}: {csv}");
    }
}
