//! Commands as workloads, through the binary.

use crate::common;
use crate::common::Lab;
use std::path::Path;
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
fn a_command_gives_its_figures_and_its_usage() {
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
        ("name = \"time\"", "name = \"a b\"", "is not the name of a metric"),
    ] {
        lab.write("echo.toml", &EXPERIMENT.replacen(from, to, 1));
        let (_, err) = lab.run(&["run", "echo.toml", "--backend", "host"], 2);
        assert!(err.contains(place), "{to}: {err}");
    }
}

#[test]
fn failures_are_reported_and_nothing_is_stored() {
    let lab = Lab::new();
    let fails = |code: i32, words: &[&str]| lab.run(&[&["bench", "--command"][..], words].concat(), code).1;
    let began = Instant::now();
    let err = fails(2, &["sleep 60", "--timeout", "300ms"]);
    assert!(
        err.contains("'sleep 60' did not end within 300ms") && began.elapsed() < Duration::from_secs(20),
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
fn processes_that_a_command_leaves_behind_are_killed_and_reported() {
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
    lab.write("notes", "nothing that a tool prints\n");
    let (_, err) = lab.run(&["compare", "notes"], 2);
    assert!(err.contains("notes: not the output of a tool") && err.contains("known: hackbench"), "{err}");
    let (_, err) = lab.run(&["compare", "old-0.txt", "--metric", "hackbench.tiem"], 2);
    assert!(err.contains("'hackbench.time'"), "{err}");
}

#[test]
fn output_of_schedlab_is_read_back() {
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

/// A file of the cases that broke something.
fn case(name: &str) -> String {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases").join(name).display().to_string()
}

#[test]
fn decimal_commas_are_refused_with_the_number_and_the_remedy() {
    let lab = Lab::new();
    for (comma, point, number) in [
        ("h1", "h2", "'0,123' is written in the way of another locale"),
        ("p1", "p2", "'5,318' may mean 5318 or 5.318"),
        ("ycs", "ycs2", "'10,0005' is written in the way of another locale"),
    ] {
        let file = |name: &str| case(&format!("hostile/comma/{name}"));
        let (out, err) =
            lab.run(&["compare", &format!("A={}", file(comma)), &format!("B={}", file(point))], 2);
        assert!(out.is_empty() && err.contains(number) && err.contains("LC_ALL=C"), "{comma}: {err}");
        assert!(err.contains(&format!("{comma}: ")), "{err}");
        let good = lab.json(&["compare", &format!("B={}", file(point)), "--json"]);
        assert_eq!(good["cells"][0]["runs"], 1, "{point}");
    }
    let good = lab.json(&["compare", &format!("B={}", case("hostile/comma/p2")), "--json"]);
    assert_eq!(good["cells"][0]["metrics"]["perf-pipe.rate"]["mean"], 188_037.0, "a comma between thousands");
    let (_, err) = lab.run(&["bench", "--command", "echo t=0,52", "--metric-regex", "t[s]=t=(.*)"], 2);
    assert!(err.contains("'0,52' is written in the way of another locale"), "{err}");
}

#[test]
fn files_in_the_form_of_public_ones_give_all_their_runs_and_rows() {
    let lab = Lab::new();
    let schbench = case("files/schbench-three-runs.txt");
    let c = lab.json(&["compare", &format!("A={schbench}"), &format!("B={schbench}"), "--json"]);
    assert_eq!((&c["cells"][0]["runs"], &c["cells"][1]["runs"]), (&3.into(), &3.into()));
    assert_eq!(
        c["cells"][0]["metrics"]["schbench.rps.mean"]["values"],
        serde_json::json!([16000.0, 12000.0, 1600.0])
    );

    let mmtests = case("files/mmtests-eight-rows.txt");
    let text = lab.ok(&["compare", &mmtests]);
    let rows: Vec<&str> = text.lines().filter_map(|l| l.split_once(".hmean").map(|(n, _)| n)).collect();
    assert_eq!(rows, ["1", "2", "4", "8", "16", "32", "64", "128"], "{text}");
    assert!(text.contains("-50%"), "{text}");
    let csv = lab.ok(&["compare", &mmtests, "--format", "csv"]);
    assert_eq!(csv.lines().filter(|l| l.contains(".hmean,")).count(), 16, "{csv}");
    assert_eq!(lab.json(&["compare", &mmtests, "--json"])["metrics"].as_array().unwrap().len(), 8);

    let interval = case("files/perf-stat-interval.csv");
    let alone = lab.run(&["compare", &format!("A={interval}"), &format!("B={interval}")], 2).1;
    let named =
        lab.run(&["compare", "--from", "perf-stat", &format!("A={interval}"), &format!("B={interval}")], 2).1;
    assert_eq!(alone, named);
    assert!(alone.contains("by interval (-I) is not the result of a run"), "{alone}");
}

#[test]
fn any_text_is_compared_by_an_expression() {
    let lab = Lab::new();
    for (name, time) in [("a1", "1.50"), ("a2", "1.52"), ("b1", "3.00"), ("b2", "3.02")] {
        lab.write(name, &format!("warm 9\nreal {time}\n{{\"not\": \"read\"}}\n"));
    }
    let regex = ["--metric-regex", "time[s]=real ([0-9.]+)"];
    let words = [&["compare", "old=a1,a2", "new=b1,b2", "--json"][..], &regex].concat();
    let c = lab.json(&words);
    assert_eq!((&c["metrics"], &c["cells"][0]["runs"]), (&serde_json::json!(["output.time"]), &2.into()));
    assert_eq!(c["cells"][1]["metrics"]["output.time"]["values"], serde_json::json!([3e9, 3.02e9]));
    let text = lab.ok(&[&["compare", "old=a1", "new=b1"][..], &regex].concat());
    assert!(text.contains("time") && text.contains("3.00s"), "{text}");
    lab.write("c1", "real 1,5\n");
    let (_, err) = lab.run(&[&["compare", "c1"][..], &regex].concat(), 0);
    assert!(err.is_empty(), "the group takes the 1 alone: {err}");
    let (_, err) = lab.run(&["compare", "c1", "--metric-regex", "time[s]=real (.*)"], 2);
    assert!(err.contains("c1: ") && err.contains("'1,5'"), "{err}");
    lab.write("notes", "nothing that a tool prints\n");
    let (_, err) = lab.run(&["compare", "a1", "notes", "--metric-regex", "time[s]=real ([0-9.]+)"], 2);
    assert!(err.contains("notes") && err.contains("nothing matches"), "{err}");
    let (_, err) = lab.run(&["compare", "notes"], 2);
    assert!(err.contains("--metric-regex"), "{err}");
}

#[test]
fn a_few_of_many_metrics_are_printed_and_all_on_demand() {
    let lab = Lab::new();
    let bench = "bench --backend sim --machine smp-2 --json pipe --loops 200";
    lab.write("run.json", &lab.ok(&bench.split(' ').collect::<Vec<_>>()));
    let some = lab.json(&["compare", "run.json", "--json"]);
    let all = lab.json(&["compare", "run.json", "--json", "--all"]);
    let count = |c: &serde_json::Value| c["metrics"].as_array().unwrap().len();
    assert!(count(&some) < 12 && count(&all) > 50, "{} {}", count(&some), count(&all));
    let told = format!("{} more metrics are in these files: --all", count(&all) - count(&some));
    assert!(some["warnings"].to_string().contains(&told), "{}", some["warnings"]);
    assert!(!all["warnings"].to_string().contains("more metrics"));
}

#[test]
fn a_comparison_goes_to_ci_and_to_scripts() {
    let lab = Lab::new();
    for i in 0..6 {
        lab.write(&format!("a{i}"), &format!("Time: 1.00{i}\n"));
        lab.write(&format!("b{i}"), &format!("Time: 1.50{i}\n"));
    }
    let (a, b) = ("v1<&>=a0,a1,a2,a3,a4,a5", "v2=b0,b1,b2,b3,b4,b5");
    let plain = lab.ok(&["compare", a, b]);
    assert_eq!(lab.ok(&["compare", a, b, "--junit", "out.xml"]), plain, "the result is printed, too");
    let xml = std::fs::read_to_string(lab.path().join("out.xml")).unwrap();
    for part in [
        "<testsuites name=\"schedlab\" tests=\"1\" failures=\"1\" errors=\"0\">",
        "<testcase classname=\"hackbench default on unknown machine, measured (file)\" name=\"hackbench.time: v2 against v1&lt;&amp;&gt;\">",
        "<failure type=\"worse\"",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }
    let same = lab.run(&["compare", a, &a.replace("v1", "v3"), "--junit", "out.xml"], 0);
    let xml = std::fs::read_to_string(lab.path().join("out.xml")).unwrap();
    assert!(xml.contains("failures=\"0\"") && !xml.contains("<failure"), "{xml}{}", same.1);
    assert_eq!(lab.ok(&["compare", a, b, "--print", "hackbench.time"]).trim(), "1502500000");
    let change: f64 = lab.ok(&["compare", a, b, "--print", "hackbench.time%"]).trim().parse().unwrap();
    assert!((49.0..51.0).contains(&change), "{change}");
    let (_, err) = lab.run(&["compare", a, b, "w=a0,b0", "--print", "hackbench.time"], 2);
    assert!(err.contains("2 numbers") && err.contains("--variant"), "{err}");
    let one = ["bench", "--backend", "sim", "--machine", "smp-2", "pipe", "--loops", "200"];
    let number = lab.ok(&[&one[..], &["--print", "pipe.round_trip.mean"]].concat());
    assert!(number.trim().parse::<f64>().is_ok_and(|n| n > 0.0) && number.lines().count() == 1, "{number}");
    assert_eq!(lab.ok(&[&one[..], &["--print", "round_trip.mean"]].concat()), number, "as tables have it");
    lab.run(&[&one[..], &["--print", "pipe.no.mean"]].concat(), 2);
    assert_eq!(lab.ok(&["compare", a, b, "--print", "time"]).trim(), "1502500000");
    let short: f64 = lab.ok(&["compare", a, b, "--print", "time%"]).trim().parse().unwrap();
    assert!((short - change).abs() < 1e-9, "{short}");
    let (_, err) = lab.run(&["compare", a, b, "--print", "tiem"], 2);
    assert!(err.contains("'tiem'") && err.contains("did you mean 'hackbench.time'?"), "{err}");
    lab.run(&["compare", a, b, "--junit", "no/such/folder.xml"], 2);
}

#[test]
fn a_table_says_which_of_its_rows_are_left_out() {
    let lab = Lab::new();
    let rows = "  10.0 =C2=B1  2%   -5.6%   20.0   work.rate\n  1.00   -1.0%   nan   work.lost\n";
    let rule = "---------------- ---------------------------";
    lab.write("mail", &format!("commit:\n  aaaa\n  bbbb\n\n{rule}\n  %stddev  %change  %stddev\n{rows}"));
    let shown = lab.json(&["compare", "mail", "--json"]);
    assert!(shown["warnings"].to_string().contains("line 8 looks like a row"), "{}", shown["warnings"]);
    assert!(shown["comparisons"].to_string().contains("work.rate"), "{}", shown["comparisons"]);
}

#[test]
fn loads_of_another_workload_have_no_rows_and_no_notes() {
    let lab = Lab::new();
    let two = common::SMALL
        .replace("metrics = [\"schbench.latency.p50\", \"work\", \"migrations\"]\n", "")
        .replace("[workload]", "[[workload]]\nname = \"hackbench\"\nloops = 20\n[[workload]]")
        .replace("[[load]]\n", "[[load]]\nworkload = \"schbench\"\n")
        .replacen(
            "[[variant]]",
            "[[load]]\nname = \"h1\"\nworkload = \"hackbench\"\ngroups = 1\n[[variant]]",
            1,
        )
        .replace("name = \"first-idle\"", "name = \"=<b>|\"");
    lab.write("two.toml", &two);
    let run = |form: &str| lab.ok(&["run", "two.toml", "--quiet", "--format", form]);
    // Two loads with three metrics and one with one, under two variants each.
    assert_eq!(run("csv").lines().count(), 1 + 2 * (2 * 3 + 1));
    assert_eq!(run("markdown").lines().filter(|l| l.starts_with("| smp-4")).count(), 2 * (2 * 3 + 1));
    assert!(!run("table").contains("does not give it"), "{}", run("table"));
    let c = lab.json(&["run", "two.toml", "--quiet", "--json"]);
    for cell in c["cells"].as_array().unwrap() {
        let own = cell["workload"].as_str().unwrap();
        assert!(cell["metrics"].as_object().unwrap().keys().all(|m| m.starts_with(own)), "{cell}");
    }
    let lkml = run("lkml");
    assert!(
        lkml.contains("hackbench elapsed.mean\th1") && lkml.contains("schbench latency.p50\t1x2"),
        "{lkml}"
    );
    let (csv, markdown) = (run("csv"), run("markdown"));
    assert!(csv.contains(",'=<b>|,") && !csv.contains(",=<b>"), "{csv}");
    assert!(markdown.contains("=&lt;b&gt;\\|") && !markdown.contains("<b>"), "{markdown}");
    // The table is for spreadsheets: its means are not runs, and are not compared again.
    lab.write("two.csv", &csv);
    let (_, err) = lab.run(&["compare", "two.csv", "--json"], 2);
    assert!(err.contains("not the output of a tool that is known"), "{err}");
}
