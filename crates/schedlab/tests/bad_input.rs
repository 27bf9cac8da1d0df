//! Bad input: the right exit code, one message that names thing, place and remedy, and nothing half-written.

use crate::common::{Lab, SMALL, files, texts};
use std::fs::File;
use std::process::{Command, Stdio};

/// Words, exit code, and what standard error must say.
type Case = (&'static [&'static str], i32, &'static [&'static str]);

#[rustfmt::skip]
const CASES: &[Case] = &[
    (&["machine", "spr-2x65"], 2, &["unknown machine 'spr-2x65'", "did you mean 'spr-2x56'?"]),
    (&["machine", "smp-1000000000"], 2, &["1000000000 CPUs"]),
    (&["machine", "smp-4", "--cpu", "4"], 2, &["no CPU 4", "0 to 3"]),
    (&["machine", "smp-4", "--kernel", "four"], 2, &["'four' is not a kernel version"]),
    (&["machine", "no/such.toml"], 2, &["can't read no/such.toml"]),
    (&["machine", "bad-machine.toml"], 2, &["bad-machine.toml:4:1: ", "'coers'", "'cores'"]),
    (&["study", "idle-sibling", "--backend", "host", "--uncertainty"], 2, &["--uncertainty", "--backend sim"]),
    (&["bench", "pipe", "--uncertainty"], 2, &["--uncertainty", "--backend sim"]),
    (&["bench", "pipe", "--runs", "0"], 2, &["--runs", "1..=10000"]),
    (&["runs", "--out", "nowhere"], 2, &["can't read nowhere", "--out"]),
    (&["runs", "rm", "--yes"], 2, &["nothing is named to be removed"]),
    (&["bench", "schbench", "--backend", "sim", "--machine", "smp-4", "--uncertainty", "--format", "schbench"], 2, &["one run", "table or --json"]),
    (&["knee", "schbench", "--uncertainty"], 2, &["--uncertainty", "--backend sim"]),
    (&["study", "idle-silbing"], 2, &["unknown study", "did you mean 'idle-sibling'?"]),
    (&["bench", "schbnch"], 2, &["unknown workload 'schbnch'", "did you mean 'schbench'?"]),
    (&["bench", "schbench", "-t", "0"], 2, &["threads = 0 is out of range", "1 to 10000"]),
    (&["bench", "schbench", "-t", "1000000000"], 2, &["threads = 1000000000 is out of range"]),
    (&["bench", "schbench", "-t", "-5"], 2, &["threads", "'-5'"]),
    (&["bench", "schbench", "-m", "10000", "-t", "10000"], 2, &["100010000 tasks", "lower message_threads"]),
    (&["bench", "schbench", "-r", "5 parsecs"], 2, &["--runtime", "unknown time unit", "1.5ms"]),
    (&["bench", "schbench", "--thread", "4"], 2, &["--thread", "--threads"]),
    (&["bench", "schbench", "--format", "schbench-2017"], 2, &["unknown format", "'schbench-2016'"]),
    (&["bench", "schbench", "--backend", "hots"], 2, &["unknown backend 'hots'", "'host'"]),
    (&["bench", "schbench", "--backend", "vm"], 2, &["no kernel is named", "kernel list"]),
    (&["bench", "schbench", "--kernel", "v4.5"], 2, &["running kernel", "--backend sim"]),
    (&["bench", "schbench", "--backend", "host", "--machine", "smp-4"], 2, &["--machine smp-4", "--backend sim"]),
    (&["bench", "schbench", "--backend", "sim", "--kernel", "v9.9"], 2, &["no simulated kernel 'v9.9'", "v4.5"]),
    (&["bench", "schbench", "--backend", "sim", "--kernel", "v4.5", "--feature", "SIS_FRST_IDLE"], 2,
        &["unknown feature 'SIS_FRST_IDLE'", "'SIS_FIRST_IDLE'"]),
    (&["bench", "schbench", "--backend", "sim", "--tunable", "hzz=1"], 2, &["unknown tunable 'hzz'", "'hz'"]),
    (&["bench", "slice", "--backend", "sim", "--events"], 2, &["--events is for live runs", "--backend host"]),
    (&["bench", "slice", "--feature", "NO_PLACE_LAG"], 2, &["live", "--backend sim", "exec --set features="]),
    (&["bench", "slice", "--backend", "sim", "--feature", "NO_PLACE_LAG@5"], 2, &["'5' has no unit", "1.5ms"]),
    (&["bench", "slice", "--backend", "sim", "--hog-slice", "1ns"], 2, &["hog_slice = 1ns", "100us to 100ms"]),
    (&["bench", "slice", "--backend", "sim", "--policy", "fifi"], 2, &["'fifi'", "did you mean 'fifo'"]),
    (&["stat", "-a", "--for", "0"], 2, &["--for", "10s"]),
    (&["stat", "--runs", "0", "--", "true"], 2, &["--runs", "1..=1000000"]),
    (&["profile", "--symbols", "", "--", "true"], 2, &["--symbols", "newidle_balance"]),
    (&["bench", "bad.json"], 2, &["bad.json:3:", "help: "]),
    (&["bench", "missing.json"], 2, &["can't read missing.json"]),
    (&["bench", "folder"], 2, &["unknown workload 'folder'"]),
    (&["knee", "schbench", "--limit", "p99 = 2ms"], 2, &["is not a limit", "p99 < 2ms"]),
    (&["knee", "schbench", "--limit", "p99x < 2ms"], 2, &["p99x"]),
    (&["knee", "schbench", "--max-load", "0"], 2, &["threads = 0 is out of range"]),
    (&["run", "missing.toml"], 2, &["can't read missing.toml"]),
    (&["run", "folder"], 2, &["can't read folder"]),
    (&["run", "broken.toml"], 2, &["broken.toml:2:"]),
    (&["run", "feature.toml"], 2, &["feature.toml:25:13: ", "'SIS_FRST_IDLE'", "'SIS_FIRST_IDLE'"]),
    (&["run", "threads.toml"], 2, &["threads.toml:15:11: ", "1000000000", "10000"]),
    (&["run", "small.toml", "--load", "1x3"], 2, &["unknown load '1x3'", "'1x2'"]),
    (&["run", "small.toml", "--variant", "frist-idle"], 2, &["unknown variant", "'first-idle'"]),
    (&["run", "small.toml", "--runs", "0"], 2, &["0"]),
    (&["run", "small.toml", "--runs", "1000000"], 2, &["1 to 1000000 runs"]),
    (&["run", "small.toml", "--format", "tabel"], 2, &["unknown format 'tabel'", "'table'"]),
    (&["run", "small.toml", "--sed", "1"], 2, &["--sed", "--seed"]),
    (&["run", "small.toml", "--backend", "vn"], 2, &["'vm'"]),
    (&["run", "small.toml", "--out", "small.toml/runs"], 3, &["can't create the folder"]),
    (&["explain", "nowhere"], 2, &["can't read nowhere"]),
    (&["explain", "bad.json"], 2, &["bad.json: not a record"]),
    (&["explain", "half.json"], 2, &["half.json:2:", "not a whole record"]),
    (&["compare", "folder"], 2, &["no runs in folder"]),
    (&["compare", "nowhere"], 2, &["nowhere"]),
    (&["compar"], 2, &["compar", "compare"]),
    (&["agent"], 2, &["holds no job"]),
    (&[], 2, &["Usage: schedlab"]),
];

fn lab() -> Lab {
    let lab = Lab::new();
    lab.write("bad-machine.toml", "name = 'mine'\nabout = 'a'\n[topology]\ncoers = 3\n");
    lab.write("bad.json", "{ \"tasks\": {\n  \"t\": {\n    \"rnu\": 5 } } }\n");
    lab.write("half.json", "{ \"schema\": \"schedlab/record/1\",\n  \"model\": ");
    lab.write("broken.toml", "name = \"x\"\nruns = = 3\n");
    lab.write("feature.toml", &SMALL.replace("SIS_FIRST_IDLE", "SIS_FRST_IDLE"));
    lab.write("threads.toml", &SMALL.replace("threads = 2\n", "threads = 1000000000\n"));
    std::fs::create_dir(lab.path().join("folder")).unwrap();
    lab
}

#[test]
fn a_plot_without_a_place_and_a_number_of_runs_are_refused_before_any_run() {
    let lab = Lab::new();
    lab.write("file", "");
    std::fs::create_dir(lab.path().join("folder.svg")).unwrap();
    for place in ["gone/x.svg", "file/x.svg", "folder.svg"] {
        let knee = "knee schbench -r 100ms --backend sim --machine smp-2 --max-load 2 --runs 1 --limit";
        let knee: Vec<&str> = knee.split(' ').chain(["work > 0", "--plot", place]).collect();
        for words in [&["run", "small.toml", "--plot", place][..], &knee] {
            let output = lab.command(words).output().unwrap();
            let err = String::from_utf8(output.stderr).unwrap();
            assert!(!output.status.success() && output.stdout.is_empty(), "{words:?}: {err}");
            assert!(err.contains("--plot") && err.contains(place), "{words:?}: {err}");
            assert!(!lab.path().join("runs").exists(), "{words:?}: no run was made");
        }
    }
    lab.ok(&["run", "small.toml", "-q", "--runs", "1", "--load", "1x2", "--plot", "x.svg"]);
    assert!(lab.path().join("x.svg").is_file());
    assert!(lab.run(&["run", "small.toml", "--runs", "0"], 2).1.contains("1..=1000000"));
}

#[test]
fn variants_that_the_backend_leaves_out_are_told_once() {
    let lab = Lab::new();
    lab.write("small.toml", &format!("{}[[variant]]\nname = \"live\"\nkernel = \"running\"\n", SMALL));
    let words = ["run", "small.toml", "--runs", "1", "--load", "1x2"];
    let (_, err) = lab.run(&words, 0);
    assert_eq!(err.matches("left out on backend sim: live (the running kernel)").count(), 1, "{err}");
    let (_, err) = lab.run(&[&words[..], &["--variant", "v4.5"]].concat(), 0);
    assert!(!err.contains("left out"), "{err}");
}

#[test]
fn each_ends_in_one_message_with_the_nearest_name() {
    let lab = lab();
    let before = files(lab.path()).len();
    for (words, code, parts) in CASES {
        let (out, err) = lab.run(words, *code);
        assert_eq!(out, "", "{words:?} printed a result");
        for part in *parts {
            assert!(err.contains(part), "{words:?} does not say {part}:\n{err}");
        }
        assert_eq!(err.matches("error: ").count(), usize::from(!words.is_empty()), "{words:?}:\n{err}");
        assert!(err.lines().count() <= 8 || words.is_empty(), "{words:?}:\n{err}");
    }
    assert_eq!(files(lab.path()).len(), before, "nothing was written");
}

#[test]
fn a_full_disk_is_told_once() {
    let lab = lab();
    for words in [&["machine", "smp-4"][..], &["study"], &["--help"], &["run", "small.toml", "-q"]] {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
        command.current_dir(lab.path()).args(words).stdout(full).stderr(Stdio::piped());
        let output = command.output().unwrap();
        let (_, err) = texts(&output);
        assert_eq!(output.status.code(), Some(3), "{words:?}: {err}");
        assert!(err.contains("can't write to standard output: No space left"), "{words:?}: {err}");
        assert_eq!(err.lines().count(), 1, "{words:?}: {err}");
    }
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let lab = lab();
    for words in [&["machine", "spr-2x56", "--json"][..], &["--help"], &["run", "small.toml", "-q"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
        command.current_dir(lab.path()).args(words).stdout(writer).stderr(Stdio::piped());
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(0), ""), "{words:?}");
    }
}
