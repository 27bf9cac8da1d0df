//! Images in the cache, by name; each with the source, patches and configuration it was made of.

use super::Outside;
use crate::cache;
use crate::catalog::Applied;
use crate::diff::Added;
use crate::kconfig::Setting;
use schedlab_base::{Error, Result, Version, temp};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

const OBJECT: &str = "image.so";
const CONFIG: &str = "config";
const NOTE: &str = "image.json";

/// What an image was made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Hash of source, patches, configuration, compiler and shims: equal for equal images.
    pub key: String,
    /// The source, for people.
    pub source: String,
    /// What the source's files are.
    pub identity: String,
    pub patches: Vec<Applied>,
    /// The fragment on top of the built-in configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
    /// The compiler's name and version.
    pub compiler: String,
    /// Hash of the overlay.
    pub shims: String,
    /// Features that the patches add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Added>,
    /// Counters that they add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
    /// What the patches name that the image lacks: a run ends where that is reached.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Files that the patches change and that the image is not made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<Outside>,
    /// Options of the configuration that the patches bring or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Setting>,
    /// All that the image lacks: names that end the run when they are touched.
    pub stubs: Vec<String>,
}

impl Note {
    /// What of its patches has no effect in the image, or ends a run, in words.
    pub fn warnings(&self) -> Vec<String> {
        let outside = self.outside.iter().map(Outside::words);
        let lacks = self.lacks.iter().map(|name| {
            format!(
                "the patches add a use of {name}, which the image lacks: a run ends where that is reached"
            )
        });
        outside.chain(lacks).collect()
    }
}

/// An image in the cache.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    pub name: String,
    /// The shared object.
    pub object: PathBuf,
    /// What it was made of.
    pub note: Note,
}

impl Image {
    /// The release of its tree, as its configuration's heading has it.
    ///
    /// # Errors
    /// When the configuration can't be read, or has no such heading.
    pub fn version(&self) -> Result<Version> {
        let config = self.object.with_file_name(CONFIG);
        let text = fs::read_to_string(&config).map_err(|e| Error::io(&config, "read", &e))?;
        let word = text.lines().find_map(|l| l.strip_prefix("# Linux/")?.split_whitespace().nth(1));
        let missing = || Error::internal(format!("{} has no heading with a version", config.display()));
        Version::parse(word.ok_or_else(missing)?.split('-').next().unwrap_or_default())
    }
    /// Whether an option of its configuration is on, named without CONFIG_.
    pub fn has_option(&self, name: &str) -> bool {
        let text = fs::read_to_string(self.object.with_file_name(CONFIG)).unwrap_or_default();
        text.lines().any(|l| l.strip_prefix("CONFIG_").and_then(|l| l.strip_prefix(name)) == Some("=y"))
    }
}

/// The image of a key, if the cache has it.
pub fn find(key: &str, cache: &Path) -> Option<Image> {
    all(cache).into_iter().find(|image| image.note.key == key)
}

/// All images of the cache, by name.
pub fn all(cache: &Path) -> Vec<Image> {
    cache::entries(&cache::images(cache)).iter().filter_map(|folder| open(folder).ok()).collect()
}

fn open(folder: &Path) -> Result<Image> {
    let path = folder.join(NOTE);
    let text = fs::read(&path).map_err(|e| Error::io(&path, "read", &e))?;
    let note = serde_json::from_slice(&text).map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
    let object = folder.join(OBJECT);
    if !object.is_file() {
        return Err(Error::input(format!("{}: incomplete", folder.display())));
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Image { name, object, note })
}

/// Puts a finished image and its configuration into the cache.
///
/// # Errors
/// When the disk does not take it.
pub(super) fn keep(note: &Note, object: &Path, config: &Path, cache: &Path) -> Result<Image> {
    let images = cache::images(cache);
    fs::create_dir_all(&images).map_err(|e| Error::io(&images, "make", &e))?;
    let folder = temp::TempFolder::create(&images, ".image-", 0o755)?;
    for (from, to) in [(object, OBJECT), (config, CONFIG)] {
        fs::copy(from, folder.path.join(to)).map_err(|e| Error::io(from, "copy", &e))?;
    }
    let text = serde_json::to_vec_pretty(note).map_err(|e| Error::internal(e.to_string()))?;
    let path = folder.path.join(NOTE);
    fs::write(&path, text).map_err(|e| Error::io(&path, "write", &e))?;
    let place = images.join(format!("{}-{}", crate::patches_name(&note.patches), &note.key[..8]));
    if place.exists() && open(&place).is_err() {
        fs::remove_dir_all(&place).map_err(|e| Error::io(&place, "remove the incomplete", &e))?;
    }
    // Another process may have built the same meanwhile.
    if !place.exists() {
        folder.rename_to(&place).map_err(|e| Error::io(&place, "make", &e))?;
    }
    open(&place)
}
