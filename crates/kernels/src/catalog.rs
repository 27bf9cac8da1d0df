//! Built kernels in the cache, by name; each with the source, patches and configuration it was made of.

use crate::diff::Added;
use crate::functions::FUNCTIONS_FILE;
use crate::kconfig::Setting;
use crate::{Image, cache};
use schedlab_base::{Error, Result};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// The image in a build's folder.
pub const IMAGE: &str = "vmlinuz";
pub const CONFIG: &str = "config";
const NOTE: &str = "built.json";

#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Applied {
    pub name: String,
    /// The mail's subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// Hash of the changes.
    pub hash: String,
}

/// What a kernel was made of.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Hash of everything below: equal for equal kernels.
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
    /// Features that the patches add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Added>,
    /// Counters that they add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
    /// Options of the configuration that they bring, or give another default, as they are set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Setting>,
}

/// A built kernel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Built {
    pub name: String,
    pub image: Image,
    /// What it was made of.
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
    all(cache).into_iter().find(|built| built.note.key == key)
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
    let path = folder.join(NOTE);
    let text = fs::read(&path).map_err(|e| Error::io(&path, "read", &e))?;
    let note = serde_json::from_slice(&text).map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
    if !folder.join(FUNCTIONS_FILE).is_file() {
        return Err(Error::input(format!("{}: incomplete", folder.display())));
    }
    let name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
    Ok(Built { name, image: Image::open(&folder.join(IMAGE))?, note })
}

/// Puts a finished image and its configuration into the cache.
///
/// # Errors
/// When the disk does not take it, or the image is not a kernel.
pub fn keep(note: &Note, name: &str, files: Files<'_>, cache: &Path) -> Result<Built> {
    let builds = cache::builds(cache);
    fs::create_dir_all(&builds).map_err(|e| Error::io(&builds, "make", &e))?;
    let folder = schedlab_base::temp::TempFolder::create(&builds, ".build-", 0o755)?;
    for (from, to) in [(files.image, IMAGE), (files.config, CONFIG)] {
        fs::copy(from, folder.path.join(to)).map_err(|e| Error::io(from, "copy", &e))?;
    }
    let functions = folder.path.join(FUNCTIONS_FILE);
    fs::write(&functions, files.functions).map_err(|e| Error::io(&functions, "write", &e))?;
    let text = serde_json::to_vec_pretty(note).map_err(|e| Error::internal(e.to_string()))?;
    let path = folder.path.join(NOTE);
    fs::write(&path, text).map_err(|e| Error::io(&path, "write", &e))?;
    Image::open(&folder.path.join(IMAGE))?;
    let place: PathBuf = builds.join(name);
    if place.exists() && open(&place).is_err() {
        fs::remove_dir_all(&place).map_err(|e| Error::io(&place, "remove the incomplete", &e))?;
    }
    // Another process may have built the same meanwhile.
    if !place.exists() {
        folder.rename_to(&place).map_err(|e| Error::io(&place, "make", &e))?;
    }
    open(&place)
}
