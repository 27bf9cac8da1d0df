//! Benchmarks of servers and their clients through the binary, simulated and live, and the tools that have servers of
//! their own.

use crate::common::Lab;
use schedlab_base::testing::skipped;
use std::path::Path;

/// A run of a benchmark: its metrics.
fn metrics(lab: &Lab, bench: &str, options: &str) -> serde_json::Value {
    lab.json(&format!("bench {bench} --json {options}"))["metrics"].clone()
}
fn value(metrics: &serde_json::Value, name: &str) -> f64 {
    metrics[name]["value"].as_f64().unwrap_or_else(|| panic!("{name}: {}", metrics[name]))
}
const SIM: &str = "--backend sim --machine smp-4 --kernel v6.5 -r 400ms";

#[test]
fn simulated_services_answer_their_calls() {
    let lab = Lab::new();
    // 200 sessions of 10 calls a second.
    for workers in ["0", "2"] {
        let http = metrics(&lab, "http", &format!("{SIM} --rate 200 --workers {workers}"));
        let rate = value(&http, "http.rate");
        assert!((1_900.0..=2_010.0).contains(&rate), "{workers} workers: {rate}");
        assert!(value(&http, "http.latency.p50") > 50_000.0, "at least its work");
    }
    let paced = metrics(&lab, "oltp", &format!("{SIM} --threads 4 --rate 500"));
    let rate = value(&paced, "oltp.rate");
    assert!((470.0..=501.0).contains(&rate), "{rate}");
    let trade = metrics(&lab, "trade", &format!("{SIM} --rate 300"));
    assert!((280.0..=301.0).contains(&value(&trade, "trade.rate")));
    let volano = metrics(&lab, "volano", &format!("{SIM} --rooms 2 --users 5"));
    let rounds = value(&volano, "volano.latency.mean");
    // A room's users are always in a round of 25 deliveries.
    let most = 2.0 * 25.0 * 1e9 / rounds;
    let rate = value(&volano, "volano.rate");
    assert!(rate > 0.5 * most && rate < 1.5 * most, "{rate} of {most}");
}

#[test]
fn overload_shows_in_latency_that_counts_from_when_a_call_was_due() {
    let lab = Lab::new();
    // One CPU of work for 50 us x 10 calls x 4,000 sessions a second is 2 s a second.
    let given = "--backend sim --machine smp-1 --kernel v6.5 -r 400ms --rate 4000";
    let http = metrics(&lab, "http", &format!("{given} --clients 64"));
    assert!(value(&http, "http.session.max") > 100e6, "{}", value(&http, "http.session.max"));
}

#[test]
fn live_services_work_as_processes_and_as_threads() {
    let lab = Lab::new();
    let cases = [
        ("http", "--clients 4 --rate 50", "http.rate"),
        ("http", "--clients 4 --rate 50 --workers 2", "http.rate"),
        ("oltp", "--threads 3 --point-work 5us --range-work 10us", "oltp.rate"),
        ("oltp", "--threads 3 --transport tcp --rows 2", "oltp.rate"),
        ("volano", "--rooms 2 --users 3", "volano.rate"),
        ("trade", "--clients 6 --app-tasks 2 --db-tasks 2 --think 1ms", "trade.rate"),
    ];
    for (bench, given, rate) in cases {
        for mode in ["process", "thread"] {
            let seen = metrics(&lab, bench, &format!("-r 500ms --mode {mode} {given}"));
            assert!(value(&seen, rate) > 10.0, "{bench} {mode} {given}: {}", seen[rate]);
        }
    }
}

/// Whether all these programs are on this machine.
fn installed(programs: &[&str]) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    programs.iter().all(|p| std::env::split_paths(&path).any(|folder| folder.join(p).is_file()))
}
/// Folders of servers that are left in a folder.
fn stages(folder: &Path) -> usize {
    std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .filter(|f| f.file_name().to_string_lossy().starts_with("schedlab-stage"))
        .count()
}

#[test]
fn tools_bring_their_servers_and_leave_nothing() {
    let lab = Lab::new();
    let cases: &[(&[&str], &str, &str, &str)] = &[
        (&["httperf", "nginx"], "--num-conns 10", "httperf", "rate"),
        (&["tbench", "tbench_srv"], "-t 3", "tbench", "throughput"),
        (&["sysbench", "mariadbd", "mariadb-install-db"], "--time=1", "sysbench-oltp", "rate"),
        (&["sysbench"], "--time=1", "sysbench-threads", "rate"),
        (&["sysbench"], "--mutex-loops=100", "sysbench-mutex", "latency.avg"),
    ];
    for (programs, given, tool, figure) in cases {
        if !installed(programs) {
            skipped(format!("{programs:?}"));
            continue;
        }
        let folder = lab.path().join(tool);
        std::fs::create_dir(&folder).unwrap();
        let words = ["bench", "--tool", tool, "--json", "--load", "2", "--args", given];
        let output = lab.command(&words).env("TMPDIR", &folder).output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{tool}: {err}");
        let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(value(&json["metrics"], &format!("{tool}.{figure}")) > 0.0, "{tool}");
        assert_eq!(stages(&folder), 0, "{tool}");
    }
}

#[test]
fn a_server_that_is_not_there_is_named_with_its_package() {
    let lab = Lab::new();
    let empty = lab.path().join("empty");
    std::fs::create_dir(&empty).unwrap();
    // A httperf that is there, without nginx.
    std::os::unix::fs::symlink("/bin/true", empty.join("httperf")).unwrap();
    let output = lab.command("bench --tool httperf").env("PATH", &empty).output().unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("'nginx' is not installed") && err.contains("nginx-light"), "{err}");
}
