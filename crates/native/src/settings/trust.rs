//! Decides which journal entries count, and safely opens files that may have been replaced.
//!
//! Between a change and its undoing, others may have replaced the file by a pipe that never answers or by a link to
//! another file; whoever can write to the journal's folder may have made entries. So an entry counts only if it is a
//! short regular file of this user's or root's that nobody else may write, and its path is the one for its setting's
//! name. A file is opened without waiting, must be regular, and must be at its path.

use super::files::Files;
use super::form::Form;
use super::journal::{Entry, STATE_VARIABLE};
use super::table::{FILE_PREFIX, row};
use crate::settings::cgroups::{remove::is_ours, words::SETTING};
use std::fs::{File, OpenOptions};
use std::io::{self, Read as _};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// The longest entry: its values come from files of which at most 64 KB are read.
const MOST_BYTES: u64 = 1 << 20;
/// Permission bits that let others than the owner write.
const OTHERS_WRITE: u32 = 0o022;

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Bytes {
    Whole(Vec<u8>),
    /// Longer than any entry.
    TooLong,
}

/// Whether a file belongs to the kernel. The kernel takes a value in one call, so that a killed writer never leaves it
/// empty, and nobody else puts links there.
pub fn is_kernels(path: &Path) -> bool {
    is_straight(path) && (path.starts_with("/proc") || path.starts_with("/sys"))
}

/// Whether a path never goes up.
fn is_straight(path: &Path) -> bool {
    path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)))
}

/// Opens a regular file. Opening a pipe would wait for its other end, and opening a device may have effects.
///
/// # Errors
/// As open(2); also for another kind of file.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let regular = |about: std::fs::Metadata| match about.is_file() {
        true => Ok(()),
        false => Err(io::Error::other("it is not a regular file")),
    };
    std::fs::metadata(path).and_then(regular)?;
    // Somebody may replace it between the check and the opening.
    let file = options.custom_flags(libc::O_NONBLOCK | libc::O_NOCTTY).open(path)?;
    regular(file.metadata()?)?;
    Ok(file)
}

/// Checks that an open file is at its path, not behind a link.
///
/// # Errors
/// When it is not.
pub fn lies_at(file: &File, path: &Path) -> io::Result<()> {
    let real = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    match real == path {
        true => Ok(()),
        false => Err(io::Error::other(format!("a link leads to {}", real.display()))),
    }
}

/// Reads an entry's file.
///
/// # Errors
/// When it can't be read, is not a regular file, belongs to another user, or others may write it.
pub fn entry_bytes(path: &Path) -> io::Result<Bytes> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY | libc::O_NOFOLLOW;
    let file = File::options().read(true).custom_flags(flags).open(path)?;
    let about = file.metadata()?;
    if !about.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let own = schedlab_base::own_uid();
    if about.uid() != 0 && Some(about.uid()) != own {
        return Err(io::Error::other(format!("it belongs to user {}, and is not obeyed", about.uid())));
    }
    if about.mode() & OTHERS_WRITE != 0 {
        return Err(io::Error::other("others may write it, and it is not obeyed"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    Ok(if bytes.len() as u64 > MOST_BYTES { Bytes::TooLong } else { Bytes::Whole(bytes) })
}

/// Whether an entry's file is root's.
pub fn is_roots(file: &Path) -> bool {
    std::fs::symlink_metadata(file).is_ok_and(|about| about.uid() == 0)
}

/// The remedy for an entry that [`entry_bytes`] refuses to read.
pub fn remedy(file: &Path) -> Option<String> {
    let about = std::fs::symlink_metadata(file).ok()?;
    let (shown, own) = (file.display(), schedlab_base::own_uid());
    if !about.is_file() {
        return Some(format!("look at {shown}, and remove it"));
    }
    if Some(about.uid()) == own {
        let is_open = about.mode() & OTHERS_WRITE != 0;
        return is_open
            .then(|| format!("if the entry is right, 'chmod go-w {shown}' makes it count; else remove it"));
    }
    if about.uid() == 0 {
        return Some("run it as root, which made the entry".to_owned());
    }
    // Even root ignores it: whoever can write to the folder may have made it.
    let state = file.parent().and_then(Path::parent).unwrap_or(Path::new("."));
    Some(format!(
        "let user {} run '{STATE_VARIABLE}={} schedlab restore', or look at {shown} and remove it",
        about.uid(),
        state.display()
    ))
}

/// The file to which a name `file:PATH` leads now. Links are followed once, when the change is made.
pub fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// Checks that an entry's path and form are those of its setting.
///
/// # Errors
/// When they differ, in words.
pub fn leads_to(files: &dyn Files, entry: &Entry) -> io::Result<()> {
    let (setting, path) = (entry.setting.as_str(), entry.path.as_path());
    let good = match setting.strip_prefix(FILE_PREFIX) {
        Some(given) => entry.form == Form::Plain && real(Path::new(given)) == path,
        None if setting == SETTING => is_straight(path) && is_of_groups(entry),
        None => row(setting).is_ok_and(|row| {
            row.places.iter().any(|p| p.form == entry.form && fits(&files.place(p.pattern), path))
        }),
    };
    match good {
        true => Ok(()),
        false => Err(io::Error::other(format!("the entry's path is not that of setting '{setting}'"))),
    }
}

/// Whether an entry belongs to a group made by schedlab, or to the list of controllers next to it.
fn is_of_groups(entry: &Entry) -> bool {
    match entry.form {
        Form::Folder => is_ours(&entry.path),
        Form::Controller => entry.path.ends_with("cgroup.subtree_control"),
        _ => false,
    }
}

/// Whether a path matches a pattern, in which `*` is a number.
fn fits(pattern: &Path, path: &Path) -> bool {
    let (own, other): (Vec<Component>, Vec<Component>) =
        (pattern.components().collect(), path.components().collect());
    let part = |(own, other): (&Component, &Component)| {
        let (Some(own), Some(other)) = (own.as_os_str().to_str(), other.as_os_str().to_str()) else {
            return false;
        };
        match own.split_once('*') {
            None => own == other,
            Some((before, after)) => {
                let middle = other.strip_prefix(before).and_then(|o| o.strip_suffix(after));
                middle.is_some_and(|m| !m.is_empty() && m.bytes().all(|b| b.is_ascii_digit()))
            }
        }
    };
    own.len() == other.len() && own.iter().zip(&other).all(part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{PermissionsExt, symlink};

    #[test]
    fn the_remedy_for_an_entry_of_another_user_is_not_root() {
        let dir = tempfile::tempdir().unwrap();
        let entry = dir.path().join("state/journal/e");
        fs::create_dir_all(entry.parent().unwrap()).unwrap();
        fs::write(&entry, "{}").unwrap();
        match schedlab_base::own_uid() {
            Some(0) => {
                std::os::unix::fs::chown(&entry, Some(4711), None).unwrap();
                let said = remedy(&entry).unwrap();
                assert!(
                    said.starts_with("let user 4711 run 'SCHEDLAB_STATE_DIR=") && !said.contains("as root"),
                    "{said}"
                );
                assert!(said.contains("state schedlab restore'"), "{said}");
            }
            _ => assert!(remedy(Path::new("/etc/passwd")).unwrap().contains("run it as root")),
        }
        assert!(remedy(dir.path()).unwrap().contains("remove it"));
    }

    #[test]
    fn a_pattern_has_numbers_only() {
        let fits = |pattern: &str, path: &str| fits(Path::new(pattern), Path::new(path));
        assert!(fits("/sys/cpu*/online", "/sys/cpu12/online"));
        for other in
            ["/sys/cpu/online", "/sys/cpu1x/online", "/sys/cpu1/../online", "/sys/cpu1", "/etc/cpu1/online"]
        {
            assert!(!fits("/sys/cpu*/online", other), "{other}");
        }
    }

    #[test]
    fn only_regular_files_at_their_path_are_opened() {
        let dir = tempfile::tempdir().unwrap();
        let folder = dir.path().canonicalize().unwrap();
        let (file, link, pipe) = (folder.join("f"), folder.join("l"), folder.join("p"));
        fs::write(&file, "1\n").unwrap();
        symlink(&file, &link).unwrap();
        let name = std::ffi::CString::new(pipe.to_str().unwrap()).unwrap();
        // SAFETY: the name is a C string that lives until the call returns.
        assert_eq!(unsafe { libc::mkfifo(name.as_ptr(), 0o600) }, 0);
        for path in [&pipe, Path::new("/dev/null")] {
            assert!(
                open(path, File::options().read(true))
                    .unwrap_err()
                    .to_string()
                    .contains("not a regular file")
            );
            assert!(open(path, File::options().write(true)).is_err());
        }
        let opened = |path: &Path| open(path, File::options().read(true)).unwrap();
        assert!(lies_at(&opened(&file), &file).is_ok());
        assert!(lies_at(&opened(&link), &link).unwrap_err().to_string().contains("a link leads to"));
    }

    #[test]
    fn an_entry_is_a_short_file_of_this_user() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("e");
        fs::write(&path, "{}").unwrap();
        let mode = |bits| fs::set_permissions(&path, fs::Permissions::from_mode(bits)).unwrap();
        mode(0o644);
        assert_eq!(entry_bytes(&path).unwrap(), Bytes::Whole(b"{}".to_vec()));
        mode(0o666);
        assert!(entry_bytes(&path).unwrap_err().to_string().contains("others may write it"));
        mode(0o644);
        // Larger than this machine's memory, without a byte on disk.
        File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(entry_bytes(&path).unwrap(), Bytes::TooLong);
        symlink(&path, dir.path().join("l")).unwrap();
        assert!(entry_bytes(&dir.path().join("l")).is_err());
    }
}
