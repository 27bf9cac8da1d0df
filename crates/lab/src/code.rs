//! The kernel's own code as a backend: the images of variants, their building, and the settings of their kernels.

use crate::cell::Cell;
use crate::listener::Listener;
use crate::patch_names;
use crate::{builds, guests};
use schedlab_base::{Error, Result, Version};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Variant, tunable};
use schedlab_kernels::{self as kernels, cache, code};
use schedlab_record::cell::{CodeSetup, Level};
use schedlab_transplant::{Setting, shim};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A variant's image: its place and its origin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeImage {
    /// The shared object.
    pub object: PathBuf,
    /// The release of its tree.
    pub version: Version,
    /// Its preemption model, by the kernel's number.
    pub preempt: u8,
    pub setup: CodeSetup,
    /// The shared object of the image that does not count, if this one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<PathBuf>,
    /// Warnings about parts of its patches and its fragment that have no effect in it, or end a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Options of the configuration that its patches bring or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<kernels::Setting>,
}

/// A variant with the image that it runs on.
#[derive(Clone, Debug)]
pub struct Driven {
    /// The variant, with its name among the others.
    pub variant: Variant,
    pub image: CodeImage,
    /// Its name in the experiment; `None`: the experiment has no variant of the image's series.
    pub of: Option<String>,
}

impl CodeImage {
    /// The image in the cache with that shared object.
    ///
    /// # Errors
    /// When its folder is not an image's.
    pub fn open(object: &Path) -> Result<CodeImage> {
        CodeImage::of(&code::open(object.parent().unwrap_or(Path::new(".")))?, None)
    }
    /// The image in the cache with that shared object, which counts, together with the one that does not.
    ///
    /// # Errors
    /// When a folder is not an image's.
    pub fn counted(object: &Path, plain: &Path, level: Level) -> Result<CodeImage> {
        let open = |object: &Path| code::open(object.parent().unwrap_or(Path::new(".")));
        let image = CodeImage::of(&open(object)?, Some(&open(plain)?))?;
        Ok(CodeImage { setup: CodeSetup { level, ..image.setup }, ..image })
    }
    /// The image that made a stored run, from the cache.
    ///
    /// # Errors
    /// When the cache no longer has it, or has changed it: another image may make another run.
    pub fn kept(setup: &CodeSetup) -> Result<CodeImage> {
        let cache = cache::folder(None)?;
        let gone = |key: &str| {
            let short = key.get(..8).unwrap_or(key);
            Error::machine(format!(
                "the cache no longer has image {short} of {}, which made the run",
                setup.source
            ))
            .help("make the run anew; 'schedlab kernel list' lists the images that are there")
        };
        let find = |key: &String| {
            let image = code::find(key, &cache).ok_or_else(|| gone(key))?;
            match image.altered() {
                None => Ok(image),
                Some(file) => Err(Error::machine(format!(
                    "{file} of image {}, which made the run, is not as it was built",
                    image.name
                ))
                .help("make the run anew: the image is built again")),
            }
        };
        let (found, plain) = (find(&setup.image)?, setup.plain.as_ref().map(find).transpose()?);
        let image = CodeImage::of(&found, plain.as_ref())?;
        Ok(CodeImage { setup: setup.clone(), ..image })
    }
    /// An image; one that counts together with the one of the same tree that does not.
    fn of(image: &code::Image, plain: Option<&code::Image>) -> Result<CodeImage> {
        let note = &image.note;
        Ok(CodeImage {
            object: image.object.clone(),
            version: image.version()?,
            preempt: preempt_of(image),
            setup: CodeSetup {
                image: note.key.clone(),
                source: note.source.clone(),
                patches: note.patches.iter().map(|p| p.name.clone()).collect(),
                config: note.fragment.clone(),
                compiler: note.compiler.clone(),
                level: Level::Free,
                plain: plain.map(|plain| plain.note.key.clone()),
            },
            plain: plain.map(|plain| plain.object.clone()),
            warnings: note.warnings(),
            options: note.options.clone(),
        })
    }
}

/// The preemption model of an image, by the kernel's number ([`schedlab_kernel::preempt`]).
fn preempt_of(image: &code::Image) -> u8 {
    let options = ["PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT", "PREEMPT_LAZY"];
    let on = options.iter().rposition(|option| image.has_option(option));
    on.unwrap_or_default() as u8
}

/// The variants of an experiment, each with its image, which is built or found in the cache. Paths are relative to
/// `folder`. Kernels that are `named` run the variants of their series instead of the variants' own kernels.
///
/// # Errors
/// As [`images_of`], and for a named kernel together with patches: the kernel of a patch is built from the variant's
/// own source.
pub fn driven(
    variants: &[Variant],
    named: &[String],
    folder: &Path,
    listener: &dyn Listener,
) -> Result<Vec<Driven>> {
    let real: Vec<&Variant> = variants.iter().filter(|v| v.kernel != RUNNING).collect();
    if !named.is_empty() {
        return driven_by_named(&real, named, listener);
    }
    let images = images_of(&real, folder, listener)?;
    let one = |(variant, image): (&&Variant, CodeImage)| Driven {
        variant: (*variant).clone(),
        image,
        of: Some(variant.name.clone()),
    };
    Ok(real.iter().zip(images).map(one).collect())
}

/// Kernels that the command line names, each under the variants of its series.
fn driven_by_named(real: &[&Variant], named: &[String], listener: &dyn Listener) -> Result<Vec<Driven>> {
    guests::without_patches(real)?;
    // A kernel counts if any variant does. That variant may be of its series, which only its image shows.
    let level = real.iter().map(|v| v.level).find(|level| level.counts()).unwrap_or_default();
    let kernels: Vec<Variant> = named.iter().map(|word| Variant { level, ..Variant::plain(word) }).collect();
    // A word of the command line is relative to the current folder.
    let making = Making::of(&kernels.iter().collect::<Vec<_>>(), Path::new(""), listener)
        .map_err(|e| e.context("--kernel"))?;
    let image = |at: usize, level| making.image(at, level).map_err(|e| e.context("--kernel"));
    let plain = named.iter().enumerate().map(|(at, word)| {
        let image = image(at, Level::Free)?;
        Ok((word.clone(), image.version, (at, image)))
    });
    let plain = plain.collect::<Result<Vec<_>>>()?;
    // A kernel without variants of its own gets the level that all variants have.
    let common = real.first().map(|v| v.level).filter(|level| real.iter().all(|v| v.level == *level));
    let given = guests::on_given(&plain, real).into_iter().map(|(variant, (at, plain), of)| {
        let level = if of.is_some() { variant.level } else { common.unwrap_or_default() };
        let image = if level.counts() { image(at, level)? } else { plain };
        Ok(Driven { variant: Variant { level, ..variant }, image, of })
    });
    given.collect()
}

/// The cell of the kernel's own code that corresponds to a guest's: the variant's image on the machine that is
/// simulated for the guest. `variants` are the experiment's, with their images.
///
/// # Errors
/// For a cell of another backend.
pub fn beside_guest(cell: &Cell, variants: &[(Variant, CodeImage)]) -> Result<Cell> {
    let found = variants.iter().find(|(v, _)| v.name == cell.variant.name);
    let (Some(guest), Some((variant, image))) = (&cell.guest, found) else {
        return Err(Error::internal(format!("{} is not a guest's cell of the experiment", cell.title())));
    };
    let machine = Arc::new(guests::twin_machine(&cell.machine, guest.mode)?);
    let variant = guests::as_in(cell, variant.clone());
    Cell::of_code(&machine, image.clone(), variant, cell.spec.clone(), cell.load.clone())
}

/// Builds the images of variants that are compared, or finds them in the cache: all by one compiler. Paths are relative
/// to `folder`.
///
/// # Errors
/// When a source can't be had, a patch does not apply, or a build fails; the variant is named. Without gcc, when no
/// single compiler has built the images.
pub fn images_of(variants: &[&Variant], folder: &Path, listener: &dyn Listener) -> Result<Vec<CodeImage>> {
    let making = Making::of(variants, folder, listener)?;
    // Patched kernels come first: a patch that does not apply is reported before anything is compiled.
    let mut order: Vec<usize> = (0..variants.len()).collect();
    order.sort_by_key(|at| variants[*at].patch.is_empty());
    let mut all = Vec::new();
    for at in order {
        let image = making.image(at, variants[at].level);
        all.push((at, image.map_err(|e| e.context(named(variants[at])))?));
    }
    all.sort_by_key(|(at, _)| *at);
    Ok(all.into_iter().map(|(_, image)| image).collect())
}

/// The image of one variant.
///
/// # Errors
/// As [`images_of`].
pub fn image_of(variant: &Variant, folder: &Path, listener: &dyn Listener) -> Result<CodeImage> {
    let mut images = images_of(&[variant], folder, listener)?;
    images.pop().ok_or_else(|| Error::internal("a variant without an image"))
}

fn named(variant: &Variant) -> String {
    format!("variant '{}'", variant.name)
}

/// The fragment of an image whose fair class can be asked about whole machines.
const ASKED: &str = "CONFIG_SIM_ASKED=y";

/// Builds the image of a kernel whose fair class can be asked about whole machines, or finds it in the cache.
///
/// # Errors
/// As [`image_of`].
pub fn asked_image_of(kernel: &str, listener: &dyn Listener) -> Result<CodeImage> {
    let recipe = builds::recipe(&Variant::plain(kernel), None, Path::new(""))?;
    let fragment = Some(("what --rules needs".to_owned(), format!("{ASKED}\n")));
    let (source, patches) = (recipe.source, recipe.patches);
    let recipe = code::CodeRecipe { source, patches, fragment, counts: false };
    CodeImage::of(&build(&recipe, &cache::folder(None)?, listener)?.image, None)
}

/// Images that are compared, to be made by one compiler.
struct Making<'a> {
    /// Recipes of the images that do not count, in the order of their variants.
    plain: Vec<code::CodeRecipe>,
    compiler: String,
    cache: PathBuf,
    listener: &'a dyn Listener,
}

impl<'a> Making<'a> {
    fn of(variants: &[&Variant], folder: &Path, listener: &'a dyn Listener) -> Result<Making<'a>> {
        let one = |v: &&Variant| recipe(v, folder).map_err(|e| e.context(named(v)));
        let plain = variants.iter().map(one).collect::<Result<Vec<_>>>()?;
        let cache = cache::folder(None)?;
        let compiler = compiler_of(&wanted(variants, &plain), &cache, listener)?;
        Ok(Making { plain, compiler, cache, listener })
    }
    /// The image of the variant with that number; one that counts comes with the plain one.
    fn image(&self, at: usize, level: Level) -> Result<CodeImage> {
        let recipe = self.plain[at].clone();
        let built = |recipe: code::CodeRecipe| {
            build_by((&recipe, &self.compiler), &self.cache, self.listener).map(|made| made.image)
        };
        let found = built(recipe.clone())?;
        if !level.counts() {
            return CodeImage::of(&found, None);
        }
        let image = CodeImage::of(&built(code::CodeRecipe { counts: true, ..recipe })?, Some(&found))?;
        Ok(CodeImage { setup: CodeSetup { level, ..image.setup }, ..image })
    }
}

/// All images of variants with their names; those that count follow their `plain` ones.
fn wanted(variants: &[&Variant], plain: &[code::CodeRecipe]) -> Vec<(String, code::CodeRecipe)> {
    let of = |(variant, plain): (&&Variant, &code::CodeRecipe)| {
        let counted = || code::CodeRecipe { counts: true, ..plain.clone() };
        let counted = variant.level.counts().then(|| (format!("{}, counted", named(variant)), counted()));
        std::iter::once((named(variant), plain.clone())).chain(counted)
    };
    variants.iter().zip(plain).flat_map(of).collect()
}

/// The recipe of a variant's image that does not count.
fn recipe(variant: &Variant, folder: &Path) -> Result<code::CodeRecipe> {
    if variant.scx.is_some() {
        return Err(Error::input("backend 'code' runs no sched_ext scheduler")
            .help("take backend 'vm' or 'host' for it"));
    }
    if schedlab_kernels::Image::open(&folder.join(&variant.kernel)).is_ok() {
        let text =
            format!("{} is a kernel's image, and backend 'code' compiles a kernel's source", variant.kernel);
        return Err(Error::input(text)
            .help("name a series (6.1) or the folder of a tree; backend 'vm' boots the image"));
    }
    let recipe = builds::recipe(variant, variant.config.as_ref(), folder)?;
    let (source, patches, fragment) = (recipe.source, recipe.patches, recipe.fragment);
    Ok(code::CodeRecipe { source, patches, fragment, counts: false })
}

fn compiler_of(
    wanted: &[(String, code::CodeRecipe)],
    cache: &Path,
    listener: &dyn Listener,
) -> Result<String> {
    code::compiler_of(wanted, shim::OVERLAY, cache, &mut |text| listener.note(text))
}

/// Builds an image, or finds it in the cache; reports moved hunks and the compiler's warnings about changed files.
///
/// # Errors
/// As [`code::build`].
pub fn build(recipe: &code::CodeRecipe, cache: &Path, listener: &dyn Listener) -> Result<code::MadeImage> {
    let compiler = compiler_of(&[("the image".to_owned(), recipe.clone())], cache, listener)?;
    build_by((recipe, &compiler), cache, listener)
}

fn build_by(
    wanted: (&code::CodeRecipe, &str),
    cache: &Path,
    listener: &dyn Listener,
) -> Result<code::MadeImage> {
    let mut progress = listener.build(builds::Estimate::of(cache));
    let made = code::build(wanted, shim::OVERLAY, cache, listener.stop_flag()?, &mut *progress);
    drop(progress);
    let made = made?;
    made.moved.iter().for_each(|hunk| listener.warn(&hunk.words()));
    made.warnings.iter().for_each(|warning| listener.warn(&format!("the compiler warns:\n{warning}")));
    Ok(made)
}

/// A tunable of ours under the tree's name, and the number of our units in one of the tree's.
const TUNABLES: &[(&str, &str, u64)] = &[
    ("sched_latency_ns", "latency_ns", 1),
    ("min_granularity_ns", "min_granularity_ns", 1),
    ("wakeup_granularity_ns", "wakeup_granularity_ns", 1),
    ("base_slice_ns", "base_slice_ns", 1),
    ("migration_cost_ns", "migration_cost_ns", 1),
    ("nr_migrate", "nr_migrate", 1),
    ("scale_by_cpus", "tunable_scaling", 1),
    ("autogroup", "sched_autogroup_enabled", 1),
    ("cfs_bandwidth_slice_ns", "sched_cfs_bandwidth_slice_us", 1_000),
    ("rt_period_ns", "sched_rt_period_us", 1_000),
    ("rt_runtime_ns", "sched_rt_runtime_us", 1_000),
    ("rr_timeslice_ns", "sched_rr_timeslice_ms", 1_000_000),
];

/// The tree's name of a tunable of ours; others have the tree's own.
pub(crate) fn name_in_tree(ours: &str) -> &str {
    TUNABLES.iter().find(|(name, ..)| *name == ours).map_or(ours, |(_, theirs, _)| *theirs)
}

/// Feature words and tunables as settings of the image's kernel. A tunable that our table does not have has the tree's
/// own name and unit.
///
/// # Errors
/// When the kernel's code has no file for a tunable.
pub fn settings(features: &[String], tunables: &BTreeMap<String, u64>) -> Result<Vec<Setting>> {
    let feature = |word: &String| match word.strip_prefix("NO_") {
        Some(name) => Setting::Feature(name.to_owned(), false),
        None => Setting::Feature(word.clone(), true),
    };
    let mut all: Vec<Setting> = features.iter().map(feature).collect();
    for (name, value) in tunables {
        if tunable::takes_words(name) {
            all.push(Setting::Tunable(name.clone(), tunable::text(name, *value)));
            continue;
        }
        let known = TUNABLES.iter().find(|(ours, ..)| ours == name);
        if known.is_none() && !patch_names::is_known(name) {
            all.push(Setting::Tunable(name.clone(), value.to_string()));
            continue;
        }
        let Some((_, theirs, units)) = known else {
            let text = format!("tunable {name} has no file in the kernel, so backend 'code' can't set it");
            return Err(Error::input(text).help("it is built in, or a property of tasks: leave it out"));
        };
        if value % units != 0 {
            let text = format!("{name} = {value} is not a whole number of the kernel's units, {units} each");
            return Err(Error::input(text).help(format!("take a multiple of {units}")));
        }
        all.push(Setting::Tunable((*theirs).to_owned(), (value / units).to_string()));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_compiler_builds_all_variants_and_their_images_that_count() {
        let folder = tempfile::tempdir().unwrap();
        let patch = "--- a/kernel/sched/fair.c\n+++ b/kernel/sched/fair.c\n@@ -1 +1 @@\n-a\n+b\n";
        std::fs::write(folder.path().join("p.patch"), patch).unwrap();
        let base = Variant { name: "base".to_owned(), level: Level::Free, ..Variant::plain("6.1") };
        let patched = Variant {
            name: "p".to_owned(),
            patch: vec!["p.patch".to_owned()],
            level: Level::Woven,
            ..Variant::plain("6.1")
        };
        let both = [&base, &patched];
        let plain: Vec<_> = both.map(|v| recipe(v, folder.path()).unwrap()).to_vec();
        let all = wanted(&both, &plain);
        let names: Vec<(&str, usize, bool)> =
            all.iter().map(|(name, r)| (name.as_str(), r.patches.len(), r.counts)).collect();
        let p = |name, counts| (name, 1, counts);
        assert_eq!(
            names,
            [("variant 'base'", 0, false), p("variant 'p'", false), p("variant 'p', counted", true)]
        );
    }

    #[test]
    fn a_preemption_model_is_set_in_debugfs_by_its_word() {
        let tunables = BTreeMap::from([("preempt".to_owned(), 2), ("rt_period_ns".to_owned(), 5_000_000)]);
        let set = |name: &str, value: &str| Setting::Tunable(name.to_owned(), value.to_owned());
        let all = settings(&[], &tunables).unwrap();
        let groups = settings(&[], &[("cgroup_mode".to_owned(), 3)].into()).unwrap();
        assert_eq!(groups, [set("cgroup_mode", "max")]);
        assert_eq!(all, [set("preempt", "full"), set("sched_rt_period_us", "5000")]);
    }
}
