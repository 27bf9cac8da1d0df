//! The image of a variant, as the cache has it.

use schedlab_base::{Error, Result, Version};
use schedlab_kernels::{self as kernels, cache, code};
use schedlab_record::cell::{CodeSetup, Level};
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

/// A variant's image: where it is, and what it was made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CodeImage {
    /// The shared object.
    pub object: PathBuf,
    /// The release of its tree.
    pub version: Version,
    /// Its preemption model, by the kernel's number.
    pub preempt: u8,
    /// Ticks a second (CONFIG_HZ).
    pub hz: u64,
    pub setup: CodeSetup,
    /// The shared object of the image that does not count, if this one does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plain: Option<PathBuf>,
    /// What of its patches and its fragment has no effect in it, or ends a run.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
    /// Options of the configuration that its patches bring or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<kernels::Setting>,
}

impl CodeImage {
    /// The image in the cache with that shared object.
    ///
    /// # Errors
    /// When its folder is not an image's.
    pub fn open(object: &Path) -> Result<CodeImage> {
        CodeImage::of(&code::open(object.parent().unwrap_or(Path::new(".")))?, None)
    }
    /// The image in the cache with that shared object, which counts, and beside it the one that does not.
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
    /// When the cache has it no more, or has it altered: another one may make another run.
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
    /// An image, and beside one that counts the one of the same tree that does not.
    pub(super) fn of(image: &code::Image, plain: Option<&code::Image>) -> Result<CodeImage> {
        let note = &image.note;
        Ok(CodeImage {
            object: image.object.clone(),
            version: image.version()?,
            preempt: preempt_of(image),
            hz: hz_of(image).ok_or_else(|| Error::internal(format!("image {} without HZ", image.name)))?,
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

fn hz_of(image: &code::Image) -> Option<u64> {
    image.options(&["HZ"]).first()?.strip_prefix("HZ=")?.parse().ok()
}

/// The preemption model of an image, by the kernel's number ([`schedlab_kernel::preempt`]).
fn preempt_of(image: &code::Image) -> u8 {
    let options = ["PREEMPT_NONE", "PREEMPT_VOLUNTARY", "PREEMPT", "PREEMPT_LAZY"];
    let on = options.iter().rposition(|option| image.has_option(option));
    on.unwrap_or_default() as u8
}
