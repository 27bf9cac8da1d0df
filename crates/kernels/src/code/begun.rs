//! Begins the folder of objects of a configuration as a copy of another one of the same source.
//!
//! kbuild keeps with each object the command and the options that made it, and makes again what differs. A copy saves
//! its own programs, the headers that it generates, and all objects that the configurations have in common. Commands
//! name their folder, so the copy's commands name the copy. Times are copied, since make compares them.

use schedlab_base::{Error, Result};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The file that a folder of objects has once its configuration was made.
const CONFIGURED: &str = "include/config/auto.conf";
/// The end of the names of files with commands.
const COMMANDS: &str = ".cmd";
/// The extension of a folder while it is copied.
const HALF: &str = "half";

/// Makes the folder, unless it is there: as a copy of the newest folder beside it whose name begins with `kind`.
///
/// # Errors
/// When it can't be written.
pub(super) fn folder(folder: &Path, kind: &str) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(folder, "make", &e);
    clear_halves(folder, kind).map_err(failed)?;
    if folder.is_dir() {
        return Ok(());
    }
    let Some(from) = newest_beside(folder, kind) else { return fs::create_dir_all(folder).map_err(failed) };
    let half = folder.with_extension(HALF);
    copy(&from, &half, &|text| replaced(text, path(&from), path(folder))).map_err(failed)?;
    fs::rename(&half, folder).map_err(failed)
}

fn path(folder: &Path) -> &[u8] {
    folder.as_os_str().as_encoded_bytes()
}

/// Removes what copies left that were interrupted: nobody else is in this site.
fn clear_halves(folder: &Path, kind: &str) -> std::io::Result<()> {
    let beside = folder.parent().map(fs::read_dir).and_then(std::io::Result::ok);
    for path in beside.into_iter().flatten().flatten().map(|entry| entry.path()) {
        if is_of(&path, kind) && path.extension().is_some_and(|e| e == HALF) {
            fs::remove_dir_all(&path)?;
        }
    }
    Ok(())
}

fn is_of(path: &Path, kind: &str) -> bool {
    path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(kind))
}

fn newest_beside(folder: &Path, kind: &str) -> Option<PathBuf> {
    let all = fs::read_dir(folder.parent()?).ok()?.flatten().map(|entry| entry.path());
    let of_kind = all.filter(|p| is_of(p, kind) && p.extension().is_none());
    let since = |p: &PathBuf| p.join(CONFIGURED).metadata().ok()?.modified().ok();
    of_kind.filter_map(|p| Some((since(&p)?, p))).max().map(|(_, p)| p)
}

fn copy(from: &Path, to: &Path, commands: &dyn Fn(&[u8]) -> Vec<u8>) -> std::io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let (from, to, kind) = (entry.path(), to.join(entry.file_name()), entry.file_type()?);
        if kind.is_dir() {
            copy(&from, &to, commands)?;
        } else if kind.is_symlink() {
            symlink(fs::read_link(&from)?, &to)?;
        } else {
            let modified = entry.metadata()?.modified()?;
            if entry.file_name().to_string_lossy().ends_with(COMMANDS) {
                fs::write(&to, commands(&fs::read(&from)?))?;
            } else {
                fs::copy(&from, &to)?;
            }
            File::options().append(true).open(&to)?.set_modified(modified)?;
        }
    }
    Ok(())
}

/// The text with `new` wherever it has `old`.
fn replaced(text: &[u8], old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some(byte) = rest.first() {
        if let Some(behind) = rest.strip_prefix(old) {
            all.extend_from_slice(new);
            rest = behind;
        } else {
            all.push(*byte);
            rest = &rest[1..];
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_a_copy_whose_commands_name_it() {
        let site = tempfile::tempdir().unwrap();
        let (old, new) = (site.path().join("obj-code-a"), site.path().join("obj-code-b"));
        fs::create_dir_all(old.join("include/config")).unwrap();
        fs::write(old.join(CONFIGURED), "").unwrap();
        fs::write(old.join("x.o"), format!("in {}", old.display())).unwrap();
        fs::write(old.join(".x.o.cmd"), format!("gcc -o={0} {0}/x", old.display())).unwrap();
        symlink("/tree", old.join("source")).unwrap();
        let time = |folder: &Path, name: &str| folder.join(name).metadata().unwrap().modified().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(10));
        folder(&new, "obj-code-").unwrap();
        let text = |name: &str| fs::read_to_string(new.join(name)).unwrap();
        assert_eq!(text(".x.o.cmd"), format!("gcc -o={0} {0}/x", new.display()));
        assert_eq!(text("x.o"), format!("in {}", old.display()), "an object is what it was");
        assert_eq!((time(&new, "x.o"), time(&new, ".x.o.cmd")), (time(&old, "x.o"), time(&old, ".x.o.cmd")));
        assert_eq!(fs::read_link(new.join("source")).unwrap(), Path::new("/tree"));
        // What another copy left when it was killed, of this configuration or of any other.
        let half = site.path().join("obj-code-d.half");
        fs::create_dir_all(half.join("deep")).unwrap();
        folder(&new, "obj-code-").unwrap();
        assert!(!half.exists() && new.join("x.o").exists());
        fs::remove_file(old.join(CONFIGURED)).unwrap();
        fs::remove_file(new.join(CONFIGURED)).unwrap();
        let alone = site.path().join("obj-code-c");
        folder(&alone, "obj-code-").unwrap();
        assert_eq!(fs::read_dir(&alone).unwrap().count(), 0, "a folder that was not configured is no model");
    }
}
