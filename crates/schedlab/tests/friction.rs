//! Details of the command line: headings, exit codes, colours, warnings instead of errors.

use crate::common::{Lab, texts};
use schedlab_base::testing::skipped;

#[test]
fn only_options_of_guests_and_clusters_stand_under_their_headings() {
    let lab = Lab::new();
    let guests = ["--guest-mode", "--accelerator", "--memory", "--boot"];
    let cluster = ["--engine", "--slurm"];
    let headings = [("Guests (--backend vm)", &guests[..]), ("Cluster", &cluster[..])];
    for (words, count) in [
        (&["bench", "--help"][..], 1),
        (&["bench", "schbench", "--help"], 1),
        (&["run", "--help"], 2),
        (&["study", "--help"], 2),
        (&["suite", "--help"], 2),
        (&["pack", "--help"], 1),
        (&["validate", "--help"], 1),
        (&["run", "-h"], 0),
    ] {
        let text = lab.ok(words);
        let mut found = 0;
        for (heading, wanted) in headings {
            let Some((_, under)) = text.split_once(&format!("\n{heading}:\n")) else { continue };
            // Up to the next heading.
            let own = under.lines().take_while(|l| l.is_empty() || l.starts_with(' '));
            let options = own.filter(|l| l.trim_start().starts_with('-'));
            let names: Vec<&str> =
                options.filter_map(|l| l.split_whitespace().find(|w| w.starts_with("--"))).collect();
            assert_eq!(names, wanted, "{words:?}");
            found += 1;
        }
        assert_eq!(found, count, "{words:?}: {text}");
    }
}

#[test]
fn help_has_one_blank_line_between_its_parts() {
    let text = Lab::new().ok(&["--help"]);
    assert!(!text.contains("\n\n\n") && text.contains("Print version\n\n'schedlab help"), "{text}");
}

#[test]
fn an_unknown_machine_is_an_error_alone() {
    let lab = Lab::new();
    for command in ["bench", "knee"] {
        let (_, err) = lab.run(&[command, "pipe", "--machine", "zz"], 2);
        assert!(err.starts_with("schedlab: error: ") && !err.contains("simulated, since"), "{err}");
    }
    let (_, err) = lab.run(&["bench", "pipe", "--loops", "500", "--machine", "smp-2", "--seed", "1"], 0);
    assert!(err.contains("simulated, since this host is not smp-2"), "{err}");
}

#[test]
fn completions_and_the_manual_are_listed() {
    let text = Lab::new().ok(&["--help"]);
    for name in ["completions", "man", "runs"] {
        assert!(text.lines().any(|l| l.trim_start().starts_with(name)), "{name}: {text}");
    }
}

#[test]
fn a_command_that_does_not_start_has_the_exit_code_that_shells_give() {
    let lab = Lab::new();
    lab.write("plain.txt", "no program");
    assert!(lab.run(&["exec", "--", "nosuchcmd-of-ours"], 127).1.contains("it is not there"));
    assert!(lab.run(&["exec", "--", "./plain.txt"], 126).1.contains("may not be executed"));
    assert!(lab.run(&["exec", "--", "/"], 126).1.contains("can't start '/'"));
    lab.run(&["exec", "--", "sh", "-c", "exit 5"], 5);
}

#[test]
fn a_state_folder_that_can_not_be_read_is_a_warning() {
    let lab = Lab::new();
    lab.ok(&["run", "small.toml", "-q", "--load", "1x2"]);
    lab.write("state", "a file where a folder should be");
    for words in [
        &["machine", "host"][..],
        &["compare", "runs"],
        &[
            "bench",
            "schbench",
            "--backend",
            "sim",
            "--machine",
            "host",
            "-m",
            "1",
            "-t",
            "1",
            "-r",
            "50ms",
            "-q",
        ],
    ] {
        let mut command = lab.command(words);
        command.env("SCHEDLAB_STATE_DIR", lab.path().join("state"));
        let output = command.output().unwrap();
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(0), "{words:?}: {err}");
        assert!(err.contains("warning: can't read the state folder") && !out.is_empty(), "{words:?}: {err}");
        assert_eq!(err.matches("state folder").count(), 1, "{words:?}: {err}");
    }
}

#[test]
fn an_unknown_metric_is_answered_with_the_likest_names() {
    let lab = Lab::new();
    lab.ok(&["run", "small.toml", "-q", "--load", "1x2"]);
    let (_, err) = lab.run(&["compare", "runs", "--metric", "total_delay"], 2);
    assert!(err.contains("unknown metric 'total_delay'") && err.contains("run_delay.total"), "{err}");
    let (_, far) = lab.run(&["compare", "runs", "--metric", "bananas"], 2);
    assert!(far.len() < 400 && far.contains("docs/metrics.md"), "{} bytes: {far}", far.len());
}

#[test]
fn two_commands_keep_their_output_to_themselves() {
    let lab = Lab::new();
    let words = ["stat", "--runs", "2", "--vs", "echo of-B", "--", "echo", "of-A"];
    let (out, err) = lab.run(&words, 0);
    let table = out.lines().filter(|l| !l.contains("echo of-")).count();
    assert!(table > 3 && !out.lines().any(|l| l == "of-A" || l == "of-B"), "{out}");
    assert!(!err.contains("of-A") && !err.contains("of-B"), "{err}");
    assert!(lab.ok(&["stat", "--", "echo", "of-A"]).starts_with("of-A\n"), "one command keeps its terminal");
}

#[test]
fn verdicts_have_colours_when_they_are_asked_for() {
    let lab = Lab::new();
    // A change that no run can miss: the shorter period leaves the waker no credit to preempt with.
    let slices = "name = \"slices\"\nruns = 10\nmachines = [\"smp-2\"]\nmetrics = [\"slice.mean\"]\n[workload]\n\
        name = \"slice\"\nruntime = \"300ms\"\n[[variant]]\nkernel = \"v4.5\"\n[[variant]]\nname = \"short\"\n\
        kernel = \"v4.5\"\ntunables = { sched_latency_ns = 1000000, min_granularity_ns = 100000 }\n";
    lab.write("slices.toml", slices);
    let form = |more: &[&str]| lab.ok(&[&["run", "slices.toml", "-q"][..], more].concat());
    let plain = form(&[]);
    assert!(!plain.contains('\u{1b}'), "a pipe is no terminal");
    let strip = |text: &str| {
        ["\u{1b}[32m", "\u{1b}[31m", "\u{1b}[1;33m", "\u{1b}[0m"]
            .iter()
            .fold(text.to_owned(), |t, c| t.replace(c, ""))
    };
    let coloured = form(&["--color", "always"]);
    assert!(coloured.contains('\u{1b}') && strip(&coloured) == plain, "{coloured}");
    let marks = plain.lines().flat_map(str::split_whitespace).filter(|w| ["*", "!", "#"].contains(w)).count();
    assert_eq!(coloured.matches("\u{1b}[0m").count(), marks - 3, "all but the legend's: {coloured}");
    let detail = form(&["--format", "detail", "--color", "always"]);
    assert!(detail.contains("\u{1b}[0m\n") && strip(&detail) == form(&["--format", "detail"]), "{detail}");
    assert_eq!(form(&["--color", "never"]), plain);
    assert!(!form(&["--color", "always", "--json"]).contains('\u{1b}'), "JSON has none");
    assert!(lab.run(&["run", "small.toml", "--color", "blue"], 2).1.contains("auto, always, never"));
}

#[test]
fn several_plain_runs_give_means_and_spreads() {
    let lab = Lab::new();
    let base =
        ["bench", "schbench", "--backend", "sim", "--machine", "smp-2", "-m", "1", "-t", "2", "-r", "100ms"];
    let json = lab.json(&[&base[..], &["--runs", "3", "--json", "-q"]].concat());
    let cell = &json["cells"][0];
    assert_eq!((json["schema"].as_str(), cell["runs"].as_u64()), (Some("schedlab/comparison/1"), Some(3)));
    assert_eq!(cell["seeds"], serde_json::json!([1, 2, 3]));
    let p50 = &cell["metrics"]["schbench.latency.p50"];
    assert_eq!(p50["values"].as_array().map(Vec::len), Some(3), "{p50}");
    assert!(p50["std_pct"].is_number());
    let (text, err) = lab.run(&[&base[..], &["--runs", "3", "--seed", "2"]].concat(), 0);
    assert!(text.contains("3 runs") && err.contains("1 run made, 2 found; kept in runs"), "{text}\n{err}");
    // New live runs get the seeds behind those of the stored ones.
    let live = [
        "bench", "schbench", "-m", "1", "-t", "1", "-r", "50ms", "-c", "100", "-s", "1000", "--runs", "2",
        "--json", "-q",
    ];
    assert_eq!(lab.json(&live)["cells"][0]["seeds"], serde_json::json!([1, 2]));
    assert_eq!(lab.json(&live)["cells"][0]["seeds"], serde_json::json!([3, 4]));
    let (_, err) = lab.run(&[&base[..], &["--runs", "2", "--format", "schbench"]].concat(), 2);
    assert!(err.contains("shows one run, and 2 are asked for"), "{err}");
}

#[test]
fn a_knee_of_an_rtapp_file_is_how_many_copies_it_takes() {
    let lab = Lab::new();
    let text = r#"{ "global": { "duration": 1 }, "tasks": { "t": { "loop": -1, "run": 2000, "timer": { "ref": "unique", "period": 10000 } } } }"#;
    lab.write("t.json", text);
    let words = [
        "knee",
        "t.json",
        "--backend",
        "sim",
        "--machine",
        "smp-2",
        "--limit",
        "p50 < 1ms",
        "--runs",
        "1",
        "--max-load",
        "32",
        "-q",
    ];
    let json = lab.json(&[&words[..], &["--json", "--plot", "knee.svg"]].concat());
    assert_eq!(
        (&json["parameter"], &json["limit"]["metric"]),
        (&"copies".into(), &"rtapp.wakeup_latency.p50".into())
    );
    // 2 ms of every 10 on two CPUs: ten tasks fill them.
    let knee = json["variants"][0]["knees"][0].as_u64().unwrap();
    assert!((2..=12).contains(&knee), "{json}");
    assert!(json["tried"].as_array().unwrap().len() >= 4 && json["unit"] == "ns", "{json}");
    let svg = std::fs::read_to_string(lab.path().join("knee.svg")).unwrap();
    assert!(svg.contains(">copies<") && svg.contains("limit &lt; 1.00ms"), "{svg}");
    assert!(lab.run(&["knee", "t.json", "--plot", "knee.pdf"], 2).1.contains(".svg or .png"));
}

#[test]
fn a_knee_of_a_tool_needs_a_limit_and_a_load() {
    let lab = Lab::new();
    let (_, err) = lab.run(&["knee", "--tool", "perf-pipe", "--limit", "perf-pipe.time < 1s"], 2);
    assert!(err.contains("takes no load") && err.contains("hackbench"), "{err}");
    let output = lab.command(&["knee", "--tool", "hackbench"]).output().unwrap();
    let (_, err) = texts(&output);
    // Where the tool is missing, the first error names its package.
    let installed = !err.contains("rt-tests");
    assert_eq!(output.status.code(), Some(if installed { 2 } else { 3 }), "{err}");
    if !installed {
        skipped("hackbench");
        return;
    }
    assert!(err.contains("--limit") && err.contains("hackbench.time"), "{err}");
    let words = [
        "knee",
        "--tool",
        "hackbench",
        "--args=-l 1 -f 1",
        "--limit",
        "hackbench.time < 100s",
        "--max-load",
        "2",
        "--runs",
        "1",
        "--json",
        "-q",
    ];
    let json = lab.json(&words);
    assert_eq!(
        (&json["parameter"], &json["variants"][0]["knees"]),
        (&"load".into(), &serde_json::json!([2]))
    );
}

/// A first experiment: two workloads, five loads and three variants on a machine of its own file.
#[test]
fn a_first_experiment_is_whole_and_a_part_of_it_is_run() {
    let lab = Lab::new();
    lab.write("own.toml", include_str!("cases/first-hour/own.toml"));
    lab.write("mybox.toml", include_str!("cases/first-hour/mybox.toml"));
    let (_, packed) = lab.run(&["pack", "own.toml", "-o", "own.parcel"], 0);
    assert!(packed.contains("150 runs"), "5 loads x 3 variants x 10 seeds: {packed}");
    let part = ["run", "own.toml", "--load", "groups=4", "--runs", "2", "--json", "-q"];
    let json = lab.json(&part);
    let cells = json["cells"].as_array().unwrap();
    let of = |name: &str| cells.iter().map(|c| c[name].as_str().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("variant"), ["v6.5", "v6.12", "no-parity"]);
    assert!(of("machine").iter().all(|m| *m == "mybox"), "{json}");
    assert!(cells.iter().all(|c| c["runs"] == 2), "{json}");
    let rows = json["comparisons"].as_array().unwrap();
    assert!(rows.iter().any(|r| r["metric"].as_str().unwrap().starts_with("hackbench")), "{json}");
    let record = lab.path().join(cells[0]["folders"][0].as_str().unwrap()).join("1/record.json");
    let record: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(record).unwrap()).unwrap();
    assert_eq!(record["machine"]["topology"]["cpus"].as_array().map(Vec::len), Some(64));
}
