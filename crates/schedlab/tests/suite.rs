//! `schedlab suite`: one command from a change to what it loses, and what it says to bad input.

use crate::common;
use crate::common::Lab;

#[test]
fn losses_come_first_and_every_row_is_ranked_or_counted() {
    let lab = Lab::new();
    let words = [
        "suite",
        "v6.5+SIS_FIRST_IDLE",
        "--quick",
        "--machine",
        "smp-4",
        "--load",
        "storm",
        "--load",
        "rooms",
    ];
    let (out, err) = lab.run(&words, 0);
    assert!(
        out.starts_with("v6.5:SIS_FIRST_IDLE against v6.5 on smp-4, 6 runs each\n\nLosses: "),
        "{out}{err}"
    );
    assert!(out.contains("Unchanged: ") && out.contains(" of 9 rows"), "{out}");
    let at = |word: &str| out.find(word).unwrap_or(usize::MAX);
    assert!(at("Losses") < at("Gains") || at("Gains") == usize::MAX);
    // The same runs in the forms of `run`, from the experiment that is kept with them.
    let mut again = words.to_vec();
    again.extend(["--format", "lkml"]);
    let (lkml, err) = lab.run(&again, 0);
    assert!(lkml.contains("baseline(std%)") && err.contains("0 runs made, 24 found"), "{lkml}{err}");
    let files = common::files(&lab.path().join("runs"));
    let (_, kept) = files.iter().find(|(name, _)| name.ends_with("experiment.toml")).unwrap();
    lab.write("kept.toml", &String::from_utf8_lossy(kept));
    lab.says("run kept.toml --load storm --load rooms", 0, &["0 runs made, 24 found"]);
}

#[test]
fn a_budgets_runs_get_a_warning_when_compared_at_one_look() {
    let lab = Lab::new();
    let budget = ["run", "small.toml", "-q", "--runs", "2", "--budget", "24", "--load", "1x6"];
    assert!(!lab.ok(&budget).contains("looked at the rows"), "it judges them by looks itself");
    let told = |lab: &Lab| lab.json("compare runs --json")["warnings"].to_string();
    let warnings = told(&lab);
    assert!(
        warnings.contains("compare.looks") && warnings.contains("after 2, 4, 8, 16 runs of a cell"),
        "{warnings}"
    );
    let again = lab.ok("runs show --variant v4.5");
    assert!(again.contains("schedlab run ") && again.contains("--runs "), "{again}");
    // `run` without a budget finds these runs and judges them at one look, too.
    let more = "run small.toml -q --runs 18 --load 1x6 --json";
    assert!(lab.json(more)["warnings"].to_string().contains("compare.looks"));
    // The copy beside a run is an experiment, whose runs a budget did not make.
    let stored = common::files(&lab.path().join("runs"));
    let texts = stored.iter().filter(|(name, _)| name.ends_with("experiment.toml"));
    let copy = texts.map(|(_, text)| String::from_utf8_lossy(text)).find(|text| text.contains("--budget"));
    lab.write("copy.toml", &copy.unwrap());
    lab.ok("run copy.toml -q --runs 2 --load 1x2 --out afresh");
    let afresh = lab.json("compare afresh --json")["warnings"].to_string();
    assert!(!afresh.contains("compare.looks"), "{afresh}");
    // Those of the first look are made whatever they show: they are runs as any others.
    let first = Lab::new();
    first.ok("run small.toml -q --runs 2 --budget 0 --load 1x2");
    assert!(!told(&first).contains("compare.looks"));
    // Runs of a budget between others are found.
    let mixed = Lab::new();
    for seed in ["1", "5"] {
        mixed.ok(&["run", "small.toml", "-q", "--runs", "2", "--seed", seed, "--load", "1x6"]);
    }
    let between = "run small.toml -q --runs 1 --seed 3 --budget 2 --load 1x6";
    mixed.ok(between);
    assert!(told(&mixed).contains("compare.looks"));
    // Filters choose among stored runs: a saved output beside them would pass each.
    mixed.write("saved.txt", "Time: 1.000\n");
    mixed.says(
        "compare runs saved.txt --load 1x6",
        2,
        &["choose among stored runs, and saved.txt is a saved output"],
    );
    let plain = Lab::new();
    plain.ok("run small.toml -q --runs 2");
    assert!(!told(&plain).contains("compare.looks"));
}

#[test]
fn a_long_table_that_can_show_nothing_is_short_and_names_the_needed_runs_first() {
    let lab = Lab::new();
    let kernels = ["v2.6.30", "v3.4", "v5.4", "v5.10", "v5.15", "v6.1", "v6.5", "v6.6", "v6.12", "v6.18"];
    let variants: String = kernels.iter().map(|k| format!("[[variant]]\nkernel = \"{k}\"\n")).collect();
    lab.write("many.toml", &format!("{}{variants}", common::SMALL));
    let words = "run many.toml -q --runs 2";
    let short = lab.ok(words);
    let first = short.split_whitespace().collect::<Vec<_>>().join(" ");
    let said =
        "No row can show a change with 2 runs of a cell, however large it is: that takes 6 runs or more";
    assert!(first.starts_with(said), "{short}");
    assert!(short.lines().count() < 20 && short.contains("--all-rows shows every row"), "{short}");
    assert!(short.contains("schbench 1x2 on smp-4: ") && short.contains(" cannot tell"), "{short}");
    let all = lab.ok(&format!("{words} --all-rows"));
    assert!(
        all.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(said) && all.lines().count() > 40
    );
    let metrics = ["--metric", "schbench.latency.p50", "--metric", "work", "--metric", "migrations"];
    let compare = ["compare", "runs"].into_iter().chain(metrics).collect::<Vec<_>>();
    assert!(lab.ok(&[&compare[..], &["--all"]].concat()).contains("latency.p50"));
    let short = lab.ok(&compare);
    assert!(short.contains("--all-rows shows every row") && !short.contains("latency.p50"), "{short}");
    // A single run can tell nothing, either, and six can.
    let one = lab.ok("run many.toml -q --runs 1 --out one");
    assert!(one.starts_with("No row can show a change with 1 run of a cell"), "{one}");
    let six = lab.ok("run many.toml -q --runs 6 --load 1x2");
    assert!(!six.contains("No row can show"), "{six}");
}

#[test]
fn more_runs_come_until_rows_are_decided_and_a_workloads_name_is_a_load() {
    let lab = Lab::new();
    let words = ["suite", "v6.5:hz=1000", "--machine", "smp-4", "--quick", "--load", "nanosleep", "--json"];
    let rows = |json: &serde_json::Value| json["comparisons"].as_array().unwrap().clone();
    let once = lab.json(&words);
    assert!(rows(&once).iter().all(|r| r["workload"] == "nanosleep" && r["look"].is_null()), "{once}");
    let mut more = words.to_vec();
    more.extend(["--budget", "200"]);
    let looked = lab.json(&more);
    let alpha: f64 = looked["looks"].as_array().unwrap().iter().map(|l| l["alpha"].as_f64().unwrap()).sum();
    assert!((alpha - 0.05).abs() < 1e-9, "{looked}");
    let runs = looked["cells"][0]["runs"].as_u64().unwrap();
    let undecided = rows(&looked).iter().any(|r| r["verdict"] == "unclear");
    assert!([6, 12, 24, 48].contains(&runs) && (!undecided || runs == 48), "{looked}");
}
