//! Searches by the kernel's own code: where a patch loses, and where our rules part from a kernel.

use crate::code::lab_of;
use crate::common::Lab;

/// A patch of 6.1 under which wakeups preempt nobody.
const PATCH: &str = include_str!("cases/files/preempt-nobody.patch");

/// A sweep in which a variant has the patch.
const SWEEP: &str = include_str!("cases/files/sweep.toml");

/// Hunts what makes wakeups preempt nobody: losses are found, confirmed by code, and can be run again.
fn hunted(lab: &Lab, words: &[&str]) -> serde_json::Value {
    let more = ["--machine", "smp-2", "--evals", "6", "--seed", "5", "--json", "-q"];
    let found = lab.json(&[&["hunt"], words, &more].concat());
    let all = found["found"].as_array().unwrap();
    assert!(!all.is_empty(), "wakeups that preempt nobody are late: {found:.300}");
    for one in all {
        assert_eq!(one["confirmed"][0]["backend"], "code", "{one}");
    }
    let file = all[0]["experiment"].as_str().unwrap();
    lab.ok(&["run", file, "--backend", "code", "--runs", "1", "-q", "--out", "hunt/runs"]);
    found
}

#[test]
fn a_hunt_judges_workloads_by_the_kernels_own_code() {
    let Some(lab) = lab_of("6.1") else { return };
    let found = hunted(&lab, &["6.1+NO_WAKEUP_PREEMPTION", "--backend", "code"]);
    assert_eq!(found["evals"], 6, "{found:.300}");
    lab.says("hunt 6.1+NO_WAKEUP_PREEMPTION --backend host", 2, &["'host' is not a backend of a hunt"]);
}

#[test]
fn a_patch_is_hunted_swept_and_put_to_the_suite_without_a_guest() {
    let Some(lab) = lab_of("6.1") else { return };
    lab.write("slow.patch", PATCH);
    let of_file = hunted(&lab, &["slow.patch"]);
    let (_, said) = lab.run("hunt slow.patch --evals 1 --machine smp-none", 2);
    assert!(said.contains("the patch fits linux-source-6.1 "), "its series is found, and said: {said}");
    std::fs::create_dir(lab.path().join("series")).unwrap();
    lab.write("series/1.patch", PATCH);
    let of_folder = hunted(&lab, &["series"]);
    let workloads = |found: &serde_json::Value| found["found"][0]["workload"].clone();
    assert_eq!(workloads(&of_file), workloads(&of_folder), "a folder of patches is a patch");
    lab.write("sweep.toml", SWEEP);
    let swept = lab.json("run sweep.toml --backend code --json -q");
    let patched =
        |cell: &&serde_json::Value| cell["variant"].as_str().is_some_and(|v| v.starts_with("patched"));
    assert_eq!(swept["cells"].as_array().unwrap().iter().filter(patched).count(), 2, "{swept:.500}");
    let suite = "suite 6.1:patch=slow.patch --backend code --machine smp-2 --quick";
    lab.ok(&format!("{suite} --load pipe -q"));
}

#[test]
fn the_first_difference_between_a_kernel_and_our_rules_is_shrunk_and_can_be_run_again() {
    let Some(lab) = lab_of("6.1") else { return };
    let words = "hunt 6.1 --first-difference --machine smp-8 --evals 8";
    let found = lab.json(&format!("{words} --json -q"));
    let (same, ordered) = (found["same"].as_u64().unwrap(), found["ordered"].as_u64().unwrap());
    let all = found["found"].as_array().unwrap();
    let parted: u64 = all.iter().map(|one| one["workloads"].as_u64().unwrap()).sum();
    assert_eq!(same + ordered + parted, 8, "each workload has one outcome: {found:.500}");
    assert!(same > 0, "some workloads are the same to the nanosecond: {found:.500}");
    assert!(!all.is_empty(), "nothing was shrunk and run again: draw more workloads, on a larger machine");
    for one in all {
        let file = one["experiment"].as_str().unwrap();
        lab.ok(&["run", file, "--backend", "code", "-q", "--out", "again"]);
    }
    lab.says("hunt 6.1 --first-difference --backend code", 2, &["cannot be used with"]);
}

/// A guard of the figure in docs/fidelity.md, by its first draws. Among them are forks whose CPU hangs on the sums that
/// dead children leave behind.
#[test]
fn drawn_workloads_stay_the_same_by_code_and_rules() {
    let Some(lab) = lab_of("6.1") else { return };
    let drawn = ["--seed", "1", "--evals", "24", "--no-shrink", "--json", "-q"];
    let said = lab.json(&[&["hunt", "6.1", "--first-difference", "--machine", "smp-8"], &drawn[..]].concat());
    let differ: Vec<u64> = said["found"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|one| one["draws"].as_array().unwrap().iter().filter_map(serde_json::Value::as_u64))
        .collect();
    assert!(said["same"].as_u64() >= Some(12) && !differ.contains(&21), "{said:.600}");
}
