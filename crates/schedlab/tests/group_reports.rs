//! Reports about groups and quotas: what our rules make of them, and the kernel's own code where its source is at hand.
//! The bounds are around what the code does.

use crate::code::has_source_of;
use crate::common::Lab;
use serde_json::Value;

/// The records of a stored case's runs of one kernel, by our rules and, if its source is there, by its own code.
fn on_both(case: &str, series: &str, load: Option<&str>) -> Vec<(&'static str, Vec<Value>)> {
    let mut all = vec![("sim", records(case, series, load, &[]))];
    if has_source_of(series) {
        all.push(("code", records(case, series, load, &["--backend", "code"])));
    }
    all
}

/// The same of one backend: `more` is what chooses the code.
fn records(case: &str, series: &str, load: Option<&str>, more: &[&str]) -> Vec<Value> {
    let lab = Lab::new();
    let file = format!("{}/tests/cases/reports/{case}.toml", env!("CARGO_MANIFEST_DIR"));
    let mut words = vec!["run", &file, "--runs", "1", "--out", "runs", "--quiet"];
    words.extend(load.iter().flat_map(|load| ["--load", load]));
    let code = !more.is_empty();
    if code {
        words.extend(["--kernel", series]);
    }
    words.extend(more);
    lab.ok(&words);
    // A run by the code has one by the rules beside it.
    let profile = format!("v{series}");
    let wanted = |r: &Value| if code { r["backend"] == "code" } else { r["kernel"] == *profile };
    let found: Vec<Value> = lab.records("runs").into_iter().filter(wanted).collect();
    assert!(!found.is_empty(), "no run of {series} in {case}");
    found
}

/// The record of a variant.
fn of<'a>(records: &'a [Value], variant: &str) -> &'a Value {
    let found = records.iter().find(|r| r["variant"]["name"] == variant);
    found.unwrap_or_else(|| panic!("no variant {variant} of {}", records.len()))
}

/// CPU time of the tasks whose names begin so, s.
fn cpu_s(record: &Value, name: &str) -> f64 {
    let tasks = record["tasks"].as_array().unwrap();
    let named = tasks.iter().filter(|t| t["name"].as_str().unwrap().starts_with(name));
    named.map(|t| t["cpu_time"].as_f64().unwrap()).sum::<f64>() / 1e9
}

fn counter_s(record: &Value, name: &str) -> f64 {
    record["counters"][name].as_f64().unwrap_or_else(|| panic!("no {name}")) / 1e9
}

#[test]
fn sleepers_of_a_group_that_becomes_empty_are_served_at_once() {
    for (backend, records) in on_both("q07n-pinned", "6.12", None) {
        let service = cpu_s(&records[0], "service");
        assert!((1.93 + 1.93..2.0 + 2.0).contains(&service), "{backend}: {service} s");
    }
    for (backend, records) in on_both("q07-two-groups-sleepers", "6.12", None) {
        let service = cpu_s(&records[0], "service");
        assert!((3.85..4.0).contains(&service), "{backend}: {service} s");
    }
}

#[test]
fn heavy_pods_starve_kernel_threads_and_services_by_the_weights() {
    for (backend, records) in on_both("q01-kubepods-weight", "7.3", None) {
        let (heavy, equal) = (of(&records, "v7.3-2500"), of(&records, "v7.3-100"));
        let of = |record| (cpu_s(record, "kthread"), cpu_s(record, "service"));
        let (threads, services) = of(equal);
        assert!(
            (8.9..9.5).contains(&threads) && (7.4..8.3).contains(&services),
            "{backend}: {:?}",
            of(equal)
        );
        let (threads, services) = of(heavy);
        assert!(
            (1.1..1.5).contains(&threads) && (0.45..0.65).contains(&services),
            "{backend}: {:?}",
            of(heavy)
        );
    }
    for (backend, records) in on_both("q01-kubepods-weight", "6.12", None) {
        let threads = |variant| cpu_s(of(&records, variant), "kthread");
        let (heavy, equal) = (threads("v6.12-2500"), threads("v6.12-100"));
        assert!(heavy < 0.9 * equal && equal > 11.0, "{backend}: {heavy} s beside {equal} s");
    }
}

#[test]
fn a_task_that_leaves_a_throttled_group_runs_at_once_since_7_1() {
    let hog = |records: &[Value]| cpu_s(&records[0], "hog");
    for (series, from, to) in [("6.1", 2.3, 2.5), ("6.12", 2.3, 2.5), ("7.3", 2.52, 2.56)] {
        for (backend, records) in on_both("q04-moved-out-of-throttled", series, None) {
            let hog = hog(&records);
            assert!((from..to).contains(&hog), "{backend} {series}: {hog} s");
        }
    }
}

#[test]
fn the_time_of_a_throttled_queue_counts_with_tasks_only_since_6_6() {
    let mut found = Vec::new();
    for series in ["6.1", "6.12", "7.3"] {
        let by = on_both("throttled-empty", series, None);
        let times: Vec<f64> = by.iter().map(|(_, r)| counter_s(&r[0], "group./pod.throttled_time")).collect();
        let near = times.iter().all(|t| (t / times[0] - 1.0).abs() < 0.1);
        assert!(near, "{series}: {times:?} s by sim and code");
        found.push(times[0]);
    }
    assert!(found[1] < 0.6 * found[0], "{found:?} s of 6.1, 6.12 and 7.3");
}

#[test]
fn more_threads_than_quota_are_throttled_in_each_period() {
    let throttled = |load, series| {
        let records = records("q03-gomaxprocs-quota", series, Some(load), &[]);
        let count = |name| records[0]["counters"][name].as_f64().unwrap();
        count("group./pod.nr_throttled") / count("group./pod.nr_periods")
    };
    for series in ["4.14", "6.12"] {
        assert!(throttled("2", series) < 0.5, "{series}");
        assert!(throttled("4", series) > 0.9 && throttled("24", series) > 0.9, "{series}");
    }
}

#[test]
fn a_next_buddy_makes_few_switches_and_long_tails() {
    let records = records("q08-next-buddy", "7.3", None, &[]);
    let forced = |variant| of(&records, variant)["counters"]["switches.involuntary"].as_f64().unwrap();
    let (plain, buddy) = (forced("v7.3"), forced("v7.3-buddy"));
    assert!(buddy < 0.2 * plain, "{buddy} beside {plain}");
}

#[test]
fn a_long_deadline_task_is_late_behind_short_ones_on_as_many_cpus() {
    if !has_source_of("6.12") {
        return;
    }
    let records = records("q05-dl-dhall", "6.12", None, &["--backend", "code"]);
    let late = records[0]["series"]["rtapp.lateness"]["max"].as_f64().unwrap() / 1e6;
    assert!((3.0..5.0).contains(&late), "{late} ms");
}
