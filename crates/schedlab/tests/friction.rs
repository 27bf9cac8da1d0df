//! Details of the command line: headings, exit codes, colours, warnings instead of errors.

use crate::common::{Lab, texts};
use schedlab_base::testing::skipped;

#[test]
fn only_options_of_guests_and_clusters_are_under_their_headings() {
    let lab = Lab::new();
    let guests = ["--guest-mode", "--accelerator", "--memory", "--boot"];
    let cluster = ["--engine", "--slurm"];
    let headings = [("Guests (--backend vm)", &guests[..]), ("Cluster", &cluster[..])];
    for (words, count) in [
        (&["bench", "--help"][..], 1),
        (&["bench", "schbench", "--help"], 1),
        (&["run", "--help"], 2),
        (&["study", "--help"], 2),
        (&["suite", "--help"], 2),
        (&["pack", "--help"], 1),
        (&["validate", "--help"], 1),
        (&["run", "-h"], 0),
    ] {
        let text = lab.ok(words);
        let mut found = 0;
        for (heading, wanted) in headings {
            let Some((_, under)) = text.split_once(&format!("\n{heading}:\n")) else { continue };
            // Up to the next heading.
            let own = under.lines().take_while(|l| l.is_empty() || l.starts_with(' '));
            let options = own.filter(|l| l.trim_start().starts_with('-'));
            let names: Vec<&str> =
                options.filter_map(|l| l.split_whitespace().find(|w| w.starts_with("--"))).collect();
            assert_eq!(names, wanted, "{words:?}");
            found += 1;
        }
        assert_eq!(found, count, "{words:?}: {text}");
    }
}

#[test]
fn two_commands_keep_their_output_to_themselves() {
    let lab = Lab::new();
    let words = "stat --runs 2 --vs 'echo of-B' -- echo of-A";
    let (out, err) = lab.run(words, 0);
    let table = out.lines().filter(|l| !l.contains("echo of-")).count();
    assert!(table > 3 && !out.lines().any(|l| l == "of-A" || l == "of-B"), "{out}");
    assert!(!err.contains("of-A") && !err.contains("of-B"), "{err}");
    assert!(lab.ok("stat -- echo of-A").starts_with("of-A\n"), "one command keeps its terminal");
}

#[test]
fn verdicts_have_colours_on_request() {
    let lab = Lab::new();
    // A change that no run can miss: the shorter period leaves the waker no credit to preempt with.
    let slices = "name = \"slices\"\nruns = 10\nmachines = [\"smp-2\"]\nmetrics = [\"slice.mean\"]\n[workload]\n\
        name = \"slice\"\nruntime = \"300ms\"\n[[variant]]\nkernel = \"v4.5\"\n[[variant]]\nname = \"short\"\n\
        kernel = \"v4.5\"\ntunables = { sched_latency_ns = 1000000, min_granularity_ns = 100000 }\n";
    lab.write("slices.toml", slices);
    let form = |more: &[&str]| lab.ok(&[&["run", "slices.toml", "-q"][..], more].concat());
    let plain = form(&[]);
    assert!(!plain.contains('\u{1b}'), "a pipe is no terminal");
    let strip = |text: &str| {
        ["\u{1b}[32m", "\u{1b}[31m", "\u{1b}[1;33m", "\u{1b}[0m"]
            .iter()
            .fold(text.to_owned(), |t, c| t.replace(c, ""))
    };
    let coloured = form(&["--color", "always"]);
    assert!(coloured.contains('\u{1b}') && strip(&coloured) == plain, "{coloured}");
    let marks = plain.lines().flat_map(str::split_whitespace).filter(|w| ["*", "!", "#"].contains(w)).count();
    assert_eq!(coloured.matches("\u{1b}[0m").count(), marks - 3, "all but the legend's: {coloured}");
    let detail = form(&["--format", "detail", "--color", "always"]);
    assert!(detail.contains("\u{1b}[0m\n") && strip(&detail) == form(&["--format", "detail"]), "{detail}");
    assert_eq!(form(&["--color", "never"]), plain);
    assert!(!form(&["--color", "always", "--json"]).contains('\u{1b}'), "JSON has none");
    assert!(lab.run("run small.toml --color blue", 2).1.contains("auto, always, never"));
}

#[test]
fn a_knee_of_a_tool_needs_a_limit_and_a_load() {
    let lab = Lab::new();
    lab.says("knee --tool perf-pipe --limit 'perf-pipe.time < 1s'", 2, &["takes no load", "hackbench"]);
    let output = lab.command("knee --tool hackbench").output().unwrap();
    let (_, err) = texts(&output);
    // Where the tool is missing, the first error names its package.
    let installed = !err.contains("rt-tests");
    assert_eq!(output.status.code(), Some(if installed { 2 } else { 3 }), "{err}");
    if !installed {
        skipped("hackbench");
        return;
    }
    assert!(err.contains("--limit") && err.contains("hackbench.time"), "{err}");
    let words = "knee --tool hackbench '--args=-l 1 -f 1' --limit 'hackbench.time < 100s' --max-load 2 --runs 1 --json -q";
    let json = lab.json(words);
    assert_eq!(
        (&json["parameter"], &json["variants"][0]["knees"]),
        (&"load".into(), &serde_json::json!([2]))
    );
}
