//! Parts of an experiment: `--load`, `--machine`, `--variant` and `--metric` of `run` and `study`.

mod common;

use common::Lab;

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
        (&["--load", "bananas"], &["unknown load 'bananas'", "known: small, one, many\n"]),
        (&["--load", "one@smp-2"], &["load 'one' does not run on smp-2", "it runs on smp-4\n"]),
        (&["--load", "small@smp-8"], &["unknown machine of this experiment 'smp-8'", "'smp-2'"]),
        (&["--load", "sm@smp-2"], &["unknown load 'sm'", "known: small, one, many\n"]),
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
