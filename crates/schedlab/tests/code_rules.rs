//! `validate --rules` end to end: our rules beside the kernel's own code of 6.1, one decision at a time.

use crate::code::{has_source, has_source_of};
use crate::common::{Lab, texts};

#[test]
fn our_rules_decide_like_the_kernels_own_code() {
    if !has_source() {
        return;
    }
    let of_queue = ["pick", "placement", "preemption"];
    let of_machine = ["select", "busiest", "detach", "newidle", "shares", "fork", "exec"];
    let all = [&of_queue[..], &of_machine].concat();
    let rows = decided("6.1", &[]);
    let names: Vec<_> = rows.iter().map(|r| r["function"].as_str().unwrap()).collect();
    assert_eq!(names, all);
    for row in &rows {
        assert_eq!((&row["draws"], &row["causes"]), (&500.into(), &serde_json::json!([])), "{row}");
    }
}

#[test]
fn our_rules_decide_alike_about_groups_and_delayed_entities() {
    let all = ["group-pick", "group-wake", "group-sleep", "group-preemption", "group-tick"];
    let named = all.map(|f| ["--function", f]).concat();
    for series in ["6.12", "7.3"].into_iter().filter(|series| has_source_of(series)) {
        let rows = decided(series, &named);
        assert_eq!(rows.len(), all.len(), "{series}");
        for row in &rows {
            assert_eq!((&row["draws"], &row["causes"]), (&500.into(), &serde_json::json!([])), "{row}");
        }
    }
}

/// The rows of a kernel.
fn decided(series: &str, more: &[&str]) -> Vec<serde_json::Value> {
    let words = ["validate", "--rules", "--kernel", series, "--draws", "500", "--json", "--quiet"];
    let output = Lab::new().command(&words).args(more).output().unwrap();
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}{out}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    found["rows"].as_array().unwrap().clone()
}
