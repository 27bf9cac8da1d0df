//! Images in the cache, by name; each with the source, patches and configuration it was made of.

use super::Outside;
use super::link::Linked;
use crate::cache;
use crate::catalog::Applied;
use crate::diff::Added;
use crate::functions::FUNCTIONS_FILE;
use crate::kconfig::Setting;
use crate::shelf::{self, Shelved};
use schedlab_base::{Error, Result, Version, content_hash};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

const OBJECT: &str = "image.so";
const CONFIG: &str = "config";
const NOTE: &str = "image.json";
/// The files whose bytes runs depend on.
const FILES: [&str; 3] = [OBJECT, CONFIG, FUNCTIONS_FILE];

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
    /// Whether it reports what it executes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
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
    /// What the fragment asks for and the configuration does not have, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<String>,
    /// Files that the patches change and that the image is not made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<Outside>,
    /// Options of the configuration that the patches bring or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Setting>,
    /// All that the image lacks: names that end the run when they are touched.
    pub stubs: Vec<String>,
    /// The other files of its folder, each with the hash of its bytes.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

impl Note {
    /// What of its patches and its fragment has no effect in the image, or ends a run, in words.
    pub fn warnings(&self) -> Vec<String> {
        let outside = self.outside.iter().map(Outside::words);
        let lacks = self.lacks.iter().map(|name| {
            format!(
                "the patches add a use of {name}, which the image lacks: a run ends where that is reached"
            )
        });
        outside.chain(lacks).chain(self.unmet.clone()).collect()
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
        self.options(&[name]).contains(&name.to_owned())
    }
    /// Those of these options that its configuration has: names of those that are on, NAME=VALUE of numbers.
    pub fn options(&self, names: &[&str]) -> Vec<String> {
        let text = fs::read_to_string(self.object.with_file_name(CONFIG)).unwrap_or_default();
        let set: BTreeMap<&str, &str> =
            text.lines().filter_map(|l| l.strip_prefix("CONFIG_")?.split_once('=')).collect();
        let one = |name: &&str| match *set.get(*name)? {
            "y" => Some((*name).to_owned()),
            value => Some(format!("{name}={value}")),
        };
        names.iter().filter_map(one).collect()
    }
    /// The first of its files that is not as it was built; `None`: it is whole.
    pub fn altered(&self) -> Option<&'static str> {
        let is_whole = |name: &str| {
            let bytes = fs::read(self.folder().join(name)).ok();
            bytes.is_some_and(|bytes| self.note.files.get(name) == Some(&content_hash(&bytes)))
        };
        FILES.into_iter().find(|name| !is_whole(name))
    }
    fn folder(&self) -> &Path {
        self.object.parent().unwrap_or(Path::new("."))
    }
    /// The bytes of its files.
    pub fn size_bytes(&self) -> u64 {
        shelf::size(self.folder())
    }
    /// When it was used last.
    pub fn last_use(&self) -> Option<SystemTime> {
        shelf::last_use(self.folder(), NOTE)
    }
}

/// The image of a key, if the cache has it.
pub fn find(key: &str, cache: &Path) -> Option<Image> {
    let found = all(cache).into_iter().find(|image| image.note.key == key);
    found.inspect(|image| shelf::touch(image.folder(), NOTE))
}

/// The whole image of a key. One whose files were altered since it was built is removed, and `say` gets a word of it.
///
/// # Errors
/// When it can't be removed.
pub(super) fn find_whole(key: &str, cache: &Path, say: &mut dyn FnMut(&str)) -> Result<Option<Image>> {
    let Some(image) = find(key, cache) else { return Ok(None) };
    let Some(file) = image.altered() else { return Ok(Some(image)) };
    say(&format!("{file} of image {} is not as it was built: the image is built again", image.name));
    fs::remove_dir_all(image.folder()).map_err(|e| Error::io(image.folder(), "remove", &e))?;
    Ok(None)
}

/// All images of the cache, by name.
pub fn all(cache: &Path) -> Vec<Image> {
    cache::entries(&cache::images(cache)).iter().filter_map(|folder| open(folder).ok()).collect()
}

/// The image in a folder.
///
/// # Errors
/// When it is not an image's folder.
pub fn open(folder: &Path) -> Result<Image> {
    let note = shelf::note(folder, NOTE)?;
    let object = folder.join(OBJECT);
    if !object.is_file() {
        return Err(Error::input(format!("{}: incomplete", folder.display())));
    }
    Ok(Image { name: shelf::name(folder), object, note })
}

/// Puts a finished image and its configuration into the cache.
///
/// # Errors
/// When the disk does not take it.
pub(super) fn keep(note: &Note, linked: &Linked, config: &Path, cache: &Path) -> Result<Image> {
    let hash_of =
        |path: &Path| fs::read(path).map(|b| content_hash(&b)).map_err(|e| Error::io(path, "read", &e));
    let hashes = [hash_of(&linked.object)?, hash_of(config)?, content_hash(linked.functions.as_bytes())];
    let files = FILES.into_iter().map(str::to_owned).zip(hashes).collect();
    let note = &Note { files, ..note.clone() };
    let text = serde_json::to_vec_pretty(note).map_err(|e| Error::internal(e.to_string()))?;
    let new = Shelved {
        shelf: cache::images(cache),
        name: &format!("{}-{}", crate::patches_name(&note.patches), &note.key[..8]),
        files: &[(&linked.object, OBJECT), (config, CONFIG)],
        texts: &[(NOTE, &text), (FUNCTIONS_FILE, linked.functions.as_bytes())],
    };
    shelf::put(&new, open)
}
