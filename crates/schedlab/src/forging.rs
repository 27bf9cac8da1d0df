//! Builds kernels, with progress on standard error.

use crate::progress::Bar;
use crate::{interrupt, output};
use schedlab_base::Result;
use schedlab_forge::{Listener, Made, Recipe, Step};
use schedlab_guest::Image;
use schedlab_guest::images::cache;
use schedlab_kernel::Variant;
use schedlab_lab::builds::{self, Wanted};
use std::collections::BTreeMap;
use std::path::Path;

/// Notes for the steps of a build, and a bar for its files.
struct Teller {
    bar: Bar,
    quiet: bool,
}

impl Listener for Teller {
    fn say(&mut self, text: &str) {
        if !self.quiet {
            self.bar.above(|| output::note(text));
        }
    }
    fn step(&mut self, step: &Step) {
        let words = format!("{} of about {} files: {}", step.done, step.of, step.file);
        self.bar.at(step.done * 1000 / step.of.max(1), words);
    }
}

/// Builds one kernel, or finds it in the cache; tells moved hunks and the compiler's warnings about changed files.
///
/// # Errors
/// As [`schedlab_forge::build`].
pub fn build(recipe: &Recipe, cache: &Path, quiet: bool) -> Result<Made> {
    let mut teller = Teller { bar: Bar::share(quiet), quiet };
    let made = schedlab_forge::build(recipe, cache, interrupt::stop_flag()?, &mut teller);
    drop(teller);
    let made = made?;
    made.moved.iter().for_each(|hunk| output::note(&hunk.told()));
    made.warnings.iter().for_each(|warning| output::note(&format!("the compiler warns:\n{warning}")));
    Ok(made)
}

/// Builds all kernels that variants need; returns each variant's image.
///
/// # Errors
/// As [`build`], and for features that neither the tables nor the patches have.
pub fn all(wanted: &[Wanted], variants: &[Variant], quiet: bool) -> Result<BTreeMap<String, Image>> {
    let mut images = BTreeMap::new();
    if wanted.is_empty() {
        return Ok(images);
    }
    let cache = cache::folder(None)?;
    // Patched kernels come first: a patch that does not apply is told before anything is compiled.
    let mut wanted: Vec<&Wanted> = wanted.iter().collect();
    wanted.sort_by_key(|w| w.recipe.patches.is_empty());
    for one in wanted {
        let made = build(&one.recipe, &cache, quiet)
            .map_err(|e| e.context(format!("variant '{}'", one.variants.join("', '"))))?;
        for name in &one.variants {
            if let Some(variant) = variants.iter().find(|v| v.name == *name) {
                builds::check_features(variant, &made.built)?;
            }
            images.insert(name.clone(), made.built.image.clone());
        }
    }
    Ok(images)
}
