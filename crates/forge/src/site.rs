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
//! There is one tree for all patches, so that a build compiles only the files in which two of them differ. A file is
//! written only if its bytes change, and its time is then now: make compares times alone. An original is kept, and its
//! path written down, before the file is changed. So the tree can be put right after any interruption, and the
//! next start does so.

use crate::diff::{self, Patch, Placement};
use crate::source::Obtained;
use schedlab_base::{Error, Result, temp};
use schedlab_guest::fetch::TREE;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File, TryLockError};
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const STATE: &str = "state.json";
const ORIGINALS: &str = "originals";
/// How often a locked site is looked at.
const LOOK: Duration = Duration::from_millis(100);

/// The paths that patches have changed, each with whether the source has the file.
#[derive(Clone, Default, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct State {
    changed: BTreeMap<String, bool>,
}

/// A locked site.
#[derive(Debug)]
pub struct Site {
    folder: PathBuf,
    name: String,
    _lock: File,
}

impl Site {
    /// Locks the site of a source; waits while another process builds there, and says so.
    ///
    /// # Errors
    /// When the cache can't be written, or `stop` ends the waiting.
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
            site.take_back()?;
            say(&format!("copying what has changed in {}", source.name));
            copies.bring(&site.folder)?;
        }
        Ok(site)
    }
    /// The tree.
    pub fn tree(&self) -> PathBuf {
        self.folder.join(TREE)
    }
    /// The folder of objects for a configuration.
    pub fn objects(&self, config: &str) -> PathBuf {
        self.folder.join(format!("obj-{config}"))
    }
    /// Where a failed build's log is.
    pub fn log(&self) -> PathBuf {
        self.folder.join("build.log")
    }

    /// Makes the tree the source with these patches and no others. Nothing is changed if a hunk is rejected.
    ///
    /// # Errors
    /// Rejected hunks, and a disk that does not take it.
    pub fn patch(&self, patches: &[Patch]) -> Result<Vec<Placement>> {
        let mut state = self.state();
        let outcome = diff::apply(patches, |path| self.original(&state, path))?;
        if !outcome.rejects.is_empty() {
            return Err(diff::rejected(&outcome.rejects, &self.name));
        }
        let mut wanted = outcome.files;
        for path in state.changed.keys() {
            if !wanted.contains_key(path) {
                let original = self.original(&state, path)?;
                wanted.insert(path.clone(), original);
            }
        }
        self.keep_originals(&mut state, wanted.keys())?;
        for (path, content) in &wanted {
            self.put(path, content.as_deref())?;
        }
        // Files that are as the source has them again need no original.
        state.changed.retain(|path, there| {
            let original = self.folder.join(ORIGINALS).join(path);
            let content = wanted.get(path).cloned().flatten();
            let same = if *there { fs::read(&original).ok() == content } else { content.is_none() };
            !same
        });
        self.write_state(&state)?;
        Ok(outcome.moved)
    }

    /// Takes all patches back.
    fn take_back(&self) -> Result<()> {
        self.patch(&[]).map(drop)
    }

    fn state(&self) -> State {
        let text = fs::read(self.folder.join(STATE)).ok();
        text.and_then(|t| serde_json::from_slice(&t).ok()).unwrap_or_default()
    }
    fn write_state(&self, state: &State) -> Result<()> {
        let text = serde_json::to_vec_pretty(state).map_err(|e| Error::internal(e.to_string()))?;
        temp::write_whole(&self.folder.join(STATE), &text)
    }

    /// A file as the source has it.
    fn original(&self, state: &State, path: &str) -> Result<Option<Vec<u8>>> {
        let file = match state.changed.get(path) {
            Some(false) => return Ok(None),
            Some(true) => self.folder.join(ORIGINALS).join(path),
            None => self.tree().join(path),
        };
        match fs::read(&file) {
            Ok(bytes) => Ok(Some(bytes)),
            Err(e) if e.kind() == ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(&file, "read", &e)),
        }
    }

    /// Keeps the originals of paths that are changed for the first time, and writes the paths down.
    fn keep_originals<'p>(&self, state: &mut State, paths: impl Iterator<Item = &'p String>) -> Result<()> {
        let new: Vec<&String> = paths.filter(|p| !state.changed.contains_key(*p)).collect();
        for path in new {
            let content = self.original(state, path)?;
            if let Some(bytes) = &content {
                let place = self.folder.join(ORIGINALS).join(path);
                let above = place.parent().unwrap_or(&self.folder);
                fs::create_dir_all(above).map_err(|e| Error::io(above, "make", &e))?;
                temp::write_whole(&place, bytes)?;
            }
            state.changed.insert(path.clone(), content.is_some());
        }
        self.write_state(state)
    }

    /// Writes a file of the tree if its bytes differ, or removes it.
    fn put(&self, path: &str, content: Option<&[u8]>) -> Result<()> {
        let place = self.tree().join(path);
        let Some(bytes) = content else {
            return match fs::remove_file(&place) {
                Err(e) if e.kind() != ErrorKind::NotFound => Err(Error::io(&place, "remove", &e)),
                _ => Ok(()),
            };
        };
        if fs::read(&place).is_ok_and(|now| now == bytes) {
            return Ok(());
        }
        let above = place.parent().unwrap_or(&self.folder);
        fs::create_dir_all(above).map_err(|e| Error::io(above, "make", &e))?;
        // Scripts stay executable: the file is written over.
        fs::write(&place, bytes).map_err(|e| Error::io(&place, "write", &e))
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
        assert_eq!(site.state(), State::default());
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
    fn an_interrupted_change_is_put_right_by_the_next_start() {
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
