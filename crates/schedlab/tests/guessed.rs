//! A simulation of this host warns when its costs were not measured, and names the profile that stands for the running
//! kernel.

use crate::common;
use crate::common::{Lab, texts};
use schedlab_machine::probed::{Measured, Probed};

/// The warning codes of one simulated run, and its notes on standard error; with a state folder of its own.
fn simulated(lab: &Lab, machine: &str, more: &[&str]) -> (Vec<String>, String, serde_json::Value) {
    let words = ["bench", "--backend", "sim", "--json", "--machine", machine, "--out", machine];
    let mut command = lab.command(&[&words[..], more, &["pipe", "--loops", "200"]].concat());
    let output = command.env("SCHEDLAB_STATE_DIR", lab.path().join("state")).output().unwrap();
    let (out, err) = texts(&output);
    assert!(output.status.success(), "{out}\n{err}");
    let run: serde_json::Value = serde_json::from_str(&out).unwrap();
    let codes = run["warnings"].as_array().map_or(&[][..], Vec::as_slice);
    (codes.iter().map(|w| w["code"].as_str().unwrap().to_owned()).collect(), err, run)
}

#[test]
fn guessed_costs_are_a_warning_until_the_machine_is_probed() {
    let lab = Lab::new();
    let (codes, _, run) = simulated(&lab, "host", &[]);
    assert_eq!(codes, ["costs.guessed"]);
    let text = run["warnings"].to_string();
    assert!(text.contains("schedlab machine probe"), "{text}");
    assert_eq!(simulated(&lab, "smp-2", &[]).0, [""; 0], "a preset's estimates are stated");

    let cost = Measured { name: "syscall_ns".into(), value: 123, range: (100, 150), how: "a test".into() };
    let probe = serde_json::to_string(&Probed::here(vec![cost])).unwrap();
    std::fs::create_dir(lab.path().join("state")).unwrap();
    lab.write("state/probe.json", &probe);
    assert_eq!(simulated(&lab, "host", &["--seed", "2"]).0, [""; 0]);
}

#[test]
fn kernels_that_gather_processes_in_caches_say_that_the_rules_lack_it() {
    let lab = Lab::new();
    let codes =
        |kernel: &str, machine: &str| simulated(&lab, machine, &["--kernel", kernel, "--seed", "5"]).0;
    assert_eq!(codes("v7.3", "epyc-2x4"), ["sim.caches"]);
    assert_eq!([codes("v6.18", "epyc-2x4"), codes("v7.3", "smp-8")], [[""; 0]; 2], "older, or one cache");
    lab.write("own.toml", &common::SMALL.replace("smp-4", "epyc-2x4").replace("v4.5", "v7.3"));
    for format in ["table", "detail", "lkml", "markdown", "normal", "ranked"] {
        let out = lab.ok(&["run", "own.toml", "--format", format, "--quiet", "--out", "runs"]);
        assert!(out.contains("SCHED_CACHE"), "{format}: {out}");
    }
}

#[test]
fn the_profile_of_the_running_kernel_is_named() {
    let lab = Lab::new();
    let (_, err, run) = simulated(&lab, "host", &[]);
    let kernel = run["kernel"].as_str().unwrap().to_owned();
    assert!(
        err.contains(&format!("simulated as {kernel}, the profile nearest to the running kernel")),
        "{err}"
    );
    let (_, err, run) = simulated(&lab, "smp-2", &[]);
    assert_eq!((run["kernel"].as_str(), err.contains("nearest")), (Some("v6.5"), false));
    let (_, err, run) = simulated(&lab, "host", &["--kernel", "v4.5", "--seed", "3"]);
    assert_eq!((run["kernel"].as_str(), err.contains("nearest")), (Some("v4.5"), false));
    assert!(!simulated(&lab, "host", &["--quiet", "--seed", "4"]).1.contains("nearest"));
}

#[test]
fn a_comparison_and_a_knee_carry_the_warning_too() {
    let lab = Lab::new();
    lab.write("own.toml", &common::SMALL.replace("smp-4", "host"));
    let run = |words: &[&str]| {
        let output = lab.command(words).env("SCHEDLAB_STATE_DIR", lab.path().join("state")).output().unwrap();
        let text = texts(&output).0;
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
    };
    let codes = |json: &serde_json::Value| json["warnings"].to_string().matches("costs.guessed").count();
    let comparison = run(&["run", "own.toml", "--json", "--runs", "2", "--load", "1x2"]);
    assert_eq!(codes(&comparison), 1, "once for all runs: {}", comparison["warnings"]);
    let knee =
        ["knee", "--backend", "sim", "--runs", "1", "--max-load", "1", "--limit", "work > 0", "--json"];
    let knee = run(&[&knee[..], &["schbench", "--runtime", "100ms"]].concat());
    assert_eq!(codes(&knee), 1, "{knee}");
}
