//! The kernel's own code as a backend: the images of variants and their building.

pub(crate) mod image;
pub(crate) mod settings;

pub use image::CodeImage;
pub use settings::settings;

use crate::ask::cell::Cell;
use crate::ask::{builds, guests, scx};
use crate::listener::Listener;
use schedlab_base::{Error, Result};
use schedlab_kernel::variant::RUNNING;
use schedlab_kernel::{Policy, Variant};
use schedlab_kernels::{cache, code};
use schedlab_record::cell::{CodeSetup, Level};
use schedlab_transplant::shim;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A variant with the image that it runs on.
#[derive(Clone, Debug)]
pub struct Driven {
    /// The variant, with its name among the others.
    pub variant: Variant,
    pub image: CodeImage,
    /// Its name in the experiment; `None`: the experiment has no variant of the image's series.
    pub of: Option<String>,
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
    let real = variants.iter().filter(|v| v.kernel != RUNNING);
    let real = real.map(|v| scx::resolved(v, folder)).collect::<Result<Vec<_>>>()?;
    let real: Vec<&Variant> = real.iter().collect();
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

/// Ticks a second of images that are not asked for others (`shim/config`).
const USUAL_HZ: u64 = 250;

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
    if schedlab_kernels::Image::open(&folder.join(&variant.kernel)).is_ok() {
        let text =
            format!("{} is a kernel's image, and backend 'code' compiles a kernel's source", variant.kernel);
        return Err(Error::input(text)
            .help("name a series (6.1) or the folder of a tree; backend 'vm' boots the image"));
    }
    let recipe = builds::recipe(variant, variant.config.as_ref(), folder)?;
    let (source, patches) = (recipe.source, recipe.patches);
    let fragment = at_hz(recipe.fragment, variant.tunables.get("hz").copied())?;
    let has_ext = variant.has_schedulers() || asks_for_ext(variant);
    if has_ext {
        scx::has_class(&variant.kernel)?;
    }
    let fragment = if has_ext { Some(with_ext(fragment)) } else { fragment };
    Ok(code::CodeRecipe { source, patches, fragment, counts: false })
}

/// Whether tasks ask for SCHED_EXT, which only an image with the class takes.
fn asks_for_ext(variant: &Variant) -> bool {
    variant.tasks.values().any(|change| change.policy == Some(Policy::Ext))
}

/// What sched_ext needs: BPF, of which the image has its own, and debug data, from which its BTF is made.
const EXT: [&str; 5] =
    ["BPF_SYSCALL", "BPF_JIT", "BPF_JIT_ALWAYS_ON", "DEBUG_INFO_DWARF4", "SCHED_CLASS_EXT"];

fn with_ext(fragment: Option<(String, String)>) -> (String, String) {
    let (name, text) = fragment.unwrap_or_else(|| ("what sched_ext needs".to_owned(), String::new()));
    let options: String = EXT.iter().map(|option| format!("CONFIG_{option}=y\n")).collect();
    (name, format!("{text}{options}"))
}

/// A fragment that also asks for so many ticks a second, if the images' usual number is another.
///
/// # Errors
/// When no kernel can be configured so.
fn at_hz(fragment: Option<(String, String)>, hz: Option<u64>) -> Result<Option<(String, String)>> {
    let Some(hz) = hz.filter(|hz| fragment.is_some() || *hz != USUAL_HZ) else { return Ok(fragment) };
    if ![100, 250, 300, 1000].contains(&hz) {
        return Err(Error::input(format!("no kernel is configured with {hz} ticks a second (hz)"))
            .help("100, 250, 300 or 1000"));
    }
    let (name, text) = fragment.unwrap_or_else(|| (format!("hz = {hz}"), String::new()));
    // CONFIG_HZ_PERIODIC is another choice.
    let is_hz = |line: &str| {
        let rest = line.strip_prefix("CONFIG_HZ");
        rest.is_some_and(|rest| rest.starts_with(['=', '_']) && !rest.starts_with("_PERIODIC"))
    };
    let others = text.lines().filter(|line| !is_hz(line)).map(|line| format!("{line}\n"));
    Ok(Some((name, format!("{}CONFIG_HZ_{hz}=y\n", others.collect::<String>()))))
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_hz_is_asked_of_the_configuration() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("f"), "CONFIG_HZ_100=y\nCONFIG_X=y").unwrap();
        let of = |hz: u64, config: Option<&str>| {
            let config = config.map(str::to_owned);
            let variant =
                Variant { tunables: [("hz".to_owned(), hz)].into(), config, ..Variant::plain("6.1") };
            recipe(&variant, folder.path()).map(|made| made.fragment.map(|(_, text)| text))
        };
        assert_eq!(of(1000, None).unwrap().unwrap(), "CONFIG_HZ_1000=y\n");
        assert_eq!(of(250, None).unwrap(), None, "the image is the usual one");
        assert_eq!(of(250, Some("f")).unwrap().unwrap(), "CONFIG_X=y\nCONFIG_HZ_250=y\n");
        assert!(of(500, None).unwrap_err().to_string().contains("500 ticks"));
    }

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
}
