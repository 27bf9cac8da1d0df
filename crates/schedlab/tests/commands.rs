//! Each command from end to end: what it prints, in every form, and what it leaves behind.

use crate::common;
use crate::common::{Lab, files};
use schedlab_base::testing::skipped;
use std::path::Path;

/// Checks that the lines of a plain table can be pasted into mail.
fn narrow(text: &str) {
    assert!(text.lines().all(|l| l.chars().count() <= 78), "{text}");
}

/// Counts the entries of a list with wrapped lines.
fn firsts(list: &str) -> usize {
    list.lines().filter(|l| !l.starts_with(' ')).count()
}

#[test]
fn a_machine_has_the_costs_of_the_kernel_asked_for() {
    let lab = Lab::new();
    let tick = |kernel: &str| {
        let json = lab.json(&["machine", "icount-4", "--kernel", kernel, "--json"]);
        json["machine"]["costs"]["tick_ns"].as_u64().unwrap()
    };
    assert!(tick("v6.1") > tick("v7.3"));
}

#[test]
fn a_list_and_its_data_have_the_same_entries() {
    let lab = Lab::new();
    for (list, first) in [("study", "idle-sibling "), ("machine", "smp-N ")] {
        let text = lab.ok(list);
        narrow(&text);
        assert!(text.lines().any(|l| l.starts_with(first)), "{text}");
        let json = lab.json(&[list, "--json"]);
        let (name, entries) = json.as_object().unwrap().iter().find(|(_, v)| v.is_array()).unwrap();
        assert_eq!(json["schema"], format!("schedlab/{name}/1"));
        assert_eq!(entries.as_array().unwrap().len(), firsts(&text));
        assert!(entries[0]["about"].as_str().unwrap().len() > 10);
    }
}

#[test]
fn an_experiment_gives_a_table_and_run_folders() {
    let lab = Lab::new();
    let (text, err) = lab.run("run small.toml --timing", 0);
    narrow(&text);
    for part in ["small", "1x2", "1x6", "smp-4", "first-idle", "v4.5", "work", "migrations"] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(err.contains("12 runs made, 0 found; kept in runs"), "{err}");
    assert!(err.contains("events/wakeup") && err.contains("schbench 1x6 first-idle on smp-4"), "{err}");
    let stored = files(&lab.path().join("runs"));
    let experiments =
        stored.iter().filter(|(n, b)| n.ends_with("experiment.toml") && b == common::SMALL.as_bytes());
    assert_eq!((stored.len(), experiments.count()), (24, 12));
    // Again: nothing is made, and the table is the same to the byte.
    let (again, err) = lab.run("run small.toml", 0);
    assert_eq!(again, text);
    assert!(err.contains("0 runs made, 12 found"), "{err}");
}

#[test]
fn same_seed_same_bytes_whatever_the_number_of_jobs() {
    let lab = Lab::new();
    let one = lab.ok("run small.toml --jobs 1 --out one --json");
    let two = lab.ok("run small.toml --jobs 2 --out two --json --timing");
    // Only the folders of the runs differ, as asked for.
    assert!(one.contains("\"one/") && one.replace("\"one/", "\"two/") == two, "the JSON differs");
    let (one, two) = (files(&lab.path().join("one")), files(&lab.path().join("two")));
    assert_eq!(one.len(), 24);
    assert!(one == two, "the records differ");
    let other = lab.ok("run small.toml --seed 2 --out three --json");
    assert!(!other.is_empty() && files(&lab.path().join("three")) != one, "another seed is another run");
}

#[test]
fn a_live_bench_prints_percentiles_and_is_stored_anew_each_time() {
    let lab = Lab::new();
    let words = "bench schbench -m 1 -t 2 -r 1 -c 1000 -s 1000";
    let (text, err) = lab.run(words, 0);
    narrow(&text);
    for part in ["schbench on host", "message_threads=1 threads=2 runtime=1s", "  p50 ", "switches.voluntary"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(err.contains("the run is kept in runs/") && err.contains("/1\n"), "{err}");
    let folder = err.trim().rsplit(' ').next().unwrap();
    assert!(lab.run(&["explain", folder], 3).1.contains("record its events (--events)"));
    let json = lab.json(&format!("{words} --json"));
    assert_eq!((json["schema"].as_str(), json["seed"].as_u64()), (Some("schedlab/run/1"), Some(2)));
    let samples = json["metrics"]["schbench.latency.count"]["value"].as_f64().unwrap();
    // Some 880 on an idle machine; other work may take most of them.
    assert!(samples > 50.0, "{samples} samples in a second");
    // The second run is of the same cell, and is stored beside the first.
    let compared = lab.json("compare runs --json");
    assert_eq!(compared["cells"][0]["runs"], 2);
}

#[test]
fn a_simulated_bench_takes_machine_kernel_and_features() {
    let lab = Lab::new();
    let base = "bench schbench --backend sim --machine smp-4 -r 0.2 -s 1000 -c 1000 --json";
    let with = |more: &str| lab.json(&format!("{base} {more}"));
    let plain = with("--kernel v4.5");
    let first = with("--kernel v4.5 --feature SIS_FIRST_IDLE --tunable hz=1000");
    assert_eq!(first["variant"], "v4.5:SIS_FIRST_IDLE,hz=1000");
    assert_eq!((plain["kernel"].as_str(), plain["machine"].as_str()), (Some("v4.5"), Some("smp-4")));
    assert_ne!(plain["metrics"], first["metrics"]);
    assert_eq!(plain, with("--kernel v4.5"), "the same again");
    // Options may stand before the workload, too.
    let before = lab.json("bench --backend sim --machine smp-4 --json schbench -r 0.2");
    assert_eq!(before["backend"], "sim");
}

/// The words of a run of the slice test by themselves: average slice and user time of each line.
fn slices(text: &str) -> Vec<(f64, f64)> {
    let line = |l: &str| {
        let rest = l.strip_prefix("avg slice: ")?;
        let (slice, rest) = rest.split_once(" utime: ")?;
        Some((slice.parse().ok()?, rest.split_once(" | ")?.0.parse().ok()?))
    };
    text.lines().filter(|l| !l.starts_with("--")).map(|l| line(l).unwrap_or_else(|| panic!("{l}"))).collect()
}

#[test]
fn the_slice_test_prints_like_the_document() {
    let lab = Lab::new();
    let sim = "bench slice --backend sim --machine smp-2 --kernel v4.5 --runtime 5s";
    let text = lab.ok(&format!("{sim} --tasks 8 --format slice"));
    narrow(&text);
    let woken = slices(&text);
    // Four whole intervals, two CPUs among eight processes: a quarter of a second each.
    assert!(woken.len() == 4 && woken.iter().all(|(_, utime)| (240e3..260e3).contains(utime)), "{text}");
    assert!(
        woken.iter().all(|(slice, _)| (slice * 8.0).fract().min(1.0 - (slice * 8.0).fract()) < 0.05),
        "{text}"
    );
    let calm = slices(&lab.ok(&format!("{sim} --tasks 8 --rate 0 --format slice")));
    assert!(calm[1].0 > 1.5 * woken[1].0, "{calm:?} {woken:?}");
    let json = lab.json(&format!("{sim} --tasks 8 --json"));
    let metric = |name: &str| json["metrics"][name]["value"].as_f64().unwrap_or_else(|| panic!("{name}"));
    let [hogs, wakers] = ["hog", "waker"].map(|g| metric(&format!("task.{g}.cpu_time")));
    assert!((9.8e9..=10e9).contains(&(hogs + wakers + metric("task.sampler.cpu_time"))), "{hogs} {wakers}");
    assert!(metric("slice.preempted_by.waker") > 1_000.0 && metric("task.hog.cpu0.slice.mean") > 0.0);
    assert!(
        metric("task.hog.slice.mean") < metric("slice.slice.mean"),
        "preempted before their slice was used up"
    );
    let starts: Vec<u64> =
        json["intervals"].as_array().unwrap().iter().map(|i| i["start"].as_u64().unwrap()).collect();
    assert!(starts.len() == 4 && starts.is_sorted() && starts[1] > 1_000_000_000, "{starts:?}");
    lab.says("bench schbench --backend sim --format slice", 2, &["no slices to print"]);
}

#[test]
fn the_slice_test_runs_live() {
    let lab = Lab::new();
    let words = "bench slice --tasks 2 --rate 100 --interval 300ms --runtime 1s";
    let seen = slices(&lab.ok(&format!("{words} --format slice")));
    assert!((1..=3).contains(&seen.len()) && seen.iter().all(|(_, utime)| *utime < 2e6), "{seen:?}");
    let json = lab.json(&format!("{words} --mode thread --json"));
    let hogs = json["metrics"]["task.hog.cpu_time"]["value"].as_f64().unwrap();
    assert!(hogs > 0.05e9 && hogs < 2.5e9, "{hogs}");
    assert!(json["metrics"]["task.waker.switches.voluntary"]["value"].as_f64().unwrap() > 20.0);
}

#[test]
fn kernels_are_listed_and_files_that_are_none_are_reported() {
    let lab = Lab::new();
    lab.write("vmlinux", "\u{7f}ELF and more");
    lab.says("kernel list vmlinux", 2, &["vmlinux is an ELF file", "bzImage"]);
    let mut image = vec![0u8; 0x2000];
    for (at, bytes) in [(0x1fe, &[0x55, 0xaa][..]), (0x202, b"HdrS\x0f\x02"), (0x20f, &[0x10]), (0x211, &[1])]
    {
        image[at..at + bytes.len()].copy_from_slice(bytes);
    }
    image[0x236] = 1;
    let banner = b"6.1.0-56-cloud-amd64 (k@x) #1 SMP Debian 6.1.192-2";
    image[0x1200..0x1200 + banner.len()].copy_from_slice(banner);
    std::fs::write(lab.path().join("vmlinuz"), image).unwrap();
    let listed = lab.json("kernel list vmlinuz --cache none --json");
    let own = &listed["images"][0];
    assert_eq!((&own["release"], &own["version"]), (&"6.1.0-56-cloud-amd64".into(), &"v6.1.192".into()));
    assert_eq!((&own["origin"], &own["size_bytes"]), (&"given".into(), &0x2000.into()));
    assert!(lab.run("kernel fetch six", 2).1.contains("6.12"));
}

/// The examples of docs/automation.md, from top to bottom. SCHEDLAB_PYTHON names another interpreter.
#[test]
fn the_python_page_runs() {
    let python = std::env::var("SCHEDLAB_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = |module: &str| {
        let out = std::process::Command::new(&python).args(["-c", &format!("import {module}")]).output();
        out.is_ok_and(|o| o.status.success())
    };
    if !has("pandas") {
        skipped(format!("pandas for {python}"));
        return;
    }
    let page =
        std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/automation.md"))
            .unwrap();
    let lab = Lab::new();
    std::fs::rename(lab.path().join("small.toml"), lab.path().join("mine.toml")).unwrap();
    let (mut kind, mut script) = ("", String::new());
    for line in page.lines() {
        match (line.strip_prefix("```"), kind) {
            (Some(next), "") => kind = next,
            (Some(_), _) => kind = "",
            (None, "python") => script += &format!("{line}\n"),
            _ => {}
        }
    }
    lab.write("page.py", &script);
    let package = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../python/src");
    let out = std::process::Command::new(&python)
        .arg("page.py")
        .current_dir(lab.path())
        .env("SCHEDLAB", assert_cmd::cargo::cargo_bin("schedlab"))
        .env("PYTHONPATH", package)
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .output()
        .unwrap();
    let (text, err) = common::texts(&out);
    assert!(out.status.success(), "{text}\n{err}");
    for words in ["schbench.latency.p50", "first-idle", "p99 in us:"] {
        assert!(text.contains(words), "{words} in {text}");
    }
}
