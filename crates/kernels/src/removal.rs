//! Removes kernels from the cache: fetched ones, built ones, and images of the scheduler's code, by name.

use crate::{cache, shelf};
use schedlab_base::{Error, Result, temp};
use std::fs;
use std::path::{Path, PathBuf};

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Removed {
    pub name: String,
    pub size_bytes: u64,
}

/// Removes everything of these names; nothing if one of them does not exist.
///
/// # Errors
/// An unknown name, and files that can't be removed.
pub fn remove(names: &[String], cache: &Path) -> Result<Vec<Removed>> {
    let shelves = [cache::kernels(cache), cache::builds(cache), cache::images(cache)];
    let all: Vec<PathBuf> = shelves.iter().flat_map(|shelf| cache::entries(shelf)).collect();
    let known = || all.iter().map(|folder| shelf::name(folder)).collect::<Vec<_>>();
    let mut found = Vec::new();
    for name in names {
        let folders: Vec<&PathBuf> = all.iter().filter(|folder| shelf::name(folder) == *name).collect();
        if folders.is_empty() {
            let known = known();
            let like = known.iter().map(String::as_str).filter(|known| known.contains(name.as_str()));
            let like: Vec<&str> = like.collect();
            let remedy = match like.as_slice() {
                [] => "'schedlab kernel list' shows all names".to_owned(),
                some => format!("'schedlab kernel list' shows all names; like it: {}", some.join(", ")),
            };
            return Err(Error::input(format!("there is no kernel '{name}' in the cache")).help(remedy));
        }
        found.extend(folders);
    }
    found.sort();
    found.dedup();
    found.into_iter().map(|folder| gone(folder)).collect()
}

/// Removes a folder after renaming it, so that an interrupted removal leaves nothing that counts as a kernel.
fn gone(folder: &Path) -> Result<Removed> {
    let removed = Removed { name: shelf::name(folder), size_bytes: shelf::size(folder) };
    let failed = |e: std::io::Error| Error::io(folder, "remove", &e);
    let aside = temp::new_name(folder.parent().unwrap_or(Path::new(".")), shelf::UNFINISHED);
    fs::rename(folder, &aside).map_err(failed)?;
    fs::remove_dir_all(&aside).map_err(failed)?;
    Ok(removed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_names_are_removed_or_none() {
        let cache = tempfile::tempdir().unwrap();
        for path in ["kernels/6.1.1-a", "builds/base-1", "images/base-2"] {
            fs::create_dir_all(cache.path().join(path)).unwrap();
            fs::write(cache.path().join(path).join("file"), "1234").unwrap();
        }
        let remove = |names: &[&str]| {
            let names: Vec<String> = names.iter().map(|n| (*n).to_owned()).collect();
            remove(&names, cache.path())
        };
        let error = remove(&["base-2", "base-3"]).unwrap_err().to_string();
        assert!(error.contains("'base-3'") && cache.path().join("images/base-2").is_dir(), "{error}");
        let removed = remove(&["base-2", "6.1.1-a", "base-2"]).unwrap();
        assert_eq!(
            removed.iter().map(|r| (r.name.as_str(), r.size_bytes)).collect::<Vec<_>>(),
            [("base-2", 4), ("6.1.1-a", 4)]
        );
        let left = ["kernels", "builds", "images"]
            .map(|shelf| fs::read_dir(cache.path().join(shelf)).unwrap().count());
        assert_eq!(left, [0, 1, 0]);
    }
}
