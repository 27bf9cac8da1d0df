//! Reads, writes and lists the files of a system. It is a trait, so that tests can imitate a kernel's odd files.

use crate::watch::tracepoints::instance;
use std::io;
use std::path::{Path, PathBuf};

/// Access to a system's files.
pub trait Files {
    /// The path of a kernel's file on this system.
    fn place(&self, path: &str) -> PathBuf;
    /// The content of a file.
    fn read(&self, path: &Path) -> io::Result<String>;
    /// Writes a value.
    ///
    /// # Errors
    /// As write(2); the kernel refuses values with EINVAL.
    fn write(&self, path: &Path, text: &str) -> io::Result<()>;
    /// Checks whether a file could be written, without writing.
    ///
    /// # Errors
    /// When it could not.
    fn writable(&self, path: &Path) -> io::Result<()>;
    /// Names in a folder, in no order; none where there is no folder.
    fn list(&self, folder: &Path) -> Vec<String>;
    /// Whether there is a folder of that path.
    fn is_folder(&self, path: &Path) -> bool;
    /// Makes a control group.
    fn make_group(&self, path: &Path) -> io::Result<()>;
    /// Removes a control group that schedlab made; tasks that are still in it go to the group above.
    fn remove_group(&self, path: &Path) -> io::Result<()>;
    /// Names of the system's tracing instances.
    fn instances(&self) -> Vec<String> {
        self.list(&self.place(instance::FOLDER))
    }
}

/// The files that a pattern stands for, `*` being a number, in the order of the numbers.
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
