//! `schedlab report` through the binary: the numbers of `compare`, nothing loaded, the same bytes, what can't be shown.

use crate::common::Lab;

/// The page of these words.
fn page(lab: &Lab, words: &[&str]) -> String {
    lab.ok(&[&["report", "-o", "page.html"], words].concat());
    lab.text("page.html")
}

/// A store with the runs of the small experiment.
fn stored() -> Lab {
    let lab = Lab::new();
    lab.ok("run small.toml -q");
    lab
}

#[test]
fn a_report_has_the_numbers_of_the_comparison_and_loads_nothing() {
    let lab = stored();
    let html = page(&lab, &["small.toml"]);
    let json = lab.json("run small.toml -q --json");
    let table = lab.ok("run small.toml -q");
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
fn a_run_that_cannot_be_made_again_is_reported_as_missing() {
    let lab = stored();
    lab.rewrite(|text| text.replacen(&format!("\"model\":{}", schedlab_record::MODEL), "\"model\":1", 1));
    let models: Vec<_> = lab.records("runs").iter().map(|record| record["model"].as_u64()).collect();
    assert_eq!(models, [Some(1); 12]);
    let html = page(&lab, &["runs"]);
    assert!(html.contains("can&#39;t be shown over time: its events were not kept"));
    assert!(!html.contains("class=\"strip\""));
}

/// Two loads that sort by their numbers, of which only the second can tell the variants apart.
const TWO_LOADS: &str = include_str!("cases/files/two-loads.toml");

#[test]
fn loads_sort_by_their_numbers_and_the_one_that_changed_most_is_shown_over_time() {
    let lab = Lab::new();
    lab.write("two.toml", TWO_LOADS);
    lab.ok("run two.toml -q");
    let html = page(&lab, &["runs"]);
    let at = |text: &str| html.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(at("<h3>schbench workers=1 on") < at("<h3>schbench workers=16 on"));
    assert!(html.contains("<h4>v6.5, schbench workers=16, seed 1</h4>"), "not the first load");
    assert!(!html.contains("<h4>v6.5, schbench workers=1, seed 1</h4>"));
}
