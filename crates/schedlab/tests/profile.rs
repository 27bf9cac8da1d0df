//! `schedlab profile` through the binary.

use crate::common::{Lab, texts, unwrapped};
use schedlab_base::testing::skipped;

/// Reads and writes in the kernel for a good part of a second.
const BUSY: &[&str] = &["dd", "if=/dev/zero", "of=/dev/null", "bs=64", "count=600000", "status=none"];

/// The JSON of a profile; `None`, with a message, where this user may not sample.
fn profile(lab: &Lab, words: &[&str]) -> Option<serde_json::Value> {
    let output = lab.command(words).output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        assert!(
            err.contains("perf_event_paranoid") || err.contains("kptr_restrict") || err.contains("samples"),
            "{err}"
        );
        skipped(err);
        return None;
    }
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    Some(serde_json::from_str(&out).unwrap())
}

#[test]
fn a_commands_time_in_the_kernel_is_found_by_function() {
    let lab = Lab::new();
    let Some(json) = profile(&lab, &[&["profile", "--freq", "1999", "--json", "--"], BUSY].concat()) else {
        return;
    };
    assert_eq!(json["schema"], "schedlab/profile/1");
    let samples = json["samples"].as_u64().unwrap();
    assert!(samples > 30, "{json}");
    let functions = json["functions"].as_array().unwrap();
    let of = |f: &serde_json::Value, key: &str| f[key].as_u64().unwrap();
    assert!(functions.iter().all(|f| of(f, "self") <= of(f, "total") && of(f, "total") <= samples), "{json}");
    let own: u64 = functions.iter().map(|f| of(f, "self")).sum();
    assert_eq!(own, json["kernel"].as_u64().unwrap());
    let read = functions
        .iter()
        .find(|f| f["name"].as_str().is_some_and(|n| n.contains("ksys_read") || n.contains("vfs_")));
    assert!(
        read.is_some_and(|f| of(f, "total") > of(f, "self")),
        "the way into a read is in the chains: {json}"
    );
}

#[test]
fn functions_are_asked_for_by_name_and_may_be_zero() {
    let lab = Lab::new();
    let words =
        ["profile", "--symbols", "newidle_balance,update_sd_lb_stats,no_such_function", "--json", "--"];
    let Some(json) = profile(&lab, &[&words[..], BUSY].concat()) else { return };
    let names: Vec<&str> =
        json["functions"].as_array().unwrap().iter().filter_map(|f| f["name"].as_str()).collect();
    assert_eq!(names, ["newidle_balance", "update_sd_lb_stats", "no_such_function"]);
    assert_eq!(json["functions"][2]["total"], 0);
    let told = json["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "profile.unknown");
    assert!(told, "{json}");
}

#[test]
fn the_text_fits_and_the_exit_code_is_the_commands() {
    let lab = Lab::new();
    let output = lab.command("profile --top 5 -- sh -c 'echo said; exit 4'").output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        skipped(err);
        return;
    }
    assert_eq!(output.status.code(), Some(4), "{out}\n{err}");
    let flat = unwrapped(&out);
    assert!(
        flat.starts_with("said ") && flat.contains(" samples in ") && flat.contains(", 0 lost;"),
        "{out}"
    );
    // The name of a function stands last, in its full length.
    let fits = |l: &str| {
        let before = l.rsplit_once("  ").map_or(l, |(before, _)| before);
        l.chars().count() <= 78 || l.contains('%') && before.chars().count() <= 50
    };
    assert!(out.lines().all(fits), "{out}");
    if let Some(json) = profile(&lab, &["profile", "-a", "--for", "300ms", "--json"]) {
        assert!(json["samples"].as_u64().unwrap() + json["idle"].as_u64().unwrap() > 50, "{json}");
    }
}

/// The CPU's counters are masked, so that a machine that has them samples as one that has none.
#[test]
fn without_the_cpus_counters_a_timer_takes_the_samples() {
    let lab = Lab::new();
    let mut command = lab.command("profile --freq 1999 --json --");
    let output = command.args(BUSY).env("SCHEDLAB_PMU", "off").output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        skipped(err);
        return;
    }
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let warned = json["warnings"].as_array().unwrap().iter().any(|w| w["code"] == "profile.timer");
    assert!(json["clock"] == "timer" && warned && json["samples"].as_u64() > Some(30), "{json}");
}

#[test]
fn call_chains_are_folded_for_flame_graphs() {
    let lab = Lab::new();
    let words = [&["profile", "--freq", "1999", "--folded", "--"], BUSY].concat();
    let output = lab.command(&words).output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        skipped(err);
        return;
    }
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    let lines: Vec<(&str, u64)> =
        out.lines().map(|l| l.rsplit_once(' ').map(|(s, n)| (s, n.parse().unwrap())).unwrap()).collect();
    assert!(lines.iter().map(|(_, n)| n).sum::<u64>() > 30, "{out}");
    assert!(lines.iter().all(|(stack, n)| *n > 0 && stack.contains(';') && !stack.contains(' ')), "{out}");
    let through = |frame: &str| lines.iter().any(|(s, _)| s.starts_with("dd;") && s.contains(frame));
    assert!(through("ksys_read;") || through("vfs_"), "a read is under dd: {out}");
    assert!(lab.run("profile --folded --json -- true", 2).1.contains("--json"));
}
