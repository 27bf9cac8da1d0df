//! Replays, through the binary: a simulated run is replayed under its own kernel, and what is written can be run.

use crate::common::Lab;

/// A run of schbench on four CPUs; the folder of its cell.
fn recorded(lab: &Lab) -> String {
    lab.kept("bench schbench -m 2 -t 4 -r 1s --backend sim --machine smp-4 --kernel v6.5")
}

#[test]
fn a_replay_computes_as_much_and_switches_about_as_often() {
    let lab = Lab::new();
    let told = lab.json(&["replay", &recorded(&lab), "--json", "-q"]);
    let off = |metric: &str| {
        let row = told["metrics"].as_array().unwrap().iter().find(|m| m["metric"] == metric).unwrap();
        let (recorded, replayed) = (row["recorded"].as_f64().unwrap(), row["replayed"].as_f64().unwrap());
        assert!(recorded > 0.0, "{row}");
        (replayed - recorded).abs() / recorded
    };
    assert!(off("cpu_time") <= 0.02 && off("switches.voluntary") <= 0.15, "{told}");
    assert_eq!(told["kernel"], "v6.5");
}

#[test]
fn forms_for_programs_hold_the_comparison_alone() {
    let lab = Lab::new();
    let run = recorded(&lab);
    let csv = lab.ok(&["replay", &run, "--under", "v6.12", "--runs", "2", "--format", "csv", "-q"]);
    assert!(csv.lines().next().unwrap().contains("variant,") && !csv.contains("replayed:"), "{csv}");
    let columns = |line: &str| line.matches(',').count();
    let own = csv.lines().find(|l| l.contains(",recorded,1,cpu_time,ns,,")).expect("the recording's figures");
    assert_eq!(columns(own), columns(csv.lines().next().unwrap()), "{own}");
    let told = lab.json(&["replay", &run, "--under", "v6.12", "--runs", "2", "--json", "-q"]);
    assert!(told["warnings"].to_string().contains("replay.off"), "{}", told["warnings"]);
    let table = lab.ok(&["replay", &run, "--under", "v6.12", "--runs", "2", "-q"]);
    assert!(table.starts_with("schbench replayed: ") && table.contains("as recorded"), "{table}");
}

#[test]
fn sleeps_are_replayed_whichever_event_showed_the_wakeups() {
    let lab = Lab::new();
    let wakeup = include_str!("cases/files/ftrace-wakeup-only.txt");
    lab.write("both", include_str!("cases/files/ftrace-waking-and-wakeup.txt"));
    lab.write("wakeup", wakeup);
    let switches = wakeup.lines().filter(|l| !l.contains("sched_wakeup")).collect::<Vec<_>>().join("\n");
    lab.write("switch", &(switches + "\n"));
    let replayed = |name: &str| {
        let told = lab.json(&["import", name, "--json"]);
        let run = told["folder"].as_str().unwrap().to_owned();
        let told = lab.json(&["replay", &run, "--as-kernel", "v6.1", "--json", "-q"]);
        let row = |metric: &str| {
            let rows = told["metrics"].as_array().unwrap();
            rows.iter()
                .find(|m| m["metric"] == metric)
                .map(|m| (m["recorded"].as_f64(), m["replayed"].as_f64()))
        };
        (row("switches.voluntary").unwrap(), row("wakeups"), told["worse"].to_string())
    };
    for name in ["both", "wakeup", "switch"] {
        let ((recorded, replayed), wakeups, worse) = replayed(name);
        assert_eq!(recorded, Some(120.0), "{name}");
        assert!((replayed.unwrap() - 120.0).abs() <= 3.0, "{name}: {replayed:?}");
        assert_eq!(wakeups.is_none(), name == "switch", "{name}: what is not known is not compared");
        assert!(!worse.contains("switches"), "{name}: {worse}");
    }
}
