//! rt-app files through the binary: files that run, files that are refused, CPUs that the machine does not have, saved
//! logs.

use crate::common::Lab;
use std::collections::BTreeMap;

const ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");

/// Rows of the page's table of rt-app's examples: for each syntax whether it is simulated and run live.
fn page() -> BTreeMap<String, (bool, bool)> {
    let page = std::fs::read_to_string(format!("{ROOT}/docs/workloads.md")).unwrap();
    let (_, rest) = page.split_once("<!-- begin: rtapp-examples -->").unwrap();
    let (table, _) = rest.split_once("<!-- end: rtapp-examples -->").unwrap();
    let rows = table.lines().filter(|l| l.starts_with("| `"));
    let one = |row: &str| {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        (cells[2].to_owned(), (cells[3] == "yes", cells[4] == "yes"))
    };
    rows.map(one).collect()
}

#[test]
fn every_syntax_of_rt_apps_examples_runs_as_the_page_says() {
    let (lab, rows) = (Lab::new(), page());
    assert!(rows.len() > 20, "{rows:?}");
    for (name, (sim, live)) in rows {
        let file = format!("{name}.json");
        let text = std::fs::read_to_string(format!("{ROOT}/crates/workload/tests/rtapp/{file}")).unwrap();
        lab.write(&file, &text);
        let at = format!("bench {file} --backend sim --machine 4cpu -r 60ms");
        if sim {
            assert!(lab.ok(&at).contains("rtapp.period"), "{name}");
            continue;
        }
        let (_, told) = lab.run(&at, 2);
        assert_eq!(live, told.contains("live kernels run it"), "{name}: {told}");
        if !live {
            assert!(told.contains(&format!("error: {file}:")), "{name}: {told}");
            let (_, told) = lab.run(&["bench", &file, "-r", "60ms"], 2);
            assert!(told.contains(&format!("error: {file}:")), "{name}: {told}");
        }
    }
}

#[test]
fn tasks_and_phases_may_ask_for_a_slice_and_old_kernels_warn() {
    let lab = Lab::new();
    let hogs = |name: &str, task: &str| {
        let text = format!(
            r#"{{"global": {{"duration": 1}}, "tasks": {{"t": {{"instance": 2, "cpus": [0], {task}}}}}}}"#
        );
        lab.write(name, &text);
    };
    hogs("plain.json", r#""run": 100000"#);
    hogs("task.json", r#""dl-runtime": 20000, "run": 100000"#);
    hogs("phase.json", r#""phases": {"p": {"loop": -1, "dl-runtime": 20000, "run": 100000}}"#);
    let sim = "bench --backend sim --machine smp-2 --json --kernel";
    let slice =
        |file: &str| lab.json(&format!("{sim} v6.12 {file}"))["metrics"]["slice.p50"]["value"].as_f64();
    assert!(slice("plain.json").unwrap() < 5e6);
    assert!(slice("task.json").unwrap() > 19e6 && slice("phase.json").unwrap() > 19e6);
    for (file, asks) in [("plain.json", false), ("task.json", true), ("phase.json", true)] {
        let told = lab.json(&format!("{sim} v6.5 {file}"))["warnings"].to_string();
        assert_eq!(told.contains("take no notice"), asks, "{told}");
    }
}

/// A CPU that this process may use.
fn own_cpu() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let list = status.lines().find_map(|l| l.strip_prefix("Cpus_allowed_list:")).unwrap().trim();
    list.split([',', '-']).next().unwrap().parse().unwrap()
}

#[test]
fn cpus_that_are_not_there_are_left_out_live_and_all_are_none_named() {
    let lab = Lab::new();
    let cpu = own_cpu();
    lab.write(
        "wide.json",
        &format!(
            r#"{{"tasks": {{"t": {{"loop": 1, "phases": {{
                "wide": {{"cpus": [{cpu}, 4095], "run": 100}}, "all": {{"run": 100}}}}}}}}}}"#
        ),
    );
    assert!(lab.ok("bench wide.json").contains("rtapp.period"));
    lab.write("away.json", "{\"tasks\": {\"t\": {\"loop\": 1,\n\"cpus\": [4095], \"run\": 100}}}");
    lab.says("bench away.json", 3, &["away.json:2:9: task 't-0': may run on CPUs 4095 only"]);
    lab.says(
        "bench away.json --backend sim --machine smp-2",
        2,
        &["away.json:2:9: task 't-0': may run on CPUs 4095 only"],
    );
}

/// A log of rt-app's: repetitions whose run takes so many us.
fn log(thread: u32, run: u32) -> String {
    let head = "# Policy : SCHED_OTHER priority : 0\n#idx     perf      run   period           start             end          rel_st      slack c_duration   c_period     wu_lat\n";
    let row =
        |i: u32| format!("   {thread}    90000 {run} 10000 {i} {i} {i} 4000 1000 10000 {}\n", 60 + i % 5);
    head.to_owned() + &(0..20).map(row).collect::<String>()
}

#[test]
fn logs_of_rt_app_are_compared_thread_by_thread() {
    let lab = Lab::new();
    for (folder, run) in [("old", 1000), ("new", 1500)] {
        for i in 0..5 {
            let path = format!("{folder}{i}");
            std::fs::create_dir(lab.path().join(&path)).unwrap();
            lab.write(&format!("{path}/rt-app-a-0.log"), &log(0, run + i));
            lab.write(&format!("{path}/rt-app-b-1.log"), &log(1, 700 + i));
        }
    }
    let side = |name: &str| {
        let folders: Vec<String> = (0..5).map(|i| format!("{name}{i}")).collect();
        format!("{name}={}", folders.join(","))
    };
    let text = lab.ok(&["compare", &side("old"), &side("new")]);
    let row = |thread: &str| {
        let (_, rest) = text.split_once(thread).unwrap_or_else(|| panic!("{thread}: {text}"));
        rest.lines().find(|l| l.starts_with("run.mean")).unwrap().to_owned()
    };
    assert!(row("rt-app thread 0").contains("+50% !"), "{text}");
    assert!(row("rt-app thread 1").ends_with('='), "{text}");
    lab.says("bench --tool rt-app", 2, &["schedlab compare reads them"]);
}

/// The waits of a file's tasks for their CPU: number, longest in ms. Under CFS a task of low weight begins soon.
fn waits(lab: &Lab, words: &[&str]) -> (u64, f64) {
    let json = lab.json(&[&["bench", "--backend", "sim", "--json"], words].concat());
    let waits =
        |part: &str| json["metrics"][format!("rtapp.wakeup_latency.{part}")]["value"].as_f64().unwrap();
    (waits("count") as u64, waits("max") / 1e6)
}

#[test]
fn a_light_task_next_to_a_hog_runs_from_the_start() {
    // A guest of 6.1 with two CPUs runs the SCHED_IDLE task 313 times in 5 s, 306 of them in time; the longest wait is
    // 103 ms. With eight CPUs a slice of the hog is 24 ms, longer than the 16 ms between two wakeups.
    let (lab, idle) =
        (Lab::new(), concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/files/sched-idle-pinned.json"));
    let text = std::fs::read_to_string(idle).unwrap();
    let nice = text.replace(r#""SCHED_IDLE", "#, r#""SCHED_OTHER", "priority": 19, "#);
    assert_ne!(nice, text);
    lab.write("nice.json", &nice);
    for (machine, kernel, least) in
        [("smp-2", "v6.1", 300), ("smp-8", "v6.1", 200), ("smp-2", "v4.5", 150), ("smp-2", "v7.3", 300)]
    {
        for file in [idle, "nice.json"] {
            let (runs, longest) = waits(&lab, &[file, "--machine", machine, "--kernel", kernel]);
            assert!(
                runs >= least && longest < 110.0,
                "{file}, {kernel} on {machine}: {runs} runs, {longest} ms"
            );
        }
    }
}

#[test]
fn slices_of_all_lengths_on_several_cpus_run_under_7_3() {
    let lab = Lab::new();
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/reports/p08-crash-v73.json");
    for seed in ["1", "2", "3"] {
        let ours = ["--backend", "sim", "--kernel", "v7.3", "--seed", seed, "-r", "1s", "--machine"];
        let slices = ["--tasks", "12", "--hog-slice", "10ms", "--waker-slice", "1ms"];
        lab.ok(&[&["bench", "slice"], &ours[..], &["smp-4"], &slices].concat());
        lab.ok(&[&["bench", file], &ours[..], &["smt-8"]].concat());
    }
    let study = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases/reports/p08-short-slice.toml");
    let brief = ["run", study, "--backend", "sim", "--runs", "1", "--variant", "v7.3"];
    assert!(lab.ok(&brief).contains("v7.3"));
}
