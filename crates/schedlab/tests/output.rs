//! Standard output that is full, and a reader that leaves.

use crate::common::{Lab, texts};
use std::fs::File;
use std::process::{Command, Stdio};

#[test]
fn a_full_disk_is_reported_once() {
    let lab = Lab::new();
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
fn a_reader_that_leaves_is_not_an_error() {
    let lab = Lab::new();
    for words in [&["machine", "spr-2x56", "--json"][..], &["--help"], &["run", "small.toml", "-q"]] {
        let (reader, writer) = std::io::pipe().unwrap();
        drop(reader);
        let mut command = Command::new(assert_cmd::cargo::cargo_bin("schedlab"));
        command.current_dir(lab.path()).args(words).stdout(writer).stderr(Stdio::piped());
        let output = command.output().unwrap();
        assert_eq!((output.status.code(), texts(&output).1.as_str()), (Some(0), ""), "{words:?}");
    }
}
