//! The commands for authors of sched_ext schedulers: suite, hunt, knee and bisect with `--scx`. The schedulers are our
//! smallest one, and the same with slices of 0.9 s in place of 5 ms, under which tasks wait until the kernel's watchdog
//! throws it out.

use crate::common::{Lab, texts};
use crate::scx::{FIFO, RUNTIME, lab};
use schedlab_base::content_hash;
use schedlab_kernels::cache;
use serde_json::Value;
use std::process::Command;

/// A watchdog that is faster than a short run.
const WATCHED: &str = "lazy.bpf.o ops.timeout_ms=200";
/// The kernel's words for it.
const STALL: &str = "did not last: runnable task stall";

/// The object whose slices are long.
fn lazy() -> Vec<u8> {
    let mut object = std::fs::read(FIFO).unwrap();
    let (short, long) = (5_000_000_u32.to_le_bytes(), 900_000_000_u32.to_le_bytes());
    let places: Vec<usize> =
        object.windows(4).enumerate().filter(|(_, some)| *some == short).map(|(at, _)| at).collect();
    assert_eq!(places.len(), 3, "the slice stands in each call");
    places.iter().for_each(|at| object[*at..at + 4].copy_from_slice(&long));
    object
}

/// A lab with the object whose slices are long.
fn lab_with_lazy() -> Option<Lab> {
    let lab = lab()?;
    std::fs::write(lab.path().join("lazy.bpf.o"), lazy()).unwrap();
    Some(lab)
}

#[test]
fn the_suite_compares_a_scheduler_with_fair_and_says_which_loads_it_does_not_last() {
    let Some(lab) = lab_with_lazy() else { return };
    fn with<'a>(words: &[&'a str]) -> Vec<&'a str> {
        let suite = ["suite", "--quick", "--machine", "smp-2", "--load", "hogs nice", "-q"];
        [&suite[..], words].concat()
    }
    let (out, said) = lab.run(&with(&["--load", "pipe one", "--scx", WATCHED]), 1);
    assert!(out.starts_with("lazy against fair on smp-2, 6 runs each"), "{out}");
    assert!(
        out.contains("warning: hogs nice lazy on smp-2, seed 1: ") && out.contains("runnable task stall")
    );
    assert!(
        out.contains(" of 3 rows") && said.contains("1 load can't be run under a scheduler"),
        "{out}{said}"
    );
    // Of one scheduler two builds; what of none of them can be run is an error.
    let both = ["--scx", "new=lazy.bpf.o", "--baseline-scx", FIFO, "--json"];
    let found = lab.json(&with(&both));
    let row = |metric: &str| {
        let mut rows = found["comparisons"].as_array().unwrap().iter();
        rows.find(|row| row["metric"] == metric).unwrap()["change_pct"].as_f64().unwrap()
    };
    assert_eq!(found["comparisons"][0]["baseline"], "fifo");
    // Whoever is first keeps the CPU.
    assert!(row("task.hog.cpu_time") > 50.0 && row("task.urgent.cpu_time") < -50.0, "{found:.800}");
    lab.says(&with(&["--scx", WATCHED]), 2, &[STALL]);
    lab.says(&with(&["--scx", "lazy.bpf.o slise=5"]), 2, &["lazy.bpf.o: ", "'slise'"]);
    lab.says(
        &with(&["--scx", "lazy.bpf.o", "--scx", "./lazy.bpf.o"]),
        2,
        &["two schedulers have the name 'lazy'"],
    );
    lab.says(&with(&["--scx", "lazy.bpf.o", "--backend", "sim"]), 2, &["the simulator has no sched_ext"]);
}

#[test]
fn the_growth_of_operations_has_a_column_for_each_size() {
    let Some(lab) = lab_with_lazy() else { return };
    let words = ["suite", "--scx", FIFO, "--growth", "--machine", "smp-8", "--machine", "smp-2", "-q"];
    let out = lab.ok(&words);
    let row = |of: &str| -> Vec<String> {
        let line = out.lines().find(|line| line.trim_start().starts_with(of)).unwrap();
        line.split_whitespace().skip(1).map(str::to_owned).collect()
    };
    assert_eq!(row("CPUs"), ["2", "8"], "{out}");
    assert!(out.contains("No operation grows with CPUs."), "{out}");
    let found = lab.json(&[&words[..], &["--json"]].concat());
    let operation = &found["schedulers"][0]["operations"][0];
    assert_eq!((operation["name"].as_str(), operation["grows"].as_bool()), (Some("enqueue"), Some(false)));
    let point = |at: usize, what: &str| operation["points"][at][what].as_u64().unwrap();
    assert_eq!((point(0, "cpus"), point(1, "cpus")), (2, 8));
    // As many tasks for each CPU make as many calls for each CPU.
    let (few, many) = (point(0, "calls"), point(1, "calls"));
    assert!(many > 3 * few && many < 5 * few, "{few} {many}");
    assert_eq!(row("enqueue")[0], (point(0, "instructions") / few).to_string(), "{out}");
    let with = |more: &[&'static str]| [&words[..], more].concat();
    lab.ok(&with(&["--fail-on", "worse"]));
    lab.says(&with(&["--fail-on", "same"]), 1, &["--fail-on same: ", "same: fifo, enqueue, 1.00 times"]);
    for more in [&["--junit", "a.xml"][..], &["--plot", "a.svg"], &["--print", "work"], &["--metric", "work"]]
    {
        lab.says(&with(more), 2, &["--growth", more[0]]);
    }
    lab.says(
        &with(&["--backend", "vm"]),
        2,
        &["--growth counts instructions of BPF, and backend vm does not"],
    );
}

#[test]
fn a_hunt_finds_what_a_scheduler_does_not_last_and_who_waits() {
    let Some(lab) = lab_with_lazy() else { return };
    let hunt = ["hunt", "--machine", "smp-2", "--evals", "16", "--json", "-q"];
    let found = lab.json(&[&hunt[..], &["--scx", WATCHED]].concat());
    let of = |class: &str| -> Value {
        let all = found["found"].as_array().unwrap();
        all.iter()
            .find(|one| one["class"] == class)
            .unwrap_or_else(|| panic!("{class}: {found:.900}"))
            .clone()
    };
    let (failure, wait) = (of("failure"), of("wait"));
    assert!(failure["fails"].as_str().unwrap().contains(STALL), "{failure}");
    assert!(failure["tasks"].as_u64() < failure["tasks_before"].as_u64(), "it is shrunk: {failure}");
    let again = format!("run {} --backend code -q --out again", failure["experiment"].as_str().unwrap());
    lab.says(again.as_str(), 2, &[STALL]);
    let row = &wait["confirmed"][0];
    assert_eq!((row["metric"].as_str(), row["verdict"].as_str()), (Some("run_delay.longest"), Some("worse")));
    assert!(row["variant_mean"].as_f64().is_none_or(|long| long > 100e6), "{row}");
}

#[test]
fn a_program_that_goes_wrong_is_a_failure_of_a_hunt() {
    let Some(lab) = lab() else { return };
    let wrong = format!("{RUNTIME} fault=1");
    let found = lab.json(&["hunt", "--machine", "smp-2", "--evals", "2", "--json", "-q", "--scx", &wrong]);
    let one = &found["found"][0];
    assert_eq!(one["class"], "failure", "{found:.900}");
    assert!(one["fails"].as_str().unwrap().contains("BPF program enqueue"), "{one}");
    // What is refused at load is refused before the search.
    let unfit = format!("{RUNTIME} expected=7 run:fails=");
    lab.says(&["hunt", "--machine", "smp-2", "--evals", "2", "-q", "--scx", &unfit], 2, &["fails returns"]);
}

#[test]
fn the_knee_of_a_scheduler_stands_beside_that_of_fair() {
    let Some(lab) = lab_with_lazy() else { return };
    let words = ["knee", "hogs", "--machine", "smp-2", "--max-load", "8", "--runs", "1", "--json", "-q"];
    let limit = ["--runtime", "100ms", "--limit", "run_delay.longest < 50ms"];
    let found = lab.json(&[&words[..], &limit, &["--scx", FIFO, "--scx", "lazy.bpf.o"]].concat());
    let knees: Vec<(&str, u64)> = found["variants"]
        .as_array()
        .unwrap()
        .iter()
        .map(|v| (v["variant"].as_str().unwrap(), v["knees"][0].as_u64().unwrap()))
        .collect();
    // Two hogs have a CPU each; of three one waits for the end of a slice.
    assert_eq!((knees[0].0, knees[1], knees[2]), ("fair", ("fifo", 8), ("lazy", 2)), "{found}");
    assert_eq!(knees[0].1, 8, "{found}");
}

/// A repository of a scheduler in the lab's folder `repo`: its object is good in the first commits and lazy in the
/// last. The hash is that of the first lazy one.
fn repository(lab: &Lab) -> String {
    let repo = lab.path().join("repo");
    std::fs::create_dir(&repo).unwrap();
    let git = |words: &[&str]| -> String {
        let mut command = Command::new("git");
        command.current_dir(&repo).args(["-c", "user.name=a", "-c", "user.email=a@b"]).args(words);
        let said = command.output().unwrap();
        assert!(said.status.success(), "git {words:?}: {}", String::from_utf8_lossy(&said.stderr));
        String::from_utf8_lossy(&said.stdout).trim().to_owned()
    };
    git(&["init", "-q"]);
    std::fs::copy(FIFO, repo.join("one.o")).unwrap();
    std::fs::write(repo.join("other.o"), lazy()).unwrap();
    let commit = |build: &str, subject: &str| {
        std::fs::write(repo.join("build.sh"), build).unwrap();
        git(&["add", "-f", "."]);
        git(&["commit", "-qm", subject]);
        git(&["rev-parse", "HEAD"])
    };
    let copy = |of: &str| format!("mkdir -p out && cp {of} out/mine.bpf.o\n");
    commit(&copy("one.o"), "first");
    commit(&format!("{}# more\n", copy("one.o")), "a comment");
    commit("echo 'mine.c:7: error: no' >&2; exit 1\n", "does not build");
    let lazy = commit(&copy("other.o"), "long slices");
    commit(&format!("{}# more\n", copy("other.o")), "another comment");
    lazy
}

#[test]
fn the_commit_of_a_scheduler_is_found_by_a_metric_and_by_its_end() {
    let Some(lab) = lab_with_lazy() else { return };
    let lazy = repository(&lab);
    let words = ["bisect", "--repository", "repo", "--good", "HEAD~4", "--build", "sh build.sh", "--json"];
    let of = ["--load", "hogs", "--machine", "smp-2", "--runs", "4"];
    let bisected = |more: &[&str]| -> Value {
        let mut command = lab.command(&[&words[..], &of, more].concat());
        let output = command.output().unwrap();
        let (out, said) = texts(&output);
        assert_eq!(output.status.code(), Some(0), "{said}");
        assert!(said.contains("passed over: ") && said.contains("mine.c:7: error: no"), "{said}");
        serde_json::from_str(&out).unwrap()
    };
    for more in [
        &["--scx", "out/mine.bpf.o", "--metric", "switches.involuntary"][..],
        &["--scx", "out/mine.bpf.o ops.timeout_ms=200"],
    ] {
        let found = bisected(more);
        // The one before it does not build: it is one of two.
        let first = found["first"].as_array().unwrap();
        assert_eq!((first.len(), &first[1]["hash"]), (2, &Value::from(lazy.as_str())), "{found}");
    }
    let wrong = [&words[..], &of, &["--scx", "/out/mine.bpf.o"]].concat();
    lab.says(&wrong, 2, &["not a path in the repository"]);
    // The files of commits, beside the kernels' sources of the cache.
    let git = lab.path().join("repo/.git").canonicalize().unwrap();
    let name = format!("bisect-{}", &content_hash(git.as_os_str().as_encoded_bytes())[..12]);
    std::fs::remove_dir_all(cache::sources(&cache::folder(None).unwrap()).join(name)).unwrap();
}
