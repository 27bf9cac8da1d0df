//! `schedlab limits` of recordings, by the binary: from a run to the sentence that answers the question.

use crate::common::{Lab, unwrapped};
use schedlab_base::testing::skipped;
use std::path::Path;
use std::process::Command;

/// A pool in /web whose collector uses the quota of 0.3 CPUs up, and a neighbour in /batch.
const WEB: &str = r#"
name = "web"
runs = 1
machine = "smp-2"
[workload]
name = "pool"
threads = 2
rate = 300
work = "200us"
gc_every = 100
gc_work = "70ms"
runtime = "3s"
[[beside]]
name = "batch"
called = "batch"
[[group]]
path = "/web"
shares = 512
quota = "30ms"
tasks = ["*"]
[[group]]
path = "/batch"
tasks = ["batch"]
[[variant]]
name = "v6.12"
kernel = "v6.12"
"#;

/// A simulated recording of [`WEB`]; the folder of its store.
fn recorded(lab: &Lab) -> String {
    lab.write("web.toml", WEB);
    lab.kept("run web.toml --out rec")
}

#[test]
fn a_run_needs_nothing_else_its_group_and_limit_are_known_and_the_answer_is_a_sentence() {
    let lab = Lab::new();
    let run = recorded(&lab);
    let text = lab.ok(&format!("limits {run} -q"));
    let printed = unwrapped(&text);
    let parts =
        ["as-is 0.3", "half 0.15", "burst 0.3+0.3", "/web.busy.", "throttled", "/batch.", "simulated v6.12"];
    assert!(parts.iter().all(|part| printed.contains(part)), "{text}");
    assert!(printed.contains("Removing the limit helps: ") && printed.contains("run_delay.mean"), "{text}");
    assert!(printed.contains("the replay under the limit as it is: "), "{text}");
    std::fs::create_dir(lab.path().join("kept")).unwrap();
    // All runs are found again, and the experiment is an ordinary one with its schedule beside it.
    lab.says(&format!("limits {run}"), 0, &["0 runs made, 50 found"]);
    let saved = lab.ok(&format!("limits {run} --save kept/mine.toml -q"));
    let parts = ["schedlab run kept/mine.toml", "kept/mine.sched: belongs to it"];
    assert!(parts.iter().all(|part| saved.contains(part)), "{saved}");
    assert!(
        lab.text("kept/mine.toml").contains("schedule = \"mine.sched\""),
        "{}",
        lab.text("kept/mine.toml")
    );
    lab.ok("run kept/mine.toml --runs 2 --format variants -q");
    lab.says(&format!("limits {run} --save kept/mine.toml"), 2, &["mine.toml"]);
    let json = lab.json(&format!("limits {run} --runs 2 --json -q"));
    let notes = json["warnings"].to_string();
    let parts =
        ["replay.off", "row 'request 0.3' sets a weight of 307 shares, and the recorded group has 512"];
    assert!(parts.iter().all(|part| notes.contains(part)), "{notes}");
    // The length of a replay is not that of another: CPUs are neither shown nor judged. The mean always is.
    let metrics = json["metrics"].to_string();
    assert!(!metrics.contains(".cpus") && metrics.contains("group./web.busy.mean"), "{metrics}");
    let answers = json["answers"].as_array().unwrap();
    assert!(answers[0].as_str().unwrap().contains("emoving the limit"), "{answers:?}");
}

#[test]
fn the_busy_periods_of_a_recording_are_its_metrics_too() {
    let lab = Lab::new();
    let run = recorded(&lab);
    let found = lab.records(&run).remove(0);
    let busy = &found["series"]["group./web.busy"];
    assert!(busy["count"].as_u64() > Some(100), "{busy}");
    let all =
        lab.ok(&format!("compare {run} --metric group./web.busy.p50 --metric group./web.run_delay.mean"));
    assert!(all.contains("group./web.busy.p50"), "{all}");
    // Another tool's recording does not know groups: its tasks are named.
    lab.ok(&format!("trace {run} --format text -o web.txt"));
    lab.says("limits web.txt --limit 500m", 2, &["is a recording (ftrace)", "schedlab import web.txt"]);
    let printed = lab.json("import web.txt --kernel 6.12.1 --machine smp-2 --json");
    let folder = printed["folder"].as_str().unwrap();
    lab.says(
        &format!("limits {folder} --limit 500m"),
        2,
        &["no task was recorded in a control group", "--task NAME"],
    );
    lab.says(
        &format!("limits {folder} --limit 500m --group /web"),
        2,
        &["--group /web", "record --duration"],
    );
    lab.says(
        &format!("limits {folder} --limit 300m --task nobody"),
        2,
        &["no task of the recording is named nobody"],
    );
    lab.says(
        &format!("limits {folder} --task worker*"),
        2,
        &["did not keep the limit of /service", "--limit"],
    );
    let text = lab.ok(&format!("limits {folder} --limit 300m --task worker* --task job --runs 2 -q"));
    assert!(text.contains("/service.") && text.contains("as-is 0.3"), "{text}");
}

#[test]
fn what_a_recording_lacks_is_said_before_anything_is_simulated() {
    let lab = Lab::new();
    let run = recorded(&lab);
    lab.says(&format!("limits {run} --group /wep"), 2, &["--group", "/web"]);
    // A group whose limit was not kept, and one that has none.
    lab.says(&format!("limits {run} --group /batch"), 2, &["did not keep the limit of /batch", "--limit"]);
    lab.says(&format!("limits {run} --limit none"), 2, &["there is no limit to compare with", "--try"]);
    let text = lab.ok(&format!("limits {run} --group /batch --limit none --try 1 --runs 2 -q"));
    assert!(text.contains("as-is none") && !text.contains("Removing the limit"), "{text}");
    lab.says("limits http --limit 1 --task a", 2, &["--task a is for recordings"]);
    lab.says("limits nothing-there", 2, &["nothing-there"]);
    lab.write("words", "root:x:0:0\n");
    lab.says("limits words --limit 1", 2, &["words is not a run, a .sched or an rt-app file"]);
    // What a recording has can't be left out, or be other than it was.
    lab.says(&format!("limits {run} --alone"), 2, &["--alone", "part of the recording"]);
    lab.says(&format!("limits {run} --threads-of go-1.25"), 2, &["a recording has the threads"]);
    lab.says(&format!("limits {run} --limit 50"), 2, &["recorded machine has 2", "limit is 0.3", "50%"]);
    lab.says("limits http --limit 50 --machine smp-8", 2, &["50 CPUs, and smp-8 has 8"]);
    lab.says(&format!("limits {run} --task worker*"), 2, &["knows the groups of worker*", "--group /web"]);
    lab.says(&format!("limits {run} --backend vm"), 2, &["no kernel is named", "--kernel"]);
    lab.write("empty.sched", "schedlab-schedule 1 1000000\n");
    lab.says("limits empty.sched --limit 1", 2, &["no task"]);
}

/// A loop that works for a millisecond or two and sleeps for five, in the control group that it is put into.
const SERVICE: &str = "while :; do i=0; while [ $i -lt 2000 ]; do i=$((i+1)); done; sleep 0.005; done";

/// A control group of this machine with a quota of 10 ms in 100 ms, which ends with the test.
struct Limited(std::path::PathBuf);

impl Limited {
    fn new() -> Option<Limited> {
        let name = format!("schedlab-test-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/cpu").join(&name);
        std::fs::create_dir(&v1).ok()?;
        let made = Limited(v1);
        std::fs::write(made.0.join("cpu.cfs_quota_us"), "10000").ok()?;
        Some(made)
    }
    fn path(&self) -> String {
        format!("/{}", self.0.file_name().unwrap().to_string_lossy())
    }
}

impl Drop for Limited {
    fn drop(&mut self) {
        // A group can go when its last thread has been reaped.
        for _ in 0..50 {
            if std::fs::remove_dir(&self.0).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}

#[test]
fn a_live_group_is_recorded_with_its_limit_and_answered_for() {
    let lab = Lab::new();
    let Some(group) = Limited::new() else {
        return skipped("no control group with a quota can be made here");
    };
    let join = format!("echo $$ > {}/cgroup.procs; {SERVICE}", group.0.display());
    let mut service = Command::new("sh").args(["-c", &join]).spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    let line = ["record", "--duration", "2s", "--cgroup", &group.path(), "--json"];
    let done = lab.command(&line[..]).output().unwrap();
    service.kill().and_then(|()| service.wait()).unwrap();
    if done.status.code() == Some(3) {
        return skipped(String::from_utf8_lossy(&done.stderr));
    }
    let printed: serde_json::Value = serde_json::from_slice(&done.stdout).unwrap();
    let folder = printed["folder"].as_str().unwrap();
    let said = printed["groups"][0].as_str().unwrap();
    assert!(said.contains("limit 0.1 CPUs") && said.contains("; throttled in "), "{printed}");
    assert_eq!(printed["next"], format!("schedlab limits {folder}"));
    let text = lab.ok(&format!("limits {folder} --runs 2 -q"));
    assert!(text.contains("as-is 0.1") && unwrapped(&text).contains(&format!("{}.", group.path())), "{text}");
}

#[test]
fn of_several_recordings_in_a_cell_the_newest_is_taken_and_a_store_has_folders_to_name() {
    let lab = Lab::new();
    let run = recorded(&lab);
    lab.ok(&format!("trace {run} --format text -o web.txt"));
    let printed = lab.json("import web.txt --kernel 6.12.1 --machine smp-2 --json");
    let folder = lab.path().join(printed["folder"].as_str().unwrap());
    let cell = folder.parent().unwrap();
    let older = cell.join("1");
    std::fs::create_dir(&older).unwrap();
    for file in std::fs::read_dir(&folder).unwrap().flatten() {
        std::fs::copy(file.path(), older.join(file.file_name())).unwrap();
    }
    let record = older.join("record.json");
    let seed = folder.file_name().unwrap().to_string_lossy().into_owned();
    let text = std::fs::read_to_string(&record).unwrap();
    std::fs::write(&record, text.replace(&format!("\"seed\":{seed}"), "\"seed\":1")).unwrap();
    let record = std::fs::File::options().write(true).open(record).unwrap();
    record.set_modified(std::time::UNIX_EPOCH).unwrap();
    let line = format!("limits {} --limit 300m --task worker* --runs 1", cell.display());
    let words = format!("the newest is taken, {}; others: {}", folder.display(), older.display());
    lab.says(&line, 0, &[&words]);
    // A run that is named is that one.
    let (_, err) = lab.run(&line.replace(&*cell.to_string_lossy(), &folder.to_string_lossy()), 0);
    assert!(err.contains("0 runs made") && !err.contains("newest"), "{err}");
    let store = cell.parent().unwrap().display();
    lab.says(&format!("limits {store} --limit 300m"), 2, &["cells", "name one of its folders: "]);
}

#[test]
fn the_root_group_is_not_recorded() {
    let lab = Lab::new();
    for root in ["/", ""] {
        let (_, err) = lab.run(&["record", "--duration", "1s", "--cgroup", root], 2);
        assert!(err.contains("is the root group, which has no limit"), "{err}");
    }
}
