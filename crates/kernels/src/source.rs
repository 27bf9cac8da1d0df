//! Sources: a distribution's source package, a tarball, or a tree of the user's own.
//!
//! All three become a *site* in the cache (`site`). The package and the tarball are unpacked there once. The user's
//! tree is copied there ([`crate::survey`] says which files) and never written to; a later build copies only the
//! changed files.

use crate::blob::{self, Blob, Content, Kind};
use crate::cache::{self, Note};
use crate::fetch;
use crate::survey::{self, Manifest, Stamp, UNSURE};
use schedlab_base::{Error, Result, temp};
use std::fs;
use std::path::{Path, PathBuf};

/// Files that every kernel tree has.
pub(crate) const MARKS: [&str; 3] = ["Makefile", "Kbuild", "kernel/sched/core.c"];
/// A source as the user names it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Source {
    /// The distribution's source package of a series ("6.1").
    Series(String),
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
                return Err(Error::input(format!(
                    "{word} is not a kernel's source tree: it has no {missing}"
                ))
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Obtained {
    pub folder: PathBuf,
    /// Its name for readers: package and version, or the path.
    pub name: String,
    /// Identifies the content of its files.
    pub identity: String,
    /// Files of a user's tree that must be copied before the build.
    pub(crate) stale: Option<Copies>,
}

/// Changes of a user's tree since it was copied.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Copies {
    from: PathBuf,
    now: Manifest,
}

/// Whether the source is already cached and needs no disk space. A missing tarball is reported when it is opened.
pub fn is_there(source: &Source, cache: &Path) -> bool {
    match source {
        Source::Series(series) => fetch::source_in_cache(series, cache).is_some(),
        Source::Tarball(path) => !path.is_file() || fs::read_dir(cache::sources(cache)).is_ok(),
        Source::Tree(path) => {
            site_of(path, cache).is_ok_and(|folder| folder.join(survey::MANIFEST).is_file())
        }
    }
}

fn site_of(path: &Path, cache: &Path) -> Result<PathBuf> {
    let path = path.canonicalize().map_err(|e| Error::io(path, "read", &e))?;
    let hash = schedlab_base::content_hash(path.as_os_str().as_encoded_bytes());
    Ok(cache::sources(cache).join(format!("tree-{}", &hash[..12])))
}

/// Brings a source into the cache. A user's tree is only compared here; its files are copied when the site is locked.
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

/// Whether a tarball is unpacked in the cache.
pub fn is_unpacked(path: &Path, cache: &Path) -> bool {
    let hash = fs::read(path).map(|bytes| schedlab_base::content_hash(&bytes));
    hash.is_ok_and(|hash| site_of_tarball(&hash, cache).is_dir())
}

fn site_of_tarball(hash: &str, cache: &Path) -> PathBuf {
    cache::sources(cache).join(format!("tarball-{}", &hash[..12]))
}

fn tarball(path: &Path, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Obtained> {
    let bytes = fs::read(path).map_err(|e| Error::io(path, "read", &e))?;
    let hash = schedlab_base::content_hash(&bytes);
    drop(bytes);
    let sources = cache::sources(cache);
    let place = site_of_tarball(&hash, cache);
    if !place.join(fetch::TREE).join(MARKS[0]).is_file() {
        say(&format!("unpacking {}", path.display()));
        fs::create_dir_all(&sources).map_err(|e| Error::io(&sources, "make", &e))?;
        let folder = temp::TempFolder::create(&sources, ".tarball-", 0o755)?;
        let tree = folder.path.join(fetch::TREE);
        fetch::unpack(path, &tree)?;
        if let Some(missing) = MARKS.iter().find(|m| !tree.join(m).is_file()) {
            return Err(Error::input(format!(
                "{} is not a kernel's source: it has no {missing}",
                path.display()
            ))
            .help("a tarball has one folder, which holds the tree"));
        }
        if let Some((link, to)) = survey::leads_out(&tree)? {
            let (link, to) = (link.display(), to.display());
            let text = format!("{}: the link {link} leads out of the tree, to {to}", path.display());
            return Err(
                Error::input(text).help("unpack it and give the folder: what lies behind is copied then")
            );
        }
        folder.rename_to(&place).map_err(|e| Error::io(&place, "make", &e))?;
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Obtained { folder: place, name, identity: hash, stale: None })
}

fn tree(path: &Path, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Obtained> {
    let folder = site_of(path, cache)?;
    let path = path.canonicalize().map_err(|e| Error::io(path, "read", &e))?;
    let before = Manifest::read(&folder);
    say(&format!("looking for changes in {}", path.display()));
    let surveyed = survey::survey(&path, &before)?;
    surveyed.left_out.iter().for_each(|link| say(&format!("the link {link} leads nowhere, and is left out")));
    let now = surveyed.files;
    let identity = now.identity();
    let name = path.display().to_string();
    Ok(Obtained { folder, name, identity, stale: Some(Copies { from: path, now }) })
}

/// Removes a copied tree without a manifest of this form: older versions of schedlab copied links unchanged.
///
/// # Errors
/// When it can't be removed.
pub(crate) fn forget_older_copy(folder: &Path) -> Result<()> {
    if folder.join(survey::MANIFEST).exists() {
        return Ok(());
    }
    for name in [fetch::TREE, "originals", "state.json"] {
        let place = folder.join(name);
        let removed = if place.is_dir() { fs::remove_dir_all(&place) } else { fs::remove_file(&place) };
        match removed {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
                return Err(Error::io(&place, "remove", &e));
            }
            _ => {}
        }
    }
    Ok(())
}

impl Copies {
    /// Reads a file as it will be in the copy.
    ///
    /// # Errors
    /// When the path leads through a link, or the file can't be read.
    pub(crate) fn original(&self, path: &str) -> Result<Content> {
        let above = Path::new(path).ancestors().skip(1).filter_map(Path::to_str);
        let is_link = |p: &&str| self.now.files.get(*p).is_some_and(|stamp| stamp.link.is_some());
        if let Some(link) = above.filter(|p| !p.is_empty()).find(is_link) {
            return Err(blob::through(Path::new(link), path));
        }
        let Some(stamp) = self.now.files.get(path) else { return Ok(None) };
        if let Some(to) = &stamp.link {
            return Ok(Some(Blob { bytes: to.clone().into_bytes(), kind: Kind::Link }));
        }
        let place = self.from.join(path);
        let bytes = fs::read(&place).map_err(|e| Error::io(&place, "read", &e))?;
        Ok(Some(Blob { bytes, kind: stamp.kind() }))
    }

    /// Copies the files that differ from the copy's. The site must be locked and without patches.
    ///
    /// The manifest is first written with these files marked as unsure. So if the copying breaks off, the next one
    /// repairs it, even if the tree has changed meanwhile.
    ///
    /// # Errors
    /// When writing fails, or a file has changed since the survey.
    pub(crate) fn bring(&self, folder: &Path) -> Result<()> {
        let tree = folder.join(fetch::TREE);
        fs::create_dir_all(&tree).map_err(|e| Error::io(&tree, "make", &e))?;
        // Another process may have copied since the survey.
        let before = Manifest::read(folder);
        if before == self.now {
            return Ok(());
        }
        let mut under_way = Manifest { files: before.files.clone() };
        under_way.files.extend(self.now.files.clone());
        for (name, stamp) in &mut under_way.files {
            if !before.agrees(name, &self.now) {
                stamp.hash = UNSURE.to_owned();
            }
        }
        under_way.write(folder)?;
        let unsure = || under_way.files.iter().filter(|(_, s)| s.hash == UNSURE).map(|(name, _)| name);
        for name in unsure().filter(|name| !self.now.files.contains_key(*name)) {
            remove(&tree.join(name))?;
            // A file may replace a folder that is empty now.
            let above = Path::new(name).ancestors().skip(1).filter(|p| p.components().count() > 0);
            let _ = above.take_while(|p| fs::remove_dir(tree.join(p)).is_ok()).count();
        }
        for name in unsure() {
            if let Some(stamp) = self.now.files.get(name) {
                copy(&self.from.join(name), &tree.join(name), stamp)?;
            }
        }
        self.now.write(folder)
    }
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path, "remove", &e)),
        _ => Ok(()),
    }
}

/// Copies a file, checking that its content has the stamp, or makes a link. Its time is the current one, so that make
/// compiles it.
fn copy(from: &Path, to: &Path, stamp: &Stamp) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(to, "write", &e);
    if let Some(above) = to.parent() {
        fs::create_dir_all(above).map_err(failed)?;
    }
    remove(to)?;
    if let Some(target) = &stamp.link {
        return std::os::unix::fs::symlink(target, to).map_err(failed);
    }
    let copied = fs::copy(from, to);
    if copied.is_err() && from.metadata().is_err() {
        return Err(changed(from));
    }
    copied.map_err(failed)?;
    let bytes = fs::read(to).map_err(|e| Error::io(to, "read", &e))?;
    if schedlab_base::content_hash(&bytes) != stamp.hash {
        return Err(changed(from));
    }
    Ok(())
}

fn changed(path: &Path) -> Error {
    Error::input(format!("{} changed while the tree was copied", path.display()))
        .help("run the same command again, once nothing writes to the tree")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

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
        first.stale.as_ref().unwrap().bring(&first.folder).unwrap();
        let copy = first.folder.join(fetch::TREE);
        assert!(copy.join("a.c").is_file() && !copy.join("a.o").exists() && !copy.join(".git").exists());
        assert_eq!(get().identity, first.identity);
        let old = fs::metadata(copy.join("Kbuild")).unwrap().mtime_nsec();
        put(&own.path().join("a.c"), "22");
        fs::remove_file(own.path().join("Kbuild")).unwrap();
        put(&own.path().join("Kbuild"), "Kbuild");
        let second = get();
        assert_ne!(second.identity, first.identity);
        second.stale.as_ref().unwrap().bring(&second.folder).unwrap();
        assert_eq!(fs::read_to_string(copy.join("a.c")).unwrap(), "22");
        assert_eq!(fs::metadata(copy.join("Kbuild")).unwrap().mtime_nsec(), old, "same bytes are not copied");
        fs::remove_file(own.path().join("a.c")).unwrap();
        let third = get();
        third.stale.as_ref().unwrap().bring(&third.folder).unwrap();
        assert!(!copy.join("a.c").exists());
    }

    #[test]
    fn a_copy_that_broke_off_leaves_nothing_behind() {
        let (cache, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kernel(own.path());
        put(&own.path().join("a.c"), "old");
        put(&own.path().join("f/x.c"), "in a folder");
        let get = || tree(own.path(), cache.path(), &mut |_| ()).unwrap();
        let bring = |one: &Obtained| one.stale.as_ref().unwrap().bring(&one.folder);
        let first = get();
        bring(&first).unwrap();
        let copy = first.folder.join(fetch::TREE);
        // The second version has a file in place of a folder, and the copy breaks off after its changed and its new
        // file.
        fs::remove_dir_all(own.path().join("f")).unwrap();
        put(&own.path().join("f"), "a file");
        for (name, text) in [("a.c", "newer"), ("b.c", "newer"), ("z.c", "newer")] {
            put(&own.path().join(name), text);
        }
        let second = get();
        fs::remove_file(own.path().join("z.c")).unwrap();
        assert!(bring(&second).unwrap_err().to_string().contains("z.c changed while the tree was copied"));
        assert_eq!(fs::read_to_string(copy.join("a.c")).unwrap(), "newer", "it had begun");
        assert!(copy.join("f").is_file());
        // The third version equals the first, in bytes and in time.
        put(&own.path().join("a.c"), "old");
        fs::remove_file(own.path().join("b.c")).unwrap();
        fs::remove_file(own.path().join("f")).unwrap();
        put(&own.path().join("f/x.c"), "in a folder");
        let third = get();
        assert_eq!(third.identity, first.identity);
        bring(&third).unwrap();
        assert_eq!(fs::read_to_string(copy.join("a.c")).unwrap(), "old");
        assert_eq!(fs::read_to_string(copy.join("f/x.c")).unwrap(), "in a folder");
        assert!(!copy.join("b.c").exists() && !copy.join("z.c").exists());
    }

    #[test]
    fn a_survey_older_than_another_copy_is_copied_completely() {
        let (cache, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kernel(own.path());
        put(&own.path().join("a.c"), "one");
        let get = || tree(own.path(), cache.path(), &mut |_| ()).unwrap();
        let bring = |one: &Obtained| one.stale.as_ref().unwrap().bring(&one.folder).unwrap();
        bring(&get());
        let waiting = get();
        put(&own.path().join("a.c"), "three");
        bring(&get());
        put(&own.path().join("a.c"), "one");
        bring(&waiting);
        assert_eq!(fs::read_to_string(waiting.folder.join(fetch::TREE).join("a.c")).unwrap(), "one");
    }

    #[test]
    fn products_of_a_build_in_the_tree_are_not_sources() {
        let (cache, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kernel(own.path());
        let sources =
            ["include/linux/config.h", "arch/x86/boot/header.S", "include/asm/vmlinux.lds.h", ".clang"];
        let made = [
            ".git",
            "vmlinux",
            "vmlinux.unstripped",
            "include/config/auto.conf",
            "include/generated/autoconf.h",
            "arch/x86/include/generated/asm/unistd.h",
            "arch/x86/boot/zoffset.h",
            "scripts/basic/fixdep",
            "kernel/.x.o.cmd",
        ];
        sources.iter().chain(&made).for_each(|name| put(&own.path().join(name), name));
        put(&own.path().join("arch/x86/boot/.gitignore"), "zoffset.h\n");
        put(&own.path().join(".gitignore"), "/scripts/basic/fixdep\n");
        let one = tree(own.path(), cache.path(), &mut |_| ()).unwrap();
        let names = &one.stale.as_ref().unwrap().now.files;
        assert!(sources.iter().all(|name| names.contains_key(*name)), "{names:?}");
        let left: Vec<&&str> = made.iter().filter(|name| names.contains_key(**name)).collect();
        assert!(left.is_empty(), "{left:?}");
    }

    #[test]
    fn a_tree_whose_gitignore_names_its_sources_is_still_read() {
        let (cache, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        kernel(own.path());
        put(&own.path().join("kernel/a.c"), "a");
        put(&own.path().join("kernel/a.o"), "no");
        put(&own.path().join(".gitignore"), "/*\n!/debian/\n");
        let one = tree(own.path(), cache.path(), &mut |_| ()).unwrap();
        let names = &one.stale.as_ref().unwrap().now.files;
        assert!(MARKS.iter().chain(&["kernel/a.c"]).all(|name| names.contains_key(*name)), "{names:?}");
        assert!(!names.contains_key("kernel/a.o"));
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
