//! Chooses one compiler for all images of a comparison.
//!
//! Compilers make different code of one source: an image by another compiler executes other instructions and other
//! blocks. So all images of a comparison, counting or plain, come from one compiler.

use super::{CodeRecipe, Image, Overlay, kept, note};
use crate::{source, tools};
use schedlab_base::natural::Natural;
use schedlab_base::{Error, Result};
use std::collections::BTreeSet;
use std::path::Path;

/// The compiler for all these images, each with its name for messages: the installed gcc, else the newest compiler that
/// has built all of them.
///
/// # Errors
/// Without a gcc: when a source is not in the cache, or no single compiler has built all images.
pub fn compiler_of(
    wanted: &[(String, CodeRecipe)],
    overlay: Overlay<'_>,
    cache: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<String> {
    if let Ok(here) = tools::known_compiler(cache) {
        return Ok(here);
    }
    if wanted.iter().any(|(_, recipe)| !source::is_there(&recipe.source, cache)) {
        tools::check()?;
    }
    let builders = builders(wanted, overlay, cache, say)?;
    if let Some(newest) = newest_of_all(&builders) {
        say(&format!("gcc is not here: taking what {newest} has built"));
        return Ok(newest.to_owned());
    }
    let text = parted(wanted, &builders);
    let help =
        "or build all of them by one gcc elsewhere ('schedlab kernel build --code'), into the same cache";
    Err(match tools::check() {
        Ok(()) => Error::machine(format!("gcc does not say its version, and {text}")).help(help),
        Err(e) => Error::machine(format!("{}, and {text}", e.message()))
            .help(format!("{}; {help}", e.remedy().unwrap_or("install gcc"))),
    })
}

/// For each wanted image, the compilers whose build of it is whole in the cache.
fn builders(
    wanted: &[(String, CodeRecipe)],
    overlay: Overlay<'_>,
    cache: &Path,
    say: &mut dyn FnMut(&str),
) -> Result<Vec<BTreeSet<String>>> {
    let images = kept::all(cache);
    let one = |(_, recipe): &(String, CodeRecipe)| -> Result<BTreeSet<String>> {
        let source = source::obtain(&recipe.source, cache, say)?;
        let is_it = |image: &&Image| {
            let of = note(recipe, overlay, &source, image.note.compiler.clone());
            of.is_ok_and(|of| of.key == image.note.key) && image.altered().is_none()
        };
        Ok(images.iter().filter(is_it).map(|image| image.note.compiler.clone()).collect())
    };
    wanted.iter().map(one).collect()
}

/// The compiler with the highest version (the last word of its name) among those that have built all images.
fn newest_of_all(builders: &[BTreeSet<String>]) -> Option<&str> {
    let (first, others) = builders.split_first()?;
    let of_all = first.iter().filter(|compiler| others.iter().all(|some| some.contains(*compiler)));
    of_all
        .map(String::as_str)
        .max_by_key(|compiler| (Natural(compiler.rsplit(' ').next().unwrap_or(compiler)), Natural(compiler)))
}

/// Says in words which compiler has built which image.
fn parted(wanted: &[(String, CodeRecipe)], builders: &[BTreeSet<String>]) -> String {
    let of = |((name, _), some): (&(String, CodeRecipe), &BTreeSet<String>)| match some.len() {
        0 => format!("{name} by none"),
        _ => format!("{name} by {}", some.iter().cloned().collect::<Vec<_>>().join(" and ")),
    };
    let all: Vec<String> = wanted.iter().zip(builders).map(of).collect();
    format!(
        "no single compiler has built all images that are to be compared (the cache has {})",
        all.join("; ")
    )
}

#[cfg(test)]
mod tests {
    use super::super::link::Linked;
    use super::*;
    use crate::Source;
    use std::fs;

    const OVERLAY: Overlay<'_> = Overlay(&[("config", "CONFIG_X=y\n")]);
    const OLD: &str = "gcc (Debian 9.5.0-3) 9.5.0";
    const NEW: &str = "gcc (Debian 12.2.0-14) 12.2.0";

    fn recipe(counts: bool) -> CodeRecipe {
        CodeRecipe { source: Source::Series("6.1".to_owned()), patches: Vec::new(), fragment: None, counts }
    }

    /// A cache with a source and its images, each given as (whether it counts, its compiler).
    fn cache(images: &[(bool, &str)]) -> tempfile::TempDir {
        let cache = tempfile::tempdir().unwrap();
        let place = cache.path().join("sources/linux-source-6.1_6.1.9-1");
        fs::create_dir_all(&place).unwrap();
        let said = serde_json::json!({ "package": "linux-source-6.1", "version": "6.1.9-1" });
        fs::write(place.join("note.json"), said.to_string()).unwrap();
        for (counts, compiler) in images {
            let recipe = recipe(*counts);
            let source = source::obtain(&recipe.source, cache.path(), &mut |_| ()).unwrap();
            let made = note(&recipe, OVERLAY, &source, (*compiler).to_owned()).unwrap();
            let object = cache.path().join("object");
            fs::write(&object, compiler).unwrap();
            let linked = Linked {
                object: object.clone(),
                btf: None,
                functions: String::new(),
                stubs: vec![],
                parts: vec![],
            };
            kept::keep(&made, &linked, &object, cache.path()).unwrap();
        }
        cache
    }

    fn found(cache: &Path) -> Vec<BTreeSet<String>> {
        builders(&wanted(), OVERLAY, cache, &mut |_| ()).unwrap()
    }

    fn wanted() -> [(String, CodeRecipe); 2] {
        [("variant 'a'".to_owned(), recipe(false)), ("variant 'a', counted".to_owned(), recipe(true))]
    }

    #[test]
    fn the_newest_compiler_that_built_all_images_is_chosen() {
        let both = cache(&[(false, NEW), (true, NEW), (false, OLD), (true, OLD)]);
        assert_eq!(newest_of_all(&found(both.path())), Some(NEW));
        let old = cache(&[(false, NEW), (false, OLD), (true, OLD)]);
        assert_eq!(newest_of_all(&found(old.path())), Some(OLD), "the newest has not built the second one");
        let altered = kept::all(both.path()).into_iter().find(|i| i.note.compiler == NEW).unwrap();
        fs::write(&altered.object, "x").unwrap();
        assert_eq!(newest_of_all(&found(both.path())), Some(OLD), "one that was altered does not count");
    }

    #[test]
    fn images_without_a_common_compiler_are_named_with_their_compilers() {
        let parts = found(cache(&[(false, NEW), (true, OLD)]).path());
        assert_eq!(newest_of_all(&parts), None);
        let text = parted(&wanted(), &parts);
        assert!(text.contains(&format!("variant 'a' by {NEW}; variant 'a', counted by {OLD}")), "{text}");
        let none = parted(&wanted(), &found(cache(&[]).path()));
        assert!(none.contains("variant 'a' by none"), "{none}");
    }
}
