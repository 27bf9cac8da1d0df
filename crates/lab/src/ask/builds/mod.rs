//! The variants whose kernels are built, with their sources, patches and configuration, and the building.
//!
//! A variant with a patch, with a fragment of configuration, or whose kernel is a source tree is built. All other
//! variants of the same kernel are then built, too: a patched kernel is compared with a base of the same
//! configuration and compiler, not with a distribution's image.

mod make;

pub use make::{Estimate, build, build_all, foretell, options, ready};

use schedlab_base::{Error, Result, Version};
use schedlab_kernel::Variant;
use schedlab_kernels::diff::Patch;
use schedlab_kernels::{Built, Recipe, Source, diff};
use std::path::Path;

/// A kernel to build, with the variants that boot it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KernelOrder {
    pub variants: Vec<String>,
    /// Its source, patches and configuration.
    pub recipe: Recipe,
}

/// The kernels to build for the `kept` variants of an experiment that has `all`; paths are relative to `folder`.
///
/// # Errors
/// When a patch, a fragment or a source can't be read; the variant is named.
pub fn wanted(all: &[Variant], kept: &[Variant], folder: &Path) -> Result<Vec<KernelOrder>> {
    let from_source: Vec<&Variant> = all.iter().filter(|v| is_built(v, folder)).collect();
    let mut found: Vec<KernelOrder> = Vec::new();
    for variant in kept {
        let of_same: Vec<&&Variant> =
            from_source.iter().filter(|v| same(&v.kernel, &variant.kernel)).collect();
        if of_same.is_empty() {
            continue;
        }
        let config = variant.config.as_ref().or_else(|| common(&of_same));
        let recipe =
            recipe(variant, config, folder).map_err(|e| e.context(format!("variant '{}'", variant.name)))?;
        match found.iter_mut().find(|w| w.recipe == recipe) {
            Some(wanted) => wanted.variants.push(variant.name.clone()),
            None => found.push(KernelOrder { variants: vec![variant.name.clone()], recipe }),
        }
    }
    Ok(found)
}

fn is_built(variant: &Variant, folder: &Path) -> bool {
    let is_tree = variant.kernel.contains('/') && folder.join(&variant.kernel).is_dir();
    !variant.patch.is_empty() || variant.config.is_some() || is_tree
}

/// Whether two variants mean the same kernel: "6.1" and the profile "v6.1" do.
fn same(a: &str, b: &str) -> bool {
    a.strip_prefix('v').unwrap_or(a) == b.strip_prefix('v').unwrap_or(b)
}

/// The fragment of all built variants, if they have the same.
fn common<'v>(built: &[&&'v Variant]) -> Option<&'v String> {
    let first = built.first()?.config.as_ref()?;
    built.iter().all(|v| v.config.as_ref() == Some(first)).then_some(first)
}

/// The source, patches and configuration of a variant's kernel, with this fragment.
///
/// # Errors
/// When a patch, a fragment or a source can't be read.
pub fn recipe(variant: &Variant, config: Option<&String>, folder: &Path) -> Result<Recipe> {
    let tree = folder.join(&variant.kernel);
    let word = if variant.kernel.contains('/') {
        tree.to_string_lossy().into_owned()
    } else {
        variant.kernel.clone()
    };
    let source = Source::parse(&word)?;
    let patches = patches(&variant.patch, &variant.kernel, folder)?;
    let fragment = fragment(config.map(String::as_str), folder)?;
    Ok(Recipe { source, patches, fragment })
}

/// A fragment of configuration with its name, which is relative to `folder`; `None` if none is named.
pub fn fragment(name: Option<&str>, folder: &Path) -> Result<Option<(String, String)>> {
    let Some(name) = name else { return Ok(None) };
    let path = folder.join(name);
    let text = std::fs::read_to_string(&path).map_err(|e| Error::io(&path, "read", &e))?;
    Ok(Some((name.to_owned(), text)))
}

/// The patches that words name: files and folders, relative to `folder`, or patches that ship, by name.
///
/// # Errors
/// A patch that is missing or can't be read.
pub fn patches(words: &[String], kernel: &str, folder: &Path) -> Result<Vec<Patch>> {
    let series = series_of(&folder.join(kernel));
    let one = |word: &String| -> Result<Vec<Patch>> {
        let path = folder.join(word);
        if word == "-" {
            return diff::read(Path::new(word));
        }
        if path.exists() || schedlab_kernels::shipped::is_path(word) {
            return diff::read(&path);
        }
        schedlab_kernels::shipped::find(word, series.as_deref().unwrap_or(kernel))
    };
    Ok(words.iter().map(one).collect::<Result<Vec<_>>>()?.into_iter().flatten().collect())
}

/// The series in the Makefile of a kernel's tree, "6.1"; `None` if it is not such a tree.
fn series_of(tree: &Path) -> Option<String> {
    let text = std::fs::read_to_string(tree.join("Makefile")).ok()?;
    let part = |name: &str| {
        let value = text.lines().find_map(|l| l.strip_prefix(name)?.trim_start().strip_prefix('='))?;
        value.trim().parse::<u32>().ok()
    };
    Some(format!("{}.{}", part("VERSION")?, part("PATCHLEVEL")?))
}

/// The series of a source that may still be missing, "6.1", if its tree or its word shows it.
pub fn known_series(word: &str) -> Option<String> {
    match Source::parse(word).ok()? {
        Source::Tree(tree) => series_of(&tree),
        Source::Series(series) => {
            let version = Version::parse(&series).ok().filter(|_| series.contains('.'))?;
            Some(format!("{}.{}", version.major, version.minor))
        }
        Source::Tarball(_) => None,
    }
}

/// Checks that the features a variant switches are in the table, or are its patches'.
///
/// # Errors
/// When neither has a feature.
pub fn check_features(variant: &Variant, built: &Built) -> Result<()> {
    let bare = |text: &str| text.strip_prefix("NO_").unwrap_or(text).to_owned();
    let own = |text: &String| built.note.features.iter().any(|f| f.name == bare(text));
    let later = variant.at.iter().flat_map(|c| &c.features);
    let unknown = variant
        .features
        .iter()
        .chain(later)
        .find(|text| !own(text) && schedlab_kernel::Toggle::parse(text).is_err());
    let Some(name) = unknown else { return Ok(()) };
    let names: Vec<&str> = built.note.features.iter().map(|f| f.name.as_str()).collect();
    let error = Error::input(format!("variant '{}': no feature '{}'", variant.name, bare(name)));
    Err(error.help(match names.as_slice() {
        [] => "its patches add no feature (SCHED_FEAT)".to_owned(),
        names => format!("its patches add {}", names.join(", ")),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

    fn variant(name: &str, kernel: &str, patch: &[&str]) -> Variant {
        let patch = patch.iter().map(|p| (*p).to_owned()).collect();
        Variant { name: name.into(), patch, ..Variant::plain(kernel) }
    }

    #[test]
    fn the_base_of_a_patched_kernel_is_built_too() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("p.patch"), DIFF).unwrap();
        let all = [
            variant("base", "6.1", &[]),
            variant("on", "6.1", &["p.patch"]),
            variant("off", "v6.1", &["p.patch"]),
            variant("other", "7", &[]),
        ];
        let names = |kept: &[Variant]| -> Vec<Vec<String>> {
            wanted(&all, kept, dir.path()).unwrap().into_iter().map(|w| w.variants).collect()
        };
        assert_eq!(names(&all), [vec!["base"], vec!["on", "off"]]);
        assert_eq!(names(&all[..1]), [vec!["base"]], "also if the patched one is not run now");
        assert!(wanted(&all[3..], &all[3..], dir.path()).unwrap().is_empty());
    }

    #[test]
    fn the_base_takes_the_fragment_of_the_others() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("f"), "CONFIG_X=y\n").unwrap();
        let with = Variant { config: Some("f".into()), ..variant("a", "6.1", &[]) };
        let all = [variant("base", "6.1", &[]), with];
        let found = wanted(&all, &all, dir.path()).unwrap();
        assert_eq!(found.len(), 1, "{found:?}");
        let missing = Variant { config: Some("g".into()), ..variant("a", "6.1", &[]) };
        let error = wanted(std::slice::from_ref(&missing), std::slice::from_ref(&missing), dir.path())
            .unwrap_err()
            .to_string();
        assert!(error.contains("variant 'a'") && error.contains("g"), "{error}");
    }

    #[test]
    fn a_tree_gets_the_patch_of_its_own_series() {
        let tree = tempfile::tempdir().unwrap();
        let makefile = "# SPDX\nVERSION = 6\nPATCHLEVEL = 1\nSUBLEVEL = 9\n";
        std::fs::write(tree.path().join("Makefile"), makefile).unwrap();
        let kernel = tree.path().display().to_string();
        let found = patches(&["first-idle".to_owned()], &kernel, Path::new("/")).unwrap();
        assert!(found[0].name.contains("6.1"), "{}", found[0].name);
        assert_eq!(series_of(Path::new("/nowhere")), None);
        let known = |word: &str| known_series(word).unwrap_or_default();
        assert_eq!([known(&kernel), known("6.1"), known("v6.12.3")], ["", "6.1", "6.12"], "no whole tree");
        assert_eq!(known("7"), "", "its newest release is not known before it is fetched");
    }
}
