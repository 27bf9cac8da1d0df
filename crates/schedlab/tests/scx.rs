//! Sched_ext schedulers on backend 'code'. They need a source package of 7.3 in the cache, from which an image is built
//! once; one test needs 6.12.

use crate::code::lab_of;
use crate::common::{Lab, texts};
use std::path::{Path, PathBuf};

/// Our own smallest scheduler, compiled.
const FIFO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/fifo.bpf.o");
/// Shares CPUs by weight.
const VTIME: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/vtime.bpf.o");

fn lab() -> Option<Lab> {
    lab_of("7.3")
}

/// Runs a load under the fair class and under a scheduler of a kernel; exit code, standard output and standard error.
fn run_under(lab: &Lab, kernel: &str, scx: &str) -> (i32, String, String) {
    let experiment = format!(
        "name = \"scx\"\nabout = \"a test\"\nmachine = \"smt-8\"\nbaseline = \"fair\"\nruns = 2\n\
         metrics = [\"scx.calls.enqueue\", \"scx.instructions.enqueue\", \
         \"scx.kfunc.scx_bpf_dsq_insert___v2\", \"migrations\", \"run_delay.p50\"]\n\
         [workload]\nname = \"hackbench\"\ngroups = 4\nfds = 4\nloops = 20\n\
         [[variant]]\nname = \"fair\"\nkernel = \"{kernel}\"\n\
         [[variant]]\nname = \"ext\"\nkernel = \"{kernel}\"\nscx = \"{scx}\"\n"
    );
    made(lab, &experiment)
}

fn run(lab: &Lab, scx: &str) -> (i32, String, String) {
    run_under(lab, "7", scx)
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
    let (code, _, said) = run_under(&lab, "6.12", FIFO);
    assert_eq!(code, 0, "{said}");
    for counters in counters(&lab, "ext") {
        let calls = count(&counters, "scx.calls.enqueue");
        assert!(calls > 20);
        assert_eq!(count(&counters, "scx.kfunc.scx_bpf_dispatch"), calls, "the name that 6.12 has");
    }
    let lab = Lab::new();
    assert_eq!(run_under(&lab, "6.12", VTIME).0, 0);
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
