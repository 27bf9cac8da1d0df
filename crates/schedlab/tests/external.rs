//! Commands as workloads, through the binary.

use crate::common;
use crate::common::Lab;
use std::process::Command;
use std::time::{Duration, Instant};

#[test]
fn a_command_that_does_not_end_is_killed() {
    let lab = Lab::new();
    let began = Instant::now();
    lab.says("bench --command 'sleep 60' --timeout 300ms", 2, &["'sleep 60' did not end within 300ms"]);
    assert!(began.elapsed() < Duration::from_secs(20));
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
fn output_of_schedlab_is_read_back() {
    let lab = Lab::new();
    let first = lab.json("run small.toml --json --quiet");
    lab.write("all.json", &first.to_string());
    let again = lab.json("compare all.json --baseline v4.5 --json");
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
        let words = format!("bench --backend sim --machine smp-2 --json --seed {seed} pipe --loops 200");
        lab.write(&format!("run{seed}.json"), &lab.ok(&words));
    }
    let runs = lab.json("compare a=run1.json b=run2.json --json");
    let names: Vec<&str> =
        runs["cells"].as_array().unwrap().iter().filter_map(|c| c["variant"].as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    assert!(runs["metrics"].to_string().contains("pipe.round_trip.mean"), "{}", runs["metrics"]);
    lab.write("copy.json", &first.to_string());
    let twice = lab.json("compare all.json copy.json --json --metric work");
    let names: Vec<&str> =
        twice["cells"].as_array().unwrap().iter().filter_map(|c| c["variant"].as_str()).collect();
    assert!(names.contains(&"all v4.5") && names.contains(&"copy v4.5"), "none is dropped: {names:?}");
}

#[test]
fn a_few_of_many_metrics_are_printed_and_all_on_demand() {
    let lab = Lab::new();
    let bench = "bench --backend sim --machine smp-2 --json pipe --loops 200";
    lab.write("run.json", &lab.ok(bench));
    let some = lab.json("compare run.json --json");
    let all = lab.json("compare run.json --json --all");
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
    let xml = lab.text("out.xml");
    for part in [
        "<testsuites name=\"schedlab\" tests=\"1\" failures=\"1\" errors=\"0\">",
        "<testcase classname=\"hackbench default on unknown machine, measured (file)\" name=\"hackbench.time: v2 against v1&lt;&amp;&gt;\">",
        "<failure type=\"worse\"",
    ] {
        assert!(xml.contains(part), "{part}\n{xml}");
    }
    let same = lab.run(&["compare", a, &a.replace("v1", "v3"), "--junit", "out.xml"], 0);
    let xml = lab.text("out.xml");
    assert!(xml.contains("failures=\"0\"") && !xml.contains("<failure"), "{xml}{}", same.1);
    assert_eq!(lab.ok(&["compare", a, b, "--print", "hackbench.time"]).trim(), "1502500000");
    let change: f64 = lab.ok(&["compare", a, b, "--print", "hackbench.time%"]).trim().parse().unwrap();
    assert!((49.0..51.0).contains(&change), "{change}");
    lab.says(&["compare", a, b, "w=a0,b0", "--print", "hackbench.time"], 2, &["2 numbers", "--variant"]);
    let one = "bench --backend sim --machine smp-2 pipe --loops 200";
    let number = lab.ok(&format!("{one} --print pipe.round_trip.mean"));
    assert!(number.trim().parse::<f64>().is_ok_and(|n| n > 0.0) && number.lines().count() == 1, "{number}");
    assert_eq!(lab.ok(&format!("{one} --print round_trip.mean")), number, "as tables have it");
    lab.run(&format!("{one} --print pipe.no.mean"), 2);
    assert_eq!(lab.ok(&["compare", a, b, "--print", "time"]).trim(), "1502500000");
    let short: f64 = lab.ok(&["compare", a, b, "--print", "time%"]).trim().parse().unwrap();
    assert!((short - change).abs() < 1e-9, "{short}");
    lab.says(&["compare", a, b, "--print", "tiem"], 2, &["'tiem'", "did you mean 'hackbench.time'?"]);
    lab.run(&["compare", a, b, "--junit", "no/such/folder.xml"], 2);
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
    let c = lab.json("run two.toml --quiet --json");
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
    lab.says("compare two.csv --json", 2, &["not the output of a tool that is known"]);
}
