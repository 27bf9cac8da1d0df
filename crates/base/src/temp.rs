//! Temporary names: a file or folder is written under such a name next to its place, and renamed when it is complete.
//!
//! The writer holds a lock (flock) on the file or folder, which the kernel drops when the writer dies. A killed
//! writer's leftovers are recognised by their free lock; the next writer in the same folder removes them. Names end in
//! `.tmp` and hold the process id and a number that the process never uses again, so that two writers never share one.

use crate::{Error, Result};
use std::fs::{self, DirBuilder, File};
use std::io::{self, Write};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How temporary names end.
pub const ENDING: &str = ".tmp";
/// Nothing younger than this counts as left over: a writer takes its lock long before.
pub const LEFT_AFTER: Duration = Duration::from_secs(60);

/// A folder under a temporary name. It is removed when dropped, unless [`TempFolder::rename_to`] has put it in its
/// place.
#[derive(Debug)]
pub struct TempFolder {
    /// Where it is.
    pub path: PathBuf,
    renamed: bool,
    _lock: Option<File>,
}

impl TempFolder {
    /// Makes a folder in `parent` whose name begins with `prefix`, and removes what killed writers left there under
    /// that prefix. `mode` holds its permissions, less the umask.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(parent: &Path, prefix: &str, mode: u32) -> Result<TempFolder> {
        TempFolder::attempt(parent, prefix, mode)
            .map_err(|(path, e)| Error::io(&path, "create the folder", &e))
    }
    /// The same, with the path and the system's own error, for those who may try again.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn attempt(
        parent: &Path,
        prefix: &str,
        mode: u32,
    ) -> std::result::Result<TempFolder, (PathBuf, io::Error)> {
        clear_left(parent, prefix);
        let make = |path: &Path| DirBuilder::new().mode(mode).create(path);
        let (path, ()) = first_free(parent, prefix, make)?;
        // Some network file systems have no locks; leftovers are not collected there.
        let lock = File::open(&path).ok().filter(|folder| folder.try_lock().is_ok());
        Ok(TempFolder { path, renamed: false, _lock: lock })
    }
    /// Renames the folder to its place, where it stays. The folder is removed when that fails.
    ///
    /// # Errors
    /// As rename(2): a file or a folder with something in it is at that place, or the disk does not take it.
    pub fn rename_to(mut self, place: &Path) -> io::Result<()> {
        fs::rename(&self.path, place)?;
        // The temporary name is free from here on; anything that appears under it belongs to another writer.
        self.renamed = true;
        Ok(())
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        if !self.renamed {
            // The folder may hold something that this user can't remove; the next writer tries again.
            let _ = fs::remove_dir_all(&self.path);
        }
    }
}

/// Whether a device, a pipe or a socket is at that place: it is written into. A rename would put a file there instead,
/// and root may do so in /dev.
fn is_written_into(place: &Path) -> bool {
    fs::metadata(place).is_ok_and(|m| !m.is_file() && !m.is_dir())
}

/// Writes a file completely or not at all: next to its place, synced, then renamed. A symbolic link stays a link; the
/// file that it names is written. Into a device or a pipe the content is written as it is.
///
/// # Errors
/// When the disk does not take it; nothing is left then.
pub fn write_whole(path: &Path, content: &[u8]) -> Result<()> {
    if is_written_into(path) {
        let written = File::options().write(true).open(path).and_then(|mut file| file.write_all(content));
        return written.map_err(|e| Error::io(path, "write", &e));
    }
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!(".{name}.");
    clear_left(parent, &prefix);
    let failed = |e: io::Error| Error::io(path, "write", &e);
    let (beside, mut file) =
        first_free(parent, &prefix, |path| File::create_new(path)).map_err(|(_, e)| failed(e))?;
    let _ = file.try_lock();
    let written =
        file.write_all(content).and_then(|()| file.sync_all()).and_then(|()| fs::rename(&beside, path));
    written.map_err(|e| {
        // An incomplete file is of no use.
        let _ = fs::remove_file(&beside);
        failed(e)
    })
}

/// A file that is being written under a temporary name next to its place. It is removed when dropped, unless
/// [`TempFile::put`] has given it its place. A device or a pipe at that place is written into.
#[derive(Debug)]
pub struct TempFile {
    /// The file, open for reading and writing; a device or a pipe for writing.
    pub file: File,
    path: PathBuf,
    /// `None`: it is in its place already.
    place: Option<PathBuf>,
}

impl TempFile {
    /// Makes an empty file, and removes what killed writers left there.
    ///
    /// # Errors
    /// When it can't be made.
    pub fn create(place: &Path) -> Result<TempFile> {
        let target = fs::canonicalize(place).unwrap_or_else(|_| place.to_owned());
        let failed = |e: io::Error| Error::io(place, "write", &e);
        if is_written_into(place) {
            let file = File::options().write(true).open(place).map_err(failed)?;
            return Ok(TempFile { file, path: place.to_owned(), place: None });
        }
        if target.is_dir() {
            return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
        }
        let parent = target.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let prefix = format!(".{}.", target.file_name().unwrap_or_default().to_string_lossy());
        clear_left(parent, &prefix);
        let make = |path: &Path| File::options().read(true).write(true).create_new(true).open(path);
        let (path, file) = first_free(parent, &prefix, make).map_err(|(_, e)| failed(e))?;
        let _ = file.try_lock();
        Ok(TempFile { file, path, place: Some(target) })
    }
    /// Where it is until then.
    pub fn path(&self) -> &Path {
        &self.path
    }
    /// Gives the file its place, where it stays.
    ///
    /// # Errors
    /// When the disk does not take it; nothing is left then.
    pub fn put(self) -> Result<()> {
        let Some(place) = &self.place else { return Ok(()) };
        let put = self.file.sync_all().and_then(|()| fs::rename(&self.path, place));
        put.map_err(|e| Error::io(place, "write", &e))
    }
}

impl Drop for TempFile {
    fn drop(&mut self) {
        if self.place.is_some() {
            // Once it has its place this fails, as it should.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Checks that [`write_whole`] can write a file, before the work that fills it: a temporary file is made
/// beside its place and removed.
///
/// # Errors
/// A folder that is not there or that this user can't write to, and a folder in the file's place.
pub fn check_place(path: &Path) -> Result<()> {
    if is_written_into(path) {
        return Ok(());
    }
    let target = fs::canonicalize(path);
    let path = target.as_deref().unwrap_or(path);
    let failed = |e: io::Error| Error::io(path, "write", &e);
    if path.is_dir() {
        return Err(failed(io::Error::from(io::ErrorKind::IsADirectory)));
    }
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = format!(".{}.", path.file_name().unwrap_or_default().to_string_lossy());
    let (beside, _) =
        first_free(parent, &prefix, |path| File::create_new(path)).map_err(|(_, e)| failed(e))?;
    fs::remove_file(&beside).map_err(failed)
}

/// A temporary name in `parent` that this process has not used and will not use again.
pub fn new_name(parent: &Path, prefix: &str) -> PathBuf {
    static USED: AtomicU64 = AtomicU64::new(0);
    let number = USED.fetch_add(1, Ordering::Relaxed);
    parent.join(format!("{prefix}{}.{number}{ENDING}", std::process::id()))
}

/// Makes something under a new name. A killed process may have had this process's id and left something there.
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

/// Whether the writer of something under a temporary name was killed: it is old, and nobody holds its lock.
pub fn is_left(path: &Path) -> bool {
    let left = || -> io::Result<bool> {
        let about = fs::symlink_metadata(path)?;
        let old = about.modified()?.elapsed().is_ok_and(|age| age > LEFT_AFTER);
        // Opening anything else may block or act.
        Ok(old && (about.is_dir() || about.is_file()) && File::open(path)?.try_lock().is_ok())
    };
    left().is_ok_and(|left| left)
}

/// Removes what killed writers left in a folder under a prefix. Young leftovers stay: their writers may not have taken
/// the lock yet.
pub fn clear_left(parent: &Path, prefix: &str) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let ours = name.to_str().is_some_and(|n| n.starts_with(prefix) && n.ends_with(ENDING));
        if ours && is_left(&entry.path()) {
            // Another process may remove the same; a failure does not matter.
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
        // A place that is taken: the folder goes, and what is there stays.
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
    fn what_a_killed_writer_left_goes_and_what_a_living_one_has_stays() {
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
        // A folder can't be replaced by a file; nothing is left of the attempt.
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
