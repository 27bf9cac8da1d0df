//! `--engine slurm` with programs that stand in for Slurm's and run tasks at once; also runs that are packed and
//! unpacked by hand. `benches/cluster.sh` shows the same on a real cluster.

use crate::common;
use crate::common::Lab;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs every task of an array, unless a file `lose-TASK` asks that the node is lost.
const RUNS: &str = r#"#!/bin/sh
name=$1 range=${2%%%*} out=$3 script=$4
for i in $(seq "${range%-*}" "${range#*-}"); do
    if [ -e "$FAKE/lose-$i" ]; then
        echo "$name|$i|NODE_FAIL|0|n1|None|" >>"$FAKE/rows"
        continue
    fi
    SLURM_ARRAY_TASK_ID=$i SLURM_CPUS_ON_NODE=1 sh "$script" >>"$(echo "$out" | sed "s/%a/$i/")" 2>&1
    status=$?
    state=COMPLETED
    [ $status = 0 ] || state=FAILED
    echo "$name|$i|$state|$((status * 256))|n1|None|" >>"$FAKE/rows"
done
"#;
/// Runs an array at once. With a file `hold` it stays queued until the file is gone and squeue is asked. With a file
/// `late` it is run, but sbatch does not report it.
const SBATCH: &str = r#"#!/bin/sh
echo "$@" >>"$FAKE/args"
echo "wait=$SBATCH_WAIT" >>"$FAKE/env"
for arg in "$@"; do
    case $arg in
        --array=*) range=${arg#--array=} ;;
        --output=*) out=${arg#--output=} ;;
        --job-name=*) name=${arg#--job-name=} ;;
        --partition=nope)
            echo "sbatch: error: invalid partition specified: nope" >&2
            echo "sbatch: error: Batch job submission failed: Invalid partition name specified" >&2
            exit 1 ;;
    esac
    script=$arg
done
if [ -e "$FAKE/hold" ]; then
    echo "runs '$name' '$range' '$out' '$script'" >"$FAKE/begin"
    for i in $(seq "${range%-*}" "${range#*-}"); do echo "$name|$i|PENDING|0||Priority|"; done >"$FAKE/queued"
else
    runs "$name" "$range" "$out" "$script"
fi
if [ -e "$FAKE/late" ]; then
    echo "sbatch: error: Batch job submission failed: Socket timed out on send/recv operation" >&2
    exit 1
fi
echo "Submitted batch job 1"
"#;
/// With a file `away` it reaches no controller. With a file `slow` it takes long once a job is queued.
const SQUEUE: &str = r#"#!/bin/sh
if [ -e "$FAKE/away" ]; then
    echo "slurm_load_jobs error: Unable to contact slurm controller (connect failure)" >&2
    exit 1
fi
if [ -e "$FAKE/queued" ]; then
    touch "$FAKE/asked"
    [ ! -e "$FAKE/slow" ] || exec sleep 50
    if [ -e "$FAKE/hold" ]; then cat "$FAKE/queued"; exit 0; fi
    rm "$FAKE/queued"
    sh "$FAKE/begin"
fi
cat "$FAKE/rows" 2>/dev/null || true
"#;

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
    fn run(&self, words: &[&str], code: i32) -> (String, String) {
        self.run_with(&[], words, code)
    }
    fn path(&self) -> String {
        format!("{}:{}", self.lab.path().join("bin").display(), std::env::var("PATH").unwrap())
    }
    fn run_with(&self, vars: &[(&str, &str)], words: &[&str], code: i32) -> (String, String) {
        let mut command = self.lab.command(words);
        command.env("PATH", self.path()).env("FAKE", self.lab.path()).envs(vars.iter().copied());
        let output = command.output().unwrap();
        let (out, err) = common::texts(&output);
        assert_eq!(output.status.code(), Some(code), "schedlab {words:?}\n{out}\n{err}");
        (out, err)
    }
    /// Starts it, and does not wait for it.
    fn start(&self, words: &[&str]) -> Child {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
        command.current_dir(self.lab.path()).args(words).stdout(Stdio::piped()).stderr(Stdio::piped());
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

/// The printed text without the line that names the store's folder.
fn comparison(printed: &str) -> Vec<&str> {
    printed.lines().filter(|line| !line.starts_with("runs: kept in ")).collect()
}

const WORDS: [&str; 4] = ["run", "small.toml", "--engine", "slurm"];

#[test]
fn a_cluster_gives_the_bytes_of_local_runs_and_the_same_comparison() {
    let cluster = Cluster::new();
    let (here, _) = cluster.run(&["run", "small.toml", "--out", "here"], 0);
    let text =
        common::SMALL.to_owned() + "[slurm]\npartition = \"batch\"\ncpus = 2\ntime = \"10\"\ntasks = 5\n";
    cluster.lab.write("small.toml", &text);
    let words = [&WORDS[..], &["--out", "there", "--slurm", "time=0:30:00", "--slurm", "at_once=3"]].concat();
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
    let (_, err) = cluster.run(&words, 0);
    assert!(err.contains("0 runs made, 12 found"), "{err}");
    // A run that is taken away is made anew, although a job had made it.
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
    let (_, err) = cluster.run(&WORDS, 3);
    assert!(
        err.contains("1 run missing: task 3 of job schedlab-") && err.contains("NODE_FAIL on n1"),
        "{err}"
    );
    assert!(err.contains("logs/3.log"), "{err}");
    let (_, err) = cluster.run(&WORDS, 0);
    assert!(err.contains(": 1 run in 1 task; ") && err.contains("1 run made, 11 found"), "{err}");
}

#[test]
fn a_node_without_the_executable_and_errors_of_the_worker_are_reported() {
    let cluster = Cluster::new();
    let (_, err) = cluster.run(&[&WORDS[..], &["--slurm", "schedlab=/no/such/schedlab"]].concat(), 3);
    assert!(
        err.contains("--slurm schedlab=PATH names the executable") && err.contains("exit code 127"),
        "{err}"
    );
    let path = cluster.lab.path().join("faulty");
    fs::write(&path, "#!/bin/sh\necho 'schedlab: error: the disk is full' >&2\nexit 3\n").unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    let faulty = format!("schedlab={}", path.display());
    let (_, err) = cluster.run(&[&WORDS[..], &["--slurm", &faulty, "--out", "other"]].concat(), 3);
    assert!(err.contains("FAILED, exit code 3 on n1: the disk is full"), "{err}");
}

#[test]
fn wrong_submissions_are_refused_with_a_remedy() {
    let cluster = Cluster::new();
    let (_, err) = cluster.run(&[&WORDS[..], &["--slurm", "partition=nope"]].concat(), 2);
    assert_eq!(err.matches("nvalid partition").count(), 2, "Slurm's two lines, once: {err}");
    assert!(!cluster.lab.path().join("runs/slurm").read_dir().unwrap().any(|e| e.unwrap().path().is_dir()));
    let (_, err) = cluster.run(&["run", "small.toml", "--slurm", "partition=batch"], 2);
    assert!(err.contains("add --engine slurm"), "{err}");
    let (_, err) = cluster.run(&["run", "small.toml", "--engine", "slrum"], 2);
    assert!(err.contains("did you mean 'slurm'?"), "{err}");
    let (_, err) = cluster.run(&[&WORDS[..], &["--jobs", "2"]].concat(), 2);
    assert!(err.contains("--slurm cpus=N"), "{err}");
    let (_, err) = cluster.run(&[&WORDS[..], &["--backend", "host"]].concat(), 2);
    assert!(err.contains("--slurm constraint=NAME"), "{err}");
    let (_, err) = cluster.run(&[&WORDS[..], &["--out", "a\\b"]].concat(), 2);
    assert!(err.contains("has a backslash"), "{err}");
    cluster.lab.write("small.toml", &(common::SMALL.to_owned() + "[slurm]\npartitoin = \"x\"\n"));
    let (_, err) = cluster.run(&["run", "small.toml"], 2);
    assert!(err.contains("small.toml:") && err.contains("did you mean 'partition'"), "{err}");
    let lab = Lab::new();
    let output = lab.command(&WORDS).env("PATH", lab.path()).output().unwrap();
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(3), "{err}");
    assert!(err.contains("without --engine slurm") && err.contains("schedlab pack"), "{err}");
}

#[test]
fn runs_are_carried_to_another_store_and_back() {
    let cluster = Cluster::new();
    let (here, _) = cluster.run(&["run", "small.toml", "--out", "here"], 0);
    cluster.run(&["run", "small.toml", "--out", "runs", "--load", "1x2"], 0);
    let (_, err) = cluster.run(&["pack", "small.toml", "-o", "x.parcel"], 0);
    assert!(err.contains("6 runs in x.parcel"), "only what is missing: {err}");
    cluster.run(&["work", "x.parcel", "--out", "far", "--results", "x.results"], 0);
    let (_, err) = cluster.run(&["unpack", "x.results"], 0);
    assert!(err.contains("6 runs put into runs, 0 were there"), "{err}");
    let (there, err) = cluster.run(&["run", "small.toml"], 0);
    assert_eq!(comparison(&here), comparison(&there));
    assert!(err.contains("0 runs made, 12 found"), "{err}");
    assert!(cluster.stored("here") == cluster.stored("runs"));
    let (_, err) = cluster.run(&["pack", "small.toml", "-o", "y.parcel"], 0);
    assert!(err.contains("nothing to pack") && !cluster.lab.path().join("y.parcel").exists(), "{err}");
    let (_, err) = cluster.run(&["work", "x.parcel", "--task", "7"], 2);
    assert!(err.contains("no 7"), "{err}");
}

#[test]
fn a_parcel_writes_nothing_but_runs() {
    let lab = Lab::new();
    lab.ok(&["pack", "small.toml", "-o", "x.parcel"]);
    let parcel = fs::read_to_string(lab.path().join("x.parcel")).unwrap();
    assert!(parcel.contains("\"name\":\"experiment.toml\""));
    let absolute = lab.path().join("pwned").display().to_string();
    for name in ["../../../pwned", &absolute, "", "record.json", "other"] {
        lab.write(
            "bad.parcel",
            &parcel.replace("\"name\":\"experiment.toml\"", &format!("\"name\":\"{name}\"")),
        );
        let (_, err) = lab.run(&["work", "bad.parcel", "--out", "in/store"], 2);
        let told = format!("bad.parcel: the parcel has a file '{name}', which no run has");
        assert!(err.contains(&told), "{err}");
        assert!(!lab.path().join("pwned").exists() && !lab.path().join("in").exists());
    }
}

#[test]
fn files_of_other_kinds_are_not_overwritten() {
    let lab = Lab::new();
    let read = |name: &str| fs::read(lab.path().join(name)).unwrap();
    let refused = |words: &[&str], file: &str| {
        let before = read(file);
        let (_, err) = lab.run(words, 2);
        assert_eq!(read(file), before, "{err}");
        err
    };
    let err = refused(&["pack", "small.toml", "-o", "./small.toml"], "small.toml");
    assert!(err.contains("--parcel: ./small.toml is the file that is read"), "{err}");
    lab.write("notes", "mine");
    let err = refused(&["pack", "small.toml", "-o", "notes"], "notes");
    assert!(err.contains("notes is there, and is not what") && err.contains("name another file"), "{err}");
    // An empty file and an earlier parcel are written over.
    lab.write("x.parcel", "");
    lab.ok(&["pack", "small.toml", "-o", "x.parcel"]);
    lab.ok(&["pack", "small.toml", "-o", "x.parcel"]);
    std::os::unix::fs::symlink("x.parcel", lab.path().join("link")).unwrap();
    for results in ["x.parcel", "link"] {
        let err = refused(&["work", "x.parcel", "--results", results], "x.parcel");
        assert!(err.contains("is the file that is read"), "{err}");
    }
    fs::hard_link(lab.path().join("x.parcel"), lab.path().join("hard")).unwrap();
    refused(&["work", "x.parcel", "--results", "hard"], "x.parcel");
    refused(&["work", "x.parcel", "--results", "small.toml"], "small.toml");
    assert!(!lab.path().join("runs").exists());
}

#[test]
fn unpack_refuses_files_that_it_can_not_read_twice() {
    let lab = Lab::new();
    let (_, err) = lab.run(&["unpack", "/dev/zero"], 2);
    assert!(err.contains("/dev/zero: it is a device"), "{err}");
    // Nobody writes into the pipe: opening it would wait for ever.
    assert!(std::process::Command::new("mkfifo").arg(lab.path().join("pipe")).status().unwrap().success());
    let (_, err) = lab.run(&["unpack", "pipe"], 2);
    assert!(err.contains("it is a pipe, and it is read twice") && err.contains("to a file"), "{err}");
    fs::File::create(lab.path().join("disk")).unwrap().set_len(8 << 30).unwrap();
    let (_, err) = lab.run(&["unpack", "disk"], 2);
    assert!(err.contains("disk:1:1: not a file of results: its first line is longer"), "{err}");

    lab.ok(&["pack", "small.toml", "-o", "x.parcel"]);
    lab.ok(&["work", "x.parcel", "--out", "far", "--results", "x.results"]);
    let mut bytes = fs::read(lab.path().join("x.results")).unwrap();
    let head = bytes.iter().position(|b| *b == b'\n').unwrap() + 1;
    fs::write(lab.path().join("long"), [&bytes[..head], &vec![b' '; 2 << 20], b"\n"].concat()).unwrap();
    let output = lab.command(&["unpack", "long"]).env("SCHEDLAB_MAX_INPUT_MB", "1").output().unwrap();
    let (_, err) = common::texts(&output);
    assert!(
        output.status.code() == Some(2) && err.contains("long:2:1: the run's line is longer than 1 MB"),
        "{err}"
    );
    bytes[head + 12] = 0xff;
    fs::write(lab.path().join("bytes"), &bytes).unwrap();
    let (_, err) = lab.run(&["unpack", "bytes"], 2);
    assert!(err.contains("bytes:2:1: not a whole run") && err.contains("carry it again"), "{err}");
    let text = String::from_utf8(fs::read(lab.path().join("x.results")).unwrap()).unwrap();
    lab.write("other", &text.replacen("schedlab/results/1", "schedlab/results/9", 1));
    let (_, err) = lab.run(&["unpack", "other"], 2);
    assert!(err.contains("schedlab/results/9") && err.contains("use the same schedlab"), "{err}");
    assert!(common::files(&lab.path().join("runs")).is_empty());
}

#[test]
fn a_job_that_sbatch_did_not_report_is_found_by_its_name() {
    let cluster = Cluster::new();
    cluster.has("late");
    let (_, err) = cluster.run(&WORDS, 0);
    assert!(err.contains("12 runs made"), "{err}");
    assert_eq!(cluster.submissions(), 1);
    cluster.has("away");
    let (_, err) = cluster.run(&[&WORDS[..], &["--out", "other"]].concat(), 3);
    assert!(err.contains("Slurm can't be asked for its jobs") && err.contains("scontrol ping"), "{err}");
    assert_eq!(cluster.submissions(), 1, "nothing is submitted to a Slurm that does not answer");
}

#[test]
fn an_interrupted_command_is_continued_by_the_same_one_and_not_by_a_copy_of_its_store() {
    let cluster = Cluster::new();
    cluster.has("hold");
    let child = cluster.start(&WORDS);
    cluster.wait_for("asked");
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let output = child.wait_with_output().unwrap();
    let (_, err) = common::texts(&output);
    assert_eq!(output.status.code(), Some(1), "{err}");
    assert!(err.contains("12 runs are left to the jobs, which continue") && err.contains("scancel"), "{err}");
    let copied = Command::new("cp").args(["-r", "runs", "copy"]).current_dir(cluster.lab.path()).status();
    assert!(copied.unwrap().success());
    let again = cluster.start(&WORDS);
    std::thread::sleep(Duration::from_secs(1));
    cluster.has_not("hold");
    let (_, err) = common::texts(&again.wait_with_output().unwrap());
    assert!(
        err.contains("12 runs are in a job submitted before: schedlab-") && err.contains("12 runs made"),
        "{err}"
    );
    assert_eq!(cluster.submissions(), 1);
    let (_, err) = cluster.run(&[&WORDS[..], &["--out", "copy"]].concat(), 0);
    assert!(err.contains("12 runs made") && !err.contains("submitted before"), "{err}");
}

#[test]
fn ctrl_c_does_not_wait_for_a_slow_slurm() {
    let cluster = Cluster::new();
    cluster.has("hold");
    cluster.has("slow");
    let child = cluster.start(&WORDS);
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
    cluster.run_with(&[("SBATCH_WAIT", "1")], &WORDS, 0);
    assert_eq!(cluster.told("env"), "wait=\n");
    let elsewhere = [&WORDS[..], &["--out", "elsewhere"]].concat();
    let (_, err) = cluster.run_with(&[("SBATCH_CLUSTERS", "far")], &elsewhere, 2);
    assert!(err.contains("SBATCH_CLUSTERS is 'far'") && err.contains("unset"), "{err}");
    // A relative path starts at the folder where the command runs; the jobs' folder may be a link to elsewhere.
    symlink(assert_cmd::cargo::cargo_bin("schedlab"), cluster.lab.path().join("mine")).unwrap();
    ["linked", "there"].iter().for_each(|d| fs::create_dir(cluster.lab.path().join(d)).unwrap());
    symlink("../there", cluster.lab.path().join("linked/slurm")).unwrap();
    let (_, err) = cluster.run(&[&WORDS[..], &["--slurm", "schedlab=./mine", "--out", "linked"]].concat(), 0);
    assert!(err.contains("12 runs made, 0 found"), "{err}");
}
