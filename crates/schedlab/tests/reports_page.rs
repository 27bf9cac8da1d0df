//! The public reports: the runs of all of them, held to docs/reports.md and to the verdicts that must stay.

use crate::common::Lab;
use schedlab_base::testing::page_has;

const BEGIN: &str = "<!-- reports: made from schedlab study reports --format markdown -->\n";
const END: &str = "<!-- end -->";

/// Reports that a change of the model must not lose.
const GUARDS: &[&str] = &[
    "group-imbalance",
    "overload-on-wakeup",
    "nice-across-sessions",
    "half-sleeper",
    "half-sleeper-long",
    "short-slice",
    "heavy-task",
    "yield-loop",
    "yield-runaway",
    "rt-throttle",
    "rt-throttle-alone",
    "sis-util",
    "load-left-behind",
    "quota-unused",
    "quota-starvation",
    "idle-little",
    "idle-little-4-2",
];

#[test]
fn the_page_of_reports_matches_the_runs_and_no_guard_is_lost() {
    let lab = Lab::new();
    let table = lab.ok("study reports --format markdown --quiet --out runs");
    page_has("docs/reports.md", [BEGIN, END], &format!("\n{table}"));
    let json = lab.json("study reports --json --quiet --out runs");
    for name in GUARDS {
        let report = json["reports"].as_array().unwrap().iter().find(|r| r["name"] == *name).unwrap();
        assert!(["reproduced", "direction"].contains(&report["verdict"].as_str().unwrap()), "{report:#}");
    }
    for report in json["reports"].as_array().unwrap() {
        assert!(report["warnings"].is_null(), "{report:#}");
    }
}
