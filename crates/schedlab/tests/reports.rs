//! Public reports as experiments, through the binary: a build next to a desktop, limits of one variant, groups and
//! tasks that change in mid-run, a database that spins for a lock. Wrong ones are refused, with their place.

use crate::common;
use crate::common::Lab;
use serde_json::Value;

/// The records of an experiment's runs, simulated.
fn records(lab: &Lab, name: &str, text: &str) -> Vec<Value> {
    lab.write(name, text);
    lab.run(&["run", name, "--quiet", "--out", "out"], 0);
    let files = common::files(&lab.path().join("out"));
    let of = |(file, bytes): &(String, Vec<u8>)| {
        file.ends_with("record.json").then(|| serde_json::from_slice(bytes).unwrap())
    };
    files.iter().filter_map(of).collect()
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
    // Two rt-app texts run together differ by name, and so do their waits.
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
    let (table, _) = lab.run(&["run", "build.toml", "--quiet", "--out", "out", "--format", "csv"], 0);
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

#[test]
fn wrong_changes_and_groups_are_refused_with_their_place() {
    let text = |more: &str| {
        format!(
            "name = 'x'\nmachine = 'smp-2'\n[workload]\nname = 'hogs'\nruntime = '1s'\n[[group]]\npath = '/a'\n{more}\n"
        )
    };
    let kernel = "[[variant]]\nkernel = 'v6.5'\n";
    for (at, says) in [
        ("[[at]]\ntime = '2s'\ngroup = '/a'\nweight = 50\n", "comes too late: hogs lasts 1s"),
        ("[[at]]\ntime = '100ms'\ngroup = '/b'\nweight = 50\n", "unknown group '/b'"),
        ("[[at]]\ntime = '100ms'\ntask = 'hogg'\ngroup = '/a'\n", "unknown task 'hogg'"),
        ("[[at]]\ntime = '100ms'\ntask = 'hog'\ngroup = '/b'\n", "unknown group '/b'"),
        ("[[at]]\ntime = '100ms'\ntask = 'hog'\n", "nothing changes about task 'hog'"),
        ("[[at]]\ntime = '100ms'\ngroup = '/a'\n", "nothing changes about group '/a'"),
        ("[[at]]\ntime = '100ms'\ntask = 'hog'\nweight = 50\n", "weight is a group's"),
        ("[[at]]\ntime = '100ms'\nweight = 50\n", "names no group and no task"),
        ("[[at]]\ntime = '100ms'\ngroup = '/a'\nperiod = '50ms'\n", "a period goes with a quota"),
        ("[[at]]\ntime = '100ms'\ngroup = '/a'\nquota = '100us'\n", "a quota is at least 1 ms"),
        ("[[at]]\ntime = '100ms'\ngroup = '/a'\nshares = 2\nweight = 2\n", "shares or a weight, not both"),
        ("[[at]]\ntime = '100ms'\ngroup = '/'\nweight = 2\n", "root group"),
        ("[[at]]\ntime = '100ms'\ntask = 'hog'\ncpus = '9'\n", "CPUs 9 only from 100ms, but smp-2 has 0-1"),
    ] {
        let lab = Lab::new();
        lab.write("x.toml", &text(&format!("{at}{kernel}")));
        let (_, err) = lab.run(&["run", "x.toml", "--quiet"], 2);
        assert!(err.contains(says), "{at}: {err}");
        assert!(err.contains("x.toml:") || says.contains("CPUs 9"), "{at} has a place: {err}");
    }
    for (group, says) in [
        ("path = '/b'\ntasks = ['hogg']\n", "unknown task 'hogg'"),
        ("path = '/b'\nidle = true\nweight = 3\n", "an idle group has no weight"),
        ("path = '/b'\nquota = '1us'\n", "a quota is at least 1 ms"),
        ("path = 'b'\n", "does not begin with '/'"),
        ("path = '/b'\nloads = ['x']\n", "loads"),
    ] {
        let lab = Lab::new();
        lab.write("x.toml", &text(&format!("{kernel}[[variant.group]]\n{group}")));
        let (_, err) = lab.run(&["run", "x.toml", "--quiet"], 2);
        assert!(err.contains(says) && err.contains("x.toml:"), "{group}: {err}");
    }
    let lab = Lab::new();
    let rtapp = "[[beside]]\nrtapp_text = '{ \"tasks\": { \"m\": { \"run\": 1 } } }'\ntasks = 3\n";
    lab.write("x.toml", &text(&format!("{rtapp}{kernel}")));
    let (_, err) = lab.run(&["run", "x.toml", "--quiet"], 2);
    assert!(err.contains("an rt-app text beside a workload has no 'tasks'"), "{err}");
}
