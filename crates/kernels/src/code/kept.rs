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
const BTF: &str = "btf";

/// The sources and settings of an image.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Note {
    /// Hash of source, patches, configuration, compiler and shims: equal for equal images.
    pub key: String,
    /// The source's name, for readers.
    pub source: String,
    /// Identifies the content of the source's files.
    pub identity: String,
    pub patches: Vec<Applied>,
    /// The fragment on top of the built-in configuration.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fragment: Option<String>,
    /// Whether the image reports the code that it executes.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub counts: bool,
    /// The compiler's name and version.
    pub compiler: String,
    /// Hash of the overlay.
    pub shims: String,
    /// Features that the patches add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub features: Vec<Added>,
    /// Counters that the patches add.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub counters: Vec<String>,
    /// Names that the patches use and the image lacks: a run that reaches one ends.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lacks: Vec<String>,
    /// Requests of the fragment that the configuration does not fulfil, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unmet: Option<String>,
    /// Files that the patches change and that the image is not made of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outside: Vec<Outside>,
    /// Options of the configuration that the patches bring or change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub options: Vec<Setting>,
    /// All names that the image lacks: touching one ends the run.
    pub stubs: Vec<String>,
    /// The other files of the image's folder, each with the hash of its bytes.
    #[serde(default)]
    pub files: BTreeMap<String, String>,
}

impl Note {
    /// Parts of the patches and the fragment that have no effect in the image, or that end a run, in words.
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

#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Image {
    pub name: String,
    /// The shared object.
    pub object: PathBuf,
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
    /// The given options that its configuration sets: NAME for one that is on, NAME=VALUE for a number.
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
    /// The first file that differs from the one built; `None` if all are as built.
    pub fn altered(&self) -> Option<&str> {
        let is_whole = |name: &str| {
            let bytes = fs::read(self.folder().join(name)).ok();
            bytes.is_some_and(|bytes| self.note.files.get(name) == Some(&content_hash(&bytes)))
        };
        let names = &self.note.files;
        let first = (!names.contains_key(OBJECT)).then_some(OBJECT);
        first.or_else(|| names.keys().map(String::as_str).find(|name| !is_whole(name)))
    }
    /// Its BTF, if it has sched_ext.
    pub fn btf(&self) -> Option<PathBuf> {
        self.note.files.contains_key(BTF).then(|| self.folder().join(BTF))
    }
    fn folder(&self) -> &Path {
        self.object.parent().unwrap_or(Path::new("."))
    }
    pub fn size_bytes(&self) -> u64 {
        shelf::size(self.folder())
    }
    pub fn last_use(&self) -> Option<SystemTime> {
        shelf::last_use(self.folder(), NOTE)
    }
}

pub fn find(key: &str, cache: &Path) -> Option<Image> {
    let found = all(cache).into_iter().find(|image| image.note.key == key);
    found.inspect(|image| shelf::touch(image.folder(), NOTE))
}

/// Finds the image of a key. An image whose files were altered since it was built is removed and reported to `say`.
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
/// When writing fails.
pub(super) fn keep(note: &Note, linked: &Linked, config: &Path, cache: &Path) -> Result<Image> {
    let mut kept = vec![(linked.object.as_path(), OBJECT), (config, CONFIG)];
    kept.extend(linked.btf.as_deref().map(|btf| (btf, BTF)));
    let hashed = |(path, name): &(&Path, &str)| {
        let bytes = fs::read(path).map_err(|e| Error::io(path, "read", &e))?;
        Ok(((*name).to_owned(), content_hash(&bytes)))
    };
    let mut files = kept.iter().map(hashed).collect::<Result<BTreeMap<String, String>>>()?;
    files.insert(FUNCTIONS_FILE.to_owned(), content_hash(linked.functions.as_bytes()));
    let note = &Note { files, ..note.clone() };
    let text = serde_json::to_vec_pretty(note).map_err(|e| Error::internal(e.to_string()))?;
    let new = Shelved {
        shelf: cache::images(cache),
        name: &format!("{}-{}", crate::patches_name(&note.patches), &note.key[..8]),
        files: &kept,
        texts: &[(NOTE, &text), (FUNCTIONS_FILE, linked.functions.as_bytes())],
    };
    shelf::put(&new, open)
}
