//! `schedlab record` on the running kernel. Where this user may not record events, only the refusal is tested.

use crate::common;
use crate::common::Lab;
use schedlab_base::testing::skipped;
use serde_json::Value;

/// What a recording printed, and its record; `None` where events can't be recorded.
fn recorded(lab: &Lab, words: &[&str], code: i32) -> Option<(Value, Value)> {
    let done = lab.command(&[&["record", "--json"], words].concat()).output().unwrap();
    let (out, e) = common::texts(&done);
    if done.status.code() == Some(3) {
        assert!(e.contains("tracefs") || e.contains("tracepoints") || e.contains("perf"), "{e}");
        skipped(e);
        return None;
    }
    assert_eq!(done.status.code(), Some(code), "{e}");
    let told: Value = serde_json::from_str(&out).unwrap();
    let folder = lab.path().join(told["folder"].as_str().unwrap());
    assert!(folder.join("events.slt").is_file());
    let record = std::fs::read_to_string(folder.join("record.json")).unwrap();
    Some((told, serde_json::from_str(&record).unwrap()))
}

#[test]
fn a_command_and_its_descendants_are_the_workload() {
    let lab = Lab::new();
    let line = "for i in 1 2 3; do sleep 0.01; done; echo said; exit 7";
    let Some((told, record)) = recorded(&lab, &["--", "sh", "-c", line], 7) else { return };
    let names: Vec<&str> =
        record["tasks"].as_array().unwrap().iter().map(|t| t["name"].as_str().unwrap()).collect();
    assert_eq!(names.iter().filter(|n| **n == "sleep").count(), 3, "{names:?}");
    assert!(names.contains(&"sh") && !names.iter().any(|n| n.starts_with("kworker")), "{names:?}");
    assert!(told["run"]["workload"] == "sh" && record["backend"] == "recording", "{told}");
    assert!(record["environment"]["kernel.release"].is_string());
    // Runs of another command are another cell; events and waits of the run can be shown.
    let Some((other, _)) = recorded(&lab, &["--", "true"], 0) else { return };
    let cell = |told: &Value| told["folder"].as_str().unwrap().rsplit_once('/').unwrap().0.to_owned();
    assert_ne!(cell(&told), cell(&other));
    let folder = told["folder"].as_str().unwrap();
    lab.ok(&["trace", folder, "--format", "text", "-o", "t.txt"]);
    let lines = lab.text("t.txt");
    assert!(lines.contains("next_comm=sleep"), "{lines}");
    lab.ok(&["explain", folder]);
}

#[test]
fn a_while_is_recorded_without_schedlab_itself_and_leaves_only_the_run() {
    let lab = Lab::new();
    let Some((told, record)) = recorded(&lab, &["--duration", "300ms", "--variant", "now"], 0) else {
        return;
    };
    assert!(told["duration_ns"].as_u64().unwrap() >= 300_000_000, "{told}");
    assert_eq!(record["variant"]["name"], "now");
    let left: Vec<_> = common::files(lab.path())
        .into_iter()
        .map(|(name, _)| name)
        .filter(|n| n.contains("recording"))
        .collect();
    assert!(left.is_empty(), "{left:?}");
}
