//! What is made of stored runs of backend 'code': each is made again by a process of its own, and is the same run.

use crate::code::{has_source, has_source_of, lab_of};
use crate::common::{Lab, texts};
use std::path::Path;

/// A run of schbench on the code of 6.1, stored in `out`; `more` options.
fn stored(lab: &Lab, out: &str, more: &[&str]) {
    let words =
        ["bench", "schbench", "-m", "1", "-t", "6", "-r", "200ms", "--machine", "smp-4", "--kernel", "6.1"];
    lab.ok(&[&words[..], &["--backend", "code", "--out", out, "--quiet"], more].concat());
}

#[test]
fn a_run_without_kept_events_is_made_again_and_names_its_gaps() {
    let Some(lab) = lab_of("6.1") else { return };
    stored(&lab, "runs", &[]);
    stored(&lab, "kept", &["--keep-events"]);
    let text = |store: &str, more: &[&str]| {
        lab.ok(&[&["trace", store, "--format", "text", "-o", "-", "-q"], more].concat())
    };
    let again = text("runs", &[]);
    assert!(again.matches("sched_switch:").count() > 30, "{again:.500}");
    assert!(again.contains(" placed ") && !text("kept", &[]).contains(" placed "), "{again:.500}");
    let plain = ["--plain"];
    assert_eq!(text("runs", &plain), text("kept", &plain), "the events are those that the run kept");
    let records = ["runs", "kept"].map(|store| records(&lab.path().join(store)).next().unwrap());
    assert_eq!(records[0], records[1], "keeping events changes no figure");
    let part = text("runs", &["--from", "50ms", "--for", "10ms"]);
    assert!(!part.is_empty() && part.len() < again.len() / 4, "{} of {}", part.len(), again.len());
    let said = |store: &str| lab.run(&["trace", store, "-o", "x.pftrace"], 0).1;
    assert!(said("kept").contains("reasons are missing") && !said("runs").contains("reasons are missing"));
    assert!(text("kept", &["--details"]).contains(" placed "));
    let noted = |more: &[&str]| lab.run(&[&["trace", "runs", "-o", "x.pftrace"], more].concat(), 0).1;
    assert!(
        noted(&["--details"]).contains("does not say why it began no pass")
            && !noted(&[]).contains("no pass")
    );
    lab.says("trace runs --counters load", 2, &["--counters", "--backend sim"]);
    let replayed = lab.json("replay runs --json -q");
    assert_eq!(replayed["kernel"], "v6.1", "{replayed:.300}");
    let left: Vec<_> = std::fs::read_dir(std::env::temp_dir()).unwrap().flatten().collect();
    let ours = format!(".schedlab-code-{}", std::process::id());
    assert!(!left.iter().any(|e| e.file_name().to_string_lossy().starts_with(&ours)), "{left:?}");
}

#[test]
fn waits_are_explained_without_claims_about_unknown_things() {
    let Some(lab) = lab_of("6.1") else { return };
    stored(&lab, "runs", &[]);
    let found = lab.json("explain runs --json");
    let chances: Vec<_> =
        found["worst"].as_array().unwrap().iter().filter_map(|w| w.get("idle_meanwhile")).collect();
    assert!(!chances.is_empty() && chances.iter().all(|c| c["reasons_missing"] == true), "{found:.600}");
    let text = lab.ok("explain runs");
    assert!(text.contains("reasons are our rules'") && !text.contains("why is not known"), "{text}");
    for claim in ["no balance pass", "no tick fell"] {
        assert!(!text.contains(claim), "{text}");
    }
    let stored = lab.ok("explain runs --stored");
    assert!(stored.contains("reasons are missing") && stored.contains("why is not known"), "{stored}");
    let idle = lab.json("explain runs --idle-while-waiting --json");
    let causes: Vec<&str> =
        idle["causes"].as_array().unwrap().iter().filter_map(|c| c["cause"].as_str()).collect();
    assert!(causes.iter().all(|c| !c.starts_with("newidle") && *c != "out_of_reach"), "{causes:?}");
    assert!(idle["notes"].to_string().contains("reasons are our rules'"), "{}", idle["notes"]);
    let tail = lab.json("explain runs --metric run_delay.p50 --json");
    assert!(tail["samples"].as_u64().unwrap() > 0, "{tail:.300}");
    lab.ok("report runs -o page.html");
    let page = lab.text("page.html");
    assert!(page.contains("class=\"strip\"") && !page.contains("can't be shown over time"));
}

#[test]
fn our_rules_share_the_decisions_of_the_code_and_the_run_is_the_same() {
    if !has_source() {
        return;
    }
    let words =
        ["bench", "hackbench", "--groups", "1", "--loops", "40", "--machine", "smt-8", "--kernel", "6.1"];
    for level in ["free", "woven"] {
        let of = |debug: &str| -> serde_json::Map<String, serde_json::Value> {
            let lab = Lab::new();
            let more = ["--backend", "code", "--level", level, "--quiet", "--out", "runs"];
            let mut command = lab.command(&[&words[..], &more].concat());
            let output = command.env("SCHEDLAB_CODE_DEBUG", debug).output().unwrap();
            assert!(output.status.success(), "{}", texts(&output).1);
            let mut record = records(&lab.path().join("runs")).next().unwrap();
            serde_json::from_value(record["counters"].take()).unwrap()
        };
        let (plain, asked) = (of(""), of("rules"));
        let added =
            |name: &str| ["placement.", "affine.", "rules.", "slice."].iter().any(|p| name.starts_with(p));
        let kept = |of: &serde_json::Map<String, serde_json::Value>| {
            of.iter().filter(|(n, _)| !added(n)).map(|(n, v)| (n.clone(), v.clone())).collect::<Vec<_>>()
        };
        assert_eq!(kept(&plain), kept(&asked), "{level}: who asks changes nothing");
        let n = |name: &str| asked[name].as_u64().unwrap_or_else(|| panic!("{name}"));
        assert!(n("rules.choices") > 500 && n("rules.asked") * 2 > n("rules.choices"), "{level}: {asked:?}");
        let least = if level == "free" { 100 } else { 90 };
        assert!(n("rules.shared") * 100 >= least * n("rules.asked"), "{level}: {asked:?}");
        assert!(n("rules.checks_shared") * 100 >= 95 * n("rules.checks_asked"), "{level}: {asked:?}");
        assert_eq!(n("rules.unexplained"), 0, "{level}");
    }
}

/// The record of a run of the code whose rules were asked.
fn asked(lab: &Lab, words: &[&str]) -> serde_json::Value {
    let mut command = lab.command(&[words, &["--backend", "code", "--quiet", "--out", "runs"]].concat());
    let output = command.env("SCHEDLAB_CODE_DEBUG", "rules").output().unwrap();
    assert!(output.status.success(), "{}", texts(&output).1);
    records(&lab.path().join("runs")).find(|r| r["backend"] == "code").unwrap()
}

/// The same of an experiment.
fn asked_of(machine: &str, workload: &str, more: &str) -> serde_json::Value {
    let lab = Lab::new();
    let head = format!("name = \"asked\"\nmachine = \"{machine}\"\nruns = 1\nmetrics = [\"cpu_time\"]\n");
    lab.write("asked.toml", &format!("{head}[workload]\n{workload}\n{more}\n"));
    asked(&lab, &["run", "asked.toml"])
}

fn counter(record: &serde_json::Value, name: &str) -> u64 {
    record["counters"][name].as_u64().unwrap_or_else(|| panic!("{name} in {}", record["counters"]))
}

#[test]
fn a_request_to_leave_that_was_heeded_is_not_the_reason_of_the_next_switch() {
    if !has_source_of("6.12") {
        return;
    }
    // Slices of the heavy hog end, and it is picked again; later the sleeper takes its CPU.
    let workload = r#"runtime = "500ms"
        rtapp_text = '''{ "tasks": {
        "heavy": { "loop": -1, "run": 10000, "priority": -20, "cpus": [0] },
        "light": { "loop": -1, "run": 10000, "priority": 19, "cpus": [0] },
        "sleeper": { "loop": -1, "run": 100, "sleep": 9000, "policy": "SCHED_FIFO", "priority": 10, "cpus": [0] } } }'''"#;
    let record = asked_of("smp-2", workload, "[[variant]]\nkernel = \"6.12\"");
    let ends = |why: &str| counter(&record, &format!("slice.end.{why}"));
    assert!(ends("wakeup") >= 45, "the sleeper wakes up each 9.1 ms: {}", record["counters"]);
    assert!(ends("slice") <= 15, "the light hog has hardly any weight: {}", record["counters"]);
}

#[test]
fn our_rules_pick_as_the_code_since_entities_may_be_delayed() {
    for series in ["6.12", "7.3"].into_iter().filter(|series| has_source_of(series)) {
        let words = ["bench", "hackbench", "--groups", "1", "--loops", "40", "--machine", "smt-8"];
        let record = asked(&Lab::new(), &[&words[..], &["--kernel", series, "--level", "free"]].concat());
        let picks = counter(&record, "rules.picks_asked");
        assert!(picks > 500, "{series}: {}", record["counters"]);
        assert_eq!(counter(&record, "rules.picks_shared"), picks, "{series}: {}", record["warnings"]);
    }
}

#[test]
fn a_run_in_which_none_of_its_tasks_wakes_says_that_rules_were_asked() {
    if !has_source() {
        return;
    }
    let lab = Lab::new();
    let hog = ["bench", "hogs", "--tasks", "1", "-r", "50ms", "--warmup", "20ms", "--machine", "smp-2"];
    let record = asked(&lab, &[&hog[..], &["--kernel", "6.1"]].concat());
    assert_eq!((counter(&record, "rules.checks"), counter(&record, "wakeups")), (0, 0), "{record:.300}");
    assert!(counter(&record, "rules.choices") <= 2, "the machine's own: {}", record["counters"]);
    let stored = lab.ok(&["explain", "runs", "--stored"]);
    assert!(!stored.contains("reasons are missing"), "{stored}");
    lab.ok(&["trace", "runs", "--format", "text", "-o", "-", "-q"]);
}

#[test]
fn tunables_of_the_run_reach_the_rules_and_so_do_those_of_its_middle() {
    if !has_source() {
        return;
    }
    let hackbench = "name = \"hackbench\"\ngroups = 1\nloops = 60";
    let set = |ns: u64| format!("tunables = {{ wakeup_granularity_ns = {ns} }}\n");
    let variant = "[[variant]]\nkernel = \"6.1\"\n";
    let later = format!("[[at]]\ntime = \"5ms\"\n{}{variant}", set(100_000));
    for more in [format!("{variant}{}", set(200_000)), format!("{variant}{}", set(5_000_000)), later] {
        let record = asked_of("smp-8", hackbench, &more);
        let checks = counter(&record, "rules.checks_asked");
        assert!(checks > 300, "{more}: {}", record["counters"]);
        assert_eq!(counter(&record, "rules.checks_shared"), checks, "{more}: {}", record["warnings"]);
    }
}

/// The records of a store.
fn records(store: &Path) -> impl Iterator<Item = serde_json::Value> {
    let cells = std::fs::read_dir(store).unwrap().flatten();
    let paths = cells.map(|e| e.path().join("1/record.json")).filter(|path| path.is_file());
    paths.map(|path| serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap())
}

#[test]
fn a_record_that_contradicts_its_run_is_refused() {
    let Some(lab) = lab_of("6.1") else { return };
    stored(&lab, "runs", &[]);
    let cell =
        std::fs::read_dir(lab.path().join("runs")).unwrap().flatten().find(|e| e.path().join("1").is_dir());
    let path = cell.unwrap().path().join("1/record.json");
    let record = std::fs::read_to_string(&path).unwrap();
    let mut json: serde_json::Value = serde_json::from_str(&record).unwrap();
    let switches = json["counters"]["switches.voluntary"].as_u64().unwrap();
    json["counters"]["switches.voluntary"] = (switches + 1).into();
    std::fs::write(&path, json.to_string()).unwrap();
    let run = path.parent().unwrap().display().to_string();
    let (_, said) = lab.run(&["trace", &run, "-o", "x.pftrace"], 1);
    assert!(said.contains("switches.voluntary differs") && !lab.path().join("x.pftrace").exists(), "{said}");
    json["code"]["image"] = "00000000000000000000000000000000".into();
    std::fs::write(&path, json.to_string()).unwrap();
    lab.says(&["trace", &run, "-o", "x.pftrace"], 3, &["no longer has image 00000000"]);
}

#[test]
fn a_schedule_is_replayed_by_the_kernels_own_code() {
    let Some(lab) = lab_of("6.1") else { return };
    stored(&lab, "runs", &[]);
    let words = ["replay", "runs", "--by", "code", "--json", "-q"];
    let own = lab.json(&words);
    let off = |metric: &str| {
        let row = own["metrics"].as_array().unwrap().iter().find(|m| m["metric"] == metric).unwrap();
        let (recorded, replayed) = (row["recorded"].as_f64().unwrap(), row["replayed"].as_f64().unwrap());
        (replayed - recorded).abs() / recorded
    };
    assert!(own["kernel"].as_str().unwrap().starts_with("v6.1."), "{own:.300}");
    assert!(off("cpu_time") <= 0.05 && off("switches.voluntary") <= 0.3, "{own}");
    let under =
        [&words[..], &["--under", "6.1:NO_WAKEUP_PREEMPTION", "--runs", "2", "--out", "replays"]].concat();
    let both = lab.json(&under);
    let cells = both["cells"].as_array().unwrap();
    assert!(cells.len() == 2 && cells.iter().all(|c| c["backend"] == "code"), "{both:.500}");
    lab.says("replay runs --by vm", 2, &["'vm' is not a backend of a replay"]);
}

#[test]
fn an_image_is_built_listed_and_removed_by_name() {
    let Some(lab) = lab_of("6.1") else { return };
    stored(&lab, "runs", &[]);
    let built = lab.json("kernel build --code 6.1 --json -q");
    let (name, path) = (built["name"].as_str().unwrap(), built["path"].as_str().unwrap());
    assert_eq!(built["new"], false, "the run has built it: {built:.300}");
    let text = lab.ok("kernel build --code 6.1 -q");
    for part in [name, "was there already", path, "release 6.1.", "FAIR_GROUP_SCHED", "HZ=250"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let (from, to) = (Path::new(path).parent().unwrap(), lab.path().join("cache/images").join(name));
    std::fs::create_dir_all(&to).unwrap();
    for file in ["image.so", "config", "functions", "image.json"] {
        std::fs::copy(from.join(file), to.join(file)).unwrap();
    }
    // What made a stored run makes it again as long as it is whole.
    let replayed = |code: i32| {
        let mut command = lab.command("replay runs -q");
        let output = command.env("SCHEDLAB_CACHE_DIR", lab.path().join("cache")).output().unwrap();
        let (_, said) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "{said}");
        said
    };
    replayed(0);
    let functions = std::fs::read(to.join("functions")).unwrap();
    std::fs::write(to.join("functions"), [&functions[..], b"\n"].concat()).unwrap();
    assert!(replayed(3).contains("functions of image"), "altered");
    std::fs::write(to.join("functions"), functions).unwrap();
    let list = lab.json("kernel list --cache cache --json");
    let row = &list["code"][0];
    assert_eq!((&row["name"], &row["hash"]), (&built["name"], &built["hash"]), "{row:.300}");
    assert!(
        row["size_bytes"].as_u64().unwrap() > 100_000 && row["last_use_s"].as_u64().is_some(),
        "{row:.300}"
    );
    let shown = lab.ok("kernel list --cache cache");
    assert!(shown.contains("patches: none, used 0 min ago"), "{shown}");
    lab.says("kernel remove base-0 --cache cache", 2, &["'base-0'"]);
    assert!(lab.ok(&["kernel", "remove", name, "--cache", "cache"]).contains("removed"));
    assert!(!to.exists());
}
