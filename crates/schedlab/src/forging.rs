//! Builds kernels, with progress on standard error.

use crate::progress::Bar;
use crate::{interrupt, output};
use schedlab_base::{Error, Result};
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

/// Checks that this machine can boot kernels, and build them if `builds`; tells all that it lacks at once.
///
/// # Errors
/// The missing tools, and the missing QEMU.
pub fn ready(builds: bool) -> Result<()> {
    let tools = if builds { schedlab_forge::check_tools() } else { Ok(()) };
    match (tools, schedlab_guest::find_qemu()) {
        (tools, Ok(_)) => tools,
        (Ok(()), Err(qemu)) => Err(qemu),
        (Err(tools), Err(qemu)) => Err(both(&tools, &qemu)),
    }
}

/// Two errors of the machine as one.
fn both(first: &Error, second: &Error) -> Error {
    let remedies: Vec<&str> = [first, second].iter().filter_map(|e| e.remedy()).collect();
    Error::machine(format!("{}; {}", first.message(), second.message())).help(remedies.join("; "))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_a_machine_lacks_is_told_at_once() {
        let one = |what: &str, help: &str| Error::machine(what).help(help);
        let error = both(&one("missing bison", "install bison"), &one("no QEMU", "fetch it"));
        assert_eq!(error.kind().exit_code(), 3);
        assert_eq!(
            (error.message(), error.remedy()),
            ("missing bison; no QEMU", Some("install bison; fetch it"))
        );
    }
}
