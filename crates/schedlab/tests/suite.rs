//! `schedlab suite`: one command from a change to its losses, and its errors for bad input.

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
    let (_, err) = lab.run(&["run", "kept.toml", "--load", "storm", "--load", "rooms"], 0);
    assert!(err.contains("0 runs made, 24 found"), "{err}");
}

#[test]
fn a_baseline_and_several_variants_may_be_named() {
    let lab = Lab::new();
    let words = [
        "suite",
        "mine=v6.5:nr_migrate=4",
        "v6.12",
        "--baseline",
        "v6.5",
        "--quick",
        "--load",
        "storm",
        "--machine",
        "smp-2",
        "--json",
    ];
    let json = lab.json(&words);
    let rows = json["comparisons"].as_array().unwrap();
    assert_eq!(rows.len(), 10);
    assert!(
        rows.iter().all(|r| r["baseline"] == "v6.5" && (r["variant"] == "mine" || r["variant"] == "v6.12"))
    );
}

#[test]
fn bad_input_is_one_error_with_thing_and_remedy() {
    let lab = Lab::new();
    let error = |words: &[&str]| {
        let (out, err) = lab.run(words, 2);
        assert!(out.is_empty() && err.matches("error: ").count() == 1, "{out}{err}");
        err
    };
    let e = error(&["suite", "v6.5"]);
    assert!(e.contains("'v6.5' is its own baseline") && e.contains("--baseline"), "{e}");
    assert!(error(&["suite", "v6.5+SIS_FRST_IDLE"]).contains("'SIS_FIRST_IDLE'"));
    let e = error(&["suite", "v6.5+NO_WA_IDLE", "--baseline", "v9"]);
    assert!(e.contains("--baseline") && e.contains("v9"), "{e}");
    let e = error(&["suite", "v6.5+NO_WA_IDLE", "--machine", "smp-x"]);
    assert!(e.contains("--machine") && e.contains("smp-x"), "{e}");
    assert!(error(&["suite", "v6.5+NO_WA_IDLE", "--load", "strom"]).contains("'storm'"));
    assert!(
        error(&["suite", "a=v6.5+NO_WA_IDLE", "a=v6.5+NO_WA_BIAS"])
            .contains("two variants have the name 'a'")
    );
}

#[test]
fn a_verdict_that_is_named_fails_the_command_with_its_rows() {
    let lab = Lab::new();
    // Ten outputs of each, as hackbench prints them: exactly twice as long.
    for i in 0..10 {
        lab.write(&format!("a{i}"), &format!("Time: 1.{i}00\n"));
        lab.write(&format!("b{i}"), &format!("Time: 2.{}00\n", (i + 3) % 10));
    }
    let side = |name: &str, of: &str| {
        format!("{name}={}", (0..10).map(|i| format!("{of}{i}")).collect::<Vec<_>>().join(","))
    };
    let (base, slow, same) = (side("old", "a"), side("new", "b"), side("again", "a"));
    let compare = |other: &str, fail_on: &str, code: i32| {
        lab.run(&["compare", &base, other, "--from", "hackbench", "--fail-on", fail_on], code)
    };
    let (out, err) = compare(&slow, "worse", 1);
    assert!(out.contains("new") && err.contains("--fail-on worse: 1 of 1 row\n"), "{out}{err}");
    assert!(err.contains("worse: hackbench") && err.contains("new against old: hackbench.time +"), "{err}");
    compare(&slow, "better,unclear", 0);
    compare(&slow, "unclear,worse", 1);
    compare(&same, "worse", 0);
    // The forms for CI fail by the same verdicts.
    for (fail_on, code, failures) in [("worse", 1, 1), ("better,unclear", 0, 0)] {
        let words =
            ["compare", &base, &slow, "--from", "hackbench", "--junit", "out.xml", "--fail-on", fail_on];
        lab.run(&words, code);
        let xml = std::fs::read_to_string(lab.path().join("out.xml")).unwrap();
        assert!(xml.contains(&format!("tests=\"1\" failures=\"{failures}\"")), "{fail_on}: {xml}");
    }
    let (_, err) = lab.run(&["compare", &base, &slow, "--fail-on", "lost"], 2);
    assert!(err.contains("verdict") && err.contains("worse"), "{err}");
    // Commands that run experiments accept it, too. A single variant gives no verdict, which is not a success.
    let (_, err) = lab.run(&["run", "small.toml", "--variant", "v4.5", "--fail-on", "worse"], 1);
    assert!(err.contains("there is not one row to judge"), "{err}");
    lab.run(&["run", "small.toml", "--fail-on", "unclear,same,worse,better,changed", "-q"], 1);
    for command in ["suite", "study", "try"] {
        assert!(lab.ok(&[command, "--help"]).contains("--fail-on"), "{command}");
    }
}

#[test]
fn a_figure_or_a_variant_that_is_missing_is_unclear() {
    let lab = Lab::new();
    lab.ok(&["run", "small.toml", "-q", "--runs", "6"]);
    lab.ok(&["runs", "rm", "--load", "1x6", "--variant", "v4.5", "--yes"]);
    // Rows that can be decided do not hide the load without its baseline.
    let words =
        ["compare", "runs", "--metric", "work", "--min-effect", "50", "--junit", "out.xml", "--fail-on"];
    let judge = |verdicts: &str, code: i32| lab.run(&[&words[..], &[verdicts]].concat(), code).1;
    judge("worse", 0);
    let err = judge("unclear", 1);
    assert!(err.contains("--fail-on unclear: 1 of 2 rows"), "{err}");
    assert!(
        err.contains("unclear: schbench 1x6 on smp-4, v4.5: the baseline has no run of this load"),
        "{err}"
    );
    let xml = std::fs::read_to_string(lab.path().join("out.xml")).unwrap();
    assert!(xml.contains("tests=\"2\" failures=\"1\"") && xml.contains("<failure type=\"unclear\""), "{xml}");
    // The load that is not judged is left out of the total.
    let err = judge("same", 1);
    assert!(err.contains("--fail-on same: 1 of 1 row\n"), "{err}");
    // No run has enough samples for this percentile, so it is not measured and not compared.
    let far = "schbench.latency.p99.99";
    let words = ["compare", "runs", "--load", "1x2", "--min-effect", "50", "--metric", far];
    lab.run(&[&words[..], &["--metric", "work", "--fail-on", "unclear"]].concat(), 0);
    // As the only metric it leaves nothing to judge, and the message names it.
    let (_, err) = lab.run(&[&words[..], &["--fail-on", "worse"]].concat(), 1);
    let missing = "\n    schbench 1x2 on smp-4, first-idle: schbench.latency.p99.99: not measured: ";
    assert!(err.contains(missing) && !err.contains("needs two variants"), "{err}");
    // A single variant leaves nothing either, also where a file for CI would have no test.
    let words = ["compare", "runs", "--load", "1x6", "--metric", "work", "--junit", "one.xml"];
    let (out, err) = lab.run(&words, 1);
    assert!(err.contains("--junit: there is not one row to judge") && err.contains("two variants"), "{err}");
    assert!(out.contains("1x6"), "the result is printed, too: {out}");
}

#[test]
fn a_budgets_runs_get_a_warning_when_compared_at_one_look() {
    let lab = Lab::new();
    let budget = ["run", "small.toml", "-q", "--runs", "2", "--budget", "24", "--load", "1x6"];
    assert!(!lab.ok(&budget).contains("looked at the rows"), "it judges them by looks itself");
    let told = |lab: &Lab| lab.json(&["compare", "runs", "--json"])["warnings"].to_string();
    let warnings = told(&lab);
    assert!(
        warnings.contains("compare.looks") && warnings.contains("after 2, 4, 8, 16 runs of a cell"),
        "{warnings}"
    );
    let again = lab.ok(&["runs", "show", "--variant", "v4.5"]);
    assert!(again.contains("schedlab run ") && again.contains("--runs "), "{again}");
    // `run` without a budget finds these runs and also judges them at one look.
    let more = ["run", "small.toml", "-q", "--runs", "18", "--load", "1x6", "--json"];
    assert!(lab.json(&more)["warnings"].to_string().contains("compare.looks"));
    // The copy next to a run is an experiment without a budget's runs.
    let stored = common::files(&lab.path().join("runs"));
    let texts = stored.iter().filter(|(name, _)| name.ends_with("experiment.toml"));
    let copy = texts.map(|(_, text)| String::from_utf8_lossy(text)).find(|text| text.contains("--budget"));
    lab.write("copy.toml", &copy.unwrap());
    lab.ok(&["run", "copy.toml", "-q", "--runs", "2", "--load", "1x2", "--out", "afresh"]);
    let afresh = lab.json(&["compare", "afresh", "--json"])["warnings"].to_string();
    assert!(!afresh.contains("compare.looks"), "{afresh}");
    // Runs of the first look are made whatever they show: they are ordinary runs.
    let first = Lab::new();
    first.ok(&["run", "small.toml", "-q", "--runs", "2", "--budget", "0", "--load", "1x2"]);
    assert!(!told(&first).contains("compare.looks"));
    // Runs of a budget between others are found.
    let mixed = Lab::new();
    for seed in ["1", "5"] {
        mixed.ok(&["run", "small.toml", "-q", "--runs", "2", "--seed", seed, "--load", "1x6"]);
    }
    let between = ["run", "small.toml", "-q", "--runs", "1", "--seed", "3", "--budget", "2", "--load", "1x6"];
    mixed.ok(&between);
    assert!(told(&mixed).contains("compare.looks"));
    // Filters choose among stored runs: a saved output among them would pass each.
    mixed.write("saved.txt", "Time: 1.000\n");
    let (_, err) = mixed.run(&["compare", "runs", "saved.txt", "--load", "1x6"], 2);
    assert!(err.contains("choose among stored runs, and saved.txt is a saved output"), "{err}");
    let plain = Lab::new();
    plain.ok(&["run", "small.toml", "-q", "--runs", "2"]);
    assert!(!told(&plain).contains("compare.looks"));
}

#[test]
fn a_long_table_that_can_show_nothing_is_short_and_names_the_needed_runs_first() {
    let lab = Lab::new();
    let kernels = ["v2.6.30", "v3.4", "v5.4", "v5.10", "v5.15", "v6.1", "v6.5", "v6.6", "v6.12", "v6.18"];
    let variants: String = kernels.iter().map(|k| format!("[[variant]]\nkernel = \"{k}\"\n")).collect();
    lab.write("many.toml", &format!("{}{variants}", common::SMALL));
    let words = ["run", "many.toml", "-q", "--runs", "2"];
    let short = lab.ok(&words);
    let first = short.split_whitespace().collect::<Vec<_>>().join(" ");
    let said =
        "No row can show a change with 2 runs of a cell, however large it is: that takes 6 runs or more";
    assert!(first.starts_with(said), "{short}");
    assert!(short.lines().count() < 20 && short.contains("--all-rows shows every row"), "{short}");
    assert!(short.contains("schbench 1x2 on smp-4: ") && short.contains(" cannot tell"), "{short}");
    let all = lab.ok(&[&words[..], &["--all-rows"]].concat());
    assert!(
        all.split_whitespace().collect::<Vec<_>>().join(" ").starts_with(said) && all.lines().count() > 40
    );
    let metrics = ["--metric", "schbench.latency.p50", "--metric", "work", "--metric", "migrations"];
    let compare = ["compare", "runs"].into_iter().chain(metrics).collect::<Vec<_>>();
    assert!(lab.ok(&[&compare[..], &["--all"]].concat()).contains("latency.p50"));
    let short = lab.ok(&compare);
    assert!(short.contains("--all-rows shows every row") && !short.contains("latency.p50"), "{short}");
    // A single run can't show anything either; six can.
    let one = lab.ok(&["run", "many.toml", "-q", "--runs", "1", "--out", "one"]);
    assert!(one.starts_with("No row can show a change with 1 run of a cell"), "{one}");
    let six = lab.ok(&["run", "many.toml", "-q", "--runs", "6", "--load", "1x2"]);
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
    let (_, err) = lab.run(&["run", "small.toml", "--budget", "soon"], 2);
    assert!(err.contains("write a time (10m, 90s) or a number of runs"), "{err}");
    let (_, err) = lab.run(&["suite", "v6.5:hz=1000", "--load", "nanoslep"], 2);
    assert!(err.contains("nanosleep"), "{err}");
}

#[test]
fn a_suite_of_which_the_backend_runs_one_variant_is_refused_before_any_run() {
    let lab = Lab::new();
    for (words, wanted) in [
        (&["suite", "v6.5+patch=nosuch"][..], "--backend sim can't run v6.5:patch=nosuch"),
        (&["suite", "running", "--baseline", "v6.5"], "--backend sim can't run running"),
        (&["suite", "v6.5+SIS_FIRST_IDLE", "--backend", "host"], "--backend host can't run v6.5, v6.5:"),
    ] {
        let (out, err) = lab.run(words, 2);
        assert!(out.is_empty() && err.contains(wanted) && err.contains("nothing is left"), "{err}");
        assert!(!lab.path().join("runs").exists(), "{words:?}: a run was made");
    }
}
