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
    let is_single = |one: &&Value| !one["setting"].as_str().unwrap().contains(',');
    assert_eq!(found["race"].as_array().unwrap().iter().filter(is_single).count(), tried.len());
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
    for (word, of_it) in [("cpus=0,1", "cpus=0/1"), ("cpus=0/4000", "CPU 4000")] {
        for line in [format!("tune sleepers.toml --try {word}"), format!("tune --try {word} -- true")] {
            let said = lab.run(&line, 3).1;
            assert!(said.contains(of_it), "{line}: {said}");
        }
    }
    let left_out = lab.run("tune sleepers.toml --try NO_SUCH_THING", 3).1;
    assert!(left_out.contains("NO_SUCH_THING"), "{left_out}");
}

/// An experiment on a machine with siblings and nodes.
fn wide(lab: &Lab, more: &str) {
    let text = SLEEPERS.replace("smp-4", "nodes-2x4").replace("runs = 10\n", &format!("runs = 10\n{more}"));
    lab.write("wide.toml", &text);
}

#[test]
fn sets_of_cpus_race_by_name_and_are_known_by_their_cpus() {
    let lab = Lab::new();
    wide(&lab, "");
    let line = "tune wide.toml --json --axis cpus --try policy=batch --try cpus=6-7 --metric migrations";
    let found: Value = serde_json::from_str(&lab.ok(&line.split(' ').collect::<Vec<_>>())).unwrap();
    let raced: Vec<&str> =
        found["race"].as_array().unwrap().iter().map(|one| one["setting"].as_str().unwrap()).collect();
    for set in ["cpus=core", "cpus=llc", "cpus=6-7"] {
        assert!(raced.contains(&set), "{raced:?}");
    }
    // A core's tasks can't leave it, and two sets of CPUs are not a pair.
    let core = found["race"].as_array().unwrap().iter().find(|one| one["setting"] == "cpus=core").unwrap();
    assert!(core["change_pct"][0].as_f64().unwrap() < -99.9, "{found}");
    assert!(!raced.iter().any(|name| name.matches("cpus=").count() > 1), "{raced:?}");
    lab.write("two.toml", &SLEEPERS.replace("machine = \"smp-4\"", "machine = [\"smp-4\", \"smp-8\"]"));
    let said = lab.run("tune two.toml --try cpus=core", 3).1;
    assert!(said.contains("cpus=0-3") || said.contains("differ"), "{said}");
}

#[test]
fn a_command_runs_on_the_cpus_that_a_setting_leaves_it() {
    let lab = Lab::new();
    let on_first = "grep -q 'Cpus_allowed_list:.0$' /proc/self/status && exit 3; exit 0";
    let words = ["tune", "--json", "--try", "cpus=0", "--try", "nice=1", "--", "sh", "-c", on_first];
    let found: Value = serde_json::from_str(&lab.ok(&words)).unwrap();
    assert_eq!(found["left_out"][0]["setting"], "cpus=0", "{found}");
}

#[test]
fn pairs_of_those_that_lead_race_too() {
    let lab = Lab::new();
    let tried = ["timer_slack_ns=20000", "slice=1ms", "policy=batch", "NO_PLACE_LAG"];
    let found = tuned(&lab, &tried.map(|word| format!("--try {word}")).join(" "));
    let race = found["race"].as_array().unwrap();
    let pairs = race.iter().filter(|one| one["setting"].as_str().unwrap().contains(',')).count();
    assert_eq!(pairs, 6, "all of four: {found}");
}

#[test]
fn time_is_looked_at_within_a_round() {
    let lab = Lab::new();
    let tried: Vec<String> = (1..=30).map(|n| format!("--try timer_slack_ns={n}000")).collect();
    let found = tuned(&lab, &format!("--jobs 1 --budget 1us {}", tried.join(" ")));
    assert_eq!(found["cut_short"], true, "{found}");
    let late = found["left_out"].as_array().unwrap();
    assert_eq!(late.len(), 29, "one setting had its run: {found}");
    assert!(late[0]["why"].as_str().unwrap().contains("time was up"));
    assert_eq!(found["race"].as_array().unwrap().len(), 1);
}

#[test]
fn a_list_of_variants_is_refused_with_what_to_write() {
    let lab = Lab::new();
    let (text, _) = SLEEPERS.split_once("[workload]").unwrap();
    let workload = "[workload]\nname = \"nanosleep\"\ntasks = 2\nruntime = \"50ms\"\n";
    lab.write("list.toml", &format!("variant = [{{ kernel = \"v6.12\" }}]\n{text}{workload}"));
    let said = lab.run("tune list.toml --try policy=batch", 2).1;
    assert!(said.contains("[[variant]]") && said.contains("list.toml"), "{said}");
}

#[test]
fn a_replay_prunes_before_the_command_runs() {
    let lab = Lab::new();
    lab.ok(&[
        "bench",
        "nanosleep",
        "--machine",
        "smp-4",
        "--tasks",
        "4",
        "-r",
        "50ms",
        "--keep-events",
        "--quiet",
    ]);
    let cell = std::fs::read_dir(lab.path().join("runs")).unwrap().filter_map(Result::ok);
    let cell = cell.map(|entry| entry.path()).find(|path| path.is_dir() && path.join("1").is_dir()).unwrap();
    let run = cell.join("1").display().to_string();
    let tried: Vec<String> = (-9..=9).map(|nice| format!("nice={nice}")).collect();
    let mut words = vec!["tune", "--json", "--prune", &run];
    tried.iter().for_each(|word| words.extend(["--try", word.as_str()]));
    words.extend(["--", "true"]);
    let found: Value = serde_json::from_str(&lab.ok(&words)).unwrap();
    let dropped = found["pruned"]["dropped"].as_array().unwrap().len();
    let raced = found["race"].as_array().unwrap();
    let alone = raced.iter().filter(|one| !one["setting"].as_str().unwrap().contains(',')).count();
    let left_out = found["left_out"].as_array().unwrap().len();
    assert_eq!(
        (dropped + alone + left_out, found["pruned"]["backend"].as_str()),
        (19, Some("sim")),
        "{found}"
    );
    assert_eq!(dropped, 10, "the best nine of 19 stay: {found}");
    assert_eq!(schedules(&lab), 1);
    // Another recording has a schedule of its own. Of few settings none is dropped, and nothing is said of it.
    lab.ok("bench nanosleep --machine smp-4 --tasks 3 -r 50ms --keep-events --quiet --out other");
    let cell = std::fs::read_dir(lab.path().join("other")).unwrap().filter_map(Result::ok);
    let cell = cell.map(|entry| entry.path()).find(|path| path.join("1").is_dir()).unwrap();
    let said = lab.ok(&format!("tune --quiet --prune {} --try nice=1 -- true", cell.join("1").display()));
    assert!(!said.contains("did not run"), "{said}");
    assert_eq!(schedules(&lab), 2);
}

/// Schedules that are kept beside the runs.
fn schedules(lab: &Lab) -> usize {
    let names = std::fs::read_dir(lab.path().join("runs")).unwrap().filter_map(Result::ok);
    names.filter(|entry| entry.path().extension().is_some_and(|ending| ending == "sched")).count()
}
