//! The files of a user's tree: which of them are source, what identifies them, and how symbolic links are copied.
//!
//! A file counts as unchanged while it is the same file on disk (device, inode) with the same size and times of change.
//! Products of a build in the tree are not source: kbuild refuses a tree with some of them and takes others for its
//! own. The tree's .gitignore files name them.
//!
//! A link that stays in the tree ([`crate::blob::stays_inside`]) is copied as a link. An absolute link into the tree
//! becomes a relative one. The target of a link that leads out of the tree is copied in its place, and counts for the
//! tree's identity. So no link of the copy leads to the user's own files.

use crate::blob::{Kind, stays_inside};
use crate::walk::Walk;
use schedlab_base::{Error, Result, temp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files and folders that are never source, wherever they are in a tree. A worktree's .git is a file.
const NOT_SOURCE: &[&str] = &[".git", ".hg", ".svn", ".config"];
/// Folders that a build in the tree makes: below the tree, or below a folder of `arch`.
const MADE_FOLDERS: &[&str] = &["include/config", "include/generated"];
/// The beginning of names of files that a build makes at the top of the tree.
const MADE_FILES: &str = "vmlinux";
/// Endings of files that a build in the tree makes; needed for trees without .gitignore files.
const PRODUCTS: &[&str] = &["o", "ko", "a", "cmd", "order", "symvers"];
/// The most files that are copied for one link; a link with more leads to a tree of something else.
const MOST_BEHIND: usize = 20_000;
/// The list of files of a copied tree. A new format gets a new name.
pub const MANIFEST: &str = "manifest-2.json";
/// In place of the hash of a file that is being copied or removed: the copy has the old bytes, the new ones or a part.
pub const UNSURE: &str = "";

/// The files of a tree by path.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct Manifest {
    pub files: BTreeMap<String, Stamp>,
}

/// A file of a tree, or a link.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Stamp {
    pub size: u64,
    /// Time of modification since 1970; for the copied target of a link, that of the target.
    pub changed_ns: i128,
    /// Device, inode and time of the last change of any kind (ctime), which nobody can set back. `None` for links, and
    /// in manifests of older versions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub on_disk: Option<(u64, u64, i128)>,
    pub hash: String,
    /// Whether it can be executed.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub executable: bool,
    /// The target of the copy's link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<String>,
}

impl Stamp {
    pub fn kind(&self) -> Kind {
        match (self.link.is_some(), self.executable) {
            (true, _) => Kind::Link,
            (false, true) => Kind::Executable,
            (false, false) => Kind::Plain,
        }
    }
}

impl Manifest {
    /// The manifest of a site; empty if there is none.
    pub fn read(folder: &Path) -> Manifest {
        let text = fs::read(folder.join(MANIFEST)).ok();
        text.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default()
    }
    pub fn write(&self, folder: &Path) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|e| Error::internal(e.to_string()))?;
        temp::write_whole(&folder.join(MANIFEST), &text)
    }
    /// Whether a file has the same content and kind in another manifest.
    pub fn agrees(&self, name: &str, with: &Manifest) -> bool {
        let own = |of: &Manifest| {
            of.files.get(name).filter(|s| s.hash != UNSURE).map(|s| (s.hash.clone(), s.kind()))
        };
        own(self).is_some_and(|o| own(with) == Some(o))
    }
    /// Identifies the content of all files.
    pub fn identity(&self) -> String {
        let one = |(name, s): (&String, &Stamp)| format!("{name} {:?} {}\n", s.kind(), s.hash);
        let told: Vec<String> = self.files.iter().map(one).collect();
        schedlab_base::content_hash(told.concat().as_bytes())
    }
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Survey {
    pub files: Manifest,
    /// Links that lead out of the tree and whose target does not exist.
    pub left_out: Vec<String>,
}

/// Lists the source files of a tree; hashes those that are new or changed since `before`.
///
/// # Errors
/// When a file can't be read, or a link leads to something that can't be copied.
pub fn survey(root: &Path, before: &Manifest) -> Result<Survey> {
    let now = walked(root, before, true)?;
    // Debian's trees have .gitignore files that ignore everything except Debian's own files.
    let whole = crate::source::MARKS.iter().all(|mark| now.files.files.contains_key(*mark));
    if whole { Ok(now) } else { walked(root, before, false) }
}

fn walked(root: &Path, before: &Manifest, git_ignore: bool) -> Result<Survey> {
    let mut now = Survey::default();
    Walk::new(root).only(is_source).heeding_git(git_ignore).each(&mut |entry| {
        if entry.kind.is_file() {
            add(&mut now.files, &entry.inner, &entry.path, before)
        } else if entry.kind.is_symlink() {
            link(&mut now, root, &entry.inner, before)
        } else {
            Ok(())
        }
    })?;
    Ok(now)
}

/// Adds a file; its bytes are at `place`.
fn add(files: &mut Manifest, inner: &Path, place: &Path, before: &Manifest) -> Result<()> {
    let about = place.metadata().map_err(|e| Error::io(place, "read", &e))?;
    let name = inner.to_string_lossy().into_owned();
    let ns = |seconds: i64, ns: i64| i128::from(seconds) * 1_000_000_000 + i128::from(ns);
    let changed_ns = ns(about.mtime(), about.mtime_nsec());
    // A link's target may be another file than before, of the same size and time.
    let on_disk = Some((about.dev(), about.ino(), ns(about.ctime(), about.ctime_nsec())));
    let is_same = |s: &&Stamp| {
        (s.size, s.changed_ns, s.on_disk) == (about.len(), changed_ns, on_disk)
            && s.link.is_none()
            && s.hash != UNSURE
    };
    let hash = match before.files.get(&name).filter(is_same) {
        Some(stamp) => stamp.hash.clone(),
        None => {
            let bytes = fs::read(place).map_err(|e| Error::io(place, "read", &e))?;
            schedlab_base::content_hash(&bytes)
        }
    };
    let executable = Kind::of(&about) == Kind::Executable;
    files.files.insert(name, Stamp { size: about.len(), changed_ns, on_disk, hash, executable, link: None });
    Ok(())
}

/// Adds the copy of a link: a link, or the files to which it leads.
fn link(now: &mut Survey, root: &Path, inner: &Path, before: &Manifest) -> Result<()> {
    let place = root.join(inner);
    let to = fs::read_link(&place).map_err(|e| Error::io(&place, "read", &e))?;
    let keep = |files: &mut Manifest, to: &Path| {
        let to = to.to_str().ok_or_else(|| refused(inner, to, "its name is not text"))?.to_owned();
        let hash = schedlab_base::content_hash(to.as_bytes());
        let size = to.len() as u64;
        let stamp = Stamp { size, changed_ns: 0, on_disk: None, hash, executable: false, link: Some(to) };
        files.files.insert(inner.to_string_lossy().into_owned(), stamp);
        Ok(())
    };
    if stays_inside(inner, &to) {
        return keep(&mut now.files, &to);
    }
    let Ok(real) = place.canonicalize() else {
        now.left_out.push(inner.display().to_string());
        return Ok(());
    };
    if let Ok(other) = real.strip_prefix(root).map(|other| relative(inner, other)) {
        return keep(&mut now.files, &other);
    }
    if real.is_file() {
        return add(&mut now.files, inner, &place, before);
    }
    if !real.is_dir() {
        return Err(refused(inner, &real, "it is neither a file nor a folder"));
    }
    if root.starts_with(&real) {
        return Err(refused(inner, &real, "the tree itself lies in it"));
    }
    behind(now, root, inner, &real, before)
}

/// Adds the files of a folder to which a link leads, and those behind links in it.
fn behind(now: &mut Survey, root: &Path, inner: &Path, real: &Path, before: &Manifest) -> Result<()> {
    let mut count = 0;
    let is_wanted = |path: &Path| is_source(&inner.join(path));
    let mut files = Vec::new();
    let walked = Walk::new(real).only(is_wanted).following_links().each(&mut |entry| {
        if entry.kind.is_file() {
            count += 1;
            files.push(inner.join(&entry.inner));
        }
        if count <= MOST_BEHIND {
            return Ok(());
        }
        Err(Error::input(format!("it holds more than {MOST_BEHIND} files")))
    });
    walked.map_err(|e| refused(inner, real, &e.to_string()))?;
    files.iter().try_for_each(|name| add(&mut now.files, name, &root.join(name), before))
}

fn refused(link: &Path, to: &Path, why: &str) -> Error {
    let text = format!("the link {} leads out of the tree, to {}: {why}", link.display(), to.display());
    Error::input(text)
        .help("what lies behind such a link is copied; remove the link, or put the files in its place")
}

/// The relative path from a link to another place of the same tree.
fn relative(link: &Path, other: &Path) -> PathBuf {
    let up = link.components().count().saturating_sub(1);
    let to: PathBuf = std::iter::repeat_n("..", up).collect::<PathBuf>().join(other);
    if to.as_os_str().is_empty() { PathBuf::from(".") } else { to }
}

/// The first link of an unpacked tree that leads out of it, with the path to which it leads.
///
/// # Errors
/// When the tree can't be read.
pub fn leads_out(tree: &Path) -> Result<Option<(PathBuf, PathBuf)>> {
    let mut first = None;
    Walk::new(tree).each(&mut |entry| {
        if first.is_none() && entry.kind.is_symlink() {
            let to = fs::read_link(&entry.path).map_err(|e| Error::io(&entry.path, "read", &e))?;
            first = (!stays_inside(&entry.inner, &to)).then_some((entry.inner, to));
        }
        Ok(())
    })?;
    Ok(first)
}

/// Whether a path within the tree is source by its name.
fn is_source(inner: &Path) -> bool {
    let name: &str = &inner.file_name().unwrap_or_default().to_string_lossy();
    let at_top = inner.components().count() == 1;
    let below_arch = || inner.strip_prefix("arch").ok().map(|p| p.components().skip(1).collect::<PathBuf>());
    let made = |folder: &Path| MADE_FOLDERS.iter().any(|made| folder == Path::new(made));
    !(NOT_SOURCE.contains(&name)
        || made(inner)
        || below_arch().is_some_and(|folder| made(&folder))
        || (at_top && name.starts_with(MADE_FILES))
        || inner.extension().is_some_and(|e| PRODUCTS.iter().any(|p| e == *p)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    /// A tree, and next to it a folder of other files.
    fn trees() -> (tempfile::TempDir, PathBuf, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path().canonicalize().unwrap();
        let (tree, other) = (base.join("tree"), base.join("other"));
        crate::source::MARKS.iter().for_each(|m| put(&tree.join(m), m));
        put(&other.join("f"), "theirs");
        put(&other.join("deep/g"), "theirs, too");
        (dir, tree, other)
    }
    fn files(tree: &Path) -> BTreeMap<String, Stamp> {
        survey(tree, &Manifest::default()).unwrap().files.files
    }

    #[test]
    fn links_in_the_tree_stay_links_and_whole_paths_become_relative() {
        let (_dir, tree, _) = trees();
        symlink("core.c", tree.join("kernel/sched/near.c")).unwrap();
        symlink(tree.join("Kbuild"), tree.join("kernel/sched/whole.c")).unwrap();
        symlink("../tree/Kbuild", tree.join("roundabout")).unwrap();
        let files = files(&tree);
        let to = |name: &str| files[name].link.as_deref().unwrap();
        assert_eq!(to("kernel/sched/near.c"), "core.c");
        assert_eq!((to("kernel/sched/whole.c"), to("roundabout")), ("../../Kbuild", "Kbuild"));
    }

    #[test]
    fn targets_of_links_are_part_of_the_tree_and_of_its_identity() {
        let (_dir, tree, other) = trees();
        symlink(&other, tree.join("out")).unwrap();
        symlink("../other/f", tree.join("f.c")).unwrap();
        symlink("/nowhere/at/all", tree.join("dead")).unwrap();
        let one = survey(&tree, &Manifest::default()).unwrap();
        for name in ["out/f", "out/deep/g", "f.c"] {
            assert_eq!(one.files.files[name].kind(), Kind::Plain, "{name}");
        }
        assert_eq!(one.left_out, ["dead"]);
        put(&other.join("f"), "changed");
        let two = survey(&tree, &one.files).unwrap();
        assert_ne!(one.files.identity(), two.files.identity());
        assert_ne!(one.files.files["f.c"].hash, two.files.files["f.c"].hash);
    }

    #[test]
    fn another_file_of_the_same_size_and_time_is_seen() {
        let (_dir, tree, other) = trees();
        put(&other.join("a"), "one");
        put(&other.join("b"), "two");
        let time = std::time::SystemTime::UNIX_EPOCH + std::time::Duration::from_secs(1_000_000_000);
        let set_back = |path: &Path| fs::File::open(path).unwrap().set_modified(time).unwrap();
        [other.join("a"), other.join("b")].iter().for_each(|path| set_back(path));
        let link = tree.join("f.c");
        symlink("../other/a", &link).unwrap();
        let one = survey(&tree, &Manifest::default()).unwrap().files;
        assert_eq!(survey(&tree, &one).unwrap().files, one);
        fs::remove_file(&link).unwrap();
        symlink("../other/b", &link).unwrap();
        let two = survey(&tree, &one).unwrap().files;
        assert_ne!(one.identity(), two.identity(), "the link was moved");
        // Written in place, and its old time restored.
        put(&other.join("b"), "ten");
        set_back(&other.join("b"));
        assert_ne!(survey(&tree, &two).unwrap().files.identity(), two.identity());
        // A manifest of an older version has no device and inode.
        let mut old = one.clone();
        old.files.values_mut().for_each(|s| s.on_disk = None);
        assert_eq!(survey(&tree, &old).unwrap().files.files["f.c"].hash, schedlab_base::content_hash(b"ten"));
    }

    #[test]
    fn files_that_cannot_be_copied_are_refused() {
        let (_dir, tree, other) = trees();
        let refused = |to: &Path| {
            let link = tree.join("l");
            symlink(to, &link).unwrap();
            let error = survey(&tree, &Manifest::default()).unwrap_err().to_string();
            fs::remove_file(link).unwrap();
            error
        };
        assert!(refused(Path::new("/dev/zero")).contains("neither a file nor a folder"));
        assert!(refused(tree.parent().unwrap()).contains("the tree itself lies in it"));
        symlink(&other, other.join("deep/again")).unwrap();
        assert!(refused(&other).contains("the link l leads out of the tree"), "a loop behind it");
    }

    #[test]
    fn a_script_that_becomes_executable_is_another_file() {
        use std::os::unix::fs::PermissionsExt;
        let (_dir, tree, _) = trees();
        let one = survey(&tree, &Manifest::default()).unwrap();
        fs::set_permissions(tree.join("Kbuild"), fs::Permissions::from_mode(0o755)).unwrap();
        let two = survey(&tree, &one.files).unwrap();
        assert!(!one.files.agrees("Kbuild", &two.files));
        assert_ne!(one.files.identity(), two.files.identity());
    }
}
