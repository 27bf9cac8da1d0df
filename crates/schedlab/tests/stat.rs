//! `schedlab stat` through the binary: output that passes through, exit codes, figures, and agreement with perf.

use crate::common::{Lab, texts, unwrapped};
use schedlab_base::testing::{skipped, stretch};
use std::process::Command;

#[test]
fn json_is_alone_on_standard_output() {
    let lab = Lab::new();
    let output = lab.command("stat --runs 3 --json -- echo hello").output().unwrap();
    let (out, err) = texts(&output);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((json["schema"].as_str(), json["runs"].as_u64()), (Some("schedlab/stat/1"), Some(3)));
    assert_eq!(err.matches("hello\n").count(), 3, "{err}");
    assert_eq!(json["metrics"]["command.elapsed"]["values"].as_array().map(Vec::len), Some(3));
    let ci = json["metrics"]["command.elapsed"]["ci95"].as_array().unwrap();
    assert!(ci[0].as_f64() <= json["metrics"]["command.elapsed"]["mean"].as_f64());
    for name in ["perf.cycles", "perf.context_switches", "perf.ipc"] {
        let metric = &json["metrics"][name];
        assert!(metric["mean"].is_number() || metric["missing"].is_string(), "{name}: {metric}");
    }
    assert!(unwrapped(&lab.ok("stat --runs 2 true")).contains("mean of 2 runs"));
}

/// Masked counters are those of a CPU that has none; what the kernel counts by itself stays.
#[test]
fn a_cpu_without_counters_is_reported_and_caches_are_counted_on_request() {
    let lab = Lab::new();
    let json = |masked: bool, words: &[&str]| -> serde_json::Value {
        let mut command = lab.command(words);
        if masked {
            command.env("SCHEDLAB_PMU", "off");
        }
        serde_json::from_str(&texts(&command.output().unwrap()).0).unwrap()
    };
    let why =
        |json: &serde_json::Value, name: &str| json["metrics"][name]["missing"].as_str().map(str::to_owned);
    let usual = ["stat", "--json", "--", "true"];
    let masked = json(true, &usual);
    assert_eq!(why(&masked, "perf.cycles").as_deref(), Some("this machine has no such counter"));
    assert_eq!(why(&masked, "perf.cache_misses").as_deref(), Some("not watched: add -d"));
    let detailed = json(true, &["stat", "-d", "--json", "--", "true"]);
    assert_eq!(why(&detailed, "perf.cache_misses").as_deref(), Some("this machine has no such counter"));
    let (here, clock) = (json(false, &usual), "perf.task_clock");
    assert_eq!(why(&here, clock), why(&masked, clock));
    let counting = &masked["metrics"]["perf.counting"];
    if masked["metrics"]["perf.context_switches"]["mean"].is_number() {
        assert!(counting["mean"].is_number() && counting["unit"] == "ns", "{masked}");
    } else {
        skipped("counted switches");
    }
    let text = texts(&lab.command("stat true").output().unwrap()).0;
    assert!(!text.contains("cache"), "what was not asked for has no line: {text}");
}

#[test]
fn two_commands_are_compared_run_about() {
    let lab = Lab::new();
    // Both take longer than a busy machine holds up a start.
    let factor = stretch().min(4) as f64;
    let [a, b] = [0.3, 0.9].map(|length| length * factor);
    let (a, b) = (format!("echo A >> log; sleep {a}"), format!("sh -c 'echo B >> log; sleep {b}'"));
    let words = ["stat", "--runs", "6", "--vs", &b, "--json", "--", "sh", "-c", &a];
    let json = lab.json(&words);
    assert_eq!(lab.text("log"), "A\nB\nB\nA\n".repeat(3));
    assert_eq!(json["schema"], "schedlab/comparison/1");
    let elapsed = json["comparisons"].as_array().unwrap().iter().find(|r| r["metric"] == "command.elapsed");
    assert_eq!(elapsed.unwrap()["verdict"], "worse", "{json}");
    assert_eq!(json["cells"].as_array().map(Vec::len), Some(2));
    std::fs::remove_file(lab.path().join("log")).unwrap();
    let words = ["stat", "--runs", "2", "--repeat-order", "--vs", "sh -c 'echo B >> log'", "--"];
    let text = lab.ok(&[&words[..], &["sh", "-c", "echo A >> log"]].concat());
    assert_eq!(lab.text("log"), "A\nB\nA\nB\n");
    assert!(text.contains("elapsed") && text.lines().all(|l| l.chars().count() <= 78), "{text}");
}

#[test]
fn the_whole_system_is_counted_or_the_error_names_the_remedy() {
    let lab = Lab::new();
    let output = lab.command("stat -a --for 200ms --json").output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        assert!(err.contains("perf_event_paranoid") && err.contains("without -a"), "{err}");
        skipped(err);
        return;
    }
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    let cpus = std::thread::available_parallelism().unwrap().get() as f64;
    let used = json["metrics"]["perf.cpus_used"]["mean"].as_f64().unwrap();
    assert!(used > 0.9 * cpus.min(1.0), "{json}");
    assert!(lab.ok("stat -a -- sleep 0.1").contains("whole system during: sleep 0.1"));
}

/// perf and schedlab count the same switches of a program that sleeps fifty times. Other work on the machine can only
/// add switches, so the middle of several runs, made in turns, must agree; and CPU time must be similar. Both count the
/// same events, since a hypervisor may take long for each counter of the CPU.
#[test]
fn perf_stat_counts_the_same() {
    const SLEEPS: &[&str] = &["perl", "-e", "select(undef, undef, undef, 0.001) for 1..50"];
    let there =
        |program: &str| Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success());
    if !there("perf") || !there("perl") {
        skipped("perf and perl");
        return;
    }
    let lab = Lab::new();
    let ours = || {
        let json = lab.json(&[&["stat", "--json", "--"], SLEEPS].concat());
        let of = |name: &str| json["metrics"][name]["mean"].as_f64();
        Some((of("perf.context_switches")?, of("perf.task_clock")? / 1e6))
    };
    let of_cpu = ["cycles", "instructions", "branches", "branch-misses"];
    let has_counters = lab.json("stat --json -- true")["metrics"]["perf.cycles"]["mean"].is_number();
    let group = if has_counters { format!(",{{{}}}", of_cpu.join(",")) } else { String::new() };
    let events = format!("task-clock,context-switches,cpu-migrations,page-faults{group}");
    let theirs = || {
        let events = ["stat", "-x,", "-e", &events, "--"];
        let output = Command::new("perf").args(events).args(SLEEPS).output().unwrap();
        let text = texts(&output).1;
        let of =
            |event: &str| text.lines().find(|l| l.contains(event))?.split(',').next()?.parse::<f64>().ok();
        Some((of("context-switches")?, of("task-clock")?))
    };
    let (mut a, mut b, mut round) = (Vec::new(), Vec::new(), 0);
    let middle = |runs: &[(f64, f64)]| {
        let mut all: Vec<f64> = runs.iter().map(|r| r.0).collect();
        all.sort_by(f64::total_cmp);
        all.get(all.len() / 2).copied()
    };
    // Other work adds switches to a run, and perf was seen to miss one.
    while round < 5 || round < 40 && middle(&a) != middle(&b) {
        if round % 2 == 0 {
            a.extend(ours());
            b.extend(theirs());
        } else {
            b.extend(theirs());
            a.extend(ours());
        }
        round += 1;
    }
    if a.is_empty() || b.is_empty() {
        skipped("counted switches");
        return;
    }
    eprintln!("ours {a:?}\nperf {b:?}");
    assert_eq!(middle(&a), middle(&b), "switches: {a:?}, perf {b:?}");
    assert!(middle(&a) >= Some(50.0), "{a:?}");
    let clock = |runs: &[(f64, f64)]| runs.iter().map(|r| r.1).fold(f64::MAX, f64::min);
    let ratio = clock(&a) / clock(&b);
    assert!((0.7..1.4).contains(&ratio), "task clock: {a:?}, perf {b:?}");
}

/// An experiment compares counters by their names; missing ones have a reason.
#[test]
fn an_experiment_asks_for_counters_by_name() {
    let lab = Lab::new();
    lab.write("counted.toml", include_str!("cases/files/counted.toml"));
    let json = lab.json("run counted.toml --backend host --json");
    let metrics = &json["cells"][0]["metrics"];
    for name in ["perf.context_switches", "perf.cpus_used", "perf.ipc"] {
        let m = &metrics[name];
        let reason = m["missing"]
            .as_str()
            .is_none_or(|why| why.contains("no such counter") || why.contains("paranoid"));
        assert!(m["mean"].is_number() != m["missing"].is_string() && reason, "{name}: {m}");
    }
}
