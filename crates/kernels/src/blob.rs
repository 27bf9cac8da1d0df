//! Files and symbolic links of a tree, as git names them by mode, and the rule for links.
//!
//! The copies in which kernels are built hold no link that leads out of them: a patch that writes through such a link
//! would change files of the user's. [`stays_inside`] is the rule, and [`read`] refuses paths that lead through any
//! link, as patch(1) and git-apply(1) do.

use schedlab_base::{Error, Result, temp};
use serde::{Deserialize, Serialize};
use std::fs::{self, Permissions};
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Component, Path};

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Mode 100644.
    #[default]
    Plain,
    /// Mode 100755.
    Executable,
    /// Mode 120000: a symbolic link; its bytes are the path to which it leads.
    Link,
}

impl Kind {
    /// The kind for a mode in a diff ("100644"); `None` for a submodule and for text that is not a mode.
    pub fn of_mode(mode: &str) -> Option<Kind> {
        let bits = u32::from_str_radix(mode.trim(), 8).ok()?;
        match bits >> 12 {
            0o10 if bits & 0o100 != 0 => Some(Kind::Executable),
            0o10 => Some(Kind::Plain),
            0o12 => Some(Kind::Link),
            _ => None,
        }
    }
    /// The kind of a file that is on disk.
    pub fn of(about: &fs::Metadata) -> Kind {
        match about {
            _ if about.is_symlink() => Kind::Link,
            _ if about.permissions().mode() & 0o100 != 0 => Kind::Executable,
            _ => Kind::Plain,
        }
    }
}

/// A file's content and kind.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blob {
    /// Its bytes, or the path to which a link leads.
    pub bytes: Vec<u8>,
    pub kind: Kind,
}

impl Blob {
    pub fn plain(bytes: impl Into<Vec<u8>>) -> Blob {
        Blob { bytes: bytes.into(), kind: Kind::Plain }
    }
}

/// A file of a tree; `None` when there is none.
pub type Content = Option<Blob>;

/// Whether a link stays in its tree, given the link's own path in the tree and the path to which it leads.
///
/// "../" may stand only at its beginning, at most once for each folder above the link. Then it stays inside even if the
/// rest of the path leads through other links, since these stay inside, too.
pub fn stays_inside(link: &Path, to: &Path) -> bool {
    let above = link.components().count().saturating_sub(1);
    let up = to.components().take_while(|c| matches!(c, Component::ParentDir)).count();
    let mut rest = to.components().skip(up);
    up <= above && rest.all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
}

/// The first part of a path that is a link, without the last part.
fn link_above<'p>(root: &Path, path: &'p str) -> Option<&'p Path> {
    let is_link = |p: &&Path| root.join(p).is_symlink();
    let mut above: Vec<&Path> =
        Path::new(path).ancestors().skip(1).filter(|p| !p.as_os_str().is_empty()).collect();
    above.reverse();
    above.into_iter().find(is_link)
}

/// The error about a path that leads through a link.
pub fn through(link: &Path, path: &str) -> Error {
    Error::input(format!("{path} lies behind {}, which is a symbolic link", link.display()))
        .help("a patch names each file by its own path; patch(1) and git refuse this one, too")
}

/// Reads a file of a tree, or a link itself.
///
/// # Errors
/// When the path leads through a link, or can't be read.
pub fn read(root: &Path, path: &str) -> Result<Content> {
    if let Some(link) = link_above(root, path) {
        return Err(through(link, path));
    }
    let place = root.join(path);
    let failed = |e: std::io::Error| Error::io(&place, "read", &e);
    let about = match place.symlink_metadata() {
        Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(None),
        about => about.map_err(failed)?,
    };
    let kind = Kind::of(&about);
    let bytes = match kind {
        Kind::Link => fs::read_link(&place).map(|to| to.into_os_string().into_encoded_bytes()),
        _ if !about.is_file() => {
            let text = format!("{} is not a file", place.display());
            return Err(Error::input(text).help("a patch can change ordinary files and links alone"));
        }
        _ => fs::read(&place),
    };
    Ok(Some(Blob { bytes: bytes.map_err(failed)?, kind }))
}

/// Puts a file into a tree if it differs from what is there, or removes it.
///
/// # Errors
/// When the path leads through a link, or writing fails.
pub fn put(root: &Path, path: &str, content: Option<&Blob>) -> Result<()> {
    let now = read(root, path)?;
    if now.as_ref() == content {
        return Ok(());
    }
    let place = root.join(path);
    let failed = |e: std::io::Error| Error::io(&place, "write", &e);
    let is_link = |blob: &Blob| blob.kind == Kind::Link;
    if now.as_ref().is_some_and(|n| content.is_none_or(|c| is_link(n) || is_link(c))) {
        fs::remove_file(&place).map_err(failed)?;
    }
    let Some(blob) = content else { return Ok(()) };
    let above = place.parent().unwrap_or(root);
    fs::create_dir_all(above).map_err(|e| Error::io(above, "make", &e))?;
    if is_link(blob) {
        return symlink(target(blob), &place).map_err(failed);
    }
    if now.is_none_or(|n| is_link(&n) || n.bytes != blob.bytes) {
        // The old file may have a hard link in another tree: replace it, never write into it.
        temp::write_whole(&place, &blob.bytes)?;
    }
    set_kind(&place, blob.kind)
}

/// Stores a file elsewhere. It is never seen half written.
///
/// # Errors
/// When writing fails.
pub fn keep(place: &Path, blob: &Blob) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(place, "write", &e);
    if let Some(above) = place.parent() {
        fs::create_dir_all(above).map_err(|e| Error::io(above, "make", &e))?;
    }
    if blob.kind == Kind::Link {
        if place.symlink_metadata().is_ok() {
            fs::remove_file(place).map_err(failed)?;
        }
        return symlink(target(blob), place).map_err(failed);
    }
    temp::write_whole(place, &blob.bytes)?;
    set_kind(place, blob.kind)
}

/// The path to which a link leads.
pub fn target(link: &Blob) -> &Path {
    use std::os::unix::ffi::OsStrExt;
    Path::new(std::ffi::OsStr::from_bytes(&link.bytes))
}

/// Makes a file executable for those who can read it, or for nobody.
fn set_kind(place: &Path, kind: Kind) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(place, "change the mode of", &e);
    let about = place.metadata().map_err(failed)?;
    if Kind::of(&about) == kind {
        return Ok(());
    }
    let mode = about.permissions().mode();
    let mode = if kind == Kind::Executable { mode | (mode & 0o444) >> 2 } else { mode & !0o111 };
    fs::set_permissions(place, Permissions::from_mode(mode)).map_err(failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_kinds_and_a_submodule_has_none() {
        let kinds = ["100644", "100664", "100755", "120000"].map(Kind::of_mode);
        assert_eq!(kinds, [Some(Kind::Plain), Some(Kind::Plain), Some(Kind::Executable), Some(Kind::Link)]);
        assert_eq!(["160000", "x", ""].map(Kind::of_mode), [None; 3]);
    }

    #[test]
    fn a_link_stays_inside_if_it_climbs_no_higher_than_its_tree() {
        for (link, to, inside) in [
            ("a/b/c", "d", true),
            ("a/b/c", "../../d/e", true),
            ("a/b/c", "../../../d", false),
            ("c", "../d", false),
            ("a/c", "/etc/passwd", false),
            // The folder may itself be a link to a place that is higher than it looks.
            ("a/c", "d/../e", false),
            ("c", "./d", true),
        ] {
            assert_eq!(stays_inside(Path::new(link), Path::new(to)), inside, "{link} -> {to}");
        }
    }

    #[test]
    fn files_links_and_modes_come_and_go() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path();
        let of = |kind| Some(Blob { bytes: b"x".to_vec(), kind });
        for kind in [Kind::Plain, Kind::Executable, Kind::Link, Kind::Executable, Kind::Plain] {
            put(root, "d/f", of(kind).as_ref()).unwrap();
            assert_eq!(read(root, "d/f").unwrap(), of(kind));
            keep(&root.join("kept/f"), &of(kind).unwrap()).unwrap();
            assert_eq!(read(root, "kept/f").unwrap(), of(kind));
        }
        put(root, "d/f", None).unwrap();
        assert_eq!(read(root, "d/f").unwrap(), None);
    }

    #[test]
    fn nothing_is_read_or_written_through_a_link() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::write(other.path().join("f"), "theirs").unwrap();
        symlink(other.path(), dir.path().join("out")).unwrap();
        symlink(other.path().join("f"), dir.path().join("f")).unwrap();
        let blob = Blob::plain("ours");
        assert!(read(dir.path(), "out/f").unwrap_err().to_string().contains("out, which is a symbolic link"));
        assert!(put(dir.path(), "out/f", Some(&blob)).is_err());
        put(dir.path(), "f", Some(&blob)).unwrap();
        assert_eq!(fs::read_to_string(other.path().join("f")).unwrap(), "theirs");
        assert_eq!(read(dir.path(), "f").unwrap(), Some(blob));
    }
}
