//! Errors in a file have a place, the object and a remedy.

use super::keys::{Fate, KEYS, Level};
use crate::Builder;
use proptest::prelude::*;
use schedlab_base::{Error, ErrorKind};

fn build(text: &str) -> Result<(), Error> {
    let mut b = Builder::new(1);
    super::build("t.json", text, None, &mut b).and_then(|()| b.finish().map(|_| ()))
}
/// The whole message about a file with `tasks` on its second line.
fn complaint(tasks: &str) -> String {
    complaint_of(&format!("{{\"global\": {{\"duration\": 1}}, \"tasks\": {{\n{tasks}}}}}"))
}
fn complaint_of(text: &str) -> String {
    let error = build(text).expect_err(text);
    assert_eq!(error.kind(), ErrorKind::Input, "{error}");
    error.to_string()
}

#[test]
fn single_values_are_checked() {
    for (tasks, wanted) in [
        (r#""a": {"rum": 5}"#, "t.json:2:7: unknown key in task 'a' 'rum'\n  help: did you mean 'run'?"),
        (r#""a": {"runs": 5}"#, "t.json:2:7: unknown key in task 'a' 'runs'\n  help: did you mean 'run'?"),
        (
            r#""a": {"run": -5}"#,
            "t.json:2:14: run = -5 is not a whole number in range\n  help: it takes 0 to 3600000000",
        ),
        (
            r#""a": {"run": 1e400}"#,
            "t.json:2:14: run = 1e400 is not a whole number in range\n  help: it takes 0 to 3600000000",
        ),
        (
            r#""a": {"run": 1.5}"#,
            "t.json:2:14: run = 1.5 is not a whole number in range\n  help: it takes 0 to 3600000000",
        ),
        (r#""a": {"run": "5"}"#, "t.json:2:14: 'run' takes a whole number, not a string"),
        (
            r#""a": {"instance": 1000000000, "run": 1}"#,
            "t.json:2:19: instance = 1000000000 is not a whole number in range\n  help: it takes 0 to 100000",
        ),
        (
            r#""a": {"loop": 0, "run": 1}"#,
            "t.json:2:15: a loop of 0 does nothing\n  help: write a count, or -1 for ever; leave the phase out to skip it",
        ),
        (
            r#""a": {"loop": -2, "run": 1}"#,
            "t.json:2:15: loop = -2 is not a whole number in range\n  help: it takes -1 to 2147483647",
        ),
        (
            r#""a": {"priority": 20, "run": 1}"#,
            "t.json:2:19: priority = 20 is not a whole number in range\n  help: it takes -20 to 19",
        ),
        (
            r#""a": {"policy": "SCHED_FIFO", "priority": 0, "run": 1}"#,
            "t.json:2:43: priority = 0 is not a whole number in range\n  help: it takes 1 to 99",
        ),
        (
            r#""a": {"policy": "SCHED_OTTER", "run": 1}"#,
            "t.json:2:17: unknown scheduling policy 'SCHED_OTTER'\n  help: known: other, batch, idle, fifo, rr, deadline",
        ),
        (
            r#""a": {"policy": "SCHED_DEADLINE", "run": 1}"#,
            "t.json:2:7: a SCHED_DEADLINE task needs 'dl-runtime'\n  help: dl-runtime <= dl-deadline <= dl-period, in us",
        ),
        (
            r#""a": {"policy": "SCHED_DEADLINE", "dl-runtime": 900, "dl-deadline": 800, "dl-period": 1000, "run": 1}"#,
            "t.json:2:35: a runtime of 900us, due after 800us, in a period of 1ms\n  help: dl-runtime <= dl-deadline <= dl-period, in us",
        ),
        (
            r#""a": {"dl-period": 1000, "run": 1}"#,
            "t.json:2:7: 'dl-period' is of SCHED_DEADLINE, and the policy is other\n  help: policy = SCHED_DEADLINE beside it",
        ),
        (
            r#""a": {"cpus": [0, 4096], "run": 1}"#,
            "t.json:2:19: cpus = 4096 is not a whole number in range\n  help: it takes 0 to 4095",
        ),
        (r#""a": {"cpus": [], "run": 1}"#, "t.json:2:15: a task needs at least one CPU"),
        (
            r#""a": {"cpus": "0-3", "run": 1}"#,
            "t.json:2:15: 'cpus' takes an array of CPU numbers, not a string",
        ),
        (
            r#""a": {"timer": {"ref": "unique", "period": 0}}"#,
            "t.json:2:44: period = 0 is not a whole number in range\n  help: it takes 1 to 3600000000",
        ),
        (r#""a": {"timer": {"period": 5}}"#, "t.json:2:16: 'timer' has no 'ref'"),
        (
            r#""a": {"timer": {"ref": "x", "period": 5, "mode": "absolut"}}"#,
            "t.json:2:50: unknown timer mode 'absolut'\n  help: did you mean 'absolute'?",
        ),
        (
            r#""a": {"wait": {"ref": "c", "mutx": "m"}}"#,
            "t.json:2:28: unknown key in wait 'mutx'\n  help: did you mean 'mutex'?",
        ),
        (r#""a": {"lock": ""}"#, "t.json:2:15: 'lock' needs a name"),
        (r#""a": []"#, "t.json:2:6: 'a' takes an object, not an array"),
        (r#""a": {"loop": 1}"#, "t.json:2:1: task 'a' has no events"),
        (r#""a": {"phases": {}}"#, "t.json:2:7: task 'a' has no phases"),
        (r#""a": {"phases": {"p": {"loop": 2}}}"#, "t.json:2:18: phase 'p' of task 'a' has no events"),
        (
            r#""a": {"run": 1, "phases": {"p": {"run": 2}}}"#,
            "t.json:2:7: task 'a' has 'phases', so rt-app would ignore this event\n  help: move it into a phase",
        ),
        (
            r#""a": {"phases": {"p": {"instance": 2, "run": 2}}}"#,
            "t.json:2:24: unknown key in phase 'p' 'instance'\n  help: known: loop, policy, priority, cpus, dl-runtime, dl-period, dl-deadline, taskgroup, run, runtime, sleep, timer, lock, unlock, wait, signal, broad, sync, suspend, resume, barrier, yield, fork, mem, iorun",
        ),
        (
            r#""a": {"loop": 1, "run": 1, "loop": 2}"#,
            "t.json:2:28: key 'loop' is there twice (first on line 2)\n  help: remove one: only events may be repeated, and rt-app would ignore the second 'loop'",
        ),
        (
            r#""a": {"phases": {"p": {"run": 1, "cpus": [0], "cpus": [1]}}}"#,
            "t.json:2:47: key 'cpus' is there twice (first on line 2)\n  help: remove one: only events may be repeated, and rt-app would ignore the second 'cpus'",
        ),
        (
            r#""a": {"timer": {"ref": "x", "period": 5, "ref": "y"}}"#,
            "t.json:2:42: key 'ref' is there twice (first on line 2)\n  help: remove one: only events may be repeated, and rt-app would ignore the second 'ref'",
        ),
        (
            r#""a": {"run": 1, "run": -1}"#,
            "t.json:2:24: run = -1 is not a whole number in range\n  help: it takes 0 to 3600000000",
        ),
        (r#""a": {"mem": "1 MB"}"#, "t.json:2:14: 'mem' takes a whole number, not a string"),
        (
            r#""a": {"iorun": 3000000000}"#,
            "t.json:2:16: iorun = 3000000000 is not a whole number in range\n  help: it takes 0 to 2147483647",
        ),
        (
            r#""a": {"policy": "SCHED_IDLE", "dl-runtime": 1000, "run": 1}"#,
            "t.json:2:31: 'dl-runtime' sets a slice, but policy idle has none\n  help: kernels take one for SCHED_OTHER and SCHED_BATCH",
        ),
        (
            r#""a": {"policy": "SCHED_RR", "dl-runtime": 1000, "run": 1}"#,
            "t.json:2:29: 'dl-runtime' sets a slice, but policy rr has none\n  help: kernels take one for SCHED_OTHER and SCHED_BATCH",
        ),
    ] {
        assert_eq!(complaint(tasks), wanted, "{tasks}");
    }
}

#[test]
fn the_file_as_a_whole_is_checked() {
    for (text, wanted) in [
        ("[]", "t.json:1:1: an rt-app file is an object, not an array"),
        ("{}", "t.json:1:1: the file has no 'tasks'"),
        (r#"{"task": {}}"#, "t.json:1:2: unknown key in the file 'task'\n  help: did you mean 'tasks'?"),
        (r#"{"tasks": {}}"#, "t.json:1:1: no task starts with the run"),
        (r#"{"tasks": {"a": {"instance": 0, "run": 1}}}"#, "t.json:1:1: no task starts with the run"),
        (r#"{"global": {"duration": 0}, "tasks": {}}"#, "t.json:1:25: a duration of 0 measures nothing"),
        (
            r#"{"global": {"duraton": 1}, "tasks": {}}"#,
            "t.json:1:13: unknown key in global 'duraton'\n  help: did you mean 'duration'?",
        ),
        (
            r#"{"global": {"pi_enabled": true}, "tasks": {}}"#,
            "t.json:1:27: 'pi_enabled' is supported only if it is off",
        ),
        (r#"{"global": {"calibration": "CUP0"}, "tasks": {}}"#, "t.json:1:28: 'CUP0' is not a CPU"),
        (r#"{"resources": 3, "tasks": {}}"#, "t.json:1:15: 'resources' takes an object, not a number"),
        (
            r#"{"global": {"mem_buffer_size": 0}, "tasks": {}}"#,
            "t.json:1:32: mem_buffer_size = 0 is not a whole number in range",
        ),
        (
            r#"{"global": {"duration": 1, "duration": 2}, "tasks": {}}"#,
            "t.json:1:28: key 'duration' is there twice (first on line 1)",
        ),
        (
            r#"{"tasks": {"a": {"run": 1}}}"#,
            "t.json:1:12: task 'a' loops for ever and the file has no duration",
        ),
    ] {
        let told = complaint_of(text);
        assert!(told.starts_with(wanted), "{text}: {told}");
    }
}

#[test]
fn files_that_would_hang_or_run_away_are_refused() {
    for (tasks, wanted) in [
        (r#""a": {"lock": "m", "unlock": "m"}"#, "t.json:2:1: no event of task 'a' takes any time"),
        (r#""a": {"run": 0}"#, "t.json:2:1: no event of task 'a' takes any time"),
        (r#""a": {"mem": 0, "iorun": 0}"#, "t.json:2:1: no event of task 'a' takes any time"),
        (
            r#""a": {"phases": {"p": {"run": 1}, "q": {"loop": 9, "signal": "c"}}}"#,
            "t.json:2:35: this phase loops, but none of its events takes any time",
        ),
        (
            r#""a": {"suspend": ""}, "b": {"run": 1, "resume": "A"}"#,
            "t.json:2:7: no task ever resumes 'a'\n  help: did you mean 'A'?",
        ),
        (
            r#""a": {"lock": "m", "wait": {"ref": "cond", "mutex": "m"}, "unlock": "m"}"#,
            "t.json:2:20: no task ever signals 'cond'\n  help: add a signal",
        ),
        (r#""a": {"run": 1, "barrier": "b"}"#, "t.json:2:17: barrier 'b' is used by fewer than two threads"),
        (
            r#""a": {"instance": 2, "run": 1, "barrier0": "b", "barrier1": "b"}"#,
            "t.json:2:49: task 'a' uses barrier 'b' twice",
        ),
        (
            r#""a": {"loop": 1, "run": 1, "fork": "b"}, "b": {"instance": 2, "run": 1, "barrier": "x"}"#,
            "t.json:2:73: barrier 'x' is in a task that is forked",
        ),
        (r#""a": {"run": 1, "fork": "b"}, "b": {"run": 1}"#, "t.json:2:17: a fork of 'b' in an endless loop"),
        (
            r#""alpha": {"loop": 1, "run": 1, "fork": "alhpa"}"#,
            "t.json:2:32: unknown task 'alhpa'\n  help: did you mean 'alpha'?",
        ),
        (
            r#""a": {"loop": 1, "run": 1, "fork": "b"}, "b": {"loop": 1, "run": 1, "fork": "a"}"#,
            "t.json:2:28: this fork leads back to the task it is in",
        ),
        (
            r#""a": {"loop": 1000, "run": 1, "fork": "b"}, "b": {"loop": 1000, "run": 1, "fork": "c"}, "c": {"loop": 1, "run": 1}"#,
            "t.json:2:89: with task 'c' there are more than 100000 threads",
        ),
        (
            r#""a": {"instance": 60000, "run": 1}, "b": {"instance": 60000, "run": 1}"#,
            "t.json:2:37: with task 'b' there are more than 100000 threads",
        ),
        (r#""a": {"run": 1, "lock": "m", "lock1": "m"}"#, "t.json:2:30: mutex 'm' is held here already"),
        (
            r#""a": {"run": 1, "unlock": "m"}"#,
            "t.json:2:17: mutex 'm' is not held here\n  help: put \"lock\": \"m\" before it",
        ),
        (
            r#""a": {"run": 1, "lock": "mutex", "unlock": "mutx"}"#,
            "t.json:2:34: mutex 'mutx' is not held here\n  help: did you mean 'mutex'?",
        ),
        (r#""a": {"run": 1, "lock": "m"}"#, "t.json:2:1: task 'a' ends holding mutex 'm'"),
        (
            r#""a": {"phases": {"p": {"loop": 2, "run": 1, "lock": "m"}, "q": {"unlock": "m"}}}"#,
            "t.json:2:18: a repetition of this phase ends holding mutex 'm'",
        ),
        (
            r#""a": {"run": 1, "signal": "c", "wait": {"ref": "c", "mutex": "m"}}"#,
            "t.json:2:32: mutex 'm' is not held here",
        ),
        (
            r#""a": {"timer0": {"ref": "t", "period": 5, "mode": "absolute"}}, "b": {"timer0": {"ref": "t", "period": 5, "mode": "relative"}}"#,
            "t.json:2:71: timer 't' is both relative and absolute",
        ),
    ] {
        let told = complaint(tasks);
        assert!(told.starts_with(wanted), "{tasks}: {told}");
    }
}

#[test]
fn a_lock_may_span_phases_that_do_not_loop() {
    let text = r#"{"global": {"duration": 1}, "tasks": {"a": {"phases": {
        "p": {"lock": "m"}, "q": {"loop": 3, "run": 1}, "r": {"unlock": "m"}}}}}"#;
    assert!(build(text).is_ok());
}

/// A value that the key accepts, if it accepts any.
fn sample(name: &str) -> &'static str {
    match name {
        "tasks" => r#"{"t": {"run": 1}}"#,
        "global" | "resources" => "{}",
        "phases" => r#"{"p": {"run": 1}}"#,
        "timer" => r#"{"ref": "unique", "period": 5}"#,
        "wait" | "sync" => r#"{"ref": "c", "mutex": "m"}"#,
        "policy" | "default_policy" => "\"SCHED_OTHER\"",
        "cpus" | "nodes_membind" | "membind_nodes" => "[0]",
        "pi_enabled" | "cumulative_slack" | "lock_pages" | "gnuplot" => "false",
        "logdir" | "log_basename" | "ftrace" | "io_device" | "calibration" => "\"CPU0\"",
        "taskgroup" | "yield" => "\"\"",
        "lock" | "unlock" => "\"m\"",
        "signal" | "broad" => "\"c\"",
        "suspend" | "resume" => "\"s\"",
        "barrier" => "\"b\"",
        "fork" => "\"child\"",
        _ => "1",
    }
}

/// A file with the row's key at its level, and with everything that it needs.
fn with_key(level: Level, name: &str) -> String {
    let key = format!("\"{name}\": {}", sample(name));
    let file = |task: &str| {
        let around = match name {
            "unlock" => r#""lock": "m","#,
            "wait" => r#""lock": "m", "signal": "c","#,
            "suspend" => r#""resume0": "s","#,
            "dl-period" => r#""policy": "SCHED_DEADLINE", "dl-runtime": 1,"#,
            "dl-deadline" => r#""policy": "SCHED_DEADLINE", "dl-runtime": 1, "dl-period": 9,"#,
            _ => "",
        };
        let after = if matches!(name, "lock" | "wait") { r#", "unlock": "m""# } else { "" };
        let run = if name == "phases" { "" } else { r#""run_": 1,"# };
        let once = if name == "loop" { "" } else { r#""loop": 1,"# };
        format!(
            r#"{{"global": {{"duration": 1}}, "tasks": {{"t": {{"instance": 2, {once} {run} {around} {task}{after}}},
               "child": {{"instance": 1, "run": 1}}}}}}"#
        )
    };
    match level {
        Level::Root if name == "tasks" => format!("{{{key}, \"global\": {{\"duration\": 1}}}}"),
        Level::Root => format!(r#"{{{key}, "tasks": {{"t": {{"loop": 1, "run": 1}}}}}}"#),
        Level::Global => format!(r#"{{"global": {{{key}}}, "tasks": {{"t": {{"loop": 1, "run": 1}}}}}}"#),
        Level::Task if name == "instance" => {
            format!(r#"{{"tasks": {{"t": {{{key}, "loop": 1, "run": 1}}}}}}"#)
        }
        _ => file(&key),
    }
}

#[test]
fn the_reader_follows_every_row_of_the_table() {
    for row in KEYS {
        let result = build(&with_key(row.level, row.name));
        match row.fate {
            Fate::Refused => {
                let told = result.expect_err(row.name).to_string();
                assert!(told.contains(&format!("'{}'", row.name)) && told.contains(row.about), "{told}");
            }
            _ => assert!(result.is_ok(), "{}: {}", row.name, result.unwrap_err()),
        }
    }
}

proptest! {
    #[test]
    fn damaged_files_are_refused_or_run_but_never_panic(at in 0usize..2000, cut in 0usize..30, put in "\\PC{0,3}") {
        for text in [
            include_str!("../../tests/rtapp/suspend-alone.json"),
            include_str!("../../tests/rtapp/memory-and-io.json"),
            include_str!("../../tests/rtapp/slice-beside-deadline.json"),
            include_str!("../../../../examples/rtapp/pipeline.json"),
            include_str!("../../../../examples/rtapp/fork-join.json"),
            include_str!("../../../../examples/rtapp/periodic.json"),
        ] {
            let chars: Vec<char> = text.chars().collect();
            let at = at % chars.len();
            let damaged: String = chars[..at].iter().copied()
                .chain(put.chars())
                .chain(chars[(at + cut).min(chars.len())..].iter().copied())
                .collect();
            if let Err(e) = build(&damaged) {
                prop_assert!(e.kind() == ErrorKind::Input && e.spot().is_some(), "{}", e);
            }
        }
    }
}
