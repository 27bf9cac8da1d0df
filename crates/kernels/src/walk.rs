//! Walks a folder: every file, folder and link below it, in no particular order.

use crate::gitignore::Patterns;
use schedlab_base::{Error, Result};
use std::fs::{self, FileType};
use std::io;
use std::path::{Path, PathBuf};

/// A file, folder or link.
pub struct Entry {
    pub path: PathBuf,
    /// The path, relative to the folder that is walked.
    pub inner: PathBuf,
    /// Its type; with [`Walk::following_links`], that of a link's target.
    pub kind: FileType,
}

/// Which entries are reported.
pub struct Walk<'w> {
    root: &'w Path,
    wanted: Box<dyn Fn(&Path) -> bool + 'w>,
    git_ignore: bool,
    follow_links: bool,
}

/// Receives each entry; an error ends the walk.
type Each<'e> = dyn FnMut(Entry) -> Result<()> + 'e;

impl<'w> Walk<'w> {
    /// Reports all entries below a folder.
    pub fn new(root: &'w Path) -> Walk<'w> {
        Walk { root, wanted: Box::new(|_| true), git_ignore: false, follow_links: false }
    }
    /// Leaves out entries whose inner path is not wanted, and everything below such folders.
    pub fn only(self, wanted: impl Fn(&Path) -> bool + 'w) -> Walk<'w> {
        Walk { wanted: Box::new(wanted), ..self }
    }
    /// Leaves out entries that the tree's .gitignore files ignore.
    pub fn heeding_git(self, git_ignore: bool) -> Walk<'w> {
        Walk { git_ignore, ..self }
    }
    /// Walks the folders behind links, too, and leaves dead links out.
    pub fn following_links(self) -> Walk<'w> {
        Walk { follow_links: true, ..self }
    }
    /// Calls `each` with each entry.
    ///
    /// # Errors
    /// The first of `each`, a folder that can't be read, and a link that leads to a folder around it.
    pub fn each(&self, each: &mut Each<'_>) -> Result<()> {
        self.folder(Path::new(""), &mut Vec::new(), &mut Vec::new(), each)
    }

    /// `patterns`: those of each folder from the root to this one. `around`: the folders that contain this one, if
    /// links are followed.
    fn folder(
        &self,
        inner: &Path,
        patterns: &mut Vec<(PathBuf, Patterns)>,
        around: &mut Vec<PathBuf>,
        each: &mut Each<'_>,
    ) -> Result<()> {
        let folder = self.root.join(inner);
        let failed = |e: io::Error| Error::io(&folder, "read", &e);
        if self.follow_links {
            let real = folder.canonicalize().map_err(failed)?;
            if around.contains(&real) {
                let text = format!("{} leads to {}, which it lies in", folder.display(), real.display());
                return Err(Error::input(text));
            }
            around.push(real);
        }
        if self.git_ignore {
            patterns.push((inner.to_owned(), Patterns::read(&folder)));
        }
        for entry in fs::read_dir(&folder).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let inner = inner.join(entry.file_name());
            let Some(kind) = self.kind(&entry)? else { continue };
            if !(self.wanted)(&inner) || ignores(patterns, &inner, kind.is_dir()) {
                continue;
            }
            each(Entry { path: entry.path(), inner: inner.clone(), kind })?;
            if kind.is_dir() {
                self.folder(&inner, patterns, around, each)?;
            }
        }
        if self.git_ignore {
            patterns.pop();
        }
        if self.follow_links {
            around.pop();
        }
        Ok(())
    }

    fn kind(&self, entry: &fs::DirEntry) -> Result<Option<FileType>> {
        let path = entry.path();
        let kind = entry.file_type().map_err(|e| Error::io(&path, "read", &e))?;
        if !(self.follow_links && kind.is_symlink()) {
            return Ok(Some(kind));
        }
        match fs::metadata(&path) {
            Ok(about) => Ok(Some(about.file_type())),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io(&path, "read", &e)),
        }
    }
}

/// Whether a path is ignored: the nearest folder's file with a matching pattern decides.
fn ignores(patterns: &[(PathBuf, Patterns)], inner: &Path, is_folder: bool) -> bool {
    let verdict = |(folder, patterns): &(PathBuf, Patterns)| {
        inner.strip_prefix(folder).ok().and_then(|path| patterns.ignores(path, is_folder))
    };
    patterns.iter().rev().find_map(verdict).unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::process::Command;

    fn walked(root: &Path) -> BTreeSet<String> {
        let mut files = BTreeSet::new();
        let is_wanted = |path: &Path| path.file_name().is_some_and(|name| name != ".git");
        let walk = Walk::new(root).only(is_wanted).heeding_git(true);
        walk.each(&mut |entry| {
            if !entry.kind.is_dir() {
                files.insert(entry.inner.to_string_lossy().into_owned());
            }
            Ok(())
        })
        .unwrap();
        files
    }

    /// The files that git does not ignore by the tree's own .gitignore files; `None` without git.
    fn by_git(root: &Path) -> Option<BTreeSet<String>> {
        let repository = tempfile::tempdir().unwrap();
        let git = |words: &[&str]| {
            let mut git = Command::new("git");
            git.arg("--git-dir").arg(repository.path()).args(["--work-tree", "."]).args(words);
            git.current_dir(root).output().ok()
        };
        git(&["init", "-q"])?;
        let listed = git(&["ls-files", "-o", "-z", "--exclude-per-directory=.gitignore"])?;
        let text = String::from_utf8(listed.stdout).unwrap();
        Some(text.split_terminator('\0').map(str::to_owned).collect())
    }

    #[test]
    fn git_ignores_the_same_files() {
        let dir = tempfile::tempdir().unwrap();
        let put = |path: &str, text: &str| {
            let path = dir.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(".gitignore", ".*\n*.o\n*.[ch].x\n/vmlinux\n!.gitignore\n!.clang-format\nbuilt/\n/a/**/deep\n");
        put("tools/.gitignore", "*\n!*.c\n!/lib/\n!Makefile\n");
        put("tools/lib/.gitignore", "!*.o\n/fixdep\n");
        for folder in ["", "a/", "a/b/", "tools/", "tools/lib/", "tools/other/", "built/"] {
            for name in [
                "x.c",
                "x.o",
                "x.c.x",
                "x.d.x",
                "vmlinux",
                ".clang-format",
                ".config",
                "Makefile",
                "fixdep",
                "deep",
            ] {
                put(&format!("{folder}{name}"), "");
            }
        }
        match by_git(dir.path()) {
            Some(files) => assert_eq!(walked(dir.path()), files),
            None => schedlab_base::testing::skipped("git"),
        }
    }
}
