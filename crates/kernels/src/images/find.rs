//! Lists the images of this machine, and finds the image that a word means.
//!
//! A word with a slash, or that names a file, is a path. Any other word is the start of a release or version, cut where
//! a number ends: "6.1" means 6.1.192 and not 6.12. Fetched images are preferred to installed ones, newer to older.

use super::Image;
use crate::cache;
use schedlab_base::{Error, Result, natural};
use serde::Serialize;
use std::cmp::Ordering;
use std::fs;
use std::path::{Path, PathBuf};

/// Where an image was found.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Origin {
    /// Named on the command line.
    Given,
    Cache,
    /// Installed: in /boot or in the folders of modules.
    Installed,
}

/// A file that is an image, or whose name says so.
#[derive(Debug)]
pub struct Listed {
    pub origin: Origin,
    pub path: PathBuf,
    pub size_bytes: u64,
    /// The image, or why the file can't be used.
    pub image: Result<Image>,
}

/// All images: first those given, then the cache's, then the installed ones; each group by version, newest first. A
/// file with several names is listed once.
pub fn list(given: &[PathBuf], cache: &Path) -> Vec<Listed> {
    list_below(Path::new("/"), given, cache)
}

fn list_below(root: &Path, given: &[PathBuf], cache: &Path) -> Vec<Listed> {
    let fetched = cache::entries(&cache::kernels(cache)).into_iter().map(|d| d.join("vmlinuz"));
    let all = given.iter().map(|p| (Origin::Given, p.clone()));
    let all = all.chain(fetched.map(|p| (Origin::Cache, p)));
    let all = all.chain(installed(root).into_iter().map(|p| (Origin::Installed, p)));
    let mut seen = Vec::new();
    let mut found: Vec<Listed> = Vec::new();
    for (origin, path) in all {
        let real = path.canonicalize().unwrap_or_else(|_| path.clone());
        if seen.contains(&real) {
            continue;
        }
        let size_bytes = fs::metadata(&real).map_or(0, |m| m.len());
        let image = Image::open(&path);
        found.push(Listed { origin, path: real.clone(), size_bytes, image });
        seen.push(real);
    }
    found.sort_by(|a, b| a.origin.cmp(&b.origin).then_with(|| by_age(b, a)));
    found
}

/// Orders by version, then by release. Files that are not images compare as least, so they come last in descending
/// order.
fn by_age(a: &Listed, b: &Listed) -> Ordering {
    match (&a.image, &b.image) {
        (Ok(a), Ok(b)) => a.version.cmp(&b.version).then_with(|| natural(&a.release, &b.release)),
        (a, b) => a.is_ok().cmp(&b.is_ok()),
    }
}

fn installed(root: &Path) -> Vec<PathBuf> {
    let names = |folder: PathBuf| -> Vec<PathBuf> {
        let mut all: Vec<PathBuf> =
            fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
        all.sort();
        all
    };
    let boot = names(root.join("boot"))
        .into_iter()
        .filter(|p| p.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"vmlinuz")));
    let modules = ["usr/lib/modules", "lib/modules"].into_iter().flat_map(|d| names(root.join(d)));
    boot.chain(modules.map(|d| d.join("vmlinuz"))).filter(|p| p.symlink_metadata().is_ok()).collect()
}

/// The image that a word means, among those of the cache and the installed ones.
pub fn find(word: &str) -> Result<Image> {
    let path = Path::new(word);
    if word.contains('/') || path.is_file() {
        return Image::open(path);
    }
    choose(word, list(&[], &cache::folder(None)?))
}

fn choose(word: &str, all: Vec<Listed>) -> Result<Image> {
    let wanted = word.strip_prefix('v').unwrap_or(word);
    let mut others = Vec::new();
    for listed in all {
        match listed.image {
            Ok(image) if means(wanted, &image) => return Ok(image),
            Ok(image) => others.push(image.release),
            // The image exists but can't be read: this error says more than "not found".
            Err(e) if starts(wanted, &release_of(&listed.path)) => return Err(e),
            Err(_) => {}
        }
    }
    let there = if others.is_empty() { "none".to_owned() } else { others.join(", ") };
    let numbers = wanted.starts_with(|c: char| c.is_ascii_digit());
    let series = if numbers { wanted } else { "6.1" };
    Err(Error::input(format!("there is no kernel image '{word}'")).help(format!(
        "images on this machine: {there}; 'schedlab kernel fetch {series}' fetches one, or give the path of a bzImage"
    )))
}

fn means(word: &str, image: &Image) -> bool {
    starts(word, &image.release) || starts(word, image.version.to_string().trim_start_matches('v'))
}

/// The newest fetched image of a series.
pub fn in_cache(series: &str, cache: &Path) -> Option<Image> {
    let fetched = list_below(Path::new("/nonexistent"), &[], cache);
    fetched.into_iter().filter_map(|l| l.image.ok()).find(|image| means(series, image))
}

/// Whether `text` starts with `word`, and `word` does not end in the middle of a number.
pub fn starts(word: &str, text: &str) -> bool {
    let rest = text.strip_prefix(word).filter(|_| !word.is_empty());
    rest.is_some_and(|rest| {
        !(word.ends_with(|c: char| c.is_ascii_digit()) && rest.starts_with(|c: char| c.is_ascii_digit()))
    })
}

/// The release by an image's path: /boot/vmlinuz-RELEASE or modules/RELEASE/vmlinuz.
fn release_of(path: &Path) -> String {
    let text = |name: Option<&std::ffi::OsStr>| name.unwrap_or_default().to_string_lossy().into_owned();
    let own = text(path.file_name());
    match own.strip_prefix("vmlinuz-") {
        Some(release) => release.to_owned(),
        None => text(path.parent().and_then(Path::file_name)),
    }
}

#[cfg(test)]
mod tests {
    use super::super::header::tests::image;
    use super::*;

    fn put(path: PathBuf, release: &str, rest: &str) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, image(&format!("{release} (k@x) #1 SMP {rest}"))).unwrap();
    }
    fn machine() -> (tempfile::TempDir, PathBuf) {
        let dir = tempfile::tempdir().unwrap();
        let (root, cache) = (dir.path(), dir.path().join("cache"));
        put(cache.join("kernels/a/vmlinuz"), "6.1.0-9-cloud-amd64", "Debian 6.1.27-1");
        put(cache.join("kernels/b/vmlinuz"), "6.1.0-56-cloud-amd64", "Debian 6.1.192-2");
        put(cache.join("kernels/.new/vmlinuz"), "6.1.0-99-cloud-amd64", "Debian 6.1.999-2");
        put(root.join("boot/vmlinuz-6.12.7"), "6.12.7", "Mon");
        put(root.join("boot/vmlinuz-6.1.300"), "6.1.300", "Mon");
        put(root.join("usr/lib/modules/7.3.4+deb13/vmlinuz"), "7.3.4+deb13", "Debian 7.3.4-1");
        fs::write(root.join("boot/vmlinuz-5.10.1"), b"\x1f\x8b and more").unwrap();
        fs::create_dir_all(root.join("usr/lib/modules/5.4.0")).unwrap();
        std::os::unix::fs::symlink("vmlinuz-6.12.7", root.join("boot/vmlinuz")).unwrap();
        std::os::unix::fs::symlink("usr/lib", root.join("lib")).unwrap();
        (dir, cache)
    }
    fn chosen(word: &str) -> Result<String> {
        let (dir, cache) = machine();
        choose(word, list_below(dir.path(), &[], &cache)).map(|i| i.release)
    }

    #[test]
    fn every_image_comes_once_and_the_newest_first() {
        let (dir, cache) = machine();
        let all = list_below(dir.path(), &[dir.path().join("boot/vmlinuz-6.1.300")], &cache);
        let names: Vec<&str> =
            all.iter().map(|l| l.image.as_ref().map_or("?", |i| i.release.as_str())).collect();
        let expected =
            ["6.1.300", "6.1.0-56-cloud-amd64", "6.1.0-9-cloud-amd64", "7.3.4+deb13", "6.12.7", "?"];
        assert_eq!(names, expected);
        assert_eq!(
            (all[0].origin, all[1].origin, all[3].origin),
            (Origin::Given, Origin::Cache, Origin::Installed)
        );
        assert_eq!(all[0].size_bytes, 0x2000);
    }

    #[test]
    fn a_word_is_the_start_of_a_version() {
        assert_eq!(chosen("6.1").unwrap(), "6.1.0-56-cloud-amd64", "fetched ones first, the newest of them");
        assert_eq!(chosen("v6.1.300").unwrap(), "6.1.300");
        assert_eq!(chosen("6.1.27").unwrap(), "6.1.0-9-cloud-amd64", "also by the upstream version");
        assert_eq!(chosen("6.12").unwrap(), "6.12.7");
        assert_eq!(chosen("7").unwrap(), "7.3.4+deb13");
    }

    #[test]
    fn the_error_for_a_missing_image_lists_the_others() {
        let error = chosen("6.18").unwrap_err().to_string();
        for part in ["'6.18'", "7.3.4+deb13, 6.12.7", "schedlab kernel fetch 6.18"] {
            assert!(error.contains(part), "{error}");
        }
        assert!(chosen("5.10").unwrap_err().to_string().contains("packed by gzip"), "the image's own fault");
        assert!(chosen("").unwrap_err().to_string().contains("kernel fetch 6.1"));
    }
}
