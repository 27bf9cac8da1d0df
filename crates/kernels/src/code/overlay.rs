//! The overlay: files of an architecture, given by the caller and copied into the site's tree as `arch/sim`.

use schedlab_base::{Error, Result, content_hash, temp};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The overlay's place in a tree.
pub(super) const PLACE: &str = "arch/sim";

/// The words of a shim's heading before the path of the file that it replaces ("Stands for").
const STANDS: &str = "tands for";

/// Paths below [`PLACE`], each with its text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlay<'a>(pub &'a [(&'a str, &'a str)]);

impl<'a> Overlay<'a> {
    /// The text of a file.
    ///
    /// # Errors
    /// When it has none of that name.
    pub(super) fn text(self, path: &str) -> Result<&'a str> {
        let found = self.0.iter().find(|(p, _)| *p == path).map(|(_, text)| *text);
        found.ok_or_else(|| Error::internal(format!("the overlay of an image has no file {path}")))
    }
    pub fn hash(self) -> String {
        let mut all = String::new();
        self.0.iter().for_each(|(path, text)| all.extend([*path, "\0", *text, "\0"]));
        content_hash(all.as_bytes())
    }
    /// The lines of a list, without comments.
    pub(super) fn list(self, path: &str) -> Result<impl Iterator<Item = &'a str>> {
        let lines = self.text(path)?.lines().map(str::trim);
        Ok(lines.filter(|l| !l.is_empty() && !l.starts_with('#')))
    }
    /// The shim, by its path in a tree, whose heading says that it stands for a file of the kernel.
    pub(super) fn stands_for(self, path: &str) -> Option<String> {
        let is_end = |c: Option<char>| !c.is_some_and(|c| c.is_ascii_alphanumeric() || "/_".contains(c));
        let names = |text: &str| {
            text.match_indices(path).any(|(at, found)| {
                let (before, behind) = (&text[..at], &text[at + found.len()..]);
                is_end(before.chars().next_back()) && is_end(behind.chars().next())
            })
        };
        let is_shim = |file: &str| file.starts_with("image/") && file.ends_with(".c");
        let shims =
            self.0.iter().filter(|(file, text)| is_shim(file) && names(text) && text.contains(STANDS));
        // A shim for the whole file is preferred to one for a part of it.
        let whole = format!("{STANDS} {path}");
        let found = shims.max_by_key(|(file, text)| (text.contains(&whole), std::cmp::Reverse(*file)));
        found.map(|(file, _)| format!("{PLACE}/{file}"))
    }
    /// Makes the tree's folder hold these files and no others. Equal files keep their times.
    ///
    /// # Errors
    /// When writing fails.
    pub(super) fn lay(self, tree: &Path) -> Result<()> {
        let place = tree.join(PLACE);
        let wanted: BTreeSet<PathBuf> = self.0.iter().map(|(path, _)| place.join(path)).collect();
        for (path, text) in self.0 {
            let file = place.join(path);
            if fs::read(&file).is_ok_and(|old| old == text.as_bytes()) {
                continue;
            }
            let folder = file.parent().unwrap_or(&place);
            fs::create_dir_all(folder).map_err(|e| Error::io(folder, "make", &e))?;
            temp::write_whole(&file, text.as_bytes())?;
        }
        let mut found = Vec::new();
        files_below(&place, &mut found)?;
        for file in found.iter().filter(|file| !wanted.contains(*file)) {
            fs::remove_file(file).map_err(|e| Error::io(file, "remove", &e))?;
        }
        Ok(())
    }
}

fn files_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    let failed = |e: std::io::Error| Error::io(folder, "list", &e);
    for entry in fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        match entry.file_type().map_err(failed)?.is_dir() {
            true => files_below(&entry.path(), found)?,
            false => found.push(entry.path()),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shim_is_found_by_the_file_that_it_stands_for() {
        let text = "/*\n * Stands for kernel/fork.c, and kernel/time/timer.c.\n */\n";
        let part = "/* Stands for copy_mm() of kernel/fork.c. */";
        let include = "#include \"kernel/exit.c\"";
        let overlay = Overlay(&[("image/a.c", part), ("image/x.c", include), ("image/tasks.c", text)]);
        let found = |path| overlay.stands_for(path);
        assert_eq!(found("kernel/fork.c").as_deref(), Some("arch/sim/image/tasks.c"));
        assert_eq!(found("kernel/time/timer.c").as_deref(), Some("arch/sim/image/tasks.c"));
        assert_eq!((found("kernel/exit.c"), found("time/timer.c"), found("fork.c")), (None, None, None));
    }

    #[test]
    fn equal_files_stay_and_others_go() {
        let tree = tempfile::tempdir().unwrap();
        let first = Overlay(&[("Kconfig", "a"), ("image/x.c", "x")]);
        first.lay(tree.path()).unwrap();
        let time = |path: &str| fs::metadata(tree.path().join(PLACE).join(path)).unwrap().modified().unwrap();
        let before = time("Kconfig");
        std::thread::sleep(std::time::Duration::from_millis(20));
        let second = Overlay(&[("Kconfig", "a"), ("image/y.c", "y")]);
        second.lay(tree.path()).unwrap();
        assert_eq!(time("Kconfig"), before);
        assert!(!tree.path().join(PLACE).join("image/x.c").exists());
        assert_ne!(first.hash(), second.hash());
    }
}
