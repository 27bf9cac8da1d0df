//! `--uncertainty` through the binary: its output in each form, and that it repeats.

use crate::common::Lab;
use serde_json::Value;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

#[test]
fn an_experiment_shows_the_effect_of_its_costs() {
    let lab = Lab::new();
    let words = "run small.toml --uncertainty --runs 12";
    let (table, notes) = lab.run(words, 0);
    assert!(table.contains("costs drawn from their ranges, 12 draws"), "{table}");
    assert!(table.contains("figures that drawn costs move"), "{table}");
    assert!(table.lines().all(|l| l.chars().count() <= 78), "{table}");
    assert!(notes.contains("48 runs made, 0 found"), "{notes}");
    let (again, notes) = lab.run(words, 0);
    assert_eq!(again, table);
    assert!(notes.contains("0 runs made, 48 found"), "{notes}");
    let (plain, notes) = lab.run("run small.toml", 0);
    assert!(notes.contains("12 runs made, 0 found"), "drawn runs are no plain ones: {notes}");
    assert!(!plain.contains("drawn"), "{plain}");
    for form in ["detail", "lkml", "markdown"] {
        let (text, _) = lab.run(&format!("{words} --format {form}"), 0);
        assert!(text.replace('\n', " ").contains("the model's own uncertainty"), "{form}: {text}");
    }
    let c = json(&lab.run(&format!("{words} --json"), 0).0);
    let all = c["uncertainty"].as_array().unwrap();
    // Two loads, three metrics, and for each the baseline's value and a change.
    assert_eq!(all.len(), 12);
    assert!(all.iter().all(|e| e["draws"] == 12 && e["costs"].as_u64() > Some(30)), "{all:?}");
    let mover = &all[0]["movers"][0];
    assert!(mover["range"][0].as_u64() < mover["range"][1].as_u64() && mover["rho"].is_f64(), "{mover}");
}
