//! The page of `schedlab report` in a real browser, which takes seconds: only with `SCHEDLAB_TEST_BROWSER=1`, and with
//! a Chromium that `SCHEDLAB_BROWSER` names or that is in PATH.
//!
//! Opened as `page.html#selftest` the page zooms, pans and clicks a wait by itself, and writes what came of it into an
//! element (crates/report/src/html/selftest.js).

use crate::common::Lab;
use schedlab_base::testing::skipped;
use serde_json::Value;
use std::process::Command;

/// What the page told of itself.
fn selftest(lab: &Lab, page: &str) -> Value {
    let browser = std::env::var("SCHEDLAB_BROWSER").unwrap_or_else(|_| "chromium".to_owned());
    let url = format!("file://{}#selftest", lab.path().join(page).display());
    let options = ["--headless", "--no-sandbox", "--disable-gpu", "--window-size=1200,1000", "--dump-dom"];
    let output = Command::new(browser).args(options).arg(url).output().expect("the browser starts");
    let dom = String::from_utf8_lossy(&output.stdout);
    let told = dom
        .split("<pre id=\"selftest\" hidden=\"\">")
        .nth(1)
        .unwrap_or_else(|| panic!("no test in {dom:.500}"));
    let told =
        told.split("</pre>").next().unwrap().replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&");
    serde_json::from_str(&told).unwrap_or_else(|e| panic!("{e}: {told}"))
}

fn numbers(value: &Value) -> Vec<f64> {
    value.as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect()
}

#[test]
fn the_page_opens_draws_zooms_and_goes_to_a_wait() {
    if std::env::var_os("SCHEDLAB_TEST_BROWSER").is_none() {
        return skipped("Chromium (SCHEDLAB_TEST_BROWSER=1)");
    }
    let lab = Lab::new();
    lab.ok("run small.toml -q");
    lab.ok("report small.toml -o page.html");
    let told = selftest(&lab, "page.html");
    assert_eq!(told["errors"], serde_json::json!([]), "{told}");
    assert_eq!(told["runs"], 2);
    // A blank canvas has one colour, and a drawn one idle, tasks, mixtures and labels.
    assert!(numbers(&told["colours"]).iter().all(|n| *n > 8.0), "{told}");
    assert!(numbers(&told["coloursZoomed"]).iter().all(|n| *n > 8.0), "{told}");
    let (whole, zoomed) = (numbers(&told["whole"]), numbers(&told["zoomed"]));
    let length = |view: &[f64]| view[1] - view[0];
    assert!((length(&whole) / length(&zoomed) - 8.0).abs() < 0.01, "{told}");
    let panned = numbers(&told["panned"]);
    // It moves by whole pixels.
    assert!((panned[0] - zoomed[0] - length(&zoomed) / 4.0).abs() < length(&zoomed) / 500.0, "{told}");
    // What was kept of a moved view is what a whole one has, but for rounding.
    assert!(told["keptDiffers"].as_f64().is_some_and(|most| most <= 2.0), "{told}");
    // In a view narrower than the bins of the counts, their steps are those of the CPUs.
    let steps = told["countsWidth"].as_f64().unwrap();
    assert!(numbers(&told["countsWhole"]).iter().all(|mixed| *mixed < steps / 10.0), "{told}");
    let (wait, at) = (&told["wait"], numbers(&told["at"]));
    let (from, length) = (wait["from"].as_f64().unwrap(), wait["length"].as_f64().unwrap());
    assert!(at[0] <= from && from + length <= at[1] && at[1] - at[0] < 4.0 * length.max(20_000.0), "{told}");
    assert_eq!(told["marks"], 1);
    let times = serde_json::json!(["3.500001234 s", "3.5 s", "1.5 us"]);
    assert_eq!(told["times"], times, "as fine as the view");
    assert_eq!(told["readout"].as_str().unwrap().lines().count(), 3, "the time, and a line for each run");
}
