//! Parts of an experiment: `--load`, `--machine`, `--variant` and `--metric` of `run` and `study`.

use crate::common;
use crate::common::Lab;

/// Two workloads with metrics of their own, and a load whose name is on two machines.
const MIXED: &str = r#"
name = "mixed"
runs = 2
metrics = ["hackbench.elapsed.mean", "pipe.elapsed.mean"]
[[workload]]
name = "hackbench"
loops = 2
fds = 2
[[workload]]
name = "pipe"
loops = 50
[[load]]
workload = "hackbench"
name = "small"
machine = "smp-2"
groups = 1
[[load]]
workload = "pipe"
name = "small"
machine = "smp-2"
[[load]]
workload = "pipe"
name = "small"
machine = "smp-4"
[[load]]
workload = "pipe"
name = "one"
machine = "smp-4"
variants = ["v4.5"]
metrics = ["pipe.round_trip.mean"]
[[load]]
workload = "hackbench"
name = "many"
machine = "smp-2"
groups = { sweep = [1, 2] }
variants = ["v4.5"]
[[variant]]
kernel = "v4.5"
[[variant]]
kernel = "v6.5"
"#;

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("mixed.toml", MIXED);
    lab
}

/// Every cell as "machine load variant: metrics".
fn cells(lab: &Lab, words: &[&str]) -> Vec<String> {
    let all = [&["run", "mixed.toml", "--json", "-q"], words].concat();
    let json = lab.json(&all);
    let word = |c: &serde_json::Value, key: &str| c[key].as_str().unwrap().to_owned();
    let cell = |c: &serde_json::Value| {
        let metrics: Vec<&String> = c["metrics"].as_object().unwrap().keys().collect();
        let names = ["machine", "workload", "load", "variant"].map(|key| word(c, key));
        format!("{}: {}", names.join(" "), metrics.iter().map(|m| m.as_str()).collect::<Vec<_>>().join(" "))
    };
    json["cells"].as_array().unwrap().iter().map(cell).collect()
}

#[test]
fn metrics_of_loads_that_are_left_out_are_not_asked_of_the_rest() {
    let lab = lab();
    assert_eq!(
        cells(&lab, &["--load", "one"]),
        ["smp-4 pipe one v4.5: pipe.round_trip.mean"],
        "hackbench is not run, and nobody asks for its time"
    );
    // The only load of hackbench that runs under v6.5 is on smp-2, so hackbench's metrics are left out, too.
    let left = cells(&lab, &["--variant", "v6.5", "--machine", "smp-4"]);
    assert_eq!(left, ["smp-4 pipe small v6.5: pipe.elapsed.mean"]);
}

#[test]
fn loads_of_one_name_are_told_apart_by_their_machine() {
    let lab = lab();
    let both = ["smp-2 hackbench small v4.5", "smp-2 pipe small v4.5", "smp-4 pipe small v4.5"];
    let names = |words: &[&str]| -> Vec<String> {
        let all = cells(&lab, &[words, &["--variant", "v4.5"]].concat());
        all.iter().map(|c| c.split(':').next().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&["--load", "small"]), both);
    assert_eq!(names(&["--load", "small@smp-4"]), both[2..]);
    assert_eq!(names(&["--load", "small", "--machine", "smp-4"]), both[2..]);
    assert_eq!(names(&["--load", "small@smp-4", "--load", "one"]).len(), 2);
    let swept = ["smp-2 hackbench many,groups=1 v4.5", "smp-2 hackbench many,groups=2 v4.5"];
    assert_eq!(names(&["--load", "many@smp-2"]), swept);
    assert_eq!(names(&["--load", "many,groups=2@smp-2"]), swept[1..]);
}

#[test]
fn a_metric_need_not_be_the_experiments() {
    let lab = lab();
    let own = cells(&lab, &["--load", "one", "--metric", "migrations", "--metric", "slice.p50"]);
    assert_eq!(own, ["smp-4 pipe one v4.5: migrations slice.p50"], "over the load's own metrics, too");
    let left = cells(&lab, &["--metric", "hackbench.elapsed.mean", "--metric", "work"]);
    assert_eq!(left.iter().filter(|c| c.contains("pipe small") && c.ends_with(": work")).count(), 4);
    let only = cells(&lab, &["--metric", "hackbench.elapsed.mean"]);
    assert!(only.len() == 4 && only.iter().all(|c| c.contains("hackbench")), "{only:?}");
}

#[test]
fn what_is_not_there_is_named_in_few_words() {
    let lab = lab();
    for (words, parts) in [
        (&["--load", "smal"][..], &["unknown load 'smal'", "'small'"][..]),
        (&["--load", "bananas"], &["unknown load 'bananas'", "known: small, one, many, hackbench, pipe\n"]),
        (&["--load", "one@smp-2"], &["load 'one' does not run on smp-2", "it runs on smp-4\n"]),
        (&["--load", "small@smp-8"], &["unknown machine of this experiment 'smp-8'", "'smp-2'"]),
        (&["--load", "sm@smp-2"], &["unknown load 'sm'", "known: small, one, many, hackbench, pipe\n"]),
        (&["--machine", "spr-2x56"], &["unknown machine of this experiment", "known: smp-2, smp-4\n"]),
        (&["--machine", "smp-2", "--load", "one"], &["no load 'one' runs on smp-2", "it runs on smp-4\n"]),
        (&["--metric", "hackbench.elapst.mean"], &["unknown series", "'hackbench.elapsed'"]),
        (&["--metric", "migratoins"], &["unknown metric 'migratoins'", "'migrations'"]),
        (
            &["--metric", "pipe.elapsed.mean", "--load", "many"],
            &["no load that is left gives pipe.elapsed.mean", "other loads do: small, one\n"],
        ),
        (&["--machine", "smp-2", "--backend", "host"], &["--machine smp-2", "--backend sim"]),
    ] {
        let (_, err) = lab.run(&[&["run", "mixed.toml"], words].concat(), 2);
        parts.iter().for_each(|part| assert!(err.contains(part), "{words:?} does not say {part}:\n{err}"));
        assert!(err.lines().count() == 2, "{err}");
    }
    // A metric that no load of the experiment can give is an error of the file, filtered or not.
    lab.write("strange.toml", &MIXED.replace("pipe.elapsed", "rr.elapsed"));
    let (_, err) = lab.run(&["run", "strange.toml", "--load", "one"], 2);
    assert!(err.contains("strange.toml:4:38: ") && err.contains("unknown series 'rr.elapsed'"), "{err}");
}

/// A store with two versions, made without the order of an experiment in mind.
fn versions() -> Lab {
    let lab = Lab::new();
    lab.write(
        "small.toml",
        &common::SMALL.replace("kernel = \"v4.5\"\n[[", "kernel = \"v6.12\"\n[[").replace("4.5", "6.5"),
    );
    lab.ok(&["run", "small.toml", "-q"]);
    lab
}

/// The digits of a cell of the store.
fn digits(lab: &Lab, load: &str, variant: &str) -> String {
    let json = lab.json(&["runs", "--load", load, "--variant", variant, "--json"]);
    let folder = json["cells"][0]["folder"].as_str().unwrap().to_owned();
    folder.rsplit('/').next().unwrap()[..8].to_owned()
}

fn baselines(lab: &Lab, words: &[&str]) -> (String, String) {
    let json = lab.json(&[&["compare"], words, &["--json"]].concat());
    let rows = json["comparisons"].as_array().unwrap();
    let first = rows[0]["baseline"].as_str().unwrap().to_owned();
    assert!(rows.iter().all(|r| r["baseline"] == first.as_str()), "{json}");
    (first, json["baseline_is"].as_str().unwrap().to_owned())
}

#[test]
fn the_baseline_is_the_experiments_then_the_first_one_given_then_the_oldest_kernel() {
    let lab = versions();
    let of = |words: &[&str]| baselines(&lab, words);
    let is = |name: &str, why: &str| (name.to_owned(), why.to_owned());
    assert_eq!(of(&["runs"]), is("v6.12", "of_experiment"));
    assert_eq!(of(&["small.toml"]), is("v6.12", "of_experiment"));
    assert_eq!(of(&["runs", "--baseline", "first-idle"]), is("first-idle", "asked"));
    // A saved comparison keeps its baseline, though another variant is the first of its cells.
    let saved = lab.ok(&["compare", "runs", "--baseline", "first-idle", "--json"]);
    lab.write("saved.json", &saved);
    assert_eq!(of(&["saved.json"]).0, "first-idle");
    let text = lab.ok(&["compare", "runs"]);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("against v6.12, the experiment's baseline"), "{text}");
    lab.ok(&["report", "runs", "-q", "--no-strips"]);
    let page = std::fs::read_to_string(lab.path().join("report.html")).unwrap();
    assert!(
        page.contains("Changes are against v6.12, the experiment&#39;s baseline")
            || page.contains("Changes are against v6.12, the experiment's baseline")
    );
    // Without the experiment beside the runs.
    for (name, _) in common::files(&lab.path().join("runs")) {
        if name.ends_with("experiment.toml") {
            std::fs::remove_file(lab.path().join("runs").join(name)).unwrap();
        }
    }
    let (old, new) = (digits(&lab, "1x2", "first-idle"), digits(&lab, "1x2", "v6.12"));
    assert_eq!(of(&[&old, &new]), is("first-idle", "first"));
    assert_eq!(of(&[&new, &old]), is("v6.12", "first"));
    lab.ok(&[
        "bench",
        "pipe",
        "--machine",
        "smp-2",
        "--kernel",
        "v6.12",
        "--loops",
        "20",
        "-q",
        "--out",
        "pipes",
    ]);
    lab.ok(&[
        "bench",
        "pipe",
        "--machine",
        "smp-2",
        "--kernel",
        "v6.5",
        "--loops",
        "20",
        "-q",
        "--out",
        "pipes",
    ]);
    assert_eq!(of(&["pipes"]), is("v6.5", "first_by_name"), "6.5 is older than 6.12");
}

#[test]
fn a_switch_beside_another_release_says_what_else_differs_and_heads_name_the_release() {
    let lab = versions();
    let text = lab.ok(&["compare", "runs"]).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("v6.12 (6.12.117)"), "{text}");
    assert!(text.contains("first-idle is of kernel v6.5 and v6.12 of v6.12 (6.12.117)"), "{text}");
    assert!(text.contains("mechanisms ('schedlab kernel history v6.5') and features"), "{text}");
}

#[test]
fn every_command_takes_a_run_by_the_same_names() {
    let lab = versions();
    let cell = digits(&lab, "1x2", "v6.12");
    let run = format!("{cell}/2");
    let words = "schbench 1x2 v6.12 on smp-4, seed 2";
    let folder = format!(
        "runs/{}",
        std::fs::read_dir(lab.path().join("runs"))
            .unwrap()
            .flatten()
            .map(|e| e.file_name().to_string_lossy().into_owned())
            .find(|n| n.starts_with(&cell))
            .unwrap()
    );
    let in_folder = format!("{folder}/2");
    for command in ["latency", "timehist", "schedstat", "explain", "compare", "runs show"] {
        let of = |name: &str| lab.ok(&command.split(' ').chain([name]).collect::<Vec<_>>());
        let by_digits = of(&run);
        // Tables name the place of what was named.
        let plain =
            |text: String| text.lines().filter(|l| !l.contains("runs")).collect::<Vec<_>>().join("\n");
        assert_eq!(plain(of(words)), plain(by_digits.clone()), "{command}");
        assert_eq!(plain(of(&in_folder)), plain(by_digits), "{command}");
    }
    // A store with filters.
    for command in ["latency", "timehist", "schedstat", "explain", "compare", "report --no-strips"] {
        let all: Vec<&str> = command
            .split(' ')
            .chain(["runs", "--load", "1x2", "--variant", "v6.12", "--machine", "smp-4"])
            .collect();
        lab.ok(&[&all[..], &["--workload", "schbench"]].concat());
        let strange = [&all[..], &["--workload", "hackbench"]].concat();
        let (_, err) = lab.run(&strange, 2);
        assert!(err.contains("unknown workload 'hackbench'"), "{command}: {err}");
    }
    let table = lab.ok(&["latency", &run]);
    assert!(table.contains("message-0") && table.contains("worker-0-0"), "{table}");
    assert!(lab.run(&["compare", "nothing-of-this-name"], 2).1.contains("no such file, run, cell or study"));
    assert!(lab.run(&["latency", "ffff0000"], 2).1.contains("no cell 'ffff0000'"));
}

#[test]
fn a_seed_in_a_runs_name_and_another_one_contradict() {
    let lab = versions();
    let run = format!("{}/2", digits(&lab, "1x2", "v6.12"));
    for name in [run.as_str(), "schbench 1x2 v6.12 on smp-4, seed 2"] {
        for command in ["latency", "timehist", "schedstat", "explain"] {
            let (_, err) = lab.run(&[command, name, "--seed", "1"], 2);
            assert!(err.contains("is the run of seed 2, and --seed is 1"), "{command}: {err}");
            lab.ok(&[command, name, "--seed", "2"]);
        }
    }
}

#[test]
fn filters_choose_among_all_sources_and_leave_some_of_each() {
    let lab = Lab::new();
    lab.ok(&["run", "small.toml", "-q", "--out", "both/a", "--variant", "v4.5"]);
    lab.ok(&["run", "small.toml", "-q", "--out", "both/b", "--variant", "first-idle", "--load", "1x2"]);
    let loads = |words: &[&str]| {
        let json = lab.json(&[&["compare"], words, &["--json"]].concat());
        let cell = |c: &serde_json::Value| {
            format!("{} {}", c["load"].as_str().unwrap(), c["variant"].as_str().unwrap())
        };
        json["cells"].as_array().unwrap().iter().map(cell).collect::<Vec<_>>()
    };
    let both = ["1x2 v4.5", "1x2 first-idle"];
    assert_eq!(
        loads(&["both/a", "both/b", "--variant", "v4.5", "--variant", "first-idle", "--load", "1x2"]),
        both
    );
    for command in [&["compare"][..], &["report", "--no-strips"]] {
        let (_, err) = lab.run(&[command, &["both/a", "both/b", "--load", "1x6"]].concat(), 2);
        assert!(err.contains("no run of both/b passes --load 1x6"), "{err}");
    }
    let (_, err) = lab.run(&["compare", "both/a", "both/b", "--load", "1x7"], 2);
    assert!(err.contains("unknown load '1x7'"), "{err}");
    // A folder above several stores is searched as one source.
    assert_eq!(loads(&["both", "--load", "1x2"]), both);
    assert_eq!(loads(&["both", "--load", "1x6"]), ["1x6 v4.5"]);
    // A run in a folder of another name is in no store.
    std::fs::create_dir_all(lab.path().join("loose")).unwrap();
    let run = common::files(&lab.path().join("both"))
        .into_iter()
        .find(|(n, _)| n.ends_with("record.json"))
        .unwrap();
    std::fs::write(lab.path().join("loose/record.json"), run.1).unwrap();
    let (_, err) = lab.run(&["compare", "loose", "--load", "1x2"], 2);
    assert!(err.contains("loose has runs that lie in no store"), "{err}");
}

#[test]
fn names_are_taken_as_tables_and_progress_print_them() {
    let lab = lab();
    let count = |words: &[&str]| cells(&lab, words).len();
    assert_eq!(count(&["--workload", "pipe"]), 5);
    assert_eq!(count(&["--load", "pipe small"]), 4);
    assert_eq!(count(&["--load", "pipe small@smp-4", "--workload", "pipe"]), 2);
    let (_, err) = lab.run(&["run", "mixed.toml", "-q", "--workload", "schbench"], 2);
    assert!(err.contains("unknown workload of this experiment 'schbench'"), "{err}");
    let (_, err) = lab.run(&["run", "mixed.toml", "-q", "--workload", "pipe", "--load", "many"], 2);
    assert!(err.contains("no load 'many' is of pipe"), "{err}");
    // Tables leave out the program's name of a metric, and docs the statistic of a series of one value.
    let json = lab.json(&["run", "mixed.toml", "-q", "--json", "--metric", "round_trip.mean"]);
    assert_eq!(json["metrics"], serde_json::json!(["pipe.round_trip.mean"]));
    let json = lab.json(&["compare", "runs", "--json", "--metric", "round_trip.mean"]);
    assert_eq!(json["metrics"], serde_json::json!(["pipe.round_trip.mean"]));
    let value = |metric: &str| {
        let json =
            lab.json(&["run", "mixed.toml", "-q", "--json", "--metric", metric, "--load", "hackbench small"]);
        json["cells"][0]["metrics"][metric]["mean"].as_f64().unwrap()
    };
    assert_eq!(value("hackbench.elapsed"), value("hackbench.elapsed.mean"));
}
