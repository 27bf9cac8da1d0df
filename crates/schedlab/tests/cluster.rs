//! `--engine slurm` with programs that stand in for Slurm's and run tasks at once, and runs that are carried by hand.
//! `benches/cluster.sh` shows the same on a real cluster.

use crate::common;
use crate::common::{Lab, Words};
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs every task of an array, unless a file `lose-TASK` asks that the node is lost.
const RUNS: &str = include_str!("cases/slurm/runs.sh");
/// Runs an array at once. With a file `hold` it is queued until that is gone and squeue is asked; with a file `late` it
/// is run and sbatch does not say so.
const SBATCH: &str = include_str!("cases/slurm/sbatch.sh");
/// With a file `away` it reaches no controller, and with a file `slow` it takes long once a job is queued.
const SQUEUE: &str = include_str!("cases/slurm/squeue.sh");

struct Cluster {
    lab: Lab,
}

impl Cluster {
    fn new() -> Cluster {
        let lab = Lab::new();
        fs::create_dir(lab.path().join("bin")).unwrap();
        let programs = [("runs", RUNS), ("sbatch", SBATCH), ("squeue", SQUEUE)];
        for (name, text) in programs {
            let path = lab.path().join("bin").join(name);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        }
        Cluster { lab }
    }
    fn run(&self, line: &str, code: i32) -> (String, String) {
        self.run_with(&[], line, code)
    }
    /// Runs it, and expects an exit code and these parts in its standard error.
    fn says(&self, line: &str, code: i32, parts: &[&str]) {
        let (_, err) = self.run(line, code);
        assert!(parts.iter().all(|part| err.contains(part)), "{line} says {parts:?}: {err}");
    }
    fn path(&self) -> String {
        format!("{}:{}", self.lab.path().join("bin").display(), std::env::var("PATH").unwrap())
    }
    /// Runs it with variables of the environment.
    fn run_with(&self, vars: &[(&str, &str)], line: &str, code: i32) -> (String, String) {
        let mut command = self.lab.command(line);
        command.env("PATH", self.path()).env("FAKE", self.lab.path()).envs(vars.iter().copied());
        let output = command.output().unwrap();
        let (out, err) = common::texts(&output);
        assert_eq!(output.status.code(), Some(code), "schedlab {line}\n{out}\n{err}");
        (out, err)
    }
    /// Starts it, and does not wait for it.
    fn start(&self, line: &str) -> Child {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
        command.current_dir(self.lab.path()).args(line.words()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command.env("PATH", self.path()).env("FAKE", self.lab.path()).spawn().unwrap()
    }
    /// Waits until a file is there.
    fn wait_for(&self, name: &str) {
        let began = Instant::now();
        while !self.lab.path().join(name).exists() {
            assert!(began.elapsed() < Duration::from_secs(60), "no {name}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
    /// How often sbatch was called.
    fn submissions(&self) -> usize {
        self.told("args").lines().count()
    }
    fn has_not(&self, name: &str) {
        fs::remove_file(self.lab.path().join(name)).unwrap();
    }
    fn has(&self, name: &str) {
        fs::write(self.lab.path().join(name), "").unwrap();
    }
    fn told(&self, name: &str) -> String {
        fs::read_to_string(self.lab.path().join(name)).unwrap_or_default()
    }
    /// The store without its jobs.
    fn stored(&self, out: &str) -> Vec<(String, Vec<u8>)> {
        let mut all = common::files(&self.lab.path().join(out));
        all.retain(|(name, _)| !name.starts_with("slurm/"));
        all
    }
}

/// What was printed, but for the line that names the store's folder.
fn comparison(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| !line.starts_with("runs: kept in ")).collect()
}

const ON_SLURM: &str = "run small.toml --engine slurm";

#[test]
fn a_cluster_gives_the_bytes_of_local_runs_and_the_same_comparison() {
    let cluster = Cluster::new();
    let (here, _) = cluster.run("run small.toml --out here", 0);
    let text =
        common::SMALL.to_owned() + "[slurm]\npartition = \"batch\"\ncpus = 2\ntime = \"10\"\ntasks = 5\n";
    cluster.lab.write("small.toml", &text);
    let words = format!("{ON_SLURM} --out there --slurm time=0:30:00 --slurm at_once=3");
    let (there, err) = cluster.run(&words, 0);
    assert_eq!(comparison(&here), comparison(&there));
    assert!(err.contains("12 runs made, 0 found") && err.contains(": 12 runs in 5 tasks; "), "{err}");
    let records = |out: &str| -> Vec<(String, Vec<u8>)> {
        cluster.stored(out).into_iter().filter(|(name, _)| name.ends_with("record.json")).collect()
    };
    assert_eq!((records("here").len(), records("here") == records("there")), (12, true));
    let args = cluster.told("args");
    for part in ["--partition=batch", "--time=0:30:00", "--cpus-per-task=2", "--requeue", "--array=0-4%3 "] {
        assert!(args.contains(part), "{part}: {args}");
    }
    assert!(!args.contains("--time=10"), "the command line's value counts: {args}");
    cluster.says(&words, 0, &["0 runs made, 12 found"]);
    // A run that is taken away is made anew, though a job has made it.
    let one = cluster.stored("there").into_iter().map(|(n, _)| n).find(|n| n.contains("/2/")).unwrap();
    let folder = cluster.lab.path().join("there").join(one).parent().unwrap().to_owned();
    fs::remove_dir_all(&folder).unwrap();
    let (_, err) = cluster.run(&words, 0);
    assert!(err.contains("1 run made, 11 found") && folder.exists(), "{err}");
    assert_eq!(cluster.submissions(), 2);
}

#[test]
fn a_task_that_slurm_gives_up_is_an_error_and_the_same_command_submits_it_again() {
    let cluster = Cluster::new();
    cluster.has("lose-3");
    let (_, err) = cluster.run(ON_SLURM, 3);
    assert!(
        err.contains("1 run missing: task 3 of job schedlab-") && err.contains("NODE_FAIL on n1"),
        "{err}"
    );
    assert!(err.contains("logs/3.log"), "{err}");
    cluster.says(ON_SLURM, 0, &[": 1 run in 1 task; ", "1 run made, 11 found"]);
}

#[test]
fn a_node_without_the_executable_and_errors_of_the_worker_are_reported() {
    let cluster = Cluster::new();
    cluster.says(
        &format!("{ON_SLURM} --slurm schedlab=/no/such/schedlab"),
        3,
        &["--slurm schedlab=PATH names the executable", "exit code 127"],
    );
    let path = cluster.lab.path().join("faulty");
    fs::write(&path, "#!/bin/sh\necho 'schedlab: error: the disk is full' >&2\nexit 3\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let faulty = format!("schedlab={}", path.display());
    cluster.says(
        &format!("{ON_SLURM} --slurm {faulty} --out other"),
        3,
        &["FAILED, exit code 3 on n1: the disk is full"],
    );
}

#[test]
fn wrong_submissions_are_refused_with_a_remedy() {
    let cluster = Cluster::new();
    let (_, err) = cluster.run(&format!("{ON_SLURM} --slurm partition=nope"), 2);
    assert_eq!(err.matches("nvalid partition").count(), 2, "Slurm's two lines, once: {err}");
    assert!(!cluster.lab.path().join("runs/slurm").read_dir().unwrap().any(|e| e.unwrap().path().is_dir()));
    cluster.says("run small.toml --slurm partition=batch", 2, &["add --engine slurm"]);
    cluster.says("run small.toml --engine slrum", 2, &["did you mean 'slurm'?"]);
    cluster.says(&format!("{ON_SLURM} --jobs 2"), 2, &["--slurm cpus=N"]);
    cluster.says(&format!("{ON_SLURM} --backend host"), 2, &["--slurm constraint=NAME"]);
    cluster.says(&format!("{ON_SLURM} --out a\\b"), 2, &["has a backslash"]);
    cluster.lab.write("small.toml", &(common::SMALL.to_owned() + "[slurm]\npartitoin = \"x\"\n"));
    cluster.says("run small.toml", 2, &["small.toml:", "did you mean 'partition'"]);
    let lab = Lab::new();
    let output = lab.command(ON_SLURM).env("PATH", lab.path()).output().unwrap();
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("without --engine slurm") && err.contains("schedlab pack"), "{err}");
}

#[test]
fn runs_are_carried_to_another_store_and_back() {
    let cluster = Cluster::new();
    let (here, _) = cluster.run("run small.toml --out here", 0);
    cluster.run("run small.toml --out runs --load 1x2", 0);
    let (_, err) = cluster.run("pack small.toml -o x.parcel", 0);
    assert!(err.contains("6 runs in x.parcel"), "only what is missing: {err}");
    cluster.run("work x.parcel --out far --results x.results", 0);
    cluster.says("unpack x.results", 0, &["6 runs put into runs, 0 were there"]);
    let (there, err) = cluster.run("run small.toml", 0);
    assert_eq!(comparison(&here), comparison(&there));
    assert!(err.contains("0 runs made, 12 found"), "{err}");
    assert!(cluster.stored("here") == cluster.stored("runs"));
    let (_, err) = cluster.run("pack small.toml -o y.parcel", 0);
    assert!(err.contains("nothing to pack") && !cluster.lab.path().join("y.parcel").exists(), "{err}");
    cluster.says("work x.parcel --task 7", 2, &["no 7"]);
}

#[test]
fn a_parcel_writes_nothing_but_runs() {
    let lab = Lab::new();
    lab.ok("pack small.toml -o x.parcel");
    let parcel = fs::read_to_string(lab.path().join("x.parcel")).unwrap();
    assert!(parcel.contains("\"name\":\"experiment.toml\""));
    let absolute = lab.path().join("pwned").display().to_string();
    for name in ["../../../pwned", &absolute, "", "record.json", "other"] {
        lab.write(
            "bad.parcel",
            &parcel.replace("\"name\":\"experiment.toml\"", &format!("\"name\":\"{name}\"")),
        );
        let (_, err) = lab.run("work bad.parcel --out in/store", 2);
        let told = format!("bad.parcel: the parcel has a file '{name}', which no run has");
        assert!(err.contains(&told), "{err}");
        assert!(!lab.path().join("pwned").exists() && !lab.path().join("in").exists());
    }
}

#[test]
fn files_of_other_kinds_are_not_overwritten() {
    let lab = Lab::new();
    let read = |name: &str| fs::read(lab.path().join(name)).unwrap();
    let refused = |line: &str, file: &str| {
        let before = read(file);
        let (_, err) = lab.run(line, 2);
        assert_eq!(read(file), before, "{err}");
        err
    };
    let err = refused("pack small.toml -o ./small.toml", "small.toml");
    assert!(err.contains("--parcel: ./small.toml is the file that is read"), "{err}");
    lab.write("notes", "mine");
    let err = refused("pack small.toml -o notes", "notes");
    assert!(err.contains("notes is there, and is not what") && err.contains("name another file"), "{err}");
    // An empty file and an earlier parcel are written over.
    lab.write("x.parcel", "");
    lab.ok("pack small.toml -o x.parcel");
    lab.ok("pack small.toml -o x.parcel");
    std::os::unix::fs::symlink("x.parcel", lab.path().join("link")).unwrap();
    for results in ["x.parcel", "link"] {
        let err = refused(&format!("work x.parcel --results {results}"), "x.parcel");
        assert!(err.contains("is the file that is read"), "{err}");
    }
    fs::hard_link(lab.path().join("x.parcel"), lab.path().join("hard")).unwrap();
    refused("work x.parcel --results hard", "x.parcel");
    refused("work x.parcel --results small.toml", "small.toml");
    assert!(!lab.path().join("runs").exists());
}

#[test]
fn unpack_refuses_files_that_it_can_not_read_twice() {
    let lab = Lab::new();
    lab.says("unpack /dev/zero", 2, &["/dev/zero: it is a device"]);
    // Nobody writes into the pipe: opening it would wait for ever.
    assert!(std::process::Command::new("mkfifo").arg(lab.path().join("pipe")).status().unwrap().success());
    lab.says("unpack pipe", 2, &["it is a pipe, and it is read twice", "to a file"]);
    fs::File::create(lab.path().join("disk")).unwrap().set_len(8 << 30).unwrap();
    lab.says("unpack disk", 2, &["disk:1:1: not a file of results: its first line is longer"]);

    lab.ok("pack small.toml -o x.parcel");
    lab.ok("work x.parcel --out far --results x.results");
    let mut bytes = fs::read(lab.path().join("x.results")).unwrap();
    let head = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    fs::write(lab.path().join("long"), [&bytes[..head], &vec![b' '; 2 << 20], b"\n"].concat()).unwrap();
    let output = lab.command("unpack long").env("SCHEDLAB_MAX_INPUT_MB", "1").output().unwrap();
    let (_, err) = common::texts(&output);
    assert!(
        output.status.code() == Some(2) && err.contains("long:2:1: the run's line is longer than 1 MB"),
        "{err}"
    );
    bytes[head + 12] = 0xff;
    fs::write(lab.path().join("bytes"), &bytes).unwrap();
    lab.says("unpack bytes", 2, &["bytes:2:1: not a whole run", "carry it again"]);
    let text = String::from_utf8(fs::read(lab.path().join("x.results")).unwrap()).unwrap();
    lab.write("other", &text.replacen("schedlab/results/1", "schedlab/results/9", 1));
    lab.says("unpack other", 2, &["schedlab/results/9", "use the same schedlab"]);
    assert!(common::files(&lab.path().join("runs")).is_empty());
}

#[test]
fn a_job_that_sbatch_did_not_report_is_found_by_its_name() {
    let cluster = Cluster::new();
    cluster.has("late");
    cluster.says(ON_SLURM, 0, &["12 runs made"]);
    assert_eq!(cluster.submissions(), 1);
    cluster.has("away");
    cluster.says(
        &format!("{ON_SLURM} --out other"),
        3,
        &["Slurm can't be asked for its jobs", "scontrol ping"],
    );
    assert_eq!(cluster.submissions(), 1, "nothing is submitted to a Slurm that does not answer");
}

#[test]
fn an_interrupted_command_is_continued_by_the_same_one_and_not_by_a_copy_of_its_store() {
    let cluster = Cluster::new();
    cluster.has("hold");
    let child = cluster.start(ON_SLURM);
    cluster.wait_for("asked");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("12 runs are left to the jobs, which continue") && err.contains("scancel"), "{err}");
    let copied = Command::new("cp").args(["-r", "runs", "copy"]).current_dir(cluster.lab.path()).status();
    assert!(copied.unwrap().success());
    let again = cluster.start(ON_SLURM);
    std::thread::sleep(Duration::from_secs(1));
    cluster.has_not("hold");
    let (_, err) = common::texts(&again.wait_with_output().unwrap());
    assert!(
        err.contains("12 runs are in a job submitted before: schedlab-") && err.contains("12 runs made"),
        "{err}"
    );
    assert_eq!(cluster.submissions(), 1);
    let (_, err) = cluster.run(&format!("{ON_SLURM} --out copy"), 0);
    assert!(err.contains("12 runs made") && !err.contains("submitted before"), "{err}");
}

#[test]
fn ctrl_c_does_not_wait_for_a_slow_slurm() {
    let cluster = Cluster::new();
    cluster.has("hold");
    cluster.has("slow");
    let child = cluster.start(ON_SLURM);
    cluster.wait_for("asked");
    let began = Instant::now();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("12 runs are left to the jobs, which continue"), "{err}");
    assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
}

#[test]
fn a_job_around_the_command_and_links_do_not_confuse_it() {
    let cluster = Cluster::new();
    cluster.run_with(&[("SBATCH_WAIT", "1")], ON_SLURM, 0);
    assert_eq!(cluster.told("env"), "wait=\n");
    let elsewhere = format!("{ON_SLURM} --out elsewhere");
    let (_, err) = cluster.run_with(&[("SBATCH_CLUSTERS", "far")], &elsewhere, 2);
    assert!(err.contains("SBATCH_CLUSTERS is 'far'") && err.contains("unset"), "{err}");
    // A relative path is one of the folder where the command runs; the jobs' folder may be a link to elsewhere.
    symlink(assert_cmd::cargo::cargo_bin("schedlab"), cluster.lab.path().join("mine")).unwrap();
    ["linked", "there"].iter().for_each(|d| fs::create_dir(cluster.lab.path().join(d)).unwrap());
    symlink("../there", cluster.lab.path().join("linked/slurm")).unwrap();
    cluster.says(&format!("{ON_SLURM} --slurm schedlab=./mine --out linked"), 0, &["12 runs made, 0 found"]);
}
