//! `schedlab validate` as a user meets it.

use crate::common;
use crate::common::Lab;

const CASE: &str = include_str!("cases/files/tiny-case.toml");

#[test]
fn a_case_is_run_on_both_sides_and_every_metric_is_reported() {
    let lab = Lab::new();
    lab.write("tiny.toml", CASE);
    // Two short runs on a machine that does other work, too: this test does not check whether they agree, nor whether
    // more runs are made.
    let text = |code: &[i32]| {
        let args = "validate tiny.toml --runs 2 --json -q --out kept";
        let output = lab.command(args).output().unwrap();
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
fn drawn_cases_can_be_kept_as_files() {
    let lab = Lab::new();
    let json = lab.json("validate --draw 3 --seed 1 --list --json");
    let said = lab.ok("validate --draw 3 --write mine");
    assert!(said.contains("3 cases are in mine"), "{said}");
    let cases = json["cases"].as_array().unwrap();
    for case in cases {
        let name = case["name"].as_str().unwrap();
        let text = std::fs::read_to_string(lab.path().join(format!("mine/{name}.toml"))).unwrap();
        assert_eq!(case["text"], text.as_str());
        // A file reads as what was drawn.
        let told = lab.json(&["validate", &format!("mine/{name}.toml"), "--list", "--json"]);
        assert_eq!(told["cases"][0]["about"], case["about"]);
    }
    assert!(json["not_drawn"].as_array().is_some_and(|all| !all.is_empty()));
    lab.ok("validate --draw 3 --write mine");
    let name = cases[0]["name"].as_str().unwrap();
    lab.write(&format!("mine/{name}.toml"), "changed");
    lab.says("validate --draw 3 --write mine", 2, &["not overwritten"]);
    lab.run("validate --draw 3 mine.toml", 2);
    lab.run("validate --seed 3", 2);
}

#[test]
fn drawn_cases_are_judged_by_the_kept_guests_of_those_that_were_run() {
    let lab = Lab::new();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/results/drawn.json");
    let drawn = "validate --draw 22 --seed 261201 -q --json --case drawn-261201-021-hackbench";
    let with = |more: &str| lab.command(&format!("{drawn} {more} --real {kept}")).output().unwrap();
    let output = with("--case drawn-261201-022-nanosleep");
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let names: Vec<_> = found["cases"].as_array().unwrap().iter().map(|c| c["name"].clone()).collect();
    assert_eq!(names, ["drawn-261201-022-nanosleep"], "of the other no guest was run");
    assert_eq!(found["not_run"].as_array().map(Vec::len), Some(0));
    assert_eq!(found["cases"][0]["real"]["backend"], "vm");
    assert!(found["share"]["measured"].as_u64().is_some_and(|n| n >= 10), "{found}");
    let nothing = with("");
    assert_eq!(nothing.status.code(), Some(2), "nothing is left to judge");
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("none of the cases that were drawn"));
}

#[test]
fn limits_are_judged_by_kept_guests_and_a_case_that_they_lack_is_not_passed_over() {
    let lab = Lab::new();
    let kept = concat!(env!("CARGO_MANIFEST_DIR"), "/../../cases/results/limits.json");
    let line = |more: &str| format!("validate --limits --case limits-http -q --real {kept} {more}");
    let said = lab.ok(&line("--kernel v6.12"));
    assert!(
        said.contains("6 changes with a sign, 6 agree in sign") && said.ends_with("\npassed\n"),
        "{said}"
    );
    let (said, _) = lab.run(&line("--kernel v6.12 --kernel v5.10"), 1);
    assert!(said.contains("does not have it under") && said.contains("6 agree in sign"), "{said}");
    lab.says(&line("--kernel v5.10"), 3, &["no case could be run", "--real"]);
    lab.says(&line("--judged vm"), 2, &["--judged"]);
}

/// The machine and the loads of a shipped case make sense to the simulator, whose half would else be missed only after
/// hours of guests.
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
