//! Ctrl-C: the work ends in under a second, what is finished is kept, and the message says so.

use crate::common;
use crate::common::{Lab, SMALL, Words, at_work};
use schedlab_base::testing::{in_time, stretch};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

fn start(lab: &Lab, line: &str) -> Child {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
    command.current_dir(lab.path()).args(line.words()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Whether one of five tries ends as soon as it does unless other programs keep the CPUs busy.
fn ends_soon(mut attempt: impl FnMut() -> Duration) {
    in_time(|factor| {
        let took = attempt();
        if took < Duration::from_millis(1500 * factor) { Ok(()) } else { Err(format!("{took:?}")) }
    });
}

fn interrupt(child: &Child) {
    let status = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(status.success());
}

/// Waits for the end and returns how long it took.
fn end(child: Child) -> (Option<i32>, String, String, Duration) {
    let before = Instant::now();
    let output = child.wait_with_output().unwrap();
    let (out, err) = common::texts(&output);
    (output.status.code(), out, err, before.elapsed())
}

fn runs(lab: &Lab) -> usize {
    let stored = lab.path().join("runs");
    if stored.exists() {
        common::files(&stored).iter().filter(|(n, _)| n.ends_with("record.json")).count()
    } else {
        0
    }
}

#[test]
fn finished_runs_are_kept_and_the_rest_can_be_made_later() {
    ends_soon(interrupted_runs);
}

fn interrupted_runs() -> Duration {
    let lab = Lab::new();
    // Hundreds of runs of some hundredths of a second: there is always one under way.
    lab.write("long.toml", &SMALL.replace("runs = 3", "runs = 2000").replace("200ms", "2s"));
    let child = start(&lab, "run long.toml --jobs 2");
    let (since, patience) = (Instant::now(), Duration::from_secs(60 * stretch()));
    while runs(&lab) < 4 && since.elapsed() < patience {
        std::thread::sleep(Duration::from_millis(20));
    }
    interrupt(&child);
    let (code, out, err, took) = end(child);
    let kept = runs(&lab);
    // What was made until then is compared, and the page says how much that is.
    let said = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(code, Some(1), "{err}");
    assert!(said.contains(&format!("warning: interrupted: {kept} of 8000 runs finished")), "{out}");
    assert!(
        kept >= 4 && err.contains(&format!("interrupted: {kept} of 8000 runs finished, kept in runs")),
        "{err}"
    );
    assert!(
        common::files(&lab.path().join("runs")).iter().all(|(n, _)| !n.contains(".tmp")),
        "nothing half-written"
    );
    let compared = lab.json("compare runs --json");
    let made: u64 = compared["cells"].as_array().unwrap().iter().map(|c| c["runs"].as_u64().unwrap()).sum();
    assert_eq!(made, kept as u64);
    took
}

#[test]
fn a_live_run_ends_at_once() {
    ends_soon(|| {
        let lab = Lab::new();
        let child = start(&lab, "bench schbench -r 60 -m 1 -t 2");
        at_work(&child);
        interrupt(&child);
        let (code, out, err, took) = end(child);
        assert_eq!((code, out.as_str()), (Some(1), ""), "{err}");
        assert!(err.contains("interrupted: nothing of this run is kept") && runs(&lab) == 0, "{err}");
        took
    });
}

#[test]
fn a_long_simulation_ends_within_a_second() {
    let lab = Lab::new();
    let words = "bench schbench --backend sim --machine spr-2x56 -m 8 -t 100 -r 3600";
    ends_soon(|| {
        let child = start(&lab, words);
        at_work(&child);
        interrupt(&child);
        let (code, _, err, took) = end(child);
        assert_eq!(code, Some(1), "{err}");
        took
    });
}
