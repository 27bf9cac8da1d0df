//! The live system's files, or a tree of files that replaces them.
//!
//! [`ROOT_VARIABLE`] names a folder that replaces `/`: its files are then changed and restored instead of the system's,
//! which needs no privilege. In paths given by the user (`file:PATH`), links are followed when a change is made, but
//! not when it is undone.

use super::files::Files;
use super::trust;
use crate::settings::cgroups::remove::remove;
use crate::watch::tracepoints::instance;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::path::{Path, PathBuf};

/// The environment variable for a folder whose `proc` and `sys` replace the live ones.
pub const ROOT_VARIABLE: &str = "SCHEDLAB_SYSTEM_ROOT";

/// The most bytes read from a file.
const MAX_BYTES: u64 = 64 * 1024;

/// The live system, or a tree of files that replaces it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct System {
    root: PathBuf,
}

impl System {
    /// The system chosen by the environment; the live one by default.
    pub fn live() -> System {
        let root = std::env::var_os(ROOT_VARIABLE).filter(|r| !r.is_empty());
        System { root: root.map_or_else(|| PathBuf::from("/"), PathBuf::from) }
    }
    pub fn at(root: &Path) -> System {
        System { root: root.to_owned() }
    }
    /// Opens a file. A file that belongs neither to the kernel nor to the tree must not be behind a link.
    fn open(&self, path: &Path, options: &mut OpenOptions) -> io::Result<File> {
        let file = trust::open(path, options)?;
        let in_tree = self.root != Path::new("/") && path.starts_with(&self.root);
        if !in_tree && !trust::is_kernels(path) {
            trust::lies_at(&file, path)?;
        }
        Ok(file)
    }
    /// The folder whose lock is the right to change settings. Every user can open it, no file must be made, and the
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
        // No file of settings is longer, and reading an endless file (a device) must stop.
        let mut text = String::new();
        self.open(path, File::options().read(true))?.take(MAX_BYTES).read_to_string(&mut text)?;
        Ok(text)
    }
    fn write(&self, path: &Path, text: &str) -> io::Result<()> {
        let mut file = self.open(path, File::options().write(true))?;
        // The kernel requires a value in one call. An ordinary file must be emptied first, once it is known to be the
        // right one.
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
        remove(path)
    }
    fn instances(&self) -> Vec<String> {
        // The live system's tracefs need not be mounted.
        let live = self.root == Path::new("/");
        if live { instance::names() } else { self.list(&self.place(instance::FOLDER)) }
    }
}
