//! A schedlab in a folder of its own, and an experiment that takes milliseconds.

use assert_cmd::Command;
use serde_json::Value;
use std::path::Path;
use std::process::{Child, Output};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Two loads, two variants, three runs each.
pub const SMALL: &str = include_str!("../cases/files/small.toml");

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
    pub fn command(&self, line: &(impl Words + ?Sized)) -> Command {
        let mut command = Command::cargo_bin("schedlab").unwrap();
        command.current_dir(self.path()).args(line.words());
        command
    }
    /// Runs it and expects an exit code.
    pub fn run(&self, line: &(impl Words + ?Sized), code: i32) -> (String, String) {
        let output = self.command(line).output().unwrap();
        let (out, err) = texts(&output);
        assert_eq!(output.status.code(), Some(code), "schedlab {:?}\n{out}\n{err}", line.words());
        (out, err)
    }
    /// Runs it well and gives its standard output.
    pub fn ok(&self, line: &(impl Words + ?Sized)) -> String {
        self.run(line, 0).0
    }
    /// As [`Lab::ok`], read as JSON.
    pub fn json(&self, line: &(impl Words + ?Sized)) -> Value {
        let text = self.ok(line);
        serde_json::from_str(&text).unwrap_or_else(|e| panic!("{:?}: {e}\n{text}", line.words()))
    }
    /// Runs a command that keeps one run, and gives the run's folder.
    pub fn kept(&self, line: &str) -> String {
        let (_, err) = self.run(line, 0);
        err.trim().rsplit(' ').next().unwrap().to_owned()
    }
    pub fn text(&self, name: &str) -> String {
        std::fs::read_to_string(self.path().join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
    /// The record in a run's folder.
    pub fn record(&self, folder: &str) -> Value {
        serde_json::from_str(&self.text(&format!("{folder}/record.json"))).unwrap()
    }
    /// The records of a store, in the order of their paths.
    pub fn records(&self, store: &str) -> Vec<Value> {
        let stored = files(&self.path().join(store));
        let records = stored.iter().filter(|(name, _)| name.ends_with("record.json"));
        records.map(|(_, bytes)| serde_json::from_slice(bytes).unwrap()).collect()
    }
    /// Changes the text of every record in `runs`.
    pub fn rewrite(&self, change: impl Fn(&str) -> String) {
        for (name, bytes) in files(&self.path().join("runs")) {
            if name.ends_with("record.json") {
                self.write(&format!("runs/{name}"), &change(&String::from_utf8(bytes).unwrap()));
            }
        }
    }
    /// Runs it, and expects an exit code and these parts in its standard error.
    pub fn says(&self, line: &(impl Words + ?Sized), code: i32, parts: &[&str]) {
        let (_, err) = self.run(line, code);
        assert!(parts.iter().all(|part| err.contains(part)), "{:?} says {parts:?}: {err}", line.words());
    }
}

/// The words of a command: a line, in which `'...'` and `"..."` hold a word together, or the words themselves.
pub trait Words {
    fn words(&self) -> Vec<String>;
}

impl Words for str {
    fn words(&self) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for c in self.chars() {
            match (quote, c) {
                (Some(q), _) if c == q => quote = None,
                (None, '\'' | '"') => {
                    quote = Some(c);
                    word.get_or_insert_default();
                }
                (None, ' ') => words.extend(word.take()),
                _ => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }
}

impl Words for String {
    fn words(&self) -> Vec<String> {
        self.as_str().words()
    }
}

impl Words for [&str] {
    fn words(&self) -> Vec<String> {
        self.iter().map(|word| (*word).to_owned()).collect()
    }
}

impl<const N: usize> Words for [&str; N] {
    fn words(&self) -> Vec<String> {
        self[..].words()
    }
}

impl Words for Vec<&str> {
    fn words(&self) -> Vec<String> {
        self[..].words()
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

/// Every file below a folder with its content, by path. A file that is renamed or removed meanwhile is left out: the
/// folder may be one that a running command writes to.
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

/// What was found; `None` if it is no longer there.
fn still_there<T>(found: std::io::Result<T>) -> Option<T> {
    match found {
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => None,
        found => Some(found.unwrap()),
    }
}
