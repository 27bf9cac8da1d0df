//! `schedlab suite`: one command from a change to what it loses, and what it says to bad input.

mod common;

use common::Lab;

#[test]
fn losses_stand_first_and_every_row_is_ranked_or_counted() {
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
    assert!(out.contains("Unchanged: ") && out.contains(" of 5 rows"), "{out}");
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
    assert_eq!(rows.len(), 6);
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
