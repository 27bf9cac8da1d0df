//! Faults of past kernels that were reported in public: the profiles of those kernels show them, and later ones do not.

use crate::common::Lab;
use serde_json::Value;
use std::collections::BTreeMap;

/// The records of a stored case's runs, by kernel, in order of the seeds.
fn records(case: &str) -> BTreeMap<String, Vec<Value>> {
    let lab = Lab::new();
    let file = format!("{}/tests/cases/reports/{case}.toml", env!("CARGO_MANIFEST_DIR"));
    lab.ok(&["run", &file, "--out", "runs", "--quiet"]);
    let mut records = BTreeMap::<String, Vec<Value>>::new();
    for record in lab.records("runs") {
        records.entry(record["kernel"].as_str().unwrap().to_owned()).or_default().push(record);
    }
    records
}

/// The CPU time of each task, ms.
fn cpu_times_ms(record: &Value) -> Vec<f64> {
    let tasks = record["tasks"].as_array().unwrap();
    tasks.iter().map(|t| t["cpu_time"].as_f64().unwrap() / 1e6).collect()
}
fn counter(record: &Value, name: &str) -> f64 {
    record["counters"][name].as_f64().unwrap_or_else(|| panic!("no {name}"))
}

#[test]
fn a_quota_is_not_used_up_and_yet_throttles_with_4_19() {
    let records = records("quota-unused");
    let of = |kernel: &str| {
        let record = &records[kernel][0];
        let used_ms: f64 = cpu_times_ms(record).iter().sum();
        let [periods, throttled] =
            ["nr_periods", "nr_throttled"].map(|n| counter(record, &format!("group./pod.{n}")));
        (used_ms / (periods * 50.0), throttled / periods)
    };
    for (kernel, used) in [("v4.14", 0.95..1.1), ("v4.19", 0.5..0.85), ("v5.4", 0.95..1.1)] {
        let (part, throttled) = of(kernel);
        assert!(used.contains(&part), "{kernel} used {part} of its quota");
        assert!(throttled > 0.9, "{kernel}: {throttled} of the periods were throttled");
    }
}

#[test]
fn a_short_quota_starves_those_throttled_first_until_4_18() {
    let records = records("quota-starves");
    let least = |kernel: &str| {
        let times = cpu_times_ms(&records[kernel][0]);
        let most = times.iter().copied().fold(0.0, f64::max);
        times.iter().copied().fold(f64::INFINITY, f64::min) / most
    };
    // In four seconds each queue has had about ten turns; how many differs by one or two.
    assert!(least("v4.14") < 0.1, "{}", least("v4.14"));
    for kernel in ["v4.19", "v5.10"] {
        assert!(least(kernel) > 0.5, "{kernel}: {}", least(kernel));
    }
}

#[test]
fn before_5_6_a_pair_may_be_pulled_apart_over_two_nodes() {
    let records = records("numa-pair");
    let most = records["v5.10"].iter().map(|r| cpu_times_ms(r).iter().sum::<f64>()).fold(0.0, f64::max);
    // A pair apart waits for messages: it works less. A tenth leaves out pairs that begin on two nodes and soon meet.
    let apart = |kernel: &str| {
        let works = records[kernel].iter().map(|r| cpu_times_ms(r).iter().sum::<f64>());
        works.filter(|ms| *ms < 0.9 * most).count()
    };
    let runs = ["v4.5", "v5.4", "v5.10"].map(apart);
    assert!(runs[0] > 0 && runs[1] > 0 && runs[2] == 0, "{runs:?} of 10 runs of v4.5, v5.4 and v5.10");
}

#[test]
fn clusters_next_to_faster_cpus_are_not_evened_out_before_7_3() {
    let lab = Lab::new();
    let file = format!("{}/tests/cases/reports/q02-asym-clusters.toml", env!("CARGO_MANIFEST_DIR"));
    lab.ok(&["run", &file, "--out", "runs", "--quiet"]);
    // Four tasks are on CPUs 2 to 5 when they may use all; CPUs 6 to 9, of the other slow cluster, are idle.
    let moved = |variant: &str| {
        let words = format!("trace '{file}' --out runs --variant {variant} --seed 1 --format text -o -");
        let text = lab.ok(&words);
        let migrations = text.lines().filter(|l| l.contains("sched_migrate_task: comm=small"));
        let to = |line: &str| line.rsplit_once("dest_cpu=").unwrap().1.trim().parse::<u32>().unwrap();
        migrations.filter(|l| (6..=9).contains(&to(l))).count()
    };
    for variant in ["v5.19", "v6.1", "v6.6", "v6.12", "v6.18"] {
        assert_eq!(moved(variant), 0, "{variant} leaves four and none");
    }
    assert_eq!(moved("v7.3"), 2, "two and two");
}
