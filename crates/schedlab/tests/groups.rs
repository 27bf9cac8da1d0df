//! Control groups through the binary: weights on the live kernel and in the simulator, kill -9, and no permission. The
//! tests that make groups are left out where there is no cpu controller that can be written.

use crate::common;
use crate::common::Lab;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// One process at a time makes groups of a machine.
static ONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// Two hogs in groups of weight 1 to 3, on one CPU.
fn thirds(kernel: &str, runtime: &str) -> String {
    include_str!("cases/files/thirds.toml").replace("KERNEL", kernel).replace("RUNTIME", runtime)
}

fn schedlab(lab: &Lab, words: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
    command.current_dir(lab.path()).args(words).env("SCHEDLAB_STATE_DIR", lab.path().join("state"));
    command
}

fn run(lab: &Lab, words: &[&str]) -> (Option<i32>, String, String) {
    let output = schedlab(lab, words).output().unwrap();
    let (out, err) = common::texts(&output);
    (output.status.code(), out, err)
}

/// Runs it once no other schedlab changes settings of this machine; `None` where no group can be made.
fn run_live(lab: &Lab, words: &[&str]) -> Option<(Option<i32>, String, String)> {
    let since = Instant::now();
    loop {
        let (code, out, err) = run(lab, words);
        if err.contains("another schedlab is changing") && since.elapsed() < Duration::from_secs(120) {
            std::thread::sleep(Duration::from_millis(500));
            continue;
        }
        if code == Some(3)
            && (err.contains("no control groups can be made") || err.contains("control groups: can't"))
        {
            eprintln!("left out: {err}");
            return None;
        }
        return Some((code, out, err));
    }
}

/// The CPU time of the tasks of a name in the only record.
fn cpu_time(lab: &Lab, name: &str) -> f64 {
    let records = lab.records("runs");
    assert_eq!(records.len(), 1);
    let own = |task: &&serde_json::Value| task["name"].as_str().unwrap().starts_with(name);
    records[0]["tasks"].as_array().unwrap().iter().filter(own).map(|t| t["cpu_time"].as_f64().unwrap()).sum()
}

fn entries(lab: &Lab) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(lab.path().join("state/journal")).into_iter().flatten().flatten();
    listed.map(|e| e.path()).collect()
}

/// The groups that the journal has.
fn groups(lab: &Lab) -> Vec<PathBuf> {
    let path = |file: PathBuf| -> Option<PathBuf> {
        let entry: serde_json::Value = serde_json::from_slice(&std::fs::read(file).ok()?).ok()?;
        (entry["form"] == "folder").then(|| entry["path"].as_str().unwrap().into())
    };
    entries(lab).into_iter().filter_map(path).collect()
}

#[test]
fn weights_of_1_to_3_divide_a_cpu_of_the_simulator_and_of_this_machine() {
    let _alone = alone();
    for (backend, kernel) in [("sim", "v6.12"), ("host", "running")] {
        let lab = Lab::new();
        lab.write("thirds.toml", &thirds(kernel, "4s"));
        let words = ["run", "thirds.toml", "--backend", backend, "--quiet"];
        let Some((code, _, err)) = run_live(&lab, &words) else { continue };
        assert_eq!(code, Some(0), "{err}");
        let ratio = cpu_time(&lab, "other/") / cpu_time(&lab, "hog/");
        assert!((2.91..=3.09).contains(&ratio), "{backend}: 3 is wanted, {ratio} found");
        assert_eq!(entries(&lab), Vec::<PathBuf>::new(), "nothing is left");
        println!("{backend}: {ratio:.4}");
    }
}

#[test]
fn groups_and_tasks_change_in_mid_run_in_the_simulator_and_on_this_machine() {
    let _alone = alone();
    for (backend, kernel) in [("sim", "v6.12"), ("host", "running")] {
        let lab = Lab::new();
        lab.write("changing.toml", &include_str!("cases/files/changing.toml").replace("KERNEL", kernel));
        let words = ["run", "changing.toml", "--backend", backend, "--quiet"];
        let Some((code, _, err)) = run_live(&lab, &words) else { continue };
        assert_eq!(code, Some(0), "{err}");
        let (hog, other) = (cpu_time(&lab, "hog/"), cpu_time(&lab, "other/"));
        let wanted = (0.25 + 0.375 + 0.75) / (0.75 + 0.125 + 0.75);
        assert!((hog / other - wanted).abs() < 0.1, "{backend}: {wanted} is wanted, {} found", hog / other);
        assert_eq!(entries(&lab), Vec::<PathBuf>::new(), "nothing is left");
    }
}

/// Starts a live run in groups and gives it once they are there and its tasks are in them; `None` where none can be.
fn begun(lab: &Lab) -> Option<(Child, Vec<PathBuf>)> {
    lab.write("short.toml", &thirds("running", "50ms"));
    run_live(lab, &["run", "short.toml", "--backend", "host", "--quiet"])?;
    lab.write("long.toml", &thirds("running", "60s"));
    let mut command = schedlab(lab, &["run", "long.toml", "--backend", "host", "--quiet"]);
    // The caller waits for it.
    #[allow(clippy::zombie_processes)]
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    let populated = |group: &PathBuf| {
        let threads =
            ["tasks", "cgroup.threads"].map(|f| std::fs::read_to_string(group.join(f)).unwrap_or_default());
        threads.iter().any(|t| !t.is_empty())
    };
    loop {
        let there = groups(lab);
        if there.len() == 3 && there.iter().filter(|g| populated(g)).count() == 2 {
            return Some((child, there));
        }
        assert!(since.elapsed() < Duration::from_secs(60), "the groups are made: {there:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn gone(groups: &[PathBuf]) -> bool {
    !groups.iter().any(|group| group.exists())
}

#[test]
fn groups_that_kill_9_left_are_removed_by_restore() {
    let _alone = alone();
    let lab = Lab::new();
    let Some((mut child, groups)) = begun(&lab) else { return };
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(groups.iter().all(|group| group.is_dir()), "the groups are left");
    let (_, doctor, _) = run(&lab, &["doctor"]);
    assert!(doctor.contains("schedlab restore") && doctor.contains("is 'made' and was 'absent'"), "{doctor}");
    let (code, out, err) = run(&lab, &["restore"]);
    assert!(code == Some(0) && out.contains("is 'absent' again"), "{out}{err}");
    assert!(gone(&groups) && entries(&lab).is_empty(), "{out}");
}

#[test]
fn an_interrupted_run_removes_its_groups() {
    let _alone = alone();
    let lab = Lab::new();
    let Some((mut child, groups)) = begun(&lab) else { return };
    assert!(Command::new("kill").args(["-TERM", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(1));
    assert!(gone(&groups) && entries(&lab).is_empty());
}

/// A system of files whose cpu controller is a link to `to`.
fn imitated(lab: &Lab, to: &Path) {
    for folder in ["root/proc/self", "root/sys/fs/cgroup"] {
        std::fs::create_dir_all(lab.path().join(folder)).unwrap();
    }
    let mount = "32 31 0:29 / /sys/fs/cgroup/cpu rw shared:1 - cgroup cgroup rw,cpu";
    lab.write("root/proc/self/mountinfo", mount);
    lab.write("root/proc/self/cgroup", "1:cpu:/\n");
    std::os::unix::fs::symlink(to, lab.path().join("root/sys/fs/cgroup/cpu")).unwrap();
}

#[test]
fn without_permission_or_controller_the_remedy_is_named() {
    let lab = Lab::new();
    lab.write("thirds.toml", &thirds("running", "100ms"));
    // Nobody may make a folder there.
    imitated(&lab, Path::new("/sys/kernel"));
    let host = |lab: &Lab| {
        let mut command = schedlab(lab, &["run", "thirds.toml", "--backend", "host", "--quiet"]);
        let output = command.env("SCHEDLAB_SYSTEM_ROOT", lab.path().join("root")).output().unwrap();
        (output.status.code(), common::texts(&output).1)
    };
    let (code, err) = host(&lab);
    assert!(
        code == Some(3) && err.contains("control groups: can't make") && err.contains("Delegate=yes"),
        "{err}"
    );
    assert_eq!(entries(&lab), Vec::<PathBuf>::new(), "nothing is left to restore");
    lab.write("root/proc/self/cgroup", "0::/\n");
    let (code, err) = host(&lab);
    assert!(code == Some(3) && err.contains("no hierarchy with the cpu controller"), "{err}");
}
