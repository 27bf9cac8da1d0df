//! Public reports as experiments, through the binary: builds beside something, limits of one variant, groups and tasks
//! that change in mid-run, a database that spins for a lock. And what is refused, with its place.

use crate::common::Lab;
use serde_json::Value;

/// The records of an experiment's runs, simulated.
fn records(lab: &Lab, name: &str, text: &str) -> Vec<Value> {
    lab.write(name, text);
    lab.run(&["run", name, "--quiet", "--out", "out"], 0);
    lab.records("out")
}

/// CPU time of a task's program under each kernel's first run, ms.
fn cpu_ms(records: &[Value], variant: &str, program: &str) -> u64 {
    let record = records.iter().find(|r| r["variant"]["name"] == variant).unwrap();
    let own = |t: &&Value| t["name"].as_str().unwrap().split(['-', '/']).next() == Some(program);
    let tasks = record["tasks"].as_array().unwrap();
    tasks.iter().filter(own).map(|t| t["cpu_time"].as_u64().unwrap()).sum::<u64>() / 1_000_000
}

#[test]
fn load_left_behind_divides_equal_groups_from_5_1_to_5_12() {
    let lab = Lab::new();
    let all = records(&lab, "p19.toml", include_str!("cases/reports/p19-load-left-behind.toml"));
    for (kernel, unfair) in [("v4.5", false), ("v5.4", true), ("v5.10", true), ("v5.15", false)] {
        let (a, b) = (cpu_ms(&all, kernel, "a"), cpu_ms(&all, kernel, "b"));
        assert_eq!(a * 3 < b, unfair, "{kernel}: {a} and {b} ms");
        assert!(unfair || a.abs_diff(b) < 300, "{kernel}: {a} and {b} ms");
    }
}

#[test]
fn a_build_next_to_a_desktop_is_held_back_by_a_group_of_one_variant() {
    let lab = Lab::new();
    let text = include_str!("cases/reports/build-beside.toml");
    let all = records(&lab, "build.toml", text);
    let built = |variant| cpu_ms(&all, variant, "child");
    assert!(built("free") > 900, "{} ms of 960", built("free"));
    let limited = built("limited");
    assert!((450..=540).contains(&limited), "half a CPU: {limited} ms");
    // Two rt-app texts beside each other differ by name, and so do their waits.
    let groups = |r: &Value| {
        let delays = r["delays"].as_array().unwrap();
        delays.iter().map(|d| d["group"].as_str().unwrap().to_owned()).collect::<Vec<String>>()
    };
    assert!(all.iter().all(|r| groups(r) == ["ui", "parent", "child", "audio"]), "{:?}", groups(&all[0]));
    let warned = |r: &Value| r["warnings"].to_string().contains("forks beside the workload was done after");
    assert!(
        all.iter().all(|r| warned(r) == (r["variant"]["name"] != "limited")),
        "done early, but if limited"
    );
    let (table, _) = lab.run("run build.toml --quiet --out out --format csv", 0);
    assert!(
        table.contains("task.ui.wakeup_delay.mean") && table.contains("free") && table.contains("limited")
    );
    assert!(!table.contains("no run of the baseline"), "{table}");
}

#[test]
fn a_database_that_spins_for_its_lock_burns_time_and_sleeps_nowhere() {
    let lab = Lab::new();
    let all = records(&lab, "p21.toml", include_str!("cases/reports/p21-spinlock-database.toml"));
    for record in &all {
        assert_eq!(record["counters"]["switches.voluntary"], 0);
        let (cpu, work) = (record["counters"]["cpu_time"].as_u64(), record["counters"]["work"].as_u64());
        assert!(cpu > work, "{}: spinning is not work", record["variant"]["name"]);
    }
}

#[test]
fn work_for_each_message_lengthens_a_round_trip() {
    let lab = Lab::new();
    let trip = |more: &[&str]| {
        let words = ["bench", "pipe", "--backend", "sim", "-l", "500", "--json"];
        let (out, _) = lab.run(&[&words, more].concat(), 0);
        let run: Value = serde_json::from_str(&out).unwrap();
        run["metrics"]["pipe.round_trip.mean"]["value"].as_f64().unwrap()
    };
    let longer = trip(&["--client-work", "20", "--server-work", "30us"]) - trip(&[]);
    assert!((49_000.0..60_000.0).contains(&longer), "{longer}");
}
