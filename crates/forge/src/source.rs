//! Sources: a distribution's source package, a tarball, or a tree of the user's own.
//!
//! All three become a *site* in the cache (`site`). The package and the tarball are unpacked there once. The user's
//! tree is copied there and never written to; a later build copies the changed files only. A file counts as
//! unchanged while its size and its time of change are the same.

use schedlab_base::{Error, Result, temp};
use schedlab_guest::fetch;
use schedlab_guest::images::cache::{self, Note};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files by which a kernel's tree is known.
const MARKS: [&str; 3] = ["Makefile", "Kbuild", "kernel/sched/core.c"];
/// Folders of a user's tree that are no source.
const NOT_SOURCE: &[&str] = &[".git", ".hg", ".svn"];
/// Files of builds that were made in the tree itself. A source tree with them can't be built into another folder.
const PRODUCTS: &[&str] = &["o", "ko", "a", "cmd", "order", "symvers"];
/// The files of a copied tree with their sizes and times.
const MANIFEST: &str = "manifest.json";

/// A source as the user names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The distribution's source package of a series ("6.1").
    Series(String),
    /// A folder.
    Tree(PathBuf),
    /// A packed tree.
    Tarball(PathBuf),
}

impl Source {
    /// Reads a word: a folder, a file, or a series.
    ///
    /// # Errors
    /// When it is none of them.
    pub fn parse(word: &str) -> Result<Source> {
        let path = Path::new(word);
        if path.is_dir() {
            if let Some(missing) = MARKS.iter().find(|m| !path.join(m).is_file()) {
                return Err(Error::input(format!("{word} is no kernel's source tree: it has no {missing}"))
                    .help("name the folder that holds the kernel's Makefile"));
            }
            return Ok(Source::Tree(path.to_owned()));
        }
        if path.is_file() {
            return Ok(Source::Tarball(path.to_owned()));
        }
        let word = word.strip_prefix('v').unwrap_or(word);
        let is_series = word.starts_with(|c: char| c.is_ascii_digit()) && !word.contains('/');
        if is_series {
            return Ok(Source::Series(word.to_owned()));
        }
        Err(Error::input(format!("there is no source '{word}'"))
            .help("name a series (6.1, 6.12, 7), a tarball, or the folder of a kernel's tree"))
    }
}

/// A source in the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obtained {
    /// The site's folder.
    pub folder: PathBuf,
    /// Its name for people: package and version, or the path.
    pub name: String,
    /// What its files are: equal for equal files.
    pub identity: String,
    /// Files of a user's tree that are to be copied before the build.
    pub(crate) stale: Option<Copies>,
}

/// Changes of a user's tree since it was copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Copies {
    from: PathBuf,
    now: Manifest,
    before: Manifest,
}

/// Size, time of change in nanoseconds, and hash of each file.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
struct Manifest {
    files: BTreeMap<String, Stamp>,
}

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Stamp {
    size: u64,
    changed_ns: i128,
    hash: String,
}

/// Whether a source's files are in the cache, so that it takes no more room. A tarball is looked for when it is read.
pub fn is_there(source: &Source, cache: &Path) -> bool {
    match source {
        Source::Series(series) => fetch::source_in_cache(series, cache).is_some(),
        Source::Tarball(path) => !path.is_file() || fs::read_dir(cache::sources(cache)).is_ok(),
        Source::Tree(path) => site_of(path, cache).is_ok_and(|folder| folder.join(MANIFEST).is_file()),
    }
}

/// The site of a user's tree.
fn site_of(path: &Path, cache: &Path) -> Result<PathBuf> {
    let path = path.canonicalize().map_err(|e| Error::io(path, "read", &e))?;
    let hash = schedlab_record::content_hash(path.as_os_str().as_encoded_bytes());
    Ok(cache::sources(cache).join(format!("tree-{}", &hash[..12])))
}

/// Brings a source into the cache. Files of a user's tree are compared here, and copied when the site is locked.
///
/// # Errors
/// When it can't be fetched, read or unpacked.
pub fn obtain(source: &Source, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Obtained> {
    match source {
        Source::Series(series) => {
            let folder = fetch::source(series, cache, false, say)?;
            let note =
                Note::read(&folder).ok_or_else(|| Error::internal("a fetched source without a note"))?;
            let name = format!("{} {}", note.package, note.version);
            Ok(Obtained { folder, identity: name.clone(), name, stale: None })
        }
        Source::Tarball(path) => tarball(path, cache, say),
        Source::Tree(path) => tree(path, cache, say),
    }
}

fn tarball(path: &Path, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Obtained> {
    let bytes = fs::read(path).map_err(|e| Error::io(path, "read", &e))?;
    let hash = schedlab_record::content_hash(&bytes);
    drop(bytes);
    let sources = cache::sources(cache);
    let place = sources.join(format!("tarball-{}", &hash[..12]));
    if !place.join(fetch::TREE).join(MARKS[0]).is_file() {
        say(&format!("unpacking {}", path.display()));
        fs::create_dir_all(&sources).map_err(|e| Error::io(&sources, "make", &e))?;
        let folder = temp::Folder::create(&sources, ".tarball-", 0o755)?;
        let tree = folder.path.join(fetch::TREE);
        fetch::unpack(path, &tree)?;
        if let Some(missing) = MARKS.iter().find(|m| !tree.join(m).is_file()) {
            return Err(Error::input(format!(
                "{} holds no kernel's source: it has no {missing}",
                path.display()
            ))
            .help("a tarball has one folder, which holds the tree"));
        }
        folder.rename_to(&place).map_err(|e| Error::io(&place, "make", &e))?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Obtained { folder: place, name, identity: hash, stale: None })
}

fn tree(path: &Path, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Obtained> {
    let folder = site_of(path, cache)?;
    let path = path.canonicalize().map_err(|e| Error::io(path, "read", &e))?;
    let before: Manifest = fs::read(folder.join(MANIFEST))
        .ok()
        .and_then(|text| serde_json::from_slice(&text).ok())
        .unwrap_or_default();
    say(&format!("looking for changes in {}", path.display()));
    let mut now = Manifest::default();
    survey(&path, &path, &before, &mut now)?;
    let told: Vec<String> = now.files.iter().map(|(name, s)| format!("{name} {}\n", s.hash)).collect();
    let identity = schedlab_record::content_hash(told.concat().as_bytes());
    let name = path.display().to_string();
    Ok(Obtained { folder, name, identity, stale: Some(Copies { from: path, now, before }) })
}

/// Lists the files below a folder; hashes those that are new or changed.
fn survey(root: &Path, folder: &Path, before: &Manifest, now: &mut Manifest) -> Result<()> {
    let entries = fs::read_dir(folder).map_err(|e| Error::io(folder, "read", &e))?;
    for entry in entries {
        let path = entry.map_err(|e| Error::io(folder, "read", &e))?.path();
        let about = path.symlink_metadata().map_err(|e| Error::io(&path, "read", &e))?;
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if about.is_dir() {
            if !NOT_SOURCE.contains(&name.as_str()) {
                survey(root, &path, before, now)?;
            }
            continue;
        }
        let is_product = path.extension().is_some_and(|e| PRODUCTS.iter().any(|p| e == *p));
        if is_product || name == ".config" || !(about.is_file() || about.is_symlink()) {
            continue;
        }
        let inner = path.strip_prefix(root).unwrap_or(&path).to_string_lossy().into_owned();
        let changed_ns = i128::from(about.mtime()) * 1_000_000_000 + i128::from(about.mtime_nsec());
        let known = before.files.get(&inner).filter(|s| s.size == about.len() && s.changed_ns == changed_ns);
        let hash = match known {
            Some(stamp) => stamp.hash.clone(),
            None => schedlab_record::content_hash(&bytes_of(&path, about.is_symlink())?),
        };
        now.files.insert(inner, Stamp { size: about.len(), changed_ns, hash });
    }
    Ok(())
}

/// A file's bytes, or a link's target.
fn bytes_of(path: &Path, is_link: bool) -> Result<Vec<u8>> {
    let bytes = match is_link {
        true => fs::read_link(path).map(|to| to.into_os_string().into_encoded_bytes()),
        false => fs::read(path),
    };
    bytes.map_err(|e| Error::io(path, "read", &e))
}

impl Copies {
    /// Copies the files whose content differs from the copy's. `kept` are paths that a patch has changed in the copy.
    ///
    /// # Errors
    /// When the disk does not take it.
    pub(crate) fn bring(&self, folder: &Path, kept: impl Fn(&str) -> bool) -> Result<()> {
        let tree = folder.join(fetch::TREE);
        fs::create_dir_all(&tree).map_err(|e| Error::io(&tree, "make", &e))?;
        debug_assert!(self.before.files.keys().all(|k| !kept(k)), "patches are taken back before");
        for name in self.before.files.keys().filter(|name| !self.now.files.contains_key(*name)) {
            let path = tree.join(name);
            match fs::remove_file(&path) {
                Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                    return Err(Error::io(&path, "remove", &e));
                }
                _ => {}
            }
        }
        for (name, stamp) in &self.now.files {
            if self.before.files.get(name).is_some_and(|b| b.hash == stamp.hash) {
                continue;
            }
            copy(&self.from.join(name), &tree.join(name))?;
        }
        let text = serde_json::to_vec(&self.now).map_err(|e| Error::internal(e.to_string()))?;
        temp::write_whole(&folder.join(MANIFEST), &text)
    }
}

/// Copies a file or a link. Its time is now: make compiles it again.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(to, "write", &e);
    if let Some(above) = to.parent() {
        fs::create_dir_all(above).map_err(failed)?;
    }
    let _ = fs::remove_file(to);
    match fs::read_link(from) {
        Ok(target) => std::os::unix::fs::symlink(target, to).map_err(failed),
        Err(_) => fs::copy(from, to).map(drop).map_err(failed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(path: &Path, text: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    fn kernel(at: &Path) {
        MARKS.iter().for_each(|m| put(&at.join(m), m));
    }

    #[test]
    fn a_word_is_a_folder_a_file_or_a_series() {
        let dir = tempfile::tempdir().unwrap();
        let word = dir.path().to_string_lossy().into_owned();
        assert!(Source::parse(&word).unwrap_err().to_string().contains("has no Makefile"));
        kernel(dir.path());
        assert_eq!(Source::parse(&word).unwrap(), Source::Tree(dir.path().to_owned()));
        assert_eq!(Source::parse("v6.1").unwrap(), Source::Series("6.1".into()));
        assert!(Source::parse("linux").unwrap_err().to_string().contains("no source 'linux'"));
    }

    #[test]
    fn a_tree_is_copied_once_and_then_its_changes() {
        let (cache, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kernel(own.path());
        put(&own.path().join("a.c"), "1");
        put(&own.path().join(".git/x"), "no");
        put(&own.path().join("a.o"), "no");
        let get = || tree(own.path(), cache.path(), &mut |_| ()).unwrap();
        let first = get();
        first.stale.as_ref().unwrap().bring(&first.folder, |_| false).unwrap();
        let copy = first.folder.join(fetch::TREE);
        assert!(copy.join("a.c").is_file() && !copy.join("a.o").exists() && !copy.join(".git").exists());
        assert_eq!(get().identity, first.identity);
        let old = fs::metadata(copy.join("Kbuild")).unwrap().mtime_nsec();
        put(&own.path().join("a.c"), "22");
        fs::remove_file(own.path().join("Kbuild")).unwrap();
        put(&own.path().join("Kbuild"), "Kbuild");
        let second = get();
        assert_ne!(second.identity, first.identity);
        second.stale.as_ref().unwrap().bring(&second.folder, |_| false).unwrap();
        assert_eq!(fs::read_to_string(copy.join("a.c")).unwrap(), "22");
        assert_eq!(fs::metadata(copy.join("Kbuild")).unwrap().mtime_nsec(), old, "same bytes are not copied");
        fs::remove_file(own.path().join("a.c")).unwrap();
        let third = get();
        third.stale.as_ref().unwrap().bring(&third.folder, |_| false).unwrap();
        assert!(!copy.join("a.c").exists());
    }

    #[test]
    fn a_tarball_is_known_by_its_bytes() {
        let (cache, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kernel(&own.path().join("linux"));
        let packed = own.path().join("linux.tar");
        let made = std::process::Command::new("tar")
            .arg("-C")
            .arg(own.path())
            .arg("-cf")
            .arg(&packed)
            .arg("linux")
            .status()
            .unwrap();
        assert!(made.success());
        let one = tarball(&packed, cache.path(), &mut |_| ()).unwrap();
        assert!(one.folder.join(fetch::TREE).join(MARKS[2]).is_file());
        put(&own.path().join("torn.tar"), "no");
        let error = tarball(&own.path().join("torn.tar"), cache.path(), &mut |_| ()).unwrap_err().to_string();
        assert!(error.contains("torn.tar can't be unpacked"), "{error}");
        assert_eq!(
            fs::read_dir(cache::sources(cache.path())).unwrap().count(),
            1,
            "nothing half-made is left"
        );
    }
}
