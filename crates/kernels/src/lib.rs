//! Everything that happens to a kernel before it boots: finding its source or image, caching, fetching, patching and
//! building. The same for QEMU, which boots it.
//!
//! [`fetch`] gets images, sources and QEMU through the machine's package client, [`cache`] is the folder in which they
//! lie, [`images`] lists the images of this machine and opens them, [`emulator`] finds a QEMU.
//!
//! `source` obtains the source, `survey` lists a tree's files, `diff` reads and applies patches, `site` is the place
//! where a source is patched and compiled, `configure` makes its configuration with the options that `kconfig` finds in
//! patches, `make` runs and watches the build, `catalog` keeps the finished kernels on a `shelf`, `removal` removes
//! kernels, `forecast` estimates how long a build takes, `fit` says how patches fit a source at hand. A built kernel is
//! known by its *key*, a hash of source, patches, configuration and compiler, so that the same kernel is built once.
//! [`code`] makes a shared object of the scheduler's code alone.
//!
//! All kernels of one source and configuration share a folder of objects. So a patched kernel and its base come from
//! the same compiler and options, and only the files in which they differ are compiled again.

mod blob;
pub mod cache;
pub mod catalog;
pub mod code;
mod configure;
pub mod diff;
pub mod emulator;
pub mod fetch;
pub mod fit;
pub mod forecast;
pub mod functions;
mod gitignore;
pub mod images;
pub mod kconfig;
mod make;
mod outdated;
pub mod parent;
pub mod removal;
mod shelf;
pub mod shipped;
mod site;
pub mod source;
mod survey;
pub mod tools;
mod walk;

pub use catalog::Built;
pub use emulator::{Mode, Qemu, find_qemu};
pub use images::Image;
pub use kconfig::{SetBy, Setting};
pub use make::Step;
pub use source::Source;
pub use tools::{check as check_tools, compiler};

use catalog::{Applied, Note};
use configure::ConfigParts;
use diff::{Patch, Placement};
use forecast::Speed;
use make::Make;
use schedlab_base::content_hash;
use schedlab_base::{Error, Result};
use site::Site;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The built-in configuration, a fragment over `make allnoconfig`.
pub const GUEST_CONFIG: &str = include_str!("guest.config");
/// Space that sources and a first build take, MB.
const BUILD_MB: u64 = 3000;
/// The image within a folder of objects.
const BZIMAGE: &str = "arch/x86/boot/bzImage";
/// A kernel to build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Recipe {
    pub source: Source,
    pub patches: Vec<Patch>,
    /// A fragment of configuration on top of the built-in one, with its name.
    pub fragment: Option<(String, String)>,
}

/// Receives reports of a build under way.
pub trait Listener {
    /// A sentence about the step that begins.
    fn say(&mut self, text: &str);
    /// A file was compiled.
    fn step(&mut self, step: &Step);
}

/// A kernel that was asked for, built or found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    pub built: Built,
    /// Whether it was built now rather than found in the cache.
    pub new: bool,
    /// Hunks that were applied at other lines than they name.
    pub moved: Vec<Placement>,
    /// The compiler's warnings about files that the patches change.
    pub warnings: Vec<String>,
}

/// Builds a kernel, or finds it in the cache.
///
/// # Errors
/// Missing tools, a source that can't be had, rejected hunks, a configuration that a guest can't boot, a failed build,
/// an interruption.
pub fn build(recipe: &Recipe, cache: &Path, stop: &AtomicBool, on: &mut dyn Listener) -> Result<Made> {
    tools::check()?;
    let compiler = tools::compiler()?;
    // make runs in the tree, where a relative path would lead elsewhere.
    let cache = &std::path::absolute(cache).map_err(|e| Error::io(cache, "find", &e))?;
    if !source::is_there(&recipe.source, cache) {
        tools::check_room(cache, BUILD_MB, "the first build of a source")?;
    }
    // Ctrl-C also ends the package client; its error is not reported then.
    let told =
        |e: Error| if stop.load(Ordering::Relaxed) { interrupted("its source was fetched") } else { e };
    let source = source::obtain(&recipe.source, cache, &mut |t| on.say(t)).map_err(told)?;
    let mut note = note(recipe, &source, compiler);
    if let Some(built) = catalog::find(&note.key, cache) {
        return Ok(Made { built, new: false, moved: Vec::new(), warnings: Vec::new() });
    }
    site::check(&source, &recipe.patches)?;
    let site = Site::enter(&source, stop, &mut |t| on.say(t))?;
    // Another process may have built this kernel while we waited.
    if let Some(built) = catalog::find(&note.key, cache) {
        return Ok(Made { built, new: false, moved: Vec::new(), warnings: Vec::new() });
    }
    let patched = site.patch(&recipe.patches)?;
    let config = configuration(recipe);
    let objects = site.objects(&content_hash(config.as_bytes())[..12]);
    tools::check_room(&objects, BUILD_MB / 4, "a build")?;
    fs::create_dir_all(&objects).map_err(|e| Error::io(&objects, "make", &e))?;
    let tree = site.tree();
    let mut make = Make { tree: &tree, objects: &objects, log: site.log(), expected: 0, stop };
    on.say("configuring");
    let fragment = recipe.fragment.as_ref().map_or("", |(_, text)| text.as_str());
    let wanted = ConfigParts { built_in: GUEST_CONFIG, fragment, changes: &patched.options };
    note.options = configure::configure(&make, &wanted)?;
    note.options
        .iter()
        .for_each(|option| on.say(&format!("{} {}", patches_name(&note.patches), option.words())));
    on.say(&format!("building {} from {}", patches_name(&note.patches), note.source));
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    make.expected = forecast::steps(&objects, &[]);
    let began = Instant::now();
    let said = make.run(&["bzImage"], jobs, &mut |step| on.step(&step))?;
    Speed::learn_objects(cache, said.steps, began.elapsed().as_millis() as u64 * jobs as u64);
    let changed: Vec<&str> = recipe.patches.iter().flat_map(Patch::paths).collect();
    let concerns = |w: &String| changed.iter().any(|path| w.contains(path));
    let warnings = said.warnings.into_iter().filter(concerns).collect();
    let name = format!("{}-{}", patches_name(&note.patches), &note.key[..8]);
    let functions = functions::table_of(&objects)?;
    let files = catalog::Files {
        image: &objects.join(BZIMAGE),
        config: &objects.join(".config"),
        functions: &functions,
    };
    let built = catalog::keep(&note, &name, files, cache)?;
    Ok(Made { built, new: true, moved: patched.moved, warnings })
}

/// The error of an interruption; `while_` names the interrupted work.
fn interrupted(while_: &str) -> Error {
    Error::new(schedlab_base::ErrorKind::CheckFailed, format!("interrupted while {while_}"))
        .help("the same command continues from there")
}

/// The built-in configuration with the recipe's fragment.
fn configuration(recipe: &Recipe) -> String {
    let own = recipe.fragment.as_ref().map_or("", |(_, text)| text.as_str());
    format!("{GUEST_CONFIG}\n{own}\n")
}

fn note(recipe: &Recipe, source: &source::Obtained, compiler: String) -> Note {
    let applied = |p: &Patch| Applied { name: p.name.clone(), subject: p.subject.clone(), hash: p.hash() };
    let patches: Vec<Applied> = recipe.patches.iter().map(applied).collect();
    let (features, counters) = diff::adds(&recipe.patches);
    let hashes: Vec<&str> = patches.iter().map(|p| p.hash.as_str()).collect();
    let mut all = [source.identity.as_str(), &hashes.join(" "), &configuration(recipe), &compiler].join("\n");
    // The hash tells these kernels from those built before new options got their defaults.
    if recipe.patches.iter().flat_map(Patch::paths).any(kconfig::is_kconfig) {
        all.push_str("\nnew options have their defaults");
    }
    Note {
        key: content_hash(all.as_bytes()),
        source: source.name.clone(),
        identity: source.identity.clone(),
        patches,
        fragment: recipe.fragment.as_ref().map(|(name, _)| name.clone()),
        compiler,
        features,
        counters: counters.into_iter().map(|c| c.0).collect(),
        options: Vec::new(),
    }
}

/// The name of a build: those of its patches, or "base".
fn patches_name(patches: &[Applied]) -> String {
    let plain = |name: &str| -> String {
        let stem = name.split(" (mail").next().unwrap_or(name);
        let stem = stem.strip_suffix(".patch").or_else(|| stem.strip_suffix(".diff")).unwrap_or(stem);
        stem.chars()
            .map(|c| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' })
            .take(40)
            .collect()
    };
    let mut names: Vec<String> = patches.iter().map(|p| plain(&p.name)).collect();
    names.dedup();
    match names.as_slice() {
        [] => "base".to_owned(),
        [one] => one.trim_start_matches('.').to_owned(),
        [first, rest @ ..] => format!("{}-and-{}-more", first.trim_start_matches('.'), rest.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recipe(diff: &str, fragment: Option<&str>) -> Recipe {
        let patches =
            if diff.is_empty() { Vec::new() } else { diff::parse("x.patch", diff.as_bytes()).unwrap() };
        let fragment = fragment.map(|text| ("f".to_owned(), text.to_owned()));
        Recipe { source: Source::Series("6.1".into()), patches, fragment }
    }
    fn key(recipe: &Recipe, identity: &str, compiler: &str) -> String {
        let source = source::Obtained {
            folder: "/x".into(),
            name: "n".into(),
            identity: identity.into(),
            stale: None,
        };
        note(recipe, &source, compiler.into()).key
    }
    const DIFF: &str = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n";

    #[test]
    fn the_key_is_of_source_patches_configuration_and_compiler() {
        let base = key(&recipe("", None), "i", "gcc 12");
        assert_eq!(base, key(&recipe("", None), "i", "gcc 12"));
        for other in [
            key(&recipe(DIFF, None), "i", "gcc 12"),
            key(&recipe("", Some("CONFIG_X=y")), "i", "gcc 12"),
            key(&recipe("", None), "j", "gcc 12"),
            key(&recipe("", None), "i", "gcc 13"),
        ] {
            assert_ne!(base, other);
        }
    }

    #[test]
    fn the_built_in_configuration_has_the_options_that_guests_need() {
        for name in configure::NEEDED {
            assert!(GUEST_CONFIG.lines().any(|l| l == format!("CONFIG_{name}=y")), "{name}");
        }
    }
}
