//! Sched_ext schedulers on backend 'code'. They need a source package of 7.3 in the cache, from which an image is built
//! once; one test needs 6.12.

use crate::code::lab_of;
use crate::common::{Lab, texts};
use std::path::{Path, PathBuf};

/// Our own smallest scheduler, compiled.
pub const FIFO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/fifo.bpf.o");
/// Shares CPUs by weight.
const VTIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/vtime.bpf.o");

pub fn lab() -> Option<Lab> {
    lab_of("7.3")
}

/// Runs a load under the fair class and under a scheduler of a kernel; exit code, standard output and standard error.
fn run_under(lab: &Lab, kernel: &str, scx: &str, loops: u32) -> (i32, String, String) {
    let experiment = format!(
        "name = \"scx\"\nabout = \"a test\"\nmachine = \"smt-8\"\nbaseline = \"fair\"\nruns = 2\n\
         metrics = [\"scx.calls.enqueue\", \"scx.instructions.enqueue\", \
         \"scx.kfunc.scx_bpf_dsq_insert___v2\", \"migrations\", \"run_delay.p50\"]\n\
         [workload]\nname = \"hackbench\"\ngroups = 4\nfds = 4\nloops = {loops}\n\
         [[variant]]\nname = \"fair\"\nkernel = \"{kernel}\"\n\
         [[variant]]\nname = \"ext\"\nkernel = \"{kernel}\"\nscx = \"{scx}\"\n"
    );
    made(lab, &experiment)
}

fn run(lab: &Lab, scx: &str) -> (i32, String, String) {
    run_under(lab, "7", scx, 20)
}

/// Makes the runs of an experiment.
fn made(lab: &Lab, experiment: &str) -> (i32, String, String) {
    lab.write("scx.toml", experiment);
    let words = ["run", "scx.toml", "--backend", "code", "--json", "--quiet"];
    let temp = lab.path().join("temp");
    std::fs::create_dir_all(&temp).unwrap();
    let output = lab.command(&words).env("TMPDIR", &temp).output().unwrap();
    let (out, said) = texts(&output);
    let left = std::fs::read_dir(&temp).unwrap().flatten().map(|entry| entry.path());
    assert_eq!(left.collect::<Vec<_>>(), Vec::<PathBuf>::new(), "a run leaves nothing behind");
    (output.status.code().unwrap_or(-1), out, said)
}

/// The counters of a scheduler's runs.
fn counters(lab: &Lab, variant: &str) -> Vec<serde_json::Value> {
    let all = lab.records("runs").into_iter().filter(|record| record["variant"]["name"] == variant);
    all.map(|record| record["counters"].clone()).collect()
}

fn count(counters: &serde_json::Value, name: &str) -> u64 {
    counters[name].as_u64().unwrap_or_else(|| panic!("{name} in {counters}"))
}

#[test]
fn a_compiled_scheduler_has_the_tasks_and_runs_are_the_same_every_time() {
    let Some(one) = lab() else { return };
    let other = Lab::new();
    let (code, out, said) = run(&one, FIFO);
    assert_eq!(code, 0, "{said}");
    assert_eq!(run(&other, FIFO).0, 0);
    let (first, second) = (counters(&one, "ext"), counters(&other, "ext"));
    assert_eq!(first.len(), 2);
    assert_eq!(first, second, "{out}");
    for counters in &first {
        let of = |name: &str| count(counters, name);
        let (calls, executed) = (of("scx.calls.enqueue"), of("scx.instructions.enqueue"));
        // The program is short, and calls whichever of its functions the kernel has.
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
        ends.as_str()
            .is_some_and(|ends| ends.starts_with("schedlab_fifo: kind 64") && ends.ends_with("to the end")),
        "{ends}"
    );
    // A verdict of a guest stands beside the records, not in them.
    let facts = found["changes"]["environment"].as_object().unwrap();
    assert!(!facts.contains_key("scx.verifier"), "{facts:?}");
    let shown = lab.json(&["runs", "show", "--variant", "changes", "--backend", "code", "--json"]);
    assert_eq!(shown["environment"]["scx.verifier"], "fifo: not asked; fifo: not asked", "{shown:.900}");
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
fn decisions_take_no_time_of_a_machine_on_which_events_do() {
    let Some(lab) = lab() else { return };
    let variant = |name: &str, scx: &str| format!("[[variant]]\nname = \"{name}\"\nkernel = \"7\"\n{scx}\n");
    // A guest writes down its wakeups and switches, for 1.45 us each, and no decisions.
    let experiment = |tasks: u32| {
        format!(
            "name = \"scx\"\nabout = \"a test\"\nmachine = \"icount-4\"\nbaseline = \"fair\"\nruns = 1\n\
             metrics = [\"run_delay.p50\"]\n\
             [workload]\nname = \"nanosleep\"\ntasks = {tasks}\nruntime = \"40ms\"\n{}{}{}",
            variant("fair", ""),
            variant("fifo", &format!("scx = \"{FIFO}\"")),
            variant("vtime", &format!("scx = \"{VTIME}\"")),
        )
    };
    let under = |store: &str, name: &str| {
        let mut all = lab.records(store).into_iter();
        all.find(|record| record["backend"] == "code" && record["variant"]["name"] == name).unwrap()
    };
    // Alone, a task waits and runs as long under each scheduler.
    let (code, _, said) = made(&lab, &experiment(1));
    assert_eq!(code, 0, "{said}");
    let alone = |name: &str| {
        let of = under("runs", name);
        let least = |series: &str| of["series"][series]["min"].as_u64().unwrap();
        (least("run_delay"), least("slice"), of["counters"]["wakeups"].as_u64().unwrap())
    };
    let fair = alone("fair");
    assert!(fair.0 > 1_450 && fair.2 > 100, "{fair:?}");
    assert_eq!((alone("fifo"), alone("vtime")), (fair, fair));
    // What is kept of a run, and what is asked about it later, changes nothing of it.
    lab.write("scx.toml", &experiment(12));
    let line = "run scx.toml --backend code --quiet --variant fifo --out";
    lab.run(&format!("{line} plain"), 0);
    lab.run(&format!("{line} kept --keep-events"), 0);
    assert!(under("plain", "fifo")["counters"]["scx.dsq.max.global"].as_u64() > Some(1));
    for part in ["series", "counters", "tasks", "waits"] {
        assert_eq!(under("plain", "fifo")[part], under("kept", "fifo")[part], "{part}");
    }
    // It makes the run again, and refuses another one than the stored.
    lab.run("explain scx.toml --backend code --variant fifo --out plain", 0);
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

#[test]
fn an_object_runs_on_the_first_series_with_sched_ext() {
    let Some(lab) = lab_of("6.12") else { return };
    let (code, _, said) = run_under(&lab, "6.12", FIFO, 20);
    assert_eq!(code, 0, "{said}");
    for counters in counters(&lab, "ext") {
        let calls = count(&counters, "scx.calls.enqueue");
        assert!(calls > 20);
        assert_eq!(count(&counters, "scx.kfunc.scx_bpf_dispatch"), calls, "the name that 6.12 has");
    }
    let lab = Lab::new();
    assert_eq!(run_under(&lab, "6.12", VTIME, 20).0, 0);
    assert!(count(&counters(&lab, "ext")[0], "scx.kfunc.scx_bpf_consume") > 20);
}

#[test]
fn a_queue_by_weighted_time_shares_as_nice_levels_say() {
    let Some(lab) = lab() else { return };
    let variant = |name: &str, scx: &str| {
        format!("[[variant]]\nname = \"{name}\"\nkernel = \"7\"\n{scx}\n[variant.tasks.batch]\nnice = 3\n")
    };
    let scx = |object: &str| format!("scx = \"{object}\"");
    let experiment = format!(
        "name = \"shares\"\nabout = \"a test\"\nmachine = \"smp-4\"\nbaseline = \"fair\"\nruns = 1\n\
         metrics = [\"task.hog.cpu_time\", \"task.batch.cpu_time\"]\n\
         [workload]\nname = \"hogs\"\ntasks = 4\nruntime = \"2s\"\n\
         [[beside]]\nname = \"hogs\"\ntasks = 4\ncalled = \"batch\"\n{}{}{}",
        variant("fair", ""),
        variant("vtime", &scx(VTIME)),
        variant("fifo", &scx(FIFO)),
    );
    let (code, out, said) = made(&lab, &experiment);
    assert_eq!(code, 0, "{said}");
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    // Nice 3 weighs 526 of 1024.
    for (name, least, most) in [("fair", 1.85, 2.05), ("vtime", 1.85, 2.05), ("fifo", 0.98, 1.02)] {
        let mut cells = out["cells"].as_array().unwrap().iter();
        let cell = cells.find(|cell| cell["variant"] == name && cell["backend"] == "code").unwrap();
        let time = |task: &str| cell["metrics"][format!("task.{task}.cpu_time")]["mean"].as_f64().unwrap();
        let share = time("hog") / time("batch");
        assert!(share >= least && share <= most, "{name}: {share}");
    }
}

/// Numbers of a seed (a linear congruential generator).
struct Draws(u64);

impl Draws {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end
    }
}

/// Changes an object somewhere: in its instructions, in any part, or by its end.
fn spoiled(object: &[u8], draws: &mut Draws) -> Vec<u8> {
    let mut bytes = object.to_vec();
    match draws.below(4) {
        0 => bytes.truncate(draws.below(object.len())),
        1 => (0..4).for_each(|_| bytes[draws.below(object.len())] ^= 1 << draws.below(8)),
        _ => {
            // Instructions follow the file's header.
            let at = 64 + 8 * draws.below(60) + draws.below(8);
            bytes[at] = draws.below(256) as u8;
        }
    }
    bytes
}

#[test]
fn a_spoiled_object_is_refused_or_ends_its_own_run_with_one_error() {
    let Some(lab) = lab() else { return };
    let mut draws = Draws(56);
    let mut ended = [0; 2];
    for number in 0..24 {
        let object = std::fs::read([FIFO, VTIME][number % 2]).unwrap();
        let path = lab.path().join("spoiled.bpf.o");
        std::fs::write(&path, spoiled(&object, &mut draws)).unwrap();
        let experiment = format!(
            "name = \"spoiled\"\nabout = \"a test\"\nmachine = \"smp-4\"\nbaseline = \"x\"\nruns = 1\n\
             [workload]\nname = \"schbench\"\nruntime = \"20ms\"\n\
             [[variant]]\nname = \"x\"\nkernel = \"7\"\nscx = \"{}\"\n",
            path.display()
        );
        let (code, _, said) = made(&lab, &experiment);
        assert!(matches!(code, 0 | 2), "object {number} ends with {code}: {said}");
        assert_eq!(said.matches("schedlab: error:").count(), usize::from(code != 0), "{number}: {said}");
        assert!(!said.contains("panicked"), "{number}: {said}");
        ended[usize::from(code != 0)] += 1;
    }
    assert!(ended.iter().all(|n| *n > 2), "some run, some are refused: {ended:?}");
}

/// A scheduler whose programs compare the runtime with a kernel, and one that asks for a function without room for a
/// jump to its programs: the image's synchronize_rcu() has nothing to do.
pub const RUNTIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects/runtime.bpf.o");
const NOWHERE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/objects/nowhere.bpf.o");

#[test]
fn programs_see_a_kernels_maps_and_run_where_they_are_attached() {
    let Some(lab) = lab() else { return };
    let steps =
        ["flags", "evictions", "fields", "walks", "sized", "rings"].map(|name| format!("run:{name}="));
    let (code, _, said) = run_under(&lab, "7", &format!("{RUNTIME} {}", steps.join(" ")), 800);
    // A program that returns anything but 0 gives the line of its source.
    assert_eq!(code, 0, "{said}");
    for record in lab.records("runs").into_iter().filter(|record| record["variant"]["name"] == "ext") {
        let counters = &record["counters"];
        let of = |name: &str| counters[format!("scx.kfunc.{name}")].as_u64().unwrap_or(0);
        let (switches, begins, ends) =
            (of("bpf_task_acquire"), of("bpf_task_release"), of("bpf_rcu_read_lock"));
        assert!(switches > 100, "sched_switch: {counters}");
        assert!(begins > 0 && begins == ends, "scx_tick begins and ends: {counters}");
        assert_eq!(of("bpf_preempt_disable"), 1, "bpf_scx_reg");
        let woken = of("bpf_task_from_pid");
        assert!(woken > 100 && woken == of("bpf_strlen"), "try_to_wake_up begins and ends: {counters}");
        // 4 groups of 4 senders and 4 receivers.
        assert!(of("bpf_cast_to_kern_ctx") >= 32, "sched_process_fork: {counters}");
        let environment = &record["environment"];
        assert_eq!(environment["scx.untraced"], "never (tp_btf/of_another_kernel)");
        assert_eq!(environment["scx.rings"], "ring: 3");
    }
}

/// Callers of task_h_load(), a static function, keep values in registers that it does not change.
#[test]
fn programs_at_a_static_function_change_nothing() {
    let Some(lab) = lab() else { return };
    let object = std::fs::read(RUNTIME).unwrap();
    let variant = |name: &str, place: &[u8; 18]| {
        let usual = b"fentry/bpf_scx_reg";
        let mut own = object.clone();
        let places: Vec<usize> = (0..own.len() - 18).filter(|at| own[*at..].starts_with(usual)).collect();
        places.iter().for_each(|at| own[*at..at + 18].copy_from_slice(place));
        std::fs::write(lab.path().join(format!("{name}.bpf.o")), own).unwrap();
        let scx = format!("{name}.bpf.o ops.flags=SCX_OPS_SWITCH_PARTIAL");
        format!("[[variant]]\nname = \"{name}\"\nkernel = \"7\"\nscx = \"{scx}\"\n")
    };
    let variants = [
        variant("elsewhere", b"fentry/bpf_scx_reg"),
        variant("begin", b"fentry/task_h_load"),
        variant("end", b"fexit/task_h_load\0"),
    ];
    let experiment = format!(
        "name = \"static\"\nabout = \"a test\"\nmachine = \"nodes-2x4\"\nbaseline = \"elsewhere\"\nruns = 1\n\
         metrics = [\"migrations\"]\n[workload]\nname = \"forks\"\nparents = 12\nruntime = \"200ms\"\n{}",
        variants.concat()
    );
    let (code, _, said) = made(&lab, &experiment);
    assert_eq!(code, 0, "{said}");
    let [elsewhere, begin, end] = ["elsewhere", "begin", "end"].map(|name| counters(&lab, name).remove(0));
    for there in [begin, end] {
        assert!(count(&there, "scx.kfunc.bpf_preempt_disable") > 100, "{there}");
        for counter in ["migrations", "wakeups"] {
            assert_eq!(count(&there, counter), count(&elsewhere, counter), "{counter}");
        }
    }
}

#[test]
fn a_program_that_goes_wrong_ends_the_run_by_its_name_and_place() {
    let Some(lab) = lab() else { return };
    let fails = |values: &str| {
        let (code, _, said) = run(&lab, &format!("{RUNTIME} {values}"));
        assert_eq!(code, 2, "{said}");
        said
    };
    let wild = fails("fault=1");
    assert!(wild.contains("the scheduler failed: BPF program enqueue, instruction "), "{wild}");
    assert!(
        wild.contains("(runtime.bpf.c:") && wild.contains("it reads or writes at 0x123456789000"),
        "{wild}"
    );
    let unknown = fails("fault=2");
    assert!(unknown.contains("it reaches helper 100000, which the kernel lacks"), "{unknown}");
    let given = fails("fault=3");
    assert!(
        given.contains("BPF program enqueue, ") && given.contains("it calls scx_bpf_dsq_insert"),
        "{given}"
    );
    let returned = fails("expected=7 run:fails=");
    assert!(returned.contains("fails returns 7"), "{returned}");
}

#[test]
fn a_program_for_a_function_that_leads_nowhere_is_refused() {
    let Some(lab) = lab() else { return };
    let (code, _, said) = run(&lab, NOWHERE);
    assert!(
        code == 2 && said.contains("program nowhere can't be attached to fentry/synchronize_rcu"),
        "{said}"
    );
}

#[test]
fn a_program_that_reaches_into_nothing_ends_its_run_with_the_place() {
    let Some(lab) = lab() else { return };
    let mut object = std::fs::read(FIFO).unwrap();
    // Behind the file's header, enqueue's first instructions: r0 = 0x10000, and an atomic addition there.
    object[64..80].copy_from_slice(&[0xb7, 0, 0, 0, 0, 0, 1, 0, 0xdb, 0, 0, 0, 0, 0, 0, 0]);
    let path = lab.path().join("nowhere.bpf.o");
    std::fs::write(&path, object).unwrap();
    let (code, _, said) = run(&lab, path.to_str().unwrap());
    assert_eq!((code, said.matches("schedlab: error:").count()), (2, 1), "{said}");
    assert!(said.contains("reads or writes at 0x10000") && said.contains("bpf_atomic.c"), "{said}");
}
