//! A schedlab in a folder of its own, and an experiment that takes milliseconds.

use assert_cmd::Command;
use std::path::Path;
use std::process::{Child, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Two loads, two variants, three runs each.
pub const SMALL: &str = r#"
name = "small"
about = "does the first idle CPU help where there is one?"
runs = 3
machines = ["smp-4"]
metrics = ["schbench.latency.p50", "work", "migrations"]
[workload]
name = "schbench"
runtime = "200ms"
sleeptime = "1ms"
cputime = "1ms"
[[load]]
name = "1x2"
message_threads = 1
threads = 2
[[load]]
name = "1x6"
message_threads = 1
threads = 6
[[variant]]
kernel = "v4.5"
[[variant]]
name = "first-idle"
kernel = "v4.5"
features = ["SIS_FIRST_IDLE"]
"#;

/// A folder to work in.
pub struct Lab(pub TempDir);

impl Lab {
    pub fn new() -> Lab {
        let lab = Lab(tempfile::tempdir().unwrap());
        lab.write("small.toml", SMALL);
        lab
    }
    pub fn path(&self) -> &Path {
        self.0.path()
    }
    pub fn write(&self, name: &str, text: &str) {
        std::fs::write(self.path().join(name), text).unwrap();
    }
    pub fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::cargo_bin("schedlab").unwrap();
        command.current_dir(self.path()).args(words);
        command
    }
    pub fn run(&self, words: &[&str], code: i32) -> (String, String) {
        let output = self.command(words).output().unwrap();
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "schedlab {words:?}\n{out}\n{err}");
        (out, err)
    }
    /// Runs it, expects success and gives its standard output.
    pub fn ok(&self, words: &[&str]) -> String {
        self.run(words, 0).0
    }
    /// As [`Lab::ok`], read as JSON.
    pub fn json(&self, words: &[&str]) -> serde_json::Value {
        let text = self.ok(words);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{words:?}: {e}\n{text}"))
    }
}

/// A file that looks like a kernel image.
fn image() -> Vec<u8> {
    let mut bytes = vec![0u8; 0x2000];
    bytes[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    bytes[0x202..0x208].copy_from_slice(b"HdrS\x0f\x02");
    bytes[0x20e..0x210].copy_from_slice(&0x1000u16.to_le_bytes());
    (bytes[0x211], bytes[0x234], bytes[0x236]) = (1, 1, 0x7f);
    let banner = b"6.1.192-fake (a@b) #1 SMP";
    bytes[0x1200..0x1200 + banner.len()].copy_from_slice(banner);
    bytes
}

/// Puts the tree of the cases into the lab as `tree`. It "builds" the file `image` within a second.
pub fn fake_tree(lab: &Lab) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cases/hostile/tree-links/fake-tree");
    let tree = lab.path().join("tree");
    for name in ["Makefile", "Kbuild", "needed", "kernel/sched/core.c", "kernel/sched/fair.c"] {
        std::fs::create_dir_all(tree.join(name).parent().unwrap()).unwrap();
        std::fs::copy(from.join(name), tree.join(name)).unwrap();
    }
    let image_file = lab.path().join("image");
    std::fs::write(&image_file, image()).unwrap();
    let makefile = std::fs::read_to_string(tree.join("Makefile")).unwrap().replace("SLOW:-1", "SLOW:-0");
    std::fs::write(tree.join("Makefile"), format!("{makefile}\nBZIMAGE = {}\n", image_file.display()))
        .unwrap();
}

/// The bit of SIGINT in a mask of signals.
const SIGINT: u64 = 1 << 1;

/// Waits until a command catches Ctrl-C, and half a second more: it is at work then.
pub fn at_work(child: &Child) {
    let path = format!("/proc/{}/status", child.id());
    let catches = || {
        let text = std::fs::read_to_string(&path).unwrap();
        let caught = text.lines().find_map(|l| l.strip_prefix("SigCgt:")).map(str::trim);
        caught.is_some_and(|mask| u64::from_str_radix(mask, 16).unwrap() & SIGINT != 0)
    };
    let since = Instant::now();
    while !catches() && since.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
}

/// A printed text in one line: where it was wrapped depends on the figures in it.
pub fn unwrapped(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    (text(&output.stdout), text(&output.stderr))
}

/// Every file below a folder with its content, by path. Files that are renamed or removed meanwhile are left out, since
/// a running command may write to the folder.
pub fn files(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let mut open = vec![folder.to_owned()];
    while let Some(dir) = open.pop() {
        let Some(entries) = still_there(std::fs::read_dir(&dir)) else { continue };
        for entry in entries.flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else if let Some(bytes) = still_there(std::fs::read(&path)) {
                all.push((path.strip_prefix(folder).unwrap().display().to_string(), bytes));
            }
        }
    }
    all.sort();
    all
}

/// The result of a look at a file; `None` if it no longer exists.
fn still_there<T>(found: std::io::Result<T>) -> Option<T> {
    match found {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        found => Some(found.unwrap()),
    }
}
