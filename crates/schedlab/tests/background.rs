//! The machine's own tasks: files that any machine can name, and the measurement of this machine's.

use crate::common::{Lab, at_work, texts};
use schedlab_base::testing::skipped;
use std::path::Path;
use std::process::{Command, Stdio};

/// A task on each CPU every 10 ms, 50 us long.
const FILE: &str = include_str!("texts/background.toml");

/// Wakeups on an idle machine within a second, one task sleeps all the time; and the background's CPU time.
fn wakeups(lab: &Lab, more: &str) -> (f64, f64) {
    let bench = "bench nanosleep --tasks 1 --sleep 900ms --backend sim --runtime 1 --json";
    let run = lab.json(&format!("{bench} {more}"));
    let of = |name: &str| run["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name}: {run}"));
    (of("sim.wakeups"), of("background.cpu_time"))
}

#[test]
fn a_file_changes_the_wakeups_of_an_idle_machine() {
    let lab = Lab::new();
    lab.write("b.toml", FILE);
    lab.write("m.toml", "name = 'm'\nabout = 'a'\nlike = 'smp-4'\nbackground = 'b.toml'\n");
    let (none, no_time) = wakeups(&lab, "--machine smp-4 --background none");
    let (some, time) = wakeups(&lab, "--machine smp-4 --background b.toml");
    assert_eq!(no_time, 0.0);
    // 4 CPUs x 100 arrivals, and 20 ms of time, at random.
    assert!((300.0..500.0).contains(&(some - none)), "{none} {some}");
    assert!((14e6..26e6).contains(&time), "{time}");
    // A machine's file that names it makes the same run.
    assert_eq!(wakeups(&lab, "--machine m.toml"), (some, time));
    let records = lab.records("runs");
    assert_eq!(records.len(), 3, "three machines, three cells");
    let named = records.iter().filter(|record| record.to_string().contains("\"background_from\""));
    assert_eq!(named.count(), 3);
    // Other contents of the same file make another machine.
    lab.write("b.toml", &FILE.replace("10ms", "20ms"));
    let (half, _) = wakeups(&lab, "--machine smp-4 --background b.toml");
    assert!((140.0..260.0).contains(&(half - none)), "{none} {half}");
}

fn instances() -> Vec<String> {
    let folder = Path::new("/sys/kernel/tracing/instances");
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|e| e.file_name().into_string().ok()).collect()
}

#[test]
fn this_machines_background_becomes_a_file_and_ctrl_c_leaves_nothing() {
    let lab = Lab::new();
    let words = "machine background --seconds 1 -o here.toml";
    let output = lab.command(words).output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        // This user may not record events here, and the message says what would help.
        assert!(err.contains("help: ") && out.is_empty(), "{err}");
        return skipped(err);
    }
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    assert!(out.contains("group") && out.contains("wakeups/s"), "{out}");
    assert!(out.lines().all(|l| l.chars().count() <= 78), "{out}");
    lab.ok("machine smp-2 --background here.toml");

    let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
    command.current_dir(lab.path()).args(["machine", "background", "--seconds", "600", "-o", "no.toml"]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    at_work(&child);
    let mine = format!("schedlab-{}-", child.id());
    let pid = child.id().to_string();
    assert!(Command::new("kill").args(["-INT", &pid]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", texts(&output).1);
    assert!(texts(&output).1.contains("interrupted"));
    assert!(!lab.path().join("no.toml").exists());
    assert!(!instances().iter().any(|name| name.starts_with(&mine)), "{:?}", instances());
}
