//! `schedlab report` through the binary: it has the numbers of `compare`, loads nothing, repeats to the byte, and says
//! what is missing.

use crate::common;
use crate::common::Lab;

/// The page that a command with these words writes.
fn page(lab: &Lab, words: &[&str]) -> String {
    lab.ok(&[&["report", "-o", "page.html"], words].concat());
    std::fs::read_to_string(lab.path().join("page.html")).unwrap()
}

/// A store with the runs of the small experiment.
fn stored() -> Lab {
    let lab = Lab::new();
    lab.ok(&["run", "small.toml", "-q"]);
    lab
}

#[test]
fn a_report_has_the_numbers_of_the_comparison_and_loads_nothing() {
    let lab = stored();
    let html = page(&lab, &["small.toml"]);
    let json = lab.json(&["run", "small.toml", "-q", "--json"]);
    let table = lab.ok(&["run", "small.toml", "-q"]);
    for cell in json["cells"].as_array().unwrap() {
        assert!(
            html.contains(cell["variant"].as_str().unwrap()) && html.contains(cell["load"].as_str().unwrap())
        );
    }
    // Each line of the table stands in the page, in the form for mail.
    let lines = table.lines().filter(|l| l.contains("latency.p50") || l.contains("migrations"));
    let shown = lines.map(|l| l.replace('<', "&lt;").replace('>', "&gt;").replace('\'', "&#39;"));
    shown.for_each(|line| assert!(html.contains(&line), "{line}"));
    for word in ["http://", "https://", "src=", "@import", "url("] {
        assert!(!html.contains(word), "{word}");
    }
    assert!(html.contains("does the first idle CPU help"), "what was asked");
    assert!(html.contains("every one of its"), "both runs are whole");
    assert!(html.len() < 2_000_000, "{} bytes", html.len());
    assert_eq!(html, page(&lab, &["small.toml"]));
}

#[test]
fn runs_are_named_by_store_folder_or_digits_and_filtered() {
    let lab = stored();
    let listed = lab.json(&["runs", "ls", "--load", "1x6", "--json"]);
    let folder = listed["cells"][0]["folder"].as_str().unwrap();
    let digits = &folder["runs/".len()..][..8];
    let html = page(&lab, &["runs", "--load", "1x6"]);
    assert!(html.contains("1x6") && !html.contains("1x2 on"), "one load");
    assert!(page(&lab, &[digits]).contains("3 runs in 1 cell,"));
    assert!(page(&lab, &[folder]).contains("3 runs in 1 cell,"));
    let one = page(&lab, &[&format!("{digits}/2"), "--no-strips"]);
    assert!(one.contains("1 run in 1 cell, seeds 2") && one.contains("--no-strips was given"));
    let other = page(&lab, &["runs", "--load", "1x6", "--baseline", "first-idle", "--strips", "v4.5"]);
    assert_eq!(other.matches("class=\"strip\"").count(), 1);
    let (_, err) = lab.run(&["report", "runs", "--load", "1x7"], 2);
    assert!(err.contains("unknown load '1x7'"), "{err}");
    let (_, err) = lab.run(&["report", "runs", "--strips", "v4.6"], 2);
    assert!(err.contains("--strips") && err.contains("'v4.5'"), "{err}");
    let (_, err) = lab.run(&["report", "nothing"], 2);
    assert!(err.contains("nothing"), "{err}");
}

#[test]
fn a_run_that_cannot_be_made_again_is_reported_as_missing() {
    let lab = stored();
    let mut changed = 0;
    for (name, bytes) in common::files(&lab.path().join("runs")) {
        let text = String::from_utf8(bytes).unwrap_or_default();
        let model = format!("\"model\":{}", schedlab_record::MODEL);
        if name.ends_with("record.json") && text.contains(&model) {
            let old = text.replacen(&model, "\"model\":1", 1);
            std::fs::write(lab.path().join("runs").join(name), old).unwrap();
            changed += 1;
        }
    }
    assert_eq!(changed, 12);
    let html = page(&lab, &["runs"]);
    assert!(html.contains("can&#39;t be shown over time: its events were not kept"));
    assert!(!html.contains("class=\"strip\""));
}

#[test]
fn a_recording_is_shown_over_time_from_its_kept_events() {
    let recording = include_str!("../../import/tests/data/ftrace.txt");
    let lab = Lab::new();
    lab.write("before.txt", recording);
    lab.ok(&["import", "before.txt"]);
    let html = page(&lab, &["runs"]);
    assert_eq!(html.matches("class=\"strip\"").count(), 1);
    assert!(html.contains("These are the events that were kept"));
    // Facts that a kernel does not report are missing, and not zero.
    assert!(html.contains("\"idle\":null"));
    assert!(
        !html.contains("share of time in which one waited")
            && !html.contains("waited beside an idle CPU for")
    );
}

#[test]
fn studies_have_pages_and_an_index() {
    let lab = Lab::new();
    let load = [
        "--load",
        "flash 32",
        "--machine",
        "spr-2x4",
        "--variant",
        "old",
        "--variant",
        "v6.5",
        "--runs",
        "1",
    ];
    lab.ok(&[&["study", "migration-cost", "-q", "-o", "pages"], &load[..]].concat());
    let index = std::fs::read_to_string(lab.path().join("pages/index.html")).unwrap();
    assert!(index.contains("href=\"migration-cost.html\""));
    let html = std::fs::read_to_string(lab.path().join("pages/migration-cost.html")).unwrap();
    assert!(html.contains("<h1>migration-cost</h1>") && html.contains("flash 32"));
    assert_eq!(html.matches("class=\"strip\"").count(), 2);
}

/// Two loads that sort by their numbers. Only the second shows a difference between the variants.
const TWO_LOADS: &str = r#"
name = "two"
machine = "smp-4"
runs = 6
metrics = ["schbench.latency.p50", "switches.involuntary"]
[workload]
name = "schbench"
message_threads = 1
runtime = "300ms"
sleeptime = "1ms"
cputime = "1ms"
[[load]]
name = "workers=16"
threads = 16
[[load]]
name = "workers=1"
threads = 1
[[variant]]
kernel = "v6.5"
[[variant]]
name = "no-preempt"
kernel = "v6.5"
features = ["NO_WAKEUP_PREEMPTION"]
"#;

#[test]
fn loads_sort_by_their_numbers_and_the_one_that_changed_most_is_shown_over_time() {
    let lab = Lab::new();
    lab.write("two.toml", TWO_LOADS);
    lab.ok(&["run", "two.toml", "-q"]);
    let html = page(&lab, &["runs"]);
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("<h3>schbench workers=1 on") < at("<h3>schbench workers=16 on"));
    assert!(html.contains("<h4>v6.5, schbench workers=16, seed 1</h4>"), "not the first load");
    assert!(!html.contains("<h4>v6.5, schbench workers=1, seed 1</h4>"));
}
