//! `schedlab schedstat`: saved files, their difference, a stored run, and the running kernel.

use crate::common;
use crate::common::Lab;
use serde_json::json;
use std::path::Path;

const EARLIER: &str = include_str!("../../record/tests/data/schedstat.v15-sg-scan");

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("before", EARLIER);
    lab
}

#[test]
fn pipes_are_read_once() {
    let lab = lab();
    let wanted = lab.ok("schedstat before --lines");
    let output = lab.command("schedstat /dev/stdin --lines").write_stdin(EARLIER).output().unwrap();
    assert_eq!(common::texts(&output), (wanted, String::new()));
}

#[test]
fn a_stored_run_is_shown_by_its_own_counters() {
    let lab = lab();
    lab.ok("run small.toml --runs 1 --load 1x2 --variant v4.5 -q");
    let (path, bytes) =
        common::files(lab.path()).into_iter().find(|(n, _)| n.ends_with("record.json")).unwrap();
    let mut record: serde_json::Value = serde_json::from_slice(&bytes).unwrap();
    record["schedstat"] = json!({ "version": 17, "sg_scan": true, "timestamp": 50, "cpus": [
        [0, [0, 9, 4, 2, 1], [["SMT", "0-1", [[], [], [3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 3, 3]], [0, 0, 0, 0, 0, 0, 0, 0, 0, 1]]]],
        [1, [], [["SMT", "0-1", [[], [], []], []]]] ] });
    lab.write(&path, &record.to_string());
    let folder = Path::new(&path).parent().unwrap().to_str().unwrap();
    let text = lab.ok(&["schedstat", folder, "--lines", "--cpu", "0", "--domain", "0", "--type", "newidle"]);
    let own = |counter: &str| format!(".domain0.CPU_NEWLY_IDLE.{counter} 3\n");
    assert_eq!(text, ["lb_balanced", "lb_count", "lb_nobusyg", "lb_sg_scan"].map(own).concat());
    assert_eq!(lab.ok(&["schedstat", &path, "--print-version", "15", "--sg-scan"]).lines().count(), 6);
    let e = lab.run(&["schedstat", folder, "before"], 2).1;
    assert!(e.contains("differences already"), "{e}");
    // The same counters are metrics of the run.
    let json = lab.json("compare runs --json --metric domain0.newidle.lb_sg_scan");
    assert_eq!(json["cells"][0]["metrics"]["domain0.newidle.lb_sg_scan"]["mean"], json!(3.0));
    record.as_object_mut().unwrap().remove("schedstat");
    lab.write(&path, &record.to_string());
    assert!(lab.run(&["schedstat", folder], 2).1.contains("has no schedstat"));
}

#[test]
fn the_running_kernel_counts_or_the_remedy_is_named() {
    let lab = lab();
    let output = lab.command("schedstat --interval 50ms --json").output().unwrap();
    let (out, err) = common::texts(&output);
    if output.status.code() == Some(0) {
        let json: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!(json["source"], "/proc/schedstat");
    } else {
        assert_eq!(output.status.code(), Some(3), "{err}");
        assert!(err.contains("CONFIG_SCHEDSTATS") || err.contains("kernel.sched_schedstats=1"), "{err}");
        assert!(!Path::new("/proc/schedstat").exists() || err.contains("switched off"), "{err}");
    }
}
