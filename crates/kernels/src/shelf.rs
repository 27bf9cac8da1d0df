//! Folders of the cache that were built here: each has its files and a note of their sources and settings. A folder is
//! filled under a temporary name and renamed into place, so every folder in place is complete.

use schedlab_base::{Error, Result, temp};
use serde::de::DeserializeOwned;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// The beginning of temporary names.
pub(crate) const UNFINISHED: &str = ".new-";

/// The content of a new folder.
pub(crate) struct Shelved<'a> {
    /// The folder that holds all of them.
    pub shelf: PathBuf,
    pub name: &'a str,
    /// Files to copy, with their names there.
    pub files: &'a [(&'a Path, &'a str)],
    /// Names and texts of files to write.
    pub texts: &'a [(&'a str, &'a [u8])],
}

/// The note in a folder.
///
/// # Errors
/// When it is missing, or belongs to another build.
pub(crate) fn note<T: DeserializeOwned>(folder: &Path, file: &str) -> Result<T> {
    let path = folder.join(file);
    let text = fs::read(&path).map_err(|e| Error::io(&path, "read", &e))?;
    serde_json::from_slice(&text).map_err(|e| Error::input(format!("{}: {e}", path.display())))
}

pub(crate) fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Puts a folder into place and opens it. A folder there that `open` refuses is replaced; a complete one stays.
///
/// # Errors
/// When writing fails, or `open` refuses the new folder.
pub(crate) fn put<T>(new: &Shelved<'_>, open: impl Fn(&Path) -> Result<T>) -> Result<T> {
    fs::create_dir_all(&new.shelf).map_err(|e| Error::io(&new.shelf, "make", &e))?;
    let folder = temp::TempFolder::create(&new.shelf, UNFINISHED, 0o755)?;
    for (from, to) in new.files {
        fs::copy(from, folder.path.join(to)).map_err(|e| Error::io(from, "copy", &e))?;
    }
    for (name, text) in new.texts {
        let path = folder.path.join(name);
        fs::write(&path, text).map_err(|e| Error::io(&path, "write", &e))?;
    }
    open(&folder.path)?;
    let place = new.shelf.join(new.name);
    if place.exists() && open(&place).is_err() {
        fs::remove_dir_all(&place).map_err(|e| Error::io(&place, "remove the incomplete", &e))?;
    }
    // Another process may have put the same folder there meanwhile.
    if !place.exists() {
        folder.rename_to(&place).map_err(|e| Error::io(&place, "make", &e))?;
    }
    open(&place)
}

/// Marks a folder as used now by the time of its note. Ignored if the cache can't be written.
pub(crate) fn touch(folder: &Path, note: &str) {
    let file = fs::File::options().append(true).open(folder.join(note));
    let _ = file.and_then(|file| file.set_modified(SystemTime::now()));
}

pub(crate) fn last_use(folder: &Path, note: &str) -> Option<SystemTime> {
    fs::metadata(folder.join(note)).and_then(|about| about.modified()).ok()
}

/// The bytes of a folder's files.
pub(crate) fn size(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).filter(|m| m.is_file()).map(|m| m.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_folder_is_replaced_and_a_whole_one_stays() {
        let cache = tempfile::tempdir().unwrap();
        let open = |folder: &Path| note::<u32>(folder, "note.json").map(|n| (n, name(folder)));
        let put = |text: &[u8]| {
            let texts: &[(&str, &[u8])] = &[("note.json", text)];
            put(&Shelved { shelf: cache.path().to_owned(), name: "a", files: &[], texts }, open)
        };
        fs::create_dir(cache.path().join("a")).unwrap();
        assert!(put(b"x").is_err(), "what can't be opened is not put there");
        assert_eq!(put(b"1").unwrap(), (1, "a".to_owned()));
        assert_eq!(put(b"2").unwrap().0, 1);
        let left: Vec<_> = fs::read_dir(cache.path()).unwrap().collect();
        assert_eq!((left.len(), size(&cache.path().join("a"))), (1, 1));
    }

    #[test]
    fn a_use_is_kept_as_the_time_of_the_note() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("note.json");
        fs::write(&path, "1").unwrap();
        fs::File::options().append(true).open(&path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        touch(folder.path(), "note.json");
        let used = last_use(folder.path(), "note.json").unwrap();
        assert!(used.elapsed().is_ok_and(|age| age.as_secs() < 60), "{used:?}");
    }
}
