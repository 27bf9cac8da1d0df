//! `--uncertainty` through the binary: its output in each form, and that it repeats.

use crate::common::Lab;
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn an_experiment_shows_the_effect_of_its_costs() {
    let lab = Lab::new();
    let words = ["run", "small.toml", "--uncertainty", "--runs", "12"];
    let (table, notes) = lab.run(&words, 0);
    assert!(table.contains("costs drawn from their ranges, 12 draws"), "{table}");
    assert!(table.contains("figures that drawn costs move"), "{table}");
    assert!(table.lines().all(|l| l.chars().count() <= 78), "{table}");
    assert!(notes.contains("48 runs made, 0 found"), "{notes}");
    let (again, notes) = lab.run(&words, 0);
    assert_eq!(again, table);
    assert!(notes.contains("0 runs made, 48 found"), "{notes}");
    let (plain, notes) = lab.run(&["run", "small.toml"], 0);
    assert!(notes.contains("12 runs made, 0 found"), "drawn runs are no plain ones: {notes}");
    assert!(!plain.contains("drawn"), "{plain}");
    for form in ["detail", "lkml", "markdown"] {
        let (text, _) = lab.run(&[&words[..], &["--format", form]].concat(), 0);
        assert!(text.replace('\n', " ").contains("the model's own uncertainty"), "{form}: {text}");
    }
    let c = json(&lab.run(&[&words[..], &["--json"]].concat(), 0).0);
    let all = c["uncertainty"].as_array().unwrap();
    // Two loads, three metrics, and for each the baseline's value and a change.
    assert_eq!(all.len(), 12);
    assert!(all.iter().all(|e| e["draws"] == 12 && e["costs"].as_u64() > Some(30)), "{all:?}");
    let mover = &all[0]["movers"][0];
    assert!(mover["range"][0].as_u64() < mover["range"][1].as_u64() && mover["rho"].is_f64(), "{mover}");
}

#[test]
fn metrics_that_no_cost_moves_are_counted_as_others_only_if_some_are_moved() {
    let lab = Lab::new();
    // Three draws correlate with nothing beyond chance, and one variant has no verdict.
    let words =
        ["run", "small.toml", "--uncertainty", "--runs", "3", "--load", "1x2", "--variant", "v4.5", "-q"];
    let table = lab.ok(&words);
    assert!(table.contains("\n  - 3 figures: no cost beyond chance"), "{table}");
}

#[test]
fn one_workload_and_a_knee_can_be_drawn_too() {
    let lab = Lab::new();
    let place = ["--backend", "sim", "--machine", "smp-4", "--uncertainty"];
    let bench =
        [&["bench", "nanosleep", "--sleep", "2ms", "-r", "100ms", "--runs", "14"], &place[..]].concat();
    let (table, _) = lab.run(&bench, 0);
    assert!(table.contains("14 runs") && table.contains("idle.C6 +"), "{table}");
    let knee = [
        &[
            "knee",
            "schbench",
            "-r",
            "100ms",
            "--runs",
            "3",
            "--max-load",
            "4",
            "--limit",
            "work > 0",
            "--json",
        ],
        &place[..],
    ];
    let k = json(&lab.run(&knee.concat(), 0).0);
    assert_eq!(k["variants"][0]["uncertainty"]["draws"], 3, "{k}");
}
