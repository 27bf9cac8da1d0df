//! Parts of an experiment: `--load`, `--machine`, `--variant` and `--metric` of `run` and `study`.

use crate::common;
use crate::common::Lab;

/// A store with two versions, made without the order of an experiment in mind.
fn versions() -> Lab {
    let lab = Lab::new();
    lab.write(
        "small.toml",
        &common::SMALL.replace("kernel = \"v4.5\"\n[[", "kernel = \"v6.12\"\n[[").replace("4.5", "6.5"),
    );
    lab.ok("run small.toml -q");
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
    let saved = lab.ok("compare runs --baseline first-idle --json");
    lab.write("saved.json", &saved);
    assert_eq!(of(&["saved.json"]).0, "first-idle");
    let text = lab.ok("compare runs");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("against v6.12, the experiment's baseline"), "{text}");
    lab.ok("report runs -q --no-strips");
    let page = lab.text("report.html");
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
    lab.ok("bench pipe --machine smp-2 --kernel v6.12 --loops 20 -q --out pipes");
    lab.ok("bench pipe --machine smp-2 --kernel v6.5 --loops 20 -q --out pipes");
    assert_eq!(of(&["pipes"]), is("v6.5", "first_by_name"), "6.5 is older than 6.12");
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
        lab.says(&strange, 2, &["unknown workload 'hackbench'"]);
    }
    let table = lab.ok(&["latency", &run]);
    assert!(table.contains("message-0") && table.contains("worker-0-0"), "{table}");
    assert!(lab.run("compare nothing-of-this-name", 2).1.contains("no such file, run, cell or study"));
    assert!(lab.run("latency ffff0000", 2).1.contains("no cell 'ffff0000'"));
}
