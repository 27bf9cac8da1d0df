//! Sched_ext schedulers on backend 'code'. They need a source package of 7.3 in the cache, and pahole, from which an
//! image is built once.

use crate::code::lab_of;
use crate::common::{Lab, texts};
use schedlab_base::testing::skipped;
use std::path::Path;

/// Our own smallest scheduler, compiled.
const FIFO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/fifo.bpf.o");

fn lab() -> Option<Lab> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    if !std::env::split_paths(&path).any(|folder| folder.join("pahole").is_file()) {
        skipped("pahole (Debian: apt-get install dwarves)".to_owned());
        return None;
    }
    lab_of("7.3")
}

/// Runs a load under the fair class and under a scheduler; exit code, standard output and standard error.
fn run(lab: &Lab, scx: &str) -> (i32, String, String) {
    let experiment = format!(
        "name = \"scx\"\nabout = \"a test\"\nmachine = \"smt-8\"\nbaseline = \"fair\"\nruns = 2\n\
         metrics = [\"scx.calls.enqueue\", \"scx.instructions.enqueue\", \
         \"scx.kfunc.scx_bpf_dsq_insert___v2\", \"migrations\", \"run_delay.p50\"]\n\
         [workload]\nname = \"hackbench\"\ngroups = 4\nfds = 4\nloops = 20\n\
         [[variant]]\nname = \"fair\"\nkernel = \"7\"\n\
         [[variant]]\nname = \"ext\"\nkernel = \"7\"\nscx = \"{scx}\"\n"
    );
    lab.write("scx.toml", &experiment);
    let words = ["run", "scx.toml", "--backend", "code", "--json", "--quiet"];
    let output = lab.command(&words).output().unwrap();
    let (out, said) = texts(&output);
    (output.status.code().unwrap_or(-1), out, said)
}

#[test]
fn a_compiled_scheduler_has_the_tasks_and_runs_are_the_same_every_time() {
    let Some(one) = lab() else { return };
    let other = Lab::new();
    let (code, out, said) = run(&one, FIFO);
    assert_eq!(code, 0, "{said}");
    assert_eq!(run(&other, FIFO).0, 0);
    let cells = |lab: &Lab| -> Vec<serde_json::Value> {
        let all = lab.records("runs").into_iter().filter(|record| record["variant"]["name"] == "ext");
        all.map(|record| record["counters"].clone()).collect()
    };
    let (first, second) = (cells(&one), cells(&other));
    assert_eq!(first.len(), 2);
    assert_eq!(first, second, "{out}");
    for counters in &first {
        let of = |name: &str| counters[name].as_u64().unwrap_or_else(|| panic!("{name} in {counters}"));
        let (calls, executed) = (of("scx.calls.enqueue"), of("scx.instructions.enqueue"));
        // The program is short, and calls whichever of its two functions the kernel has.
        assert!(calls > 20 && executed >= 6 * calls && executed <= 14 * calls, "{calls} {executed}");
        assert_eq!(of("scx.kfunc.scx_bpf_dsq_insert___v2"), calls);
    }
    let fair = one.records("runs").into_iter().find(|record| record["variant"]["name"] == "fair").unwrap();
    assert!(fair["counters"]["scx.calls.enqueue"].is_null());
}

/// The tasks of a mix: two that compute, and a real-time one that comes every 10 ms.
const MIX: &str = r#"{ "tasks": {
    "plain": { "loop": -1, "run": 1000 }, "ext": { "loop": -1, "run": 1000 },
    "rt": { "policy": "SCHED_FIFO", "priority": 10, "loop": -1, "run": 1000,
            "timer": { "ref": "t", "period": 10000 } }
} , "global": { "duration": 3 } }"#;

/// Runs the mix on one CPU under variants, of which each has the kernel's series; the records by variant.
fn mixed(lab: &Lab, variants: &[(&str, &str)]) -> std::collections::BTreeMap<String, serde_json::Value> {
    lab.write("mix.json", MIX);
    let mut experiment =
        "name = \"mix\"\nabout = \"a test\"\nmachine = \"smp-1\"\nruns = 1\n[workload]\nrtapp = \"mix.json\"\n"
            .to_owned();
    for (name, more) in variants {
        experiment += &format!("[[variant]]\nname = \"{name}\"\nkernel = \"7.3\"\n{more}\n");
    }
    lab.write("mix.toml", &experiment);
    let output = lab.command(&["run", "mix.toml", "--backend", "code", "--quiet"]).output().unwrap();
    let (_, said) = texts(&output);
    assert_eq!(output.status.code(), Some(0), "{said}");
    let of = |record: serde_json::Value| {
        let is_ours = record["backend"] == "code";
        is_ours.then(|| (record["variant"]["name"].as_str().unwrap_or_default().to_owned(), record))
    };
    lab.records("runs").into_iter().filter_map(of).collect()
}

/// CPU time of a task of the mix, in percent of the run.
fn share(record: &serde_json::Value, task: &str) -> f64 {
    let all = record["tasks"].as_array().unwrap_or_else(|| panic!("no tasks in {record}"));
    let of = |t: &&serde_json::Value| t["name"].as_str().is_some_and(|name| name.starts_with(task));
    let ns =
        all.iter().find(of).and_then(|t| t["cpu_time"].as_u64()).unwrap_or_else(|| panic!("{task}: {all:?}"));
    ns as f64 / 30_000_000.0
}

#[test]
fn classes_stand_above_and_below_sched_ext_as_in_the_kernel() {
    let Some(lab) = lab() else { return };
    let whole = format!("scx = \"{FIFO}\"");
    let partial = format!(
        "scx = \"{FIFO} ops.flags=SCX_OPS_SWITCH_PARTIAL\"\ntasks = {{ ext = {{ policy = \"ext\" }} }}"
    );
    let found = mixed(&lab, &[("whole", &whole), ("partial", &partial)]);
    let (whole, partial) = (&found["whole"], &found["partial"]);
    // All tasks but the real-time one are the scheduler's, which treats them alike.
    let (plain, ext) = (share(whole, "plain"), share(whole, "ext"));
    assert!(plain > 40.0 && (plain - ext).abs() < 2.0, "{plain} {ext}");
    // The scheduler's slice is 5 ms, and the real-time task does not wait for its end.
    assert!(share(whole, "rt") > 9.5 && whole["waits"][0]["length_ns"].as_u64() < Some(1_000_000));
    // The fair class stands above sched_ext, whose server has 50 ms of each second.
    let (plain, ext) = (share(partial, "plain"), share(partial, "ext"));
    assert!((4.0..7.0).contains(&ext) && plain > 80.0, "{plain} {ext}");
    let calls = |record: &serde_json::Value| record["counters"]["scx.calls.enqueue"].as_u64().unwrap();
    assert!(calls(partial) < 100 && calls(whole) > 300, "{} {}", calls(partial), calls(whole));
}

#[test]
fn schedulers_come_and_go_in_the_middle_of_a_run() {
    let Some(lab) = lab() else { return };
    let partial = format!("{FIFO} ops.flags=SCX_OPS_SWITCH_PARTIAL");
    let changes = format!(
        "scx = \"{FIFO}\"\n[[variant.at]]\ntime = \"1s\"\nscx = \"none\"\n\
         [[variant.at]]\ntime = \"2s\"\nscx = \"{partial}\""
    );
    let found = mixed(&lab, &[("whole", &format!("scx = \"{FIFO}\"")), ("changes", &changes)]);
    let calls = |name: &str| found[name]["counters"]["scx.calls.enqueue"].as_u64().unwrap();
    // It has them for the first second only: the last one takes tasks of SCHED_EXT, and there are none.
    let (whole, changes) = (calls("whole"), calls("changes"));
    assert!(changes * 5 > whole && changes * 5 < 2 * whole, "{changes} of {whole}");
    let ends = &found["changes"]["environment"]["scx.exit"];
    assert!(
        ends.as_str().is_some_and(|ends| ends.starts_with("kind 64") && ends.ends_with("to the end")),
        "{ends}"
    );
}

#[test]
fn explain_says_which_operation_put_a_task_where() {
    let Some(lab) = lab() else { return };
    let (code, _, said) = run(&lab, FIFO);
    assert_eq!(code, 0, "{said}");
    let words = ["explain", "scx.toml", "--backend", "code", "--variant", "ext", "--worst", "3"];
    let (text, said) = texts(&lab.command(&words).output().unwrap());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("dsq: sched_ext: most of the wait went by in a dispatch queue"), "{text} {said}");
    assert!(text.contains("put it into the global DSQ; there for"), "{text}");
    assert!(!text.contains("still_queued") && !text.contains("about to go idle"), "{text}");
    assert!(text.contains("under the sched_ext scheduler schedlab_fifo: it has run to the end"), "{text}");
    let record = lab.records("runs").into_iter().find(|record| record["variant"]["name"] == "ext").unwrap();
    let of = |name: &str| record["counters"][name].as_u64().unwrap_or_else(|| panic!("{name}"));
    // Many tasks on 8 CPUs were in the one queue; no other queue of the scheduler's is there.
    assert!(of("scx.dsq.max.global") > 8 && of("scx.dsq.time.global") > 0);
    assert!(record["counters"]["scx.dsq.max.user"].is_null());
    // A kernel enables a scheduler in bypass mode.
    assert_eq!(of("scx.event.bypass_activate"), 1);
}

#[test]
fn what_is_not_a_scheduler_is_refused_by_its_name() {
    let Some(lab) = lab() else { return };
    let (code, _, said) = run(&lab, "/bin/true");
    assert!(code == 2 && said.contains("/bin/true has attached no scheduler"), "{code} {said}");
    let (code, _, said) = run(&lab, &format!("{FIFO} slise=5"));
    assert!(code == 2 && said.contains("slise"), "{code} {said}");
    let cut = lab.path().join("cut.bpf.o");
    std::fs::write(&cut, &std::fs::read(Path::new(FIFO)).unwrap()[..1000]).unwrap();
    let (code, _, said) = run(&lab, cut.to_str().unwrap());
    assert!(code == 2 && said.contains("cut.bpf.o"), "{code} {said}");
}
