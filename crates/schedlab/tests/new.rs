//! `schedlab new`: the user's first experiment.

use crate::common::{Lab, files};

fn golden(name: &str, text: &str) {
    let file = format!("{}/tests/golden/{name}", env!("CARGO_MANIFEST_DIR"));
    if std::env::var_os("SCHEDLAB_BLESS").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    assert_eq!(text, std::fs::read_to_string(&file).unwrap());
}

#[test]
fn it_writes_an_experiment_that_runs_at_once() {
    let lab = Lab::new();
    let told = lab.ok(&["new", "mine.toml"]);
    assert!(
        told.starts_with("mine.toml: schbench on smt-8 under v6.5 and no-preempt, 2 loads, 10 runs each\n"),
        "{told}"
    );
    assert!(
        told.contains("\n  schedlab run mine.toml ") && told.lines().all(|l| l.chars().count() <= 78),
        "{told}"
    );
    golden("new-schbench.toml", &std::fs::read_to_string(lab.path().join("mine.toml")).unwrap());
    let json = lab.json(&["run", "mine.toml", "--runs", "2", "--load", "threads=8", "--json", "-q"]);
    let cells = json["cells"].as_array().unwrap();
    let variants: Vec<&str> = cells.iter().map(|c| c["variant"].as_str().unwrap()).collect();
    assert_eq!((variants, cells[0]["load"].as_str()), (vec!["v6.5", "no-preempt"], Some("threads=8")));
    for metric in json["metrics"].as_array().unwrap() {
        let name = metric.as_str().unwrap();
        assert!(cells[0]["metrics"][name]["mean"].is_number(), "{name}: {}", cells[0]["metrics"][name]);
    }
}

#[test]
fn workload_machine_and_kernel_are_as_asked_for() {
    let lab = Lab::new();
    lab.ok(&[
        "new",
        "p.toml",
        "--workload",
        "pipe",
        "--machine",
        "smp-2",
        "--machine",
        "smp-4",
        "--kernel",
        "v6.12",
    ]);
    let short = ["run", "p.toml", "--runs", "1", "--load", "pairs=1", "--machine", "smp-2", "--json", "-q"];
    let json = lab.json(&short);
    assert_eq!(
        (json["cells"][0]["kernel"].as_str(), json["cells"][0]["machine"].as_str()),
        (Some("v6.12"), Some("smp-2"))
    );
    assert!(json["cells"][1]["metrics"]["pipe.elapsed.mean"]["mean"].as_f64().unwrap() > 0.0);
    let one =
        r#"{ "tasks": { "one": { "loop": 30, "run": 1000, "sleep": 1000 } }, "global": { "duration": 1 } }"#;
    std::fs::create_dir(lab.path().join("below")).unwrap();
    lab.write("below/one.json", one);
    lab.ok(&["new", "rt.toml", "--workload", "below/one.json", "--machine", "smp-2"]);
    lab.ok(&["new", "below/rt.toml", "--workload", "below/one.json", "--machine", "smp-2"]);
    for file in ["rt.toml", "below/rt.toml"] {
        let json = lab.json(&["run", file, "--runs", "1", "--json", "-q"]);
        assert_eq!(json["cells"][0]["workload"], "one.json", "{file}");
    }
    let told = lab.json(&["new", "vm.toml", "--kernel", "6.1", "--kernel", "6.8", "--json"]);
    assert_eq!(
        (told["schema"].as_str(), told["next"].as_str()),
        (Some("schedlab/new/1"), Some("schedlab run vm.toml --backend vm"))
    );
    let told = lab.ok(&["new", "vm2.toml", "--kernel", "6.1", "--kernel", "6.8"]);
    assert!(told.contains("schedlab kernel fetch 6.1 6.8"), "{told}");
    lab.ok(&["new", "live.toml", "--kernel", "running", "--workload", "hackbench"]);
    let (_, err) = lab.run(&["run", "live.toml"], 2);
    assert!(err.contains("--backend host"), "{err}");
}

#[test]
fn nothing_is_overwritten_and_slips_lead_on() {
    let lab = Lab::new();
    lab.write("mine.toml", "mine");
    let before = files(lab.path());
    for (words, parts) in [
        (&["new", "mine.toml"][..], &["mine.toml exists already", "another name"][..]),
        (&["new"], &["FILE"]),
        (&["new", ""], &["the file's name is empty", "schedlab new mine.toml"]),
        (&["new", "hackbench"], &["is a workload", "schedlab new mine.toml --workload hackbench"]),
        (&["new", "tasks.json"], &["schedlab new mine.toml --workload tasks.json"]),
        (
            &["new", "a.toml", "--workload", "hackbnech"],
            &["unknown workload", "'hackbench'", "--list workloads"],
        ),
        (&["new", "a.toml", "--workload", "gone.json"], &["can't read gone.json"]),
        (&["new", "a.toml", "--machine", "spr-2x65"], &["unknown machine", "'spr-2x56'"]),
        (&["new", "a.toml", "--kernel", "v6.4"], &["no simulated kernel 'v6.4'", "v6.5", "6.1", "bzImage"]),
        (&["new", "gone/a.toml"], &["can't write gone/a.toml"]),
        (&["run", "mine"], &["can't read mine", "did you mean 'mine.toml'?"]),
        (&["run", "yours.toml"], &["can't read yours.toml", "schedlab new yours.toml"]),
        (&["run", "newidle"], &["schedlab study newidle"]),
        (&["run", "pipe"], &["schedlab bench pipe", "schedlab new mine.toml --workload pipe"]),
        (&["new", "--list", "featrues"], &["unknown list 'featrues'", "'features'"]),
    ] {
        let (out, err) = lab.run(words, 2);
        assert_eq!(out, "", "{words:?}");
        parts.iter().for_each(|part| assert!(err.contains(part), "{words:?} does not say {part}:\n{err}"));
    }
    assert_eq!(files(lab.path()), before);
}

#[test]
fn kernels_that_no_run_has_together_are_told() {
    let lab = Lab::new();
    let (_, err) = lab.run(&["new", "two.toml", "--kernel", "running", "--kernel", "v6.5"], 0);
    assert!(err.contains("no run has both running and v6.5"), "{err}");
    assert_eq!(lab.run(&["new", "one.toml", "--kernel", "running"], 0).1, "");
    assert_eq!(lab.run(&["new", "sim.toml", "--kernel", "v6.5", "--kernel", "v6.12"], 0).1, "");
}

#[test]
fn a_long_command_does_not_run_into_its_explanation() {
    let lab = Lab::new();
    for file in ["x8.toml", "much-longer-than-that.toml"] {
        let told = lab.ok(&["new", file, "--kernel", "running"]);
        let command = format!("schedlab run {file} --backend host");
        let line = told.lines().find(|l| l.contains(&command)).unwrap();
        let rest = line.split_once(&command).unwrap().1;
        assert!(rest.is_empty() || rest.starts_with("  "), "{told}");
        assert!(told.contains("  run it and compare the variants\n"), "{told}");
        // The first line says what was written, with the file's name; it is not wrapped.
        assert!(told.lines().skip(1).all(|l| l.chars().count() <= 78), "{told}");
    }
}

#[test]
fn all_names_can_be_listed() {
    let lab = Lab::new();
    let lists = lab.ok(&["new", "--list"]);
    for (what, name) in [
        ("keys", "min_effect_pct"),
        ("workloads", "hackbench"),
        ("machines", "spr-2x56"),
        ("kernels", "v6.12"),
        ("features", "SIS_UTIL"),
        ("tunables", "nr_migrate"),
        ("metrics", "migrations"),
    ] {
        assert!(lists.contains(what), "{lists}");
        let text = lab.ok(&["new", "--list", what]);
        assert!(text.contains(name) && text.lines().all(|l| l.chars().count() <= 78), "{text}");
        let json = lab.json(&["new", "--list", what, "--json"]);
        assert!(json["names"].as_array().unwrap().iter().any(|n| n["name"].as_str().unwrap().trim() == name));
    }
}

#[test]
fn names_that_are_none_are_refused_and_odd_ones_can_be_pasted() {
    let lab = Lab::new();
    let told = lab.ok(&["new", "--", "-x.toml"]);
    assert!(told.contains("\n  schedlab run ./-x.toml "), "{told}");
    assert!(lab.run(&["new", ".toml"], 2).1.contains("an ending without a name"));
    let (_, err) = lab.run(&["new", "a\nb.toml"], 2);
    assert!(err.contains("control characters"), "{err}");
    assert!(!lab.path().join(".toml").exists() && !lab.path().join("a\nb.toml").exists());
}
