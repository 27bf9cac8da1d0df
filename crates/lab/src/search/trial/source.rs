//! The source on which patches are tried, and whether they fit it; known before anything is built.

use crate::ask::builds;
use schedlab_base::{Error, ErrorKind, Result, one_or};
use schedlab_kernels::diff::{ChangedLines, Patch};
use schedlab_kernels::fit::{self, Fit};
use schedlab_kernels::{Source, shipped};
use std::path::Path;

/// The source if no other is named or in the cache, and for shipped patches.
pub const DEFAULT_SOURCE: &str = "6.1";

/// A source for patches.
#[derive(Debug)]
pub struct Chosen {
    /// Its word: a series, a tree, a tarball.
    pub word: String,
    pub patches: Vec<Patch>,
    /// Why it was chosen, in words; `None`: it was named.
    pub why: Option<String>,
    /// The lines that the patches change; empty if the source must still be fetched.
    pub changed: Vec<ChangedLines>,
}

/// The source on which patches are tried: the one that was `asked` for, else the series in the cache that they fit
/// best, of equals the newest. `words` name the patches.
///
/// # Errors
/// When patches can't be read, do not fit the requested source, or fit no series in the cache.
pub fn choose(words: &[String], asked: Option<&str>, cache: &Path) -> Result<Chosen> {
    let series = fit::series_at_hand(cache);
    let is_fixed = asked.is_some() || series.is_empty() || words.iter().any(|word| is_shipped(word));
    if is_fixed {
        let word = asked.unwrap_or(DEFAULT_SOURCE);
        let patches = builds::patches(words, word, Path::new(""))?;
        let found = fit::fit(&Source::parse(word)?, &patches, cache)?;
        let changed = found.map_or(Ok(Vec::new()), fitting)?;
        return Ok(Chosen { word: word.to_owned(), patches, why: None, changed });
    }
    let patches = builds::patches(words, DEFAULT_SOURCE, Path::new(""))?;
    let mut fits: Vec<(String, Fit)> = Vec::new();
    for one in &series {
        fits.extend(fit::fit(&Source::parse(one)?, &patches, cache)?.map(|fit| (one.clone(), fit)));
    }
    // Of equal distances the last, which is the newest.
    let best = fits.into_iter().rev().min_by_key(|(_, fit)| fit.distance());
    let (word, fit) = best.ok_or_else(|| Error::internal("no series is at hand"))?;
    if fit.rejected > 0 {
        return Err(fits_none(fitting(fit), &series));
    }
    let why = why(&fit, &series);
    Ok(Chosen { word, patches, why: Some(why), changed: fit.changed })
}

/// Whether a word names a shipped patch, which exists for each of some series.
fn is_shipped(word: &str) -> bool {
    word != "-" && !Path::new(word).exists() && !shipped::is_path(word)
}

/// The changed lines of a fit, or why there is none.
fn fitting(fit: Fit) -> Result<Vec<ChangedLines>> {
    fit.error.map_or(Ok(fit.changed), Err)
}

fn why(fit: &Fit, series: &[String]) -> String {
    let moved = match fit.moved.len() {
        0 => "as it is".to_owned(),
        n => format!("with {n} {} moved", one_or(n, "hunk", "hunks")),
    };
    format!(
        "the patch fits {} {moved} (of the series at hand: {}); --source names another",
        fit.source,
        series.join(", ")
    )
}

/// The error of a patch that fits no series in the cache: the error of the best fit.
fn fits_none(nearest: Result<Vec<ChangedLines>>, series: &[String]) -> Error {
    let nearest = nearest.err().unwrap_or_else(|| Error::internal("a patch that fits does not fit"));
    let text = format!(
        "the patch fits none of the series at hand ({}); nearest: {}",
        series.join(", "),
        nearest.message()
    );
    Error::new(ErrorKind::Input, text)
        .help("--source names the kernel that it was made for: a series (6.18), a tarball, or your tree")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    /// A cache with the sources of two series, and a patch that fits the second one at its stated lines.
    fn cache() -> (tempfile::TempDir, tempfile::TempDir) {
        let (cache, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        for (series, version, core) in
            [("6.1", "6.1.9-1", "x\na\nb\nc\n"), ("6.12", "6.12.3-1", "a\nb\nc\n"), ("7.3", "7.3.1-1", "z\n")]
        {
            let package = format!("linux-source-{series}");
            let place = cache.path().join("sources").join(format!("{package}_{version}"));
            for (name, text) in [("Makefile", "x"), ("Kbuild", "x"), ("kernel/sched/core.c", core)] {
                let file = place.join("tree").join(name);
                fs::create_dir_all(file.parent().unwrap()).unwrap();
                fs::write(file, text).unwrap();
            }
            let note = serde_json::json!({ "package": package, "version": version });
            fs::write(place.join("note.json"), note.to_string()).unwrap();
        }
        let text = "--- a/kernel/sched/core.c\n+++ b/kernel/sched/core.c\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n";
        fs::write(folder.path().join("p.patch"), text).unwrap();
        fs::write(folder.path().join("q.patch"), text.replace("-b", "-nowhere")).unwrap();
        (cache, folder)
    }

    #[test]
    fn a_patch_goes_to_the_series_that_it_fits_and_is_refused_before_a_build() {
        let (cache, folder) = cache();
        let word = |name: &str| vec![folder.path().join(name).display().to_string()];
        let chosen = choose(&word("p.patch"), None, cache.path()).unwrap();
        assert_eq!(chosen.word, "6.12");
        let why = chosen.why.unwrap();
        assert!(why.contains("6.12.3-1 as it is (of the series at hand: 6.1, 6.12, 7.3)"), "{why}");
        assert_eq!(chosen.changed[0].lines, 2..=2);
        let named = choose(&word("p.patch"), Some("6.1"), cache.path()).unwrap();
        assert_eq!((named.word.as_str(), named.why.is_none()), ("6.1", true));
        let refused = |asked| choose(&word("q.patch"), asked, cache.path()).unwrap_err().to_string();
        assert!(
            refused(Some("6.12")).contains("does not apply to linux-source-6.12"),
            "{}",
            refused(Some("6.12"))
        );
        let none = refused(None);
        assert!(none.contains("fits none of the series at hand (6.1, 6.12, 7.3); nearest: "), "{none}");
    }
}
