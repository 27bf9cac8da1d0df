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

/// The cases of a file: a line with the tasks, or the whole file, and below it, indented, the message or its beginning.
fn messages(file: &str) -> impl Iterator<Item = (&str, String)> {
    file.split("\n\n").map(|case| {
        let (text, message) = case.split_once('\n').unwrap();
        (text, message.lines().map(|l| &l[4..]).collect::<Vec<_>>().join("\n"))
    })
}

#[test]
fn single_values_are_checked() {
    for (tasks, wanted) in messages(include_str!("../../tests/errors/values.txt")) {
        assert_eq!(complaint(tasks), wanted, "{tasks}");
    }
}

#[test]
fn the_file_as_a_whole_is_checked() {
    for (text, wanted) in messages(include_str!("../../tests/errors/files.txt")) {
        let told = complaint_of(text);
        assert!(told.starts_with(&wanted), "{text}: {told}");
    }
}

#[test]
fn files_that_would_hang_or_run_away_are_refused() {
    for (tasks, wanted) in messages(include_str!("../../tests/errors/hangs.txt")) {
        let told = complaint(tasks);
        assert!(told.starts_with(&wanted), "{tasks}: {told}");
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
