//! Settings and attributes through the binary: they are changed, take effect, and are put back, after kill -9 by the
//! next start. A tree of files stands for /proc and /sys, so no test needs root.

use crate::common;
use crate::common::Lab;
use schedlab_base::testing::stretch;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

const AUTOGROUP: &str = "root/proc/sys/kernel/sched_autogroup_enabled";

/// A lab with a system of its own, where autogroup is 1.
fn lab() -> Lab {
    let lab = Lab::new();
    let knob = lab.path().join(AUTOGROUP);
    std::fs::create_dir_all(knob.parent().unwrap()).unwrap();
    std::fs::write(knob, "1\n").unwrap();
    lab
}

fn schedlab(lab: &Lab, words: &[&str]) -> Command {
    let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
    command.current_dir(lab.path()).args(words);
    command.env("SCHEDLAB_SYSTEM_ROOT", lab.path().join("root"));
    command.env("SCHEDLAB_STATE_DIR", lab.path().join("state"));
    // No kernel image is there, so that doctor boots none.
    command.env("SCHEDLAB_CACHE_DIR", lab.path().join("cache"));
    command
}

/// Runs it to its end: exit code, standard output, standard error.
fn run(lab: &Lab, words: &[&str]) -> (Option<i32>, String, String) {
    let output = schedlab(lab, words).output().unwrap();
    let (out, err) = common::texts(&output);
    (output.status.code(), out, err)
}

/// Starts it with the signals of a terminal: under nohup(1) it would inherit ignored hangups, and go on ignoring them.
fn start(lab: &Lab, words: &[&str]) -> Child {
    let mut command = Command::new("env");
    command.arg("--default-signal=HUP,INT,TERM");
    let told = schedlab(lab, words);
    command.arg(told.get_program()).args(told.get_args()).current_dir(lab.path());
    command.envs(told.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn value(lab: &Lab) -> String {
    lab.text(AUTOGROUP).trim().to_owned()
}

fn entries(lab: &Lab) -> Vec<PathBuf> {
    let listed = std::fs::read_dir(lab.path().join("state/journal")).into_iter().flatten().flatten();
    listed.map(|e| e.path()).collect()
}

fn wait_for(what: &str, holds: impl Fn() -> bool) {
    let (since, patience) = (Instant::now(), Duration::from_secs(20 * stretch()));
    while !holds() {
        assert!(since.elapsed() < patience, "{what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn kill(signal: &str, pid: u32) {
    assert!(Command::new("kill").args([signal, &pid.to_string()]).status().unwrap().success());
}

/// Starts a command with autogroup 0, and kills schedlab, not the command, once the setting is applied.
fn killed_in_the_middle(lab: &Lab) {
    let mut child = start(lab, &["exec", "--set", "autogroup=0", "--", "cat"]);
    wait_for("the setting is made", || value(lab) == "0");
    kill("-KILL", child.id());
    child.wait().unwrap();
    assert_eq!((value(lab).as_str(), entries(lab).len()), ("0", 1), "changed, and a note of it");
}

#[test]
fn kill_9_leaves_a_note_from_which_the_next_start_restores() {
    let lab = lab();
    killed_in_the_middle(&lab);
    let (_, doctor, _) = run(&lab, &["doctor"]);
    assert!(doctor.contains("schedlab restore") && doctor.contains("is '0' and was"), "{doctor}");
    let (code, out, err) = run(&lab, &["exec", "--set", "autogroup=off", "--", "cat", AUTOGROUP]);
    assert_eq!((code, out.as_str()), (Some(0), "0\n"), "{err}");
    assert!(err.contains("left by a killed run: ") && err.contains("is '1' again"), "{err}");
    assert_eq!((value(&lab).as_str(), entries(&lab).len()), ("1", 0));
}

#[test]
fn restore_puts_back_and_says_so() {
    let lab = lab();
    killed_in_the_middle(&lab);
    let (code, out, _) = run(&lab, &["restore", "--json"]);
    let said: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &said["schema"]), (Some(0), &serde_json::json!("schedlab/restore/1")));
    assert!(
        said["settings"][0]["setting"] == "autogroup" && said["settings"][0]["restored"] == true,
        "{said}"
    );
    assert_eq!(value(&lab), "1");
    assert!(run(&lab, &["restore"]).1.contains("nothing is left"));
    let doctor: serde_json::Value = serde_json::from_str(&run(&lab, &["doctor", "--json"]).1).unwrap();
    assert_eq!(doctor["to_restore"], serde_json::json!([]));
    let autogroup = doctor["settings"].as_array().unwrap().iter().find(|s| s["name"] == "autogroup").unwrap();
    assert!(autogroup["access"] == "yes" && autogroup["now"] == "1", "{autogroup}");
}

#[test]
fn changes_that_others_made_since_stay() {
    let lab = lab();
    killed_in_the_middle(&lab);
    lab.write(AUTOGROUP, "7\n");
    let (code, out, _) = run(&lab, &["restore"]);
    assert!(code == Some(0) && out.contains("which schedlab did not write"), "{out}");
    assert_eq!((value(&lab).as_str(), entries(&lab).len()), ("7", 0));
}

#[test]
fn interrupts_and_other_signals_reach_the_command_and_settings_go_back() {
    for (signal, code) in [("-INT", 130), ("-TERM", 143), ("-HUP", 129)] {
        let lab = lab();
        // Tests that run in the background may ignore interrupts, and the command would inherit that.
        let words = ["exec", "--set", "autogroup=0", "--", "env", "--default-signal", "cat"];
        let mut child = start(&lab, &words);
        wait_for("the setting is made", || value(&lab) == "0");
        // The command may not have been started yet: the signal waits for it.
        kill(signal, child.id());
        // Waiting would close it, and end the command.
        let _input = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(code), "{signal}");
        assert_eq!((value(&lab).as_str(), entries(&lab).len()), ("1", 0));
    }
}

#[test]
fn only_one_changes_settings_at_a_time() {
    let lab = lab();
    let mut child = start(&lab, &["exec", "--set", "autogroup=0", "--", "cat"]);
    wait_for("the setting is made", || value(&lab) == "0");
    for words in [&["exec", "--set", "autogroup=1", "--", "true"][..], &["restore"]] {
        let (code, _, err) = run(&lab, words);
        assert!(code == Some(3) && err.contains("another schedlab is changing settings"), "{err}");
    }
    drop(child.stdin.take());
    assert!(child.wait().unwrap().success() && value(&lab) == "1");
}

/// An entry whose file has become a pipe: neither looking nor restoring waits for it.
#[test]
fn an_entry_whose_file_is_a_pipe_is_reported_and_not_waited_for() {
    let lab = lab();
    let text = include_str!("cases/hostile/journal-entry.json");
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap();
    let pipe = lab.path().canonicalize().unwrap().join("file");
    let mut entry: serde_json::Value = serde_json::from_str(text).unwrap();
    entry["boot"] = boot.trim().into();
    entry["path"] = pipe.to_str().unwrap().into();
    entry["setting"] = format!("file:{}", pipe.display()).into();
    std::fs::create_dir_all(lab.path().join("state/journal")).unwrap();
    lab.write("state/journal/1.json", &entry.to_string());
    assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let began = Instant::now();
    for words in [&["restore"][..], &["doctor"], &["exec", "--set", "autogroup=0", "--", "true"]] {
        let (_, out, err) = run(&lab, words);
        // doctor breaks its lines.
        let told = format!("{out} {err}").split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(told.contains("not a regular file"), "{words:?}: {told}");
    }
    assert!(began.elapsed() < Duration::from_secs(30 * stretch()));
    assert_eq!((value(&lab).as_str(), entries(&lab).len()), ("1", 1), "the entry stays");
    // Another file than the setting's name says.
    entry["setting"] = "autogroup".into();
    std::fs::remove_file(&pipe).unwrap();
    std::fs::write(&pipe, "9\n").unwrap();
    lab.write("state/journal/1.json", &entry.to_string());
    let (_, out, err) = run(&lab, &["restore"]);
    assert!(format!("{out}{err}").contains("not that of setting 'autogroup'"), "{out}{err}");
    assert_eq!(std::fs::read_to_string(&pipe).unwrap(), "9\n");
    assert!(err.contains("1 setting could not be put back") && err.contains("by hand"), "{err}");
    // As many as may write it might have made it.
    use std::os::unix::fs::PermissionsExt;
    let file = lab.path().join("state/journal/1.json");
    std::fs::set_permissions(&file, std::fs::Permissions::from_mode(0o666)).unwrap();
    let (_, _, err) = run(&lab, &["restore"]);
    assert!(err.contains("chmod go-w") && !err.contains("as root"), "{err}");
}

#[test]
fn a_setting_that_was_named_by_a_link_is_put_back_when_the_link_is_gone() {
    let lab = lab();
    lab.write("weight", "100");
    let (file, link) = (lab.path().join("weight"), lab.path().join("link"));
    std::os::unix::fs::symlink(&file, &link).unwrap();
    let setting = format!("file:{}=200", link.display());
    let mut child = start(&lab, &["exec", "--set", &setting, "--", "cat"]);
    wait_for("the setting is made", || std::fs::read_to_string(&file).unwrap().trim() == "200");
    kill("-KILL", child.id());
    child.wait().unwrap();
    std::fs::remove_file(&link).unwrap();
    let (code, out, err) = run(&lab, &["restore"]);
    assert_eq!((code, entries(&lab).len()), (Some(0), 0), "{out}{err}");
    assert_eq!(std::fs::read_to_string(&file).unwrap().trim(), "100");
}

#[test]
fn a_file_of_ones_own_needs_no_tree_and_no_root() {
    let lab = lab();
    lab.write("weight", "100");
    let file = lab.path().join("weight");
    let setting = format!("file:{}=200", file.display());
    let (code, out, err) = run(&lab, &["exec", "--verbose", "--set", &setting, "--", "cat", "weight"]);
    assert_eq!((code, out.as_str()), (Some(0), "200\n"), "{err}");
    assert!(err.contains("200 (was 100)"), "{err}");
    assert_eq!(std::fs::read_to_string(file).unwrap(), "100", "to the byte");
}

#[test]
fn input_output_and_exit_code_are_the_commands() {
    let lab = lab();
    for set in [&[][..], &["--set", "autogroup=0"]] {
        let words =
            |script: &'static str| [&["exec", "--nice", "1"], set, &["--", "sh", "-c", script]].concat();
        let mut child = start(&lab, &words("cat; echo no >&2; exit 7"));
        std::io::Write::write_all(&mut child.stdin.take().unwrap(), b"through\n").unwrap();
        let (out, err) = {
            let output = child.wait_with_output().unwrap();
            assert_eq!(output.status.code(), Some(7));
            common::texts(&output)
        };
        assert_eq!((out.as_str(), err.as_str()), ("through\n", "no\n"));
    }
    // Without settings schedlab has become the command, so the command itself gets the signal.
    let by_signal = |status: ExitStatus| std::os::unix::process::ExitStatusExt::signal(&status);
    let status = |words: &[&str]| schedlab(&lab, words).status().unwrap();
    assert_eq!(by_signal(status(&["exec", "--", "sh", "-c", "kill -USR1 $$"])), Some(10));
    assert_eq!(
        status(&["exec", "--set", "autogroup=0", "--", "sh", "-c", "kill -KILL $$"]).code(),
        Some(137)
    );
    assert_eq!(value(&lab), "1");
}

#[test]
fn a_live_process_is_changed_for_a_time() {
    let lab = lab();
    let mut other = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
    let pid = other.id().to_string();
    let policy = || {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.split_whitespace().nth(40).unwrap().to_owned()
    };
    let mut child = start(&lab, &["exec", "--policy", "batch", "--pid", &pid, "--for", "60"]);
    wait_for("it is batch", || policy() == "3");
    kill("-INT", child.id());
    assert!(child.wait().unwrap().success());
    assert_eq!(policy(), "0");
    let (code, _, err) = run(&lab, &["exec", "--policy", "idle", "--pid", &pid]);
    assert!(code == Some(0) && err.contains("for good"), "{err}");
    assert_eq!(policy(), "5");
    other.kill().unwrap();
    other.wait().unwrap();
    let (code, _, err) = run(&lab, &["exec", "--policy", "idle", "--pid", "4194304"]);
    assert!(code == Some(2) && err.contains("no process 4194304"), "{err}");
}

const LIVE: &str = include_str!("cases/files/live.toml");

#[test]
fn a_live_variant_is_made_for_its_runs_and_put_back() {
    let lab = lab();
    lab.write("live.toml", LIVE);
    let (code, _, err) = run(&lab, &["run", "live.toml", "--backend", "host", "--quiet"]);
    assert_eq!(code, Some(0), "{err}");
    assert_eq!((value(&lab).as_str(), entries(&lab).len()), ("1", 0));
    let records = lab.records("runs");
    let told = records.iter().filter(|record| {
        let without = record["variant"]["name"] == "without";
        assert_eq!(record["environment"].get("setting.autogroup").is_some(), without);
        record["environment"]["setting.autogroup"] == "0 (was 1)"
    });
    assert_eq!(told.count(), 2);
}

#[test]
fn a_live_run_that_is_interrupted_or_killed_is_put_back() {
    let lab = lab();
    lab.write("live.toml", &LIVE.replace("300ms", "60s"));
    let words = ["run", "live.toml", "--backend", "host", "--variant", "without"];
    for signal in ["-INT", "-TERM", "-HUP"] {
        let mut child = start(&lab, &words);
        wait_for("the setting is made", || value(&lab) == "0");
        kill(signal, child.id());
        assert_eq!(child.wait().unwrap().code(), Some(1), "{signal}");
        assert_eq!((value(&lab).as_str(), entries(&lab).len()), ("1", 0), "{signal}");
    }
    let mut child = start(&lab, &words);
    wait_for("the setting is made", || value(&lab) == "0");
    kill("-KILL", child.id());
    child.wait().unwrap();
    assert_eq!((value(&lab).as_str(), entries(&lab).len()), ("0", 1));
    let (_, out, err) = run(&lab, &["bench", "schbench", "-r", "1", "-m", "1", "-t", "1", "--json"]);
    assert!(format!("{out}{err}").contains("'schedlab restore'"), "a run on a changed system says so: {err}");
    assert_eq!(run(&lab, &["restore"]).0, Some(0));
    assert_eq!(value(&lab), "1");
}
