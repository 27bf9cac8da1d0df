//! `validate --rules` end to end: our rules beside the kernel's own code of 6.1, one decision at a time.

use crate::code::has_source;
use crate::common::{Lab, texts};

#[test]
fn our_rules_decide_as_the_kernels_own_code() {
    if !has_source() {
        return;
    }
    let words = ["validate", "--rules", "--kernel", "6.1", "--draws", "500", "--json", "--quiet"];
    let output = Lab::new().command(&words).output().unwrap();
    let (out, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}{out}");
    let found: serde_json::Value = serde_json::from_str(&out).unwrap();
    let rows = found["rows"].as_array().unwrap();
    let names: Vec<_> = rows.iter().map(|r| r["function"].as_str().unwrap()).collect();
    let all = ["pick", "placement", "preemption", "select", "busiest", "detach", "newidle", "shares"];
    assert_eq!(names, all);
    for row in rows {
        assert_eq!(row["draws"], 500, "{row}");
        // Our rules end a newidle pass whose busiest queue has nothing but pinned tasks (docs/fidelity.md).
        let most = if row["function"] == "newidle" { 1 } else { 0 };
        assert!(row["causes"].as_array().unwrap().len() <= most, "{row}");
    }
}

#[test]
fn a_function_that_is_not_there_is_refused() {
    let output = Lab::new().command(&["validate", "--rules", "--function", "pikc"]).output().unwrap();
    let (_, said) = texts(&output);
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("pick"), "{said}");
}
