//! `schedlab tune` on the simulator and on the running kernel.

use crate::common::Lab;
use serde_json::Value;

const SLEEPERS: &str = r#"
name = "sleepers"
machine = "smp-4"
runs = 10
metrics = ["nanosleep.overrun.p50", "migrations"]
[workload]
name = "nanosleep"
tasks = 2
runtime = "50ms"
[[variant]]
kernel = "v6.12"
"#;

fn tuned(lab: &Lab, options: &str) -> Value {
    lab.write("sleepers.toml", SLEEPERS);
    let line = format!("tune sleepers.toml --json {options}");
    serde_json::from_str(&lab.ok(&line.split(' ').collect::<Vec<_>>())).unwrap()
}

#[test]
fn a_setting_that_helps_wins_and_is_written() {
    let lab = Lab::new();
    // A timer's slack is most of what so short a sleep takes too long.
    let tried = ["timer_slack_ns=0", "timer_slack_ns=100000", "policy=batch", "NO_PLACE_LAG", "slice=1ms"];
    let options = tried.map(|word| format!("--try {word}")).join(" ");
    let found = tuned(&lab, &options);
    assert_eq!(found["winner"], "timer_slack_ns=0", "{found}");
    assert_eq!(found["race"].as_array().unwrap().len(), tried.len());
    let worst = found["race"].as_array().unwrap().last().unwrap();
    assert_eq!(worst["setting"], "timer_slack_ns=100000", "{found}");
    // The same command finds its runs, and says the same.
    assert_eq!(tuned(&lab, &options), found);
}

#[test]
fn where_settings_change_nothing_none_wins() {
    let lab = Lab::new();
    let found = tuned(&lab, "--try slice=1ms --try slice=6ms --write script:best.sh");
    assert_eq!(found["winner"], Value::Null, "{found}");
    assert!(!lab.path().join("best.sh").exists());
}

#[test]
fn a_command_is_tuned_on_the_running_kernel() {
    let lab = Lab::new();
    let words = ["tune", "--json", "--try", "policy=batch", "--write", "script:best.sh", "--", "true"];
    let found: Value = serde_json::from_str(&lab.ok(&words)).unwrap();
    assert_eq!((&found["default"], &found["settings"]), (&"default".into(), &1.into()), "{found}");
    assert_eq!(found["metrics"][0], "command.elapsed");
    let written = lab.path().join("best.sh");
    assert_eq!(found["winner"].is_string(), written.exists(), "{found}");
}

#[test]
fn a_setting_under_which_the_command_fails_is_left_out() {
    let lab = Lab::new();
    // chrt prints the policy of the process that it is asked about: the shell's own.
    let fails = "chrt -p $$ | grep -q SCHED_BATCH && exit 3; exit 0";
    let words = ["tune", "--json", "--try", "policy=batch", "--try", "nice=1", "--", "sh", "-c", fails];
    let found: Value = serde_json::from_str(&lab.ok(&words)).unwrap();
    assert_eq!(found["left_out"][0]["setting"], "policy=batch", "{found}");
    assert!(found["confirmed"].as_array().unwrap().iter().all(|row| row["variant"] == "nice=1"), "{found}");
}

#[test]
fn what_cannot_be_tuned_is_refused_by_name() {
    let lab = Lab::new();
    lab.write("sleepers.toml", SLEEPERS);
    let said = |line: &str| lab.run(line, 2).1;
    assert!(said("tune sleepers.toml --metric switches.voluntary --try policy=batch").contains("direction"));
    assert!(said("tune sleepers.toml --axis polcy").contains("policy"));
    assert!(said("tune sleepers.toml --try policy=batch --write best.sh").contains("script:best.sh"));
    let left_out = lab.run("tune sleepers.toml --try NO_SUCH_THING", 3).1;
    assert!(left_out.contains("NO_SUCH_THING"), "{left_out}");
}
