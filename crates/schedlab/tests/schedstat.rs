//! `schedlab schedstat`: saved files, their difference, a stored run, and the running kernel.

use crate::common;
use crate::common::Lab;
use serde_json::json;
use std::path::Path;

const EARLIER: &str = include_str!("../../record/tests/data/schedstat.v15-sg-scan");
const V17: &str = include_str!("../../record/tests/data/schedstat.v17");

/// Five seconds later: CPU 2 has counted the events of D001's CPU 8; no other counter moves.
fn later() -> String {
    let cpu = "cpu2 1 0 178783 89390 89392 88166 227910772 2145671 89393";
    assert!(EARLIER.contains(cpu));
    let text = EARLIER.replacen("4295892672", "4295893922", 1);
    let text = text.replacen(cpu, "cpu2 1 0 357566 178780 178784 176932 455821544 4291342 178786", 1);
    let own: Vec<&str> = text.lines().filter(|l| l.starts_with("domain1 ")).collect();
    let newidle = "822 732 80 90 12 0 235 497 45231";
    assert!(own[2].contains(newidle));
    let counted =
        own[2].replace(newidle, "1644 1464 170 180 12 0 470 994 90441").replace(" 626 7 0", " 1252 7 0");
    text.replacen(own[2], &counted, 1)
}

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("before", EARLIER);
    lab.write("after", &later());
    lab.write("v17", V17);
    lab.write("short", &EARLIER[..EARLIER.len() / 2]);
    lab
}

#[test]
fn pipes_are_read_once() {
    let lab = lab();
    let wanted = lab.ok(&["schedstat", "before", "--lines"]);
    let output = lab.command(&["schedstat", "/dev/stdin", "--lines"]).write_stdin(EARLIER).output().unwrap();
    assert_eq!(common::texts(&output), (wanted, String::new()));
}

#[test]
fn two_saved_files_give_the_lines_of_the_document() {
    let lab = lab();
    let text = lab.ok(&["schedstat", "before", "after", "--lines"]);
    let expected = "\
        .domain1.CPU_NEWLY_IDLE.lb_balanced 732\n\
        .domain1.CPU_NEWLY_IDLE.lb_count 822\n\
        .domain1.CPU_NEWLY_IDLE.lb_failed 90\n\
        .domain1.CPU_NEWLY_IDLE.lb_imbalance 90\n\
        .domain1.CPU_NEWLY_IDLE.lb_nobusyg 497\n\
        .domain1.CPU_NEWLY_IDLE.lb_nobusyq 235\n\
        .domain1.CPU_NEWLY_IDLE.lb_sg_scan 45210\n\
        .domain1.ttwu_wake_remote 626\n\
        .stats.rq_cpu_time 227910772\n\
        .stats.rq_sched_info.pcount 89393\n\
        .stats.rq_sched_info.run_delay 2145671\n\
        .stats.sched_count 178783\n\
        .stats.sched_goidle 89390\n\
        .stats.ttwu_count 89392\n\
        .stats.ttwu_local 88766\n";
    assert_eq!(text, expected);
    assert_eq!(lab.ok(&["schedstat", "before", "after", "--lines", "--cpu", "2"]), expected);
    assert_eq!(lab.ok(&["schedstat", "before", "after", "--lines", "--cpu", "0-1,3"]), "");
    let apart = lab.ok(&["schedstat", "before", "after", "--lines", "--per-cpu", "--type", "newidle"]);
    assert!(
        apart.lines().count() == 7 && apart.lines().all(|l| l.starts_with("cpu2.domain1.CPU_NEWLY_IDLE."))
    );
}

#[test]
fn the_table_has_the_derived_figures() {
    let lab = lab();
    let text = lab.ok(&["schedstat", "before", "after", "--cpu", "2", "--domain", "1", "--type", "newidle"]);
    let words: Vec<String> =
        text.lines().map(|l| l.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(words[0], "cpu2, 1250 jiffies");
    for line in
        ["domain1 newidle", "lb_count 822", "groups per balance 55", "past balanced 10.9%", "failed 10.9%"]
    {
        assert!(words.iter().any(|w| w == line), "{line}: {text}");
    }
    assert!(!text.contains("lb_gained") && !text.contains("domain0") && !text.contains("ttwu"), "{text}");
    assert!(lab.ok(&["schedstat", "before", "after", "--all"]).contains("lb_gained"));
}

#[test]
fn json_holds_all_counters() {
    let lab = lab();
    let json = lab.json(&["schedstat", "before", "after", "--json", "--cpu", "1-2", "--per-cpu"]);
    assert_eq!((&json["schema"], &json["jiffies"]), (&json!("schedlab/schedstat/1"), &json!(1250)));
    assert_eq!((&json["version"], &json["sg_scan"]), (&json!(15), &json!(true)));
    assert_eq!((&json["violations"], &json["source"]), (&json!([]), &json!("before to after")));
    let cpu = &json["parts"][1];
    assert_eq!((&cpu["cpus"], &cpu["counters"]["ttwu_count"]), (&json!("2"), &json!(89_392)));
    let domain = &cpu["domains"][1];
    assert_eq!(domain["newidle"]["lb_gained"], json!(0), "zeros are there too");
    assert_eq!(domain["newidle"]["groups_per_balance"], json!(55.0));
    assert_eq!(domain["counters"]["ttwu_wake_remote"], json!(626));
}

#[test]
fn counters_that_contradict_each_other_are_reported() {
    let lab = lab();
    lab.write("odd", &EARLIER.replacen("89392 88166", "89392 88160", 1));
    let (out, err) = lab.run(&["schedstat", "odd"], 0);
    assert!(out.starts_with("4 CPUs (0-3), "), "{out}");
    assert!(err.contains("contradict") && err.contains("cpu0: ttwu_count = ttwu_local"), "{err}");
    assert_eq!(lab.json(&["schedstat", "odd", "--json"])["violations"].as_array().map(Vec::len), Some(1));
}

#[test]
fn a_file_is_printed_in_another_version() {
    let lab = lab();
    assert_eq!(lab.ok(&["schedstat", "v17", "--print-version", "17"]), V17);
    let v15 = lab.ok(&["schedstat", "v17", "--print-version", "15"]);
    assert_eq!(v15, include_str!("../../record/tests/data/schedstat.v15"));
    assert_eq!(lab.ok(&["schedstat", "before", "--print-version", "15", "--sg-scan"]), EARLIER);
    for (words, said) in [
        (&["schedstat", "before", "--print-version", "17"][..], "kinds of imbalance"),
        (&["schedstat", "v17", "--print-version", "17", "--sg-scan"], "no lb_sg_scan"),
        (&["schedstat", "v17", "--print-version", "14"], "15, 16 and 17"),
        (&["schedstat", "v17", "--sg-scan"], "--print-version"),
    ] {
        assert!(lab.run(words, 2).1.contains(said), "{words:?}");
    }
}

#[test]
fn a_stored_run_is_shown_by_its_own_counters() {
    let lab = lab();
    lab.ok(&["run", "small.toml", "--runs", "1", "--load", "1x2", "--variant", "v4.5", "-q"]);
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
    let json = lab.json(&["compare", "runs", "--json", "--metric", "domain0.newidle.lb_sg_scan"]);
    assert_eq!(json["cells"][0]["metrics"]["domain0.newidle.lb_sg_scan"]["mean"], json!(3.0));
    record.as_object_mut().unwrap().remove("schedstat");
    lab.write(&path, &record.to_string());
    assert!(lab.run(&["schedstat", folder], 2).1.contains("has no schedstat"));
}

#[test]
fn wrong_input_is_reported_with_its_place() {
    let lab = lab();
    lab.write("words", "not counters\n");
    for (words, said) in [
        (&["schedstat", "nowhere"][..], &["can't read nowhere"][..]),
        (&["schedstat", "short"], &["short:", "cut short"]),
        (&["schedstat", "words"], &["words:1:1: not a /proc/schedstat", "cat /proc/schedstat"]),
        (&["schedstat", "after", "before"], &["before: ", "older than the first"]),
        (&["schedstat", "before", "v17"], &["different layouts"]),
        (&["schedstat", "before", "--cpu", "3-9"], &["--cpu: there is no cpu4", "0-3"]),
        (&["schedstat", "before", "--cpu", "x"], &["--cpu", "'x'"]),
        (&["schedstat", "before", "--domain", "2"], &["no domain2", "0 to 1"]),
        (&["schedstat", "before", "--type", "newidel"], &["unknown idle type 'newidel'", "'newidle'"]),
        (&["schedstat", "before", "--interval", "1s"], &["--interval"]),
        (&["schedstat", "before", "--lines", "--json"], &["--json"]),
    ] {
        let (out, err) = lab.run(words, 2);
        assert!(out.is_empty() && said.iter().all(|part| err.contains(part)), "{words:?}: {err}");
    }
}

#[test]
fn the_running_kernel_counts_or_the_remedy_is_named() {
    let lab = lab();
    let output = lab.command(&["schedstat", "--interval", "50ms", "--json"]).output().unwrap();
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
