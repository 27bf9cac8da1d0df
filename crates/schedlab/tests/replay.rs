//! Replays, through the binary: a simulated run is replayed under its own kernel, and the written files can be run.

use crate::common::Lab;

/// A run of schbench on four CPUs; the folder of its cell.
fn recorded(lab: &Lab) -> String {
    lab.ok(&[
        "bench",
        "schbench",
        "-m",
        "2",
        "-t",
        "4",
        "-r",
        "1s",
        "--backend",
        "sim",
        "--machine",
        "smp-4",
        "--kernel",
        "v6.5",
        "-q",
    ]);
    let cell = std::fs::read_dir(lab.path().join("runs")).unwrap().next().unwrap().unwrap();
    cell.path().join("1").display().to_string()
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
fn a_part_is_replayed_alone() {
    let lab = Lab::new();
    let run = recorded(&lab);
    let part = lab.json(&["replay", &run, "--from", "200ms", "--for", "300ms", "--json", "-q"]);
    assert_eq!(part["length"], 300_000_000, "{part}");
    let (_, err) = lab.run(&["replay", &run, "--from", "100s", "-q"], 2);
    assert!(err.contains("begins at 100") && err.contains("ends at"), "{err}");
    let (_, err) = lab.run(&["trace", &run, "--from", "2s", "--until", "1s"], 2);
    assert!(err.contains("is empty"), "{err}");
}

#[test]
fn a_schedule_and_an_rtapp_file_can_be_run() {
    let lab = Lab::new();
    lab.ok(&["replay", &recorded(&lab), "--schedule", "day.sched", "--rtapp", "day.json", "-q"]);
    lab.write(
        "e.toml",
        "name = \"e\"\nbaseline = \"v6.5\"\nmachine = \"smp-4\"\nruns = 1\n[workload]\nschedule = \"day.sched\"\n\
         [[variant]]\nkernel = \"v6.5\"\n[[variant]]\nkernel = \"v6.12\"\n",
    );
    assert!(lab.ok(&["run", "e.toml", "--backend", "sim", "-q"]).contains("v6.12"));
    lab.ok(&["bench", "day.json", "--backend", "sim", "--machine", "smp-4", "--kernel", "v6.5", "-q"]);
}

/// A recording of one CPU, on which a switch away from `aa` is missing.
fn gap() -> String {
    let line = |at: &str, (prev, tid): (&str, u32), (next, then): (&str, u32)| {
        format!(
            "{prev}-{tid} [000] d..2. 100.{at}: sched_switch: prev_comm={prev} prev_pid={tid} prev_prio=120 \
             prev_state=S ==> next_comm={next} next_pid={then} next_prio=120\n"
        )
    };
    let idle = ("swapper/0", 0);
    let (aa, bb) = (("aa", 10), ("bb", 11));
    line("000000", idle, aa) + &line("010000", idle, bb) + &line("050000", bb, idle)
}

#[test]
fn a_gap_is_reported_and_no_more_is_computed_than_was_recorded() {
    let lab = Lab::new();
    lab.write("gap.txt", &gap());
    let run = lab.json(&["import", "gap.txt", "--json"])["folder"].as_str().unwrap().to_owned();
    let told = lab.ok(&["replay", &run, "--as-kernel", "v6.1", "-q"]);
    assert!(told.contains("40ms of computing in 50ms"), "{told}");
    assert!(told.contains("warning: the recording: ") && told.contains("contradict"), "{told}");
}

#[test]
fn a_recording_whose_machine_is_known_is_replayed_on_it() {
    let lab = Lab::new();
    lab.write("gap.txt", &gap());
    for (machine, on) in [(&[][..], "1cpu"), (&["--machine", "smt-8"], "smt-8")] {
        let told = lab.json(&[&["import", "gap.txt", "--json", "--variant", on], machine].concat());
        let run = told["folder"].as_str().unwrap().to_owned();
        let told = lab.json(&["replay", &run, "--as-kernel", "v6.1", "--json", "-q"]);
        let want = if machine.is_empty() { "smp-1" } else { on };
        assert_eq!(told["machine"], want, "{told}");
    }
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
