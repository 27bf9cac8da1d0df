//! What the program may see of the file system: a table. All else is not there, and is written down.

use super::identity::PROGRAM;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Where a path leads.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leads {
    /// To the simulated machine's tree, under the same name.
    Machine,
    /// To this machine, for reading.
    Here,
    /// To this machine, for reading and writing.
    Device,
}

/// The first row whose path is the asked one, or a folder above it, decides.
const TABLE: &[(&str, Leads)] = &[
    ("/sys", Leads::Machine),
    // Its own process is another table, before this one.
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

/// What of its own process it sees: what says something of this machine, its clock or its kernel is not there.
const OWN: &[&str] = &["exe", "maps", "cmdline", "comm", "auxv", "fd", "fdinfo"];

/// Where programs leave sockets and marks for their tools: what they do there succeeds without effect.
const SCRATCH: &[&str] = &["/var/run/scx", "/run/scx"];

/// Whether changing something at this path succeeds without effect.
pub fn is_scratch(named: &Path) -> bool {
    SCRATCH.iter().any(|row| named.starts_with(row))
}

/// What stands for the path that the program named.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    /// The simulated machine's file of the same name.
    Machine,
    /// A file of this machine, and whether it may be written.
    Here(PathBuf, bool),
    /// A file of the program's own process.
    Own(PathBuf),
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
    /// It wanted to become another program, whose clock would be this machine's.
    Execute,
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
    pub program: PathBuf,
    /// Rows of this program: its file, and what its user lets it read.
    pub readable: Vec<PathBuf>,
    /// The process: it sees no other in /proc.
    pub pid: i32,
}

/// What the program knows its process by.
const SELF: &str = "/proc/self";

impl Paths {
    /// The path that the thread means: absolute, without `.` and `..`, and as the program knows it.
    pub fn named(&self, thread: i32, folder: i32, raw: &Path) -> Option<PathBuf> {
        let mut path = if raw.is_absolute() {
            PathBuf::new()
        } else if folder == libc::AT_FDCWD {
            std::fs::read_link(format!("/proc/{thread}/cwd")).ok()?
        } else {
            opened(thread, folder)?
        };
        path.push(raw);
        let path = plain(&path);
        let own = [format!("/proc/{PROGRAM}"), format!("/proc/{}", self.pid), "/proc/thread-self".to_owned()];
        let rest = own.iter().find_map(|own| path.strip_prefix(own).ok());
        Some(rest.map_or_else(|| path.clone(), |rest| Path::new(SELF).join(rest)))
    }
    /// Where a named path leads, if anywhere.
    pub fn place(&self, named: &Path) -> Option<Place> {
        if let Ok(own) = named.strip_prefix(SELF) {
            if own == Path::new("exe") {
                return Some(Place::Here(self.program.clone(), false));
            }
            let path = Path::new(&format!("/proc/{}", self.pid)).join(own);
            return OWN.iter().any(|row| own.starts_with(row)).then_some(Place::Own(path));
        }
        // Programs go down from the root to find a file: they find what the machine's tree has.
        if named == Path::new("/") {
            return Some(Place::Machine);
        }
        let own = self.readable.iter().any(|row| named.starts_with(row));
        let leads = match own {
            true => Leads::Here,
            false => TABLE.iter().find(|(row, _)| named.starts_with(row))?.1,
        };
        Some(match leads {
            Leads::Machine => Place::Machine,
            Leads::Here => Place::Here(named.to_owned(), false),
            Leads::Device => Place::Here(named.to_owned(), true),
        })
    }
    /// Whether a file of this machine that a link led to is shown, too.
    pub fn shows(&self, place: &Place, reached: &Path) -> bool {
        match place {
            Place::Machine => false,
            Place::Here(..) => matches!(self.place(reached), Some(Place::Here(..))),
            Place::Own(_) => reached.starts_with(format!("/proc/{}", self.pid)),
        }
    }
}

/// The path behind a file descriptor of a thread. What the broker has handed in of the simulated machine is memory that
/// has the path as its name.
pub fn opened(thread: i32, number: i32) -> Option<PathBuf> {
    let path = std::fs::read_link(format!("/proc/{thread}/fd/{number}")).ok()?;
    let memory = path.to_str().and_then(|path| path.strip_prefix("/memfd:")?.strip_suffix(" (deleted)"));
    Some(memory.map_or_else(|| path.clone(), PathBuf::from))
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
