//! How closely live runs are watched: by accounts, which cost nothing, unless a metric or an option asks for more; and
//! the warning about runs that were watched differently.

use crate::common::Lab;
use serde_json::Value;

const PIPE: &[&str] = &["bench", "pipe", "--loops", "500", "--quiet", "--json"];

fn piped(lab: &Lab, more: &[&str]) -> Value {
    lab.json(&[PIPE, more].concat())
}

#[test]
fn a_run_is_watched_by_accounts_unless_more_is_asked_for() {
    let lab = Lab::new();
    let plain = piped(&lab, &[]);
    assert_eq!(plain["watched"], "accounts");
    let has = |run: &Value, begin: &str| {
        run["metrics"].as_object().unwrap().keys().any(|name| name.starts_with(begin))
    };
    assert!(has(&plain, "switches.voluntary") && has(&plain, "cpu_time"), "{plain}");
    assert!(!has(&plain, "perf.") && !has(&plain, "slice."), "{plain}");
    let counted = piped(&lab, &["--counters"]);
    assert_eq!(counted["watched"], "counters");
    let why = counted["warnings"].to_string();
    assert!(has(&counted, "perf.") || why.contains("perf"), "{counted}");
}

#[test]
fn runs_that_were_watched_differently_are_other_cells_and_their_comparison_warns() {
    let lab = Lab::new();
    for more in [&[][..], &[], &["--counters"], &["--counters"]] {
        piped(&lab, more);
    }
    let folders = std::fs::read_dir(lab.path().join("runs")).unwrap().count();
    assert_eq!(folders, 2, "a cell for each way");
    let both = lab.json("compare runs --json");
    let variants: Vec<&str> =
        both["cells"].as_array().unwrap().iter().map(|c| c["variant"].as_str().unwrap()).collect();
    assert_eq!(variants, ["running", "running (counters)"]);
    let said = both["warnings"].to_string();
    assert!(said.contains("watched.differently") && said.contains("running by accounts"), "{said}");
    let one = std::fs::read_dir(lab.path().join("runs")).unwrap().next().unwrap().unwrap().path();
    let alike = lab.json(&["compare", one.to_str().unwrap(), "--json"]);
    assert!(!alike["warnings"].to_string().contains("watched.differently"), "{alike}");
}

/// The metrics of an experiment decide; a metric that it did not ask for is missing, and the reason names the option.
#[test]
fn an_experiment_is_watched_as_its_metrics_need() {
    let lab = Lab::new();
    let experiment = |metrics: &str| {
        format!(
            "name = \"w\"\nruns = 1\nmetrics = [{metrics}]\n[host]\n[workload]\nname = \"nanosleep\"\nruntime = \"50ms\"\n\
             [[variant]]\nkernel = \"running\"\n"
        )
    };
    for (metrics, watched) in [
        ("\"nanosleep.overrun.p50\", \"cpu_time\"", "accounts"),
        ("\"nanosleep.overrun.p50\", \"slice.p50\"", "stays"),
        ("\"perf.context_switches\"", "counters"),
    ] {
        lab.write("w.toml", &experiment(metrics));
        let out = format!("runs-{watched}");
        lab.ok(&["run", "w.toml", "--backend", "host", "--out", &out, "--quiet"]);
        assert_eq!(lab.records(&out)[0]["observe"], watched);
    }
    let asked = lab.json("compare runs-accounts --metric perf.ipc --metric slice.p50 --json");
    for metric in ["perf.ipc", "slice.p50"] {
        assert_eq!(asked["cells"][0]["metrics"][metric]["missing"], "not watched: add --counters", "{asked}");
    }
}
