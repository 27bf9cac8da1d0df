//! What the program may see of the file system: a table. All else is not there, and is written down.

use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Where a path leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leads {
    /// To the simulated machine's tree, under the same name.
    Machine,
    /// To the simulated kernel's BTF.
    Btf,
    /// To this machine, for reading.
    Here,
    /// To this machine, for reading and writing.
    Device,
}

/// The first row whose path is the asked one, or a folder above it, decides.
const TABLE: &[(&str, Leads)] = &[
    ("/sys/kernel/btf/vmlinux", Leads::Btf),
    ("/sys", Leads::Machine),
    // Its own process is another row, before these.
    ("/proc", Leads::Machine),
    // Libraries, and what libc reads.
    ("/lib", Leads::Here),
    ("/lib32", Leads::Here),
    ("/lib64", Leads::Here),
    ("/usr/lib", Leads::Here),
    ("/usr/lib32", Leads::Here),
    ("/usr/lib64", Leads::Here),
    ("/usr/local/lib", Leads::Here),
    ("/nix/store", Leads::Here),
    ("/etc/ld.so.cache", Leads::Here),
    ("/etc/ld.so.preload", Leads::Here),
    ("/etc/localtime", Leads::Here),
    ("/usr/share/zoneinfo", Leads::Here),
    ("/usr/share/locale", Leads::Here),
    ("/dev/null", Leads::Device),
    ("/dev/zero", Leads::Device),
];

/// Where programs leave sockets and marks for their tools: what they do there succeeds without effect.
const SCRATCH: &[&str] = &["/var/run/scx", "/run/scx"];

/// Whether changing something at this path succeeds without effect.
pub fn is_scratch(named: &Path) -> bool {
    SCRATCH.iter().any(|row| named.starts_with(row))
}

/// A place on this machine that stands for what the program named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    pub path: PathBuf,
    pub writable: bool,
}

/// What the program named and did not get.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Refusal {
    /// Outside of what it is shown.
    NotShown,
    /// It wanted to write, to make or to remove.
    Write,
    /// It wrote to a file of the simulated machine, as its kernel would let it, or made something for its tools: that
    /// has no effect.
    NoEffect,
    /// It is shown the folder, but the simulated machine has no such file.
    Absent,
}

/// More different paths than this are counted only.
const MOST_REFUSED: usize = 1_000;

#[derive(Debug, Default)]
pub struct Refused {
    pub paths: BTreeMap<(PathBuf, Refusal), u64>,
    /// Refusals of paths that are not listed.
    pub more: u64,
}

impl Refused {
    pub fn add(&mut self, path: &Path, why: Refusal) {
        let key = (path.to_owned(), why);
        if self.paths.len() >= MOST_REFUSED && !self.paths.contains_key(&key) {
            self.more += 1;
        } else {
            *self.paths.entry(key).or_default() += 1;
        }
    }
}

#[derive(Debug)]
pub struct Paths {
    pub tree: PathBuf,
    pub btf: PathBuf,
    /// Rows of this program: its file, and what its user lets it read.
    pub readable: Vec<PathBuf>,
    /// The process: it sees no other in /proc.
    pub pid: i32,
}

impl Paths {
    /// The path that the thread means: absolute, without `.` and `..`, and as the program knows it.
    pub fn named(&self, thread: i32, folder: i32, raw: &Path) -> Option<PathBuf> {
        let mut path = if raw.is_absolute() {
            PathBuf::new()
        } else if folder == libc::AT_FDCWD {
            std::fs::read_link(format!("/proc/{thread}/cwd")).ok()?
        } else {
            std::fs::read_link(format!("/proc/{thread}/fd/{folder}")).ok()?
        };
        path.push(raw);
        let path = plain(&path);
        let path = path.strip_prefix(&self.tree).map_or(path.clone(), |inside| Path::new("/").join(inside));
        let of_process = |rest: &Path, base: String| Path::new(&base).join(rest);
        if let Ok(rest) = path.strip_prefix("/proc/self") {
            return Some(of_process(rest, format!("/proc/{}", self.pid)));
        }
        if let Ok(rest) = path.strip_prefix("/proc/thread-self") {
            return Some(of_process(rest, format!("/proc/{}/task/{thread}", self.pid)));
        }
        Some(path)
    }
    /// Where a named path leads, if anywhere.
    pub fn place(&self, named: &Path) -> Option<Place> {
        if named.starts_with(format!("/proc/{}", self.pid))
            || self.readable.iter().any(|row| named.starts_with(row))
        {
            return Some(Place { path: named.to_owned(), writable: false });
        }
        // Programs go down from the root to find a file: they find what the machine's tree has.
        if named == Path::new("/") {
            return Some(Place { path: self.tree.clone(), writable: false });
        }
        let (_, leads) = TABLE.iter().find(|(row, _)| named.starts_with(row))?;
        let path = match leads {
            Leads::Machine => self.tree.join(named.strip_prefix("/").ok()?),
            Leads::Btf => self.btf.clone(),
            Leads::Here | Leads::Device => named.to_owned(),
        };
        Some(Place { path, writable: *leads == Leads::Device })
    }
}

fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
