//! The scheduler's own code as a shared object: `kernel/sched` of any tree, with patches, compiled unchanged.
//!
//! The caller gives an *overlay*: the files of an architecture of its own, `arch/sim`, which stand in for the rest of
//! the kernel. It is laid into the site's copy of the tree, and kbuild does the rest. By name the overlay has `config`
//! (a configuration's fragment), `objects` (files of the tree that the image has in addition to kernel/sched),
//! `image/probes.c` (by which `probes` learns the features of the tree), `image/` (shims), `image.lds` and
//! `image/host.h` (`link`), and `cc` with `image/headers.h` (`shared`).
//!
//! ```text
//! CACHE/images/NAME-KEY/{image.so, config, image.json}
//! CACHE/sources/SOURCE/obj-code-CONFIG/      objects, which the next image of this source reuses
//! ```

mod begun;
mod compilers;
mod kept;
mod lacks;
mod link;
mod objects;
mod outside;
mod overlay;
mod pace;
mod places;
mod probes;
mod shared;
mod wanted;

pub use compilers::compiler_of;
pub use kept::{Image, Note, all, find, open};
pub use outside::Outside;
pub use overlay::Overlay;
pub use places::{CodePlace, places};

use crate::catalog::Applied;
use crate::configure::ConfigParts;
use crate::diff::{self, Patch, Placement};
use crate::kconfig::{Changes, SetBy};
use crate::make::{Make, MakeOutput, Step};
use crate::site::Site;
use crate::{Listener, Source, source, tools};
use link::Linked;
use pace::Pace;
use schedlab_base::{Error, Result, content_hash, temp};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Space for a first image in addition to its source, MB.
const BUILD_MB: u64 = 200;
/// The configuration file in the folder of objects.
const CONFIG: &str = ".config";

/// For make, once kbuild's own programs are there: no further ones, which are for modules.
const WITHOUT_PROGRAMS: &str = "hostprogs-always-y=";

/// An image to build.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeRecipe {
    pub source: Source,
    pub patches: Vec<Patch>,
    /// A fragment of configuration on top of the overlay's, with its name.
    pub fragment: Option<(String, String)>,
    /// Whether the image reports the code that it executes (CONFIG_SIM_COUNTED).
    pub counts: bool,
}

/// An image that was asked for, built or found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MadeImage {
    pub image: Image,
    /// Whether it was built now rather than found in the cache.
    pub new: bool,
    /// Hunks that were applied at other lines than they name.
    pub moved: Vec<Placement>,
    /// The compiler's warnings about files that the patches change.
    pub warnings: Vec<String>,
}

impl MadeImage {
    fn found(image: Image) -> MadeImage {
        MadeImage { image, new: false, moved: Vec::new(), warnings: Vec::new() }
    }
}

/// Builds an image, or finds it in the cache. `compiler` must be the same for all images that are compared
/// ([`compiler_of`]).
///
/// # Errors
/// Missing tools, a source that can't be had, rejected hunks, a failed build, an interruption.
pub fn build(
    (recipe, compiler): (&CodeRecipe, &str),
    overlay: Overlay<'_>,
    cache: &Path,
    stop: &AtomicBool,
    on: &mut dyn Listener,
) -> Result<MadeImage> {
    // make runs in the tree, where a relative path would lead elsewhere.
    let cache = &std::path::absolute(cache).map_err(|e| Error::io(cache, "find", &e))?;
    if !source::is_there(&recipe.source, cache) {
        tools::check()?;
        tools::check_room(cache, crate::BUILD_MB, "the first build of a source")?;
    }
    let said = |e: Error| match stop.load(Ordering::Relaxed) {
        true => crate::interrupted("its source was fetched"),
        false => e,
    };
    let source = source::obtain(&recipe.source, cache, &mut |t| on.say(t)).map_err(said)?;
    let note = note(recipe, overlay, &source, compiler.to_owned())?;
    if let Some(image) = kept::find_whole(&note.key, cache, &mut |t| on.say(t))? {
        return Ok(MadeImage::found(image));
    }
    tools::check()?;
    crate::site::check(&source, &recipe.patches)?;
    let site = Site::enter(&source, stop, &mut |t| on.say(t))?;
    // Another process may have built this image while we waited.
    if let Some(image) = kept::find_whole(&note.key, cache, &mut |t| on.say(t))? {
        return Ok(MadeImage::found(image));
    }
    let patched = site.patch(&recipe.patches)?;
    let config = configuration(recipe, overlay)?;
    let folder = site.objects(&format!("code-{}", &content_hash(config.as_bytes())[..12]));
    tools::check_room(&folder, BUILD_MB, "an image of the scheduler's code")?;
    // One that a build has left behind half-way is new, too.
    let is_new = !folder.join(link::IMAGE).is_file();
    begun::folder(&folder, "obj-code-")?;
    let tree = site.tree();
    overlay.lay(&tree)?;
    let make = Make { tree: &tree, objects: &folder, log: site.log(), expected: 0, stop };
    on.say("configuring");
    configure(&make, &config)?;
    if let Some(fragment) = &recipe.fragment {
        wanted::check(fragment, &folder.join(".config"), &source.name)?;
    }
    on.say(&format!("building the scheduler's code of {}", note.source));
    let warnings = compile(&make, overlay, (recipe.counts, is_new), on);
    shared::end(&make);
    let warnings = warnings?;
    let linked = link::link(&make, overlay, &configured(&make)?)?;
    let changed: Vec<&str> = recipe.patches.iter().flat_map(Patch::paths).collect();
    let concerns = |w: &String| changed.iter().any(|path| w.contains(path));
    let warnings = warnings.into_iter().filter(concerns).collect();
    let note = with_findings(note, recipe, overlay, &make, &linked, &patched.options)?;
    let image = kept::keep(&note, &linked, &folder.join(CONFIG), cache)?;
    Ok(MadeImage { image, new: true, moved: patched.moved, warnings })
}

/// The configuration that was made.
fn configured(make: &Make<'_>) -> Result<String> {
    let path = make.objects.join(CONFIG);
    fs::read_to_string(&path).map_err(|e| Error::io(&path, "read", &e))
}

/// Adds to the note what the build has shown: names that the image lacks, unmet requests of the fragment, and the
/// values of the patches' options.
fn with_findings(
    note: Note,
    recipe: &CodeRecipe,
    overlay: Overlay<'_>,
    make: &Make<'_>,
    linked: &Linked,
    changes: &Changes,
) -> Result<Note> {
    let config = configured(make)?;
    let fragment = recipe.fragment.as_ref().map_or("", |(_, text)| text.as_str());
    let wanted = ConfigParts { built_in: overlay.text("config")?, fragment, changes };
    Ok(Note {
        lacks: lacks::of(&recipe.patches, &linked.stubs),
        unmet: recipe.fragment.as_ref().and_then(|fragment| wanted::unmet(fragment, &config)),
        outside: outside::of(&recipe.patches, overlay, make, &linked.parts)?,
        // alldefconfig gives its default to each option that no part names.
        options: wanted.settings(&config, SetBy::Default),
        stubs: linked.stubs.clone(),
        ..note
    })
}

/// Compiles all objects; returns the compiler's warnings.
fn compile(
    make: &Make<'_>,
    overlay: Overlay<'_>,
    (counts, is_new): (bool, bool),
    on: &mut dyn Listener,
) -> Result<Vec<String>> {
    let files = objects::of(overlay, make.tree, &configured(make)?)?;
    // A build that was killed leaves its headers, which may be those of another patch.
    shared::end(make);
    let headers = match shared::is_worth_it(make.objects, is_new) {
        true => shared::begin(make, overlay, &files, counts)?,
        false => Vec::new(),
    };
    let mut pace = is_new.then(|| Pace::of(make.tree, &files, jobs()));
    let step = &mut |step: Step| match &mut pace {
        Some(pace) => _ = pace.step(&step, Instant::now()).map(|step| on.step(&step)),
        None => on.step(&step),
    };
    probes::ask(make, overlay, &headers, step)?;
    let targets = objects::FOLDERS.iter().copied().chain(files.iter().map(String::as_str));
    let targets = targets.chain([WITHOUT_PROGRAMS]);
    Ok(run(make, targets, step)?.warnings)
}

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Makes targets of the image's architecture. Its Makefile removes the paths of the two folders from the compiler's
/// output.
fn run<'t>(
    make: &Make<'_>,
    targets: impl IntoIterator<Item = &'t str>,
    step: &mut dyn FnMut(Step),
) -> Result<MakeOutput> {
    let tree = format!("IMG_TREE={}", make.tree.display());
    let objects = format!("IMG_OBJECTS={}", make.objects.display());
    let compiler = shared::compiler(make);
    let mut words: Vec<&str> = targets.into_iter().collect();
    words.extend(compiler.as_deref());
    // No module takes a name from here, so nothing is to be checked for that (6.0 to 6.2). The build's own programs do
    // little.
    words.extend(["ARCH=sim", "HOSTCFLAGS=-O1", "cmd_check_local_export=", tree.as_str(), objects.as_str()]);
    make.run(&words, jobs(), step)
}

/// Writes .config: the fragments, and the defaults of all other options. kconfig does not rewrite a file with equal
/// bytes.
fn configure(make: &Make<'_>, config: &str) -> Result<()> {
    let all = make.objects.join("all.config");
    temp::write_whole(&all, config.as_bytes())?;
    let all = format!("KCONFIG_ALLCONFIG={}", all.display());
    run(make, [all.as_str(), "alldefconfig"], &mut |_| ()).map(drop)
}

fn configuration(recipe: &CodeRecipe, overlay: Overlay<'_>) -> Result<String> {
    let own = recipe.fragment.as_ref().map_or("", |(_, text)| text.as_str());
    let counts = if recipe.counts { "CONFIG_SIM_COUNTED=y\n" } else { "" };
    Ok(format!("{}\n{own}\n{counts}", overlay.text("config")?))
}

fn note(
    recipe: &CodeRecipe,
    overlay: Overlay<'_>,
    source: &source::Obtained,
    compiler: String,
) -> Result<Note> {
    let applied = |p: &Patch| Applied { name: p.name.clone(), subject: p.subject.clone(), hash: p.hash() };
    let patches: Vec<Applied> = recipe.patches.iter().map(applied).collect();
    let (features, counters) = diff::adds(&recipe.patches);
    let hashes: Vec<&str> = patches.iter().map(|p| p.hash.as_str()).collect();
    let shims = overlay.hash();
    let configuration = configuration(recipe, overlay)?;
    let linked = link::in_key(&configuration);
    let parts = [source.identity.as_str(), &hashes.join(" "), &configuration, &compiler, &shims, &linked];
    Ok(Note {
        key: content_hash(parts.join("\n").as_bytes()),
        source: source.name.clone(),
        identity: source.identity.clone(),
        patches,
        fragment: recipe.fragment.as_ref().map(|(name, _)| name.clone()),
        counts: recipe.counts,
        compiler,
        shims,
        features,
        counters: counters.into_iter().map(|c| c.0).collect(),
        lacks: Vec::new(),
        unmet: None,
        outside: Vec::new(),
        options: Vec::new(),
        stubs: Vec::new(),
        files: BTreeMap::new(),
    })
}
