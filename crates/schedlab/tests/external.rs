//! Commands as workloads, through the binary.

mod common;

use common::Lab;
use std::process::Command;
use std::time::{Duration, Instant};

const EXPERIMENT: &str = r#"
name = "echo"
runs = 2
[workload]
name = "said"
[workload.command]
run = ["/bin/echo", "Time: {load}.5", "cpus", "{cpus}"]
env = { LANG = "C" }
timeout = "10s"
[[workload.command.metrics]]
name = "time"
regex = 'Time: ([0-9.]+)'
unit = "s"
[[load]]
name = "some"
load = { sweep = [1, 2] }
[[variant]]
kernel = "running"
"#;

#[test]
fn a_command_gives_its_figures_and_what_it_used() {
    let lab = Lab::new();
    let words = ["bench", "--command", "/bin/echo 'Time: {load} x'", "--load", "1.23"];
    let words = [&words[..], &["--metric-regex", "time[s]=Time: ([0-9.]+)", "--json"]].concat();
    let json = lab.json(&words);
    assert_eq!((json["workload"].as_str(), json["load"].as_str()), (Some("echo"), Some("load=1.23")));
    assert_eq!(json["metrics"]["echo.time"]["value"], 1.23e9);
    assert_eq!(json["metrics"]["echo.time"]["better"], "lower");
    for name in ["command.elapsed", "command.max_rss"] {
        assert!(json["metrics"][name]["value"].as_f64().unwrap() > 0.0, "{name}: {json}");
    }
    // The command is so short that it waits for nothing.
    assert!(json["metrics"]["switches.voluntary"]["value"].is_number(), "{json}");
    let text = lab.ok(&["bench", "--command", "sleep 0.05"]);
    assert!(text.starts_with("sleep on host") && text.contains("command.elapsed"), "{text}");
    let compared = lab.ok(&["compare", "runs"]);
    assert!(compared.contains("time") && compared.contains("1.23s"), "{compared}");
}

#[test]
fn an_experiment_sweeps_a_commands_load() {
    let lab = Lab::new();
    lab.write("echo.toml", EXPERIMENT);
    let json = lab.json(&["run", "echo.toml", "--backend", "host", "--json"]);
    let cells = json["cells"].as_array().unwrap();
    let seen: Vec<_> = cells
        .iter()
        .map(|c| (c["load"].as_str().unwrap(), c["metrics"]["said.time"]["mean"].as_f64().unwrap()))
        .collect();
    assert_eq!(seen, [("some,load=1", 1.5e9), ("some,load=2", 2.5e9)]);
    assert!(cells[0]["params"]["run"].as_str().unwrap().starts_with("/bin/echo 'Time: 1.5' cpus "));
    let (_, err) = lab.run(&["run", "echo.toml"], 3);
    assert!(err.contains("a command can only be run live") && err.contains("--backend host"), "{err}");
    for (from, to, place) in [
        ("([0-9.]+)", "([0-9.]+", "echo.toml:12:9: not a regular expression"),
        ("([0-9.]+)", "[0-9.]+", "echo.toml:12:9: the regular expression has 0 groups"),
        ("timeout", "timout", "did you mean 'timeout'?"),
        ("unit = \"s\"", "better = \"les\"", "unknown better 'les'"),
        ("load = { sweep = [1, 2] }", "laod = 1", "echo.toml:"),
        ("name = \"time\"", "name = \"a b\"", "is no name of a metric"),
    ] {
        lab.write("echo.toml", &EXPERIMENT.replacen(from, to, 1));
        let (_, err) = lab.run(&["run", "echo.toml", "--backend", "host"], 2);
        assert!(err.contains(place), "{to}: {err}");
    }
}

#[test]
fn what_goes_wrong_is_told_and_nothing_is_stored() {
    let lab = Lab::new();
    let fails = |code: i32, words: &[&str]| lab.run(&[&["bench", "--command"][..], words].concat(), code).1;
    let began = Instant::now();
    let err = fails(2, &["sleep 60", "--timeout", "300ms"]);
    assert!(
        err.contains("'sleep 60' was not done after 300ms") && began.elapsed() < Duration::from_secs(20),
        "{err}"
    );
    assert!(fails(2, &["/bin/false"]).contains("ended with exit code 1"));
    assert!(fails(3, &["no-such-program -x"]).contains("'no-such-program' is not installed"));
    let err = fails(2, &["/bin/echo hello", "--metric-regex", "t=([0-9]+)"]);
    assert!(err.contains("nothing matches") && err.contains("its last lines:\n  hello"), "{err}");
    assert!(fails(2, &["/bin/echo 'a"]).contains("single quote is not closed"));
    assert!(fails(2, &["/bin/echo {load}"]).contains("no load is given"));
    assert!(fails(3, &["/bin/true", "--backend", "sim", "--machine", "smp-2"]).contains("only be run live"));
    assert!(!common::files(lab.path()).iter().any(|(name, _)| name.ends_with("record.json")));
}

#[test]
fn what_a_command_leaves_behind_is_killed_and_told() {
    let lab = Lab::new();
    // Both halves outlive it: one in its process group, one in a session of its own.
    let line = "/bin/sh -c 'sleep 4077 & setsid sleep 4077 & exit 0'";
    let json = lab.json(&["bench", "--command", line, "--json"]);
    let warnings = json["warnings"].to_string();
    assert!(warnings.contains("command.children") && warnings.contains("were killed: 2"), "{warnings}");
    let left = Command::new("pgrep").args(["-f", "sleep 4077$"]).output();
    assert!(left.is_err() || left.unwrap().stdout.is_empty());
}

#[test]
fn tools_are_listed_and_their_saved_outputs_compared() {
    let lab = Lab::new();
    let json = lab.json(&["bench", "--tools", "--json"]);
    let hackbench = &json["tools"][0];
    assert_eq!(
        (json["schema"].as_str(), hackbench["package"].as_str()),
        (Some("schedlab/tools/1"), Some("rt-tests"))
    );
    assert!(lab.ok(&["bench", "--tools"]).contains("cyclictest"));
    for (side, base) in [("old", 2.0), ("new", 1.0)] {
        for i in 0..5 {
            let text = format!(
                "Running in process mode with 2 groups using 40 file\nTime: {}\n",
                base + 0.01 * f64::from(i)
            );
            lab.write(&format!("{side}-{i}.txt"), &text);
        }
    }
    let side = |name: &str| {
        format!("{name}={}", (0..5).map(|i| format!("{name}-{i}.txt")).collect::<Vec<_>>().join(","))
    };
    let json = lab.json(&["compare", &side("old"), &side("new"), "--json"]);
    let row = &json["comparisons"][0];
    assert_eq!((row["metric"].as_str(), row["load"].as_str()), (Some("hackbench.time"), Some("2 groups")));
    assert_eq!((row["baseline"].as_str(), row["verdict"].as_str()), (Some("old"), Some("better")));
    assert_eq!(row["pairs"], 0);
    let text = lab.ok(&["compare", "old-0.txt", "new-0.txt", "--from", "hackbench"]);
    assert!(text.contains("old-0") && text.contains("new-0"), "{text}");
    let (_, err) = lab.run(&["compare", "small.toml"], 2);
    assert!(
        err.contains("small.toml: not the output of a tool") && err.contains("known: hackbench"),
        "{err}"
    );
    let (_, err) = lab.run(&["compare", "old-0.txt", "--metric", "hackbench.tiem"], 2);
    assert!(err.contains("'hackbench.time'"), "{err}");
}

#[test]
fn what_schedlab_printed_is_read_back() {
    let lab = Lab::new();
    let first = lab.json(&["run", "small.toml", "--json", "--quiet"]);
    lab.write("all.json", &first.to_string());
    let again = lab.json(&["compare", "all.json", "--baseline", "v4.5", "--json"]);
    let rows = |c: &serde_json::Value| {
        let row = |r: &serde_json::Value| {
            ["load", "metric", "variant", "change_pct", "ci95_pct", "p", "verdict", "pairs"]
                .map(|k| r[k].clone())
        };
        let mut all: Vec<String> =
            c["comparisons"].as_array().unwrap().iter().map(|r| format!("{:?}", row(r))).collect();
        all.sort();
        all
    };
    assert_eq!(rows(&first), rows(&again), "pairs stay pairs");
    assert_eq!(
        (&again["cells"][0]["params"], &again["cells"][0]["seeds"]),
        (&first["cells"][0]["params"], &first["cells"][0]["seeds"])
    );

    let mean = |c: &serde_json::Value, load: &str, variant: &str| {
        let cells = c["cells"].as_array().unwrap();
        let cell = cells.iter().find(|c| c["load"] == load && c["variant"] == variant).unwrap();
        cell["metrics"]["work"]["mean"].as_f64().unwrap()
    };
    for form in ["go", "csv"] {
        lab.write("printed", &lab.ok(&["run", "small.toml", "--quiet", "--format", form]));
        let read = lab.json(&["compare", "printed", "--json"]);
        for (load, variant) in [("1x2", "v4.5"), ("1x6", "first-idle")] {
            let (a, b) = (mean(&first, load, variant), mean(&read, load, variant));
            assert!((a - b).abs() <= a * 1e-9, "{form} {load} {variant}: {a} and {b}");
        }
        let warned = read["warnings"].to_string().contains("saved.means");
        assert_eq!(warned, form == "csv", "{form}: {}", read["warnings"]);
        assert!(!lab.ok(&["compare", "printed", "--from", form, "--json"]).is_empty());
    }

    for seed in ["1", "2"] {
        let words = [
            "bench",
            "--backend",
            "sim",
            "--machine",
            "smp-2",
            "--json",
            "--seed",
            seed,
            "pipe",
            "--loops",
            "200",
        ];
        lab.write(&format!("run{seed}.json"), &lab.ok(&words));
    }
    let runs = lab.json(&["compare", "a=run1.json", "b=run2.json", "--json"]);
    let names: Vec<&str> =
        runs["cells"].as_array().unwrap().iter().filter_map(|c| c["variant"].as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(runs["metrics"].to_string().contains("pipe.round_trip.mean"), "{}", runs["metrics"]);
    lab.write("copy.json", &first.to_string());
    let twice = lab.json(&["compare", "all.json", "copy.json", "--json", "--metric", "work"]);
    let names: Vec<&str> =
        twice["cells"].as_array().unwrap().iter().filter_map(|c| c["variant"].as_str()).collect();
    assert!(names.contains(&"all v4.5") && names.contains(&"copy v4.5"), "none is dropped: {names:?}");
}
