//! A site: the place in the cache where a source is patched and compiled.
//!
//! ```text
//! CACHE/sources/SOURCE/tree/            the source, patched as state.json says
//! CACHE/sources/SOURCE/originals/PATH   files as they were before patches
//! CACHE/sources/SOURCE/state.json       the paths that patches have changed
//! CACHE/sources/SOURCE/obj-CONFIG/      objects, one folder for each configuration
//! CACHE/sources/SOURCE/lock             held by the process that builds
//! ```
//!
//! All patches share one tree, so that a build compiles only the files that differ from the build before. A file is
//! written only if its bytes change, and then with the current time: make compares times alone. The original is stored
//! and its path noted before a file is changed, so the next start can repair the tree after any interruption.

use crate::blob::{self, Content};
use crate::diff::{self, ChangedLines, Outcome, Patch, Placement};
use crate::fetch::TREE;
use crate::kconfig::{self, Changes};
use crate::source::{self, Obtained};
use schedlab_base::{Error, Result, temp};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const STATE: &str = "state.json";
const ORIGINALS: &str = "originals";
/// How often we check whether a locked site is free.
const LOOK: Duration = Duration::from_millis(100);

/// The paths that patches have changed, each with whether the source has the file.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    changed: BTreeMap<String, bool>,
}

impl State {
    fn of(folder: &Path) -> State {
        let text = fs::read(folder.join(STATE)).ok();
        text.and_then(|t| serde_json::from_slice(&t).ok()).unwrap_or_default()
    }
    /// The original of a file, or the file itself if unchanged.
    fn original(&self, folder: &Path, path: &str) -> Result<Content> {
        match self.changed.get(path) {
            Some(false) => Ok(None),
            Some(true) => blob::read(&folder.join(ORIGINALS), path),
            None => blob::read(&folder.join(TREE), path),
        }
    }
}

/// Checks that patches fit, without the lock, because another process may hold it for a long build. The check is
/// repeated under the lock.
///
/// # Errors
/// Rejected hunks.
pub fn check(source: &Obtained, patches: &[Patch]) -> Result<()> {
    let rejects = applied(source, patches)?.rejects;
    if rejects.is_empty() { Ok(()) } else { Err(diff::rejected(&rejects, &source.name)) }
}

/// The files of a source after patches, computed without the lock.
///
/// # Errors
/// Files that can't be read.
pub fn applied(source: &Obtained, patches: &[Patch]) -> Result<Outcome> {
    loop {
        let state = State::of(&source.folder);
        let outcome = diff::apply(patches, |path| original(source, &state, path))?;
        // If another process changed files meanwhile, an original may have been read too late: try again.
        if source.stale.is_some() || State::of(&source.folder) == state {
            return Ok(outcome);
        }
    }
}

/// The lines that patches change, in the patched files; removed files are left out.
///
/// # Errors
/// As [`applied`].
pub fn changed_lines(source: &Obtained, outcome: &Outcome) -> Result<Vec<ChangedLines>> {
    let state = State::of(&source.folder);
    let of = |(path, after): (&String, &Content)| {
        let Some(after) = after else { return Ok(Vec::new()) };
        let before = original(source, &state, path)?.map_or_else(Vec::new, |blob| blob.bytes);
        Ok(diff::changed(path, &before, &after.bytes))
    };
    Ok(outcome.files.iter().map(of).collect::<Result<Vec<_>>>()?.concat())
}

fn original(source: &Obtained, state: &State, path: &str) -> Result<Content> {
    match &source.stale {
        Some(copies) => copies.original(path),
        None => state.original(&source.folder, path),
    }
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Patched {
    /// Hunks that were applied at other lines than they name.
    pub moved: Vec<Placement>,
    /// Options of the configuration that the patches add or change.
    pub options: Changes,
}

#[derive(Debug)]
pub struct Site {
    folder: PathBuf,
    name: String,
    _lock: File,
}

impl Site {
    /// Locks the site of a source; if another process builds there, says so and waits.
    ///
    /// # Errors
    /// When the cache can't be written, or `stop` ends the wait.
    pub fn enter(source: &Obtained, stop: &AtomicBool, say: &mut dyn FnMut(&str)) -> Result<Site> {
        let folder = source.folder.clone();
        let failed = |e: std::io::Error| Error::io(&folder, "write", &e);
        fs::create_dir_all(&folder).map_err(failed)?;
        let lock = File::options().create(true).append(true).open(folder.join("lock")).map_err(failed)?;
        let mut waits = false;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(e)) => return Err(failed(e)),
                Err(TryLockError::WouldBlock) if stop.load(Ordering::Relaxed) => {
                    let what = format!("another build of {} was waited for", source.name);
                    return Err(crate::interrupted(&what));
                }
                Err(TryLockError::WouldBlock) => {}
            }
            if !std::mem::replace(&mut waits, true) {
                say(&format!("waiting for another build of {}", source.name));
            }
            std::thread::sleep(LOOK);
        }
        let site = Site { name: source.name.clone(), folder, _lock: lock };
        if let Some(copies) = &source.stale {
            source::forget_older_copy(&site.folder)?;
            site.take_back()?;
            say(&format!("copying what has changed in {}", source.name));
            copies.bring(&site.folder)?;
        }
        Ok(site)
    }
    pub fn tree(&self) -> PathBuf {
        self.folder.join(TREE)
    }
    /// The folder of objects for a configuration.
    pub fn objects(&self, config: &str) -> PathBuf {
        self.folder.join(format!("obj-{config}"))
    }
    /// The log of a failed build.
    pub fn log(&self) -> PathBuf {
        self.folder.join("build.log")
    }

    /// Makes the tree the source with these patches and no others. Nothing is changed if a hunk is rejected.
    ///
    /// # Errors
    /// Rejected hunks, and a failed write.
    pub fn patch(&self, patches: &[Patch]) -> Result<Patched> {
        let mut state = State::of(&self.folder);
        let outcome = diff::apply(patches, |path| state.original(&self.folder, path))?;
        if !outcome.rejects.is_empty() {
            return Err(diff::rejected(&outcome.rejects, &self.name));
        }
        let mut wanted = outcome.files.clone();
        for path in state.changed.keys() {
            if !wanted.contains_key(path) {
                let original = state.original(&self.folder, path)?;
                wanted.insert(path.clone(), original);
            }
        }
        self.keep_originals(&mut state, wanted.keys())?;
        for (path, content) in &wanted {
            blob::put(&self.tree(), path, content.as_ref())?;
        }
        let options = self.options(&state, &outcome)?;
        // Files that are again as in the source need no stored original.
        let before = state.clone();
        state.changed.retain(|path, _| {
            let original = before.original(&self.folder, path).ok();
            original.as_ref() != wanted.get(path)
        });
        self.write_state(&state)?;
        Ok(Patched { moved: outcome.moved, options })
    }

    /// The options that the applied patches add or change.
    fn options(&self, state: &State, outcome: &Outcome) -> Result<Changes> {
        let of = outcome.files.iter().filter(|(path, _)| kconfig::is_kconfig(path));
        let pairs = of.map(|(path, after)| Ok((path.as_str(), state.original(&self.folder, path)?, after)));
        let pairs = pairs.collect::<Result<Vec<_>>>()?;
        let known: Vec<&str> = pairs.iter().map(|(path, ..)| *path).collect();
        Changes::of(pairs.iter().map(|(_, before, after)| (before, *after)))
            .without_those_elsewhere(&self.tree(), &known)
    }

    /// Removes all patches.
    fn take_back(&self) -> Result<()> {
        self.patch(&[]).map(drop)
    }

    fn write_state(&self, state: &State) -> Result<()> {
        let text = serde_json::to_vec_pretty(state).map_err(|e| Error::internal(e.to_string()))?;
        temp::write_whole(&self.folder.join(STATE), &text)
    }

    /// Stores the originals of files that are changed for the first time, and notes their paths.
    fn keep_originals<'p>(&self, state: &mut State, paths: impl Iterator<Item = &'p String>) -> Result<()> {
        let new: Vec<&String> = paths.filter(|p| !state.changed.contains_key(*p)).collect();
        for path in new {
            let content = state.original(&self.folder, path)?;
            if let Some(blob) = &content {
                blob::keep(&self.folder.join(ORIGINALS).join(path), blob)?;
            }
            state.changed.insert(path.clone(), content.is_some());
        }
        self.write_state(state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::parse;

    fn site(folder: &std::path::Path) -> Site {
        fs::create_dir_all(folder.join(TREE)).unwrap();
        fs::write(folder.join(TREE).join("f"), "a\nb\n").unwrap();
        enter(folder)
    }
    fn enter(folder: &std::path::Path) -> Site {
        let name = "linux 6.1".to_owned();
        let source = Obtained { folder: folder.to_owned(), identity: name.clone(), name, stale: None };
        Site::enter(&source, &AtomicBool::new(false), &mut |_| ()).unwrap()
    }
    fn patch(text: &str) -> Vec<Patch> {
        parse("p", text.as_bytes()).unwrap()
    }
    const ONE: &str =
        "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n-b\n+c\n--- /dev/null\n+++ b/d/new\n@@ -0,0 +1 @@\n+n\n";
    const TWO: &str = "--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n-a\n+A\n b\n";

    #[test]
    fn patches_replace_each_other_and_leave_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let site = site(dir.path());
        let text = |path: &str| fs::read_to_string(site.tree().join(path)).ok();
        site.patch(&patch(ONE)).unwrap();
        assert_eq!((text("f").unwrap(), text("d/new").unwrap()), ("a\nc\n".into(), "n\n".into()));
        site.patch(&patch(TWO)).unwrap();
        assert_eq!((text("f").unwrap(), text("d/new")), ("A\nb\n".into(), None));
        let both = [patch(TWO), patch(&ONE.replace(" a\n", " A\n"))].concat();
        site.patch(&both).unwrap();
        assert_eq!(text("f").unwrap(), "A\nc\n", "a series builds on itself");
        site.patch(&[]).unwrap();
        assert_eq!((text("f").unwrap(), text("d/new")), ("a\nb\n".into(), None));
        assert_eq!(State::of(dir.path()), State::default());
    }

    #[test]
    fn an_interrupt_ends_the_waiting_for_another_build() {
        let dir = tempfile::tempdir().unwrap();
        let _other = site(dir.path());
        let name = "linux 6.1".to_owned();
        let source = Obtained { folder: dir.path().to_owned(), identity: name.clone(), name, stale: None };
        let (stop, mut said) = (AtomicBool::new(false), Vec::new());
        let mut say = |text: &str| {
            said.push(text.to_owned());
            stop.store(true, Ordering::Relaxed);
        };
        let error = Site::enter(&source, &stop, &mut say).unwrap_err();
        assert_eq!(
            (error.kind().exit_code(), said),
            (1, vec!["waiting for another build of linux 6.1".into()])
        );
    }

    #[test]
    fn a_reject_changes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let site = site(dir.path());
        site.patch(&patch(TWO)).unwrap();
        let error = site.patch(&patch(&ONE.replace("-b", "-x"))).unwrap_err().to_string();
        assert!(error.contains("p does not apply to linux 6.1"), "{error}");
        assert_eq!(fs::read_to_string(site.tree().join("f")).unwrap(), "A\nb\n");
    }

    #[test]
    fn rejected_hunks_are_reported_while_another_build_holds_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let site = site(dir.path());
        site.patch(&patch(TWO)).unwrap();
        let name = "linux 6.1".to_owned();
        let source = Obtained { folder: dir.path().to_owned(), identity: name.clone(), name, stale: None };
        check(&source, &patch(ONE)).unwrap();
        let error = check(&source, &patch(&ONE.replace("-b", "-x"))).unwrap_err().to_string();
        assert!(error.contains("p does not apply to linux 6.1"), "{error}");
        assert_eq!(fs::read_to_string(site.tree().join("f")).unwrap(), "A\nb\n", "nothing is changed");
    }

    #[test]
    fn nothing_outside_changes_through_a_link() {
        let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let site = site(dir.path());
        fs::write(other.path().join("f"), "a\nb\n").unwrap();
        std::os::unix::fs::symlink(other.path(), site.tree().join("out")).unwrap();
        let through = ONE.replace("/f\n", "/out/f\n").replace("b/d/new", "b/out/new");
        let error = site.patch(&patch(&through)).unwrap_err().to_string();
        assert!(error.contains("out/f lies behind out, which is a symbolic link"), "{error}");
        let names = fs::read_dir(other.path()).unwrap().count();
        assert_eq!((names, fs::read_to_string(other.path().join("f")).unwrap().as_str()), (1, "a\nb\n"));
        let link = "diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n@@ -0,0 +1 @@\n+f\n\
                    \\ No newline at end of file\ndiff --git a/f b/f\nold mode 100644\nnew mode 100755\n";
        site.patch(&patch(link)).unwrap();
        use std::os::unix::fs::PermissionsExt;
        let executable = || fs::metadata(site.tree().join("f")).unwrap().permissions().mode() & 0o100 != 0;
        assert!(site.tree().join("l").is_symlink() && executable());
        site.patch(&[]).unwrap();
        assert!(!site.tree().join("l").is_symlink() && !executable());
        assert_eq!(State::of(dir.path()), State::default());
    }

    #[test]
    fn an_interrupted_change_is_repaired_by_the_next_start() {
        let dir = tempfile::tempdir().unwrap();
        let site = site(dir.path());
        let mut state = State::default();
        site.keep_originals(&mut state, ["f".to_owned(), "d/new".to_owned()].iter()).unwrap();
        fs::write(site.tree().join("f"), "half").unwrap();
        drop(site);
        let again = enter(dir.path());
        again.patch(&patch(ONE)).unwrap();
        assert_eq!(fs::read_to_string(again.tree().join("f")).unwrap(), "a\nc\n");
    }

    #[test]
    fn unchanged_files_keep_their_times() {
        let dir = tempfile::tempdir().unwrap();
        let site = site(dir.path());
        site.patch(&patch(ONE)).unwrap();
        let time = |p: &str| fs::metadata(site.tree().join(p)).unwrap().modified().unwrap();
        let before = (time("f"), time("d/new"));
        std::thread::sleep(std::time::Duration::from_millis(20));
        site.patch(&patch(&ONE.replace("+n", "+m"))).unwrap();
        assert_eq!(time("f"), before.0);
        assert!(time("d/new") > before.1, "a changed file is newer: make compiles it again");
    }
}
