//! Tests before a build how patches fit a source that is at hand: for which series a patch is, and which lines it
//! changes.

use crate::diff::{self, ChangedLines, Patch, Placement};
use crate::source::{self, Source};
use crate::{cache, site};
use schedlab_base::{Error, Result, Version};
use std::fs;
use std::path::Path;

/// The beginning of the names of source packages.
const PACKAGE: &str = "linux-source-";

/// How patches fit a source.
#[derive(Debug)]
pub struct Fit {
    /// The source's name, for readers.
    pub source: String,
    /// Hunks that were applied at other lines than they name.
    pub moved: Vec<Placement>,
    /// Number of hunks and files that were rejected.
    pub rejected: usize,
    /// The error, if some were rejected.
    pub error: Option<Error>,
    /// The lines that the patches change.
    pub changed: Vec<ChangedLines>,
}

impl Fit {
    /// How bad a fit is: hunks rejected, lines of context left out, hunks moved, lines by which they were moved.
    pub fn distance(&self) -> [usize; 4] {
        let fuzz = self.moved.iter().map(|m| m.fuzz).sum();
        let lines = self.moved.iter().map(|m| m.offset.unsigned_abs()).sum();
        [self.rejected, fuzz, self.moved.len(), lines]
    }
}

/// How patches fit a source; `None` if the source is not at hand.
///
/// # Errors
/// A source that can't be read.
pub fn fit(source: &Source, patches: &[Patch], cache: &Path) -> Result<Option<Fit>> {
    let is_there = match source {
        Source::Tarball(path) => source::is_unpacked(path, cache),
        // A user's tree is read in place.
        Source::Tree(_) => true,
        Source::Series(_) => source::is_there(source, cache),
    };
    if !is_there {
        return Ok(None);
    }
    let obtained = source::obtain(source, cache, &mut |_| ())?;
    let outcome = site::applied(&obtained, patches)?;
    let rejected = outcome.rejects.len();
    let error = (rejected > 0).then(|| diff::rejected(&outcome.rejects, &obtained.name));
    let changed = site::changed_lines(&obtained, &outcome)?;
    Ok(Some(Fit { source: obtained.name, moved: outcome.moved, rejected, error, changed }))
}

/// The series whose source is in the cache, the oldest first.
pub fn series_at_hand(cache: &Path) -> Vec<String> {
    let entries = fs::read_dir(cache::sources(cache)).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let series = |name: String| Some(name.strip_prefix(PACKAGE)?.split('_').next()?.to_owned());
    let mut all: Vec<(Version, String)> =
        names.filter_map(series).filter_map(|series| Some((Version::parse(&series).ok()?, series))).collect();
    all.sort();
    all.dedup();
    all.into_iter().map(|(_, series)| series).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diff::parse;

    /// A tree of the user's whose `kernel/sched/core.c` has this text.
    fn tree(core: &str) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("kernel/sched")).unwrap();
        for (name, text) in [("Makefile", "x"), ("Kbuild", "x"), ("kernel/sched/core.c", core)] {
            fs::write(dir.path().join(name), text).unwrap();
        }
        dir
    }

    #[test]
    fn the_tree_that_a_patch_was_made_for_fits_best() {
        let text =
            "--- a/kernel/sched/core.c\n+++ b/kernel/sched/core.c\n@@ -2,3 +2,4 @@\n b\n c\n+new\n d\n";
        let (patches, cache) = (parse("p", text.as_bytes()).unwrap(), tempfile::tempdir().unwrap());
        let of = |core: &str| {
            let tree = tree(core);
            fit(&Source::Tree(tree.path().to_owned()), &patches, cache.path()).unwrap().unwrap()
        };
        let (own, moved, other) = (of("a\nb\nc\nd\ne\n"), of("0\n0\n0\na\nb\nc\nd\ne\n"), of("x\ny\nz\n"));
        assert_eq!((own.distance(), moved.distance()), ([0; 4], [0, 0, 1, 3]));
        assert!(other.distance() > moved.distance() && other.error.is_some());
        let [ChangedLines { path, lines }] = &moved.changed[..] else { panic!("{:?}", moved.changed) };
        assert_eq!((path.as_str(), lines.clone()), ("kernel/sched/core.c", 7..=7));
    }

    #[test]
    fn series_at_hand_are_those_whose_packages_are_unpacked() {
        let cache = tempfile::tempdir().unwrap();
        for name in [
            "linux-source-6.12_6.12.117-1",
            "linux-source-6.1_6.1.192-3",
            "tree-0123",
            "linux-source-6.1_6.1.9",
        ] {
            fs::create_dir_all(cache::sources(cache.path()).join(name)).unwrap();
        }
        assert_eq!(series_at_hand(cache.path()), ["6.1", "6.12"]);
        assert!(fit(&Source::Series("6.6".into()), &[], cache.path()).unwrap().is_none());
    }
}
