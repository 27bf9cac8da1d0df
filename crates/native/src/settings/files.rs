//! Reads, writes and lists the files of a system. It is a trait, so that tests can imitate a kernel's odd files.
//!
//! [`ROOT_VARIABLE`] names a folder that stands for `/`: the files there are then changed and put back instead of the
//! system's, which needs no privilege. Of paths given by the user (`file:PATH`) links are followed when a change is
//! made, and not when it is taken back.

use super::trust;
use crate::settings::cgroups;
use crate::watch::tracepoints::instance;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The environment variable that names a folder with `proc` and `sys` in it, which replace the live ones.
pub const ROOT_VARIABLE: &str = "SCHEDLAB_SYSTEM_ROOT";

/// The most bytes of a file that are read.
const MAX_BYTES: u64 = 64 * 1024;

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

/// The live system, or a tree of files that stands for it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// The system that the environment names; by default the live one.
    pub fn live() -> System {
        let root = std::env::var_os(ROOT_VARIABLE).filter(|r| !r.is_empty());
        System { root: root.map_or_else(|| PathBuf::from("/"), PathBuf::from) }
    }
    /// A tree of files.
    pub fn at(root: &Path) -> System {
        System { root: root.to_owned() }
    }
    /// Opens a file. A file that is neither the kernel's nor of the tree that stands for it must not lie behind a link.
    fn open(&self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        let file = trust::open(path, options)?;
        let in_tree = self.root != Path::new("/") && path.starts_with(&self.root);
        if !in_tree && !trust::is_kernels(path) {
            trust::lies_at(&file, path)?;
        }
        Ok(file)
    }
    /// The folder whose lock is the right to change settings. Every user can open it, no file has to be made, and the
    /// kernel drops the lock with its owner.
    pub fn lock_folder(&self) -> PathBuf {
        let cpus = self.place("/sys/devices/system/cpu");
        if cpus.is_dir() { cpus } else { self.root.clone() }
    }
}

impl Files for System {
    fn place(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }
    fn read(&self, path: &Path) -> io::Result<String> {
        // No file of settings is longer, and a file without end (a device) must not be read for ever.
        let mut text = String::new();
        self.open(path, File::options().read(true))?.take(MAX_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = self.open(path, File::options().write(true))?;
        // The kernel wants a value in one call; an ordinary file must be emptied first, once it is sure to be the one.
        if !trust::is_kernels(path) {
            file.set_len(0)?;
        }
        file.write_all(text.as_bytes())
    }
    fn writable(&self, path: &Path) -> io::Result<()> {
        self.open(path, File::options().write(true)).map(drop)
    }
    fn list(&self, folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        entries.filter_map(|e| e.file_name().into_string().ok()).collect()
    }
    fn is_folder(&self, path: &Path) -> bool {
        path.is_dir()
    }
    fn make_group(&self, path: &Path) -> io::Result<()> {
        fs::create_dir(path)
    }
    fn remove_group(&self, path: &Path) -> io::Result<()> {
        cgroups::remove(path)
    }
    fn instances(&self) -> Vec<String> {
        // The live system's tracefs need not be mounted.
        let live = self.root == Path::new("/");
        if live { instance::names() } else { self.list(&self.place(instance::FOLDER)) }
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
