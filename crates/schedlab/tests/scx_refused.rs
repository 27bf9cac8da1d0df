//! What can't be run under a sched_ext scheduler is refused before the work begins, with the thing, the place and the
//! remedy. None of it needs a kernel.

use crate::common::Lab;
use crate::scx::FIFO;

/// An experiment under a scheduler and a change of it.
fn experiment(first: &str, later: &str) -> String {
    format!(
        "name = \"x\"\nabout = \"a test\"\nmachine = \"smp-4\"\nbaseline = \"x\"\nruns = 1\n\
         [workload]\nname = \"schbench\"\nruntime = \"20ms\"\n\
         [[variant]]\nname = \"x\"\nkernel = \"7\"\nscx = {first}\n[[variant.at]]\ntime = \"5ms\"\nscx = {later}\n"
    )
}

#[test]
fn what_is_not_the_text_of_a_command_is_refused_in_its_place() {
    let lab = Lab::new();
    let fifo = format!("\"{FIFO}\"");
    let says = |first: &str, later: &str, words: &[&str]| {
        lab.write("x.toml", &experiment(first, later));
        lab.says("run x.toml --backend code", 2, words);
    };
    let form = "\"FILE.bpf.o NAME=VALUE\"";
    says(&fifo, "3", &["x.toml:15:7", "scx in [[at]] is the text of a command, and not '3'", form]);
    says(&fifo, "\"\"", &["x.toml:15:7", "and not ''", "or \"none\" from there on"]);
    says(&fifo, "{ sweep = [\"none\", 5] }", &["x.toml:15:26", "and not '5'"]);
    says("\"\"", "\"none\"", &["x.toml:12:7", "scx is empty", form]);
    says("3", "\"none\"", &["x.toml:12:7", "string", form]);
}

#[test]
fn a_file_that_is_not_a_scheduler_is_named_with_what_would_be_one() {
    let lab = Lab::new();
    lab.write("text.bpf.o", "text");
    let bench = |scx: &'static str| ["bench", "schbench", "--runtime", "20ms", "--scx", scx];
    lab.says(
        &bench("./missing.bpf.o"),
        2,
        &["can't find the scheduler ./missing.bpf.o", "working folder", "PATH"],
    );
    lab.says(
        &bench("./text.bpf.o"),
        2,
        &["text.bpf.o is neither a compiled object of BPF nor an executable program", "clang -target bpf"],
    );
    let spaces = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/scx/fifo.bpf.o slice_ns = 5");
    lab.says(
        &bench(spaces),
        2,
        &["'slice_ns' behind fifo: what follows an object is NAME=VALUE", "without spaces"],
    );
    lab.says(&bench("no-such-scheduler"), 3, &["'no-such-scheduler' is not installed here", "found by PATH"]);
}

#[test]
fn a_real_kernel_is_not_given_an_object() {
    let lab = Lab::new();
    let object =
        ["is a compiled object, which a real kernel takes from a program", "the scheduler's own program"];
    for words in [
        &["bench", "schbench", "--backend", "host", "--scx", FIFO][..],
        &["bench", "schbench", "--backend", "vm", "--scx", FIFO],
        &["validate", "--scx", FIFO],
    ] {
        lab.says(words, 2, &object);
    }
    // Before any workload is searched.
    lab.says(&["hunt", "--evals", "100000", "--vm", "--scx", FIFO], 2, &["--vm: ", object[0]]);
    let long = ["hunt", "--evals", "1", "--limit", "9000000000s", "--scx", FIFO];
    lab.says(&long, 2, &["--limit 9000000000s: no run of a hunt is as long", "0 to 10s"]);
}
