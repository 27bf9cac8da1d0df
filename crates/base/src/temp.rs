//! Temporary names: a file or folder gets one next to its final place, and is renamed when it is complete.
//!
//! The writer locks the file or folder (flock); the kernel drops the lock when the writer dies. The next writer in the
//! same folder recognises leftovers of a killed writer by their free lock, and removes them. Names end in `.tmp`. They
//! contain the process id and a number that the process uses once, so two writers never share a name.

use crate::{Error, Result};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The ending of temporary names.
pub const ENDING: &str = ".tmp";
/// Only older files count as left over: a writer takes its lock much earlier.
pub const LEFT_AFTER: Duration = Duration::from_secs(60);

/// A folder under a temporary name. Dropping it removes it, unless [`TempFolder::rename_to`] has moved it to its place.
#[derive(Debug)]
pub struct TempFolder {
    pub path: PathBuf,
    renamed: bool,
    _lock: Option<File>,
}

impl TempFolder {
    /// Makes a folder in `parent` whose name begins with `prefix`, and removes leftovers of killed writers with that
    /// prefix. `mode` is its permissions, less the umask.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn create(parent: &Path, prefix: &str, mode: u32) -> Result<TempFolder> {
        TempFolder::attempt(parent, prefix, mode)
            .map_err(|(path, e)| Error::io(&path, "create the folder", &e))
    }
    /// As [`TempFolder::create`], but errors are the path and the system's own error, so that the caller may try again.
    ///
    /// # Errors
    /// When the folder can't be made.
    pub fn attempt(
        parent: &Path,
        prefix: &str,
        mode: u32,
    ) -> std::result::Result<TempFolder, (PathBuf, io::Error)> {
        clear_left(parent, prefix);
        let make = |path: &Path| DirBuilder::new().mode(mode).create(path);
        let (path, ()) = first_free(parent, prefix, make)?;
        // Some network file systems have no locks; leftovers are not removed there.
        let lock = File::open(&path).ok().filter(|folder| folder.try_lock().is_ok());
        Ok(TempFolder { path, renamed: false, _lock: lock })
    }
    /// Renames the folder to its final place. If that fails, the folder is removed.
    ///
    /// # Errors
    /// As rename(2): the place has a file or a folder that is not empty, or the disk refuses.
    pub fn rename_to(mut self, place: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)?;
        // From here on the temporary name is free: whatever appears under it belongs to another writer.
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if !self.renamed {
            // The folder may hold a file that this user can't remove; the next writer tries again.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Whether the place is a device, a pipe or a socket, to write into. A rename would replace it by a file; root may do
/// that even in /dev.
fn is_written_into(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// The file that a place names, and temporary names next to it.
struct Beside {
    /// Of a symbolic link the file that it names; a device or a pipe is its own.
    target: PathBuf,
    prefix: String,
}

impl Beside {
    fn of(place: &Path) -> Beside {
        let named = if is_written_into(place) { None } else { fs::canonicalize(place).ok() };
        let target = named.unwrap_or_else(|| place.to_owned());
        let prefix = format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy());
        Beside { target, prefix }
    }
    fn folder(&self) -> &Path {
        self.target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
    }
    fn not_a_folder(&self) -> io::Result<()> {
        if self.target.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { Ok(()) }
    }
    /// An empty file under a new name.
    fn make(&self) -> io::Result<(PathBuf, File)> {
        let make = |path: &Path| File::options().read(true).write(true).create_new(true).open(path);
        first_free(self.folder(), &self.prefix, make).map_err(|(_, e)| e)
    }
}

/// Writes a file completely or not at all: next to its place, synced, then renamed. A symbolic link stays: the file
/// that it names is written. A device or a pipe gets the content directly.
///
/// # Errors
/// When the disk refuses; no file is left then.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    let beside = Beside::of(path);
    let failed = |e: io::Error| Error::io(&beside.target, "write", &e);
    let mut temp = TempFile::open(&beside).map_err(failed)?;
    temp.file.write_all(content).map_err(failed)?;
    temp.put()
}

/// A file that is written under a temporary name next to its place. Dropping it removes it, unless [`TempFile::put`]
/// has moved it to its place. If the place is a device or a pipe, that is written directly.
#[derive(Debug)]
pub struct TempFile {
    /// The file, open for reading and writing; a device or a pipe is open for writing.
    pub file: File,
    path: PathBuf,
    /// `None`: the file is in its place already.
    place: Option<PathBuf>,
}

impl TempFile {
    /// Makes an empty file, and removes leftovers of killed writers.
    ///
    /// # Errors
    /// When the file can't be made.
    pub fn create(place: &Path) -> Result<TempFile> {
        let beside = Beside::of(place);
        let made = beside.not_a_folder().and_then(|()| TempFile::open(&beside));
        made.map_err(|e| Error::io(place, "write", &e))
    }
    fn open(beside: &Beside) -> io::Result<TempFile> {
        let target = beside.target.clone();
        if is_written_into(&target) {
            let file = File::options().write(true).open(&target)?;
            return Ok(TempFile { file, path: target, place: None });
        }
        clear_left(beside.folder(), &beside.prefix);
        let (path, file) = beside.make()?;
        let _ = file.try_lock();
        Ok(TempFile { file, path, place: Some(target) })
    }
    /// The current path.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Moves the file to its place.
    ///
    /// # Errors
    /// When the disk refuses; no file is left then.
    pub fn put(self) -> Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        let put = self.file.sync_all().and_then(|()| fs::rename(&self.path, place));
        put.map_err(|e| Error::io(place, "write", &e))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.place.is_some() {
            // After the rename this fails, as it should.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that [`write_whole`] can write a file, before the work that fills it: makes a temporary file next to the
/// place and removes it.
///
/// # Errors
/// For a missing folder, one that this user can't write to, and a folder in the file's place.
pub fn check_place(path: &Path) -> Result<()> {
    if is_written_into(path) {
        return Ok(());
    }
    let beside = Beside::of(path);
    let made = beside.not_a_folder().and_then(|()| beside.make());
    made.and_then(|(path, _)| fs::remove_file(path)).map_err(|e| Error::io(&beside.target, "write", &e))
}

/// A temporary name in `parent`, used only once by this process.
pub fn new_name(parent: &Path, prefix: &str) -> PathBuf {
    static USED: AtomicU64 = AtomicU64::new(0);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    parent.join(format!("{prefix}{}.{number}{ENDING}", std::process::id()))
}

/// Makes a file or folder under a new name. A killed process may have had this process's id and left the name taken.
fn first_free<T>(
    parent: &Path,
    prefix: &str,
    make: impl Fn(&Path) -> io::Result<T>,
) -> std::result::Result<(PathBuf, T), (PathBuf, io::Error)> {
    loop {
        let path = new_name(parent, prefix);
        match make(&path) {
            Ok(made) => return Ok((path, made)),
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err((path, e)),
        }
    }
}

/// Whether the writer of a temporary file or folder was killed: it is old, and nobody holds its lock.
pub fn is_left(path: &Path) -> bool {
    let left = || -> io::Result<bool> {
        let about = fs::symlink_metadata(path)?;
        let old = about.modified()?.elapsed().is_ok_and(|age| age > LEFT_AFTER);
        // Opening anything else may block or act.
        Ok(old && (about.is_dir() || about.is_file()) && File::open(path)?.try_lock().is_ok())
    };
    left().is_ok_and(|left| left)
}

/// Removes leftovers of killed writers with that prefix in a folder. Young ones stay: their writers may not have taken
/// the lock yet.
pub fn clear_left(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|n| n.starts_with(prefix) && n.ends_with(ENDING));
        if ours && is_left(&entry.path()) {
            // Another process may remove it at the same time; a failure does not matter.
            let path = entry.path();
            let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::time::SystemTime;

    #[test]
    fn a_renamed_folder_has_nothing_more_to_do_with_its_old_name() {
        let parent = std::env::temp_dir().join(format!("schedlab-renamed-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        let first = TempFolder::create(&parent, ".a.", 0o700).unwrap();
        let name = first.path.clone();
        first.rename_to(&parent.join("place")).unwrap();
        let second = TempFolder::create(&parent, ".a.", 0o700).unwrap();
        assert_ne!(second.path, name, "no name is used twice");
        // The place is taken: the folder is removed, and the file there stays.
        fs::write(parent.join("place/file"), "").unwrap();
        let gone = second.path.clone();
        assert!(second.rename_to(&parent.join("place")).is_err());
        assert!(!gone.exists() && parent.join("place/file").exists());
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_name_that_a_killed_process_of_this_id_left_is_passed_over() {
        let tried = Cell::new(0);
        let taken_twice = |_: &Path| {
            tried.set(tried.get() + 1);
            if tried.get() < 3 { Err(io::ErrorKind::AlreadyExists.into()) } else { Ok(()) }
        };
        assert!(first_free(Path::new("/"), ".a.", taken_twice).is_ok());
        assert_eq!(tried.get(), 3);
    }

    fn aged(path: &Path) {
        File::open(path).unwrap().set_modified(SystemTime::now() - 2 * LEFT_AFTER).unwrap();
    }

    #[test]
    fn leftovers_of_killed_writers_are_removed_and_files_of_living_ones_stay() {
        let parent = std::env::temp_dir().join(format!("schedlab-temp-{}", std::process::id()));
        fs::create_dir_all(&parent).unwrap();
        let at = |name: &str| parent.join(name);
        let (old, young) = (".a.77.0.tmp", ".a.78.0.tmp");
        for folder in [old, young, ".b.79.0.tmp"] {
            fs::create_dir(at(folder)).unwrap();
            fs::write(at(folder).join("half"), "").unwrap();
        }
        let living = TempFolder::create(&parent, ".a.", 0o700).unwrap();
        aged(&living.path);
        aged(&at(old));
        aged(&at(".b.79.0.tmp"));
        let other = TempFolder::create(&parent, ".a.", 0o700).unwrap();
        assert!(
            !at(old).exists() && at(young).exists() && living.path.exists() && at(".b.79.0.tmp").exists()
        );
        let gone = other.path.clone();
        drop(other);
        assert!(!gone.exists());

        fs::write(at(".c.80.0.tmp"), "half").unwrap();
        aged(&at(".c.80.0.tmp"));
        write_whole(&at("c"), b"whole").unwrap();
        assert_eq!(fs::read(at("c")).unwrap(), b"whole");
        assert!(!at(".c.80.0.tmp").exists());
        assert!(write_whole(&at("no/such/folder"), b"x").is_err());
        assert!(check_place(&at("no/such/folder")).is_err() && check_place(&parent).is_err());
        let before = fs::read_dir(&parent).unwrap().count();
        assert!(check_place(&at("new")).is_ok() && check_place(&at("c")).is_ok());
        assert_eq!(
            (fs::read_dir(&parent).unwrap().count(), fs::read(at("c")).unwrap()),
            (before, b"whole".to_vec())
        );
        let link = at("link");
        std::os::unix::fs::symlink("c", &link).unwrap();
        write_whole(&link, b"through the link").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(at("c")).unwrap(), b"through the link");
        // A folder can't be replaced by a file; the attempt leaves no file.
        assert!(write_whole(&at(young), b"x").is_err());
        let names: Vec<String> =
            fs::read_dir(&parent).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        assert!(!names.iter().any(|n| n.starts_with(&format!(".{young}"))), "{names:?}");
        drop(living);
        fs::remove_dir_all(&parent).unwrap();
    }

    #[test]
    fn a_device_stays_one() {
        let full = Path::new("/dev/full");
        let e = write_whole(full, b"x").unwrap_err().to_string();
        assert!(
            e.contains("/dev/full") && e.contains("No space left") && e.contains("help: make room"),
            "{e}"
        );
        let null = Path::new("/dev/null");
        write_whole(null, b"x").unwrap();
        check_place(null).unwrap();
        let mut beside = TempFile::create(null).unwrap();
        beside.file.write_all(b"x").unwrap();
        beside.put().unwrap();
        drop(TempFile::create(full).unwrap());
        for device in [full, null] {
            assert!(
                fs::metadata(device).is_ok_and(|m| is_written_into(device) && m.len() == 0),
                "{device:?}"
            );
        }
    }
}
