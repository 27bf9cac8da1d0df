//! The overlay: an architecture's files, which the caller brings and the site's tree gets as `arch/sim`.

use schedlab_base::{Error, Result, content_hash, temp};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Where it lies in a tree.
pub(super) const PLACE: &str = "arch/sim";

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
    /// A hash of all its files.
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
    /// Makes a tree's folder hold these files and no others. Equal files stay, with their times.
    ///
    /// # Errors
    /// When the disk does not take it.
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
