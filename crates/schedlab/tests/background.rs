//! The machine's own tasks: files that any machine can name, and the measurement of this machine's.

use crate::common;
use crate::common::{Lab, at_work, texts};
use schedlab_base::testing::skipped;
use std::path::Path;
use std::process::{Command, Stdio};

/// A task on each CPU every 10 ms, 50 us long.
const FILE: &str = "name = 'b'\nabout = 'a test'\ncpus = 2\n\n[[background]]\nname = 'busy'\nper_cpu = true\n\
                    every = '10ms'\nrun = '50us'\nsource = 'a test'\n";

/// Wakeups and CPU time of the background on an idle machine within a second, where one task sleeps all the time.
fn wakeups(lab: &Lab, more: &[&str]) -> (f64, f64) {
    let words = [
        "bench",
        "nanosleep",
        "--tasks",
        "1",
        "--sleep",
        "900ms",
        "--backend",
        "sim",
        "--runtime",
        "1",
        "--json",
    ];
    let run = lab.json(&[&words[..], more].concat());
    let of = |name: &str| run["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name}: {run}"));
    (of("sim.wakeups"), of("background.cpu_time"))
}

#[test]
fn a_file_changes_the_wakeups_of_an_idle_machine() {
    let lab = Lab::new();
    lab.write("b.toml", FILE);
    lab.write("m.toml", "name = 'm'\nabout = 'a'\nlike = 'smp-4'\nbackground = 'b.toml'\n");
    let (none, no_time) = wakeups(&lab, &["--machine", "smp-4", "--background", "none"]);
    let (some, time) = wakeups(&lab, &["--machine", "smp-4", "--background", "b.toml"]);
    assert_eq!(no_time, 0.0);
    // 4 CPUs x 100 arrivals, and 20 ms of time, at random.
    assert!((300.0..500.0).contains(&(some - none)), "{none} {some}");
    assert!((14e6..26e6).contains(&time), "{time}");
    // A machine's file that names it makes the same run.
    assert_eq!(wakeups(&lab, &["--machine", "m.toml"]), (some, time));
    let stored = common::files(&lab.path().join("runs"));
    let records: Vec<String> = stored
        .iter()
        .filter(|(name, _)| name.ends_with("record.json"))
        .map(|(_, bytes)| String::from_utf8_lossy(bytes).into_owned())
        .collect();
    assert_eq!(records.len(), 3, "three machines, three cells");
    let named = records.iter().filter(|text| text.contains("\"background_from\""));
    assert_eq!(named.count(), 3);
    // Other contents of the same file make another machine.
    lab.write("b.toml", &FILE.replace("10ms", "20ms"));
    let (half, _) = wakeups(&lab, &["--machine", "smp-4", "--background", "b.toml"]);
    assert!((140.0..260.0).contains(&(half - none)), "{none} {half}");
}

#[test]
fn experiments_set_backgrounds_side_by_side() {
    let lab = Lab::new();
    lab.write("b.toml", FILE);
    lab.write(
        "e.toml",
        "runs = 1\nmetrics = ['background.cpu_time']\n[workload]\nname = 'nanosleep'\nruntime = '200ms'\n\
         [[machine]]\nname = 'own'\nbase = 'smp-2'\n\
         [[machine]]\nname = 'measured'\nbase = 'smp-2'\nbackground = 'b.toml'\n\
         [[machine]]\nname = 'bare'\nbase = 'smp-2'\nbackground = 'none'\n[[variant]]\nkernel = 'v6.5'\n",
    );
    let compared = lab.json(&["run", "e.toml", "--json"]);
    let of = |machine: &str| {
        let cell = compared["cells"].as_array().unwrap().iter().find(|c| c["machine"] == machine).unwrap();
        cell["metrics"]["background.cpu_time"]["mean"].as_f64().unwrap()
    };
    assert_eq!(of("bare"), 0.0);
    assert!(of("measured") > 500_000.0 && of("measured") != of("own"), "{compared}");
    lab.write("f.toml", "[workload]\nname = 'nanosleep'\n[[machine]]\nname = 'x'\nbase = 'smp-2'\nbackground = 3\n[[variant]]\nkernel = 'v6.5'\n");
    let (_, err) = lab.run(&["run", "f.toml"], 2);
    assert!(err.contains("f.toml:6:14: background is a file"), "{err}");
}

#[test]
fn wrong_files_are_refused_with_their_place() {
    let lab = Lab::new();
    lab.write("b.toml", &FILE.replace("every", "evry"));
    let sim = ["bench", "nanosleep", "--backend", "sim", "--machine", "smp-2", "--background"];
    let (_, err) = lab.run(&[&sim[..], &["b.toml"]].concat(), 2);
    assert!(err.contains("b.toml:8:1: ") && err.contains("did you mean 'every'?"), "{err}");
    lab.write("m.toml", "name = 'm'\nabout = 'a'\nlike = 'smp-4'\nbackground = 'b.toml'\n");
    let (_, err) = lab.run(&["machine", "m.toml"], 2);
    assert!(err.contains("b.toml:8:1: "), "{err}");
    let (_, err) = lab.run(&[&sim[..], &["idle-guest-3"]].concat(), 2);
    assert!(err.contains("did you mean 'idle-guest-2'?"), "{err}");
    let (_, err) = lab.run(&["bench", "nanosleep", "--background", "none"], 2);
    assert!(err.contains("--background none is for the simulator") && err.contains("--backend sim"), "{err}");
    let (_, err) = lab.run(&["machine", "background", "-o", "b.txt"], 2);
    assert!(err.contains("--output b.txt") && err.contains("--output b.toml"), "{err}");
}

#[test]
fn a_machine_shows_where_its_background_comes_from() {
    let lab = Lab::new();
    let shown = |words: &[&str]| {
        let text = lab.ok(words);
        assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
        text.split_once("\nbackground").unwrap().1.to_owned()
    };
    let own = shown(&["machine", "spr-2x56"]);
    assert_eq!(own.matches("estimate").count(), 3, "{own}");
    let measured = shown(&["machine", "spr-2x56", "--background", "idle-guest-2"]);
    assert!(measured.contains("  idle-guest-2: ") && measured.contains("measured:"), "{measured}");
    assert!(!measured.contains("estimate"), "{measured}");
    assert!(shown(&["machine", "smp-2", "--background", "none"]).contains("\n  none\n"));
}

fn instances() -> Vec<String> {
    let folder = Path::new("/sys/kernel/tracing/instances");
    let names = std::fs::read_dir(folder).into_iter().flatten().flatten();
    names.filter_map(|e| e.file_name().into_string().ok()).collect()
}

#[test]
fn this_machines_background_becomes_a_file_and_ctrl_c_leaves_nothing() {
    let lab = Lab::new();
    let words = ["machine", "background", "--seconds", "1", "-o", "here.toml"];
    let output = lab.command(&words).output().unwrap();
    let (out, err) = texts(&output);
    if output.status.code() == Some(3) {
        // This user may not record events here, and the message says what would help.
        assert!(err.contains("help: ") && out.is_empty(), "{err}");
        return skipped(err);
    }
    assert_eq!(output.status.code(), Some(0), "{out}\n{err}");
    assert!(out.contains("group") && out.contains("wakeups/s"), "{out}");
    assert!(out.lines().all(|l| l.chars().count() <= 78), "{out}");
    lab.ok(&["machine", "smp-2", "--background", "here.toml"]);

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
