//! Built kernels in the cache, by name; each with the source, patches and configuration it was made of.

use crate::diff::Added;
use crate::functions::FUNCTIONS_FILE;
use crate::kconfig::Setting;
use crate::shelf::{self, Shelved};
use crate::{Image, cache};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::path::Path;

/// The image in a build's folder.
pub const IMAGE: &str = "vmlinuz";
pub const CONFIG: &str = "config";
const NOTE: &str = "built.json";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Applied {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Hash of the changes.
    pub hash: String,
}

/// The sources and settings of a built kernel.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Hash of everything below: equal for equal kernels.
    pub key: String,
    /// The source's name, for readers.
    pub source: String,
    /// Identifies the content of the source's files.
    pub identity: String,
    pub patches: Vec<Applied>,
    /// The fragment on top of the built-in configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
    /// The compiler's name and version.
    pub compiler: String,
    /// Features that the patches add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Added>,
    /// Counters that the patches add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
    /// Configuration options that the patches add or whose default they change, with their values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Setting>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    pub name: String,
    pub image: Image,
    pub note: Note,
}

#[derive(Clone, Copy, Debug)]
pub struct Files<'a> {
    /// The bzImage.
    pub image: &'a Path,
    pub config: &'a Path,
    /// The table of the scheduler's functions.
    pub functions: &'a str,
}

/// The build of a key, if the cache has it.
pub fn find(key: &str, cache: &Path) -> Option<Built> {
    let found = all(cache).into_iter().find(|built| built.note.key == key);
    found.inspect(|built| built.image.path.parent().iter().for_each(|folder| shelf::touch(folder, NOTE)))
}

/// All builds of the cache, by name.
pub fn all(cache: &Path) -> Vec<Built> {
    cache::entries(&cache::builds(cache)).iter().filter_map(|folder| open(folder).ok()).collect()
}

/// The build in a folder.
///
/// # Errors
/// When it is not a built kernel's folder.
pub fn open(folder: &Path) -> Result<Built> {
    let note = shelf::note(folder, NOTE)?;
    if !folder.join(FUNCTIONS_FILE).is_file() {
        return Err(Error::input(format!("{}: incomplete", folder.display())));
    }
    Ok(Built { name: shelf::name(folder), image: Image::open(&folder.join(IMAGE))?, note })
}

/// Puts a finished image and its configuration into the cache.
///
/// # Errors
/// When writing fails, or the image is not a kernel.
pub fn keep(note: &Note, name: &str, files: Files<'_>, cache: &Path) -> Result<Built> {
    let text = serde_json::to_vec_pretty(note).map_err(|e| Error::internal(e.to_string()))?;
    let new = Shelved {
        shelf: cache::builds(cache),
        name,
        files: &[(files.image, IMAGE), (files.config, CONFIG)],
        texts: &[(FUNCTIONS_FILE, files.functions.as_bytes()), (NOTE, &text)],
    };
    shelf::put(&new, open)
}
