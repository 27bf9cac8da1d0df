//! Sched_ext schedulers on backend 'code'. They need a source package of 7.3 in the cache, from which an image is built
//! once; one test needs 6.12.

use crate::code::lab_of;
use crate::common::{Lab, texts};
use std::path::Path;

/// Our own smallest scheduler, compiled.
const FIFO: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/fifo.bpf.o");

fn lab() -> Option<Lab> {
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
