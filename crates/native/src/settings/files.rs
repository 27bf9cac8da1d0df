//! Reads, writes and lists a system's files. A trait, so that tests can imitate a kernel's special files.

use crate::watch::tracepoints::instance;
use std::io;
use std::path::{Path, PathBuf};

pub trait Files {
    /// The path of a kernel's file on this system.
    fn place(&self, path: &str) -> PathBuf;
    fn read(&self, path: &Path) -> io::Result<String>;
    /// # Errors
    /// As write(2); the kernel refuses values with EINVAL.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Checks whether a file could be written, without writing.
    ///
    /// # Errors
    /// When it could not.
    fn writable(&self, path: &Path) -> io::Result<()>;
    /// Names in a folder, in no order; empty if there is no folder.
    fn list(&self, folder: &Path) -> Vec<String>;
    fn is_folder(&self, path: &Path) -> bool;
    fn make_group(&self, path: &Path) -> io::Result<()>;
    /// Removes a control group made by schedlab; remaining tasks move to the parent group.
    fn remove_group(&self, path: &Path) -> io::Result<()>;
    /// Names of the system's tracing instances.
    fn instances(&self) -> Vec<String> {
        self.list(&self.place(instance::FOLDER))
    }
}

/// The files that match a pattern, in numerical order; `*` matches a number.
pub fn matching(files: &dyn Files, pattern: &str) -> Vec<PathBuf> {
    let mut found = vec![files.place("/")];
    for part in pattern.trim_start_matches('/').split('/') {
        let Some((before, after)) = part.split_once('*') else {
            found.iter_mut().for_each(|path| path.push(part));
            continue;
        };
        found = found.iter().flat_map(|folder| numbered(files, folder, before, after)).collect();
    }
    found.retain(|path| files.read(path).map_or_else(|e| e.kind() != io::ErrorKind::NotFound, |_| true));
    found
}

fn numbered(files: &dyn Files, folder: &Path, before: &str, after: &str) -> Vec<PathBuf> {
    let number = |name: &str| name.strip_prefix(before)?.strip_suffix(after)?.parse::<u32>().ok();
    let mut all: Vec<(u32, PathBuf)> =
        files.list(folder).iter().filter_map(|name| number(name).map(|n| (n, folder.join(name)))).collect();
    all.sort();
    all.into_iter().map(|(_, path)| path).collect()
}
